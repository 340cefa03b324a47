"""Modules, kernels and launches, through ``hip-python``."""

import ctypes
import lzma
import struct
import tempfile
from pathlib import Path

import numpy as np
from hip import hip

from rocke.compiler.code_object import CodeObject
from rocke.emulator import hip as stand_in
from rocke.emulator.hip.images import code_object_at, runs_on
from tests.emulator.hip.calls import (
    add_arguments,
    check,
    code_object,
    get_kernel,
    launch,
    refused,
    to_device,
    to_host,
)
from tests.emulator.hip.process import TARGETS, on_emulated_gpu


def arch():
    return stand_in.device().arch


@on_emulated_gpu(*TARGETS)
def test_packed_arguments():
    arguments, a, b, c = add_arguments()
    check(launch(get_kernel("ADD", arch()), hip.dim3(x=4), hip.dim3(x=256), arguments))
    check(hip.hipDeviceSynchronize())
    np.testing.assert_array_equal(to_host(c, a), a + b)
    assert stand_in.device().counters.workgroups == 4


@on_emulated_gpu(*TARGETS)
def test_an_array_of_arguments():
    (x, y, z, n), a, b, c = add_arguments()
    values = [ctypes.c_void_p(int(p)) for p in (x, y, z)]
    pointers = [ctypes.addressof(v) for v in (*values, n)]
    kernel = get_kernel("ADD", arch())
    options = {"sharedMemBytes": 0, "stream": None, "extra": None}
    check(hip.hipModuleLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, kernelParams=pointers, **options))
    np.testing.assert_array_equal(to_host(c, a), a + b)


@on_emulated_gpu()
def test_a_raw_packed_buffer():
    arguments, a, b, c = add_arguments()
    packed = struct.pack("<3Qi", *(int(p) for p in arguments[:3]), 1000)
    for padding in (b"", bytes(4)):
        buffer = ctypes.create_string_buffer(packed + padding, len(packed + padding))
        size = ctypes.c_size_t(len(packed + padding))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 3)
        check(launch(get_kernel("ADD"), (4, 1, 1), (256, 1, 1), ctypes.addressof(extra)))
        np.testing.assert_array_equal(to_host(c, a), a + b)


@on_emulated_gpu()
def test_wrong_arguments():
    (x, y, z, n), *_ = add_arguments()
    kernel = get_kernel("ADD")
    for wrong, size in (
        ((x, y, z), 24),
        ((x, y, z, n, n), 32),
        ((x, y, z, n, n, n), 36),
        ((x, y, n), 20),
        ((), 0),
    ):
        result = launch(kernel, (4, 1, 1), (256, 1, 1), wrong)
        if size == 32:  # as long as the padded arguments: HIP cannot tell, nor can anyone
            check(result)
            continue
        said = refused(result, "InvalidValue")
        assert f"kernel add: {size} bytes of arguments, expected 28: " in said
        assert said.count("(8 bytes)") == 3
    check(launch(kernel, (4, 1, 1), (256, 1, 1), (x, y, z, n)))


@on_emulated_gpu()
def test_wrong_argument_arrays():
    kernel = get_kernel("ADD")
    word = ctypes.c_uint64(0)
    good = ctypes.addressof(word)
    options = {"sharedMemBytes": 0, "stream": None, "extra": None}

    def run(pointers):
        return hip.hipModuleLaunchKernel(
            kernel, 1, 1, 1, 64, 1, 1, kernelParams=pointers, **options
        )

    said = refused(run(None), "InvalidValue")
    assert "4 arguments are needed" in said
    assert "none were given" in said
    said = refused(run([good, good, None, good]), "InvalidValue")
    assert "the pointer to number 2 is a null pointer" in said
    said = refused(run([good, good, good, 0x10]), "InvalidValue")
    assert "the pointer to number 3" in said
    assert "0 of 4 bytes at 0x10 can be read" in said
    assert "kernelParams" in refused(run(ctypes.c_void_p(0x1000)), "InvalidValue")
    both = hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, None, [good] * 4, (word,))
    assert "both an argument array and a packed buffer" in refused(both, "InvalidValue")


