"""Variables of a module, through ``hip-python``; the object is one of clang's."""

import ctypes
import lzma
from pathlib import Path

import numpy as np
import pytest
from hip import hip

from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice
from rocke.emulator import hip as stand_in
from tests.emulator.hip.calls import KIND, check, launch, refused, to_device, to_host
from tests.emulator.hip.process import TARGETS, on_emulated_gpu

OBJECTS = Path(__file__).parent / "objects"
X = np.arange(64, dtype=np.float32)
WEIGHTS = np.array([1, 0.5, 0.25, 0.125], np.float32)


def image(arch=None):
    arch = arch or stand_in.device().arch
    return lzma.decompress((OBJECTS / f"variables-{arch}.hsaco.xz").read_bytes())


def load():
    module = check(hip.hipModuleLoadData(image()))
    names = (b"fill", b"fetch", b"through_pointer")
    return module, *(check(hip.hipModuleGetFunction(module, name)) for name in names)


def run(kernel, *arguments):
    check(launch(kernel, (1, 1, 1), (64, 1, 1), arguments))


def fetched(kernel):
    out = to_device(np.zeros(64, np.float32))
    run(kernel, out)
    return to_host(out, np.zeros(64, np.float32))


@on_emulated_gpu(*TARGETS)
def test_reading_and_writing_variables():
    module, fill, fetch, _ = load()
    counter, size = check(hip.hipModuleGetGlobal(module, b"counter"))
    assert size == 4
    assert to_host(counter, np.zeros(1, np.int32))[0] == 5
    table, size = check(hip.hipModuleGetGlobal(module, b"table"))
    assert size == 256
    assert not to_host(table, X).any()
    run(fill, to_device(X))
    expected = X * np.tile(WEIGHTS, 16)
    np.testing.assert_array_equal(to_host(table, X), expected)
    np.testing.assert_array_equal(fetched(fetch), expected + 6)
    check(hip.hipMemcpy(table, X, 256, KIND.hipMemcpyHostToDevice))
    check(hip.hipMemsetD32(counter, 100, 1))
    np.testing.assert_array_equal(fetched(fetch), X + 100)


@on_emulated_gpu(*TARGETS)
def test_constants_can_be_set_by_the_host():
    module, fill, _, _ = load()
    weights, size = check(hip.hipModuleGetGlobal(module, b"weights"))
    assert size == 16
    np.testing.assert_array_equal(to_host(weights, WEIGHTS), WEIGHTS)
    check(hip.hipMemcpy(weights, 2 * WEIGHTS, 16, KIND.hipMemcpyHostToDevice))
    run(fill, to_device(X))
    table, _ = check(hip.hipModuleGetGlobal(module, b"table"))
    np.testing.assert_array_equal(to_host(table, X), 2 * X * np.tile(WEIGHTS, 16))


@on_emulated_gpu(*TARGETS)
def test_kernels_cannot_write_constants():
    module, _, _, through = load()
    weights, _ = check(hip.hipModuleGetGlobal(module, b"weights"))
    current, size = check(hip.hipModuleGetGlobal(module, b"current"))
    assert size == 8
    address = np.array([int(weights)], np.uint64)
    check(hip.hipMemcpy(current, address, 8, KIND.hipMemcpyHostToDevice))
    refused(launch(through, (1, 1, 1), (64, 1, 1), (ctypes.c_int(0),)), "IllegalAddress")
    np.testing.assert_array_equal(to_host(weights, WEIGHTS), WEIGHTS)


@on_emulated_gpu(*TARGETS, check=True)
def test_a_pointer_variable_leads_to_memory_of_the_device():
    module, _, _, through = load()
    memory = to_device(np.zeros(64, np.float32))
    current, _ = check(hip.hipModuleGetGlobal(module, b"current"))
    address = np.array([int(memory)], np.uint64)
    check(hip.hipMemcpy(current, address, 8, KIND.hipMemcpyHostToDevice))
    run(through, ctypes.c_int(0))
    np.testing.assert_array_equal(to_host(memory, X), X)
    refused(launch(through, (1, 1, 1), (64, 1, 1), (ctypes.c_int(1),)), "IllegalAddress")
    run(through, ctypes.c_int(0))


