"""Memory functions, through ``hip-python``."""

import ctypes
import sys

import numpy as np
from hip import hip

from rocke.emulator.hip import session
from tests.emulator.hip.calls import KIND, check, refused, to_device, to_host
from tests.emulator.hip.process import on_emulated_gpu


@on_emulated_gpu()
def test_copies_of_all_kinds():
    given = np.random.default_rng(0).random(1000)
    stream = check(hip.hipStreamCreate())
    copies = {
        "sync": lambda to, source, kind: hip.hipMemcpy(to, source, given.nbytes, kind),
        "async": lambda to, source, kind: hip.hipMemcpyAsync(
            to, source, given.nbytes, kind, stream
        ),
        "null stream": lambda to, source, kind: hip.hipMemcpyAsync(
            to, source, given.nbytes, kind, None
        ),
        "with stream": lambda to, source, kind: hip.hipMemcpyWithStream(
            to, source, given.nbytes, kind, stream
        ),
        "default": lambda to, source, kind: hip.hipMemcpy(
            to, source, given.nbytes, KIND.hipMemcpyDefault
        ),
    }
    for name, copy in copies.items():
        first, second = (check(hip.hipMalloc(given.nbytes)) for _ in range(2))
        back, again = np.zeros_like(given), np.zeros_like(given)
        check(copy(first, given, KIND.hipMemcpyHostToDevice))
        check(copy(second, first, KIND.hipMemcpyDeviceToDevice))
        check(copy(back, second, KIND.hipMemcpyDeviceToHost))
        check(copy(again, back, KIND.hipMemcpyHostToHost))
        np.testing.assert_array_equal(again, given, err_msg=name)


@on_emulated_gpu()
def test_copies_with_the_direction_in_their_name():
    given = np.arange(100, dtype=np.int32)
    stream = check(hip.hipStreamCreate())
    first, second = (check(hip.hipMalloc(given.nbytes)) for _ in range(2))
    for options, suffix in (((), ""), ((stream,), "Async")):
        back = np.zeros_like(given)
        check(getattr(hip, f"hipMemcpyHtoD{suffix}")(first, given, given.nbytes, *options))
        check(getattr(hip, f"hipMemcpyDtoD{suffix}")(second, first, given.nbytes, *options))
        check(getattr(hip, f"hipMemcpyDtoH{suffix}")(back, second, given.nbytes, *options))
        np.testing.assert_array_equal(back, given)
        given += 1
    check(hip.hipMemcpyPeer(second, 0, first, 0, 8))
    refused(hip.hipMemcpyPeer(second, 1, first, 0, 8), "InvalidDevice")


@on_emulated_gpu()
def test_part_of_an_array():
    given = np.arange(64, dtype=np.float32)
    memory = to_device(given).configure(typestr="float32", shape=(8, 8))
    row = np.zeros(8, np.float32)
    check(hip.hipMemcpy(row, memory[3, :], row.nbytes, KIND.hipMemcpyDeviceToHost))
    np.testing.assert_array_equal(row, given[24:32])


@on_emulated_gpu()
def test_rows():
    given = np.arange(60, dtype=np.uint8).reshape(5, 12)
    memory, pitch = check(hip.hipMallocPitch(12, 5))
    assert pitch % 256 == 0
    check(hip.hipMemset2D(memory, pitch, 0xEE, pitch, 5))
    check(hip.hipMemcpy2D(memory, pitch, given, 12, 12, 5, KIND.hipMemcpyHostToDevice))
    back = np.zeros((5, 20), np.uint8)
    check(hip.hipMemcpy2DAsync(back, 20, memory, pitch, 12, 5, KIND.hipMemcpyDeviceToHost, None))
    np.testing.assert_array_equal(back[:, :12], given)
    assert not back[:, 12:].any()
    edge = to_host(memory, np.zeros(13, np.uint8))
    assert edge[12] == 0xEE
    said = refused(
        hip.hipMemcpy2D(memory, pitch, given, 12, 13, 5, KIND.hipMemcpyHostToDevice),
        "InvalidPitchValue",
    )
    assert "source pitch 12 is less than the width 13" in said
    refused(hip.hipMemset2D(memory, pitch, 0, pitch, 6), "InvalidValue")


@on_emulated_gpu()
def test_fills():
    memory = check(hip.hipMalloc(64))
    check(hip.hipMemset(memory, 0x1AB, 64))
    assert (to_host(memory, np.zeros(64, np.uint8)) == 0xAB).all()
    check(hip.hipMemsetD16(memory, 0xBEEF, 8))
    check(hip.hipMemsetD32Async(int(memory) + 32, 0x01020304, 4, None))
    check(hip.hipMemsetD8(int(memory) + 60, 7, 4))
    words = to_host(memory, np.zeros(16, np.uint32)).tolist()
    assert words[:4] == [0xBEEFBEEF] * 4
    assert words[4:8] == [0xABABABAB] * 4
    assert words[8:12] == [0x01020304] * 4
    assert words[15] == 0x07070707
    assert "only 4 are left" in refused(hip.hipMemset(int(memory) + 60, 0, 5), "InvalidValue")


