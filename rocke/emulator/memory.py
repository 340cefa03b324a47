"""Device memory: allocations with guard zones, host arrays used in place, and the memory map.

Device addresses are host addresses. Kernels may touch what the map lists and nothing else, so an
address outside every allocation is a report, never a crash.
"""

from __future__ import annotations

import bisect
import mmap
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np

from rocke.emulator.state import MAP_WRITABLE
from rocke.runtime.device import DeviceError

GUARD = 65536
"""Bytes kept free on each side of an allocation, so that indices a little off hit nothing."""
ALIGN = 4096
_QUARANTINE_BYTES = 64 << 20
_FREED_KEPT = 256


class Range(NamedTuple):
    """``[lo, hi)`` may be read, and written when ``writable``; ``what`` is for messages."""

    lo: int
    hi: int
    writable: bool
    what: str


@dataclass(frozen=True, eq=False)
class EmulatedBuffer:
    """Memory of the emulated device. ``array`` is the same memory as bytes (``uint8``)."""

    address: int
    nbytes: int
    array: np.ndarray
    writable: bool = True
    owner: object = None
    """What keeps the memory alive: the mapping, or the wrapped array."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "memory of an emulated device cannot be pickled: it belongs to its process; copy_out "
            "gives an array that can"
        )

    @property
    def range(self) -> Range:
        """The map entry."""
        kind = "buffer" if isinstance(self.owner, mmap.mmap) else "wrapped array"
        return Range(
            self.address,
            self.address + self.nbytes,
            self.writable,
            f"{kind} of {self.nbytes} bytes at {self.address:#x}",
        )


class Memory:
    """The allocations of one device. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._live: dict[int, EmulatedBuffer] = {}
        self._used = 0
        self._freed: deque[Range] = deque(maxlen=_FREED_KEPT)
        self._quarantine: deque[EmulatedBuffer] = deque()
        self._quarantined = 0

    def allocate(self, nbytes: int) -> EmulatedBuffer:
        """New memory, zero-filled, 4096-byte aligned, with a guard zone on each side."""
        if isinstance(nbytes, bool) or not isinstance(nbytes, (int, np.integer)) or nbytes < 0:
            raise DeviceError(f"allocate: nbytes is {nbytes!r}, expected an integer of at least 0")
        nbytes = int(nbytes)
        with self._lock:
            if self._used + nbytes > self.limit:
                raise DeviceError(
                    f"allocate: {nbytes} bytes do not fit: {self._used} of the device's "
                    f"{self.limit} bytes are in use"
                )
            self._used += nbytes
        size = -(-max(nbytes, 1) // ALIGN) * ALIGN
        try:
            mapping = mmap.mmap(-1, size + 2 * GUARD)
        except (OSError, ValueError, OverflowError) as error:
            with self._lock:
                self._used -= nbytes
            raise DeviceError(f"allocate: the host has no {nbytes} bytes left ({error})") from error
        whole = np.frombuffer(mapping, dtype=np.uint8)
        array = whole[GUARD : GUARD + nbytes]
        buffer = EmulatedBuffer(whole.ctypes.data + GUARD, nbytes, array, True, mapping)
        with self._lock:
            self._live[id(buffer)] = buffer
        return buffer

    def wrap(self, array: np.ndarray) -> EmulatedBuffer:
        """Make a C-contiguous host array visible to kernels, in place."""
        if not isinstance(array, np.ndarray):
            raise DeviceError(f"wrap: expected a numpy array, got {type(array).__name__}")
        if not array.flags.c_contiguous:
            raise DeviceError("wrap: the array is not C-contiguous; pass a contiguous copy")
        if array.dtype.hasobject:
            raise DeviceError("wrap: an array of Python objects has no bytes that a kernel can use")
        view = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
        buffer = EmulatedBuffer(
            array.ctypes.data, array.nbytes, view, bool(array.flags.writeable), array
        )
        with self._lock:
            self._live[id(buffer)] = buffer
        return buffer

    def free(self, buffer: EmulatedBuffer) -> None:
        """Take a buffer out of the map. Its addresses stay unused for a while."""
        with self._lock:
            if self._live.pop(id(buffer), None) is None:
                raise DeviceError(f"free: {describe(buffer)} is no live buffer of this device")
            self._freed.append(buffer.range)
            if isinstance(buffer.owner, mmap.mmap):
                self._used -= buffer.nbytes
                self._quarantine.append(buffer)
                self._quarantined += buffer.nbytes
                while self._quarantined > _QUARANTINE_BYTES:
                    self._quarantined -= self._quarantine.popleft().nbytes

    def check(self, buffer: object, call: str) -> EmulatedBuffer:
        """``buffer`` as a live buffer of this device; ``call`` names the caller in the error."""
        if isinstance(buffer, EmulatedBuffer) and id(buffer) in self._live:
            return buffer
        raise DeviceError(f"{call}: {describe(buffer)} is no live buffer of this device")

    def ranges(self) -> list[Range]:
        """The map entries of all live buffers; keep :meth:`holders` alive while they are used."""
        with self._lock:
            return [b.range for b in self._live.values() if b.nbytes]

    def holders(self) -> list[EmulatedBuffer]:
        """References that keep the memory of :meth:`ranges` alive."""
        with self._lock:
            return list(self._live.values())

    def explain(self, address: int, ranges: Iterable[Range]) -> str:
        """Where an address lies, in words."""
        if address < 4096:
            return "a null pointer"
        known = sorted(ranges)
        i = bisect.bisect_right([r.lo for r in known], address) - 1
        below = known[i] if i >= 0 else None
        above = known[i + 1] if i + 1 < len(known) else None
        if below is not None and address < below.hi:
            room = below.hi - address
            kind = "" if below.writable else ", which is read-only"
            return f"{room} bytes before the end of the {below.what}{kind}"
        gaps = [address - below.hi] if below is not None else []
        gaps += [above.lo - address] if above is not None else []
        with self._lock:
            freed = [r for r in self._freed if r.lo <= address < r.hi]
        # The host may use the memory of an array again, next to one that is live.
        if freed and min(gaps, default=GUARD) >= GUARD:
            return f"in a freed {freed[-1].what}"
        if below is not None and (above is None or address - below.hi <= above.lo - address):
            if address - below.hi < 1 << 32:
                return f"{address - below.hi} bytes past the end of the {below.what}"
        elif above is not None and above.lo - address < 1 << 32:
            return f"{above.lo - address} bytes before the {above.what}"
        return "far from every allocation"


def allocation(address: int, ranges: Iterable[Range]) -> str:
    """What lies at an address, in words."""
    return next((r.what for r in ranges if r.lo <= address < r.hi), "no live buffer")


def memory_map(ranges: Iterable[Range]) -> np.ndarray:
    """The map that kernels see (layout: :mod:`rocke.emulator.state`), as ``uint64``.

    Ranges that overlap, as views of one array do, are cut so that entries never overlap; a byte is
    writable when one of its ranges is.
    """
    starts: dict[int, list[bool]] = {}
    ends: dict[int, list[bool]] = {}
    for lo, hi, writable, _ in ranges:
        if hi > lo:
            starts.setdefault(lo, []).append(writable)
            ends.setdefault(hi, []).append(writable)
    entries: list[list[int]] = []
    readers = writers = 0
    points = sorted(starts.keys() | ends.keys())
    for a, b in zip(points, [*points[1:], 0], strict=False):
        readers -= len(ends.get(a, ()))
        writers -= sum(ends.get(a, ()))
        going_on = readers > 0
        readers += len(starts.get(a, ()))
        writers += sum(starts.get(a, ()))
        flags = MAP_WRITABLE if writers else 0
        if readers and going_on and entries[-1][2] == flags:
            entries[-1][1] = b
        elif readers:
            entries.append([a, b, flags])
    table = np.zeros(2 + 3 * len(entries), dtype=np.uint64)
    table[0] = len(entries)
    if entries:
        table[2:] = np.array(entries, dtype=np.uint64).reshape(-1)
    return table


def describe(buffer: object) -> str:
    """A buffer in an error message."""
    if isinstance(buffer, EmulatedBuffer):
        return f"the {buffer.range.what}"
    return f"{type(buffer).__name__} object"
