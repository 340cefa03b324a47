"""The launcher: what it passes on, and what it refuses."""

import struct
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from rocke.runtime.device import DeviceError, KernelFault
from rocke.runtime.launcher import Launcher
from rocke.runtime.packing import ArgumentError
from tests.runtime.fakes import SIGNATURE, FakeBuffer, FakeDevice, InPlaceDevice, code_object

WIDTH = 8
LIMITS = {
    "rows": (1, 4),
    "x": {"access": (("rows", "stride_x_token"), (WIDTH, 1)), "align": 4},
    "y": {"shape": ("rows", WIDTH)},
}


def scale_rows(device, kernargs):
    x, y, scale, rows, stride = struct.unpack("<QQfii", kernargs)
    source = device.memory(x, np.float16, (rows - 1) * stride + WIDTH)
    for row in range(rows):
        device.memory(y + 2 * row * WIDTH, np.float16, WIDTH)[:] = (
            source[row * stride : row * stride + WIDTH] * scale
        )


def launcher(device, limits=LIMITS, **kwargs):
    return Launcher(
        device, code_object(), SIGNATURE, grid=(4, 1, 1), block=(64, 1, 1), limits=limits, **kwargs
    )


def arguments(**changes):
    x = np.arange(4 * WIDTH, dtype=np.float16).reshape(4, WIDTH)
    values = dict(x=x, y=np.zeros_like(x), scale=0.5, rows=4, stride_x_token=WIDTH)
    return {**values, **changes}


@pytest.mark.parametrize("kind", [FakeDevice, InPlaceDevice])
def test_arrays_go_in_and_come_back(kind):
    device = kind(scale_rows)
    values = arguments()
    launcher(device)(**values)
    assert (values["y"] == values["x"] * np.float16(0.5)).all()
    assert device.launches[0][:2] == ((4, 1, 1), (64, 1, 1))
    assert device.synchronized == 1
    assert not device.buffers


def test_an_in_place_device_sees_the_host_addresses():
    device = InPlaceDevice(scale_rows)
    values = arguments()
    launcher(device)(**values)
    x, y = struct.unpack_from("<QQ", device.launches[0][2])
    assert (x, y) == (values["x"].ctypes.data, values["y"].ctypes.data)
    assert sorted(a.flags.writeable for a in device.wrapped) == [False, True]


def test_memory_is_released_when_the_kernel_fails():
    def fail(device, kernargs):
        raise DeviceError("fault")

    device = FakeDevice(fail)
    with pytest.raises(DeviceError, match="fault"):
        launcher(device)(**arguments())
    assert not device.buffers


@pytest.mark.parametrize("kind", [FakeDevice, InPlaceDevice])
def test_interleaved_views_of_one_tensor_keep_each_other_s_values(kind):
    packed = np.arange(4 * 2 * WIDTH, dtype=np.float16).reshape(4, 2, WIDTH)
    before = packed.copy()
    device = kind(lambda d, k: d.memory(struct.unpack_from("<QQ", k)[1], np.float16, 1).fill(-1))
    limits = {"x": LIMITS["x"], "y": {"strided": True}}
    launcher(device, limits)(**arguments(x=packed[:, 0], y=packed[:, 1], stride_x_token=2 * WIDTH))
    x, y = struct.unpack_from("<QQ", device.launches[0][2])
    assert y - x == 2 * WIDTH
    before[0, 1, 0] = -1
    assert (packed == before).all()


def test_device_buffers_are_passed_on_without_waiting():
    device = FakeDevice()
    x, y = device.allocate(64), device.allocate(64)
    launcher(device)(**arguments(x=x, y=y))
    assert struct.unpack_from("<QQ", device.launches[0][2]) == (x.address, y.address)
    assert device.synchronized == 0
    assert len(device.buffers) == 2


def test_rows_with_gaps_are_accepted_where_the_family_gives_strides():
    wide = np.arange(4 * 20, dtype=np.float16).reshape(4, 20)
    values = arguments(x=wide[:, :WIDTH], stride_x_token=20)
    launcher(FakeDevice(scale_rows))(**values)
    assert (values["y"] == wide[:, :WIDTH] * np.float16(0.5)).all()


