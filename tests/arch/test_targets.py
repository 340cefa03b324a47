"""The target table: its derived values, look-ups and the consistency of its layouts."""

import dataclasses

import pytest

from rocke.arch import TARGETS, UnknownMatrixOp, UnknownTarget, target


@pytest.fixture(params=list(TARGETS))
def each(request):
    return target(request.param)


@pytest.mark.parametrize("name", ["gfx1100", "GFX950", "", None])
def test_unknown_target_lists_the_known(name):
    with pytest.raises(UnknownTarget, match=r"gfx90a, gfx942, gfx950") as caught:
        target(name)
    assert isinstance(caught.value, ValueError)
    assert repr(name) in str(caught.value)


def test_targets_are_frozen(each):
    with pytest.raises(dataclasses.FrozenInstanceError):
        each.lds_bytes = 1
    with pytest.raises(TypeError):
        TARGETS["gfx9"] = each
    assert hash(each) != 0


@pytest.mark.parametrize(
    ("vgprs", "waves"),
    [(1, 8), (64, 8), (65, 7), (72, 7), (80, 6), (96, 5), (128, 4), (168, 3), (256, 2), (512, 1)],
)
def test_occupancy_by_registers(each, vgprs, waves):
    assert each.waves_per_simd(vgprs) == waves


@pytest.mark.parametrize("vgprs", [-1, 513])
def test_occupancy_refuses_impossible_register_counts(each, vgprs):
    with pytest.raises(ValueError, match=f"vgprs is {vgprs}"):
        each.waves_per_simd(vgprs)


def test_matrix_rate_is_that_of_the_widest_atom(each):
    best = max(op.flops // op.cycles for op in each.matrix_ops if op.a_type == "f16")
    assert best * each.simds_per_cu == each.matrix_16bit_flops_per_clock


def test_peak_follows_from_units_and_clock(each):
    peak = each.compute_units * each.peak_clock_mhz * 1e6 * each.matrix_16bit_flops_per_clock
    assert peak / 1e12 == pytest.approx(each.peak_16bit_tflops, rel=2e-3)


def test_matrix_names_are_unique_and_found(each):
    names = [op.name for op in each.matrix_ops]
    assert len(set(names)) == len(names)
    for op in each.matrix_ops:
        assert each.matrix_op(op.name) is op
        assert each.find_matrix_op(op.m, op.n, op.k, op.a_type, op.b_type) is op


def test_missing_matrix_op_names_the_target(each):
    with pytest.raises(UnknownMatrixOp, match=f"{each.name} has no matrix instruction 'mfma_x'"):
        each.matrix_op("mfma_x")
    with pytest.raises(UnknownMatrixOp, match=f"{each.name} has no 8x8x8"):
        each.find_matrix_op(8, 8, 8, "f16")


def test_layouts_cover_each_element_once(each):
    for op in each.matrix_ops:
        c = {op.c_position(lane, r) for lane in range(64) for r in range(op.c_elements)}
        assert c == {(i, j) for i in range(op.m) for j in range(op.n)}
        if op.a_type == "f8f6f4":
            with pytest.raises(ValueError, match="depends on the chosen format"):
                op.a_position(0, 0)
            continue
        a = {op.a_position(lane, j) for lane in range(64) for j in range(op.a_elements)}
        b = {op.b_position(lane, j) for lane in range(64) for j in range(op.b_elements)}
        assert a == {(i, k) for i in range(op.m) for k in range(op.k)}
        assert b == {(k, j) for k in range(op.k) for j in range(op.n)}


def test_result_layouts_as_documented():
    narrow = target("gfx950").matrix_op("mfma_f32_16x16x16_f16")
    wide = target("gfx950").matrix_op("mfma_f32_32x32x8_f16")
    for lane in range(64):
        for r in range(4):
            assert narrow.c_position(lane, r) == (4 * (lane // 16) + r, lane % 16)
        for r in range(16):
            row = 8 * (r // 4) + 4 * (lane // 32) + r % 4
            assert wide.c_position(lane, r) == (row, lane % 32)


def test_transposed_scores_are_an_operand_as_they_stand():
    """The 16x16 result layout is the B operand layout of the 16-deep atom: what attention uses."""
    op = target("gfx90a").matrix_op("mfma_f32_16x16x16_bf16")
    for lane in range(64):
        for r in range(4):
            assert op.c_position(lane, r) == op.b_position(lane, r)


def test_lds_phases_serve_each_lane_once(each):
    for phases in each.lds_phases:
        lanes = [lane for group in phases.groups for lane in group]
        assert sorted(lanes) == list(range(64)), phases.instruction


def test_hazards_by_passes():
    gfx942, gfx950 = target("gfx942"), target("gfx950")
    assert [gfx942.hazard("mfma_ab").required(p) for p in (2, 4, 8, 16)] == [5, 7, 11, 19]
    assert [gfx950.hazard("mfma_c_overlap").required(p) for p in (2, 4, 8, 16)] == [4, 6, 10, 18]
    assert target("gfx90a").hazard("mfma_war").required(4) == 7  # between two rows: the longer
    assert gfx942.hazard("sgemm_ab").required(16) == 18
    assert gfx942.hazard("vector_permlane_swap") is None
    assert gfx950.hazard("vector_permlane_swap").required() == 2
    with pytest.raises(ValueError, match="passes is None"):
        gfx942.hazard("mfma_ab").required()
    with pytest.raises(ValueError, match="passes is 32"):
        gfx942.hazard("mfma_ab").required(32)


def test_every_matrix_instruction_has_hazard_rows(each):
    for op in each.matrix_ops:
        assert each.hazard("mfma_ab").required(op.passes) >= 5


@pytest.mark.parametrize("each", list(TARGETS.values()), ids=list(TARGETS))
@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("size", range(1, 17))
def test_every_lds_access_has_phases(each, write, size):
    phases = each.lds_phases_of(write, size)
    assert sorted(lane for group in phases.groups for lane in group) == list(range(64))
    assert len({len(group) for group in phases.groups}) == 1
    words = {1: 1, 2: 2}.get(-(-size // 4), 4)
    assert len(phases.groups[0]) * words == phases.banks  # each phase uses every bank once


@pytest.mark.parametrize("size", [0, 17])
def test_sizes_that_no_lds_access_has(size):
    with pytest.raises(ValueError, match=f"bytes_a_lane is {size}"):
        target("gfx950").lds_phases_of(False, size)
