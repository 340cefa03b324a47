"""Every opcode of the targets is executed, or stands in a list with the reason why not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from rocke.arch import target
from rocke.emulator.blocks import Program
from rocke.emulator.checks.effects import effects
from rocke.emulator.checks.flow import Flow
from rocke.emulator.checks.hazard_rules import Rules
from rocke.emulator.checks.instrument import Instrumentation
from rocke.emulator.checks.kinds import Check
from rocke.emulator.counting import counting
from tests.emulator.opcode_walk import (
    ARCHS,
    ENCODINGS,
    instructions,
    is_executed,
    missing,
    random_instructions,
)

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "emulated-device.md"
NOT_EXECUTED = {
    "s_store_*": r"s_store_dword(x\d)?",
    "s_buffer_store_*": r"s_buffer_store_dword(x\d)?",
    "s_atomic_*": r"s_atomic_\w+",
    "s_buffer_atomic_*": r"s_buffer_atomic_\w+",
    "s_scratch_*": r"s_scratch_(load|store)_dword(x\d)?",
    "s_atc_probe*": r"s_atc_probe(_buffer)?",
    "s_dcache_discard*": r"s_dcache_discard(_x2)?",
    "s_rfe_*": r"s_rfe_(restore_)?b64",
    "s_cbranch_*_fork": r"s_cbranch_[gi]_fork",
    "s_cbranch_join": r"s_cbranch_join",
    "s_setvskip": r"s_setvskip",
    "s_setkill": r"s_setkill",
    "s_sendmsghalt": r"s_sendmsghalt",
    "v_screen_partition_4se_b32": r"v_screen_partition_4se_b32",
    "v_mfma_ld_scale_b32": r"v_mfma_ld_scale_b32",
    "ds_gws_*": r"ds_gws_\w+",
}
"""As the guide names them: the mnemonics. The guide has the reasons."""
AT_LEAST = {"mtbuf": 15, "sopk": 15, "sopp": 20, "sopc": 15}


@pytest.mark.normal
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_what_is_not_executed(encoding: str, arch: str) -> None:
    assert len({i.mnemonic for i in instructions(encoding, arch)}) > AT_LEAST.get(encoding, 40)
    known = re.compile("|".join(NOT_EXECUTED.values()))
    unexpected = {k: t for k, t in missing(encoding, arch).items() if not known.fullmatch(k[0])}
    assert unexpected == {}


@pytest.mark.normal
def test_the_list_is_exact() -> None:
    found = {name for e in ENCODINGS for arch in ARCHS for name, _ in missing(e, arch)}
    for pattern in NOT_EXECUTED.values():
        assert any(re.fullmatch(pattern, name) for name in found), pattern


def test_the_guide_has_the_list() -> None:
    text = GUIDE.read_text()
    assert [name for name in NOT_EXECUTED if f"`{name}`" not in text] == []


@pytest.mark.normal
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_every_form_is_executed_or_refused(encoding: str, arch: str) -> None:
    """No other error, and checks and counters can deal with what is executed."""
    instrumentation = Instrumentation(Flow(Program(), arch, (), ()), frozenset(Check), (), {}, {})
    count, rules, tried = counting(target(arch)), Rules(arch), 0
    for seed in range(4):
        for inst in random_instructions(encoding, arch, seed):
            tried += 1
            if is_executed(inst, arch):
                instrumentation(replace(inst, address=4 * tried))
                count(inst)
                rules.of(inst, effects(inst, arch), matrix_used=True)
    assert tried > 15