HALF = np.zeros((4, WIDTH), np.float16)
READ_ONLY = HALF.copy()
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": HALF.astype(np.float32)}, "argument 'x': dtype float32, expected float16"),
        ({"x": HALF.astype(ml_dtypes.bfloat16)}, "argument 'x': dtype bfloat16, expected float16"),
        ({"x": HALF.astype(">f2")}, "argument 'x': dtype >f2, expected float16"),
        ({"x": HALF.tolist()}, "argument 'x': list, expected a numpy array of float16"),
        ({"x": np.asfortranarray(HALF)}, "argument 'x': the last dimension is not contiguous"),
        ({"x": HALF[:, ::-1]}, "argument 'x': the last dimension is not contiguous"),
        ({"x": HALF[::-1]}, "argument 'x': strides .* not negative"),
        ({"x": HALF[:0]}, "argument 'x': the array is empty"),
        ({"x": HALF[:3]}, "argument 'x': an array of shape .* up to element 31 .*rows = 4"),
        ({"stride_x_token": 9}, "argument 'x': .*up to element 34 .*stride_x_token = 9"),
        ({"stride_x_token": -1}, "argument 'stride_x_token': -1, expected 0 or more"),
        ({"x": np.zeros(40, np.float16)[1:33]}, "argument 'x': address .* multiple of 4 bytes"),
        ({"y": HALF[:2]}, r"argument 'y': shape \(2, 8\), expected \(4, 8\)"),
        ({"y": np.zeros((4, 9), np.float16)[:, :8]}, "argument 'y': the array is not C-contiguous"),
        ({"y": READ_ONLY}, "argument 'y': the kernel writes it, the array is read-only"),
        ({"rows": 5}, r"argument 'rows': 5 is outside what this kernel was built for \(1 to 4\)"),
        ({"rows": 0}, "argument 'rows': 0 is outside"),
        ({"rows": 2.5}, "argument 'rows': 2.5"),
        ({"rows": True}, r"argument 'rows': True \(bool\), expected an integer \(i32\)"),
        ({"scale": "big"}, "argument 'scale': 'big'"),
        ({"z": 1, "zz": 2}, "unknown 'z', 'zz'"),
    ],
)
def test_wrong_arguments_are_refused_by_name(changes, message):
    device = FakeDevice(scale_rows)
    with pytest.raises(ArgumentError, match=message):
        launcher(device)(**arguments(**changes))
    assert not device.launches


GRIDDED = {
    "rows": (1, 64),
    "x": {"access": (("grid.y", "stride_x_token"), (("mul", "rows", 2), 1))},
    "y": {"access": ((("ceil_div", "grid.y", "rows"), "stride_x_token"), (WIDTH, 1))},
}


@pytest.mark.parametrize(
    ("grid", "changes", "message"),
    [
        (
            (1, 5, 1),
            {},
            "argument 'x': an array of shape .4, 8. reaches element 31, but the kernel reads or "
            "writes up to element 39 .by grid.y = 5, stride_x_token = 8, mul.rows, 2. = 8.; "
            "expected grid.y at most 4$",
        ),
        ((1, 4, 1), {"rows": 5}, "'x': .*; expected mul.rows, 2. at most 8$"),
        ((1, 1, 1), {"rows": 64}, "'x': .*; expected mul.rows, 2. at most 8$"),
        ((1, 5, 1), {"rows": 1, "x": "long"}, "'y': .*ceil_div.grid.y, rows. = 5.* at most 4$"),
    ],
)
def test_arrays_reach_as_far_as_the_grid_and_the_arguments_say(grid, changes, message):
    device = FakeDevice()
    if "x" in changes:
        changes = {**changes, "x": np.zeros((9, WIDTH), np.float16)}
    launch = launcher(device, GRIDDED)
    launch.with_grid((1, 4, 1))(**arguments())
    with pytest.raises(ArgumentError, match=message):
        launch.with_grid(grid)(**arguments(**changes))
    assert len(device.launches) == 1