@on_emulated_gpu()
def test_bounds_of_copies():
    given = np.zeros(100, np.uint8)
    memory = to_device(given)
    said = refused(
        hip.hipMemcpy(memory, np.zeros(101, np.uint8), 101, KIND.hipMemcpyHostToDevice),
        "InvalidValue",
    )
    assert "destination" in said
    assert "101 bytes, but only 100 are left" in said
    said = refused(
        hip.hipMemcpy(given, int(memory) + 50, 51, KIND.hipMemcpyDeviceToHost), "InvalidValue"
    )
    assert "source" in said
    assert "only 50 are left of the allocation of 100 bytes" in said
    check(hip.hipMemcpy(given, int(memory) + 50, 50, KIND.hipMemcpyDeviceToHost))


@on_emulated_gpu()
def test_addresses_that_are_no_device_memory():
    array = np.zeros(16, np.uint8)
    said = refused(hip.hipMemcpy(array, array, 16, KIND.hipMemcpyHostToDevice), "InvalidValue")
    assert f"destination {array.ctypes.data:#x} is no memory of the device" in said
    refused(hip.hipMemcpy(array, array, 16, KIND.hipMemcpyDeviceToHost), "InvalidValue")
    refused(hip.hipMemset(array, 0, 16), "InvalidValue")
    refused(hip.hipMemcpy(None, array, 16, KIND.hipMemcpyDefault), "InvalidValue")
    check(hip.hipMemcpy(None, None, 0, KIND.hipMemcpyDefault))
    memory = to_device(array)
    address = int(memory)
    check(hip.hipFree(memory))
    refused(hip.hipMemcpy(array, address, 16, KIND.hipMemcpyDeviceToHost), "InvalidValue")
    refused(hip.hipFree(address), "InvalidValue")
    refused(hip.hipFree(array.ctypes.data), "InvalidValue")
    check(hip.hipFree(None))


@on_emulated_gpu(memory=1 << 20)
def test_memory_runs_out_and_comes_back():
    whole = 1 << 20
    assert check(hip.hipMemGetInfo()) == (whole, whole)
    first = check(hip.hipMalloc(whole - 100))
    assert check(hip.hipMemGetInfo()) == (100, whole)
    said = refused(hip.hipMalloc(101), "OutOfMemory")
    assert f"101 bytes do not fit: {whole - 100} of {whole} are in use" in said
    check(hip.hipFree(check(hip.hipMalloc(100))))
    check(hip.hipFree(first))
    check(hip.hipFree(check(hip.hipMalloc(whole))))


@on_emulated_gpu(memory=1 << 60)
def test_memory_that_the_host_does_not_have():
    refused(hip.hipMalloc(1 << 59), "OutOfMemory")
    check(hip.hipMalloc(4096))


@on_emulated_gpu()
def test_no_bytes():
    error, memory = hip.hipMalloc(0)
    assert error == 0
    assert memory is None


@on_emulated_gpu()
def test_host_memory():
    memory = check(hip.hipHostMalloc(4096, 0))
    view = (ctypes.c_uint8 * 4096).from_address(int(memory))
    view[17] = 99
    assert int(check(hip.hipHostGetDevicePointer(memory, 0))) == int(memory)
    back = np.zeros(4096, np.uint8)
    check(hip.hipMemcpy(back, memory, 4096, KIND.hipMemcpyDeviceToHost))
    assert back[17] == 99
    check(hip.hipHostFree(memory))
    refused(hip.hipHostFree(check(hip.hipMalloc(16))), "InvalidValue")


@on_emulated_gpu()
def test_registered_memory():
    array = np.zeros(1024, np.uint8)
    check(hip.hipHostRegister(array, 1024, 0))
    check(hip.hipMemset(array, 5, 1024))
    assert (array == 5).all()
    said = refused(hip.hipHostRegister(array[100:], 10, 0), "HostMemoryAlreadyRegistered")
    assert "overlap" in said
    refused(hip.hipFree(array), "InvalidValue")
    check(hip.hipHostUnregister(array))
    refused(hip.hipHostUnregister(array), "HostMemoryNotRegistered")
    check(hip.hipHostRegister(array, 1024, 0))
    check(hip.hipHostUnregister(array))


