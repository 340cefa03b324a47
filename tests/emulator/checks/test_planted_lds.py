"""Planted bugs around LDS instructions with addresses in M0, and exchanges of two words at once."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.compiler.code_object import CodeObject
from rocke.emulator.checks.findings import Finding
from rocke.emulator.instruction import Instruction
from tests.corpus import cases
from tests.emulator.checks.planting import deleted, instructions, named, nth, run, swapped, written

pytestmark = pytest.mark.normal
ARCHS = ("gfx90a", "gfx942", "gfx950")


def waves(arch: str) -> CodeObject:
    """The corpus kernel in which two waves exchange words."""
    (case,) = (c for c in cases.load(("assembly",)) if (c.name, c.arch) == ("waves", arch))
    return case.code_object()


def findings(code: CodeObject, check: str = "all", seed: int = 0) -> tuple[Finding, ...]:
    x, out = np.arange(128, dtype=np.int32), np.zeros((6, 128), np.int32)
    return run(code, x, out, block=128, check=check, seed=seed)


def before(code: CodeObject, inst: Instruction) -> Instruction:
    """The instruction before another one."""
    return [i for i in instructions(code) if i.address < inst.address][-1]


def only(found: tuple[Finding, ...], check: str, instruction: str) -> Finding:
    """The only finding."""
    assert [(f.check.value, f.instruction.split()[0]) for f in found] == [(check, instruction)]
    return found[0]


@pytest.mark.parametrize("arch", ARCHS)
class TestRace:
    @pytest.mark.parametrize(
        ("barrier", "caught"),
        [(0, {"ds_read_addtid_b32", "ds_write_addtid_b32"}), (1, {"ds_wrxchg2_rtn_b32"})],
    )
    def test_deleted_barrier(self, arch: str, barrier: int, caught: set[str]) -> None:
        code = waves(arch)
        broken = deleted(code, nth(code, barrier, named("s_barrier")))
        found = findings(broken, "race")
        assert found
        assert {f.check.value for f in found} == {"race"}
        assert {f.instruction.split()[0] for f in found} & caught

    def test_barrier_without_the_wait_before_it(self, arch: str) -> None:
        code = waves(arch)
        write = nth(code, 0, named("ds_write_addtid"))
        (after, *_) = [i for i in instructions(code) if i.address > write.address]
        assert after.mnemonic == "s_waitcnt"
        found = findings(deleted(code, after), "race")
        assert "no wait before it" in only(found, "race", "ds_read_addtid_b32").detail

    def test_counter_that_is_set_at_the_same_time(self, arch: str) -> None:
        """Some order of the waves shows it."""
        code = waves(arch)
        broken = deleted(code, nth(code, 3, named("s_barrier")))
        found = {
            f.instruction.split()[0] for seed in range(4) for f in findings(broken, "race", seed)
        }
        assert found & {"ds_append", "ds_consume", "ds_write_b32"}


@pytest.mark.parametrize("arch", ARCHS)
class TestUninitialised:
    def test_row_that_was_not_written(self, arch: str) -> None:
        code = waves(arch)
        found = findings(deleted(code, nth(code, 0, named("ds_write_addtid"))), "uninitialised")
        first = found[0]
        assert first.instruction.startswith("global_store_dword")
        assert "ds_read_addtid_b32" in first.cause

    def test_row_written_with_a_register_without_a_value(self, arch: str) -> None:
        code = waves(arch)
        found = findings(deleted(code, nth(code, 0, named("global_load_dword"))), "uninitialised")
        assert "ds_read_addtid_b32" in found[0].cause

    def test_address_without_a_value(self, arch: str) -> None:
        code = waves(arch)
        found = findings(deleted(code, nth(code, 0, written("m0, s"))), "uninitialised")
        first = only(found, "uninitialised", "ds_write_addtid_b32")
        assert "LDS address" in first.detail

    def test_second_word_of_an_exchange(self, arch: str) -> None:
        code = waves(arch)
        found = findings(deleted(code, nth(code, 2, named("ds_write"))), "uninitialised")
        assert found[0].instruction.startswith("global_store_dword")

    def test_counter_that_was_not_set(self, arch: str) -> None:
        code = waves(arch)
        found = findings(deleted(code, nth(code, -1, named("ds_write_b32"))), "uninitialised")
        first = only(found, "uninitialised", "ds_append")
        assert "LDS bytes never written" in first.detail


@pytest.mark.parametrize("arch", ARCHS)
def test_address_written_just_before(arch: str) -> None:
    code = waves(arch)
    nop = nth(code, 0, lambda inst: inst.text == "s_nop 0")
    found = only(
        findings(swapped(code, before(code, nop)), "hazard"), "hazard", "ds_write_addtid_b32"
    )
    assert "m0 needs 1 wait states, there are 0" in found.detail
