"""Device memory: allocations with guard zones, host arrays used in place, and the memory map.

Device addresses are host addresses. Kernels may touch what the map lists and nothing else, so an
address outside every allocation is a report, never a crash.
"""

from __future__ import annotations

import bisect
import mmap
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np

from rocke.emulator.state import MAP_WRITABLE
from rocke.runtime.device import DeviceError, is_count

GUARD = 65536
"""Bytes kept free on each side of an allocation, so that indices a little off hit nothing."""
ALIGN = 4096
_QUARANTINE_BYTES = 64 << 20
_FREED_KEPT = 256
_TOLD_DISTANCE = 1 << 32
"""From a buffer, in bytes: an index that went astray is not as far off."""
_TOLD_DISTANCE_INSIDE = 4096
"""From what the device itself keeps in the process's memory, next to which anything may lie."""


class Range(NamedTuple):
    """``[lo, hi)`` may be read, and written when ``writable``; ``what`` is for messages."""

    lo: int
    hi: int
    writable: bool
    what: str


class Foreign(NamedTuple):
    """What lies at an address outside a device's buffers.

    ``sure`` tells that the address was meant, so that it is no buffer's index that went astray.
    """

    what: str
    sure: bool


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
    """The allocations of one device. Safe to use from several threads.

    ``elsewhere`` may tell what an address is that lies near no buffer, for messages.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.elsewhere: Callable[[int], Foreign | None] = lambda address: None
        self._lock = threading.Lock()
        self._live: dict[int, EmulatedBuffer] = {}
        self._used = 0
        self._freed: deque[Range] = deque(maxlen=_FREED_KEPT)
        self._quarantine: deque[EmulatedBuffer] = deque()
        self._quarantined = 0

    def allocate(self, nbytes: int) -> EmulatedBuffer:
        """New memory, zero-filled, 4096-byte aligned, with a guard zone on each side."""
        if not is_count(nbytes, 0):
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
        if below is not None and address < below.hi:
            room = below.hi - address
            kind = "" if below.writable else ", which is read-only"
            return f"{room} bytes before the end of the {below.what}{kind}"
        live = set(self.ranges())
        distance, near = _nearest(address, [r for r in known if r in live])
        if distance < GUARD:
            return near
        inside, kept = _nearest(address, [r for r in known if r not in live])
        if inside < _TOLD_DISTANCE_INSIDE:
            distance, near = inside, kept
        foreign = self.elsewhere(address)
        if foreign is not None:
            astray = not foreign.sure and distance < _TOLD_DISTANCE
            return f"{foreign.what}, {near}" if astray else foreign.what
        with self._lock:
            freed = [r for r in self._freed if r.lo <= address < r.hi]
        # The host may use the memory of an array again, next to one that is live.
        if freed:
            return f"in a freed {freed[-1].what}"
        return near if distance < _TOLD_DISTANCE else "far from every allocation"


def _nearest(address: int, known: list[Range]) -> tuple[int, str]:
    """How far the nearest of sorted ranges is that do not hold the address, and where, in words."""
    i = bisect.bisect_right([r.lo for r in known], address) - 1
    found = (1 << 64, "")
    if i + 1 < len(known):
        gap = known[i + 1].lo - address
        found = gap, f"{gap} bytes before the {known[i + 1].what}"
    if i >= 0 and address - known[i].hi <= found[0]:
        gap = address - known[i].hi
        found = gap, f"{gap} bytes past the end of the {known[i].what}"
    return found


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