def test_a_buffer_reaches_as_far_as_the_grid_says():
    device = FakeDevice()
    launch = launcher(device, GRIDDED).with_grid((1, 5, 1))
    message = "'x': a buffer of 32 .*; expected grid.y at most 4 or stride_x_token at most 6$"
    with pytest.raises(ArgumentError, match=message):
        launch(**arguments(x=device.allocate(64)))


def test_a_division_by_an_argument_of_0_is_refused():
    limits = {"x": {"access": ((("ceil_div", 4, "rows"), WIDTH), (WIDTH, 1))}}
    with pytest.raises(ArgumentError, match="argument 'rows': 0, expected at least 1"):
        launcher(FakeDevice(), limits)(**arguments(rows=0))


@pytest.mark.parametrize(("stride", "least"), [(0, 1), (7, 8)])
def test_what_is_written_must_be_apart(stride, least):
    limits = {"y": {"access": (("rows", "stride_x_token"), (WIDTH, 1)), "apart": True}}
    launch = launcher(FakeDevice(), limits)
    launch(**arguments())
    launch(**arguments(rows=1, stride_x_token=stride))
    message = f"argument 'stride_x_token': {stride}, expected at least {least}: y is written for"
    with pytest.raises(ArgumentError, match=message):
        launch(**arguments(stride_x_token=stride))


@pytest.mark.parametrize("buffer", [False, True])
def test_offsets_of_few_bits_bound_the_span_of_the_inner_axes(buffer):
    access = (("rows", 100), ("rows", "stride_x_token"), (WIDTH, 1))
    limits = {"x": {"access": access, "span": (2, 62)}}
    device = FakeDevice()
    launch = launcher(device, limits)
    x = device.allocate(1000) if buffer else np.zeros((4, 125), np.float16)
    launch(**arguments(x=x, stride_x_token=7))
    message = "argument 'x': rows = 4, stride_x_token = 8 span 64 bytes, expected less than 62"
    with pytest.raises(ArgumentError, match=message):
        launch(**arguments(x=x))


def test_the_stride_of_an_axis_of_one_does_not_matter():
    device = FakeDevice(scale_rows)
    values = arguments(rows=1)
    values |= {"x": values["x"][:1][::-1], "y": values["y"][:1][::-1]}
    launcher(device)(**values)
    assert (values["y"] == values["x"] * np.float16(0.5)).all()


def test_missing_arguments_are_named():
    values = arguments()
    del values["scale"], values["x"]
    with pytest.raises(ArgumentError, match="kernel scale_rows: missing 'x', 'scale'"):
        launcher(FakeDevice())(**values)


@pytest.mark.parametrize("name", ["x", "y"])
def test_a_buffer_that_is_too_small_is_refused(name):
    device = FakeDevice()
    values = arguments(**{name: device.allocate(62)})
    with pytest.raises(ArgumentError, match=f"argument '{name}': a buffer of"):
        launcher(device)(**values)


def test_bfloat16_arrays_are_accepted_for_bf16():
    signature = [{**item, "type": item["type"].replace("f16", "bf16")} for item in SIGNATURE]
    device = FakeDevice()
    bf16 = HALF.astype(ml_dtypes.bfloat16)
    launch = Launcher(device, code_object(), signature, grid=(1, 1, 1), block=(64, 1, 1))
    launch(**arguments(x=bf16, y=bf16.copy()))
    with pytest.raises(ArgumentError, match=r"dtype uint16, expected bfloat16 .*ml_dtypes"):
        launch(**arguments(x=HALF.view(np.uint16), y=bf16))


