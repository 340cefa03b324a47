"""rocke's own HIP device on the stand-in, with the kernels of the registry."""

import numpy as np
import pytest

from rocke.compiler.code_object import CodeObject
from rocke.runtime import DeviceError, Launcher, open_device
from rocke.runtime.hip_device import HipDevice, device_count, runtime_version
from tests.emulator.hip.calls import code_object
from tests.emulator.hip.process import TARGETS, on_emulated_gpu

SIGNATURE = [
    *({"name": name, "type": "ptr<f32, global>"} for name in "abc"),
    {"name": "n", "type": "i32"},
]


def launcher(device, **options):
    options = {"grid": (4, 1, 1), "block": (256, 1, 1), **options}
    return Launcher(device, code_object("ADD", device.arch), SIGNATURE, **options)


def problem():
    rng = np.random.default_rng(4)
    a, b = rng.random((2, 1000), dtype=np.float32)
    return a, b, np.zeros(1000, np.float32)


@on_emulated_gpu(*TARGETS)
def test_is_found_and_says_that_it_is_emulated():
    assert device_count() == 1
    assert runtime_version().startswith("7.")
    device = open_device("hip")
    assert device.emulated
    assert device.target == f"{device.arch}:sramecc+:xnack-"
    with pytest.raises(DeviceError, match="GPU 1 does not exist"):
        HipDevice(1)


@on_emulated_gpu(*TARGETS)
def test_launches_with_arrays_and_with_buffers():
    device = HipDevice()
    a, b, c = problem()
    launch = launcher(device)
    launch(a=a, b=b, c=c, n=1000)
    np.testing.assert_array_equal(c, a + b)
    buffers = {name: device.allocate(a.nbytes) for name in "abc"}
    for name, array in zip("ab", (a, b), strict=True):
        device.copy_in(buffers[name], array)
    launch(**buffers, n=500)
    device.synchronize()
    half = np.zeros_like(c)
    device.copy_out(half, buffers["c"])
    np.testing.assert_array_equal(half[:500], (a + b)[:500])
    device.close()


@on_emulated_gpu()
def test_a_fault_is_a_device_error_and_the_device_goes_on():
    device = HipDevice()
    a, b, c = problem()
    launch = launcher(device)
    with pytest.raises(DeviceError, match="hipErrorIllegalAddress"):
        launch(a=a, b=b, c=np.zeros(900, np.float32), n=1000)
    launch(a=a, b=b, c=c, n=1000)
    np.testing.assert_array_equal(c, a + b)


@on_emulated_gpu()
def test_refusals_of_the_device():
    device = HipDevice()
    with pytest.raises(DeviceError, match="build it for gfx942"):
        device.load(code_object("ADD", "gfx950"))
    kernel = device.load(code_object("ADD"))
    with pytest.raises(DeviceError, match="hipErrorInvalidValue"):
        device.launch(kernel, (1, 1, 1), (64, 1, 1), bytes(20))
    with pytest.raises(DeviceError, match="hipErrorInvalidConfiguration"):
        device.launch(kernel, (1, 1, 1), (512, 1, 1), bytes(28))
    damaged = CodeObject(bytes(64), "gfx942", "gfx942", 5, code_object("ADD").kernels)
    with pytest.raises(DeviceError, match="hipErrorInvalidImage"):
        device.load(damaged)


@on_emulated_gpu(memory=4096)
def test_out_of_memory():
    device = HipDevice()
    with pytest.raises(DeviceError, match="hipErrorOutOfMemory"):
        device.allocate(4097)
    device.free(device.allocate(4096))


@on_emulated_gpu(*TARGETS)
def test_a_kernel_of_the_registry():
    from rocke.compiler import compile_kernel
    from rocke.kernels.registry import FAMILIES

    device = HipDevice()
    family = FAMILIES["vsa_sparse_attention"]
    spec = family.make_spec(family.demo)
    rng = np.random.default_rng(0)
    built = compile_kernel(family.build(spec, device.arch), device.arch)
    given = family.make_problem(spec, rng, density=0.5)
    Launcher.of_family(device, built, family, spec)(**given.arguments)
    expected = family.reference(spec, given)
    for name, reference in expected.items():
        found = np.asarray(given.arguments[name], np.float64)
        np.testing.assert_allclose(found, reference, atol=2e-2)
        assert np.abs(reference).max() > 0.05
