"""Device, context and error functions, through ``hip-python``."""

import ctypes
import sys
import threading

import pytest
from hip import hip

from rocke.arch import target as arch_target
from rocke.emulator import hip as stand_in
from rocke.emulator.hip.stand_in import STAND_IN
from tests.emulator.hip.calls import ERROR, check, refused
from tests.emulator.hip.process import TARGETS, on_emulated_gpu


@on_emulated_gpu(*TARGETS, memory=1 << 32)
def test_properties():
    properties = check(hip.hipGetDeviceProperties(0))
    name = properties.gcnArchName
    found = arch_target(name.split(":")[0])
    assert name == f"{found.name}:sramecc+:xnack-"
    assert properties.name == f"{found.product} (emulated by rocke)"
    assert properties.multiProcessorCount == found.compute_units
    assert properties.warpSize == 64
    assert properties.totalGlobalMem == 1 << 32
    assert list(properties.maxThreadsDim) == [1024] * 3
    assert properties.arch.hasDoubles == 1
    assert properties.arch.hasDynamicParallelism == 0
    assert stand_in.device().arch == found.name


@on_emulated_gpu("gfx90a:xnack+", "gfx942:sramecc-:xnack-", "gfx950:xnack-:sramecc+")
def test_target_features():
    name = check(hip.hipGetDeviceProperties(0)).gcnArchName
    assert name in ("gfx90a:sramecc+:xnack+", "gfx942:sramecc-:xnack-", "gfx950:sramecc+:xnack-")


@on_emulated_gpu(*TARGETS)
def test_attributes():
    properties = check(hip.hipGetDeviceProperties(0))
    kind = hip.hipDeviceAttribute_t
    expected = {
        kind.hipDeviceAttributeMaxBlockDimX: 1024,
        kind.hipDeviceAttributeMaxGridDimX: 2**31 - 1,
        kind.hipDeviceAttributeWarpSize: 64,
        kind.hipDeviceAttributeMultiprocessorCount: properties.multiProcessorCount,
        kind.hipDeviceAttributeMaxSharedMemoryPerBlock: properties.sharedMemPerBlock,
        kind.hipDeviceAttributeComputeCapabilityMajor: 9,
        kind.hipDeviceAttributeMaxAvailableVgprsPerThread: 512,
        kind.hipDeviceAttributeTotalGlobalMem: 2**31 - 1,
        kind.hipDeviceAttributeCooperativeLaunch: 0,
        kind.hipDeviceAttributeImageSupport: 0,
    }
    for attribute, value in expected.items():
        assert check(hip.hipDeviceGetAttribute(attribute, 0)) == value, attribute
    said = refused(hip.hipDeviceGetAttribute(kind.hipDeviceAttributeUnused1, 0), "InvalidValue")
    assert "device attribute 64 is not known" in said


@on_emulated_gpu()
def test_one_device():
    assert check(hip.hipGetDeviceCount()) == 1
    assert check(hip.hipGetDevice()) == 0
    check(hip.hipInit(0))
    check(hip.hipSetDevice(0))
    for call in (hip.hipSetDevice(1), hip.hipGetDeviceProperties(1), hip.hipSetDevice(-1)):
        assert "there is one, number 0" in refused(call, "InvalidDevice")
    assert check(hip.hipDeviceGet(0)) == 0
    assert check(hip.hipDeviceTotalMem(0)) == check(hip.hipMemGetInfo())[1]
    assert check(hip.hipDeviceComputeCapability(0)) == (9, 4)
    assert check(hip.hipDeviceCanAccessPeer(0, 0)) == 0
    name = check(hip.hipDeviceGetName(100, 0))
    assert bytes(name).split(b"\0")[0] == b"MI300X (emulated by rocke)"
    bus = check(hip.hipDeviceGetPCIBusId(20, 0))
    assert check(hip.hipDeviceGetByPCIBusId(bytes(bus))) == 0
    assert check(hip.hipRuntimeGetVersion()) == check(hip.hipDriverGetVersion())
    assert check(hip.hipRuntimeGetVersion()) // 10_000_000 == 7
    check(hip.hipDeviceSynchronize())


@on_emulated_gpu()
def test_settings_are_remembered():
    limit = hip.hipLimit_t.hipLimitMallocHeapSize
    check(hip.hipDeviceSetLimit(limit, 12345))
    assert check(hip.hipDeviceGetLimit(limit)) == 12345
    refused(hip.hipDeviceGetLimit(hip.hipLimit_t.hipExtLimitScratchMin), "UnsupportedLimit")
    check(hip.hipSetDeviceFlags(4))
    assert check(hip.hipGetDeviceFlags()) == 4


@on_emulated_gpu()
def test_contexts():
    context = check(hip.hipDevicePrimaryCtxRetain(0))
    check(hip.hipCtxSetCurrent(context))
    assert int(check(hip.hipCtxGetCurrent())) == int(context)
    assert check(hip.hipCtxGetDevice()) == 0
    refused(hip.hipCtxSetCurrent(ctypes.c_void_p(0x1234)), "InvalidContext")


