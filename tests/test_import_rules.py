"""Which part of rocke may import which: the source is walked, and every other arrow fails.

Imports inside functions, under ``TYPE_CHECKING`` and through ``importlib.import_module`` with a
literal name count like any other.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE_OBJECT = "rocke.compiler.code_object"
LINE_TABLE = "rocke.compiler.line_table"
DEVICE = "rocke.runtime.device"

ALLOWED = {
    "core": {"mlir"},
    "arch": set(),
    "helpers": {"rocke.core", "rocke.arch"},
    "compiler": {
        *("rocke.core", "rocke.arch"),
        *("mlir", "llvmlite", "ziglang", "elftools", "msgpack", "numpy"),
    },
    "runtime": {CODE_OBJECT, "hip", "numpy", "ml_dtypes"},
    "emulator": {
        *("rocke.arch", CODE_OBJECT, LINE_TABLE, DEVICE),
        *("llvmlite", "rocm", "elftools", "numpy", "ml_dtypes"),
    },
    "kernels": {"rocke.core", "rocke.arch", "rocke.helpers", "numpy", "ml_dtypes"},
    "attention": {
        *("rocke.kernels", "rocke.arch", "rocke.compiler", "rocke.runtime", "rocke.devices"),
        *("numpy", "ml_dtypes"),
    },
    "library": {
        *("rocke.compiler", "rocke.runtime", "rocke.kernels", "rocke.arch"),
        *("numpy", "tomllib", "tomli"),
    },
    "cli": {
        *("rocke.core", "rocke.arch", "rocke.helpers", "rocke.compiler", "rocke.runtime"),
        *("rocke.emulator", "rocke.kernels", "rocke.library"),
        *("click", "rich", "numpy", "ml_dtypes", "tomllib", "tomli", "hip"),
        *("mlir", "llvmlite"),
    },
    "testing": {
        *("rocke.emulator", "rocke.runtime", "rocke.compiler"),
        *("pytest", "numpy", "hip"),
    },
    "": {"rocke"},
}
"""Room -> module prefixes; the standard library and the room itself are always allowed."""


def rooms():
    for path in sorted(ROOT.joinpath("rocke").rglob("*.py")):
        parts = path.relative_to(ROOT / "rocke").parts
        yield (parts[0] if len(parts) > 1 else ""), path
    for path in sorted(ROOT.joinpath("kernels").rglob("*.py")):
        yield "kernels", path


def module_name(path: Path) -> tuple[str, bool]:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "kernels":
        parts.insert(0, "rocke")
    package = parts[-1] == "__init__"
    return ".".join(parts[:-1] if package else parts), package


def imports(source: str, module: str, package: bool):
    """Every imported module with its line; ``from a import b`` gives ``a.b`` too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: None if package else -1]
                parents = parents[: len(parents) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            target = node.args[0]
            if name in ("import_module", "__import__") and isinstance(target, ast.Constant):
                yield str(target.value), node.lineno


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def forbidden(room: str, name: str) -> bool:
    own = f"rocke.{room}" if room else "rocke"
    if name.split(".")[0] in sys.stdlib_module_names and not within(name, "tomllib"):
        return False
    return not any(within(name, prefix) for prefix in {own, *ALLOWED[room]})


def violations(room: str, source: str, module: str, package: bool = False):
    return [
        f"{module}:{line} imports {name}"
        for name, line in imports(source, module, package)
        if forbidden(room, name)
    ]


def test_every_arrow_is_allowed():
    found = []
    for room, path in rooms():
        assert room in ALLOWED, f"{path}: the table of this test does not know room {room!r}"
        found += violations(room, path.read_text(), *module_name(path))
    assert not found, "imports that the architecture does not allow:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("emulator", "import mlir.ir"),
        ("emulator", "def f():\n    from rocke.kernels import registry"),
        ("emulator", "from rocke.runtime import launcher"),
        ("emulator", "from rocke.compiler import compile_kernel"),
        ("emulator", "from .. import kernels"),
        ("kernels", "if TYPE_CHECKING:\n    from rocke.runtime import Device"),
        ("core", "from rocke.arch import target"),
        ("core", "from ..arch import target"),
        ("arch", "import numpy"),
        ("attention", "from rocke.cli.devices import open_device"),
        ("runtime", "import importlib\nimportlib.import_module('rocke.emulator')"),
        ("helpers", "import mlir"),
    ],
)
def test_a_forbidden_arrow_is_found(room, source):
    assert len(violations(room, source, f"rocke.{room}.module")) == 1


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("emulator", "from rocke.compiler.code_object import CodeObject"),
        ("emulator", "from .state import VGPR"),
        ("kernels", "from rocke.core.ir import IRBuilder\nimport math"),
        ("core", "from mlir.dialects import arith"),
    ],
)
def test_an_allowed_arrow_is_not_reported(room, source):
    assert violations(room, source, f"rocke.{room}.module") == []


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("rocke", ["numpy", "mlir", "llvmlite"]),
        ("rocke.arch", ["numpy", "mlir", "llvmlite"]),
        ("rocke.runtime", ["mlir", "llvmlite", "hip", "rocm"]),
        ("rocke.compiler.code_object", ["mlir", "llvmlite"]),
        ("rocke.emulator", ["mlir", "rocke.core", "rocke.kernels"]),
        ("rocke.attention", ["numpy", "mlir", "llvmlite", "rocke.kernels", "rocke.emulator"]),
        ("rocke.attention.tensors", ["mlir", "llvmlite", "rocke.kernels", "rocke.emulator"]),
        ("rocke.library", ["numpy", "mlir", "llvmlite", "rocke.kernels", "rocke.emulator"]),
        ("rocke.library.library", ["mlir", "llvmlite", "rocke.core", "rocke.kernels"]),
        ("rocke.cli.main", ["numpy", "mlir", "llvmlite", "rich"]),
        ("rocke.testing.plugin", ["numpy", "mlir", "llvmlite", "hip", "rocm"]),
        ("rocke.emulator.hip", ["numpy", "llvmlite", "hip", "rocm"]),
    ],
)
def test_importing_a_module_does_not_load(module, absent):
    code = f"import sys, {module}; print([m for m in {absent} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
