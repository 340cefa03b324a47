"""Modifiers of vector instructions: neg, abs, clamp, omod, op_sel, DPP, SDWA, modes, indexing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from rocke.emulator.instruction import Operand, OperandKind
from rocke.emulator.semantics import FloatMode, UnknownInstruction, lower
from tests.emulator.semantics.alu_cases import F16, F32, F64, Case, check, prepare
from tests.emulator.semantics.alu_harness import FULL, PARTIAL, Wave, assemble, compile_all

pytestmark = pytest.mark.normal

U32, I32 = np.uint32, np.int32
LANES = np.arange(64)
FLUSH = FloatMode(denormals_f32=0, denormals_f64_f16=0)
CASES: list[Case] = []


def add(template, results, sources, meaning, **options):
    results = results if isinstance(results, tuple) else (results,)
    CASES.append(Case(template, results, sources, meaning, **options))


def unit(x):
    """Clamp under DX10_CLAMP: NaN becomes 0, and -0 becomes +0."""
    return (np.where(np.isnan(x), 0, np.clip(x, 0, 1)) + 0.0).astype(x.dtype)


def flushed(x):
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def flush(f):
    return lambda *v: flushed(f(*map(flushed, v)).astype(v[0].dtype))


add("v_add_f32_e64 v0, -{0}, |{1}|", F32, (F32, F32), lambda a, b: -a + np.abs(b))
add("v_mul_f32_e64 v0, -|{0}|, {1} clamp", F32, (F32, F32), lambda a, b: unit(-np.abs(a) * b))
add("v_mul_f32_e64 v0, {0}, {1} mul:4", F32, (F32, F32), lambda a, b: a * b * F32(4))
add("v_add_f32_e64 v0, {0}, {1} div:2", F32, (F32, F32), lambda a, b: (a + b) * F32(0.5))
add("v_add_f16_e64 v0, -{0}, {1}", F16, (F16, F16), lambda a, b: -a + b)
add("v_add_f16_e64 v0, {0}, {1} clamp", F16, (F16, F16), lambda a, b: unit(a + b))
add("v_add_f64 v[0:1], -{0}, |{1}| clamp", F64, (F64, F64), lambda a, b: unit(-a + np.abs(b)))
add("v_cvt_f32_f16_e64 v0, -{0}", F32, (F16,), lambda a: -a.astype(F32))
for t, name in ((F32, "f32"), (F16, "f16")):
    add(f"v_add_{name} v0, {{0}}, {{1}}", t, (t, t), flush(lambda a, b: a + b), mode=FLUSH)
    add(f"v_mul_{name} v0, {{0}}, {{1}}", t, (t, t), flush(lambda a, b: a * b), mode=FLUSH)
add("v_add_f64 v[0:1], {0}, {1}", F64, (F64, F64), flush(lambda a, b: a + b), mode=FLUSH)
add("v_mov_b32 v0, {0}", U32, (U32,), lambda a: a, mode=FLUSH)


def largest_instead(f):
    """FP16_OVFL: an infinite result of finite sources becomes the largest number."""

    def meaning(*v):
        r = f(*v).astype(F16)
        over = np.isinf(r) & np.all([np.isfinite(x) for x in v], axis=0)
        return np.where(over, np.copysign(F16(65504), r), r)

    return meaning


LIMITED = FloatMode(fp16_overflow=True)
add("v_add_f16 v0, {0}, {1}", F16, (F16, F16), largest_instead(lambda a, b: a + b), mode=LIMITED)
add("v_cvt_f16_f32 v0, {0}", F16, (F32,), largest_instead(lambda a: a), mode=LIMITED)


def not_ieee_max(a, b):
    """Without IEEE mode a signaling NaN counts like any other."""
    r = np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.where(a > b, a, b)))
    both = (a == 0) & (b == 0)
    return np.where(both, np.where(np.signbit(a), b, a), r)


add("v_max_f32 v0, {0}, {1}", F32, (F32, F32), not_ieee_max, mode=FloatMode(ieee=False))


@pytest.fixture(scope="module")
def instructions():
    return prepare(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_modifiers(case, instructions):
    check(case, instructions[case.name])


def wave_with(rng, exec_mask):
    wave = Wave()
    wave.exec = exec_mask
    wave.v[:8] = rng.integers(0, 1 << 32, (8, 64), dtype=U32)
    return wave


def active(mask):
    return np.array([mask >> i & 1 for i in range(64)], bool)


ROWS = LANES // 16
DPP = {
    "quad_perm:[1,0,3,2]": LANES ^ 1,
    "quad_perm:[3,3,3,0]": LANES // 4 * 4 + np.array([3, 3, 3, 0])[LANES % 4],
    "row_shl:1": np.where(LANES % 16 < 15, LANES + 1, -1),
    "row_shl:15": np.where(LANES % 16 < 1, LANES + 15, -1),
    "row_shr:3": np.where(LANES % 16 >= 3, LANES - 3, -1),
    "row_ror:5": ROWS * 16 + (LANES - 5) % 16,
    "wave_shl:1": np.where(LANES < 63, LANES + 1, -1),
    "wave_shr:1": LANES - 1,
    "wave_rol:1": (LANES + 1) % 64,
    "wave_ror:1": (LANES - 1) % 64,
    "row_mirror": ROWS * 16 + 15 - LANES % 16,
    "row_half_mirror": LANES // 8 * 8 + 7 - LANES % 8,
    "row_bcast:15": np.where(LANES >= 16, ROWS * 16 - 1, -1),
    "row_bcast:31": np.where(LANES >= 32, 31, -1),
    "row_newbcast:3": ROWS * 16 + 3,
}


DPP_MASKS = ["row_mask:0xf bank_mask:0xf", "row_mask:0xa bank_mask:0x6"]
DPP_FORMS = [
    f"{control} {masks}{bound}"
    for control in DPP
    for masks in DPP_MASKS
    for bound in ("", " bound_ctrl:0")
]


@pytest.fixture(scope="module")
def dpp_instructions():
    lines = [f"v_mov_b32_dpp v0, v1 {form}" for form in DPP_FORMS]
    lines += [f"v_add_u32_dpp v0, v0, v2 {form}" for form in DPP_FORMS]
    found = assemble(lines, "gfx90a")
    compile_all(found, "gfx90a")
    half = len(DPP_FORMS)
    return dict(zip(DPP_FORMS, zip(found[:half], found[half:], strict=True), strict=True))


@pytest.mark.parametrize("form", DPP_FORMS)
def test_dpp(form, dpp_instructions):
    rng = np.random.default_rng(5)
    move, total = dpp_instructions[form]
    control, masks, bound = re.match(r"(\S+) (.*0x\S+)(.*)", form).groups()
    row_mask, bank_mask = (int(m, 16) for m in re.findall("0x.", masks))
    written = (row_mask >> ROWS & 1) & (bank_mask >> LANES % 16 // 4 & 1) != 0
    for exec_mask in (FULL, PARTIAL):
        # A source lane that is off counts as out of range.
        on = active(exec_mask)
        source = np.where((DPP[control] >= 0) & on[DPP[control]], DPP[control], -1)
        lanes = written & on
        if not bound:
            lanes &= source >= 0
        wave = wave_with(rng, exec_mask)
        before = wave.v.copy()
        fetched = np.where(source >= 0, before[1][source], 0)
        wave.run(move, "gfx90a")
        assert np.array_equal(wave.v[0], np.where(lanes, fetched, before[0]))
        wave = wave_with(rng, exec_mask)
        before = wave.v.copy()
        fetched = np.where(source >= 0, before[0][source], 0).astype(U32)
        wave.run(total, "gfx90a")
        assert np.array_equal(wave.v[0], np.where(lanes, fetched + before[2], before[0]))


SELECTS = {"DWORD": (0, 32), "WORD_0": (0, 16), "WORD_1": (16, 16)}
SELECTS |= {f"BYTE_{i}": (8 * i, 8) for i in range(4)}


def select(x, name, signed):
    low, bits = SELECTS[name]
    field = (x.astype(np.int64) >> low) & ((1 << bits) - 1)
    return np.where(signed & (field >> (bits - 1) == 1), field - (1 << bits), field)


SDWA_SOURCES = [
    ("WORD_1", "BYTE_2", False),
    ("BYTE_0", "DWORD", True),
    ("BYTE_3", "WORD_0", True),
]
SDWA_RESULTS = [
    (dst, unused) for dst in SELECTS for unused in ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
]


@pytest.fixture(scope="module")
def sdwa_instructions():
    lines = [
        f"v_add_u32_sdwa v0, {'sext(v1)' if signed else 'v1'}, v2 dst_sel:{dst}"
        f" dst_unused:{unused} src0_sel:{a} src1_sel:{b}"
        for dst, unused in SDWA_RESULTS
        for a, b, signed in SDWA_SOURCES
    ]
    found = assemble(lines, "gfx90a")
    compile_all(found, "gfx90a")
    count = len(SDWA_SOURCES)
    return {r: found[i * count : (i + 1) * count] for i, r in enumerate(SDWA_RESULTS)}


@pytest.mark.parametrize("result", SDWA_RESULTS, ids="-".join)
def test_sdwa(result, sdwa_instructions):
    rng = np.random.default_rng(6)
    dst, unused = result
    found = sdwa_instructions[result]
    low, bits = SELECTS[dst]
    for inst, (a, b, signed) in zip(found, SDWA_SOURCES, strict=True):
        for exec_mask in (FULL, PARTIAL):
            wave = wave_with(rng, exec_mask)
            before = wave.v.copy()
            wave.run(inst, "gfx90a")
            total = select(before[1], a, signed) + select(before[2], b, False)
            field = total & ((1 << bits) - 1)
            value = field << low
            if bits < 32 and unused == "UNUSED_SEXT":
                negative = field >> (bits - 1) == 1
                value = np.where(negative, value | (0xFFFFFFFF << (low + bits) & 0xFFFFFFFF), value)
            if bits < 32 and unused == "UNUSED_PRESERVE":
                value = value | (before[0].astype(np.int64) & ~(((1 << bits) - 1) << low))
            want = np.where(active(exec_mask), (value & 0xFFFFFFFF).astype(U32), before[0])
            assert np.array_equal(wave.v[0], want), inst.text


def test_sdwa_floats_and_compares():
    lines = [
        "v_add_f16_sdwa v0, v1, -v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE"
        " src0_sel:WORD_1 src1_sel:WORD_0",
        "v_cmp_lt_u32_sdwa s[20:21], v1, v2 src0_sel:BYTE_1 src1_sel:WORD_1",
        "v_cvt_f32_ubyte0_sdwa v0, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2",
    ]
    add_half, compare, convert = assemble(lines, "gfx942")
    rng = np.random.default_rng(8)
    for exec_mask in (FULL, PARTIAL):
        on = active(exec_mask)
        wave = wave_with(rng, exec_mask)
        wave.v[1:3] = rng.standard_normal((2, 128)).astype(F16).view(U32)
        before = wave.v.copy()
        wave.run(add_half, "gfx942")
        halves = before.view(F16).reshape(256, 64, 2)
        want = halves[1, :, 1] - halves[2, :, 0]
        got = wave.v.view(F16).reshape(256, 64, 2)[0]
        assert np.array_equal(got[on, 1], want[on])
        assert np.array_equal(wave.v[0] & 0xFFFF, before[0] & 0xFFFF)
        assert np.array_equal(wave.v[0][~on], before[0][~on])
        wave.run(compare, "gfx942")
        less = (before[1] >> 8 & 255) < (before[2] >> 16)
        assert wave.s64(20) == sum(1 << i for i in range(64) if less[i] and on[i])
        wave.run(convert, "gfx942")
        assert np.array_equal(wave.v[0].view(F32)[on], (before[1] >> 16 & 255).astype(F32)[on])


def test_op_sel_and_the_high_half():
    """gfx9: VOP3-only 16-bit operations keep the other half, older ones clear it."""
    lines = [
        "v_fma_f16 v0, v1, v2, v3",
        "v_fma_f16 v0, v1, v2, v3 op_sel:[1,0,1,1]",
        "v_max3_i16 v0, v1, v2, v3 op_sel:[0,1,0,0]",
        "v_add_f16 v0, v1, v2",
        "v_mad_u16 v0, v1, v2, v3 op_sel:[0,0,0,1]",
        "v_pack_b32_f16 v0, v1, v2 op_sel:[1,0,0]",
    ]
    plain, selected, largest, cleared, mad, pack = assemble(lines, "gfx942")
    rng = np.random.default_rng(9)
    for exec_mask in (FULL, PARTIAL):
        on = active(exec_mask)

        def fresh(mask=exec_mask):
            wave = wave_with(rng, mask)
            wave.v[1:4] = rng.standard_normal((3, 128)).astype(F16).view(U32)
            raw = wave.v.copy()
            return wave, raw, raw.view(F16).reshape(256, 64, 2).astype(F64)

        def expect(wave, raw, high, low, lanes=on):
            want = high.astype(U32) << 16 | low.astype(U32)
            assert np.array_equal(wave.v[0][lanes], want[lanes])
            assert np.array_equal(wave.v[0][~lanes], raw[0][~lanes])

        wave, raw, h = fresh()
        wave.run(plain, "gfx942")
        result = (h[1, :, 0] * h[2, :, 0] + h[3, :, 0]).astype(F16).view(np.uint16)
        expect(wave, raw, raw[0] >> 16, result)
        wave, raw, h = fresh()
        wave.run(selected, "gfx942")
        result = (h[1, :, 1] * h[2, :, 0] + h[3, :, 1]).astype(F16).view(np.uint16)
        expect(wave, raw, result, raw[0] & 0xFFFF)
        wave, raw, h = fresh()
        wave.run(largest, "gfx942")
        ints = raw.view(np.int16).reshape(256, 64, 2)
        result = np.maximum(np.maximum(ints[1, :, 0], ints[2, :, 1]), ints[3, :, 0])
        expect(wave, raw, raw[0] >> 16, result.view(np.uint16))
        wave, raw, h = fresh()
        wave.run(cleared, "gfx942")
        result = (h[1, :, 0] + h[2, :, 0]).astype(F16).view(np.uint16)
        expect(wave, raw, np.zeros(64, U32), result)
        wave, raw, h = fresh()
        wave.run(mad, "gfx942")
        u = raw.view(np.uint16).reshape(256, 64, 2)
        expect(wave, raw, u[1, :, 0] * u[2, :, 0] + u[3, :, 0], raw[0] & 0xFFFF)
        wave, raw, h = fresh()
        wave.run(pack, "gfx942")
        expect(wave, raw, u16(raw)[2, :, 0], u16(raw)[1, :, 1])


def u16(raw):
    return raw.view(np.uint16).reshape(256, 64, 2)


def test_swap_and_accumulation_registers():
    lines = [
        "v_swap_b32 v0, v1",
        "v_accvgpr_write_b32 a3, v2",
        "v_accvgpr_read_b32 v0, a3",
        "v_accvgpr_mov_b32 a4, a3",
    ]
    swap, write, read, move = assemble(lines, "gfx942")
    rng = np.random.default_rng(10)
    for exec_mask in (FULL, PARTIAL):
        on = active(exec_mask)
        wave = wave_with(rng, exec_mask)
        before = wave.v.copy()
        wave.run(swap, "gfx942")
        assert np.array_equal(wave.v[0], np.where(on, before[1], before[0]))
        assert np.array_equal(wave.v[1], np.where(on, before[0], before[1]))
        wave.run(write, "gfx942")
        assert np.array_equal(wave.a[3], np.where(on, before[2], 0))
        wave.run(move, "gfx942")
        assert np.array_equal(wave.a[4], wave.a[3])
        wave.run(read, "gfx942")
        assert np.array_equal(wave.v[0][on], before[2][on])


def test_indexed_moves():
    lines = [
        "s_set_gpr_idx_on s5, gpr_idx(SRC0)",
        "v_mov_b32 v0, v4",
        "s_set_gpr_idx_off",
        "s_set_gpr_idx_on s5, gpr_idx(DST)",
        "v_mov_b32 v0, s9",
        "v_add_u32 v0, v1, v2",
    ]
    on_source, move, off, on_result, store, plain = assemble(lines, "gfx942")
    rng = np.random.default_rng(11)
    for exec_mask in (FULL, PARTIAL):
        lanes = active(exec_mask)
        for index in (0, 3, 200, 255):
            wave = Wave()
            wave.exec = exec_mask
            wave.v[:] = rng.integers(0, 1 << 32, (256, 64), dtype=U32)
            wave.s[5], wave.s[9] = 0xABCD00 | index, 77
            before, accumulators = wave.v.copy(), wave.a.copy()
            mode = lower(on_source, "gfx942", True).mode
            wave.run(on_source, "gfx942")
            wave.run(move, "gfx942", mode)
            register = 4 + index if 4 + index < 256 else 0
            assert np.array_equal(wave.v[0], np.where(lanes, before[register], before[0]))
            assert lower(off, "gfx942", True, mode).mode == FloatMode()
            wave.v[:] = before
            mode = lower(on_result, "gfx942", True).mode
            wave.run(on_result, "gfx942")
            wave.run(store, "gfx942", mode)
            before[index][lanes] = 77
            assert np.array_equal(wave.v, before)
            assert np.array_equal(wave.a, accumulators)
    with pytest.raises(UnknownInstruction, match="indexed"):
        lower(plain, "gfx942", True, mode)


def test_what_is_not_honoured_is_refused():
    plain, packed = assemble(["v_add_u32 v0, v1, v2", "v_dot2_f32_f16 v0, v1, v2, v3"], "gfx942")
    for inst, changes, why in (
        (plain, {"modifiers": {"mystery": 1}}, "mystery"),
        (plain, {"modifiers": {"op_sel": (1, 0, 0)}}, "op_sel"),
        (plain, {"operands": plain.operands[:2]}, "operands"),
        (packed, {"modifiers": {"neg_lo": (1, 0, 0)}}, "neg"),
        (plain, {"mnemonic": "v_frobnicate_b32"}, "table"),
    ):
        with pytest.raises(UnknownInstruction, match=why):
            lower(replace(inst, **changes), "gfx942", True)
    (pair,) = assemble(["v_cvt_scalef32_sr_pk_fp4_f32 v6, -|v[2:3]|, v4, s0"], "gfx950")
    with pytest.raises(UnknownInstruction, match="neg or abs of a u64 operand"):
        lower(pair, "gfx950", True)
    special = Operand(OperandKind.SPECIAL, text="src_pops_exiting_wave_id")
    operands = (plain.operands[0], special, plain.operands[2])
    with pytest.raises(UnknownInstruction, match="src_pops"):
        lower(replace(plain, operands=operands), "gfx942", True)
    rounding = FloatMode(round_f32=1)
    (add_f32,) = assemble(["v_add_f32 v0, v1, v2"], "gfx942")
    with pytest.raises(UnknownInstruction, match="round"):
        lower(add_f32, "gfx942", True, rounding)


CONSTANTS = {
    "v_add_f32 v0, 1.0, v1": 0x3F800000,
    "v_add_f32 v0, 0.15915494, v1": 0x3E22F983,
    "v_add_f32 v0, -4.0, v1": 0xC0800000,
    "v_add_f32 v0, 5, v1": 5,
    "v_add_f32 v0, 0x12345678, v1": 0x12345678,
    "v_add_u32 v0, -1, v1": 0xFFFFFFFF,
    "v_add_u32 v0, 0.5, v1": 0x3F000000,
    "v_add_f16 v0, 1.0, v1": 0x3C00,
    "v_add_f16 v0, 0x3555, v1": 0x3555,
    "v_add_f16 v0, -2, v1": 0xFFFFFFFE,
    "v_fma_f64 v[0:1], 2.0, v[2:3], v[4:5]": 0x4000000000000000,
    "v_ceil_f64 v[0:1], 0x40080000": 0x40080000 << 32,
    "v_lshlrev_b64 v[0:1], v2, -3": (1 << 64) - 3,
}


@pytest.mark.parametrize("text", CONSTANTS)
def test_constants_have_the_operand_format(text):
    (inst,) = assemble([text], "gfx942")
    (call,) = lower(inst, "gfx942", True).calls
    (value,) = [a.value for a in call.args if hasattr(a, "value") and hasattr(a, "width")]
    assert value == CONSTANTS[text]


def test_registers_read_and_written_by_one_instruction():
    """Results may overlap the sources in any way, in both variants."""
    rng = np.random.default_rng(12)
    lines = [
        "v_lshlrev_b64 v[0:1], v1, v[0:1]",
        "v_mad_u64_u32 v[2:3], vcc, v3, v2, v[2:3]",
        "v_addc_co_u32 v0, vcc, v0, v0, vcc",
    ]
    shift, mad, carry = assemble(lines, "gfx90a")
    for exec_mask in (FULL, PARTIAL):
        on = active(exec_mask)
        wave = wave_with(rng, exec_mask)
        before = wave.v.copy()
        pair = before[0].astype(np.uint64) | before[1].astype(np.uint64) << np.uint64(32)
        wave.run(shift, "gfx90a")
        want = pair << (before[1] % 64).astype(np.uint64)
        assert np.array_equal(wave.v64(0)[on], want[on])
        assert np.array_equal(wave.v[0:2, ~on], before[0:2, ~on])
        wave = wave_with(rng, exec_mask)
        before = wave.v.astype(object)
        wave.run(mad, "gfx90a")
        want = before[3] * before[2] + (before[2] | before[3] << 32)
        assert (wave.v64(2)[on] == (want & (1 << 64) - 1)[on]).all()
        wave = wave_with(rng, exec_mask)
        before = wave.v.astype(object)
        vcc = int(rng.integers(0, 1 << 63))
        wave.set_s64(106, vcc)
        wave.run(carry, "gfx90a")
        want = 2 * before[0] + np.array([vcc >> i & 1 for i in range(64)], object)
        assert (wave.v[0][on] == (want & 0xFFFFFFFF)[on]).all()
        assert wave.s64(106) == sum(1 << i for i in range(64) if on[i] and want[i] >> 32)