@on_emulated_gpu()
def test_last_error_belongs_to_the_thread():
    refused(hip.hipSetDevice(7), "InvalidDevice")
    others = []
    thread = threading.Thread(target=lambda: others.append(hip.hipGetLastError()[0]))
    thread.start()
    thread.join()
    assert others == [ERROR.hipSuccess]
    assert hip.hipPeekAtLastError()[0] == ERROR.hipErrorInvalidDevice
    assert hip.hipGetLastError()[0] == ERROR.hipErrorInvalidDevice
    assert hip.hipGetLastError()[0] == ERROR.hipSuccess


@on_emulated_gpu()
def test_error_texts():
    for error in ERROR:
        assert bytes(hip.hipGetErrorName(error)[1]).decode() == error.name
        assert hip.hipGetErrorString(error)[1]
    assert bytes(hip.hipGetErrorString(ERROR.hipErrorOutOfMemory)[1]) == b"out of memory"


@on_emulated_gpu()
def test_what_is_missing_is_not_supported():
    one = hip.dim3(1, 1, 1)
    for name, instead, call in (
        ("hipGraphCreate", "on a stream", lambda: hip.hipGraphCreate(0)),
        ("hipStreamEndCapture", "on a stream", lambda: hip.hipStreamEndCapture(None)),
        ("hipMallocArray", "", lambda: hip.hipMallocArray(hip.hipChannelFormatDesc(), 4, 4, 0)),
        ("hipDeviceGetDefaultMemPool", "hipMallocAsync", lambda: hip.hipDeviceGetDefaultMemPool(0)),
        ("hipModuleGetTexRef", "textures", lambda: hip.hipModuleGetTexRef(None, b"x")),
        ("hipGetSymbolAddress", "hipModuleGetGlobal", lambda: hip.hipGetSymbolAddress(b"x")),
        (
            "hipLaunchKernel",
            "hipModuleLaunchKernel",
            lambda: hip.hipLaunchKernel(b"x", one, one, None, 0, None),
        ),
        (
            "hipOccupancyMaxActiveBlocksPerMultiprocessor",
            "hipModuleOccupancy",
            lambda: hip.hipOccupancyMaxActiveBlocksPerMultiprocessor(b"x", 64, 0),
        ),
        ("hipFuncGetAttributes", "hipFuncGetAttribute ", lambda: hip.hipFuncGetAttributes(b"x")),
    ):
        said = refused(call(), "NotSupported")
        assert said.startswith(f"{name}: hipErrorNotSupported: not part of the HIP stand-in")
        assert instead in said
    assert hip.hipApiName(3)[1] is None


@on_emulated_gpu()
def test_a_structure_is_returned():
    kind = hip.hipChannelFormatKind.hipChannelFormatKindFloat
    found = hip.hipCreateChannelDesc(32, 16, 8, 4, kind)
    found = found[-1] if isinstance(found, tuple) else found
    assert (found.x, found.y, found.z, found.w, found.f) == (32, 16, 8, 4, kind)


@on_emulated_gpu()
def test_reset_drops_everything():
    memory = check(hip.hipMalloc(4096))
    stream = check(hip.hipStreamCreate())
    check(hip.hipDeviceReset())
    assert check(hip.hipMemGetInfo())[0] == check(hip.hipMemGetInfo())[1]
    refused(hip.hipFree(memory), "InvalidValue")
    refused(hip.hipStreamSynchronize(stream), "InvalidHandle")


@on_emulated_gpu()
def test_switched_off_there_is_no_gpu():
    stand_in.disable()
    assert hip.hipGetDeviceCount()[0] == ERROR.hipErrorNoDevice
    assert hip.hipGraphCreate(0)[0] == ERROR.hipErrorNoDevice
    assert hip.hipGetErrorName(ERROR.hipSuccess)[1] is None
    stand_in.enable("gfx90a")
    assert check(hip.hipGetDeviceProperties(0)).gcnArchName.startswith("gfx90a:")


@on_emulated_gpu()
def test_an_error_of_the_stand_in_does_not_cross_into_c():
    calls = stand_in_calls()
    kept = calls["hipDeviceSynchronize"]
    try:
        for raised, error in (
            (MemoryError(), ERROR.hipErrorOutOfMemory),
            (ZeroDivisionError("planted"), ERROR.hipErrorUnknown),
        ):
            calls["hipDeviceSynchronize"] = raising(raised)
            assert hip.hipDeviceSynchronize()[0] == error
        assert "ZeroDivisionError('planted')" in stand_in.last_failure()
    finally:
        calls["hipDeviceSynchronize"] = kept
    check(hip.hipDeviceSynchronize())


def stand_in_calls():
    return STAND_IN._calls


def raising(error):
    def call():
        raise error

    return call


@on_emulated_gpu()
def test_a_missing_function_is_told_on_stderr_once():
    for _ in range(2):
        refused(hip.hipGraphCreate(0), "NotSupported")
        refused(hip.hipDeviceSetMemPool(0, None), "NotSupported")
    said = sys.stderr.getvalue().splitlines()
    assert [line.split(": ")[:3] for line in said] == [
        ["rocke", "hipGraphCreate", "hipErrorNotSupported"],
        ["rocke", "hipDeviceSetMemPool", "hipErrorNotSupported"],
    ]


@on_emulated_gpu()
def test_the_compiler_of_hip_is_reported_as_absent():
    from hip import hiprtc

    with pytest.raises(RuntimeError, match="libhiprtc"):
        hiprtc.hiprtcVersion()
