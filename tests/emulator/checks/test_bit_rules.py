"""How undefined bits pass through instructions: what depends on them is found, the rest is not."""

from __future__ import annotations

import re

import pytest

from tests.emulator.checks.assembled import assembled
from tests.emulator.checks.planting import instructions
from tests.emulator.checks.test_planted_assembly import result

pytestmark = pytest.mark.normal
ARCHS = ("gfx90a", "gfx942", "gfx950")

BEGIN = """
    ds_write_b16 v1, v2
    ds_write_b8 v1, v2 offset:2
    ds_write_b16 v1, v2 offset:256
    ds_write_b32 v1, v2 offset:512
    s_waitcnt lgkmcnt(0)
    ds_read_b32 v10, v1
    ds_read_b32 v11, v1 offset:256
    v_mov_b32_e32 v15, 0
    v_mov_b32_e32 v16, -1
    v_mov_b32_e32 v17, 8
    v_cmp_gt_u32_e64 s[20:21], 32, v0
    v_cmp_le_u32_e64 s[22:23], 0, v0
    s_mov_b32 s24, 0x00ffffff
    s_mov_b32 s25, 0x0c020100
    s_mov_b32 s26, 0x03020100
    s_waitcnt lgkmcnt(0)
"""
"""Undefined: bits 24 to 31 of v10, the high half of v11, all of v12. s[20:21] has half of the
lanes, s[22:23] all."""