@on_emulated_gpu()
def test_a_broken_packed_list():
    kernel = get_kernel("ADD")
    size = ctypes.c_size_t(28)
    for words, message in (
        ((1, ctypes.addressof(size), 3), "a buffer and its size are needed"),
        ((9, 0, 3), "0x9 is no HIP_LAUNCH_PARAM"),
        ((1, 0x10, 2, ctypes.addressof(size), 3), "0 of 28 bytes at 0x10"),
        ((1, 1) * 16, "no HIP_LAUNCH_PARAM_END"),
    ):
        extra = (ctypes.c_void_p * len(words))(*words)
        result = launch(kernel, (1, 1, 1), (64, 1, 1), ctypes.addressof(extra))
        assert message in refused(result, "InvalidValue")


@on_emulated_gpu(*TARGETS)
def test_wrong_sizes():
    (x, y, z, n), a, b, c = add_arguments()
    kernel = get_kernel("ADD", arch())
    lds = stand_in.device().target.lds_bytes
    for grid, block, options, message in (
        ((0, 1, 1), (64, 1, 1), {}, "0 workgroups of 64 work-items in x"),
        ((1, 1, 1), (64, 0, 1), {}, "1 workgroups of 0 work-items in y"),
        ((1, 1, 1), (257, 1, 1), {}, "a block of 257 work-items, at most 256"),
        ((1, 1, 1), (16, 16, 2), {}, "a block of 512 work-items"),
        ((1 << 27, 1, 1), (32, 1, 1), {}, "fewer than 2**32 work-items"),
        ((2**32 - 1, 1, 1), (1, 1, 1), {}, "at most 2147483647 workgroups"),
        ((1, 2**31, 1), (1, 1, 1), {}, "2147483648 workgroups of 1 work-items in y"),
        ((1, 1, 1), (64, 1, 1), {"sharedMemBytes": lds + 1}, f"{lds + 1} dynamic"),
    ):
        said = refused(launch(kernel, grid, block, (x, y, z, n), **options), "InvalidConfiguration")
        assert message in said
    check(launch(kernel, (4, 1, 1), (256, 1, 1), (x, y, z, n), sharedMemBytes=lds))
    np.testing.assert_array_equal(to_host(c, a), a + b)


@on_emulated_gpu()
def test_bad_handles():
    data = code_object("ADD").data
    module = check(hip.hipModuleLoadData(data))
    kernel = check(hip.hipModuleGetFunction(module, b"add"))
    arguments, *_ = add_arguments()
    grid, block = (4, 1, 1), (256, 1, 1)
    refused(launch(ctypes.c_void_p(0xDEAD), grid, block, arguments), "InvalidHandle")
    refused(launch(ctypes.c_void_p(int(module)), grid, block, arguments), "InvalidHandle")
    refused(launch(None, grid, block, arguments), "InvalidHandle")
    bad_stream = launch(kernel, grid, block, arguments, stream=ctypes.c_void_p(0x77))
    assert "0x77 is no stream" in refused(bad_stream, "InvalidHandle")
    refused(hip.hipModuleGetFunction(ctypes.c_void_p(0xBEEF), b"add"), "InvalidHandle")
    check(launch(kernel, grid, block, arguments))
    check(hip.hipModuleUnload(module))
    refused(launch(kernel, grid, block, arguments), "InvalidHandle")
    refused(hip.hipModuleUnload(module), "InvalidHandle")


@on_emulated_gpu()
def test_kernels_of_a_module():
    module = check(hip.hipModuleLoadData(code_object("ADD").data))
    said = refused(hip.hipModuleGetFunction(module, b"sub"), "NotFound")
    assert "no kernel 'sub': the code object holds add" in said
    kernel = check(hip.hipModuleGetFunction(module, b"add"))
    assert int(check(hip.hipModuleGetFunction(module, b"add"))) == int(kernel)
    assert bytes(hip.hipKernelNameRef(kernel)[1]) == b"add"
    assert check(hip.hipModuleGetFunctionCount(module)) == 1


