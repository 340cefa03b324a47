"""Copies and fills by address, with the bounds of the allocations that they touch."""

from __future__ import annotations

import ctypes

import numpy as np

from rocke.emulator.hip import peek
from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.hip.memory import (
    DEVICE_DESTINATION,
    DEVICE_SOURCE,
    Allocation,
    CopyKind,
    HipMemory,
    Origin,
)

_Ends = tuple[Allocation | None, Allocation | None]


def copy(memory: HipMemory, destination: int, source: int, nbytes: int, kind: int) -> None:
    """``hipMemcpy``."""
    direction = _direction(kind)
    if nbytes:
        ends = _check_ends(memory, (destination, nbytes), (source, nbytes), direction)
        _require_ends(ends, (destination, 0), (source, 0), nbytes)
        _move(ends, destination, source, nbytes)


def copy_2d(
    memory: HipMemory,
    destination: tuple[int, int],
    source: tuple[int, int],
    width: int,
    height: int,
    kind: int,
) -> None:
    """``hipMemcpy2D``: each end is (address, pitch); ``width`` and pitches are in bytes."""
    direction = _direction(kind)
    if not width or not height:
        return
    for what, (_, pitch) in (("destination", destination), ("source", source)):
        _check_pitch(what, pitch, width)
    to, begin = (
        (address, (height - 1) * pitch + width) for address, pitch in (destination, source)
    )
    ends = _check_ends(memory, to, begin, direction)
    _require_ends(ends, destination, source, width, height)
    for row in range(height):
        _move(ends, destination[0] + row * destination[1], source[0] + row * source[1], width)


def fill(memory: HipMemory, address: int, value: int, itemsize: int, count: int) -> None:
    """``hipMemset``: ``count`` items of ``itemsize`` bytes."""
    if count:
        found = memory.check("destination", address, count * itemsize, device=True)
        if _of_the_caller(found):
            peek.require("destination", address, "w", count * itemsize)
        _fill(found, address, value, itemsize, count)


def fill_2d(
    memory: HipMemory, address: int, pitch: int, value: int, width: int, height: int
) -> None:
    """``hipMemset2D``: ``width`` and ``pitch`` are in bytes."""
    if not width or not height:
        return
    _check_pitch("destination", pitch, width)
    found = memory.check("destination", address, (height - 1) * pitch + width, device=True)
    if _of_the_caller(found):
        peek.require("destination", address, "w", width, pitch, height)
    for row in range(height):
        _fill(found, address + row * pitch, value, 1, width)


def _direction(kind: int) -> CopyKind:
    try:
        return CopyKind(kind)
    except ValueError:
        raise HipFailure(
            HipCode.INVALID_MEMCPY_DIRECTION, f"copy kind {kind} is not known"
        ) from None


def _check_pitch(what: str, pitch: int, width: int) -> None:
    if width > pitch:
        raise HipFailure(
            HipCode.INVALID_PITCH_VALUE, f"{what} pitch {pitch} is less than the width {width}"
        )


def _check_ends(
    memory: HipMemory, destination: tuple[int, int], source: tuple[int, int], direction: CopyKind
) -> _Ends:
    to_device, from_device = direction in DEVICE_DESTINATION, direction in DEVICE_SOURCE
    return (
        memory.check("destination", *destination, device=to_device),
        memory.check("source", *source, device=from_device),
    )


def _of_the_caller(found: Allocation | None) -> bool:
    """Whether memory may not be there: the caller alone knows of it, or can give it back."""
    return found is None or found.origin is Origin.REGISTERED


def _require_ends(
    ends: _Ends,
    destination: tuple[int, int],
    source: tuple[int, int],
    width: int,
    height: int = 1,
) -> None:
    """Refuse memory of the caller that is not there; each end is (address, pitch)."""
    each = zip(ends, ("destination", "source"), (destination, source), "wr", strict=True)
    for found, what, (address, pitch), right in each:
        if _of_the_caller(found):
            peek.require(what, address, right, width, pitch, height)


def _move(ends: _Ends, destination: int, source: int, nbytes: int) -> None:
    if any(_of_the_caller(end) for end in ends):
        peek.copy(destination, source, nbytes)
    else:
        ctypes.memmove(destination, source, nbytes)


def _fill(found: Allocation | None, address: int, value: int, itemsize: int, count: int) -> None:
    pattern = (value & ((1 << 8 * itemsize) - 1)).to_bytes(itemsize, "little")
    if found is None or _of_the_caller(found):
        peek.write(address, pattern * count)
        return
    raw = (ctypes.c_uint8 * (count * itemsize)).from_address(address)
    np.ctypeslib.as_array(raw).reshape(count, itemsize)[:] = np.frombuffer(pattern, np.uint8)
