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
_PAGE = os.sysconf("SC_PAGE_SIZE")
_RIGHTS = {"r": "no memory of this process", "w": "no memory that this process may write"}


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

    A pointer that leads nowhere, or to memory that may not be written, is :class:`HipFailure`, but
    what lies before the bad part is copied: :func:`require` finds it out beforehand. On a host that
    forbids ``process_vm_writev`` it is a crash, as it is with HIP itself.
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


def usable(address: int, nbytes: int, right: str) -> int:
    """How many of ``nbytes`` bytes from ``address`` on may be read ("r") or written ("w")."""
    at, end = address, address + nbytes
    with open("/proc/self/maps") as lines:
        for line in lines:
            span, flags, *_ = line.split(None, 2)
            lo, hi = (int(part, 16) for part in span.split("-"))
            if hi <= at:
                continue
            if lo > at or right not in flags:
                break
            at = hi
            if at >= end:
                return nbytes
    return at - address


def mapped(address: int, nbytes: int) -> str:
    """How all bytes of a range may be used: ``"rw"``, ``"r"``, or ``""`` where some may not."""
    if usable(address, nbytes, "r") < nbytes:
        return ""
    return "rw" if usable(address, nbytes, "w") == nbytes else "r"


def require(
    what: str, address: int, right: str, nbytes: int, pitch: int = 0, rows: int = 1
) -> None:
    """Refuse memory that may not be used as ``right`` says ("r" or "w"), before anything is moved.

    There are ``rows`` of ``nbytes``, each ``pitch`` bytes after the one before. What an allocation
    of the C library holds behind the caller's bytes is memory of the process too, so an overrun is
    seen where the mapping ends. Raises :class:`HipFailure`.
    """
    last = address + (rows - 1) * pitch + nbytes - 1
    row = rows if address // _PAGE == last // _PAGE else 0  # the kernel takes a page or refuses it
    while row < rows:
        begin = address + row * pitch
        span = (rows - 1 - row) * pitch + nbytes
        reach = usable(begin, span, right)
        if reach == span:
            return
        if reach < nbytes:
            raise HipFailure(
                HipCode.INVALID_VALUE,
                f"{what} {address:#x}: {_RIGHTS[right]} from byte {row * pitch + reach} on, "
                f"{(rows - 1) * pitch + nbytes} bytes are needed; nothing was changed",
            )
        row += (reach - nbytes) // pitch + 1


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