@on_emulated_gpu()
def test_loading_from_a_file():
    data = code_object("ADD").data
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "add.hsaco")
        path.write_bytes(data)
        module = check(hip.hipModuleLoad(bytes(path)))
        check(hip.hipModuleGetFunction(module, b"add"))
        path.write_bytes(data[: len(data) // 2])
        assert "truncated" in refused(hip.hipModuleLoad(bytes(path)), "InvalidImage")
        absent = Path(folder, "absent.hsaco")
        assert "absent.hsaco" in refused(hip.hipModuleLoad(bytes(absent)), "FileNotFound")


@on_emulated_gpu()
def test_all_ways_to_load_bytes():
    data = code_object("ADD").data
    for image in (data, bytearray(data), np.frombuffer(data, np.uint8)):
        check(hip.hipModuleUnload(check(hip.hipModuleLoadData(image))))
    check(hip.hipModuleLoadFatBinary(data))
    # By C: hip-python reads an option that is not there after these two.
    c = ctypes.CDLL("libamdhip64.so")
    handles = [ctypes.c_void_p() for _ in range(3)]
    results = [ctypes.byref(handle) for handle in handles]
    assert c.hipModuleLoadDataEx(results[0], data, 0, None, None) == 0
    assert c.hipModuleGetFunction(results[1], handles[0], b"add") == 0
    assert c.hipLibraryLoadData(results[2], data, None, None, 0, None, None, 0) == 0
    assert c.hipLibraryGetKernel(results[1], handles[2], b"add") == 0
    assert c.hipKernelGetFunction(results[0], handles[1]) == 0
    arguments, first, second, result = add_arguments()
    check(launch(handles[0], (4, 1, 1), (256, 1, 1), arguments))
    np.testing.assert_array_equal(to_host(result, first), first + second)
    assert c.hipLibraryUnload(handles[2]) == 0
    refused(launch(handles[0], (4, 1, 1), (256, 1, 1), arguments), "InvalidHandle")


def bundle(*entries):
    """A bundle as clang's offload bundler writes it."""
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))
    size = len(head) + sum(24 + len(name) for name, _ in entries)
    bodies, at = b"", -(-size // 4096) * 4096
    for name, data in entries:
        head += struct.pack("<3Q", at, len(data), len(name)) + name
        bodies += data + bytes(-len(data) % 4096)
        at += len(data) + -len(data) % 4096
    return head + bytes(-len(head) % 4096) + bodies


@on_emulated_gpu("gfx942", "gfx950")
def test_bundles():
    entries = [(b"host-x86_64-unknown-linux-gnu-", b"")]
    for name in ("gfx942", "gfx950"):
        entries.append((f"hipv4-amdgcn-amd-amdhsa--{name}".encode(), code_object("ADD", name).data))
    arguments, a, b, c = add_arguments()
    module = check(hip.hipModuleLoadData(bundle(*entries)))
    kernel = check(hip.hipModuleGetFunction(module, b"add"))
    check(launch(kernel, (4, 1, 1), (256, 1, 1), arguments))
    np.testing.assert_array_equal(to_host(c, a), a + b)
    with tempfile.NamedTemporaryFile() as file:
        file.write(bundle(*entries))
        file.flush()
        check(hip.hipModuleLoad(file.name.encode()))
    other = bundle((b"hipv4-amdgcn-amd-amdhsa--gfx90a", code_object("ADD", "gfx90a").data))
    said = refused(hip.hipModuleLoadData(other), "NoBinaryForGpu")
    assert "among hipv4-amdgcn-amd-amdhsa--gfx90a" in said
    refused(hip.hipModuleLoadData(b"CCOB" + bytes(100)), "InvalidImage")


@on_emulated_gpu()
def test_objects_that_do_not_load():
    data = code_object("ADD").data
    said = refused(hip.hipModuleLoadData(code_object("ADD", "gfx90a").data), "NoBinaryForGpu")
    assert "for gfx90a, the device is gfx942:sramecc+:xnack-" in said
    assert "starts with b'not an e'" in refused(
        hip.hipModuleLoadData(b"not an elf file, but long enough"), "InvalidImage"
    )
    refused(hip.hipModuleLoadData(None), "InvalidValue")
    for at, size in ((40, 8), (32, 8), (54, 10)):  # section and program header offsets, sizes
        broken = bytearray(data)
        broken[at : at + size] = b"\xff" * size
        refused(hip.hipModuleLoadData(bytes(broken)), "InvalidImage")
    note = data.index(b"amdhsa.target")
    broken = data[:note] + b"amdhsa.tarpit" + data[note + 13 :]
    refused(hip.hipModuleLoadData(broken), "InvalidImage")
    check(hip.hipModuleLoadData(data))


@on_emulated_gpu()
def test_a_truncated_object_does_not_crash():
    # Nothing says how long the bytes are: what follows them in memory is read, and does not fit.
    data = code_object("ADD").data
    for length in (64, 200, 1000, len(data) // 2):
        buffer = np.zeros(len(data) + 8192, np.uint8)
        buffer[:length] = np.frombuffer(data[:length], np.uint8)
        said = refused(hip.hipModuleLoadData(buffer), "InvalidImage")
        assert "truncated or damaged: of the " in said
        assert "was all of the file there?" in said


def test_objects_of_every_compiler_are_read_whole():
    objects = sorted((Path(__file__).parents[2] / "corpus" / "objects").rglob("*.hsaco.xz"))
    assert len({path.parent.name for path in objects}) >= 2
    for path in objects[::5]:
        data = lzma.decompress(path.read_bytes())
        expected = CodeObject.from_bytes(data)
        buffer = ctypes.create_string_buffer(data + b"\xa5" * 100)
        found = code_object_at(ctypes.addressof(buffer), f"{expected.arch}:sramecc+:xnack-")
        assert found.kernels == expected.kernels, path.name
        assert found.data == data[: len(found.data)], path.name


@on_emulated_gpu()
def test_arguments_are_described():
    kernel = get_kernel("ADD")
    c = ctypes.CDLL("libamdhip64.so")
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    handle = ctypes.c_void_p(int(kernel))
    call = c.hipKernelGetParamInfo
    assert call(handle, ctypes.c_size_t(3), ctypes.byref(offset), ctypes.byref(size)) == 0
    assert (offset.value, size.value) == (24, 4)
    assert call(handle, ctypes.c_size_t(4), ctypes.byref(offset), None) == 1


def test_modes_of_targets():
    device = "gfx942:sramecc+:xnack-"
    assert runs_on("gfx942", device)
    assert runs_on("gfx942:xnack-", device)
    assert runs_on("gfx942:sramecc+:xnack-", device)
    assert not runs_on("gfx942:xnack+", device)
    assert not runs_on("gfx942:sramecc-:xnack-", device)
    assert not runs_on("gfx950", device)


@on_emulated_gpu("gfx90a:xnack+")
def test_an_object_for_another_mode():
    data = code_object("ADD", "gfx90a").data
    check(hip.hipModuleLoadData(data))
    assert b"--gfx90a" in data


@on_emulated_gpu(*TARGETS)
def test_a_fault_is_reported_and_the_device_goes_on():
    memory = to_device(np.zeros(64, np.int32))
    kernel = get_kernel("STORE_AT", arch())
    check(launch(kernel, (1, 1, 1), (64, 1, 1), (memory, ctypes.c_int64(0))))
    assert stand_in.last_fault() is None
    result = launch(kernel, (1, 1, 1), (64, 1, 1), (memory, ctypes.c_int64(1)))
    said = refused(result, "IllegalAddress")
    fault = stand_in.last_fault()
    assert "0 bytes past the end of the buffer of 256 bytes" in str(fault)
    assert str(fault) in said
    assert fault.report["kernel"] == "store_at"
    assert fault.report["lanes"] == [63]
    assert fault.report["address"] == int(memory) + 256
    check(hip.hipDeviceSynchronize())
    check(launch(kernel, (1, 1, 1), (64, 1, 1), (memory, ctypes.c_int64(0))))
    np.testing.assert_array_equal(to_host(memory, np.zeros(64, np.int32)), np.arange(64))


@on_emulated_gpu(max_instructions=10_000)
def test_an_endless_kernel():
    memory = to_device(np.zeros(1, np.int32))
    said = refused(launch(get_kernel("SPIN"), (1, 1, 1), (64, 1, 1), (memory,)), "LaunchTimeOut")
    assert "more than 10000 instructions" in said
    check(hip.hipDeviceSynchronize())


@on_emulated_gpu()
def test_memory_out_of_reach_in_lds():
    memory = to_device(np.zeros(64, np.int32))
    kernel = get_kernel("LDS_AT")
    arguments = (memory, ctypes.c_int(10))
    said = refused(
        launch(kernel, (1, 1, 1), (64, 1, 1), arguments, sharedMemBytes=256), "LaunchFailure"
    )
    assert "LDS" in said
    check(launch(kernel, (1, 1, 1), (64, 1, 1), arguments, sharedMemBytes=64 * 1024))


@on_emulated_gpu()
def test_kernels_read_host_and_managed_memory():
    n = 1000
    host, managed = check(hip.hipHostMalloc(4 * n, 0)), check(hip.hipMallocManaged(4 * n, 1))
    a = np.ctypeslib.as_array((ctypes.c_float * n).from_address(int(host)))
    b = np.ctypeslib.as_array((ctypes.c_float * n).from_address(int(managed)))
    a[:], b[:] = np.arange(n), 0.5
    c = np.zeros(n, np.float32)
    check(hip.hipHostRegister(c, c.nbytes, 0))
    arguments = (host, managed, c, ctypes.c_int(n))
    check(launch(get_kernel("ADD"), (4, 1, 1), (256, 1, 1), arguments))
    np.testing.assert_array_equal(c, a + b)


@on_emulated_gpu()
def test_launch_configuration_in_a_structure():
    arguments, a, b, c = add_arguments()
    packed = struct.pack("<3Qi", *(int(p) for p in arguments[:3]), 1000)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    size = ctypes.c_size_t(len(packed))
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 3)
    config = hip.HIP_LAUNCH_CONFIG_st(
        **{"gridDimX": 4, "gridDimY": 1, "gridDimZ": 1},
        **{"blockDimX": 256, "blockDimY": 1, "blockDimZ": 1},
    )
    check(hip.hipDrvLaunchKernelEx(config, get_kernel("ADD"), None, ctypes.addressof(extra)))
    np.testing.assert_array_equal(to_host(c, a), a + b)


@on_emulated_gpu(*TARGETS)
def test_function_attributes_and_occupancy():
    kernel = get_kernel("REVERSE", arch())
    kind = hip.hipFunction_attribute
    info = code_object("REVERSE", arch()).kernels[0]
    lds = stand_in.device().target.lds_bytes
    for attribute, value in (
        (kind.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 256),
        (kind.HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1024),
        (kind.HIP_FUNC_ATTRIBUTE_NUM_REGS, info.vgpr),
        (kind.HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 0),
        (kind.HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, lds - 1024),
    ):
        assert check(hip.hipFuncGetAttribute(attribute, kernel)) == value, attribute
    # 8 waves on each of 4 SIMDs: 8 blocks of 4 waves, or as many as LDS allows.
    active = hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
    assert check(active(kernel, 256, 0)) == 8
    assert check(active(kernel, 64, 0)) == 32
    assert check(active(kernel, 256, lds // 2 - 1024)) == 2
    assert check(active(kernel, 256, lds)) == 0
    assert check(active(kernel, 512, 0)) == 0
    grid, block = check(hip.hipModuleOccupancyMaxPotentialBlockSize(kernel, 0, 0))
    assert block == 256
    assert grid == 8 * stand_in.device().target.compute_units


@on_emulated_gpu()
def test_many_kernels_on_one_stream_keep_their_order():
    data = np.arange(256, dtype=np.int32)
    memory = to_device(data)
    kernel = get_kernel("REVERSE")
    stream = check(hip.hipStreamCreate())
    for _ in range(5):
        check(launch(kernel, (1, 1, 1), (256, 1, 1), (memory, ctypes.c_int(1)), stream=stream))
    check(hip.hipStreamSynchronize(stream))
    np.testing.assert_array_equal(to_host(memory, data), data[::-1] + 5)
