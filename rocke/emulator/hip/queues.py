"""Streams and events. Work is done when it is issued, so all of it is always complete."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.hip.gpu import Gpu

# hip_runtime_api.h: hipEventDisableTiming, hipEventInterprocess; with hipEventBlockingSync and the
# three that say what is released, at most one of them, all there are.
_DISABLE_TIMING, _INTERPROCESS = 2, 4
_RELEASE_FLAGS = 0x2000_0000 | 0x4000_0000 | 0x8000_0000
_EVENT_FLAGS = 1 | _DISABLE_TIMING | _INTERPROCESS | _RELEASE_FLAGS
_DEFAULT_STREAMS = frozenset({0, 1, 2})
"""The null stream, ``hipStreamLegacy``, ``hipStreamPerThread``."""


@dataclass(frozen=True)
class Stream:
    """What a stream was created with; the default streams are those of any GPU."""

    gpu: Gpu | None = None
    flags: int = 0


@dataclass
class Event:
    """``recorded`` is the host's clock in seconds when the event was last recorded."""

    gpu: Gpu
    flags: int
    recorded: float | None = None


class HipQueues:
    """The streams and events of all GPUs, by handle."""

    def __init__(self, handles: Iterator[int] | None = None) -> None:
        self._handles = handles or count(0x7000_0000, 16)
        self._lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, Event] = {}

    def create_stream(self, gpu: Gpu, flags: int) -> int:
        """A new stream's handle."""
        if flags not in (0, 1):
            raise HipFailure(HipCode.INVALID_VALUE, f"stream flags {flags:#x}, expected 0 or 1")
        with self._lock:
            handle = next(self._handles)
            self._streams[handle] = Stream(gpu, flags)
            return handle

    def destroy_stream(self, handle: int) -> None:
        """Drop a stream; the default streams cannot be dropped."""
        with self._lock:
            if self._streams.pop(handle, None) is None:
                raise HipFailure(HipCode.INVALID_HANDLE, f"{handle:#x} is no stream to destroy")

    def stream(self, handle: int) -> Stream:
        """The stream with that handle, default streams included."""
        if handle in _DEFAULT_STREAMS:
            return Stream()
        with self._lock:
            if handle not in self._streams:
                raise HipFailure(HipCode.INVALID_HANDLE, f"{handle:#x} is no stream")
            return self._streams[handle]

    def create_event(self, gpu: Gpu, flags: int) -> int:
        """A new event's handle."""
        interprocess = flags & _INTERPROCESS and not flags & _DISABLE_TIMING
        releases = (flags & _RELEASE_FLAGS).bit_count()
        if flags & ~_EVENT_FLAGS or interprocess or releases > 1:
            raise HipFailure(HipCode.INVALID_VALUE, f"event flags {flags:#x} are not allowed")
        with self._lock:
            handle = next(self._handles)
            self._events[handle] = Event(gpu, flags)
            return handle

    def destroy_event(self, handle: int) -> None:
        """Drop an event."""
        with self._lock:
            if self._events.pop(handle, None) is None:
                raise HipFailure(HipCode.INVALID_HANDLE, f"{handle:#x} is no event")

    def event(self, handle: int) -> Event:
        """The event with that handle."""
        with self._lock:
            if handle not in self._events:
                raise HipFailure(HipCode.INVALID_HANDLE, f"{handle:#x} is no event")
            return self._events[handle]

    def record(self, event: int, stream: int, current: Gpu) -> None:
        """``hipEventRecord``: the stream's work is complete, so the event is too."""
        gpu = self.stream(stream).gpu or current
        found = self.event(event)
        if found.gpu is not gpu:
            raise HipFailure(
                HipCode.INVALID_HANDLE,
                f"the event belongs to device {found.gpu.index}, the stream to {gpu.index}",
            )
        found.recorded = time.perf_counter()

    def elapsed_ms(self, start: int, stop: int) -> float:
        """Milliseconds of the host's clock between two events: what the emulation took."""
        events = [self.event(handle) for handle in (start, stop)]
        for what, event in zip(("start", "stop"), events, strict=True):
            if event.flags & _DISABLE_TIMING:
                raise HipFailure(HipCode.INVALID_HANDLE, f"the {what} event has timing disabled")
            if event.recorded is None:
                raise HipFailure(HipCode.INVALID_HANDLE, f"the {what} event was not recorded")
        if events[0].gpu is not events[1].gpu:
            raise HipFailure(
                HipCode.INVALID_HANDLE,
                f"events of devices {events[0].gpu.index} and {events[1].gpu.index}",
            )
        first, last = (event.recorded or 0.0 for event in events)
        return (last - first) * 1000

    def reset(self, gpu: Gpu) -> None:
        """Drop what belongs to a GPU."""
        with self._lock:
            self._streams = {h: s for h, s in self._streams.items() if s.gpu is not gpu}
            self._events = {h: e for h, e in self._events.items() if e.gpu is not gpu}
