"""Device memory by address: allocations, copies and fills with their bounds.

Device addresses are host addresses, so a copy is a copy within the process. What is no allocation
of the device counts as host memory of the caller, about which nothing is known.
"""

from __future__ import annotations

import bisect
import ctypes
import threading
from dataclasses import dataclass
from enum import Enum

import numpy as np

from rocke.emulator.device import EmulatedDevice
from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.memory import EmulatedBuffer
from rocke.runtime.device import DeviceError


class MemoryKind(Enum):
    """Where memory comes from; the values are HIP's ``hipMemoryType``."""

    HOST = 1
    DEVICE = 2
    MANAGED = 3


class CopyKind(Enum):
    """``hipMemcpyKind``."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4
    DEVICE_TO_DEVICE_NO_CU = 1024


_DEVICE_DESTINATION = {
    *(CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_DEVICE, CopyKind.DEVICE_TO_DEVICE_NO_CU),
}
_DEVICE_SOURCE = {
    *(CopyKind.DEVICE_TO_HOST, CopyKind.DEVICE_TO_DEVICE, CopyKind.DEVICE_TO_DEVICE_NO_CU),
}


@dataclass(frozen=True, eq=False)
class Allocation:
    """One allocation. ``registered`` memory belongs to the caller and is used in place."""

    buffer: EmulatedBuffer
    kind: MemoryKind
    flags: int = 0
    registered: bool = False

    @property
    def address(self) -> int:
        """The first byte's address."""
        return self.buffer.address

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.buffer.nbytes


