"""Results through pointers: each write refuses a null pointer and one that leads nowhere."""

from __future__ import annotations

import struct

from rocke.emulator.hip import peek
from rocke.emulator.hip.errors import HipCode, HipFailure


def put_int(address: int, value: int) -> None:
    """Store a 32-bit integer."""
    put_bytes(address, struct.pack("<I", value & 0xFFFF_FFFF))


def put_word(address: int, value: int) -> None:
    """Store a 64-bit integer, size, pointer or handle."""
    put_bytes(address, struct.pack("<Q", value))


def put_float(address: int, value: float) -> None:
    """Store a 32-bit float."""
    put_bytes(address, struct.pack("<f", value))


def put_bytes(address: int, value: bytes) -> None:
    """Store bytes."""
    if not address:
        raise HipFailure(HipCode.INVALID_VALUE, "the pointer for a result is null")
    peek.write(address, value)


def put_text(address: int, value: str, room: int) -> None:
    """Store a C string in ``room`` bytes, cut to fit."""
    if room < 1:
        raise HipFailure(HipCode.INVALID_VALUE, f"room for {room} characters")
    put_bytes(address, value.encode()[: room - 1] + b"\0")
