"""HIP functions about memory. Asynchronous ones do their work at once."""

from __future__ import annotations

import ctypes

from rocke.emulator.hip import copies, peek
from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.hip.memory import Allocation, CopyKind, MemoryKind, Origin
from rocke.emulator.hip.results import put_bytes, put_int, put_word
from rocke.emulator.hip.session import Session

_PITCH = 256
_FREED = {MemoryKind.DEVICE, MemoryKind.MANAGED, MemoryKind.HOST}
# hipMemAttachGlobal and hipMemAttachHost; all of hipHostMalloc* and hipHostRegister*.
_ATTACH_FLAGS = (1, 2)
_HOST_FLAGS = 0xF000_000F
_HOST = -1
"""``hipCpuDeviceId``."""
_NO_DEVICE = -2
"""``hipInvalidDeviceId``: memory of which HIP knows nothing."""


class _PointerAttributes(ctypes.Structure):
    """``hipPointerAttribute_t``."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("devicePointer", ctypes.c_size_t),
        ("hostPointer", ctypes.c_size_t),
        ("isManaged", ctypes.c_int),
        ("allocationFlags", ctypes.c_uint),
    )


class MemoryCalls:
    """Each method is the HIP function of its name; results go to addresses."""

    def __init__(self, session: Session) -> None:
        self.s = session
        self.m = session.memory

    def hipMalloc(self, out: int, nbytes: int) -> None:
        """Device memory; a null pointer for no bytes."""
        put_word(out, self.m.allocate(self.s.current, nbytes, MemoryKind.DEVICE))

    def hipExtMallocWithFlags(self, out: int, nbytes: int, flags: int) -> None:
        """Device memory; caches are not emulated, so the flags make no difference."""
        put_word(out, self.m.allocate(self.s.current, nbytes, MemoryKind.DEVICE, flags))

    def hipMallocAsync(self, out: int, nbytes: int, stream: int) -> None:
        """Memory of the stream's device, at once."""
        gpu = self.s.gpu_of_stream(stream)
        put_word(out, self.m.allocate(gpu, nbytes, MemoryKind.DEVICE))

    def hipMallocManaged(self, out: int, nbytes: int, flags: int) -> None:
        """Memory that the host and all devices may use."""
        if flags not in _ATTACH_FLAGS or not nbytes:
            raise HipFailure(
                HipCode.INVALID_VALUE, f"{nbytes} bytes with flags {flags:#x}, expected 1 or 2"
            )
        put_word(out, self.m.allocate(self.s.current, nbytes, MemoryKind.MANAGED, flags))

    def hipHostMalloc(self, out: int, nbytes: int, flags: int) -> None:
        """Host memory that kernels may use."""
        if flags & ~_HOST_FLAGS:
            raise HipFailure(HipCode.INVALID_VALUE, f"flags {flags:#x} are not known")
        put_word(out, self.m.allocate(self.s.current, nbytes, MemoryKind.HOST, flags))

    hipHostAlloc = hipHostMalloc

    def hipMallocHost(self, out: int, nbytes: int) -> None:
        """Host memory that kernels may use."""
        self.hipHostMalloc(out, nbytes, 0)

    hipMemAllocHost = hipMallocHost

    def hipMallocPitch(self, out: int, pitch: int, width: int, height: int) -> None:
        """Rows of ``width`` bytes, each aligned."""
        row = -(-width // _PITCH) * _PITCH
        put_word(out, self.m.allocate(self.s.current, row * height, MemoryKind.DEVICE))
        put_word(pitch, row)

    def hipMemAllocPitch(self, out: int, pitch: int, width: int, height: int, item: int) -> None:
        """Rows of ``width`` bytes, each aligned."""
        self.hipMallocPitch(out, pitch, width, height)

    def hipFree(self, address: int) -> None:
        """Release memory of the device; a null pointer is accepted."""
        if address:
            self.m.release(address, _FREED)

    def hipFreeAsync(self, address: int, stream: int) -> None:
        """Release memory, at once."""
        self.s.queues.stream(stream)
        self.hipFree(address)

    def hipHostFree(self, address: int) -> None:
        """Release host memory; a null pointer is accepted."""
        if address:
            self.m.release(address, {MemoryKind.HOST})

    hipFreeHost = hipHostFree

    def hipHostRegister(self, address: int, nbytes: int, flags: int) -> None:
        """Let kernels use the caller's memory."""
        if flags & ~_HOST_FLAGS:
            raise HipFailure(HipCode.INVALID_VALUE, f"flags {flags:#x} are not known")
        self.m.register(self.s.current, address, nbytes, flags)

    def hipHostUnregister(self, address: int) -> None:
        """End that."""
        self.m.release(address, {MemoryKind.HOST}, Origin.REGISTERED)

    def hipHostGetDevicePointer(self, out: int, address: int, flags: int) -> None:
        """The same address."""
        found = self._found(address)
        if found.kind is MemoryKind.DEVICE:
            raise HipFailure(HipCode.INVALID_VALUE, f"{address:#x} is device memory")
        put_word(out, address)

    def hipHostGetFlags(self, out: int, address: int) -> None:
        """What the memory was allocated or registered with."""
        put_int(out, self._found(address).flags)

    def hipMemGetInfo(self, free: int, total: int) -> None:
        """Free and all bytes of the current device."""
        gpu = self.s.current
        put_word(free, gpu.total - gpu.used)
        put_word(total, gpu.total)

    def hipMemPtrGetInfo(self, address: int, out: int) -> None:
        """The size of the allocation that begins there."""
        put_word(out, self._found(address).nbytes)

    def hipMemGetAddressRange(self, base: int, nbytes: int, address: int) -> None:
        """The allocation that holds an address."""
        found = self._found(address)
        if base:
            put_word(base, found.address)
        if nbytes:
            put_word(nbytes, found.nbytes)

    def hipPointerGetAttributes(self, out: int, address: int) -> None:
        """Kind, device and addresses of memory; what the device does not know is unregistered."""
        found = self.m.find(address)
        if found is None:
            values = _PointerAttributes(device=_NO_DEVICE)
        else:
            device_only = found.kind is MemoryKind.DEVICE
            values = _PointerAttributes(
                type=found.kind.value,
                device=found.gpu.index,
                devicePointer=address,
                hostPointer=0 if device_only else address,
                isManaged=int(found.kind is MemoryKind.MANAGED),
                allocationFlags=found.flags,
            )
        put_bytes(out, bytes(values))

    def hipPointerGetAttribute(self, out: int, number: int, address: int) -> None:
        """One fact about memory of the device."""
        found = self._found(address)
        words = {
            3: address,
            4: 0 if found.kind is MemoryKind.DEVICE else address,
            7: found.address,
            11: found.address,
            12: found.nbytes,
        }
        integers = {
            2: found.kind.value,
            8: int(found.kind is MemoryKind.MANAGED),
            9: found.gpu.index,
            13: 1,
        }
        if number in words:
            put_word(out, words[number])
        elif number in integers:
            put_int(out, integers[number])
        else:
            raise HipFailure(HipCode.NOT_SUPPORTED, f"pointer attribute {number}")

    def hipDrvPointerGetAttributes(self, count: int, numbers: int, outs: int, address: int) -> None:
        """Several facts about memory of the device."""
        for index in range(count):
            number = int.from_bytes(peek.read(numbers + 4 * index, 4, "attributes"), "little")
            self.hipPointerGetAttribute(peek.word(outs + 8 * index, "data"), number, address)

    def hipMemPrefetchAsync(self, address: int, nbytes: int, device: int, stream: int) -> None:
        """A hint without effect."""
        self.s.queues.stream(stream)
        self.hipMemAdvise(address, nbytes, 0, device)

    def hipMemAdvise(self, address: int, nbytes: int, advice: int, device: int) -> None:
        """A hint without effect."""
        if device != _HOST:
            self.s.gpu(device)
        self.m.check("memory", address, nbytes, device=True)

    def hipMemcpy(self, to: int, source: int, nbytes: int, kind: int) -> None:
        """Copy."""
        copies.copy(self.m, to, source, nbytes, kind)

    def hipMemcpyAsync(self, to: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        """Copy, at once."""
        self.s.queues.stream(stream)
        copies.copy(self.m, to, source, nbytes, kind)

    hipMemcpyWithStream = hipMemcpyAsync

    def hipMemcpyHtoD(self, to: int, source: int, nbytes: int) -> None:
        """Copy to the device."""
        copies.copy(self.m, to, source, nbytes, CopyKind.HOST_TO_DEVICE.value)

    def hipMemcpyDtoH(self, to: int, source: int, nbytes: int) -> None:
        """Copy to the host."""
        copies.copy(self.m, to, source, nbytes, CopyKind.DEVICE_TO_HOST.value)

    def hipMemcpyDtoD(self, to: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        copies.copy(self.m, to, source, nbytes, CopyKind.DEVICE_TO_DEVICE.value)

    def hipMemcpyHtoDAsync(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy to the device, at once."""
        self.hipMemcpyAsync(to, source, nbytes, CopyKind.HOST_TO_DEVICE.value, stream)

    def hipMemcpyDtoHAsync(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy to the host, at once."""
        self.hipMemcpyAsync(to, source, nbytes, CopyKind.DEVICE_TO_HOST.value, stream)

    def hipMemcpyDtoDAsync(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy within the device, at once."""
        self.hipMemcpyAsync(to, source, nbytes, CopyKind.DEVICE_TO_DEVICE.value, stream)

    def hipMemcpyPeer(self, to: int, device: int, source: int, peer: int, nbytes: int) -> None:
        """Copy from one device to another; the addresses alone say which bytes, as in HIP."""
        self.s.gpu(device)
        self.s.gpu(peer)
        self.hipMemcpyDtoD(to, source, nbytes)

    def hipMemcpyPeerAsync(
        self, to: int, device: int, source: int, peer: int, nbytes: int, stream: int
    ) -> None:
        """Copy from one device to another, at once."""
        self.s.queues.stream(stream)
        self.hipMemcpyPeer(to, device, source, peer, nbytes)

    def hipMemcpy2D(
        self, to: int, pitch: int, source: int, spitch: int, width: int, height: int, kind: int
    ) -> None:
        """Copy rows."""
        copies.copy_2d(self.m, (to, pitch), (source, spitch), width, height, kind)

    def hipMemcpy2DAsync(self, *arguments: int) -> None:
        """Copy rows, at once; the stream comes last."""
        self.s.queues.stream(arguments[-1])
        self.hipMemcpy2D(*arguments[:-1])

    def hipMemset(self, to: int, value: int, nbytes: int) -> None:
        """Fill bytes."""
        copies.fill(self.m, to, value, 1, nbytes)

    def hipMemsetAsync(self, to: int, value: int, nbytes: int, stream: int) -> None:
        """Fill bytes, at once."""
        self.s.queues.stream(stream)
        copies.fill(self.m, to, value, 1, nbytes)

    hipMemsetD8 = hipMemset
    hipMemsetD8Async = hipMemsetAsync

    def hipMemsetD16(self, to: int, value: int, count: int) -> None:
        """Fill 16-bit items."""
        copies.fill(self.m, to, value, 2, count)

    def hipMemsetD16Async(self, to: int, value: int, count: int, stream: int) -> None:
        """Fill 16-bit items, at once."""
        self.s.queues.stream(stream)
        copies.fill(self.m, to, value, 2, count)

    def hipMemsetD32(self, to: int, value: int, count: int) -> None:
        """Fill 32-bit items."""
        copies.fill(self.m, to, value, 4, count)

    def hipMemsetD32Async(self, to: int, value: int, count: int, stream: int) -> None:
        """Fill 32-bit items, at once."""
        self.s.queues.stream(stream)
        copies.fill(self.m, to, value, 4, count)

    def hipMemset2D(self, to: int, pitch: int, value: int, width: int, height: int) -> None:
        """Fill rows."""
        copies.fill_2d(self.m, to, pitch, value, width, height)

    def hipMemset2DAsync(self, *arguments: int) -> None:
        """Fill rows, at once; the stream comes last."""
        self.s.queues.stream(arguments[-1])
        self.hipMemset2D(*arguments[:-1])

    def _found(self, address: int) -> Allocation:
        found = self.m.find(address)
        if found is None:
            raise HipFailure(HipCode.INVALID_VALUE, f"{address:#x} is no memory of the device")
        return found
