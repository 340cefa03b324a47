"""HIP error codes with their names and texts, and the exception that the calls raise.

Numbers and names: HIP's ``hip_runtime_api.h`` (``hipError_t``). The texts are this project's.
"""

from __future__ import annotations

from enum import IntEnum


class HipCode(IntEnum):
    """The ``hipError_t`` values that the stand-in returns."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALIZED = 3
    INVALID_CONFIGURATION = 9
    INVALID_PITCH_VALUE = 12
    INVALID_SYMBOL = 13
    INVALID_DEVICE_POINTER = 17
    INVALID_MEMCPY_DIRECTION = 21
    INVALID_DEVICE_FUNCTION = 98
    NO_DEVICE = 100
    INVALID_DEVICE = 101
    INVALID_IMAGE = 200
    INVALID_CONTEXT = 201
    NO_BINARY_FOR_GPU = 209
    UNSUPPORTED_LIMIT = 215
    FILE_NOT_FOUND = 301
    INVALID_HANDLE = 400
    NOT_FOUND = 500
    ILLEGAL_ADDRESS = 700
    LAUNCH_TIME_OUT = 702
    PEER_ACCESS_ALREADY_ENABLED = 704
    PEER_ACCESS_NOT_ENABLED = 705
    HOST_MEMORY_ALREADY_REGISTERED = 712
    HOST_MEMORY_NOT_REGISTERED = 713
    LAUNCH_FAILURE = 719
    NOT_SUPPORTED = 801
    UNKNOWN = 999


class HipFailure(Exception):
    """A HIP call fails with ``code``; the text says what is wrong."""

    def __init__(self, code: HipCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code

    def __reduce__(self) -> tuple[type[HipFailure], tuple[HipCode, str]]:
        return HipFailure, (self.code, str(self))


_TABLE = """
0 Success: no error
1 InvalidValue: invalid argument
2 OutOfMemory: out of memory
3 NotInitialized: not initialized
4 Deinitialized: shutting down
5 ProfilerDisabled: profiler disabled
6 ProfilerNotInitialized: profiler not initialized
7 ProfilerAlreadyStarted: profiler already started
8 ProfilerAlreadyStopped: profiler already stopped
9 InvalidConfiguration: invalid launch configuration
12 InvalidPitchValue: invalid pitch
13 InvalidSymbol: invalid symbol
17 InvalidDevicePointer: invalid device pointer
21 InvalidMemcpyDirection: invalid copy direction
35 InsufficientDriver: the driver is older than the runtime
52 MissingConfiguration: missing launch configuration
53 PriorLaunchFailure: an earlier launch failed
98 InvalidDeviceFunction: invalid device function
100 NoDevice: no GPU was found
101 InvalidDevice: invalid device number
200 InvalidImage: invalid code object
201 InvalidContext: invalid context
202 ContextAlreadyCurrent: context is already current
205 MapFailed: mapping failed
206 UnmapFailed: unmapping failed
207 ArrayIsMapped: array is mapped
208 AlreadyMapped: resource is already mapped
209 NoBinaryForGpu: no code object for this GPU
210 AlreadyAcquired: resource is already acquired
211 NotMapped: resource is not mapped
212 NotMappedAsArray: resource is not mapped as an array
213 NotMappedAsPointer: resource is not mapped as a pointer
214 ECCNotCorrectable: memory error that cannot be corrected
215 UnsupportedLimit: unsupported limit
216 ContextAlreadyInUse: context is in use
217 PeerAccessUnsupported: no access between these devices
218 InvalidKernelFile: invalid kernel file
219 InvalidGraphicsContext: invalid graphics context
300 InvalidSource: invalid source
301 FileNotFound: file not found
302 SharedObjectSymbolNotFound: symbol not found in the shared object
303 SharedObjectInitFailed: shared object did not initialize
304 OperatingSystem: the operating system refused a call
400 InvalidHandle: invalid handle
401 IllegalState: illegal state
500 NotFound: symbol not found
600 NotReady: not ready
700 IllegalAddress: a kernel used an illegal address
701 LaunchOutOfResources: not enough resources for the launch
702 LaunchTimeOut: a kernel ran too long
704 PeerAccessAlreadyEnabled: peer access is already enabled
705 PeerAccessNotEnabled: peer access is not enabled
708 SetOnActiveProcess: device is already in use
709 ContextIsDestroyed: context is destroyed
710 Assert: assertion in a kernel
712 HostMemoryAlreadyRegistered: host memory is already registered
713 HostMemoryNotRegistered: host memory is not registered
719 LaunchFailure: a kernel failed
720 CooperativeLaunchTooLarge: cooperative launch is too large
801 NotSupported: not supported
900 StreamCaptureUnsupported: not allowed while a stream is captured
901 StreamCaptureInvalidated: stream capture is invalid
902 StreamCaptureMerge: two stream captures would merge
903 StreamCaptureUnmatched: stream capture began elsewhere
904 StreamCaptureUnjoined: stream capture is not joined
905 StreamCaptureIsolation: dependency crosses the stream capture
906 StreamCaptureImplicit: implicit dependency on a captured stream
907 CapturedEvent: event was captured
908 StreamCaptureWrongThread: stream capture of another thread
910 GraphExecUpdateFailure: graph was not updated
911 InvalidChannelDescriptor: invalid channel descriptor
912 InvalidTexture: invalid texture
914 InvalidResourceType: invalid resource type
915 InvalidResourceConfiguration: invalid resource configuration
916 StreamDetached: stream is detached
999 Unknown: unknown error
1052 RuntimeMemory: memory error of the runtime
1053 RuntimeOther: error of the runtime
1054 InvalidClusterSize: invalid cluster size
1055 Tbd: error without a text
"""


def _entry(line: str) -> tuple[int, tuple[str, str]]:
    head, _, text = line.partition(": ")
    code, name = head.split()
    return int(code), ("hipSuccess" if name == "Success" else f"hipError{name}", text)


ERRORS: dict[int, tuple[str, str]] = dict(_entry(line) for line in _TABLE.strip().splitlines())
"""Code -> (name, text), for every value of ``hipError_t``."""


def error_name(code: int) -> str:
    """The enumerator's name, as HIP spells it."""
    return ERRORS.get(code, ("hipErrorUnknown", ""))[0]


def error_text(code: int) -> str:
    """A short text for people."""
    return ERRORS.get(code, ERRORS[HipCode.UNKNOWN])[1]
