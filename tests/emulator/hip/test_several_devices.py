"""Several GPUs in one process, through ``hip-python``."""

import ctypes
import threading

import numpy as np
import pytest
from hip import hip

from rocke.emulator import hip as stand_in
from rocke.emulator.hip.gpu import open_gpu
from rocke.emulator.hip.settings import MAX_GPUS, Settings
from rocke.runtime import DeviceError
from rocke.runtime.hip_device import HipDevice
from tests.emulator.hip.calls import (
    KIND,
    add_arguments,
    check,
    code_object,
    launch,
    refused,
    to_device,
    to_host,
)
from tests.emulator.hip.process import on_emulated_gpu

BOTH = "gfx950,gfx942"
SAME = "gfx942,gfx942:xnack+"
GRID, BLOCK = (4, 1, 1), (256, 1, 1)


def first_line(said):
    return said.splitlines()[0]


def add_kernel(arch):
    module = check(hip.hipModuleLoadData(code_object("ADD", arch).data))
    return check(hip.hipModuleGetFunction(module, b"add"))


@on_emulated_gpu(BOTH, memory=1 << 20)
def test_each_device_describes_itself():
    assert check(hip.hipGetDeviceCount()) == 2
    found = [check(hip.hipGetDeviceProperties(i)) for i in range(2)]
    assert [p.gcnArchName.split(":")[0] for p in found] == ["gfx950", "gfx942"]
    assert found[0].sharedMemPerBlock == 160 * 1024
    assert found[1].sharedMemPerBlock == 64 * 1024
    assert [p.pciBusID for p in found] == [0, 1]
    assert len({bytes(check(hip.hipDeviceGetPCIBusId(20, i))) for i in range(2)}) == 2
    bus = bytes(check(hip.hipDeviceGetPCIBusId(20, 1)))
    assert check(hip.hipDeviceGetByPCIBusId(bus)) == 1
    assert [check(hip.hipDeviceComputeCapability(i)) for i in range(2)] == [(9, 5), (9, 4)]
    said = refused(hip.hipGetDeviceProperties(2), "InvalidDevice")
    assert "device 2: there are 2, from 0 on" in said
    for call in (
        hip.hipSetDevice(2),
        hip.hipSetDevice(-1),
        hip.hipDeviceGet(2),
        hip.hipDeviceGetName(10, 2),
        hip.hipDeviceTotalMem(2),
        hip.hipDeviceGetAttribute(hip.hipDeviceAttribute_t.hipDeviceAttributeWarpSize, 2),
        hip.hipDevicePrimaryCtxRetain(2),
        hip.hipDeviceCanAccessPeer(0, 2),
        hip.hipDeviceEnablePeerAccess(2, 0),
    ):
        refused(call, "InvalidDevice")


@on_emulated_gpu(BOTH)
def test_the_current_device_belongs_to_the_thread():
    check(hip.hipSetDevice(1))
    seen = {}

    def work(number):
        seen[f"fresh {number}"] = check(hip.hipGetDevice())
        check(hip.hipSetDevice(number))
        barrier.wait()
        seen[number] = check(hip.hipGetDevice())

    barrier = threading.Barrier(2)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"fresh 0": 0, "fresh 1": 0, 0: 0, 1: 1}
    assert check(hip.hipGetDevice()) == 1


@on_emulated_gpu(BOTH, memory=1 << 20)
def test_each_device_has_its_own_memory():
    whole = 1 << 20
    first = check(hip.hipMalloc(whole))
    refused(hip.hipMalloc(1), "OutOfMemory")
    check(hip.hipSetDevice(1))
    assert check(hip.hipMemGetInfo()) == (whole, whole)
    second = check(hip.hipMalloc(1000))
    assert check(hip.hipMemGetInfo()) == (whole - 1000, whole)
    for memory, device in ((first, 0), (second, 1)):
        assert check(hip.hipPointerGetAttributes(memory)).device == device
    # Memory can be freed whichever device is current.
    check(hip.hipFree(first))
    check(hip.hipSetDevice(0))
    assert check(hip.hipMemGetInfo()) == (whole, whole)


@on_emulated_gpu(BOTH)
def test_the_same_program_on_every_device():
    for index, arch in enumerate(BOTH.split(",")):
        check(hip.hipSetDevice(index))
        arguments, a, b, c = add_arguments()
        stream = check(hip.hipStreamCreate())
        assert check(hip.hipStreamGetDevice(stream)) == index
        check(launch(add_kernel(arch), GRID, BLOCK, arguments, stream=stream))
        np.testing.assert_array_equal(to_host(c, a), a + b)
        assert stand_in.device(index).counters.workgroups == 4
        other = code_object("ADD", BOTH.split(",")[1 - index]).data
        refused(hip.hipModuleLoadData(other), "NoBinaryForGpu")


