"""The launcher with compiled attention kernels on the emulated device."""

import ml_dtypes
import numpy as np
import pytest

from rocke.compiler import compile_kernel
from rocke.emulator import EmulatedDevice
from rocke.kernels.registry import SEED_FAMILIES
from rocke.runtime import ArgumentError, Launcher

ARCH = "gfx942"
FIELDS = {
    "head_size": 32,
    "num_query_heads": 4,
    "num_kv_heads": 2,
    "seqlen_q": 64,
    "seqlen_k": 320,
    "block_q": 16,
}
TOLERANCE = 1e-3


@pytest.fixture(scope="module", params=SEED_FAMILIES)
def family(request):
    return SEED_FAMILIES[request.param]


def make_launcher(family, device=None):
    spec = family.make_spec(FIELDS)
    device = device or EmulatedDevice(ARCH)
    code_object = compile_kernel(family.build(spec, ARCH), ARCH)
    return spec, Launcher.of_family(device, code_object, family, spec)


@pytest.fixture(scope="module")
def built(family):
    return make_launcher(family)


def problem_of(family, spec, **options):
    return family.make_problem(spec, np.random.default_rng(1), density=0.5, **options)


def error_of(family, spec, problem, out):
    reference = family.reference(spec, problem)["O"]
    return np.linalg.norm(out.astype(np.float64) - reference) / np.linalg.norm(reference)


@pytest.mark.parametrize("layout", ["token", "head"])
def test_any_layout_is_launched_by_its_strides(family, built, layout):
    spec, launch = built
    problem = problem_of(family, spec, layout=layout)
    launch(**problem.arguments)
    assert error_of(family, spec, problem, problem.arguments["O"]) < TOLERANCE


def test_views_of_one_packed_tensor_are_launched_in_place(family, built):
    spec, launch = built
    problem = problem_of(family, spec)
    given = dict(problem.arguments)
    packed = np.zeros((320, 2 + 2, 32), np.float16)
    for name, heads in (("K", slice(0, 2)), ("V", slice(2, 4))):
        packed[:, heads] = given[name]
        given[name] = packed[:, heads]
        given[f"stride_{name.lower()}_token"] = 4 * 32
    before = packed.copy()
    launch(**given)
    assert error_of(family, spec, problem, given["O"]) < TOLERANCE
    assert (packed == before).all()


def test_device_buffers_give_the_same_bits_as_arrays(family, built):
    spec, launch = built
    problem = problem_of(family, spec)
    launch(**problem.arguments)
    given = dict(problem.arguments)
    buffers = {}
    for name, value in problem.arguments.items():
        if isinstance(value, np.ndarray):
            buffers[name] = given[name] = launch.device.allocate(value.nbytes)
            launch.device.copy_in(buffers[name], value)
    launch(**given)
    launch.device.synchronize()
    out = np.empty_like(problem.arguments["O"])
    launch.device.copy_out(out, buffers["O"])
    assert (out == problem.arguments["O"]).all()
    for buffer in buffers.values():
        launch.device.free(buffer)


def test_shorter_lengths_than_the_spec_s_are_launched(family, built):
    spec, launch = built
    problem = problem_of(family, spec, seqlen_q=40, seqlen_k=100)
    launch(**problem.arguments)
    assert error_of(family, spec, problem, problem.arguments["O"]) < TOLERANCE


def pattern(family):
    return "mask" if family.name.startswith("jenga") else "block_lut"


def short(array):
    return np.ascontiguousarray(array[:-1])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("pattern", short, r"argument '{pattern}': shape \(3, \d+\), expected \(4, "),
        ("pattern", lambda a: a.T.copy(), r"argument '{pattern}': shape .*, expected \(4, "),
        ("pattern", lambda a: a.astype(np.int64), "argument '{pattern}': dtype int64, expected"),
        ("Q", lambda a: a.astype(ml_dtypes.bfloat16), "argument 'Q': dtype bfloat16, expected flo"),
        ("Q", lambda a: np.asfortranarray(a), "argument 'Q': the last dimension is not contig"),
        ("K", short, "argument 'K': an array of shape .* reaches element"),
        ("O", lambda a: short(a), "argument 'O': an array of shape .* reaches element"),
        ("stride_k_token", lambda n: n + 8, "argument 'K': .*stride_k_token = "),
        ("seqlen_q", lambda n: n + 16, r"'seqlen_q': 80 is outside .* \(1 to 64\)"),
        ("seqlen_k", lambda n: 0, r"'seqlen_k': 0 is outside .* \(1 to 320\)"),
        ("scale_log2", lambda x: None, "'scale_log2': None .*expected a number"),
    ],
)
def test_wrong_arguments_are_refused_by_name(family, built, name, change, message):
    spec, launch = built
    given = dict(problem_of(family, spec).arguments)
    name = pattern(family) if name == "pattern" else name
    given[name] = change(given[name])
    with pytest.raises(ArgumentError, match=message.replace("{pattern}", pattern(family))):
        launch(**given)


def test_a_missing_argument_is_named(family, built):
    spec, launch = built
    given = dict(problem_of(family, spec).arguments)
    del given[pattern(family)]
    with pytest.raises(ArgumentError, match=f"missing '{pattern(family)}'"):
        launch(**given)


@pytest.mark.parametrize(
    "changes", [{"head_size": 64}, {"num_query_heads": 8}, {"dtype": "bf16"}, {"seqlen_k": 640}]
)
def test_the_code_object_of_another_spec_is_refused_by_name(family, built, changes):
    _, launch = built
    other = family.make_spec({**FIELDS, **changes})
    compiled = launch.kernel.code_object
    message = f"holds kernel {launch.info.name}, this spec's is {other.kernel_name()}: "
    with pytest.raises(ArgumentError, match=message):
        Launcher.of_family(launch.device, compiled, family, other)


def test_the_output_may_not_be_an_input(family, built):
    spec, launch = built
    given = dict(problem_of(family, spec).arguments)
    given["Q"] = given["O"]
    with pytest.raises(ArgumentError, match="arguments 'Q' and 'O': they share memory"):
        launch(**given)


def test_the_object_itself_says_which_pointers_are_written(built):
    _, launch = built
    assert launch.outputs == {"O"}


class CopyingDevice:
    """The emulated device without ``wrap``: as a GPU has it, arrays are copied."""

    def __init__(self):
        self._device = EmulatedDevice(ARCH)

    def __getattr__(self, name):
        if name == "wrap":
            raise AttributeError(name)
        return getattr(self._device, name)


def test_copied_arrays_give_the_same_bits_as_arrays_in_place(family, built):
    spec, launch = built
    in_place, copied = problem_of(family, spec), problem_of(family, spec)
    launch(**in_place.arguments)
    device = CopyingDevice()
    copying = make_launcher(family, device)[1]
    # The loaded kernel belongs to the device inside.
    assert copying.kernel.device is device._device
    copying(**copied.arguments)
    assert (in_place.arguments["O"] == copied.arguments["O"]).all()
