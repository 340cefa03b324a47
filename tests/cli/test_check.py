"""rocke run --check."""

from __future__ import annotations

import pytest

from rocke.compiler.code_object import CodeObject
from tests.emulator.checks.planting import deleted, nth, written

SMALL = ("--demo", "-s", "head_size=32", "--device", "emulated")
CHECKS = ["bounds", "uninitialised", "race", "wait", "hazard", "convergence"]


def test_a_right_kernel_has_no_findings(rocke):
    result = rocke("run", "vsa", *SMALL, "--check")
    assert (result.code, result.err) == (0, "")
    for check in CHECKS:
        assert f"{check}: no findings" in result.out


def test_some_checks_and_json(rocke):
    told = rocke("run", "vsa", *SMALL, "--check=race,wait", "--json").json
    assert told["checks"] == {"race": [], "wait": []}
    assert told["passed"]
    assert "checks" not in rocke("run", "vsa", *SMALL, "--json").json


@pytest.fixture
def broken(rocke, tmp_path):
    """The small kernel without the wait for its arguments: manifest and object."""
    rocke("build", "vsa", "--demo", "-s", "head_size=32", "-o", tmp_path)
    (manifest,), (built,) = tmp_path.glob("*.json"), tmp_path.glob("*.hsaco")
    code = CodeObject.from_bytes(built.read_bytes(), source="built")
    built.write_bytes(deleted(code, nth(code, 0, written("s_waitcnt lgkmcnt(0)"))).data)
    return "--spec", manifest, "--object", built, "--device", "emulated"


def test_a_broken_kernel_is_reported(rocke, broken):
    assert rocke("run", "vsa", *broken).code == 0, "without checks nothing is seen"
    result = rocke("run", "vsa", *broken, "--check")
    assert result.code == 1
    assert "wait: no findings" not in result.out
    for word in ("before its data has arrived", "workgroup (0, 0, 0), wave 0", ".py:", "s_load_"):
        assert word in result.out, word


def test_a_broken_kernel_as_json(rocke, broken):
    result = rocke("run", "vsa", *broken, "--check=wait", "--json")
    assert result.code == 1
    assert "before its data has arrived" in result.out + result.err


def test_unknown_checks_and_other_devices(rocke):
    error = rocke("run", "vsa", *SMALL, "--check=races").error
    assert error.startswith("--check: check 'races' is unknown; the checks are bounds, ")
    for device in ("emulated", "auto"):
        error = rocke("run", "vsa", "--demo", "--device", device, "--check=").error
        assert "names no check; the checks are bounds, " in error
    error = rocke("run", "vsa", "--demo", "--device", "hip", "--check").error
    assert error == "--check needs the emulated device, not 'hip'"
