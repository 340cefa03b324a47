"""Planted bugs around instructions that no compiler puts into a kernel here."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.compiler.code_object import CodeObject
from rocke.emulator.checks.findings import Finding
from tests.emulator.checks.assembled import assembled
from tests.emulator.checks.planting import run

pytestmark = pytest.mark.normal
ARCHS = ("gfx90a", "gfx942", "gfx950")

STORE_FROM_LDS = """
    s_mov_b32 s8, s6
    s_or_b32 s9, s7, 0x40000
    s_mov_b32 s10, 64
    s_mov_b32 s11, 0x800000
    ds_write_b32 v1, v2 offset:512
    s_waitcnt lgkmcnt(0)
    s_mov_b32 m0, 512
    s_nop 0
    buffer_store_lds_dword s[8:11], 0 lds
"""
"""gfx90a: a row of LDS to ``out``, by a descriptor of stride 4 that adds the lane."""
INTERRUPT = """
    s_mov_b32 m0, 7
    s_nop 0
    s_sendmsg sendmsg(MSG_INTERRUPT)
    s_waitcnt lgkmcnt(0)
    STORE v2
"""
RELATIVE = """
    s_mov_b32 s20, 11
    s_mov_b32 m0, 4
    s_nop 0
    s_movrels_b32 s8, s16
    s_movreld_b32 s26, s8
    v_mov_b32_e32 v6, s30
    STORE v6
"""
"""s20 by way of s30."""


def result(code: CodeObject, check: str = "all") -> tuple[tuple[Finding, ...], np.ndarray]:
    x, out = np.arange(256, dtype=np.uint32) + 5, np.zeros(64, np.uint32)
    return run(code, x, out, check=check), out


def only(found: tuple[Finding, ...], check: str, instruction: str) -> Finding:
    """The only finding."""
    assert [(f.check.value, f.instruction.split()[0]) for f in found] == [(check, instruction)]
    return found[0]


def test_store_from_lds() -> None:
    found, out = result(assembled(STORE_FROM_LDS, "gfx90a"))
    assert found == ()
    np.testing.assert_array_equal(out, np.arange(64) + 5)


def test_store_from_lds_that_nobody_wrote() -> None:
    code = assembled(STORE_FROM_LDS.replace("offset:512", "offset:516"), "gfx90a")
    found, _ = result(code)
    assert only(found, "uninitialised", "buffer_store_lds_dword").lanes == (0,)


def test_store_from_lds_by_an_address_never_written() -> None:
    code = assembled(STORE_FROM_LDS.replace("s_mov_b32 m0, 512", "s_nop 0"), "gfx90a")
    found, _ = result(code, "uninitialised")
    assert "the address was never written" in {f.detail for f in found}


@pytest.mark.parametrize(
    ("body", "instruction", "archs"),
    [
        (STORE_FROM_LDS, "buffer_store_lds_dword", ["gfx90a"]),
        (INTERRUPT, "s_sendmsg", ARCHS),
        (RELATIVE, "s_movrels_b32", ARCHS),
    ],
)
def test_m0_used_at_once(body: str, instruction: str, archs: list[str]) -> None:
    for arch in archs:
        found, out = result(assembled(body, arch))
        assert found == ()
        assert out.any()
        found, _ = result(assembled(body.replace("s_nop 0", ""), arch))
        assert "m0 needs 1 wait states" in only(found, "hazard", instruction).detail


@pytest.mark.parametrize("arch", ARCHS)
def test_relative_move_by_a_number_never_written(arch: str) -> None:
    found, _ = result(assembled(RELATIVE.replace("s_mov_b32 m0, 4", "s_nop 0"), arch))
    assert "the register number was never written" in {f.detail for f in found}