@on_emulated_gpu(BOTH)
def test_from_threads_at_once():
    failures = []

    def work(index, arch):
        try:
            check(hip.hipSetDevice(index))
            kernel = add_kernel(arch)
            for _ in range(10):
                arguments, a, b, c = add_arguments()
                check(launch(kernel, GRID, BLOCK, arguments))
                np.testing.assert_array_equal(to_host(c, a), a + b)
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=(index, arch))
        for index, arch in enumerate(BOTH.split(","))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@on_emulated_gpu(SAME)
def test_copies_between_devices():
    given = np.arange(100, dtype=np.int32)
    source = to_device(given)
    check(hip.hipSetDevice(1))
    target = check(hip.hipMalloc(400))
    stream = check(hip.hipStreamCreate())
    for copy in (
        lambda: hip.hipMemcpyPeer(target, 1, source, 0, 400),
        lambda: hip.hipMemcpyPeerAsync(target, 1, source, 0, 400, stream),
        lambda: hip.hipMemcpy(target, source, 400, KIND.hipMemcpyDeviceToDevice),
    ):
        check(hip.hipMemset(target, 0, 400))
        check(copy())
        np.testing.assert_array_equal(to_host(target, given), given)
    refused(hip.hipMemcpyPeer(target, 2, source, 0, 400), "InvalidDevice")
    refused(hip.hipMemcpyPeer(target, 1, source, -1, 400), "InvalidDevice")
    refused(hip.hipMemcpyPeer(target, 1, source, 0, 401), "InvalidValue")


@on_emulated_gpu(SAME)
def test_peer_access():
    assert check(hip.hipDeviceCanAccessPeer(0, 1)) == 1
    assert check(hip.hipDeviceCanAccessPeer(1, 1)) == 0
    check(hip.hipSetDevice(1))
    (x, y, z, n), a, b, _ = add_arguments()
    check(hip.hipSetDevice(0))
    kernel = add_kernel("gfx942")
    arguments = (x, y, z, n)
    said = refused(launch(kernel, GRID, BLOCK, arguments), "IllegalAddress")
    assert ", memory of GPU 1, to which GPU 0 has no access (hipDeviceEnable" in first_line(said)
    check(hip.hipDeviceEnablePeerAccess(1, 0))
    check(launch(kernel, GRID, BLOCK, arguments))
    np.testing.assert_array_equal(to_host(z, a), a + b)
    # What is allocated afterwards is visible too.
    check(hip.hipSetDevice(1))
    later = to_device(np.zeros_like(a))
    check(hip.hipSetDevice(0))
    check(launch(kernel, GRID, BLOCK, (x, y, later, n)))
    np.testing.assert_array_equal(to_host(later, a), a + b)
    refused(hip.hipDeviceEnablePeerAccess(1, 0), "PeerAccessAlreadyEnabled")
    refused(hip.hipDeviceEnablePeerAccess(1, 1), "InvalidValue")
    refused(hip.hipDeviceEnablePeerAccess(0, 0), "InvalidDevice")
    check(hip.hipDeviceDisablePeerAccess(1))
    refused(hip.hipDeviceDisablePeerAccess(1), "PeerAccessNotEnabled")
    for memory in (arguments[0], later):
        given = (memory, *arguments[1:])
        said = refused(launch(kernel, GRID, BLOCK, given), "IllegalAddress")
        assert ", memory of GPU 1, to which GPU 0 has no access (" in first_line(said)
        assert stand_in.last_fault().report["owner"] == 1
    check(hip.hipFree(later))
    said = refused(launch(kernel, GRID, BLOCK, (later, *arguments[1:])), "IllegalAddress")
    assert "no access" not in said


@on_emulated_gpu(SAME)
def test_peer_attributes():
    kind = hip.hipDeviceP2PAttr
    assert check(hip.hipDeviceGetP2PAttribute(kind.hipDevP2PAttrAccessSupported, 0, 1)) == 1
    refused(hip.hipDeviceGetP2PAttribute(kind.hipDevP2PAttrAccessSupported, 1, 1), "InvalidDevice")
    refused(hip.hipDeviceGetP2PAttribute(kind.hipDevP2PAttrAccessSupported, 0, 5), "InvalidDevice")


@on_emulated_gpu(SAME)
def test_host_and_managed_memory_are_visible_everywhere():
    check(hip.hipSetDevice(1))
    n = 1000
    memories = [
        check(hip.hipHostMalloc(4 * n, 0)),
        check(hip.hipMallocManaged(4 * n, hip.hipMemAttachGlobal)),
    ]
    arrays = [np.ctypeslib.as_array((ctypes.c_float * n).from_address(int(m))) for m in memories]
    arrays[0][:], arrays[1][:] = np.arange(n), 0.5
    c = np.zeros(n, np.float32)
    check(hip.hipHostRegister(c, c.nbytes, 0))
    check(hip.hipSetDevice(0))
    check(launch(add_kernel("gfx942"), GRID, BLOCK, (*memories, c, ctypes.c_int(n))))
    np.testing.assert_array_equal(c, arrays[0] + arrays[1])
    check(hip.hipHostUnregister(c))
    for memory in memories:
        check(hip.hipFree(memory))


