"""HIP functions about the device, contexts and errors."""

from __future__ import annotations

import ctypes

from rocke.emulator.hip import peek
from rocke.emulator.hip.errors import HipCode, HipFailure, error_name, error_text
from rocke.emulator.hip.properties import DeviceProperties, attribute, capability
from rocke.emulator.hip.results import put_bytes, put_int, put_text, put_word
from rocke.emulator.hip.session import Session

HIP_VERSION = 7_15_00000
"""Major * 10000000 + minor * 100000 + patch: of the ``hip-python`` whose names are served."""
_CONTEXT = 0x6000_0000
"""The handle of the one context."""
_BUS_ID = "0000:00:00.0"
_STACK_LIMIT, _HEAP_LIMIT = 0, 2


class DeviceCalls:
    """Each method is the HIP function of its name; results go to addresses."""

    def __init__(self, session: Session) -> None:
        self.s = session
        self._limits = {_STACK_LIMIT: 1024, 1: 1 << 20, _HEAP_LIMIT: 8 << 20}
        self._flags = 0

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
        self.s.check_device(ordinal)
        put_int(out, ordinal)

    def hipDeviceComputeCapability(self, major: int, minor: int, device: int) -> None:
        """Major and minor version of the target."""
        self.s.check_device(device)
        for out, value in zip((major, minor), capability(self.s.target), strict=True):
            put_int(out, value)

    def hipDeviceGetName(self, out: int, room: int, device: int) -> None:
        """The marketing name, which says that it is emulated."""
        self.s.check_device(device)
        put_text(out, self.s.properties.name.decode(), room)

    def hipDeviceGetUuid(self, out: int, device: int) -> None:
        """16 bytes that name the target."""
        self.s.check_device(device)
        put_bytes(out, self.s.properties.uuid.ljust(16, b"\0"))

    def hipDeviceGetPCIBusId(self, out: int, room: int, device: int) -> None:
        """A made-up bus address."""
        self.s.check_device(device)
        put_text(out, _BUS_ID, room)

    def hipDeviceGetByPCIBusId(self, out: int, bus: int) -> None:
        """The device of that bus address."""
        if peek.text(bus, "bus id") != _BUS_ID:
            raise HipFailure(HipCode.INVALID_DEVICE, f"the only device is at {_BUS_ID}")
        put_int(out, 0)

    def hipDeviceTotalMem(self, out: int, device: int) -> None:
        """The device's memory in bytes."""
        self.s.check_device(device)
        put_word(out, self.s.memory.total)

    def hipDeviceGetP2PAttribute(self, out: int, number: int, source: int, to: int) -> None:
        """There is no second device to talk to."""
        raise HipFailure(HipCode.INVALID_DEVICE, f"devices {source} and {to}: there is one device")

    def hipDeviceCanAccessPeer(self, out: int, device: int, peer: int) -> None:
        """A device is no peer of itself."""
        self.s.check_device(device)
        self.s.check_device(peer)
        put_int(out, 0)

    def hipDeviceSynchronize(self) -> None:
        """All work is complete."""

    def hipDeviceReset(self) -> None:
        """Drop memory, modules, streams and events."""
        self.s.reset()

    def hipSetDevice(self, device: int) -> None:
        """Only device 0 exists."""
        self.s.check_device(device)

    def hipSetValidDevices(self, devices: int, count: int) -> None:
        """Only device 0 exists."""
        if count > 0:
            self.s.check_device(ctypes.c_int32.from_address(devices).value)

    def hipGetDevice(self, out: int) -> None:
        """The current device: 0."""
        put_int(out, 0)

    def hipGetDeviceCount(self, out: int) -> None:
        """One device."""
        put_int(out, 1)

    def hipDeviceGetAttribute(self, out: int, number: int, device: int) -> None:
        """One attribute."""
        self.s.check_device(device)
        put_int(out, attribute(self.s.properties, self.s.target, number))

    def hipGetDevicePropertiesR0600(self, out: int, device: int) -> None:
        """All properties."""
        self.s.check_device(device)
        put_bytes(out, bytes(self.s.properties))

    def hipChooseDeviceR0600(self, out: int, wanted: int) -> None:
        """The best match of one device."""
        peek.read(wanted, ctypes.sizeof(DeviceProperties), "properties")
        put_int(out, 0)

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
        if limit not in self._limits:
            raise HipFailure(HipCode.UNSUPPORTED_LIMIT, f"limit {limit} is not known")
        put_word(out, self._limits[limit])

    def hipDeviceSetLimit(self, limit: int, value: int) -> None:
        """Remember a limit."""
        if limit not in self._limits:
            raise HipFailure(HipCode.UNSUPPORTED_LIMIT, f"limit {limit} is not known")
        self._limits[limit] = value

    def hipGetDeviceFlags(self, out: int) -> None:
        """The flags that were set."""
        put_int(out, self._flags)

    def hipSetDeviceFlags(self, flags: int) -> None:
        """Flags choose how a host waits; here it never does."""
        self._flags = flags

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
        """The one context."""
        self.s.check_device(device)
        put_word(out, _CONTEXT)

    def hipCtxDestroy(self, context: int) -> None:
        """The one context stays."""
        self._check_context(context)

    def hipCtxPopCurrent(self, out: int) -> None:
        """The one context stays current."""
        if out:
            put_word(out, _CONTEXT)

    def hipCtxPushCurrent(self, context: int) -> None:
        """The one context is current."""
        self._check_context(context)

    def hipCtxSetCurrent(self, context: int) -> None:
        """The one context is current."""
        if context:
            self._check_context(context)

    def hipCtxGetCurrent(self, out: int) -> None:
        """The one context."""
        put_word(out, _CONTEXT)

    def hipCtxGetDevice(self, out: int) -> None:
        """Device 0."""
        put_int(out, 0)

    def hipCtxSynchronize(self) -> None:
        """All work is complete."""

    def hipCtxGetApiVersion(self, context: int, out: int) -> None:
        """The major version."""
        put_int(out, HIP_VERSION // 10_000_000)

    def hipCtxGetFlags(self, out: int) -> None:
        """The flags that were set."""
        put_int(out, self._flags)

    def hipDevicePrimaryCtxGetState(self, device: int, flags: int, active: int) -> None:
        """Always active."""
        self.s.check_device(device)
        put_int(flags, self._flags)
        put_int(active, 1)

    def hipDevicePrimaryCtxRelease(self, device: int) -> None:
        """The one context stays."""
        self.s.check_device(device)

    def hipDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        """The one context."""
        self.s.check_device(device)
        put_word(out, _CONTEXT)

    def hipDevicePrimaryCtxReset(self, device: int) -> None:
        """Drop memory, modules, streams and events."""
        self.s.check_device(device)
        self.s.reset()

    def hipDevicePrimaryCtxSetFlags(self, device: int, flags: int) -> None:
        """Remember the flags."""
        self.s.check_device(device)
        self._flags = flags

    def hipApiName(self, number: int) -> int:
        """No names of numbers: a null pointer."""
        return 0

    def hipCreateChannelDesc(self, out: int, x: int, y: int, z: int, w: int, kind: int) -> int:
        """Five integers, in the structure that the caller provides."""
        for index, value in enumerate((x, y, z, w, kind)):
            put_int(out + 4 * index, value)
        return out

    def _check_context(self, context: int) -> None:
        if context != _CONTEXT:
            raise HipFailure(HipCode.INVALID_CONTEXT, f"{context:#x} is no context")
