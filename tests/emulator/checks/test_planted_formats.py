"""Planted bugs around buffer accesses with a data format."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.emulator.checks.findings import Finding
from tests.emulator.checks import kernels
from tests.emulator.checks.planting import deleted, named, nth, run
from tests.emulator.small_kernels import build

pytestmark = pytest.mark.normal
ARCHS = ("gfx90a", "gfx942", "gfx950")


def halves(count: int = 256) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(count, dtype=np.float16), np.zeros(count, np.float16)


def seen(found: tuple[Finding, ...]) -> set[tuple[str, str]]:
    """Check and mnemonic of each finding."""
    return {(f.check.value, f.instruction.split()[0]) for f in found}


@pytest.mark.parametrize("arch", ARCHS)
def test_right_kernel(arch: str) -> None:
    x, out = halves()
    assert run(build(kernels.FORMATTED, arch), x, out, 64, grid=2, outputs=(out,)) == ()
    assert (out == x + np.repeat([0, 1], 128)).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_the_end_of_an_allocation_is_reached_exactly(arch: str) -> None:
    """An element has 4 bytes, and nothing after the last one is looked at."""
    whole = np.arange(768, dtype=np.float16)
    x, out, rest = whole[:256], whole[256:512], whole[512:]
    assert run(build(kernels.FORMATTED, arch), x, out, 64, grid=2, others=(rest,)) == ()


@pytest.mark.parametrize("arch", ARCHS)
def test_outside_its_allocation(arch: str) -> None:
    whole = np.arange(512, dtype=np.float16)
    x, out, rest = whole[:128], whole[128:256], whole[256:]
    code = build(kernels.FORMATTED, arch)
    found = run(code, x, out, 64, grid=2, others=(rest,), check="bounds")
    load, store = "buffer_load_format_d16_xy", "buffer_store_format_d16_xy"
    assert seen(found) == {("bounds", load), ("bounds", store)}
    assert found[0].workgroup == (1, 0, 0)


@pytest.mark.parametrize("arch", ARCHS)
def test_workgroups_that_overlap(arch: str) -> None:
    found = run(build(kernels.FORMATTED, arch), *halves(), 63, grid=2)
    assert seen(found) == {("race", "buffer_store_format_d16_xy")}
    assert found[0].lanes == (0,)


@pytest.mark.parametrize("arch", ARCHS)
def test_value_that_was_not_loaded(arch: str) -> None:
    code = build(kernels.FORMATTED, arch)
    found = run(deleted(code, nth(code, 0, named("buffer_load"))), *halves(), 64, grid=2)
    assert seen(found) == {("uninitialised", "buffer_store_format_d16_xy")}


@pytest.mark.parametrize("arch", ARCHS)
def test_value_before_its_wait(arch: str) -> None:
    code = build(kernels.FORMATTED, arch)
    wait = nth(code, -1, named("s_waitcnt"))
    found = run(deleted(code, wait), *halves(), 64, grid=2)
    assert seen(found) == {("wait", "v_pk_add_f16")}
