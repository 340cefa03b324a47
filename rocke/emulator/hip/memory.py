"""Device memory by address: allocations, copies and fills with their bounds.

Device addresses are host addresses and no two GPUs share one, so a copy is a copy within the
process. What is no allocation counts as host memory of the caller, about which nothing is known.
"""

from __future__ import annotations

import bisect
import ctypes
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import numpy as np

from rocke.emulator.hip import peek
from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.hip.gpu import Gpu
from rocke.emulator.memory import GUARD, EmulatedBuffer, Foreign
from rocke.runtime.device import DeviceError


class MemoryKind(Enum):
    """Where memory comes from; the values are HIP's ``hipMemoryType``."""

    HOST = 1
    DEVICE = 2
    MANAGED = 3


class Origin(Enum):
    """How memory came to be: it can only end in the same way."""

    ALLOCATED = "allocated"
    REGISTERED = "registered"
    VARIABLE = "variable of a module"


class CopyKind(Enum):
    """``hipMemcpyKind``."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4
    DEVICE_TO_DEVICE_NO_CU = 1024


DEVICE_DESTINATION = {
    *(CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_DEVICE, CopyKind.DEVICE_TO_DEVICE_NO_CU),
}
DEVICE_SOURCE = {
    *(CopyKind.DEVICE_TO_HOST, CopyKind.DEVICE_TO_DEVICE, CopyKind.DEVICE_TO_DEVICE_NO_CU),
}


_FREED_BYTES, _FREED_COUNT = 64 << 20, 256


@dataclass(frozen=True, eq=False)
class Allocation:
    """Memory of ``gpu``, or of the host, at ``buffer``.

    Registered memory belongs to the caller and is used in place. ``views`` are the GPUs by number
    whose kernels may use it, each with its own buffer.
    """

    gpu: Gpu
    buffer: EmulatedBuffer
    kind: MemoryKind
    flags: int = 0
    origin: Origin = Origin.ALLOCATED
    views: dict[int, EmulatedBuffer] = field(default_factory=dict)

    @property
    def address(self) -> int:
        """The first byte's address."""
        return self.buffer.address

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.buffer.nbytes


