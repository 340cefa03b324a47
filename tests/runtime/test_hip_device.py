"""The HIP device, over AMD's own bindings and a stand-in for the HIP library."""

import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from rocke.runtime import DeviceError, hip_device, open_device
from rocke.runtime.hip_device import HipDevice, HipUnavailable
from tests.runtime.hip_stand_in import build_library

PRELUDE = """
import struct
from pathlib import Path
import numpy as np
from rocke.runtime import DeviceError, Launcher, open_device
from rocke.runtime.hip_device import HipDevice, runtime_version
from tests.runtime.fakes import SIGNATURE, code_object
from tests.runtime.hip_stand_in import StandIn
def refused(call, *arguments):
    try:
        call(*arguments)
    except DeviceError as error:
        return str(error)
    raise AssertionError("not refused")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("hip"))


@pytest.fixture
def with_gpu(library, pytestconfig):
    """Run a script in a new process that has the stand-in library."""

    def run(body, target="gfx942:sramecc+:xnack-"):
        start = f"hip = StandIn(Path({str(library)!r}), {target!r})\n"
        script = PRELUDE + start + textwrap.dedent(body)
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            cwd=pytestconfig.rootpath,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_device_says_what_it_is(with_gpu):
    said = with_gpu("d = open_device('hip'); print(d.name, d.arch, d.emulated, runtime_version())")
    assert said == ["Stand-in (gfx942:sramecc+:xnack-) gfx942 False 7.2.26015"]


def test_memory_round_trips(with_gpu):
    with_gpu("""
        device = HipDevice()
        array = np.arange(1000, dtype=np.float32)
        buffer = device.allocate(array.nbytes)
        assert buffer.address % 256 == 0 and buffer.nbytes == 4000
        device.copy_in(buffer, array)
        back = np.zeros_like(array)
        device.copy_out(back, buffer)
        assert (back == array).all()
        device.free(buffer)
        assert not hip.memory
    """)


def test_a_launch_passes_the_packed_arguments(with_gpu):
    with_gpu("""
        device = HipDevice()
        launch = Launcher(device, code_object(), SIGNATURE, grid=(4, 2, 3), block=(64, 1, 1))
        x, y = np.zeros((2, 8), np.float16), np.zeros((2, 8), np.float16)
        launch(x=x, y=y, scale=0.5, rows=2, stride_x_token=8)
        symbol, grid, block, lds, data = hip.launched[0]
        assert (symbol, grid, block, lds) == ("scale_rows", (4, 2, 3), (64, 1, 1), 0)
        x_address, y_address, *rest = struct.unpack("<QQfii", data)
        assert rest == [0.5, 2, 8] and x_address != y_address
        assert hip.handles[0x1000] == b"object bytes"
        assert not hip.memory
        device.close()
    """)


WRONG_CALLS = {
    "device.allocate(0)": "allocate: 0 bytes",
    "device.allocate(1 << 40)": "hipMalloc on GPU 0: hipErrorOutOfMemory: error 2",
    "device.allocate(2.5)": "allocate: 2.5 bytes, expected at least 1, as an integer",
    "device.allocate(1 << 70)": "bytes, expected at least 1",
    "device.free('x')": "free: str is no buffer of Stand-in",
    "device.copy_in(buffer, [1, 2])": "copy_in: list, expected a numpy array",
    "device.copy_in(buffer, np.array([None]))": "copy_in: an array of Python objects",
    "device.load(b'bytes')": "load: bytes, expected a CodeObject",
    "device.load(code_object(), 'absent')": "load: no kernel 'absent'",
    "device.launch('x', (1, 1, 1), (64, 1, 1), b'')": "launch: str, expected what load() gave",
    "device.launch(own, (1, 1), (64, 1, 1), b'')": "grid is (1, 1), expected three integers",
    "device.launch(own, (1.5, 1, 1), (64, 1, 1), b'')": "grid is (1.5, 1, 1), expected three",
    "device.launch(own, (1, 1, 1), (64, 0, 1), b'')": "block is (64, 0, 1), expected three",
    "device.launch(own, (1 << 32, 1, 1), (64, 1, 1), b'')": "grid is (4294967296, 1, 1), expect",
    "device.launch(own, (1, 1, 1), (64, 1, 1), 'x')": "kernargs is str, expected bytes",
    "device.launch(own, (1, 1, 1), (64, 1, 1), b'', dynamic_lds=-1)": "dynamic_lds is -1",
    "device.free(freed)": "free: the buffer at 0x",
    "device.copy_in(buffer, np.zeros(65, np.uint8))": "copy_in: 65 bytes, the buffer has 64",
    "device.copy_in(buffer, np.zeros((8, 8), np.uint8).T[:4])": "copy_in: the array is not C-cont",
    "device.copy_out(np.frombuffer(b'a' * 64, np.uint8), buffer)": "the array is read-only",
    "device.load(code_object(symbol='absent.kd'))": "hipModuleGetFunction on GPU 0: hipError",
    "HipDevice(1)": "GPU 1 does not exist: the HIP runtime sees 1",
    "open_device('cuda')": "device 'cuda': expected hip or hip:INDEX",
    "device.launch(kernel, (1, 1, 1), (64, 1, 1), b'')": "loaded on another device",
}


def test_wrong_calls_are_refused(with_gpu):
    setup = [
        "device = HipDevice()",
        "buffer, freed = device.allocate(64), device.allocate(64)",
        "device.free(freed)",
        "kernel = HipDevice().load(code_object())",
        "own = device.load(code_object())",
    ]
    said = with_gpu("\n".join([*setup, *(f"print(refused(lambda: {c}))" for c in WRONG_CALLS)]))
    for line, (call, message) in zip(said, WRONG_CALLS.items(), strict=True):
        assert message in line, call


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("gfx950:sramecc+:xnack-", "is for gfx942, GPU 0 is gfx950: build it for gfx950"),
        ("gfx942:sramecc+:xnack+", "is for gfx942:xnack-, GPU 0 runs as gfx942:sramecc+:xnack+"),
    ],
)
def test_objects_for_another_target_are_refused(with_gpu, target, message):
    body = """
        from dataclasses import replace
        print(refused(HipDevice().load, replace(code_object(), target="gfx942:xnack-")))
    """
    assert message in with_gpu(body, target)[0]


def test_what_went_wrong_in_a_kernel_is_raised_by_synchronize(with_gpu):
    said = with_gpu("""
        device = HipDevice()
        hip.fail_synchronize = True
        print(refused(device.synchronize))
    """)
    assert said == [
        "hipDeviceSynchronize on GPU 0: hipErrorLaunchFailure: error 719 of the stand-in"
    ]


@pytest.mark.parametrize("name", ["hip:x", "emulated", ""])
def test_unknown_devices_are_refused_with_the_names_there_are(name):
    with pytest.raises(DeviceError, match="expected hip or hip:INDEX"):
        open_device(name)


def test_a_machine_without_rocm_is_told_so(monkeypatch):
    def no_library():
        raise RuntimeError("failed to dlopen 'b'libamdhip64.so'': no such file")

    bindings = SimpleNamespace(hipGetDeviceCount=no_library, hipRuntimeGetVersion=no_library)
    monkeypatch.setattr(hip_device, "_bindings", lambda: bindings)
    for call in (HipDevice, hip_device.runtime_version):
        with pytest.raises(HipUnavailable, match=r"install ROCm, or use the emulated device"):
            call()


def test_missing_bindings_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "hip", None)
    with pytest.raises(HipUnavailable, match="pip install hip-python"):
        HipDevice()