@on_emulated_gpu(SAME)
def test_streams_events_and_kernels_belong_to_their_device():
    kernel, event = add_kernel("gfx942"), check(hip.hipEventCreate())
    stream = check(hip.hipStreamCreate())
    arguments, *_ = add_arguments()
    check(hip.hipEventRecord(event, stream))
    check(hip.hipSetDevice(1))
    other, other_event = check(hip.hipStreamCreate()), check(hip.hipEventCreate())
    said = refused(launch(kernel, GRID, BLOCK, arguments, stream=other), "InvalidDevice")
    assert "loaded on device 0, the stream is one of device 1" in said
    refused(launch(kernel, GRID, BLOCK, arguments), "InvalidDevice")
    check(launch(kernel, GRID, BLOCK, arguments, stream=stream))
    refused(hip.hipEventRecord(event, other), "InvalidHandle")
    refused(hip.hipEventRecord(event, None), "InvalidHandle")
    check(hip.hipEventRecord(other_event, None))
    refused(hip.hipEventElapsedTime(event, other_event), "InvalidHandle")
    check(hip.hipStreamWaitEvent(other, event, 0))
    memory = check(hip.hipMallocAsync(100, stream))
    assert check(hip.hipPointerGetAttributes(memory)).device == 0


@on_emulated_gpu(SAME)
def test_a_reset_leaves_the_other_device_alone():
    kept, kept_stream = to_device(np.arange(10)), check(hip.hipStreamCreate())
    check(hip.hipSetDevice(1))
    gone, gone_stream = check(hip.hipMalloc(80)), check(hip.hipStreamCreate())
    check(hip.hipDeviceEnablePeerAccess(0, 0))
    check(hip.hipDeviceReset())
    refused(hip.hipFree(gone), "InvalidValue")
    refused(hip.hipStreamQuery(gone_stream), "InvalidHandle")
    np.testing.assert_array_equal(to_host(kept, np.zeros(10, int)), np.arange(10))
    check(hip.hipStreamQuery(kept_stream))
    check(hip.hipDeviceEnablePeerAccess(0, 0))
    check(hip.hipFree(kept))


@on_emulated_gpu(SAME)
def test_contexts_choose_a_device():
    second = check(hip.hipDevicePrimaryCtxRetain(1))
    check(hip.hipCtxPushCurrent(second))
    assert check(hip.hipGetDevice()) == 1
    assert int(check(hip.hipCtxPopCurrent())) == int(second)
    assert check(hip.hipCtxGetDevice()) == 0
    check(hip.hipCtxSetCurrent(second))
    assert check(hip.hipCtxGetDevice()) == 1
    check(hip.hipSetDeviceFlags(4))
    check(hip.hipSetDevice(0))
    assert check(hip.hipGetDeviceFlags()) == 0


@on_emulated_gpu(BOTH)
def test_rockes_own_device():
    for index, arch in enumerate(BOTH.split(",")):
        assert HipDevice(index).arch == arch
    with pytest.raises(DeviceError, match="GPU 2 does not exist: the HIP runtime sees 2"):
        HipDevice(2)
    first, second = HipDevice(0), HipDevice(1)
    given = np.arange(100)
    buffers = [device.allocate(given.nbytes) for device in (first, second)]
    first.copy_in(buffers[0], given)
    second.copy_in(buffers[1], 2 * given)
    back = np.zeros_like(given)
    first.copy_out(back, buffers[0])
    np.testing.assert_array_equal(back, given)
    with pytest.raises(DeviceError, match="does not exist: HIP sees 2"):
        stand_in.device(2)


def test_settings_of_several_devices():
    found = Settings("gfx950, gfx942:xnack+").full_targets
    assert found == ("gfx950:sramecc+:xnack-", "gfx942:sramecc+:xnack+")
    for wrong, said in (
        ("gfx950,", "unknown target ''"),
        ("gfx950,gfx9", "unknown target 'gfx9'"),
        (",".join(["gfx942"] * (MAX_GPUS + 1)), f"at most {MAX_GPUS}"),
    ):
        with pytest.raises(DeviceError, match=said):
            Settings(wrong)
    for wrong in (None, 5, ["gfx942", 950], []):
        with pytest.raises(DeviceError, match=r"expected (a name such as gfx942|one of gfx90a)"):
            stand_in.enable(wrong)
    with pytest.raises(DeviceError, match=r"called chek or sed, expected some of memory, threads"):
        open_gpu(0, "gfx942", 1 << 20, {"chek": True, "seed": 1, "sed": 1})


@on_emulated_gpu()
def test_targets_as_a_sequence():
    stand_in.enable(["gfx90a", "gfx950:xnack+"])
    found = [check(hip.hipGetDeviceProperties(i)).gcnArchName for i in range(2)]
    assert found == ["gfx90a:sramecc+:xnack-", "gfx950:sramecc+:xnack+"]