def test_outputs_may_be_named_instead_of_read_from_the_object():
    with pytest.raises(ArgumentError, match="'x': the kernel writes it, the array is read-only"):
        launcher(FakeDevice(), outputs=["x"])(**arguments(x=READ_ONLY))
    with pytest.raises(ArgumentError, match="outputs: 'rows' is no pointer"):
        launcher(FakeDevice(), outputs=["rows"])


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"q": (1, 2)}, "limits: 'q' is no argument"),
        ({"rows": 4}, r"limits of 'rows': 4, expected \(low, high\)"),
        ({"x": (1, 2)}, "limits of 'x': .*expected a mapping"),
        ({"x": {"shapes": (1,)}}, "limits of 'x': .*expected a mapping with keys"),
        ({"x": {"shape": ("columns",)}}, "limits of 'x': 'columns' is no value argument"),
        ({"x": {"shape": (("mul", 2, "grid"),)}}, "limits of 'x': 'grid' is no value argument"),
        ({"x": {"shape": (("sub", 2, 1),)}}, "limits of 'x': .'sub', 2, 1., expected an integer"),
        ({"x": {"shape": (1.5,)}}, "limits of 'x': 1.5, expected an integer, a name"),
    ],
)
def test_limits_that_belong_to_no_argument_are_refused(limits, message):
    with pytest.raises(ArgumentError, match=message):
        launcher(FakeDevice(), limits)


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        ((0, 1, 1), (64, 1, 1), "grid: "),
        ((1, 1), (64, 1, 1), "grid: "),
        (16, (64, 1, 1), r"grid: 16, expected three counts \(x, y, z\)"),
        ((1, 1, "2"), (64, 1, 1), "grid: "),
        ((1 << 31, 1, 1), (64, 1, 1), r"grid: .*\(x, y, z\) from 1 to 2147483647"),
        ((1, 1, 1), 64, "block: 64, expected three counts"),
        (
            (1, 1, 1),
            (64, 2, 1),
            r'block: .* is 128 work-items, .* at most 64: .*"max_workgroup_size"\] = 128',
        ),
        ((1, 1, 1), (32, 2, 1), r"block: .*along x only: .*; use \(64, 1, 1\)"),
        ((1, 1, 1), (32, 1, 2), r"block: .*along x only: .*; use \(64, 1, 1\)"),
    ],
)
def test_impossible_grids_and_blocks_are_refused(grid, block, message):
    with pytest.raises(ArgumentError, match=message):
        Launcher(FakeDevice(), code_object(), SIGNATURE, grid=grid, block=block)


@pytest.mark.parametrize(("dimensions", "accepted"), [(2, (8, 8, 1)), (3, (4, 4, 4))])
def test_blocks_have_the_dimensions_that_the_kernel_is_told_of(dimensions, accepted):
    descriptor = bytearray(64)
    descriptor[53] = (dimensions - 1) << 3
    compiled = code_object(descriptor=bytes(descriptor))
    assert Launcher(FakeDevice(), compiled, SIGNATURE, block=accepted).block == accepted
    if dimensions == 2:
        with pytest.raises(ArgumentError, match="along x, y only"):
            Launcher(FakeDevice(), compiled, SIGNATURE, block=(8, 4, 2))


def test_a_required_workgroup_may_have_dimensions_that_the_kernel_ignores():
    compiled = code_object(required_workgroup_size=(32, 2, 1))
    assert Launcher(FakeDevice(), compiled, SIGNATURE, block=(32, 2, 1)).block == (32, 2, 1)


def promising(**changes):
    """The code object with other facts of some arguments."""
    arguments = tuple(
        replace(a, **changes.get(a.name, {})) for a in code_object().kernel().arguments
    )
    return code_object(arguments=arguments)


def launch_of(compiled, device=None, signature=SIGNATURE, **kwargs):
    device = device or FakeDevice()
    return Launcher(device, compiled, signature, grid=(1, 1, 1), block=(64, 1, 1), **kwargs)


TYPED = promising(
    x={"type_name": "ptr<f16, global> align(16)"},
    y={"type_name": "ptr<f16, global>"},
    scale={"type_name": "f32"},
    rows={"type_name": "i32"},
    stride_x_token={"type_name": "i32"},
)


def test_the_signature_may_come_from_the_object_or_the_kernel():
    class Kernel:
        def signature(self):
            return SIGNATURE

    for signature in (None, Kernel(), tuple(SIGNATURE)):
        types = launch_of(TYPED, signature=signature).types
        assert [{"name": n, "type": str(t)} for n, t in types.items()] == SIGNATURE