DEFINED = [
    "v_mov_b32_e32 v20, v2",
    "v_and_b32_e32 v20, 0xffffff, v10",
    "v_and_b32_e32 v20, s24, v10",
    "v_and_b32_e32 v20, v15, v12",
    "v_or_b32_e32 v20, v16, v12",
    "v_or_b32_e32 v20, 0xff000000, v10",
    "v_and_or_b32 v20, v10, s24, v2",
    "v_or3_b32 v20, v12, v2, v16",
    "v_lshlrev_b32_e32 v20, 8, v10",
    "v_lshlrev_b32_e32 v20, v17, v10",
    "v_lshrrev_b32_e32 v20, v17, v10\n v_and_b32_e32 v20, 0xffff, v20",
    "v_lshl_or_b32 v20, v10, 8, v2",
    "v_lshl_add_u32 v20, v10, 8, v2",
    "v_bfe_u32 v20, v10, 8, 16",
    "v_bfe_i32 v20, v10, 8, 16",
    "v_bfi_b32 v20, s24, v10, v2",
    "v_perm_b32 v20, v2, v10, s25",
    "v_alignbit_b32 v20, v2, v10, 24\n v_and_b32_e32 v20, 0xffffff00, v20",
    "v_alignbyte_b32 v20, v10, v2, 1",
    "v_add_u32_e32 v20, v10, v2\n v_lshlrev_b32_e32 v20, 8, v20",
    "v_mul_lo_u32 v20, v10, v2\n v_and_b32_e32 v20, 0xff, v20",
    "v_cndmask_b32_e64 v20, v12, v2, s[22:23]",
    "v_cndmask_b32_e64 v20, v2, v12, s[20:21]\n v_cndmask_b32_e64 v20, v20, v2, s[20:21]",
    "v_cvt_f32_ubyte2_e32 v20, v10",
    "v_mul_u32_u24_e32 v20, v10, v2",
    "v_cvt_f32_f16_e32 v20, v11",
    "v_add_f16_e32 v20, v11, v11",
    "v_add_u32_sdwa v20, v11, v2 dst_sel:DWORD dst_unused:UNUSED_PAD"
    " src0_sel:WORD_0 src1_sel:DWORD",
    "v_or_b32_sdwa v20, v2, v10 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:BYTE_2",
    "v_pk_add_f16 v20, v11, v11\n v_and_b32_e32 v20, 0xffff, v20",
    "v_pk_add_f16 v20, v11, v11 op_sel_hi:[0,0]",
    "v_pack_b32_f16 v20, v11, v11",
    "v_fma_mix_f32 v20, v11, v11, v2 op_sel_hi:[1,1,0]",
    "v_mov_b32_e32 v20, v11\n v_cvt_f16_f32_sdwa v20, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE"
    " src0_sel:DWORD",
    "ds_read_u8 v20, v1 offset:2\n s_waitcnt lgkmcnt(0)",
    "ds_read_u16_d16 v20, v1\n ds_read_u16_d16_hi v20, v1 offset:512\n s_waitcnt lgkmcnt(0)",
    "ds_read_u16_d16 v20, v1\n s_waitcnt lgkmcnt(0)\n v_lshlrev_b32_e32 v20, 16, v20",
    "global_load_short_d16 v20, v1, s[4:5]\n s_waitcnt vmcnt(0)\n v_and_b32_e32 v20, 0xffff, v20",
    "v_readfirstlane_b32 s30, v10\n s_and_b32 s30, s30, 0xffffff\n v_mov_b32_e32 v20, s30",
    "v_readfirstlane_b32 s30, v10\n s_bfe_u32 s30, s30, 0x80008\n v_mov_b32_e32 v20, s30",
    "v_readfirstlane_b32 s30, v10\n s_lshl_b32 s30, s30, 8\n v_mov_b32_e32 v20, s30",
    "ds_bpermute_b32 v20, v1, v11\n s_waitcnt lgkmcnt(0)\n v_and_b32_e32 v20, 0xffff, v20",
    "v_mov_b32_dpp v20, v11 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf\n"
    " v_and_b32_e32 v20, 0xffff, v20",
    "ds_write_b32 v1, v11 offset:768\n s_waitcnt lgkmcnt(0)\n ds_read_u16 v20, v1 offset:768\n"
    " s_waitcnt lgkmcnt(0)",
    "v_cmp_gt_u16_e64 s[30:31], v11, v2\n v_cndmask_b32_e64 v20, v2, v15, s[30:31]",
]
UNDEFINED = [
    "v_mov_b32_e32 v20, v10",
    "v_and_b32_e32 v20, 0x1ffffff, v10",
    "v_and_b32_e32 v20, v10, v12",
    "v_or_b32_e32 v20, v15, v12",
    "v_or_b32_e32 v20, 0xfe000000, v10",
    "v_xor_b32_e32 v20, v12, v12",
    "v_lshlrev_b32_e32 v20, 7, v10",
    "v_lshlrev_b32_e32 v20, v12, v2",
    "v_lshrrev_b32_e32 v20, 24, v10",
    "v_ashrrev_i32_e32 v20, 24, v10",
    "v_bfe_u32 v20, v10, 9, 16",
    "v_bfe_i32 v20, v10, 9, 16",
    "v_bfe_u32 v20, v2, v12, 16",
    "v_bfi_b32 v20, s24, v2, v10",
    "v_perm_b32 v20, v2, v10, s26",
    "v_perm_b32 v20, v2, v2, v12",
    "v_alignbyte_b32 v20, v10, v2, 2\n v_alignbyte_b32 v20, v2, v10, 1",
    "v_add_u32_e32 v20, v10, v2",
    "v_mul_lo_u32 v20, v10, v2",
    "v_cndmask_b32_e64 v20, v2, v12, s[22:23]",
    "v_cndmask_b32_e64 v20, v2, v12, s[20:21]",
    "v_cmp_gt_u32_e64 s[30:31], v12, v2\n v_cndmask_b32_e64 v20, v2, v15, s[30:31]",
    "v_cmp_gt_u32_e64 s[30:31], v11, v2\n v_cndmask_b32_e64 v20, v2, v15, s[30:31]",
    "v_cvt_f32_ubyte3_e32 v20, v10",
    "v_add_f32_e32 v20, v11, v2",
    "v_add_u32_sdwa v20, v11, v2 dst_sel:DWORD dst_unused:UNUSED_PAD"
    " src0_sel:WORD_1 src1_sel:DWORD",
    "v_pk_add_f16 v20, v11, v11",
    "v_pk_add_f16 v20, v11, v11 op_sel:[1,1] op_sel_hi:[0,0]",
    "v_fma_mix_f32 v20, v11, v11, v2 op_sel:[1,0,0] op_sel_hi:[1,1,0]",
    "v_mov_b32_e32 v20, v10\n v_cvt_f16_f32_sdwa v20, v2 dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE"
    " src0_sel:DWORD",
    "ds_read_u8 v20, v1 offset:3\n s_waitcnt lgkmcnt(0)",
    "ds_read_i16 v20, v1 offset:2\n s_waitcnt lgkmcnt(0)",
    "v_mov_b32_e32 v20, v12\n ds_read_u16_d16 v20, v1\n s_waitcnt lgkmcnt(0)",
    "v_mov_b32_e32 v20, v12\n global_load_short_d16_hi v20, v1, s[4:5]\n s_waitcnt vmcnt(0)",
    "v_readfirstlane_b32 s30, v10\n s_lshl_b32 s30, s30, 7\n v_mov_b32_e32 v20, s30",
    "v_readfirstlane_b32 s30, v10\n s_and_b32 s30, s30, 0x1ffffff\n v_mov_b32_e32 v20, s30",
    "ds_bpermute_b32 v20, v1, v11\n s_waitcnt lgkmcnt(0)",
    "ds_write_b32 v1, v11 offset:768\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v20, v1 offset:768\n"
    " s_waitcnt lgkmcnt(0)",
]


