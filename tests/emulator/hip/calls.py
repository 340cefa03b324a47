"""Short forms for tests that call HIP through ``hip-python``."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from hip import hip

from rocke.compiler.code_object import CodeObject
from rocke.emulator.hip.stand_in import STAND_IN
from tests.emulator import small_kernels

KIND = hip.hipMemcpyKind
ERROR = hip.hipError_t


def check(result: tuple[Any, ...]) -> Any:
    """The results of a call that must succeed."""
    error, *values = result
    assert error == ERROR.hipSuccess, f"{error}: {STAND_IN.session().failure}"
    return values[0] if len(values) == 1 else tuple(values)


def refused(result: tuple[Any, ...], code: str) -> str:
    """What the stand-in says about a call that must fail with ``hipError<code>``."""
    assert result[0] == ERROR[f"hipError{code}"], result
    return str(STAND_IN.session().failure)


def to_device(array: np.ndarray) -> Any:
    """A device copy of an array."""
    memory = check(hip.hipMalloc(array.nbytes))
    check(hip.hipMemcpy(memory, array, array.nbytes, KIND.hipMemcpyHostToDevice))
    return memory


def to_host(memory: Any, like: np.ndarray) -> np.ndarray:
    """A host copy of the start of device memory."""
    array = np.zeros_like(like)
    check(hip.hipMemcpy(array, memory, array.nbytes, KIND.hipMemcpyDeviceToHost))
    return array


@functools.cache
def code_object(name: str, arch: str = "gfx942") -> CodeObject:
    """One of the small kernels, built."""
    return small_kernels.build(getattr(small_kernels, name), arch)


def get_kernel(name: str, arch: str = "gfx942") -> Any:
    """One of the small kernels, loaded from bytes."""
    module = check(hip.hipModuleLoadData(code_object(name, arch).data))
    return check(hip.hipModuleGetFunction(module, name.lower().encode()))


def launch(kernel: Any, grid: Any, block: Any, extra: Any, **options: Any) -> tuple[Any, ...]:
    """``hipModuleLaunchKernel`` with a packed buffer."""
    settings = {"sharedMemBytes": 0, "stream": None, "kernelParams": None, **options}
    return hip.hipModuleLaunchKernel(kernel, *grid, *block, extra=extra, **settings)


def add_arguments(count: int = 1000, n: int | None = None) -> tuple[Any, ...]:
    """Arguments of the ``add`` kernel, and the host arrays: (arguments, a, b, c on the device)."""
    a = np.arange(count, dtype=np.float32)
    b = np.linspace(0, 1, count, dtype=np.float32)
    c = to_device(np.zeros(count, np.float32))
    arguments = (to_device(a), to_device(b), c, ctypes.c_int(count if n is None else n))
    return arguments, a, b, c
