"""HIP functions about streams and events."""

from __future__ import annotations

import ctypes

from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.hip.results import put_float, put_int, put_word
from rocke.emulator.hip.session import Session

_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class QueueCalls:
    """Each method is the HIP function of its name; results go to addresses."""

    def __init__(self, session: Session) -> None:
        self.s = session
        self.q = session.queues

    def hipStreamCreate(self, out: int) -> None:
        """A stream."""
        put_word(out, self.q.create_stream(self.s.current, 0))

    def hipStreamCreateWithFlags(self, out: int, flags: int) -> None:
        """A stream; it waits for nothing in any case."""
        put_word(out, self.q.create_stream(self.s.current, flags))

    def hipStreamCreateWithPriority(self, out: int, flags: int, priority: int) -> None:
        """A stream; there is one priority."""
        put_word(out, self.q.create_stream(self.s.current, flags))

    def hipStreamDestroy(self, stream: int) -> None:
        """Drop a stream."""
        self.q.destroy_stream(stream)

    def hipStreamQuery(self, stream: int) -> None:
        """Its work is complete."""
        self.q.stream(stream)

    hipStreamSynchronize = hipStreamQuery

    def hipStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        """The event is complete."""
        if flags not in (0, 1):
            raise HipFailure(HipCode.INVALID_VALUE, f"flags {flags:#x}, expected 0 or 1")
        self.q.stream(stream)
        self.q.event(event)

    def hipStreamGetFlags(self, stream: int, out: int) -> None:
        """What it was created with."""
        put_int(out, self.q.stream(stream).flags)

    def hipStreamGetId(self, stream: int, out: int) -> None:
        """The handle serves as its number."""
        self.q.stream(stream)
        put_word(out, stream)

    def hipStreamGetPriority(self, stream: int, out: int) -> None:
        """The one priority."""
        self.q.stream(stream)
        put_int(out, 0)

    def hipStreamGetDevice(self, stream: int, out: int) -> None:
        """The device that was current when it was created."""
        put_int(out, self.s.gpu_of_stream(stream).index)

    def hipGetStreamDeviceId(self, stream: int) -> int:
        """The same; the result is the number itself, -1 for no stream."""
        try:
            return self.s.gpu_of_stream(stream).index
        except HipFailure:
            return -1

    def hipStreamIsCapturing(self, stream: int, out: int) -> None:
        """Streams are never captured."""
        self.q.stream(stream)
        put_int(out, 0)

    def hipStreamAddCallback(self, stream: int, callback: int, data: int, flags: int) -> None:
        """Call it: the work before it is complete."""
        self.q.stream(stream)
        if flags:
            raise HipFailure(HipCode.INVALID_VALUE, f"flags {flags:#x}, expected 0")
        if not callback:
            raise HipFailure(HipCode.INVALID_VALUE, "the callback is a null pointer")
        _STREAM_CALLBACK(callback)(stream, 0, data)

    def hipLaunchHostFunc(self, stream: int, function: int, data: int) -> None:
        """Call it: the work before it is complete."""
        self.q.stream(stream)
        if not function:
            raise HipFailure(HipCode.INVALID_VALUE, "the function is a null pointer")
        _HOST_FUNCTION(function)(data)

    def hipEventCreate(self, out: int) -> None:
        """An event."""
        put_word(out, self.q.create_event(self.s.current, 0))

    def hipEventCreateWithFlags(self, out: int, flags: int) -> None:
        """An event, perhaps without timing."""
        put_word(out, self.q.create_event(self.s.current, flags))

    def hipEventDestroy(self, event: int) -> None:
        """Drop an event."""
        self.q.destroy_event(event)

    def hipEventRecord(self, event: int, stream: int) -> None:
        """Note the time."""
        self.q.record(event, stream, self.s.current)

    def hipEventRecordWithFlags(self, event: int, stream: int, flags: int) -> None:
        """Note the time."""
        self.q.record(event, stream, self.s.current)

    def hipEventSynchronize(self, event: int) -> None:
        """It is complete."""
        self.q.event(event)

    hipEventQuery = hipEventSynchronize

    def hipEventElapsedTime(self, out: int, start: int, stop: int) -> None:
        """Milliseconds that the emulation took between two events."""
        put_float(out, self.q.elapsed_ms(start, stop))
