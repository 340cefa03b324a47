"""Streams and events. Work is done when it is issued, so all of it is always complete."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from rocke.emulator.hip.errors import HipCode, HipFailure

_DISABLE_TIMING = 2
"""``hipEventDisableTiming``."""
_DEFAULT_STREAMS = frozenset({0, 1, 2})
"""The null stream, ``hipStreamLegacy``, ``hipStreamPerThread``."""


@dataclass(frozen=True)
class Stream:
    """What a stream was created with."""

    flags: int = 0
    priority: int = 0


@dataclass
class Event:
    """``recorded`` is the host's clock in seconds when the event was last recorded."""

    flags: int
    recorded: float | None = None


class HipQueues:
    """The streams and events of one device, by handle."""

    def __init__(self, handles: Iterator[int] | None = None) -> None:
        self._handles = handles or count(0x7000_0000, 16)
        self._lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, Event] = {}

    def create_stream(self, flags: int, priority: int) -> int:
        """A new stream's handle."""
        if flags not in (0, 1):
            raise HipFailure(HipCode.INVALID_VALUE, f"stream flags {flags:#x}, expected 0 or 1")
        with self._lock:
            handle = next(self._handles)
            self._streams[handle] = Stream(flags, priority)
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

    def create_event(self, flags: int) -> int:
        """A new event's handle."""
        with self._lock:
            handle = next(self._handles)
            self._events[handle] = Event(flags)
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

    def record(self, event: int, stream: int) -> None:
        """``hipEventRecord``: the stream's work is complete, so the event is too."""
        self.stream(stream)
        self.event(event).recorded = time.perf_counter()

    def elapsed_ms(self, start: int, stop: int) -> float:
        """Milliseconds of the host's clock between two events: what the emulation took."""
        times = []
        for what, handle in (("start", start), ("stop", stop)):
            event = self.event(handle)
            if event.flags & _DISABLE_TIMING:
                raise HipFailure(HipCode.INVALID_HANDLE, f"the {what} event has timing disabled")
            if event.recorded is None:
                raise HipFailure(HipCode.INVALID_HANDLE, f"the {what} event was not recorded")
            times.append(event.recorded)
        return (times[1] - times[0]) * 1000

    def reset(self) -> None:
        """Drop everything."""
        with self._lock:
            self._streams.clear()
            self._events.clear()