@pytest.mark.parametrize(
    ("compiled", "signature", "message"),
    [
        (code_object(), None, "does not say the type of argument 'x' .*: give the signature"),
        (promising(x={"type_name": "float*"}), None, r"argument 'x' \(float\*\): give the sig"),
        (code_object(), "scale_rows", "signature: 'scale_rows', expected a list"),
        (code_object(), 5, "signature: 5, expected a list"),
        (code_object(), [{"name": "x"}], "signature: .*, expected a list"),
        (
            promising(y={"type_name": "ptr<bf16, global>"}),
            SIGNATURE,
            r"'y'\) is ptr<f16, global> in the signature, ptr<bf16, global> in the code object",
        ),
    ],
)
def test_wrong_signatures_are_refused(compiled, signature, message):
    with pytest.raises(ArgumentError, match=message):
        launch_of(compiled, signature=signature)


def test_what_is_no_device_and_no_code_object_is_refused():
    with pytest.raises(ArgumentError, match=r"device: 'emulated', .*rocke.open_device"):
        Launcher("emulated", code_object(), SIGNATURE, block=(64, 1, 1))
    with pytest.raises(ArgumentError, match=r"code_object: bytes, .*CodeObject.from_bytes"):
        Launcher(FakeDevice(), b"abc", SIGNATURE, block=(64, 1, 1))


def test_each_launch_may_have_a_grid_of_its_own():
    device = FakeDevice()
    launch = Launcher(device, code_object(), SIGNATURE, block=(64, 1, 1))
    with pytest.raises(ArgumentError, match="scale_rows: no grid was given; use with_grid"):
        launch(**arguments())
    for n in (1, 7):
        launch.with_grid((n, 1, 1))(**arguments())
    assert [grid for grid, _, _ in device.launches] == [(1, 1, 1), (7, 1, 1)]
    assert launch.grid is None
    with pytest.raises(ArgumentError, match="grid: "):
        launch.with_grid((0, 1, 1))


class Rules:
    """A family whose grid is the rows of x."""

    signature = staticmethod(lambda spec: SIGNATURE)
    limits = staticmethod(lambda spec: {"rows": (1, 64)})

    def block_of(self, spec, arch):
        return (64, 1, 1)

    def name_of(self, spec, arch):
        return "scale_rows"

    def grid_of(self, spec, arch, arguments):
        if not isinstance(arguments.get("x"), np.ndarray):
            raise ValueError("the grid follows from the array x")
        return (arguments["x"].shape[0], spec, 1)


def test_a_family_s_rule_gives_each_launch_its_grid():
    device = FakeDevice()
    launch = Launcher.of_family(device, code_object(), Rules(), 3)
    assert "grid=by its arguments" in repr(launch)
    for rows in (4, 2):
        launch(**arguments(x=np.zeros((rows, WIDTH), np.float16)))
    assert [grid for grid, _, _ in device.launches] == [(4, 3, 1), (2, 3, 1)]
    with pytest.raises(ArgumentError, match=r"scale_rows: the grid follows from .*; or use with_"):
        launch(**arguments(x=device.allocate(64)))
    launch.with_grid((4, 3, 1))(**arguments(x=device.allocate(64)))


def test_a_grid_that_is_not_the_rule_s_is_refused():
    device = FakeDevice()
    launch = Launcher.of_family(device, code_object(), Rules(), 3, arguments())
    assert launch.grid == (4, 3, 1)
    launch(**arguments())
    message = r"scale_rows: the grid is \(4, 3, 1\), expected \(2, 3, 1\)"
    with pytest.raises(ArgumentError, match=message):
        launch(**arguments(x=np.zeros((2, WIDTH), np.float16)))
    with pytest.raises(ArgumentError, match=r"the grid is \(5, 3, 1\), expected \(4, 3, 1\)"):
        launch.with_grid((5, 3, 1))(**arguments())
    with pytest.raises(ArgumentError, match="the grid follows from the array x"):
        Launcher.of_family(device, code_object(), Rules(), 3, {})
    assert len(device.launches) == 1


def test_without_limits_an_array_must_be_contiguous():
    wide = np.zeros((4, 2 * WIDTH), np.float16)
    with pytest.raises(ArgumentError, match=r"'y': the array is not C-contig.*no limit says"):
        launch_of(code_object())(**arguments(y=wide[:, :WIDTH]))