def stored(rows: list[str], arch: str) -> list[bool]:
    """For each of the rows, which compute v20, whether storing it is a finding."""
    body = "\n".join(f"{row}\n s_nop 4\n global_store_dword v1, v20, s[6:7]" for row in rows)
    code = assembled(BEGIN + body, arch)
    found, _ = result(code, "uninitialised")
    places = {f.address for f in found}
    stores = [i.address for i in instructions(code) if i.mnemonic == "global_store_dword"]
    assert len(stores) == len(rows)
    assert places <= set(stores), [str(f) for f in found]
    return [address in places for address in stores]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("rows", [DEFINED, UNDEFINED], ids=["defined", "undefined"])
def test_undefined_bits(rows: list[str], arch: str) -> None:
    found = stored(rows, arch)
    wrong = [
        row for row, reported in zip(rows, found, strict=True) if reported is (rows is DEFINED)
    ]
    assert wrong == []


SHORT = """
    global_store_short v1, v11, s[6:7]
    global_store_byte v1, v10, s[6:7] offset:2
    global_store_short_d16_hi v1, v11, s[6:7]
    ds_write_b16_d16_hi v1, v10 offset:768
    s_waitcnt lgkmcnt(0)
    ds_read_u8 v20, v1 offset:768
    ds_read_u8 v21, v1 offset:769
    s_waitcnt lgkmcnt(0)
    global_store_byte v1, v20, s[6:7]
    global_store_byte v1, v21, s[6:7]
"""


@pytest.mark.parametrize("arch", ARCHS)
def test_stores_of_a_part_need_that_part(arch: str) -> None:
    found, _ = result(assembled(BEGIN + SHORT, arch), "uninitialised")
    texts = [re.sub(r"\s+", " ", f.instruction) for f in found]
    assert texts == [
        "global_store_short_d16_hi v1, v11, s[6:7]",
        "global_store_byte v1, v21, s[6:7]",
    ]


def test_lanes_that_a_mask_does_not_pick() -> None:
    row = "v_cndmask_b32_e64 v20, v2, v12, s[20:21]"
    body = f"{row}\n s_nop 4\n global_store_dword v1, v20, s[6:7]"
    found, _ = result(assembled(BEGIN + body, "gfx942"), "uninitialised")
    assert found[0].lanes == tuple(range(32))
    assert found[0].count == 1
