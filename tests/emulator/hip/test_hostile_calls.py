"""Calls that a GPU would crash at, hang at or corrupt memory with: each is an error code."""

import ctypes
import mmap
import os
import random
import signal
import tempfile
import threading
from dataclasses import replace

import numpy as np
import pytest
from hip import hip

from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice
from rocke.emulator import hip as stand_in
from rocke.emulator.hip import peek
from rocke.emulator.hip.errors import HipFailure
from rocke.runtime import DeviceError
from tests.emulator.hip.calls import (
    KIND,
    add_arguments,
    check,
    code_object,
    get_kernel,
    launch,
    refused,
    to_device,
    to_host,
)
from tests.emulator.hip.process import on_emulated_gpu
from tests.emulator.hip.test_variables import image

NOWHERE = ctypes.c_void_p(0xDEAD_0000)
ONE, WAVE = (1, 1, 1), (64, 1, 1)
LIBC = ctypes.CDLL(None)
LIBC.munmap.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
LIBC.mprotect.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
LIBC.mmap.argtypes = (*(ctypes.c_size_t,) * 2, *(ctypes.c_int,) * 3, ctypes.c_long)
LIBC.mmap.restype = ctypes.c_size_t


def pages(nbytes, address=0):
    """Memory of the system's own, at ``address`` if it is free."""
    rights, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return LIBC.mmap(address, nbytes, rights, flags, -1, 0)


@on_emulated_gpu()
def test_host_pointers_that_lead_nowhere():
    memory = check(hip.hipMalloc(1 << 24))
    small = np.zeros(16, np.uint8)
    to, back = KIND.hipMemcpyHostToDevice, KIND.hipMemcpyDeviceToHost
    said = refused(hip.hipMemcpy(memory, NOWHERE, 64, to), "InvalidValue")
    assert "no memory of this process from byte 0 on" in said
    refused(hip.hipMemcpy(NOWHERE, memory, 64, back), "InvalidValue")
    refused(hip.hipMemcpyAsync(memory, NOWHERE, 64, to, None), "InvalidValue")
    refused(hip.hipMemcpy(NOWHERE, small, 16, KIND.hipMemcpyHostToHost), "InvalidValue")
    refused(hip.hipMemcpy2D(memory, 64, NOWHERE, 64, 64, 4, to), "InvalidValue")
    refused(
        hip.hipPointerGetAttribute(NOWHERE, hip.hipPointer_attribute(2), memory), "InvalidValue"
    )
    refused(hip.hipHostRegister(NOWHERE, 4096, 0), "InvalidValue")
    check(hip.hipMemcpy(memory, small, 16, to))


@on_emulated_gpu()
def test_a_host_array_that_ends_early():
    page = mmap.PAGESIZE
    address = pages(2 * page)
    LIBC.munmap(address + page, page)
    memory = check(hip.hipMalloc(2 * page))
    for to, source in ((memory, ctypes.c_void_p(address)), (ctypes.c_void_p(address), memory)):
        kind = KIND.hipMemcpyHostToDevice if to is memory else KIND.hipMemcpyDeviceToHost
        said = refused(hip.hipMemcpy(to, source, 2 * page, kind), "InvalidValue")
        assert f"from byte {page} on" in said
        check(hip.hipMemcpy(to, source, page, kind))


