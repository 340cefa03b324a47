"""HIP functions about the device, contexts and errors."""

from __future__ import annotations

import ctypes
import struct

from rocke.emulator.hip import peek
from rocke.emulator.hip.errors import HipCode, HipFailure, error_name, error_text
from rocke.emulator.hip.gpu import Gpu
from rocke.emulator.hip.properties import DeviceProperties, attribute, capability
from rocke.emulator.hip.results import put_bytes, put_int, put_text, put_word
from rocke.emulator.hip.session import Session

HIP_VERSION = 7_15_00000
"""Major * 10000000 + minor * 100000 + patch: of the ``hip-python`` whose names are served."""
# hipDeviceP2PAttr: performance rank, access, atomics, arrays (which there are none of).
_P2P = {0: 0, 1: 1, 2: 1, 3: 0}


_WANTED = ("major", "minor", "totalGlobalMem", "multiProcessorCount", "sharedMemPerBlock")
"""Properties that :meth:`DeviceCalls.hipChooseDeviceR0600` compares."""


class DeviceCalls:
    """Each method is the HIP function of its name; results go to addresses."""

    def __init__(self, session: Session) -> None:
        self.s = session

    def hipInit(self, flags: int) -> None:
        """Nothing is left to do."""
        if flags:
            raise HipFailure(HipCode.INVALID_VALUE, f"flags {flags:#x}, expected 0")

    def hipDriverGetVersion(self, out: int) -> None:
        """The version of the interface."""
        put_int(out, HIP_VERSION)

    hipRuntimeGetVersion = hipDriverGetVersion

    def hipDeviceGet(self, out: int, ordinal: int) -> None:
        """A device's handle is its number."""
        put_int(out, self.s.gpu(ordinal).index)

    def hipDeviceComputeCapability(self, major: int, minor: int, device: int) -> None:
        """Major and minor version of the target."""
        versions = capability(self.s.gpu(device).target)
        for out, value in zip((major, minor), versions, strict=True):
            put_int(out, value)

    def hipDeviceGetName(self, out: int, room: int, device: int) -> None:
        """The marketing name, which says that it is emulated."""
        put_text(out, self.s.gpu(device).properties.name.decode(), room)

    def hipDeviceGetUuid(self, out: int, device: int) -> None:
        """16 bytes that name the target and the device's number."""
        put_bytes(out, self.s.gpu(device).properties.uuid.ljust(16, b"\0"))

    def hipDeviceGetPCIBusId(self, out: int, room: int, device: int) -> None:
        """A made-up bus address."""
        put_text(out, self.s.gpu(device).bus_id, room)

    def hipDeviceGetByPCIBusId(self, out: int, bus: int) -> None:
        """The device of that bus address."""
        wanted = peek.text(bus, "bus id")
        for gpu in self.s.gpus:
            if gpu.bus_id == wanted.lower():
                put_int(out, gpu.index)
                return
        known = ", ".join(gpu.bus_id for gpu in self.s.gpus)
        raise HipFailure(HipCode.INVALID_DEVICE, f"no device at {wanted!r}: expected {known}")

    def hipDeviceTotalMem(self, out: int, device: int) -> None:
        """The device's memory in bytes."""
        put_word(out, self.s.gpu(device).total)

    def hipDeviceGetP2PAttribute(self, out: int, number: int, source: int, to: int) -> None:
        """Every device reaches every other one."""
        if self.s.gpu(source) is self.s.gpu(to):
            raise HipFailure(HipCode.INVALID_DEVICE, f"device {source} has no link to itself")
        if number not in _P2P:
            raise HipFailure(HipCode.INVALID_VALUE, f"peer attribute {number} is not known")
        put_int(out, _P2P[number])

    def hipDeviceCanAccessPeer(self, out: int, device: int, peer: int) -> None:
        """Every device can use the memory of every other one; it is no peer of itself."""
        put_int(out, int(self.s.gpu(device) is not self.s.gpu(peer)))

    def hipDeviceEnablePeerAccess(self, peer: int, flags: int) -> None:
        """Kernels of the current device may use that device's memory from now on."""
        if flags:
            raise HipFailure(HipCode.INVALID_VALUE, f"flags {flags:#x}, expected 0")
        self.s.memory.set_peer(self.s.current, self._peer(peer), True)

    def hipDeviceDisablePeerAccess(self, peer: int) -> None:
        """End that."""
        self.s.memory.set_peer(self.s.current, self._peer(peer), False)

    def hipDeviceSynchronize(self) -> None:
        """All work is complete."""

    def hipDeviceReset(self) -> None:
        """Drop memory, modules, streams and events."""
        self.s.reset(self.s.current)

    def hipSetDevice(self, device: int) -> None:
        """Make a device the calling thread's current one."""
        self.s.current = self.s.gpu(device)

    def hipSetValidDevices(self, devices: int, count: int) -> None:
        """A preference: all devices can always be chosen."""
        if not 0 <= count <= len(self.s.gpus):
            raise HipFailure(HipCode.INVALID_VALUE, f"{count} devices of {len(self.s.gpus)}")
        data = peek.read(devices, 4 * count, "devices") if count else b""
        for (number,) in struct.iter_unpack("<i", data):
            self.s.gpu(number)

    def hipGetDevice(self, out: int) -> None:
        """The calling thread's current device."""
        put_int(out, self.s.current.index)

    def hipGetDeviceCount(self, out: int) -> None:
        """How many there are."""
        put_int(out, len(self.s.gpus))

    def hipDeviceGetAttribute(self, out: int, number: int, device: int) -> None:
        """One attribute."""
        gpu = self.s.gpu(device)
        put_int(out, attribute(gpu.properties, gpu.target, number))

    def hipGetDevicePropertiesR0600(self, out: int, device: int) -> None:
        """All properties."""
        put_bytes(out, bytes(self.s.gpu(device).properties))

    def hipChooseDeviceR0600(self, out: int, wanted: int) -> None:
        """The first device with at least the wanted values, else number 0; 0 wants nothing."""
        raw = peek.read(wanted, ctypes.sizeof(DeviceProperties), "properties")
        values = DeviceProperties.from_buffer_copy(raw)
        good = (
            gpu.index
            for gpu in self.s.gpus
            if all(getattr(gpu.properties, n) >= getattr(values, n) for n in _WANTED)
        )
        put_int(out, next(good, 0))

    def hipDeviceSetCacheConfig(self, config: int) -> None:
        """A hint without effect, as on every AMD GPU."""

    def hipDeviceGetCacheConfig(self, out: int) -> None:
        """No preference."""
        put_int(out, 0)

    def hipDeviceSetSharedMemConfig(self, config: int) -> None:
        """A hint without effect, as on every AMD GPU."""

    def hipDeviceGetSharedMemConfig(self, out: int) -> None:
        """Banks of four bytes."""
        put_int(out, 1)

    def hipDeviceGetLimit(self, out: int, limit: int) -> None:
        """What was set; nothing depends on it."""
        put_word(out, self.s.current.limit(limit))

    def hipDeviceSetLimit(self, limit: int, value: int) -> None:
        """Remember a limit."""
        self.s.current.limit(limit)
        self.s.current.limits[limit] = value

    def hipGetDeviceFlags(self, out: int) -> None:
        """The flags that were set."""
        put_int(out, self.s.current.flags)

    def hipSetDeviceFlags(self, flags: int) -> None:
        """Flags choose how a host waits; here it never does."""
        self.s.current.flags = flags

    def hipDeviceGetStreamPriorityRange(self, least: int, greatest: int) -> None:
        """One priority."""
        for out in (least, greatest):
            if out:
                put_int(out, 0)

    def hipProfilerStart(self) -> None:
        """There is no profiler to start."""

    def hipProfilerStop(self) -> None:
        """There is no profiler to stop."""

    def hipGetLastError(self) -> int:
        """The thread's last failure, which it clears."""
        code, self.s.last_error = self.s.last_error, 0
        return code

    hipExtGetLastError = hipGetLastError

    def hipPeekAtLastError(self) -> int:
        """The thread's last failure, which stays."""
        return self.s.last_error

    def hipGetErrorName(self, code: int) -> int:
        """The enumerator."""
        return self.s.c_text(error_name(code))

    def hipGetErrorString(self, code: int) -> int:
        """A text."""
        return self.s.c_text(error_text(code))

    def hipDrvGetErrorName(self, code: int, out: int) -> None:
        """The enumerator."""
        put_word(out, self.s.c_text(error_name(code)))

    def hipDrvGetErrorString(self, code: int, out: int) -> None:
        """A text."""
        put_word(out, self.s.c_text(error_text(code)))

    def hipCtxCreate(self, out: int, flags: int, device: int) -> None:
        """A device's one context, which becomes current."""
        gpu = self.s.gpu(device)
        put_word(out, gpu.context)
        self._push(gpu)

    def hipCtxDestroy(self, context: int) -> None:
        """A device's one context stays."""
        self._context(context)

    def hipCtxPopCurrent(self, out: int) -> None:
        """Go back to the device that was current before the last push."""
        if out:
            put_word(out, self.s.current.context)
        if self.s.contexts:
            self.s.current = self.s.contexts.pop()

    def hipCtxPushCurrent(self, context: int) -> None:
        """Make a context's device current until it is popped."""
        self._push(self._context(context))

    def hipCtxSetCurrent(self, context: int) -> None:
        """Make a context's device current."""
        if context:
            self.s.current = self._context(context)

    def hipCtxGetCurrent(self, out: int) -> None:
        """The current device's context."""
        put_word(out, self.s.current.context)

    def hipCtxGetDevice(self, out: int) -> None:
        """The current device."""
        put_int(out, self.s.current.index)

    def hipCtxSynchronize(self) -> None:
        """All work is complete."""

    def hipCtxGetApiVersion(self, context: int, out: int) -> None:
        """The major version."""
        put_int(out, HIP_VERSION // 10_000_000)

    def hipCtxGetFlags(self, out: int) -> None:
        """The flags that were set."""
        put_int(out, self.s.current.flags)

    def hipCtxEnablePeerAccess(self, context: int, flags: int) -> None:
        """The same for a context's device."""
        self.hipDeviceEnablePeerAccess(self._context(context).index, flags)

    def hipCtxDisablePeerAccess(self, context: int) -> None:
        """The same for a context's device."""
        self.hipDeviceDisablePeerAccess(self._context(context).index)

    def hipDevicePrimaryCtxGetState(self, device: int, flags: int, active: int) -> None:
        """Always active."""
        put_int(flags, self.s.gpu(device).flags)
        put_int(active, 1)

    def hipDevicePrimaryCtxRelease(self, device: int) -> None:
        """A device's one context stays."""
        self.s.gpu(device)

    def hipDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        """A device's one context."""
        put_word(out, self.s.gpu(device).context)

    def hipDevicePrimaryCtxReset(self, device: int) -> None:
        """Drop memory, modules, streams and events."""
        self.s.reset(self.s.gpu(device))

    def hipDevicePrimaryCtxSetFlags(self, device: int, flags: int) -> None:
        """Remember the flags."""
        self.s.gpu(device).flags = flags

    def hipApiName(self, number: int) -> int:
        """No names of numbers: a null pointer."""
        return 0

    def hipCreateChannelDesc(self, out: int, x: int, y: int, z: int, w: int, kind: int) -> int:
        """Five integers, in the structure that the caller provides."""
        for index, value in enumerate((x, y, z, w, kind)):
            put_int(out + 4 * index, value)
        return out

    def _context(self, context: int) -> Gpu:
        for gpu in self.s.gpus:
            if gpu.context == context:
                return gpu
        raise HipFailure(HipCode.INVALID_CONTEXT, f"{context:#x} is no context")

    def _push(self, gpu: Gpu) -> None:
        self.s.contexts.append(self.s.current)
        self.s.current = gpu

    def _peer(self, number: int) -> Gpu:
        gpu = self.s.gpu(number)
        if gpu is self.s.current:
            raise HipFailure(HipCode.INVALID_DEVICE, f"device {number} is no peer of itself")
        return gpu
