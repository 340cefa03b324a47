"""Reading the caller's memory without trusting its pointers."""

from __future__ import annotations

import os

from rocke.emulator.hip.errors import HipCode, HipFailure

_TEXT_LIMIT = 4096


def read(address: int, nbytes: int, what: str) -> bytes:
    """The bytes at ``address``; a pointer that leads nowhere is :class:`HipFailure`, no crash."""
    if not address:
        raise HipFailure(HipCode.INVALID_VALUE, f"{what} is a null pointer")
    data = bytearray()
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            while len(data) < nbytes:
                part = os.pread(memory.fileno(), nbytes - len(data), address + len(data))
                if not part:
                    break
                data += part
    except (OSError, OverflowError):
        pass
    if len(data) < nbytes:
        raise HipFailure(
            HipCode.INVALID_VALUE,
            f"{what}: only {len(data)} of {nbytes} bytes at {address:#x} can be read",
        )
    return bytes(data)


def word(address: int, what: str) -> int:
    """The 64-bit word at ``address``."""
    return int.from_bytes(read(address, 8, what), "little")


def text(address: int, what: str) -> str:
    """The C string at ``address``, of at most 4096 bytes."""
    data = bytearray()
    while len(data) < _TEXT_LIMIT:
        # Up to the next page boundary: the page behind it may not exist.
        room = 4096 - (address + len(data)) % 4096
        data += read(address + len(data) if address else 0, room, what)
        end = data.find(0)
        if end >= 0:
            return data[:end].decode(errors="replace")
    raise HipFailure(HipCode.INVALID_VALUE, f"{what} at {address:#x} does not end")
