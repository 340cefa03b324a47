"""Reading and writing the caller's memory without trusting its pointers.

The kernel copies, and says of a bad address what a load or a store would crash at.
"""

from __future__ import annotations

import ctypes
import errno
import os

from rocke.emulator.hip.errors import HipCode, HipFailure

_TEXT_LIMIT = 4096
_LIBC = ctypes.CDLL(None, use_errno=True)
_FORBIDDEN = (errno.ENOSYS, errno.EPERM, errno.EACCES)


class _Span(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = (("address", ctypes.c_size_t), ("nbytes", ctypes.c_size_t))


_LIBC.process_vm_writev.restype = ctypes.c_ssize_t
_LIBC.process_vm_writev.argtypes = (
    *(ctypes.c_int, ctypes.POINTER(_Span), ctypes.c_ulong),
    *(ctypes.POINTER(_Span), ctypes.c_ulong, ctypes.c_ulong),
)


def copy(destination: int, source: int, nbytes: int) -> None:
    """Copy between addresses of this process, which may overlap.

    A pointer that leads nowhere, or to memory that may not be written, is :class:`HipFailure`. On a
    host that forbids ``process_vm_writev`` it is a crash, as it is with HIP itself.
    """
    if source < destination < source + nbytes:  # the kernel copies upwards, page by page
        kept = ctypes.create_string_buffer(nbytes)
        copy(ctypes.addressof(kept), source, nbytes)
        copy(destination, ctypes.addressof(kept), nbytes)
        return
    done = 0
    while done < nbytes:
        moved = _moved(destination + done, source + done, nbytes - done)
        if moved <= 0:
            raise HipFailure(
                HipCode.INVALID_VALUE,
                f"{nbytes} bytes from {source:#x} to {destination:#x}: one of them is no memory "
                f"of this process from byte {done} on",
            )
        done += moved


def _moved(destination: int, source: int, nbytes: int) -> int:
    here, there = _Span(source, nbytes), _Span(destination, nbytes)
    moved = int(
        _LIBC.process_vm_writev(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    )
    if moved < 0 and ctypes.get_errno() in _FORBIDDEN:
        ctypes.memmove(destination, source, nbytes)
        return nbytes
    return moved


def write(address: int, data: bytes) -> None:
    """Store ``data``; a bad pointer is :class:`HipFailure`."""
    kept = ctypes.create_string_buffer(data, len(data))
    copy(address, ctypes.addressof(kept), len(data))


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


def mapped(address: int, nbytes: int) -> str:
    """How all bytes of a range may be used: ``"rw"``, ``"r"``, or ``""`` where some may not."""
    rights, at = {"r", "w"}, address
    with open("/proc/self/maps") as lines:
        for line in lines:
            span, flags, *_ = line.split(None, 2)
            lo, hi = (int(part, 16) for part in span.split("-"))
            if hi <= at:
                continue
            if lo > at:
                break
            rights &= set(flags)
            at = hi
            if at >= address + nbytes:
                return "".join(sorted(rights)) if "r" in rights else ""
    return ""


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