@pytest.mark.parametrize("kind", [FakeDevice, InPlaceDevice])
def test_the_promised_alignment_is_checked(kind):
    memory = np.zeros(4 * WIDTH + 16, np.float16)
    first = -memory.ctypes.data % 16 // 2
    device = kind()
    launch = launch_of(TYPED, device)
    launch(**arguments(x=memory[first : first + 4 * WIDTH]))
    with pytest.raises(ArgumentError, match=r"'x': host address 0x\w+4 is not a multiple of 16"):
        launch(**arguments(x=memory[first + 2 : first + 2 + 4 * WIDTH]))
    buffer = FakeBuffer(0x10008, 64, np.zeros(64, np.uint8))
    with pytest.raises(ArgumentError, match="'x': device address 0x10008 is not a multiple of 16"):
        launch(**arguments(x=buffer))
    assert len(device.launches) == 1
    assert not device.buffers


X = np.zeros((4, WIDTH), np.float16)
LONG = np.zeros(40, np.float16)


@pytest.mark.parametrize("promise", ["x", "y"])
@pytest.mark.parametrize(
    ("x", "y"),
    [(X, X), (LONG[:32], LONG[8:]), (FakeBuffer(0x10000, 64, np.zeros(64, np.uint8)),) * 2],
)
def test_memory_that_was_promised_to_be_apart_must_be(promise, x, y):
    compiled = promising(**{promise: {"restrict": True}})
    with pytest.raises(ArgumentError, match="arguments 'x' and 'y': they share memory"):
        launch_of(compiled)(**arguments(x=x, y=y))
    launch_of(compiled, outputs=())(**arguments(x=x, y=y))  # both are only read
    launch_of(code_object())(**arguments(x=x, y=y))  # nothing was promised


def test_interleaved_views_do_not_share_memory():
    packed = np.zeros((4, 2, WIDTH), np.float16)
    limits = {"x": {"strided": True}, "y": {"strided": True}}
    launch = launch_of(promising(x={"restrict": True}), limits=limits)
    launch(**arguments(x=packed[:, 0], y=packed[:, 1]))
    with pytest.raises(ArgumentError, match="share memory"):
        launch(**arguments(x=packed[:, 0], y=packed[:, 0]))


@pytest.mark.parametrize(
    ("kind", "address", "text"),
    [
        ("global_write", lambda x, y: y + 64, "0 bytes past the end of argument 'y' (float16"),
        ("global_read", lambda x, y: x - 4, "4 bytes before argument 'x' (float16 array of sha"),
        ("global_write", lambda x, y: x + 6, "6 bytes into argument 'x'"),
        ("global_read", lambda x, y: 1 << 50, None),
        ("lds_read", lambda x, y: y, None),
        ("progress", None, None),
    ],
)
def test_a_fault_names_the_argument(kind, address, text):
    def fail(device, kernargs):
        x, y = struct.unpack_from("<QQ", kernargs)
        report = {"kind": kind} | ({} if address is None else {"address": address(x, y)})
        raise KernelFault("kernel scale_rows: bad", report)

    with pytest.raises(KernelFault) as raised:
        launch_of(code_object(), FakeDevice(fail))(**arguments())
    if text is None:
        assert str(raised.value) == "kernel scale_rows: bad"
        assert "argument" not in raised.value.report
    else:
        assert f"kernel scale_rows: bad\n  {text}" in str(raised.value)
        assert f"'{raised.value.report['argument']}'" in text


def test_a_launcher_shows_what_it_launches():
    shown = repr(launch_of(code_object()))
    assert shown.startswith("Launcher(scale_rows(x: ptr<f16, global>, y: ")
    assert shown.endswith("grid=(1, 1, 1), block=(64, 1, 1), device='fake')")


def test_a_required_workgroup_size_is_kept():
    compiled = code_object(required_workgroup_size=(64, 1, 1))
    with pytest.raises(ArgumentError, match=r"needs \(64, 1, 1\)"):
        Launcher(FakeDevice(), compiled, SIGNATURE, grid=(1, 1, 1), block=(32, 1, 1))