@on_emulated_gpu()
def test_every_module_has_variables_of_its_own():
    first, fill, fetch, _ = load()
    _, _, other_fetch, _ = load()
    run(fill, to_device(X))
    assert fetched(fetch)[1] == 6.5
    assert fetched(other_fetch)[1] == 5
    check(hip.hipModuleUnload(first))
    _, _, fresh, _ = load()
    assert fetched(fresh)[1] == 5


@on_emulated_gpu()
def test_a_variable_of_one_module_is_memory_for_another():
    first, *_ = load()
    _, fill, _, _ = load()
    table, _ = check(hip.hipModuleGetGlobal(first, b"table"))
    check(hip.hipMemcpy(table, X, 256, KIND.hipMemcpyHostToDevice))
    run(fill, table)
    found = check(hip.hipPointerGetAttributes(table))
    assert found.type == hip.hipMemoryType.hipMemoryTypeDevice
    check(hip.hipModuleUnload(first))
    refused(launch(fill, (1, 1, 1), (64, 1, 1), (table,)), "IllegalAddress")


@on_emulated_gpu()
def test_what_is_refused():
    module, *_ = load()
    said = refused(hip.hipModuleGetGlobal(module, b"absent"), "NotFound")
    assert "no variable 'absent'" in said
    for name in (b"fill", b"fill.kd", b""):  # code, a descriptor, nothing
        refused(hip.hipModuleGetGlobal(module, name), "NotFound")
    refused(hip.hipModuleGetGlobal(ctypes.c_void_p(0x99), b"table"), "InvalidHandle")
    refused(hip.hipModuleGetGlobal(module, None), "InvalidValue")
    table, _ = check(hip.hipModuleGetGlobal(module, b"table"))
    refused(hip.hipFree(table), "InvalidValue")
    refused(
        hip.hipMemcpy(table, np.zeros(65, np.float32), 260, KIND.hipMemcpyHostToDevice),
        "InvalidValue",
    )
    free, total = check(hip.hipMemGetInfo())
    assert free == total
    again, _ = check(hip.hipModuleGetGlobal(module, b"table"))
    assert int(again) == int(table)
    check(hip.hipModuleUnload(module))
    refused(hip.hipMemset(table, 0, 4), "InvalidValue")
    refused(hip.hipModuleGetGlobal(module, b"table"), "InvalidHandle")


@on_emulated_gpu()
def test_one_of_the_results_may_be_left_out():
    module, *_ = load()
    c = ctypes.CDLL("libamdhip64.so")
    address, size = ctypes.c_size_t(), ctypes.c_size_t()
    handle = ctypes.c_void_p(int(module))
    assert c.hipModuleGetGlobal(ctypes.byref(address), None, handle, b"table") == 0
    assert c.hipLibraryGetGlobal(None, ctypes.byref(size), handle, b"table") == 0
    assert address.value == int(check(hip.hipModuleGetGlobal(module, b"table"))[0])
    assert size.value == 256
    assert c.hipModuleGetGlobal(None, None, handle, b"table") == 1


@pytest.mark.parametrize("arch", TARGETS)
def test_kernels_of_one_object_share_its_variables(arch):
    device = EmulatedDevice(arch)
    code_object = CodeObject.from_bytes(image(arch))
    fill, fetch = (device.load(code_object, name) for name in ("fill", "fetch"))
    x, out = device.wrap(X.copy()), device.allocate(256)
    for kernel, buffer in ((fill, x), (fetch, out)):
        device.launch(kernel, (1, 1, 1), (64, 1, 1), buffer.address.to_bytes(8, "little"))
    found = np.zeros_like(X)
    device.copy_out(found, out)
    np.testing.assert_array_equal(found, X * np.tile(WEIGHTS, 16) + 6)
