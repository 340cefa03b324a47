import ctypes
import platform
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice
from rocke.emulator.counters import InstructionClass
from rocke.runtime.device import Device, DeviceError, KernelFault
from tests.emulator import small_kernels as kernels
from tests.emulator.small_kernels import TARGETS, build, patched

ROOT = Path(__file__).resolve().parents[2]
ENDPGM = bytes.fromhex("000081bf")
NOP = bytes.fromhex("000080bf")


def run(device, ir, grid, block, *arguments, **options):
    """Build, load and launch; pointers are given as buffers."""
    kernel = device.load(build(ir, device.arch))
    raw = b""
    for argument in arguments:
        if isinstance(argument, int):
            raw += struct.pack("<i", argument)
        else:
            raw += struct.pack("<Q", argument.address)
    device.launch(kernel, grid, block, raw, **options)
    return kernel


@pytest.fixture(params=TARGETS)
def device(request):
    return EmulatedDevice(request.param)


def add_arguments(device, n=1000):
    rng = np.random.default_rng(1)
    a, b = rng.random((2, n), dtype=np.float32)
    c = np.zeros(n, np.float32)
    return [device.wrap(x) for x in (a, b, c)], a, b, c


def test_is_a_device(device):
    assert isinstance(device, Device)
    assert device.emulated


def test_adds_arrays_in_place(device):
    buffers, a, b, c = add_arguments(device)
    run(device, kernels.ADD, (4, 1, 1), (256, 1, 1), *buffers, 1000)
    np.testing.assert_array_equal(c, a + b)


def test_allocated_memory_and_copies(device):
    a = np.arange(512, dtype=np.float32)
    buffers = [device.allocate(a.nbytes) for _ in range(3)]
    assert all(b.address % 256 == 0 for b in buffers)
    device.copy_in(buffers[0], a)
    device.copy_in(buffers[1], a)
    run(device, kernels.ADD, (2, 1, 1), (256, 1, 1), *buffers, 512)
    out = np.empty_like(a)
    device.copy_out(out, buffers[2])
    np.testing.assert_array_equal(out, 2 * a)


def test_work_item_and_workgroup_ids(device):
    out = np.zeros(105 * 24, np.int32)
    run(device, kernels.IDS, (2, 3, 4), (5, 3, 7), device.wrap(out))
    gz, gy, gx, tz, ty, tx = np.indices((4, 3, 2, 7, 3, 5))
    expected = tx | ty << 4 | tz << 8 | gx << 12 | gy << 16 | gz << 20
    np.testing.assert_array_equal(out, expected.reshape(-1))


@pytest.mark.parametrize("threads", [1, 3])
def test_barriers_order_the_waves_of_a_workgroup(device, threads):
    device = EmulatedDevice(device.arch, threads=threads)
    data = np.random.default_rng(2).integers(0, 1000, 256 * 9, dtype=np.int32)
    expected = data.reshape(9, 256)
    for _ in range(5):
        expected = expected[:, ::-1] + 1
    kernel = run(device, kernels.REVERSE, (9, 1, 1), (256, 1, 1), device.wrap(data), 5)
    np.testing.assert_array_equal(data, expected.reshape(-1))
    assert kernel.info.lds == 1024
    assert device.counters.barriers == 9 * 4 * 10


def test_hidden_arguments_and_the_dispatch_packet(device):
    out = np.zeros(12, np.int32)
    run(device, kernels.HIDDEN, (3, 4, 5), (8, 2, 3), device.wrap(out))
    assert out.reshape(3, 4)[:, :3].tolist() == [[3, 4, 5], [8, 2, 3], [24, 8, 15]]


def test_calls_of_functions(device):
    out = np.zeros(64, np.int32)
    run(device, kernels.CALL, (1, 1, 1), (64, 1, 1), device.wrap(out), 5)
    np.testing.assert_array_equal(out, np.arange(64) * 5 + 7)


def test_scratch_memory_belongs_to_the_lane(device):
    out = np.zeros(3 * 128, np.int32)
    kernel = run(device, kernels.PRIVATE, (3, 1, 1), (128, 1, 1), device.wrap(out), 37)
    t = np.arange(128)
    assert kernel.info.scratch >= 160
    np.testing.assert_array_equal(out.reshape(3, 128), np.tile(t * (t % 37), (3, 1)))


