import struct

import pytest

from rocke.emulator.decoder import CodeReader, DecodeError, decode_line
from rocke.emulator.disassembler import Line
from rocke.emulator.instruction import EXEC, M0, TTMP, VCC, Operand, OperandKind

SGPR, VGPR, AGPR = OperandKind.SGPR, OperandKind.VGPR, OperandKind.AGPR
IMM, SPECIAL, TEXT = OperandKind.IMMEDIATE, OperandKind.SPECIAL, OperandKind.TEXT


def decode(text, word=0, offset=0, size=4):
    return decode_line(Line(offset, size, text), word)


def reg(kind, index, count=1, **flags):
    return lambda o: (
        o.kind is kind
        and (o.index, o.count) == (index, count)
        and all(getattr(o, f) is flags.get(f, False) for f in ("neg", "abs", "sext"))
    )


def imm(value, **flags):
    def check(o):
        return o.kind is IMM and o.value == value and o.neg is flags.get("neg", False)

    return check


def double(value, **flags):
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return lambda o: (
        o.kind is IMM and o.is_float and o.value == bits and o.neg is flags.get("neg", False)
    )


def special(text):
    return lambda o: o.kind is SPECIAL and o.text == text


CASES = [
    (
        "v_add_f32_e32 v2, v6, v7",
        ("v_add_f32", "e32", [reg(VGPR, 2), reg(VGPR, 6), reg(VGPR, 7)], {}),
    ),
    (
        "v_fma_f32 v0, -v1, |v2|, -|s3| clamp mul:2",
        (
            "v_fma_f32",
            "",
            [
                reg(VGPR, 0),
                reg(VGPR, 1, neg=True),
                reg(VGPR, 2, abs=True),
                reg(SGPR, 3, neg=True, abs=True),
            ],
            {"clamp": True, "mul": 2},
        ),
    ),
    (
        "v_add_f64 v[0:1], v[2:3], neg(1.0) div:2",
        (
            "v_add_f64",
            "",
            [reg(VGPR, 0, 2), reg(VGPR, 2, 2), double(1.0, neg=True)],
            {"div": 2},
        ),
    ),
    (
        "v_mul_f32_e32 v0, 0.15915494, v1",
        ("v_mul_f32", "e32", [reg(VGPR, 0), double(0.15915494309189532), reg(VGPR, 1)], {}),
    ),
    (
        "v_and_b32_e32 v0, 0xffff0000, v1",
        ("v_and_b32", "e32", [reg(VGPR, 0), imm(0xFFFF0000), reg(VGPR, 1)], {}),
    ),
    (
        "s_mov_b64 exec, -1",
        ("s_mov_b64", "", [reg(SGPR, EXEC, 2), imm(0xFFFF_FFFF_FFFF_FFFF)], {}),
    ),
    (
        "s_mov_b32 m0, vcc_hi",
        ("s_mov_b32", "", [reg(SGPR, M0), reg(SGPR, VCC + 1)], {}),
    ),
    (
        "s_mov_b64 ttmp[4:5], xnack_mask",
        ("s_mov_b64", "", [reg(SGPR, TTMP + 4, 2), reg(SGPR, 104, 2)], {}),
    ),
    (
        "v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], a[4:5], a[0:3] cbsz:1 abid:2 blgp:3",
        (
            "v_mfma_f32_16x16x16_f16",
            "",
            [reg(AGPR, 0, 4), reg(VGPR, 2, 2), reg(AGPR, 4, 2), reg(AGPR, 0, 4)],
            {"cbsz": 1, "abid": 2, "blgp": 3},
        ),
    ),
    (
        "v_accvgpr_write_b32 a16, v172",
        ("v_accvgpr_write_b32", "", [reg(AGPR, 16), reg(VGPR, 172)], {}),
    ),
    (
        "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], s[6:7] op_sel:[0,1,0] op_sel_hi:[1,0,1]"
        " neg_lo:[1,0,0] neg_hi:[0,0,1]",
        (
            "v_pk_fma_f32",
            "",
            [reg(VGPR, 0, 2), reg(VGPR, 2, 2), reg(VGPR, 4, 2), reg(SGPR, 6, 2)],
            {
                "op_sel": (0, 1, 0),
                "op_sel_hi": (1, 0, 1),
                "neg_lo": (1, 0, 0),
                "neg_hi": (0, 0, 1),
            },
        ),
    ),
    (
        "v_add_u32_dpp v1, v2, v3 quad_perm:[3,2,1,0] row_mask:0xa bank_mask:0xf bound_ctrl:0",
        (
            "v_add_u32",
            "dpp",
            [reg(VGPR, 1), reg(VGPR, 2), reg(VGPR, 3)],
            {"quad_perm": (3, 2, 1, 0), "row_mask": 10, "bank_mask": 15, "bound_ctrl": 0},
        ),
    ),
    (
        "v_mov_b32_dpp v1, -|v2| row_half_mirror row_mask:0xf bank_mask:0xf",
        (
            "v_mov_b32",
            "dpp",
            [reg(VGPR, 1), reg(VGPR, 2, neg=True, abs=True)],
            {"row_half_mirror": True, "row_mask": 15, "bank_mask": 15},
        ),
    ),
    (
        "v_add_u16_sdwa v1, sext(v2), v3 dst_sel:BYTE_0 dst_unused:UNUSED_PRESERVE"
        " src0_sel:BYTE_3 src1_sel:WORD_1",
        (
            "v_add_u16",
            "sdwa",
            [reg(VGPR, 1), reg(VGPR, 2, sext=True), reg(VGPR, 3)],
            {
                "dst_sel": "BYTE_0",
                "dst_unused": "UNUSED_PRESERVE",
                "src0_sel": "BYTE_3",
                "src1_sel": "WORD_1",
            },
        ),
    ),
    (
        "v_cmp_gt_i32_e64 s[10:11], s0, v0",
        ("v_cmp_gt_i32", "e64", [reg(SGPR, 10, 2), reg(SGPR, 0), reg(VGPR, 0)], {}),
    ),
    (
        "global_load_dwordx4 v[0:3], v4, s[6:7] offset:-16 sc0 sc1 nt",
        (
            "global_load_dwordx4",
            "",
            [reg(VGPR, 0, 4), reg(VGPR, 4), reg(SGPR, 6, 2)],
            {"offset": -16, "sc0": True, "sc1": True, "nt": True},
        ),
    ),
    (
        "global_store_dword v[0:1], v2, off glc slc scc",
        (
            "global_store_dword",
            "",
            [reg(VGPR, 0, 2), reg(VGPR, 2), special("off")],
            {"glc": True, "slc": True, "scc": True},
        ),
    ),
    (
        "buffer_load_dword v1, s[8:11], 0 offen offset:4095 lds",
        (
            "buffer_load_dword",
            "",
            [reg(VGPR, 1), reg(SGPR, 8, 4), imm(0)],
            {"offen": True, "offset": 4095, "lds": True},
        ),
    ),
    (
        "global_load_dword v0, s[0:1] offset:16 lds",  # as gfx90a writes it
        ("global_load_lds_dword", "", [reg(VGPR, 0), reg(SGPR, 0, 2)], {"offset": 16}),
    ),
    (
        "ds_read2_b64 v[0:3], v4 offset0:1 offset1:255",
        ("ds_read2_b64", "", [reg(VGPR, 0, 4), reg(VGPR, 4)], {"offset0": 1, "offset1": 255}),
    ),
    (
        "scratch_load_dword v0, off, s33 offset:4",
        (
            "scratch_load_dword",
            "",
            [reg(VGPR, 0), special("off"), reg(SGPR, 33)],
            {"offset": 4},
        ),
    ),
    ("buffer_wbl2 sc1", ("buffer_wbl2", "", [], {"sc1": True})),
    (
        "s_cselect_b32 s0, src_scc, src_shared_base",
        ("s_cselect_b32", "", [reg(SGPR, 0), special("src_scc"), special("src_shared_base")], {}),
    ),
    (
        "v_bitop3_b32 v1, v2, v3, v4 bitop3:0x68",
        (
            "v_bitop3_b32",
            "",
            [reg(VGPR, 1), reg(VGPR, 2), reg(VGPR, 3), reg(VGPR, 4)],
            {"bitop3": 0x68},
        ),
    ),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[c[0].split()[0] for c in CASES])
