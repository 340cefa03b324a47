"""The IR: types, values, the builder and the kernel it makes; see `rocke.core.ir`.

Building kernels needs MLIR: without it the import says what to install.
"""

from importlib.util import find_spec

if find_spec("mlir") is None:
    raise ModuleNotFoundError(
        "building kernels needs mlir, which is not installed: pip install 'rocke[compiler]'",
        name="mlir",
    )