@on_emulated_gpu()
def test_a_copy_that_is_refused_changes_nothing():
    page, size = mmap.PAGESIZE, 1 << 22
    address = pages(size)
    LIBC.mprotect(address + size // 2, size // 2, 0)  # kept, so that nothing else comes there
    host = np.ctypeslib.as_array((ctypes.c_uint8 * (size // 2)).from_address(address))
    host[:] = 7
    memory, given = to_device(np.full(size, 9, np.uint8)), ctypes.c_void_p(address)
    to, back = KIND.hipMemcpyHostToDevice, KIND.hipMemcpyDeviceToHost
    half, wide = size // 2, 2 * page
    for call in (
        lambda: hip.hipMemcpy(given, memory, size, back),
        lambda: hip.hipMemcpy(given, memory, half + 1, back),
        lambda: hip.hipMemcpy(given, given, size, KIND.hipMemcpyDefault),
        lambda: hip.hipMemcpy2D(given, wide, memory, wide, 100, size // wide, back),
        lambda: hip.hipMemcpy(memory, given, size, to),
        lambda: hip.hipMemcpy2D(memory, wide, given, wide, 100, half // wide + 1, to),
    ):
        said = refused(call(), "InvalidValue")
        assert f"from byte {half} on" in said, said
        assert "nothing was changed" in said
        assert (host == 7).all()
        assert (to_host(memory, np.zeros(size, np.uint8)) == 9).all()
    # Rows need no memory between them.
    LIBC.mprotect(address + page, page, 0)
    check(hip.hipMemcpy2D(given, wide, memory, wide, page, half // wide, back))
    assert (host[:page] == 9).all()
    assert (host[wide : wide + page] == 9).all()
    assert (host[wide + page : 2 * wide] == 7).all()
    LIBC.munmap(address, size)


@on_emulated_gpu()
def test_host_memory_that_may_not_be_written():
    memory = to_device(np.full(8192, 7, np.uint8))
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(8192))
        file.flush()
        array = np.memmap(file.name, np.uint8, mode="r")
        back = KIND.hipMemcpyDeviceToHost
        refused(hip.hipMemcpy(array.ctypes.data, memory, 8192, back), "InvalidValue")
        check(hip.hipMemcpy(memory, array.ctypes.data, 8192, KIND.hipMemcpyHostToDevice))
        check(hip.hipHostRegister(array.ctypes.data, 8192, 0))
        refused(hip.hipMemset(array.ctypes.data, 1, 8192), "InvalidValue")
        arguments = (ctypes.c_void_p(array.ctypes.data), ctypes.c_int64(0))
        refused(launch(get_kernel("STORE_AT"), ONE, WAVE, arguments), "IllegalAddress")
        check(hip.hipHostUnregister(array.ctypes.data))
        assert not array.any()


@on_emulated_gpu()
def test_registered_memory_that_the_caller_gave_back():
    # An address that nothing else is given again.
    address = pages(1 << 16, 0x0700_0000_0000)
    assert address == 0x0700_0000_0000
    given = ctypes.c_void_p(address)
    check(hip.hipHostRegister(given, 1 << 16, 0))
    kernel = get_kernel("STORE_AT")
    check(launch(kernel, ONE, WAVE, (given, ctypes.c_int64(0))))
    LIBC.munmap(address, 1 << 16)
    refused(hip.hipMemset(given, 0, 16), "InvalidValue")
    refused(launch(kernel, ONE, WAVE, (given, ctypes.c_int64(0))), "IllegalAddress")
    refused(hip.hipHostUnregister(given), "HostMemoryNotRegistered")


def test_copies_that_overlap():
    data = np.arange(100_000, dtype=np.uint32)
    for shift in (4, 4096, 12_345 * 4):
        for to, source in ((shift, 0), (0, shift)):
            array = data.copy()
            nbytes = data.nbytes - shift
            peek.copy(array.ctypes.data + to, array.ctypes.data + source, nbytes)
            expected = data[source // 4 :][: nbytes // 4]
            np.testing.assert_array_equal(array[to // 4 :][: nbytes // 4], expected)


def test_what_a_range_of_addresses_may_be_used_for():
    page = mmap.PAGESIZE
    address = pages(3 * page)
    assert peek.mapped(address, 3 * page) == "rw"
    LIBC.munmap(address + 2 * page, page)
    assert peek.mapped(address, 2 * page) == "rw"
    assert peek.mapped(address, 2 * page + 1) == ""
    assert peek.mapped(0x10, 1) == ""
    with pytest.raises(HipFailure, match=f"from byte {page} on"):
        peek.write(address + page, bytes(2 * page))
    LIBC.munmap(address, 2 * page)


@on_emulated_gpu()
def test_where_the_kernel_does_not_copy_the_process_does():
    def forbidden(*arguments):
        ctypes.set_errno(1)
        return -1

    given, back = np.arange(100), np.zeros(100, int)
    kept, peek._LIBC = peek._LIBC, type("Libc", (), {"process_vm_writev": forbidden})()
    try:
        memory = check(hip.hipMalloc(given.nbytes))
        check(hip.hipMemcpy(memory, given, given.nbytes, KIND.hipMemcpyHostToDevice))
        check(hip.hipMemcpy(back, memory, given.nbytes, KIND.hipMemcpyDeviceToHost))
    finally:
        peek._LIBC = kept
    np.testing.assert_array_equal(back, given)


@on_emulated_gpu()
def test_memory_that_was_freed():
    memory = to_device(np.zeros(64, np.int32))
    inside = int(memory) + 16
    refused(hip.hipFree(inside), "InvalidValue")
    check(hip.hipFree(memory))
    refused(hip.hipFree(memory), "InvalidValue")
    kernel = get_kernel("STORE_AT")
    said = refused(launch(kernel, ONE, WAVE, (memory, ctypes.c_int64(0))), "IllegalAddress")
    assert "in a freed buffer of 256 bytes" in said
    array = np.zeros(16, np.uint8)
    for to, source in ((memory, array), (array, inside)):
        said = refused(hip.hipMemcpy(to, source, 16, KIND.hipMemcpyDefault), "InvalidValue")
        assert "is memory that was freed" in said
    host = check(hip.hipHostMalloc(256, 0))
    check(hip.hipHostFree(host))
    refused(hip.hipHostFree(host), "InvalidValue")


@on_emulated_gpu()
def test_host_memory_as_an_argument():
    kernel, array = get_kernel("STORE_AT"), np.zeros(64, np.int32)
    whole = pages(1 << 20)
    for address in (array.ctypes.data, whole + 4096):
        given = (ctypes.c_void_p(address), ctypes.c_int64(0))
        said = refused(launch(kernel, ONE, WAVE, given), "IllegalAddress").splitlines()[0]
        assert "bytes at 0x" in said
        assert ", host memory that is not registered (hipHostRegister does it)" in said
    check(hip.hipHostRegister(array, array.nbytes, 0))
    check(launch(kernel, ONE, WAVE, (array, ctypes.c_int64(0))))
    check(hip.hipHostUnregister(array))
    said = refused(launch(kernel, ONE, WAVE, (array, ctypes.c_int64(0))), "IllegalAddress")
    assert "host memory that is not registered" in said
    LIBC.munmap(whole, 1 << 20)
    # An index that went astray is no host memory, wherever the device keeps its own.
    memory = to_device(np.zeros(64, np.int32))
    for index in (64, 5000, -1, -5000):
        astray = (memory, ctypes.c_int64(index))
        said = refused(launch(kernel, ONE, WAVE, astray), "IllegalAddress")
        assert "host memory" not in said
    check(hip.hipFree(memory))
    said = refused(launch(kernel, ONE, WAVE, (memory, ctypes.c_int64(5000))), "IllegalAddress")
    assert "host memory" not in said


@on_emulated_gpu()
def test_flags_that_there_are_not():
    array = np.zeros(4096, np.uint8)
    c = ctypes.CDLL("libamdhip64.so")
    refused(hip.hipHostMalloc(16, 0x100), "InvalidValue")
    refused(hip.hipHostRegister(array, 4096, 0x100), "InvalidValue")
    refused(hip.hipMallocManaged(16, 8), "InvalidValue")
    refused(hip.hipMallocManaged(0, 1), "InvalidValue")
    refused(hip.hipStreamWaitEvent(None, check(hip.hipEventCreate()), 9), "InvalidValue")
    refused(hip.hipEventCreateWithFlags(0x99), "InvalidValue")
    refused(hip.hipEventCreateWithFlags(hip.hipEventInterprocess), "InvalidValue")
    both = hip.hipEventDisableTiming | hip.hipEventInterprocess
    check(hip.hipEventCreateWithFlags(both))
    check(hip.hipEventCreateWithFlags(hip.hipEventReleaseToDevice))
    nbytes = ctypes.c_size_t(16)
    pointer = ctypes.c_void_p(array.ctypes.data)
    assert (
        c.hipMemcpy(pointer, pointer, nbytes, 77) == hip.hipError_t.hipErrorInvalidMemcpyDirection
    )
    refused(hip.hipMemAdvise(array, 16, hip.hipMemoryAdvise(1), 5), "InvalidDevice")


@on_emulated_gpu()
def test_null_functions_and_streams_that_are_gone():
    kind = hip.hipFuncAttribute
    for call in (
        hip.hipFuncSetAttribute(None, kind.hipFuncAttributeMaxDynamicSharedMemorySize, 1),
        hip.hipFuncSetCacheConfig(None, hip.hipFuncCache_t(0)),
    ):
        refused(call, "InvalidDeviceFunction")
    kernel = get_kernel("ADD")
    refused(hip.hipFuncSetAttribute(kernel, kind.hipFuncAttributeMax, 1), "InvalidValue")
    check(
        hip.hipFuncSetAttribute(kernel, kind.hipFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024)
    )
    stream, memory = check(hip.hipStreamCreate()), check(hip.hipMalloc(16))
    check(hip.hipStreamDestroy(stream))
    array = np.zeros(16, np.uint8)
    for call in (
        hip.hipMemcpyAsync(memory, array, 16, KIND.hipMemcpyHostToDevice, stream),
        hip.hipMemsetAsync(memory, 0, 16, stream),
        hip.hipMallocAsync(16, stream),
        hip.hipFreeAsync(memory, stream),
        hip.hipMemPrefetchAsync(memory, 16, 0, stream),
        hip.hipEventRecord(check(hip.hipEventCreate()), stream),
        hip.hipStreamWaitEvent(stream, check(hip.hipEventCreate()), 0),
        hip.hipLaunchHostFunc(stream, ctypes.c_void_p(1), None),
        hip.hipStreamGetDevice(stream),
    ):
        refused(call, "InvalidHandle")
    assert ctypes.CDLL("libamdhip64.so").hipGetStreamDeviceId(ctypes.c_void_p(int(stream))) == -1


@on_emulated_gpu(max_instructions=100_000_000)
def test_everything_may_go_while_a_kernel_runs():
    memory = to_device(np.zeros(1, np.int32))
    kernel = get_kernel("SPIN")
    results = []
    thread = threading.Thread(
        target=lambda: results.append(launch(kernel, ONE, WAVE, (memory,))[0])
    )
    thread.start()
    check(hip.hipFree(memory))
    check(hip.hipDeviceReset())
    thread.join()
    # The kernel began before the reset, and ran on; or after it, and there was none.
    assert results[0].name in (
        *("hipErrorLaunchTimeOut", "hipErrorIllegalAddress", "hipErrorInvalidHandle"),
    )
    arguments, a, b, c = add_arguments()
    check(launch(get_kernel("ADD"), (4, 1, 1), (256, 1, 1), arguments))
    np.testing.assert_array_equal(to_host(c, a), a + b)


@on_emulated_gpu("gfx942,gfx942", max_instructions=1_000_000)
def test_threads_that_do_what_they_like():
    image = code_object("ADD").data
    shared = {"memory": [1], "module": [1], "stream": [1]}
    allowed = {
        *("Success", "ErrorInvalidValue", "ErrorInvalidHandle", "ErrorInvalidDevice"),
        *("ErrorIllegalAddress", "ErrorPeerAccessAlreadyEnabled", "ErrorPeerAccessNotEnabled"),
        "ErrorHostMemoryAlreadyRegistered",
    }
    seen, failures = set(), []

    def keep(kind, result):
        if result[1] is not None:
            shared[kind].append(int(result[1]))
        return result

    def work(seed):
        r = random.Random(seed)
        array, inside = np.zeros(4096, np.uint8), KIND.hipMemcpyDeviceToDevice

        def some(kind):
            return ctypes.c_void_p(r.choice(shared[kind][-6:]))

        def run():
            found = hip.hipModuleGetFunction(some("module"), b"add")
            if found[0] != 0:
                return found
            arguments = (*(some("memory") for _ in range(3)), ctypes.c_int(100))
            return launch(found[1], ONE, (256, 1, 1), arguments)

        def register():
            result = hip.hipHostRegister(array, 4096, 0)
            hip.hipHostUnregister(array)
            return result

        calls = (
            lambda: hip.hipSetDevice(r.randrange(3)),
            lambda: keep("memory", hip.hipMalloc(r.choice([16, 4096, 80 << 20]))),
            lambda: hip.hipFree(some("memory")),
            # Of the default kind, a copy may as well write to what the process uses now.
            lambda: hip.hipMemcpy(some("memory"), some("memory"), 80 << 20, inside),
            lambda: hip.hipMemset(some("memory"), 1, 80 << 20),
            lambda: keep("module", hip.hipModuleLoadData(image)),
            lambda: hip.hipModuleUnload(some("module")),
            run,
            lambda: keep("stream", hip.hipStreamCreate()),
            lambda: hip.hipStreamDestroy(some("stream")),
            lambda: hip.hipDeviceEnablePeerAccess(r.randrange(2), 0),
            lambda: hip.hipDeviceDisablePeerAccess(r.randrange(2)),
            lambda: hip.hipDeviceReset() if r.random() < 0.1 else hip.hipDeviceSynchronize(),
            register,
        )
        try:
            for _ in range(150):
                seen.add(r.choice(calls)()[0].name.removeprefix("hip"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert "Success" in seen
    assert seen <= allowed, stand_in.last_failure()


@on_emulated_gpu()
def test_a_callback_that_raises_or_calls_hip():
    seen = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def raising(data):
        raise ValueError("planted")

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def calling(data):
        seen.append(hip.hipMalloc(16)[0].name)

    for function in (raising, calling):
        check(hip.hipLaunchHostFunc(None, ctypes.cast(function, ctypes.c_void_p), None))
    assert seen == ["hipSuccess"]


@on_emulated_gpu()
def test_a_process_that_was_forked():
    arguments, a, b, c = add_arguments()
    kernel = get_kernel("ADD")
    check(launch(kernel, (4, 1, 1), (256, 1, 1), arguments))
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a hang must end this test
        good = launch(kernel, (4, 1, 1), (256, 1, 1), arguments)[0] == 0
        os._exit(0 if good and (to_host(c, a) == a + b).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


@on_emulated_gpu(max_instructions=20_000, threads=1)
def test_damaged_objects():
    allowed = {
        *("Success", "ErrorInvalidImage", "ErrorNoBinaryForGpu", "ErrorNotFound"),
        *("ErrorInvalidValue", "ErrorInvalidConfiguration"),
        *("ErrorIllegalAddress", "ErrorLaunchFailure", "ErrorLaunchTimeOut"),
    }
    whole = image()
    r, seen = random.Random(7), set()
    memory = check(hip.hipMalloc(4096))

    def note(result):
        seen.add(result[0].name.removeprefix("hip"))
        assert seen <= allowed, stand_in.last_failure()
        return result[1] if result[0] == 0 else None

    for _ in range(150):
        data = np.zeros(len(whole) + 8192, np.uint8)
        data[: len(whole)] = np.frombuffer(whole, np.uint8)
        for at in r.sample(range(len(whole) if r.random() < 0.5 else 0xB80), r.choice([1, 2, 20])):
            data[at] = r.randrange(256)
        module = note(hip.hipModuleLoadData(data))
        if module is None:
            continue
        note(hip.hipModuleGetGlobal(module, b"table"))
        for name in (b"fill", b"fetch"):
            kernel = note(hip.hipModuleGetFunction(module, name))
            if kernel is not None:
                note((launch(kernel, ONE, WAVE, (memory,))[0], None))
        check(hip.hipModuleUnload(module))
    assert {"Success", "ErrorInvalidImage"} <= seen


def test_more_scratch_than_a_launch_can_have():
    code_object = CodeObject.from_bytes(image("gfx942"))
    large = replace(code_object.kernels[0], scratch=1 << 32)
    with pytest.raises(DeviceError, match="4294967296 bytes of scratch a lane"):
        EmulatedDevice("gfx942").load(replace(code_object, kernels=(large,)))