def test_scratch_beyond_the_lane_is_reported(device):
    out = device.wrap(np.zeros(128, np.int32))
    fault = fault_of(run, device, kernels.PRIVATE, (1, 1, 1), (128, 1, 1), out, 100_000)
    assert fault.report["kernel"] == "private"
    assert_usable(device)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_flat_addresses_reach_every_memory(device, which):
    out = np.full(64, 5, np.int32)
    run(device, kernels.GENERIC, (1, 1, 1), (64, 1, 1), device.wrap(out), which)
    source = (np.arange(64) + which) % 3
    np.testing.assert_array_equal(out, 10 + np.array([5, 1, 2])[source])


def test_subnormals_do_not_depend_on_the_calling_process(device):
    """Flush-to-zero set by another library in the calling thread must not reach the kernel."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("sets the x86 control register")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_lljit_compiler()
    text = """
declare void @llvm.x86.sse.ldmxcsr(ptr)
define void @set(ptr %p) { call void @llvm.x86.sse.ldmxcsr(ptr %p) ret void }"""
    library = llvm.JITLibraryBuilder().add_ir(text).export_symbol("set").link(engine, "mxcsr")
    set_mxcsr = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library["set"])
    control = ctypes.c_uint32(0x9FC0)
    a = np.full(64, 1e-42, np.float32)
    out = np.zeros(64, np.float32)
    buffers = [device.wrap(x) for x in (a, a, out)]
    set_mxcsr(ctypes.addressof(control))
    try:
        run(device, kernels.ADD, (1, 1, 1), (64, 1, 1), *buffers, 64)
    finally:
        control.value = 0x1F80
        set_mxcsr(ctypes.addressof(control))
    np.testing.assert_array_equal(out.view(np.uint32), a.view(np.uint32) * 2)


def test_counters_count_wave_instructions(device):
    buffers, *_ = add_arguments(device)
    run(device, kernels.ADD, (4, 1, 1), (256, 1, 1), *buffers, 300)
    counters = device.counters
    assert counters.workgroups == 4
    assert counters.waves == 16
    assert counters.by_mnemonic["global_store_dword"] == 5  # ceil(300 / 64) waves store
    assert counters.by_mnemonic["s_endpgm"] == 16
    assert counters.by_class[InstructionClass.VMEM] == 15
    assert counters.instructions == sum(counters.by_address.values())
    assert counters.matrix_instructions == 0
    assert "global_store_dword" in counters.table(mnemonics=30)
    assert '"waves": 16' in counters.to_json()


def fault_of(call, *arguments, **options):
    with pytest.raises(KernelFault) as caught:
        call(*arguments, **options)
    return caught.value


def assert_usable(device):
    buffers, a, b, c = add_arguments(device)
    run(device, kernels.ADD, (4, 1, 1), (256, 1, 1), *buffers, 1000)
    np.testing.assert_array_equal(c, a + b)


def store_at(device, buffer, offset, block=64):
    kernel = device.load(build(kernels.STORE_AT, device.arch))
    device.launch(kernel, (1, 1, 1), (block, 1, 1), struct.pack("<Qq", buffer.address, offset))


@pytest.mark.parametrize(
    ("offset", "lanes", "where"),
    [
        (40, list(range(24, 64)), "0 bytes past the end"),
        (-1, [0], "4 bytes before the buffer"),
        (1 << 40, list(range(64)), "far from every allocation"),
    ],
)
def test_a_store_outside_the_allocation_is_reported(device, offset, lanes, where):
    buffer = device.allocate(256)
    fault = fault_of(store_at, device, buffer, offset)
    report = fault.report
    assert report["kind"] == "global_write"
    assert report["kernel"] == "store_at"
    assert report["lanes"] == lanes
    assert report["address"] == buffer.address + 4 * (offset + lanes[0])
    assert report["instruction"].startswith("global_store_dword")
    assert report["wave"] == 0
    assert report["workgroup"] == (0, 0, 0)
    assert where in str(fault)
    assert_usable(device)


def test_faults_and_counters_name_source_lines(device):
    buffer = device.allocate(256)
    kernel = device.load(build(kernels.STORE_LINES, device.arch))
    device.launch(kernel, (1, 1, 1), (64, 1, 1), struct.pack("<Qq", buffer.address, 0))
    counters = device.counters
    assert set(counters.by_line) >= {"kernels/store.py:7", "kernels/store.py:8"}
    assert sum(counters.by_line.values()) == counters.instructions
    assert "kernels/store.py:7" in counters.table(lines=5)
    assert "kernels/store.py:8" in counters.to_json()
    raw = struct.pack("<Qq", buffer.address, 1)
    fault = fault_of(device.launch, kernel, (1, 1, 1), (64, 1, 1), raw)
    assert fault.report["source"] == "kernels/store.py:8"
    assert "kernels/store.py:8" in str(fault)


def test_inactive_lanes_may_hold_any_address(device):
    buffer = device.allocate(256)
    store_at(device, buffer, 40, block=24)
    out = np.zeros(64, np.int32)
    device.copy_out(out, buffer)
    np.testing.assert_array_equal(out[40:], np.arange(24))


def test_a_null_pointer_is_reported(device):
    class Null:
        address = 0

    fault = fault_of(store_at, device, Null, 0)
    assert "null pointer" in str(fault)


def test_freed_memory_is_reported(device):
    buffer = device.allocate(256)
    device.free(buffer)
    fault = fault_of(store_at, device, buffer, 0)
    assert "freed buffer of 256 bytes" in str(fault)
    with pytest.raises(DeviceError, match="no live buffer"):
        device.copy_out(np.zeros(1), buffer)
    with pytest.raises(DeviceError, match="no live buffer"):
        device.free(buffer)


def test_read_only_arrays_may_not_be_stored_to(device):
    array = np.zeros(64, np.int32)
    array.flags.writeable = False
    fault = fault_of(store_at, device, device.wrap(array), 0)
    assert "read-only" in str(fault)
    assert not array.any()


def lds_at(device, index, dynamic_lds):
    out = device.wrap(np.zeros(64, np.int32))
    run(device, kernels.LDS_AT, (1, 1, 1), (64, 1, 1), out, index, dynamic_lds=dynamic_lds)
    return out.owner


def test_dynamic_lds_is_given_and_bounded(device):
    np.testing.assert_array_equal(lds_at(device, 10, 296), np.arange(64))
    fault = fault_of(lds_at, device, 11, 296)
    assert fault.report["kind"] == "lds_write"
    assert fault.report["lanes"] == [63]
    assert fault.report["address"] == 296
    assert "the workgroup has 296\n" in str(fault)
    fault = fault_of(lds_at, device, 0, 0)
    hint = "the workgroup has 0: the code object declares none, so its LDS is the launch's to give"
    assert hint in str(fault)
    assert "dynamic_lds, with HIP sharedMemBytes\n" in str(fault)


def test_an_endless_loop_ends_with_where_it_loops(device):
    device = EmulatedDevice(device.arch, max_instructions=100_000)
    flag = device.wrap(np.zeros(1, np.int32))
    fault = fault_of(run, device, kernels.SPIN, (1, 1, 1), (64, 1, 1), flag)
    assert fault.report["kind"] == "progress"
    first, last = fault.report["loop"]
    info = build(kernels.SPIN, device.arch).kernels[0]
    assert 0 < first <= last < info.text[1]
    assert fault.report["executions"] > 1000
    assert_usable(device)


def test_an_unknown_instruction_names_itself_when_it_is_reached(device):
    end = patched(build(kernels.STORE_AT, device.arch), ENDPGM, bytes.fromhex("ffffffff"))
    kernel = device.load(end)
    buffer = device.allocate(256)
    fault = fault_of(
        device.launch, kernel, (1, 1, 1), (64, 1, 1), struct.pack("<Qq", buffer.address, 0)
    )
    assert fault.report["kind"] == "unknown_instruction"
    assert f"no instruction of {device.arch}" in str(fault)
    assert_usable(device)


def test_control_must_not_leave_the_text(device):
    # s_branch +32767 in place of s_endpgm
    wild = patched(build(kernels.STORE_AT, device.arch), ENDPGM, bytes.fromhex("ff7f82bf"))
    buffer = device.allocate(256)
    fault = fault_of(
        device.launch,
        device.load(wild),
        *((1, 1, 1), (64, 1, 1), struct.pack("<Qq", buffer.address, 0)),
    )
    assert fault.report["kind"] == "bad_jump"
    # s_setpc_b64 s[0:1] in place of s_endpgm: s[0:1] is no code address
    wild = patched(build(kernels.STORE_AT, device.arch), ENDPGM, bytes.fromhex("001d80be"))
    fault = fault_of(
        device.launch,
        device.load(wild),
        *((1, 1, 1), (64, 1, 1), struct.pack("<Qq", buffer.address, 0)),
    )
    assert fault.report["kind"] == "bad_jump"


def test_s_trap_is_reported(device):
    trap = patched(build(kernels.STORE_AT, device.arch), ENDPGM, bytes.fromhex("020092bf"))
    buffer = device.allocate(256)
    fault = fault_of(
        device.launch,
        device.load(trap),
        *((1, 1, 1), (64, 1, 1), struct.pack("<Qq", buffer.address, 0)),
    )
    assert fault.report["kind"] == "trap"
    assert "s_trap 2" in str(fault)


def test_refusals_name_what_is_wrong():
    device = EmulatedDevice("gfx942")
    with pytest.raises(DeviceError, match="gfx90a, this device is gfx942"):
        device.load(build(kernels.ADD, "gfx90a"))
    with pytest.raises(DeviceError, match="holds add"):
        device.load(build(kernels.ADD, "gfx942"), "nothing")
    kernel = device.load(build(kernels.ADD, "gfx942"))
    good = bytes(28)
    for grid, block, arguments, dynamic, message in [
        ((0, 1, 1), (64, 1, 1), good, 0, r"grid is \(0, 1, 1\)"),
        ((1, 1), (64, 1, 1), good, 0, "three integers"),
        (5, (64, 1, 1), good, 0, "grid is 5, expected three integers"),
        ((2**31 - 1,) * 3, (64, 1, 1), good, 0, "9903520300447984150353281023 workgroups"),
        ((1, 1, 1), (64, 1.5, 1), good, 0, "three integers"),
        ((1, 1, 1), (257, 1, 1), good, 0, "at most 256"),
        ((1, 1, 1), (64, 1, 1), good, 65537, "has 65536"),
        ((1, 1, 1), (64, 1, 1), good, -1, "dynamic_lds is -1"),
        ((1, 1, 1), (64, 1, 1), good, 1.5, "dynamic_lds is 1.5"),
        ((1, 1, 1), (64, 1, 1), 28, 0, "kernargs is 28, expected bytes"),
        ((1, 1, 1), (64, 1, 1), good[:-1], 0, "27 bytes of kernel arguments, expected 28"),
        ((1, 1, 1), (64, 1, 1), bytes(100), 0, "100 bytes of kernel arguments"),
    ]:
        with pytest.raises(DeviceError, match=message):
            device.launch(kernel, grid, block, arguments, dynamic_lds=dynamic)
    with pytest.raises(DeviceError, match="loaded by another device"):
        EmulatedDevice("gfx942").launch(kernel, (1, 1, 1), (64, 1, 1), good)
    with pytest.raises(DeviceError, match="gfx950"):
        EmulatedDevice("gfx1100")
    with pytest.raises(DeviceError, match="max_instructions is 0"):
        EmulatedDevice(max_instructions=0)
    with pytest.raises(DeviceError, match="max_instructions is 1180591620717411303424"):
        EmulatedDevice(max_instructions=1 << 70)
    with pytest.raises(
        DeviceError, match=r"load: bytes, expected a CodeObject: CodeObject\.from_b"
    ):
        device.load(b"\x7fELF")
    with pytest.raises(DeviceError, match="launch: NoneType, expected what load"):
        device.launch(None, (1, 1, 1), (64, 1, 1), good)
    with pytest.raises(DeviceError, match="nothing was launched"):
        _ = EmulatedDevice().counters
    assert_usable(device)


def test_memory_refusals():
    device = EmulatedDevice("gfx942")
    with pytest.raises(DeviceError, match="at least 0"):
        device.allocate(-1)
    with pytest.raises(DeviceError, match="do not fit"):
        device.allocate(1 << 50)
    with pytest.raises(DeviceError, match="not C-contiguous"):
        device.wrap(np.zeros((4, 4)).T)
    with pytest.raises(DeviceError, match="Python objects"):
        device.wrap(np.array([object()]))
    buffer = device.allocate(8)
    with pytest.raises(DeviceError, match="the array has 16 bytes, the buffer 8"):
        device.copy_in(buffer, np.zeros(2))
    with pytest.raises(DeviceError, match="the array has 16 bytes, the buffer 8"):
        device.copy_out(np.zeros(2), buffer)
    with pytest.raises(DeviceError, match="no live buffer of this device"):
        EmulatedDevice("gfx942").free(buffer)


def test_damaged_objects_are_errors_and_never_crashes():
    good = build(kernels.REVERSE, "gfx950")
    start, size = good.kernels[0].text
    rng = np.random.default_rng(3)
    device = EmulatedDevice("gfx950", max_instructions=20_000)
    data = device.wrap(np.zeros(256, np.int32))
    outcomes = set()
    for _ in range(60):
        raw = bytearray(good.data)
        for at in start + rng.integers(0, min(size, 400), 3):
            raw[at] = rng.integers(0, 256)
        kernel = device.load(CodeObject.from_bytes(bytes(raw)))
        try:
            device.launch(kernel, (1, 1, 1), (256, 1, 1), struct.pack("<Qi", data.address, 3))
            outcomes.add("ran")
        except KernelFault as fault:
            outcomes.add(fault.report["kind"])
    assert len(outcomes) > 2
    assert_usable(device)


def test_devices_and_launches_in_many_threads():
    errors = []
    shared = EmulatedDevice("gfx942", threads=2)

    def work(index):
        try:
            device = shared if index % 2 else EmulatedDevice(TARGETS[index % 3], threads=1)
            for _ in range(5):
                assert_usable(device)
                data = np.arange(256 * 4, dtype=np.int32)
                buffer = device.wrap(data)
                run(device, kernels.REVERSE, (4, 1, 1), (256, 1, 1), buffer, 2)
                device.free(buffer)
                np.testing.assert_array_equal(data, np.arange(256 * 4) + 2)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_an_interrupt_stops_an_endless_kernel():
    # Set, not inherited: a shell starts what it runs in the background with the signal ignored.
    program = """
