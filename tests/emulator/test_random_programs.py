"""1,000 random programs leave the registers that an independent interpreter leaves."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter

import numpy as np
import pytest

from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice
from tests.emulator.random_programs import compare
from tests.emulator.random_programs.compare import differences
from tests.emulator.random_programs.generator import ARCHS, Program, generate
from tests.emulator.random_programs.kernel import State, build, run_reference
from tests.emulator.random_programs.machine import Machine
from tests.emulator.random_programs.vector_ops import OPS

SEEDS = range(1000)
"""Seed n runs on target n mod 3."""
QUICK, NORMAL = 21, 100
GROUP = 50
"""Programs in one code object."""


def marked() -> list:
    marks = []
    for seed in SEEDS:
        slow = [] if seed < QUICK else [pytest.mark.normal if seed < NORMAL else pytest.mark.slow]
        marks.append(pytest.param(seed, marks=slow))
    return marks


@functools.lru_cache(maxsize=4)
def group(arch: str, number: int) -> tuple[CodeObject, EmulatedDevice]:
    """A code object with the programs of a target in one stretch of seeds, and a device."""
    seeds = range(GROUP * number, GROUP * (number + 1))
    programs = [generate(s) for s in seeds if ARCHS[s % 3] == arch]
    return build(programs), EmulatedDevice(arch, threads=1, max_instructions=100_000)


@pytest.mark.parametrize("seed", marked())
def test_same_registers(seed: int) -> None:
    program = generate(seed)
    code, device = group(program.arch, seed // GROUP)
    assert differences(device, code, program) == []


def test_a_seed_makes_the_same_program() -> None:
    first, second = generate(17), generate(17)
    assert list(map(str, first.body)) == list(map(str, second.body))
    for name in "vas":
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@functools.cache
def executed() -> Counter[str]:
    """How often the programs of the first 300 seeds execute each operation."""
    found: Counter[str] = Counter()
    for seed in range(300):
        found.update(run_reference(generate(seed))[1].executed)
    return found


@pytest.mark.parametrize(
    "kind",
    [
        *("s_", "s_cbranch", "v_", "v_pk_", "v_cmp_", "v_cmpx_", "v_cndmask", "ds_read", "ds_add"),
        *("v_mfma_f32_32x32", "v_mfma_i32", "v_permlane", "v_readlane", "ds_bpermute"),
    ],
)
def test_the_programs_execute_every_kind(kind: str) -> None:
    assert sum(n for op, n in executed().items() if op.startswith(kind)) > 10


def test_the_programs_execute_most_operations() -> None:
    assert len(executed()) >= 500


def test_a_wrong_interpreter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these operations, when its meaning is changed a little, gives a difference."""
    for name in ("v_max_f32", "v_and_b32", "v_mul_f32"):
        op = OPS[name]
        with monkeypatch.context() as patch:
            patch.setitem(OPS, name, dataclasses.replace(op, f=lambda m, a, b: a))
            programs = [generate(s) for s in SEEDS[:QUICK]]
            having = [p for p in programs if any(i.op == name for i in p.body)]
            assert any(differences(*reversed(group(p.arch, 0)), p) for p in having), name


def test_differences_of_one_bit_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    program = generate(0)
    code, device = group(program.arch, 0)

    def other(given: Program) -> tuple[State, Machine]:
        state, machine = run_reference(given)
        state.v[33, 63] ^= 1
        state.a[31, 0] ^= 1 << 31
        state.s[-1] ^= 1
        return state, machine

    monkeypatch.setattr(compare, "run_reference", other)
    found = differences(device, code, program)
    assert [text.partition(":")[0] for text in found] == ["v33 lane 63", "a31 lane 0", "scc"]
