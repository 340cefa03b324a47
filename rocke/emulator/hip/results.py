"""Results through pointers: each write refuses a null pointer."""

from __future__ import annotations

import ctypes

from rocke.emulator.hip.errors import HipCode, HipFailure


def _checked(address: int) -> int:
    if not address:
        raise HipFailure(HipCode.INVALID_VALUE, "the pointer for a result is null")
    return address


def put_int(address: int, value: int) -> None:
    """Store a 32-bit integer."""
    ctypes.c_uint32.from_address(_checked(address)).value = value & 0xFFFF_FFFF


def put_word(address: int, value: int) -> None:
    """Store a 64-bit integer, size, pointer or handle."""
    ctypes.c_uint64.from_address(_checked(address)).value = value


def put_float(address: int, value: float) -> None:
    """Store a 32-bit float."""
    ctypes.c_float.from_address(_checked(address)).value = value


def put_bytes(address: int, value: bytes) -> None:
    """Store bytes."""
    ctypes.memmove(_checked(address), value, len(value))


def put_text(address: int, value: str, room: int) -> None:
    """Store a C string in ``room`` bytes, cut to fit."""
    if room < 1:
        raise HipFailure(HipCode.INVALID_VALUE, f"room for {room} characters")
    put_bytes(address, value.encode()[: room - 1] + b"\0")
