"""What a device call must be given, checked before C sees it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rocke.compiler.code_object import CodeObject
from rocke.runtime.device import DeviceError, is_count

_MOST_BYTES = (1 << 64) - 1
_MOST_UNSIGNED = (1 << 32) - 1


def check_bytes(call: str, nbytes: object) -> int:
    """The size of an allocation; raises :class:`DeviceError` unless it is one."""
    if not is_count(nbytes, 1, _MOST_BYTES):
        raise DeviceError(f"{call}: {nbytes!r} bytes, expected at least 1, as an integer")
    return int(nbytes)


def check_array(call: str, array: object, room: int) -> None:
    """Refuse what is no C-contiguous array of numbers of at most ``room`` bytes."""
    if not isinstance(array, np.ndarray):
        raise DeviceError(f"{call}: {type(array).__name__}, expected a numpy array")
    if array.dtype.hasobject:
        raise DeviceError(f"{call}: an array of Python objects has no bytes to copy")
    if not array.flags.c_contiguous:
        raise DeviceError(f"{call}: the array is not C-contiguous (strides {array.strides})")
    if array.nbytes > room:
        raise DeviceError(f"{call}: {array.nbytes} bytes, the buffer has {room}")


def check_code_object(call: str, code_object: object) -> None:
    """Refuse what is no code object."""
    if not isinstance(code_object, CodeObject):
        raise DeviceError(
            f"{call}: {type(code_object).__name__}, expected a CodeObject: CodeObject.from_bytes "
            "reads the bytes of a file"
        )


def check_launch(where: str, grid: object, block: object, kernargs: object, lds: object) -> None:
    """Refuse sizes that are no three integers from 1 on, and arguments that are no bytes."""
    for what, sizes in (("grid", grid), ("block", block)):
        given = list(sizes) if isinstance(sizes, (Sequence, np.ndarray)) else []
        if len(given) != 3 or not all(is_count(s, 1, _MOST_UNSIGNED) for s in given):
            raise DeviceError(
                f"{where}: {what} is {sizes!r}, expected three integers from 1 to {_MOST_UNSIGNED}"
            )
    if not is_count(lds, 0, _MOST_UNSIGNED):
        raise DeviceError(f"{where}: dynamic_lds is {lds!r}, expected bytes from 0 on")
    if not isinstance(kernargs, (bytes, bytearray, memoryview)):
        raise DeviceError(f"{where}: kernargs is {type(kernargs).__name__}, expected bytes")