@on_emulated_gpu()
def test_pointer_attributes():
    kind = hip.hipMemoryType
    for memory, expected in (
        (check(hip.hipMalloc(100)), kind.hipMemoryTypeDevice),
        (check(hip.hipHostMalloc(100, 0)), kind.hipMemoryTypeHost),
        (check(hip.hipMallocManaged(100, 1)), kind.hipMemoryTypeManaged),
    ):
        found = check(hip.hipPointerGetAttributes(int(memory) + 10))
        assert found.type == expected
        assert found.device == 0
        assert int(found.devicePointer) == int(memory) + 10
        assert found.isManaged == (expected == kind.hipMemoryTypeManaged)
        base, size = check(hip.hipMemGetAddressRange(int(memory) + 10))
        assert (int(base), size) == (int(memory), 100)
        assert check(hip.hipMemPtrGetInfo(memory)) == 100
    array = np.zeros(4)
    unknown = check(hip.hipPointerGetAttributes(array))
    assert unknown.type == kind.hipMemoryTypeUnregistered
    refused(hip.hipMemGetAddressRange(array), "InvalidValue")


@on_emulated_gpu()
def test_stream_ordered_allocation():
    stream = check(hip.hipStreamCreate())
    memory = check(hip.hipMallocAsync(256, stream))
    check(hip.hipMemsetAsync(memory, 1, 256, stream))
    check(hip.hipFreeAsync(memory, stream))
    check(hip.hipStreamSynchronize(stream))
    refused(hip.hipMemcpy(memory, memory, 1, KIND.hipMemcpyDeviceToDevice), "InvalidValue")


@on_emulated_gpu()
def test_facts_one_by_one():
    memory = check(hip.hipMalloc(100))
    inside = int(memory) + 10
    c = ctypes.CDLL("libamdhip64.so")
    word, kind = ctypes.c_uint64(), ctypes.c_int()
    numbers = hip.hipPointer_attribute
    for number, value in (
        (numbers.HIP_POINTER_ATTRIBUTE_DEVICE_POINTER, inside),
        (numbers.HIP_POINTER_ATTRIBUTE_HOST_POINTER, 0),
        (numbers.HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, int(memory)),
        (numbers.HIP_POINTER_ATTRIBUTE_RANGE_SIZE, 100),
    ):
        word.value = 1
        check(hip.hipPointerGetAttribute(ctypes.addressof(word), number, inside))
        assert word.value == value, number
    asked = (ctypes.c_int * 2)(numbers.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, 12)
    outs = (ctypes.c_void_p * 2)(ctypes.addressof(kind), ctypes.addressof(word))
    address = ctypes.c_void_p(inside)
    assert c.hipDrvPointerGetAttributes(2, asked, outs, address) == 0
    assert (kind.value, word.value) == (hip.hipMemoryType.hipMemoryTypeDevice, 100)
    tokens = numbers.HIP_POINTER_ATTRIBUTE_P2P_TOKENS
    refused(hip.hipPointerGetAttribute(ctypes.addressof(word), tokens, inside), "NotSupported")
    refused(hip.hipMemPrefetchAsync(memory, 101, 0, None), "InvalidValue")
    check(hip.hipMemPrefetchAsync(memory, 100, 0, None))


@on_emulated_gpu()
def test_variants_for_a_default_stream_per_thread():
    given, back = np.arange(16, dtype=np.uint8), np.zeros(16, np.uint8)
    memory = check(hip.hipMalloc(16))
    check(hip.hipMemcpy_spt(memory, given, 16, KIND.hipMemcpyHostToDevice))
    check(hip.hipMemset_spt(memory, 9, 4))
    check(hip.hipMemcpyAsync_spt(back, memory, 16, KIND.hipMemcpyDeviceToHost, None))
    check(hip.hipStreamSynchronize_spt(None))
    np.testing.assert_array_equal(back, [9] * 4 + list(range(4, 16)))


@on_emulated_gpu()
def test_what_is_refused_is_told_on_stderr_once():
    memory = check(hip.hipMalloc(16))
    for _ in range(2):
        failures = [
            refused(call(), "InvalidValue")
            for call in (
                lambda: hip.hipMemcpy(memory, bytes(17), 17, KIND.hipMemcpyHostToDevice),
                lambda: hip.hipMemset(memory, 0, 17),
                lambda: hip.hipMemsetD32Async(memory, 0, 5, None),
                lambda: hip.hipFree(int(memory) + 1),
                lambda: hip.hipHostFree(memory),
            )
        ]
    assert sys.stderr.getvalue().splitlines() == [f"rocke: {text}" for text in failures]
    assert "only 16 are left of the allocation of 16 bytes" in failures[0]


@on_emulated_gpu()
def test_ever_new_failures_are_told_up_to_a_number():
    memory, limit = int(check(hip.hipMalloc(16))), session._TOLD_LIMIT
    for nbytes in range(17, 17 + limit + 10):
        refused(hip.hipMemset(memory, 0, nbytes), "InvalidValue")
    said = sys.stderr.getvalue().splitlines()
    assert len(said) == limit + 1
    assert said[-1] == "rocke: 1000 failures of copies, fills and frees were told, others are not"
    refused(hip.hipGraphCreate(0), "NotSupported")
    assert "hipGraphCreate" in sys.stderr.getvalue().splitlines()[-1]
