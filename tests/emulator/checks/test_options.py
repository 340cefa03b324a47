"""What the checked mode can be asked for, and what it refuses."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from rocke.emulator import Check, EmulatedDevice
from rocke.emulator.checks.kinds import UnknownCheck, parse_checks
from rocke.runtime import DeviceError, KernelFault
from tests.emulator.checks import kernels
from tests.emulator.small_kernels import build

NAMES = "bounds, uninitialised, race, wait, hazard, convergence"


def test_names_of_checks() -> None:
    two = frozenset({Check.RACE, Check.WAIT})
    assert parse_checks("race, wait,") == two
    assert parse_checks(["race", Check.WAIT]) == two
    assert parse_checks("race,all") == parse_checks(True) == frozenset(Check)
    assert parse_checks(False) == frozenset()


@pytest.mark.parametrize("nothing", ["", ",", " ", [], ()])
def test_no_check_at_all_is_refused(nothing: object) -> None:
    with pytest.raises(UnknownCheck, match="names no check; the checks are") as error:
        EmulatedDevice("gfx942", check=nothing)  # type: ignore[arg-type]
    assert str(error.value).endswith(NAMES)


@pytest.mark.parametrize("wrong", [5, None, 1.5])
def test_what_is_no_name_is_refused(wrong: object) -> None:
    with pytest.raises(UnknownCheck, match=f"check is {wrong}, expected True, False or names"):
        EmulatedDevice("gfx942", check=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["a", 1 << 64, -1, 0.5, True])
def test_seeds(wrong: object) -> None:
    with pytest.raises(DeviceError, match=rf"seed is {wrong!r}, expected an integer from 0 to \d+"):
        EmulatedDevice("gfx942", check=True, seed=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["threads", "max_instructions"])
def test_limits_of_counts_are_told(option: str) -> None:
    with pytest.raises(DeviceError, match=f"{option} is {1 << 63}, expected an integer from 1 to"):
        EmulatedDevice("gfx942", **{option: 1 << 63})  # type: ignore[arg-type]


@pytest.mark.parametrize("check", [False, "race"])
def test_expecting_output_needs_the_check(check: bool | str) -> None:
    device = EmulatedDevice("gfx942", check=check)
    with pytest.raises(DeviceError, match="does not check it: open it with check=True"):
        device.expect_written(np.zeros(4))


def test_the_report_of_a_launch_that_faulted() -> None:
    code = build(kernels.ADD, "gfx942")
    device = EmulatedDevice("gfx942", check=True)
    kernel = device.load(code)
    with pytest.raises(KernelFault):
        device.launch(kernel, (1, 1, 1), (64, 1, 1), bytes(28))
    told = str(device.check_report)
    assert "stopped by a fault" in told
    assert "race: no findings before the fault" in told
    assert "load outside every allocation" in told
    assert "a null pointer" in device.check_report.fault


def test_a_device_belongs_to_its_process() -> None:
    device = EmulatedDevice("gfx942")
    for thing in (device, device.load(build(kernels.ADD, "gfx942"))):
        with pytest.raises(TypeError, match="EmulatedDevice cannot be pickled: it belongs to its"):
            pickle.dumps(thing)
        with pytest.raises(TypeError, match="cannot be pickled"):
            copy.deepcopy(thing)
    with pytest.raises(TypeError, match="it belongs to its process; copy_out"):
        pickle.dumps(device.allocate(16))
