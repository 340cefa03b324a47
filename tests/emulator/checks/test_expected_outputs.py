"""What :meth:`EmulatedDevice.expect_written` is told belongs to one launch of one thread."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from rocke.compiler import compile_kernel
from rocke.compiler.code_object import CodeObject
from rocke.core.ir import F32, IRBuilder, ptr
from rocke.emulator import CheckError, EmulatedDevice
from rocke.runtime import ArgumentError, DeviceError, Launcher
from rocke.testing import run_kernel

pytestmark = pytest.mark.normal
ONE = {"grid": (1, 1, 1), "block": (64, 1, 1)}


def ones() -> CodeObject:
    b = IRBuilder("ones")
    y = b.param("y", ptr(F32), writeonly=True)
    b.global_store(y, b.thread_id_x(), b.const_f32(1))
    b.ret()
    return compile_kernel(b.kernel, "gfx942")


@pytest.fixture
def device() -> EmulatedDevice:
    return EmulatedDevice("gfx942", check=True)


def floats() -> np.ndarray:
    return np.zeros(64, np.float32)


def test_a_refused_launch_ends_the_expectation(device: EmulatedDevice) -> None:
    code = ones()
    launch = Launcher(device, code, **ONE)
    kernel = device.load(code)
    refusals = [
        (ArgumentError, lambda: launch(y=np.zeros(64, np.int32))),
        (ArgumentError, lambda: launch(z=floats())),
        (ArgumentError, lambda: run_kernel(device, code, floats(), floats(), **ONE)),
        (ArgumentError, lambda: run_kernel(device, code, **{**ONE, "block": (2048, 1, 1)}, y=None)),
        (DeviceError, lambda: device.launch(kernel, (1, 1, 1), (2048, 1, 1), bytes(8))),
        (DeviceError, lambda: device.launch(kernel, (1, 1, 1), (64, 1, 1), "")),
    ]
    for error, refused in refusals:
        device.expect_written(floats(), "y")
        with pytest.raises(error):
            refused()
        assert device.never_launched == ()
        launch(y=floats())
        assert device.check_report.findings == ()


def test_an_expectation_belongs_to_its_thread(device: EmulatedDevice) -> None:
    launch = Launcher(device, ones(), **ONE)
    device.expect_written(floats(), "mine")
    failed = []

    def other() -> None:
        y = floats()
        device.expect_written(y, "theirs")
        try:
            launch(y=y)
        except CheckError as error:
            failed.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert failed == []
    assert device.never_launched == ("mine",)
    with pytest.raises(CheckError, match="64 of the 64 elements of mine were never written"):
        launch(y=floats())
    assert device.never_launched == ()


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (np.arange(64), "where is int64, expected an array of bool"),
        ([True] * 64, "where is list, expected an array of bool"),
        (np.ones(63, bool), r"where has shape \(63,\), y has \(64,\)"),
    ],
)
def test_what_where_must_be(device: EmulatedDevice, where: np.ndarray, told: str) -> None:
    with pytest.raises(DeviceError, match=f"^expect_written: {told}$"):
        device.expect_written(floats(), "y", where=where)
    assert device.never_launched == ()