class HipMemory:
    """The allocations of one device of ``total`` bytes. Safe to use from several threads."""

    def __init__(self, device: EmulatedDevice, total: int) -> None:
        self.device = device
        self.total = total
        self.used = 0
        self._lock = threading.Lock()
        self._starts: list[int] = []
        self._live: dict[int, Allocation] = {}

    def allocate(self, nbytes: int, kind: MemoryKind, flags: int = 0) -> int:
        """New memory and its address; 0 for no bytes."""
        if nbytes == 0:
            return 0
        with self._lock:
            if self.used + nbytes > self.total:
                raise HipFailure(
                    HipCode.OUT_OF_MEMORY,
                    f"{nbytes} bytes do not fit: {self.used} of {self.total} are in use",
                )
            try:
                buffer = self.device.allocate(nbytes)
            except DeviceError as error:
                raise HipFailure(HipCode.OUT_OF_MEMORY, str(error)) from error
            self.used += nbytes
            return self._add(Allocation(buffer, kind, flags))

    def register(self, address: int, nbytes: int, flags: int) -> None:
        """Make host memory of the caller visible to kernels."""
        if not address or not nbytes:
            raise HipFailure(HipCode.INVALID_VALUE, f"{nbytes} bytes at {address:#x}")
        with self._lock:
            if self._overlapped(address, nbytes):
                raise HipFailure(
                    HipCode.HOST_MEMORY_ALREADY_REGISTERED,
                    f"{nbytes} bytes at {address:#x} overlap memory that the device has",
                )
            raw = (ctypes.c_uint8 * nbytes).from_address(address)
            buffer = self.device.wrap(np.ctypeslib.as_array(raw))
            self._add(Allocation(buffer, MemoryKind.HOST, flags, registered=True))

    def release(self, address: int, kinds: set[MemoryKind], *, registered: bool = False) -> None:
        """Free the allocation that begins at ``address``."""
        with self._lock:
            found = self._live.get(address)
            if found is None or found.kind not in kinds or found.registered != registered:
                what = "registered" if registered else "allocated"
                code = HipCode.HOST_MEMORY_NOT_REGISTERED if registered else HipCode.INVALID_VALUE
                raise HipFailure(code, f"no memory {what} by this kind of call is at {address:#x}")
            self._remove(found)

    def reset(self) -> None:
        """Free everything."""
        with self._lock:
            for allocation in list(self._live.values()):
                self._remove(allocation)

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds ``address``."""
        with self._lock:
            index = bisect.bisect_right(self._starts, address) - 1
            found = self._live[self._starts[index]] if index >= 0 else None
        return found if found and address < found.address + found.nbytes else None

    def check(self, what: str, address: int, nbytes: int, *, device: bool) -> None:
        """Refuse a null pointer, bytes past an allocation, or host memory where ``device``."""
        if not address:
            raise HipFailure(HipCode.INVALID_VALUE, f"{what} is a null pointer")
        found = self.find(address)
        if found is None:
            if device:
                raise HipFailure(
                    HipCode.INVALID_VALUE, f"{what} {address:#x} is no memory of the device"
                )
            return
        room = found.address + found.nbytes - address
        if nbytes > room:
            raise HipFailure(
                HipCode.INVALID_VALUE,
                f"{what} {address:#x}: {nbytes} bytes, but only {room} are left of the allocation "
                f"of {found.nbytes} bytes at {found.address:#x}",
            )

    def copy(self, destination: int, source: int, nbytes: int, kind: int) -> None:
        """``hipMemcpy``."""
        if nbytes:
            self._check_ends(destination, nbytes, source, nbytes, kind)
            ctypes.memmove(destination, source, nbytes)

    def copy_2d(
        self,
        destination: tuple[int, int],
        source: tuple[int, int],
        width: int,
        height: int,
        kind: int,
    ) -> None:
        """``hipMemcpy2D``: each end is (address, pitch); ``width`` and pitches are in bytes."""
        if not width or not height:
            return
        for what, (_, pitch) in (("destination", destination), ("source", source)):
            if width > pitch:
                raise HipFailure(
                    HipCode.INVALID_VALUE, f"{what} pitch {pitch} is less than the width {width}"
                )
        spans = [(height - 1) * pitch + width for _, pitch in (destination, source)]
        self._check_ends(destination[0], spans[0], source[0], spans[1], kind)
        for row in range(height):
            ctypes.memmove(
                destination[0] + row * destination[1], source[0] + row * source[1], width
            )

    def fill(self, address: int, value: int, itemsize: int, count: int) -> None:
        """``hipMemset``: ``count`` items of ``itemsize`` bytes."""
        if count:
            self.check("destination", address, count * itemsize, device=True)
            self._fill(address, value, itemsize, count)

    def fill_2d(self, address: int, pitch: int, value: int, width: int, height: int) -> None:
        """``hipMemset2D``: ``width`` and ``pitch`` are in bytes."""
        if not width or not height:
            return
        if width > pitch:
            raise HipFailure(HipCode.INVALID_VALUE, f"pitch {pitch} is less than the width {width}")
        self.check("destination", address, (height - 1) * pitch + width, device=True)
        for row in range(height):
            self._fill(address + row * pitch, value, 1, width)

    def _fill(self, address: int, value: int, itemsize: int, count: int) -> None:
        raw = (ctypes.c_uint8 * (count * itemsize)).from_address(address)
        pattern = (value & ((1 << 8 * itemsize) - 1)).to_bytes(itemsize, "little")
        np.ctypeslib.as_array(raw).reshape(count, itemsize)[:] = np.frombuffer(pattern, np.uint8)

    def _check_ends(
        self, destination: int, written: int, source: int, read: int, kind: int
    ) -> None:
        try:
            direction = CopyKind(kind)
        except ValueError:
            raise HipFailure(HipCode.INVALID_VALUE, f"copy kind {kind} is not known") from None
        to_device, from_device = direction in _DEVICE_DESTINATION, direction in _DEVICE_SOURCE
        self.check("destination", destination, written, device=to_device)
        self.check("source", source, read, device=from_device)

    def _overlapped(self, address: int, nbytes: int) -> bool:
        index = bisect.bisect_left(self._starts, address + nbytes) - 1
        if index < 0:
            return False
        below = self._live[self._starts[index]]
        return below.address + below.nbytes > address

    def _add(self, allocation: Allocation) -> int:
        self._live[allocation.address] = allocation
        bisect.insort(self._starts, allocation.address)
        return allocation.address

    def _remove(self, allocation: Allocation) -> None:
        self.device.free(allocation.buffer)
        del self._live[allocation.address]
        del self._starts[bisect.bisect_left(self._starts, allocation.address)]
        if not allocation.registered:
            self.used -= allocation.nbytes