def test_operands_and_modifiers(text, expected):
    mnemonic, encoding, checks, modifiers = expected
    inst = decode(text)
    assert inst.mnemonic == mnemonic
    assert inst.encoding == encoding
    assert inst.modifiers == modifiers
    assert len(inst.operands) == len(checks)
    for operand, check in zip(inst.operands, checks, strict=True):
        assert check(operand), operand


def test_numbers_behind_names_come_from_the_bytes():
    wait = decode("s_waitcnt vmcnt(0) & lgkmcnt(0)", 0xBF8C0070)
    assert wait.operands == (Operand(TEXT, value=0x70, text="vmcnt(0) & lgkmcnt(0)"),)
    mode = decode("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3", 0xBA000901, size=8)
    assert mode.operands[0].value == 0x0901
    assert mode.operands[0].kind is TEXT
    swizzle = decode('ds_swizzle_b32 v1, v2 offset:swizzle(BITMASK_PERM, "00p11")', 0xD87A0C07)
    assert swizzle.modifiers == {"offset": 0x0C07}
    assert len(swizzle.operands) == 2


@pytest.mark.parametrize(
    ("word", "target"),
    [(0xBF820003, 100 + 4 + 12), (0xBF82FFFF, 100), (0xBF828000, 100 + 4 - 131072)],
)
def test_branch_targets_are_text_offsets(word, target):
    inst = decode(f"s_branch {word & 0xFFFF}", word, offset=100)
    assert inst.operands[0].value == target & 0xFFFF_FFFF_FFFF_FFFF


@pytest.mark.parametrize(
    "text", ["v_add_f32 v0, q7", "v_mov_b32 v[255:256], v0", "v_mov_b32 v0, s102", "v_x v[0:1"]
)
def test_syntax_that_is_not_known_is_an_error(text):
    with pytest.raises(DecodeError, match=text.split()[0]):
        decode(text)


def test_a_reader_decodes_on_demand_and_keeps():
    code = bytes.fromhex("ffffffff 000081bf")
    reader = CodeReader(code, "gfx942")
    assert reader.at(0).mnemonic == ""
    assert reader.at(4).mnemonic == "s_endpgm"
    assert reader.at(4) is reader.at(4)
