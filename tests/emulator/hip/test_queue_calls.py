"""Streams and events, through ``hip-python``."""

import ctypes

import numpy as np
from hip import hip

from tests.emulator.hip.calls import (
    ERROR,
    add_arguments,
    check,
    get_kernel,
    launch,
    refused,
    to_host,
)
from tests.emulator.hip.process import on_emulated_gpu


@on_emulated_gpu()
def test_streams():
    plain = check(hip.hipStreamCreate())
    flagged = check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    least, greatest = check(hip.hipDeviceGetStreamPriorityRange())
    urgent = check(hip.hipStreamCreateWithPriority(0, greatest))
    assert int(plain) != int(flagged)
    assert check(hip.hipStreamGetFlags(flagged)) == hip.hipStreamNonBlocking
    assert greatest <= check(hip.hipStreamGetPriority(urgent)) <= least
    for stream in (plain, flagged, urgent, None):
        check(hip.hipStreamQuery(stream))
        check(hip.hipStreamSynchronize(stream))
    check(hip.hipStreamDestroy(plain))
    for call in (hip.hipStreamDestroy, hip.hipStreamSynchronize, hip.hipStreamQuery):
        refused(call(plain), "InvalidHandle")
    refused(hip.hipStreamDestroy(None), "InvalidHandle")
    refused(hip.hipStreamCreateWithFlags(6), "InvalidValue")
    capturing = check(hip.hipStreamIsCapturing(flagged))
    assert capturing == hip.hipStreamCaptureStatus.hipStreamCaptureStatusNone


@on_emulated_gpu()
def test_events_time_a_kernel():
    start, stop = check(hip.hipEventCreate()), check(hip.hipEventCreate())
    stream = check(hip.hipStreamCreate())
    arguments, a, b, c = add_arguments()
    kernel = get_kernel("ADD")
    check(hip.hipEventRecord(start, stream))
    check(launch(kernel, (4, 1, 1), (256, 1, 1), arguments, stream=stream))
    check(hip.hipEventRecord(stop, stream))
    check(hip.hipEventSynchronize(stop))
    check(hip.hipEventQuery(stop))
    forward = check(hip.hipEventElapsedTime(start, stop))
    backward = check(hip.hipEventElapsedTime(stop, start))
    assert forward > 0
    assert backward == -forward
    np.testing.assert_array_equal(to_host(c, a), a + b)
    check(hip.hipStreamWaitEvent(stream, stop, 0))


@on_emulated_gpu()
def test_events_that_have_no_time():
    recorded = check(hip.hipEventCreate())
    check(hip.hipEventRecord(recorded, None))
    fresh = check(hip.hipEventCreate())
    said = refused(hip.hipEventElapsedTime(recorded, fresh), "InvalidHandle")
    assert "the stop event was not recorded" in said
    untimed = check(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
    check(hip.hipEventRecord(untimed, None))
    assert "timing disabled" in refused(hip.hipEventElapsedTime(untimed, recorded), "InvalidHandle")
    check(hip.hipEventDestroy(recorded))
    refused(hip.hipEventDestroy(recorded), "InvalidHandle")
    refused(hip.hipEventRecord(recorded, None), "InvalidHandle")
    refused(hip.hipEventRecord(fresh, ctypes.c_void_p(0x999)), "InvalidHandle")


@on_emulated_gpu()
def test_host_functions_are_called():
    seen = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def function(data):
        seen.append(("function", data))

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    def callback(stream, status, data):
        seen.append(("callback", status, data))

    stream = check(hip.hipStreamCreate())
    address = ctypes.cast(function, ctypes.c_void_p).value
    check(hip.hipLaunchHostFunc(stream, address, ctypes.c_void_p(7)))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    check(hip.hipStreamAddCallback(stream, address, ctypes.c_void_p(8), 0))
    assert seen == [("function", 7), ("callback", ERROR.hipSuccess, 8)]
