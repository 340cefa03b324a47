"""Planted bugs: every check finds at least three different ones, and is silent without them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rocke.emulator.checks.findings import Finding
from rocke.runtime.device import KernelFault
from tests.emulator.checks import kernels
from tests.emulator.checks.planting import (
    NOP,
    deleted,
    instructions,
    named,
    nth,
    patched,
    run,
    swapped,
    written,
)
from tests.emulator.small_kernels import REVERSE, build

pytestmark = pytest.mark.normal
ARCHS = ("gfx90a", "gfx942", "gfx950")


def only(found: Sequence[Finding], check: str) -> Finding:
    """The first finding; all are of one check."""
    assert {f.check.value for f in found} == {check}, [str(f) for f in found]
    return found[0]


def floats(count: int = 64) -> np.ndarray:
    return np.linspace(-1, 1, count, dtype=np.float32)


def reverse_arguments() -> tuple[np.ndarray, int]:
    return np.arange(256, dtype=np.int32), 3


def matrix_arguments() -> tuple[np.ndarray, ...]:
    halves = np.ones((2, 256), dtype=np.float16)
    return halves[0].copy(), halves[1].copy(), np.zeros(256, dtype=np.float32)


@pytest.mark.parametrize("arch", ARCHS)
def test_right_kernels_are_silent(arch: str) -> None:
    data, rounds = reverse_arguments()
    assert run(build(REVERSE, arch), data, rounds, block=256, outputs=(data,)) == ()
    expected = np.arange(256)
    for _ in range(rounds):
        expected = expected[::-1] + 1
    assert (data == expected).all()
    ints = [np.zeros(256, dtype=np.int32) for _ in range(2)]
    assert run(build(kernels.NEIGHBOUR, arch), *ints, block=256, outputs=tuple(ints)) == ()
    assert (ints[1] == 3 * np.arange(256)[::-1]).all()
    sums = np.zeros(128, dtype=np.float32)
    add = (floats(128), floats(128), sums, 64)
    assert run(build(kernels.ADD, arch), *add, grid=2, outputs=(sums,)) == ()
    a, b, c = matrix_arguments()
    assert run(build(kernels.MATRIX, arch), a, b, c, 0.5, outputs=(c,)) == ()
    assert (c == 16).all()
    assert run(build(kernels.EXPONENTIAL, arch), floats(), 0.5) == ()
    listed = np.arange(64, dtype=np.int32)[::-1].copy()
    out = np.zeros(64, dtype=np.float32)
    assert run(build(kernels.GATHER, arch), listed, floats(), out, 0, outputs=(out,)) == ()
    shifted = np.zeros(64, dtype=np.int32)
    assert run(build(kernels.SHIFTED, arch), shifted, 0, outputs=(shifted,)) == ()
    early = np.zeros(256, dtype=np.int32)
    assert run(build(kernels.EARLY, arch), early, 256, block=256) == ()


@pytest.mark.parametrize("arch", ARCHS)
def test_direct_copy_is_silent(arch: str) -> None:
    x, out = np.arange(256, dtype=np.int32), np.zeros(256, dtype=np.int32)
    assert run(build(kernels.COPY, arch), x, out, block=256, outputs=(out,)) == ()
    assert (out == x[::-1]).all()


class TestWait:
    @pytest.mark.parametrize("arch", ARCHS)
    def test_deleted_wait_for_global_loads(self, arch: str) -> None:
        code = build(kernels.ADD, arch)
        wait = nth(code, 0, written("vmcnt(0)"))
        out = np.zeros(64, dtype=np.float32)
        found = only(run(deleted(code, wait), floats(), floats(), out, 64), "wait")
        assert found.instruction.startswith("v_add_f32")
        assert "global_load_dword" in found.cause
        assert "vmcnt(" in found.detail
        assert (found.workgroup, found.wave) == ((0, 0, 0), 0)

    def test_wait_for_too_few_loads(self) -> None:
        code = build(kernels.ADD, "gfx942")
        wait = nth(code, 0, written("vmcnt(0)"))
        weak = patched(code, wait, 0xBF8C0F71)  # vmcnt(1)
        out = np.zeros(64, dtype=np.float32)
        found = only(run(weak, floats(), floats(), out, 64), "wait")
        assert "v7 is used" in found.detail
        assert "vmcnt(0)" in found.detail

    @pytest.mark.parametrize("arch", ARCHS)
    def test_deleted_wait_for_arguments(self, arch: str) -> None:
        code = build(kernels.ADD, arch)
        wait = nth(code, 0, written("lgkmcnt(0)"))
        out = np.zeros(64, dtype=np.float32)
        found = only(run(deleted(code, wait), floats(), floats(), out, 64), "wait")
        assert "lgkmcnt(0)" in found.detail
        assert "s_load_dword" in found.cause

    @pytest.mark.parametrize("arch", ARCHS)
    def test_deleted_wait_for_an_lds_read(self, arch: str) -> None:
        code = build(REVERSE, arch)
        wait = nth(code, -1, written("lgkmcnt(0)"))
        found = run(deleted(code, wait), *reverse_arguments(), block=256, check="wait")
        assert only(found, "wait").instruction.startswith("v_add_u32")

    @pytest.mark.parametrize("arch", ARCHS)
    def test_own_direct_copy_read_early(self, arch: str) -> None:
        code = build(kernels.COPY, arch)
        wait = nth(code, 0, written("vmcnt(0)"))
        x, out = np.arange(256, dtype=np.int32), np.zeros(256, dtype=np.int32)
        found = run(deleted(code, wait), x, out, block=64, check="wait")
        assert found == ()  # one wave reads what it did not write
        mirrored = nth(code, 0, written("v_xor_b32"))
        same = patched(deleted(code, wait), mirrored, 0x7E020300, NOP)  # v_mov_b32_e32 v1, v0
        assert any(i.text == "v_mov_b32_e32 v1, v0" for i in instructions(same))
        found = run(same, x, out, block=256, check="wait")
        assert "direct copy" in only(found, "wait").detail


class TestHazard:
    @pytest.mark.parametrize("arch", ARCHS)
    def test_matrix_result_read_too_early(self, arch: str) -> None:
        code = build(kernels.MATRIX, arch)
        nop = nth(code, -1, named("s_nop"))
        found = only(run(deleted(code, nop), *matrix_arguments(), 0.5), "hazard")
        assert "v_mfma" in found.cause
        assert "matrix D to vector" in found.detail

    @pytest.mark.parametrize("arch", ARCHS)
    def test_matrix_source_written_just_before(self, arch: str) -> None:
        code = build(kernels.MATRIX, arch)
        scaling = named("v_pk_add_f16", "v_pk_mul_f16")
        while True:  # the multiplication moves towards the matrix instruction
            last = nth(code, -1, scaling)
            after = next(i for i in instructions(code) if i.address == last.address + last.size)
            if after.mnemonic.startswith("v_mfma"):
                break
            code = swapped(code, last)
        found = only(run(code, *matrix_arguments(), 0.5, check="hazard"), "hazard")
        assert "v_pk" in found.cause
        assert "vector_mfma" in found.detail
        assert found.instruction.startswith("v_mfma")

    @pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
    def test_transcendental_result_read_at_once(self, arch: str) -> None:
        code = build(kernels.EXPONENTIAL, arch)
        nop = nth(code, 0, named("s_nop"))
        found = only(run(swapped(code, nop), floats(), 0.5), "hazard")
        assert "trans_vector" in found.detail
        assert found.cause.split(": ")[1].startswith("v_exp_f32")

    @pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
    def test_mask_used_at_once(self, arch: str) -> None:
        code = build(kernels.EXPONENTIAL, arch)
        nop = nth(code, -1, named("s_nop"))
        found = only(run(deleted(code, nop), floats(), 0.5), "hazard")
        assert "vcc needs 2 wait states, there are 1" in found.detail

    @pytest.mark.parametrize("arch", ARCHS)
    def test_m0_written_before_a_direct_copy(self, arch: str) -> None:
        code = build(kernels.COPY, arch)
        shift = nth(code, 0, written("m0"))
        late = swapped(swapped(code, shift), nth(swapped(code, shift), 0, written("m0")))
        found = run(late, *(np.zeros(256, dtype=np.int32) for _ in range(2)), block=256)
        assert "m0 needs 1 wait states" in only(found, "hazard").detail


class TestRace:
    @pytest.mark.parametrize("arch", ARCHS)
    @pytest.mark.parametrize("which", [0, 1])
    def test_deleted_barrier(self, arch: str, which: int) -> None:
        code = build(REVERSE, arch)
        barrier = nth(code, which, named("s_barrier"))
        data, rounds = reverse_arguments()
        found = run(deleted(code, barrier), data, rounds, block=256, check="race")
        first = only(found, "race")
        assert "LDS byte" in first.detail
        assert first.instruction.startswith(("ds_read_b32", "ds_write_b32"))
        assert first.lanes

    @pytest.mark.parametrize("arch", ARCHS)
    def test_barrier_without_the_wait_before_it(self, arch: str) -> None:
        code = build(REVERSE, arch)
        barrier = nth(code, 0, named("s_barrier"))
        before = [i for i in instructions(code) if i.address < barrier.address]
        assert before[-1].mnemonic == "s_waitcnt"
        found = run(deleted(code, before[-1]), *reverse_arguments(), block=256)
        assert "no wait before it" in only(found, "race").detail

    @pytest.mark.parametrize("arch", ARCHS)
    def test_global_memory_without_a_barrier(self, arch: str) -> None:
        code = build(kernels.NEIGHBOUR, arch)
        barrier = nth(code, 0, named("s_barrier"))
        ints = [np.zeros(256, dtype=np.int32) for _ in range(2)]
        found = only(run(deleted(code, barrier), *ints, block=256), "race")
        assert "global address" in found.detail

    @pytest.mark.parametrize("arch", ARCHS)
    def test_workgroups_that_overlap(self, arch: str) -> None:
        sums = np.zeros(128, dtype=np.float32)
        arguments = (floats(128), floats(128), sums, 63)
        found = only(run(build(kernels.ADD, arch), *arguments, grid=2), "race")
        assert "workgroup (0, 0, 0)" in found.detail
        assert found.workgroup == (1, 0, 0)
        assert found.lanes == (0,)

    @pytest.mark.parametrize("arch", ARCHS)
    def test_direct_copy_seen_by_others_before_its_wait(self, arch: str) -> None:
        code = build(kernels.COPY, arch)
        wait = nth(code, 0, written("vmcnt(0)"))
        x, out = np.arange(256, dtype=np.int32), np.zeros(256, dtype=np.int32)
        found = only(run(deleted(code, wait), x, out, block=256), "race")
        assert found.instruction.startswith("ds_read_b32")


class TestUninitialised:
    @pytest.mark.parametrize("arch", ARCHS)
    def test_lds_that_nobody_wrote(self, arch: str) -> None:
        out = np.zeros(64, dtype=np.int32)
        found = only(run(build(kernels.SHIFTED, arch), out, 1, block=32), "uninitialised")
        assert found.instruction.startswith("global_store_dword")
        assert "ds_read_b32" in found.cause
        assert found.lanes == (31,)

    @pytest.mark.parametrize("arch", ARCHS)
    def test_accumulator_without_a_value(self, arch: str) -> None:
        code = build(kernels.MATRIX, arch)
        load = nth(code, 0, named("global_load_dwordx4"))
        found = run(deleted(code, load), *matrix_arguments(), 0.5, check="uninitialised")
        first = only(found, "uninitialised")
        assert first.instruction.startswith("global_store_dwordx4")
        assert "v_mfma" in first.cause

    @pytest.mark.parametrize("arch", ARCHS)
    def test_argument_that_was_not_loaded(self, arch: str) -> None:
        code = build(kernels.ADD, arch)
        load = nth(code, 0, written("0x18"))
        out = np.zeros(64, dtype=np.float32)
        arguments = (floats(), floats(), out, 64)
        found = run(deleted(code, load), *arguments, check="uninitialised")
        assert "address" in only(found, "uninitialised").detail

    @pytest.mark.parametrize("arch", ARCHS)
    def test_output_elements_not_written(self, arch: str) -> None:
        out = np.zeros(65, dtype=np.float32)
        arguments = (floats(), floats(), out, 64)
        found = run(build(kernels.ADD, arch), *arguments, outputs=(out,))
        detail = only(found, "uninitialised").detail
        assert detail == (
            "1 of the 65 elements of output were never written, the first one is (64,)"
        )


class TestConvergence:
    @pytest.mark.parametrize("arch", ARCHS)
    def test_barrier_that_a_wave_goes_round(self, arch: str) -> None:
        out = np.zeros(256, dtype=np.int32)
        found = run(build(kernels.EARLY, arch), out, 192, block=256, check="convergence")
        first = only(found, "convergence")
        assert first.instruction.startswith("s_barrier")
        assert "wave 3 has ended" in first.detail

    @pytest.mark.parametrize("arch", ARCHS)
    def test_matrix_instruction_with_lanes_off(self, arch: str) -> None:
        found = run(build(kernels.MATRIX, arch), *matrix_arguments(), 0.5, block=48)
        first = next(f for f in found if f.check.value == "convergence")
        assert first.lanes == tuple(range(48, 64))

    @pytest.mark.parametrize("arch", ARCHS)
    def test_waves_that_loop_a_different_number_of_times(self, arch: str) -> None:
        out = np.zeros(256, dtype=np.int32)
        assert run(build(kernels.LOOPS, arch), out, 0, 5, block=256) == ()
        found = run(build(kernels.LOOPS, arch), out, 1, 5, block=256, check="convergence")
        assert "has ended" in only(found, "convergence").detail

    def test_transposed_read_with_lanes_off(self) -> None:
        code = build(kernels.TRANSPOSED, "gfx950")
        out = np.zeros(128, dtype=np.int32)
        assert run(code, out, outputs=(out,)) == ()
        found = run(code, out, block=62, check="convergence")
        assert only(found, "convergence").lanes == (62, 63)


class TestBounds:
    def neighbours(self) -> tuple[np.ndarray, ...]:
        """Allocations without a gap between them: what is past one end is in another."""
        whole = np.zeros(192, dtype=np.float32)
        return whole[:64], whole[64:128], whole[128:]

    @pytest.mark.parametrize("arch", ARCHS)
    def test_wrong_list_entry(self, arch: str) -> None:
        x, out, _ = self.neighbours()
        listed = np.arange(64, dtype=np.int32)
        code = build(kernels.GATHER, arch)
        assert run(code, listed, x, out, 0) == ()
        listed[5] = 64
        found = only(run(code, listed, x, out, 0), "bounds")
        assert found.lanes == (5,)
        assert found.instruction.startswith("global_load_dword")
        assert hex(out.ctypes.data) in found.detail

    @pytest.mark.parametrize("arch", ARCHS)
    def test_store_past_the_end(self, arch: str) -> None:
        first, second, _ = self.neighbours()
        code, x = build(kernels.ADD, arch), floats(128)
        found = only(run(code, x, x + 1, first, 64, grid=2, others=(second,)), "bounds")
        assert found.instruction.startswith("global_store_dword")
        assert found.workgroup == (1, 0, 0)
        assert hex(second.ctypes.data + 252) in found.detail

    @pytest.mark.parametrize("arch", ARCHS)
    def test_load_before_the_start(self, arch: str) -> None:
        first, second, _ = self.neighbours()
        out = np.zeros(128, dtype=np.float32)
        code = build(kernels.ADD, arch)
        b = floats(128)
        arguments = (second, b[64:], out[64:], -64)
        others = (first, b[:64], out[:64])
        found = run(code, *arguments, grid=2, others=others, check="bounds")
        loads = [f for f in found if hex(first.ctypes.data + 252) in f.detail]
        assert only(loads, "bounds").workgroup == (1, 0, 0)

    @pytest.mark.parametrize("arch", ARCHS)
    def test_lds_index_one_past_the_end(self, arch: str) -> None:
        out = np.zeros(64, dtype=np.int32)
        with pytest.raises(KernelFault, match="LDS read outside") as error:
            run(build(kernels.SHIFTED, arch), out, 1, block=64)
        assert error.value.report["lanes"] == [63]


@pytest.mark.parametrize("arch", ARCHS)
def test_results_do_not_depend_on_the_order_of_waves(arch: str) -> None:
    code = build(REVERSE, arch)
    results = []
    for seed in range(6):
        data, rounds = reverse_arguments()
        assert run(code, data, rounds, block=256, seed=seed) == ()
        results.append(data)
    assert all((r == results[0]).all() for r in results)


def test_some_order_shows_a_missing_barrier_in_the_result() -> None:
    code = build(REVERSE, "gfx942")
    broken = deleted(code, nth(code, 0, named("s_barrier")))
    results = set()
    for seed in range(6):
        data, rounds = reverse_arguments()
        run(broken, data, rounds, block=256, seed=seed)
        results.add(data.tobytes())
    assert len(results) > 1