class HipMemory:
    """The allocations of all GPUs, and of a host of ``host`` bytes. Safe to use from threads."""

    def __init__(self, gpus: Sequence[Gpu], host: int) -> None:
        self.gpus = gpus
        self.host = host
        self.host_used = 0
        self._lock = threading.Lock()
        self._starts: list[int] = []
        self._live: dict[int, Allocation] = {}
        self._freed: deque[Allocation] = deque()
        self._freed_bytes = 0
        for gpu in gpus:
            gpu.device.memory.elsewhere = partial(self._foreign, gpu)

    def allocate(self, gpu: Gpu, nbytes: int, kind: MemoryKind, flags: int = 0) -> int:
        """New memory and its address; 0 for no bytes."""
        if nbytes == 0:
            return 0
        with self._lock:
            on_host = kind is MemoryKind.HOST
            used, total = (self.host_used, self.host) if on_host else (gpu.used, gpu.total)
            if used + nbytes > total:
                where = "the host" if on_host else f"device {gpu.index}"
                raise HipFailure(
                    HipCode.OUT_OF_MEMORY,
                    f"{nbytes} bytes do not fit: {used} of {total} are in use on {where}",
                )
            try:
                buffer = gpu.device.allocate(nbytes)
            except DeviceError as error:
                raise HipFailure(HipCode.OUT_OF_MEMORY, str(error)) from error
            self._count(gpu, kind, nbytes)
            return self._add(Allocation(gpu, buffer, kind, flags))

    def register(self, gpu: Gpu, address: int, nbytes: int, flags: int) -> None:
        """Make host memory of the caller visible to kernels."""
        if not address or not nbytes:
            raise HipFailure(HipCode.INVALID_VALUE, f"{nbytes} bytes at {address:#x}")
        rights = peek.mapped(address, nbytes)
        if not rights:
            raise HipFailure(
                HipCode.INVALID_VALUE,
                f"{nbytes} bytes at {address:#x} are not all memory of this process",
            )
        with self._lock:
            if self._overlapped(address, nbytes):
                raise HipFailure(
                    HipCode.HOST_MEMORY_ALREADY_REGISTERED,
                    f"{nbytes} bytes at {address:#x} overlap memory that a device has",
                )
            array = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
            array.flags.writeable = rights == "rw"
            self._adopt(gpu, array, MemoryKind.HOST, flags, Origin.REGISTERED)

    def add_variable(self, gpu: Gpu, array: np.ndarray) -> int | None:
        """Make a variable of a module known; the address that releases it, ``None`` if it is."""
        with self._lock:
            if not array.size or self._overlapped(array.ctypes.data, array.nbytes):
                return None
            return self._adopt(gpu, array, MemoryKind.DEVICE, 0, Origin.VARIABLE)

    def release(
        self, address: int, kinds: set[MemoryKind], origin: Origin = Origin.ALLOCATED
    ) -> None:
        """Free what begins at ``address``."""
        with self._lock:
            found = self._live.get(address)
            if found is None or found.kind not in kinds or found.origin is not origin:
                registered = origin is Origin.REGISTERED
                code = HipCode.HOST_MEMORY_NOT_REGISTERED if registered else HipCode.INVALID_VALUE
                raise HipFailure(
                    code, f"no memory {origin.value} by this kind of call is at {address:#x}"
                )
            self._remove(found)

    def reset(self, gpu: Gpu) -> None:
        """Free all that was allocated for a GPU; what it was given access to is taken away."""
        with self._lock:
            for allocation in [a for a in self._live.values() if a.gpu is gpu]:
                self._remove(allocation)
            for peer in sorted(gpu.peers):
                self._set_peer(gpu, self.gpus[peer], False)

    def set_peer(self, gpu: Gpu, peer: Gpu, access: bool) -> None:
        """Let the kernels of ``gpu`` use the memory of ``peer``, or end that."""
        with self._lock:
            if access == (peer.index in gpu.peers):
                code = (
                    HipCode.PEER_ACCESS_ALREADY_ENABLED
                    if access
                    else HipCode.PEER_ACCESS_NOT_ENABLED
                )
                raise HipFailure(code, f"from device {gpu.index} to device {peer.index}")
            self._set_peer(gpu, peer, access)

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds ``address``."""
        with self._lock:
            index = bisect.bisect_right(self._starts, address) - 1
            found = self._live[self._starts[index]] if index >= 0 else None
        return found if found and address < found.address + found.nbytes else None

    def drop_unmapped(self) -> None:
        """Forget registered memory that the caller has given back to the system meanwhile."""
        with self._lock:
            for found in list(self._live.values()):
                if (
                    found.origin is Origin.REGISTERED
                    and peek.usable(found.address, found.nbytes, "r") < found.nbytes
                ):
                    self._remove(found)

    def check(self, what: str, address: int, nbytes: int, *, device: bool) -> Allocation | None:
        """Refuse a null pointer, bytes past an allocation, or host memory where ``device``.

        Returns the allocation, which must be kept while its bytes are used: another thread may free
        it.
        """
        if not address:
            raise HipFailure(HipCode.INVALID_VALUE, f"{what} is a null pointer")
        found = self.find(address)
        if found is None:
            freed = self._was_freed(address)
            if device or freed:
                told = "memory that was freed" if freed else "no memory of the device"
                raise HipFailure(HipCode.INVALID_VALUE, f"{what} {address:#x} is {told}")
            return None
        room = found.address + found.nbytes - address
        if nbytes > room:
            raise HipFailure(
                HipCode.INVALID_VALUE,
                f"{what} {address:#x}: {nbytes} bytes, but only {room} are left of the allocation "
                f"of {found.nbytes} bytes at {found.address:#x}",
            )
        return found

    def _set_peer(self, gpu: Gpu, peer: Gpu, access: bool) -> None:
        (gpu.peers.add if access else gpu.peers.remove)(peer.index)
        for allocation in self._live.values():
            if allocation.gpu is not peer or allocation.kind is not MemoryKind.DEVICE:
                continue
            if access:
                allocation.views[gpu.index] = gpu.device.wrap(allocation.buffer.array)
            else:
                gpu.device.free(allocation.views.pop(gpu.index))

    def _overlapped(self, address: int, nbytes: int) -> bool:
        index = bisect.bisect_left(self._starts, address + nbytes) - 1
        if index < 0:
            return False
        below = self._live[self._starts[index]]
        return below.address + below.nbytes > address

    def _adopt(
        self, gpu: Gpu, array: np.ndarray, kind: MemoryKind, flags: int, origin: Origin
    ) -> int:
        return self._add(Allocation(gpu, gpu.device.wrap(array), kind, flags, origin))

    def _add(self, allocation: Allocation) -> int:
        self._live[allocation.address] = allocation
        bisect.insort(self._starts, allocation.address)
        own, everywhere = allocation.gpu, allocation.kind is not MemoryKind.DEVICE
        allocation.views[own.index] = allocation.buffer
        for gpu in self.gpus:
            if gpu is not own and (everywhere or own.index in gpu.peers):
                allocation.views[gpu.index] = gpu.device.wrap(allocation.buffer.array)
        return allocation.address

    def _remove(self, allocation: Allocation) -> None:
        for index, buffer in allocation.views.items():
            self.gpus[index].device.free(buffer)
        del self._live[allocation.address]
        del self._starts[bisect.bisect_left(self._starts, allocation.address)]
        if allocation.origin is Origin.ALLOCATED:
            self._count(allocation.gpu, allocation.kind, -allocation.nbytes)
            self._keep_freed(allocation)

    def _keep_freed(self, allocation: Allocation) -> None:
        """Hold freed memory for a while: its addresses are used for nothing else meanwhile."""
        self._freed.append(allocation)
        self._freed_bytes += allocation.nbytes
        while self._freed_bytes > _FREED_BYTES or len(self._freed) > _FREED_COUNT:
            self._freed_bytes -= self._freed.popleft().nbytes

    def _was_freed(self, address: int, margin: int = 0) -> bool:
        with self._lock:
            return any(-margin <= address - a.address < a.nbytes + margin for a in self._freed)

    def _foreign(self, gpu: Gpu, address: int) -> Foreign | None:
        """What an address is that lies near no memory that kernels of ``gpu`` may use."""
        found = self.find(address)
        if found is not None and gpu.index not in found.views:
            return Foreign(
                f"memory of GPU {found.gpu.index}, to which GPU {gpu.index} has no access "
                "(hipDeviceEnablePeerAccess gives it)",
                True,
            )
        # Freed memory is still there for a while, with the guard zones around it.
        if self._was_freed(address, GUARD) or not peek.usable(address, 1, "r"):
            return None
        return Foreign("host memory that is not registered (hipHostRegister does it)", False)

    def _count(self, gpu: Gpu, kind: MemoryKind, nbytes: int) -> None:
        if kind is MemoryKind.HOST:
            self.host_used += nbytes
        else:
            gpu.used += nbytes
