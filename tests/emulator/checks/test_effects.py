"""What instructions read, write and wait for."""

from __future__ import annotations

import pytest

from rocke.emulator.checks.effects import Kind, effects, matrix_passes, names
from rocke.emulator.decoder import decode_line
from rocke.emulator.disassembler import Line
from rocke.emulator.instruction import Instruction


def instruction(text: str, word: int = 0) -> Instruction:
    return decode_line(Line(0, 4, text), word)


CASES = [
    ("v_add_f32_e32 v1, s2, v3", "v3, s2, exec", "v1"),
    ("v_fmac_f32_e32 v1, v2, v3", "v[1:3], exec", "v1"),
    ("v_add_co_u32_e64 v4, s[0:1], s10, v4", "v4, s10, exec", "v4, s[0:1]"),
    ("v_addc_co_u32_e32 v7, vcc, v3, v5, vcc", "v3, v5, vcc, exec", "v7, vcc"),
    ("v_div_fmas_f32 v0, v0, v1, v35", "v[0:1], v35, vcc, exec", "v0"),
    ("v_cmpx_lt_i32_e32 vcc, v2, v3", "v[2:3], exec", "vcc, exec"),
    ("v_permlane32_swap_b32_e32 v34, v35", "v[34:35], exec", "v[34:35]"),
    ("v_readlane_b32 s1, v14, s3", "v14, s3", "s1"),
    ("v_accvgpr_write_b32 a16, v209", "v209, exec", "a16"),
    ("v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[8:9], a[0:3]", "v[4:5], v[8:9], a[0:3]", "a[0:3]"),
    ("s_and_saveexec_b64 s[4:5], s[2:3]", "s[2:3], exec", "s[4:5], exec, scc"),
    ("s_cselect_b32 s30, 1, s4", "s4, scc", "s30"),
    ("s_cmp_lt_i32 s0, s3", "s0, s3", "scc"),
    ("s_addk_i32 s20, 0x1", "s20", "s20, scc"),
    ("s_movrels_b32 s8, s16", "m0", "s8"),
    ("s_movreld_b64 s[98:99], s[8:9]", "s[8:9], m0", "s[98:105]"),
    ("s_mul_i32 s3, s3, s2", "s[2:3]", "s3"),
    ("s_load_dwordx4 s[4:7], s[0:1], 0x0", "s[0:1]", "s[4:7]"),
    ("ds_read2_b64 a[50:53], v22 offset1:16", "v22, exec", "a[50:53]"),
    ("ds_write_b128 v240, a[8:11] offset:28672", "v240, a[8:11], exec", ""),
    ("ds_add_rtn_u32 v6, v1, v3", "v1, v3, exec", "v6"),
    ("ds_append v6 offset:8", "m0, exec", "v6"),
    ("ds_read_addtid_b32 v6", "m0, exec", "v6"),
    ("ds_write_addtid_b32 v6", "v6, m0, exec", ""),
    ("global_load_dwordx2 v[16:17], v2, s[4:5]", "v2, s[4:5], exec", "v[16:17]"),
    ("global_store_dwordx4 v7, v[0:3], s[2:3]", "v[0:3], v7, s[2:3], exec", ""),
    ("global_atomic_add v3, v4, v5, s[6:7] sc0", "v[4:5], s[6:7], exec", "v3"),
    ("global_atomic_add v0, v1, s[6:7]", "v[0:1], s[6:7], exec", ""),
    ("buffer_atomic_cmpswap v[2:3], v0, s[12:15], 0 offen sc0", "v0, v[2:3], s[12:15], exec", "v2"),
    ("buffer_load_dwordx4 v59, s[20:23], 0 offen lds", "v59, s[20:23], m0, exec", ""),
    ("buffer_store_dword v2, v1, s[20:23], s3 offen", "v[1:2], s3, s[20:23], exec", ""),
]


def in_words(registers: int) -> set[str]:
    return set(filter(None, names(registers).split(", ")))


@pytest.mark.parametrize(("text", "reads", "writes"), CASES, ids=lambda t: t.split(" ")[0])
def test_registers(text: str, reads: str, writes: str) -> None:
    effect = effects(instruction(text), "gfx950")
    assert in_words(effect.reads) == set(filter(None, reads.split(", ")))
    assert in_words(effect.writes) == set(filter(None, writes.split(", ")))


@pytest.mark.parametrize(
    ("text", "vm", "lgkm"),
    [
        ("global_load_dword v1, v[2:3], off", True, False),
        ("flat_load_dword v6, v[0:1]", True, True),
        ("ds_write_b32 v1, v2", False, True),
        ("s_load_dword s1, s[2:3], 0x0", False, True),
        ("buffer_wbl2 sc1", True, False),
        ("buffer_inv sc1", False, False),
        ("v_mov_b32_e32 v1, v2", False, False),
    ],
)
def test_counters(text: str, vm: bool, lgkm: bool) -> None:
    effect = effects(instruction(text), "gfx942")
    assert (effect.vm, effect.lgkm) == (vm, lgkm)


def test_waits() -> None:
    assert effects(instruction("s_waitcnt vmcnt(3)", 0xBF8C0F73), "gfx950").wait == (3, 15)
    assert effects(instruction("s_waitcnt lgkmcnt(0)", 0xBF8CC07F), "gfx950").wait == (63, 0)
    assert effects(instruction("s_waitcnt vmcnt(37)", 0xBF8C8F75), "gfx950").wait == (37, 15)
    assert effects(instruction("s_nop 6"), "gfx950").wait_states == 7
    assert effects(instruction("v_nop"), "gfx950").wait_states == 1


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("v_mfma_f32_4x4x4_16b_f16", (2, 2, 2)),
        ("v_mfma_f32_16x16x16_f16", (8, 4, 4)),
        ("v_mfma_f32_32x32x8_f16", (16, 8, 8)),
        ("v_mfma_f32_16x16x4_f32", (8, 8, 8)),
        ("v_mfma_f32_32x32x2_f32", (16, 16, 16)),
        ("v_mfma_f32_32x32x4_2b_f16", (16, 16, 16)),
        ("v_mfma_f32_32x32x16_f16", (None, None, 8)),
        ("v_mfma_f32_16x16x32_f16", (None, None, 4)),
        ("v_mfma_f32_16x16x128_f8f6f4", (None, None, 8)),
        ("v_mfma_f32_32x32x64_f8f6f4", (None, None, 16)),
    ],
)
def test_passes(name: str, passes: tuple[int | None, ...]) -> None:
    inst = instruction(f"{name} v[0:3], v[4:7], v[8:11], v[0:3]")
    for arch, wanted in zip(("gfx90a", "gfx942", "gfx950"), passes, strict=True):
        if wanted is not None:
            assert matrix_passes(inst, arch) == wanted


def test_narrow_formats_take_half_the_passes() -> None:
    text = "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[16:19], v[20:23], v[0:15] cbsz:4 blgp:4"
    assert matrix_passes(instruction(text), "gfx950") == 8


def test_matrix_kinds() -> None:
    plain = instruction("v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, v[0:3]")
    assert effects(plain, "gfx942").kind is Kind.MATRIX
    for arch, xdl in (("gfx90a", True), ("gfx942", False), ("gfx950", False)):
        matrix = effects(plain, arch).matrix
        assert matrix is not None
        assert matrix.xdl is xdl
    double = effects(instruction("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0"), "gfx950")
    assert double.matrix is not None
    assert double.matrix.double
    assert double.matrix.c == 0