import numpy as np, signal, struct
from rocke.emulator import EmulatedDevice
from tests.emulator.small_kernels import SPIN, build
signal.signal(signal.SIGINT, signal.default_int_handler)
device = EmulatedDevice("gfx942")
kernel = device.load(build(SPIN, "gfx942"))
flag = device.wrap(np.zeros(1, np.int32))
print("ready", flush=True)
try:
    device.launch(kernel, (8, 1, 1), (256, 1, 1), struct.pack("<Q", flag.address))
except KeyboardInterrupt:
    flag.array[:] = 1
    device.launch(kernel, (1, 1, 1), (64, 1, 1), struct.pack("<Q", flag.address))
    print("interrupted", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert out == "interrupted\n"


def test_an_interrupt_while_a_launch_begins_stops_what_has_begun(monkeypatch):
    device = EmulatedDevice("gfx942", threads=2)
    kernel = device.load(build(kernels.SPIN, "gfx942"))
    flag = device.wrap(np.ones(1, np.int32))
    kernargs = struct.pack("<Q", flag.address)
    device.launch(kernel, (2, 1, 1), (64, 1, 1), kernargs)
    flag.array[:] = 0
    begun = []
    submit = ThreadPoolExecutor.submit

    def interrupted(pool, *arguments):
        begun.append(submit(pool, *arguments))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.launch(kernel, (2, 1, 1), (64, 1, 1), kernargs)
    ended = begun[0].done()
    flag.array[:] = 1
    assert ended
    device.launch(kernel, (2, 1, 1), (64, 1, 1), kernargs)
