"""Undefined lanes that move to other lanes, and through matrix instructions."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.arch import target
from rocke.emulator.checks.matrix_lanes import MatrixLanes, matrix_use
from rocke.emulator.semantics.matrix_forms import MATRIX_FORMS
from tests.emulator.checks.assembled import assembled
from tests.emulator.checks.planting import instructions, nth, run

pytestmark = pytest.mark.normal
ARCHS = ("gfx90a", "gfx942", "gfx950")

LANE_5 = """
    s_mov_b64 s[20:21], exec
    s_mov_b64 s[22:23], exec
    s_bitset0_b64 s[22:23], 5
    s_mov_b64 exec, s[22:23]
    v_mov_b32_e32 v12, v2
    v_mov_b32_e32 v13, v2
    s_mov_b64 exec, s[20:21]
    v_mov_b32_e32 v20, v2
    v_mov_b32_e32 v22, v2
    v_mov_b32_e32 v23, v2
    v_xor_b32_e32 v3, 0xfc, v1
    s_nop 4
"""
"""Lane 5 of v12 and v13 is undefined; v3 has the LDS address of lane 63 - l."""
ALL = "row_mask:0xf bank_mask:0xf"
MOVES = [
    (f"v_mov_b32_dpp v20, v12 quad_perm:[1,0,3,2] {ALL}", {4}),
    (f"v_mov_b32_dpp v20, v12 row_shr:1 {ALL}", {6}),
    (f"v_add_u32_dpp v20, v12, v2 row_shr:1 {ALL}", {6}),
    (f"v_and_b32_dpp v20, v12, v2 row_ror:15 {ALL}", {4}),
    ("v_mov_b32_dpp v20, v12 row_shr:1 row_mask:0xe bank_mask:0xf", set()),
    ("v_mov_b32_dpp v20, v12 row_shr:1 row_mask:0xf bank_mask:0xd", set()),
    (f"v_add_u32_dpp v20, v2, v12 row_shr:1 {ALL}", {5}),
    (f"v_add_u32_dpp v20, v2, v12 row_shl:11 {ALL}", set()),
    (f"v_mov_b32_dpp v20, v12 row_bcast:15 {ALL}", set()),
    (f"v_mov_b32_dpp v20, v12 row_newbcast:5 {ALL}", set(range(16))),
    (
        "s_mov_b64 exec, s[22:23]\n s_nop 4\n"
        f" v_mov_b32_dpp v20, v12 row_shr:1 {ALL} bound_ctrl:0\n s_mov_b64 exec, s[20:21]",
        set(),
    ),
    (
        "s_mov_b64 exec, s[22:23]\n s_nop 4\n"
        f" v_mov_b32_dpp v20, v12 row_shr:1 {ALL}\n s_mov_b64 exec, s[20:21]",
        set(),
    ),
    ("ds_bpermute_b32 v20, v3, v12", {58}),
    ("ds_bpermute_b32 v20, v3, v12 offset:4", {59}),
    ("ds_permute_b32 v20, v3, v12", {58}),
    ("ds_permute_b32 v20, v12, v2", {63}),  # registers start as ones
    ("ds_swizzle_b32 v20, v12 offset:0x041f", {4}),
    ("v_swap_b32 v20, v12", {5}),
    ("v_swap_b32 v20, v12\n v_mov_b32_e32 v20, v12", set()),
]
SWAPS = [
    ("v_permlane32_swap_b32 v20, v12", {37}),
    ("v_permlane32_swap_b32 v12, v20\n v_mov_b32_e32 v20, v12", {5}),
    ("v_permlane16_swap_b32 v20, v12", {21}),
    ("v_permlane16_swap_b32 v12, v20", set()),
]


def undefined(body: str, arch: str, registers: range = range(20, 21)) -> dict[int, set[int]]:
    """For each register, the lanes whose store is a finding."""
    wait = "\n s_nop 15\n s_nop 15\n s_waitcnt lgkmcnt(0)\n"
    stores = "\n".join(f" global_store_dword v1, v{r}, s[6:7] offset:0" for r in registers)
    code = assembled(LANE_5 + body + wait + stores, arch)
    x, out = np.arange(256, dtype=np.uint32) * 2, np.zeros(64, np.uint32)
    found = {f.address: set(f.lanes) for f in run(code, x, out, check="uninitialised")}
    places = [i.address for i in instructions(code) if i.mnemonic == "global_store_dword"]
    assert set(found) <= set(places[-len(registers) :])
    return dict(zip(registers, (found.get(p, set()) for p in places), strict=True))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("body", "lanes"), MOVES)
def test_a_lane_that_moves(body: str, lanes: set[int], arch: str) -> None:
    assert undefined(body, arch) == {20: lanes}


@pytest.mark.parametrize(("body", "lanes"), SWAPS)
def test_rows_that_change_places(body: str, lanes: set[int]) -> None:
    assert undefined(body, "gfx950") == {20: lanes}


@pytest.mark.parametrize("arch", ARCHS)
def test_sides_of_a_matrix_product(arch: str) -> None:
    name = "v_mfma_f32_16x16x16f16 v[20:23]"
    registers = range(20, 24)
    row_5 = {20: set(), 21: set(range(16, 32)), 22: set(), 23: set()}
    assert undefined(f"{name}, v[12:13], v[22:23], 0", arch, registers) == row_5
    column_5 = {r: {5, 21, 37, 53} for r in registers}
    assert undefined(f"{name}, v[22:23], v[12:13], 0", arch, registers) == column_5
    c = "v_mov_b32_e32 v16, v2\n v_mov_b32_e32 v17, v12\n v_mov_b32_e32 v18, v2\n"
    c += " v_mov_b32_e32 v19, v2\n s_nop 4\n"
    one = {20: set(), 21: {5}, 22: set(), 23: set()}
    assert undefined(f"{c}{name}, v[22:23], v[22:23], v[16:19]", arch, registers) == one


def test_layouts_are_those_of_the_targets() -> None:
    seen = set()
    for arch in ARCHS:
        for op in target(arch).matrix_ops:
            form = MATRIX_FORMS.get(f"v_{op.name}") or MATRIX_FORMS.get(op.name)
            if form is None or op.a_type == "f8f6f4":
                continue
            seen.add(op.name)
            lanes = MatrixLanes(op.m, form.blocks, False, op.c_elements)
            for element in range(op.c_elements):
                for lane in range(64):
                    row, column = op.c_position(lane, element)
                    a = sum(1 << i for i in range(64) if op.a_position(i, 0)[0] == row)
                    b = sum(1 << i for i in range(64) if op.b_position(i, 0)[1] == column)
                    assert lanes.depends(element, lane) == (a, b), op.name
    assert len(seen) > 4


FORMS = [
    ("v_mfma_f32_4x4x4f16 v[20:23], v[4:5], v[6:7], 0", 4),
    ("v_mfma_f32_4x4x4f16 v[20:23], v[4:5], v[6:7], 0 cbsz:2 abid:1", 4),
    ("v_mfma_f32_4x4x4f16 v[20:23], v[4:5], v[6:7], 0 blgp:3", 4),
    ("v_mfma_f32_16x16x4f16 v[20:35], v[4:5], v[6:7], 0", 16),
    ("v_mfma_f32_16x16x4f16 v[20:35], v[4:5], v[6:7], 0 cbsz:1 abid:1", 16),
    ("v_mfma_f32_32x32x4f16 v[20:51], v[4:5], v[6:7], 0", 32),
    ("v_mfma_f32_32x32x4f16 v[20:51], v[4:5], v[6:7], 0 blgp:2", 32),
    ("v_mfma_f32_16x16x16f16 v[20:23], v[4:5], v[6:7], 0 blgp:5", 4),
    ("v_mfma_f32_32x32x8f16 v[20:35], v[4:5], v[6:7], 0", 16),
    ("v_mfma_f64_16x16x4f64 v[20:27], v[4:5], v[6:7], 0", 8),
    ("v_mfma_f64_4x4x4f64 v[20:21], v[4:5], v[6:7], 0", 2),
]


@pytest.mark.parametrize(("text", "registers"), FORMS)
def test_layouts_are_those_that_execute(text: str, registers: int) -> None:
    """A NaN in one lane of A or B is in D where the lane counts."""
    double = "_f64_" in text
    one, nan = (0x3FF00000, 0x7FF80000) if double else (0x3C003C00, 0x7E007E00)
    moves = "\n".join(
        f" v_mov_b32_e32 v{side + half}, v{value if half or not double else 8}"
        for side, value in ((4, 2), (6, 9))
        for half in (0, 1)
    )
    stores = "\n".join(
        f" v_add_u32_e32 v10, {256 * r}, v1\n global_store_dword v10, v{20 + r}, s[6:7]"
        for r in range(registers)
    )
    for swapped in (False, True):
        body = f" v_mov_b32_e32 v8, 0\n v_mov_b32_e32 v9, {one:#x}\n{moves}\n s_nop 7\n"
        turned = text.replace("v[4:5], v[6:7]", "v[6:7], v[4:5]") if swapped else text
        body += f" {turned}\n s_nop 15\n s_nop 15\n{stores}"
        code = assembled(body, "gfx90a")
        use = matrix_use(nth(code, 0, lambda i: i.mnemonic.startswith("v_mfma")))
        for lane in (0, 5, 18, 35, 63):
            x, out = np.full(256, one, np.uint32), np.zeros((registers, 64), np.uint32)
            x[lane] = nan
            assert run(code, x, out, check="uninitialised") == ()
            shift = np.uint32(20 if double else 23)
            is_nan = (out >> shift & np.uint32(0x7FF if double else 0xFF)) == (
                0x7FF if double else 0xFF
            )
            for r in range(int(double), registers, 1 + int(double)):
                expected = [use.lanes.depends(r, at)[swapped] >> lane & 1 for at in range(64)]
                np.testing.assert_array_equal(is_nan[r], np.array(expected, bool))
