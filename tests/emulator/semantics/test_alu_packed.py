"""Packed and mixed-precision instructions, dot products, the division sequence, 8-bit floats."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from rocke.emulator.semantics import FloatMode, UnknownInstruction, lower
from tests.emulator.semantics.alu_cases import (
    BF16,
    F16,
    F32,
    F64,
    Case,
    check,
    edge_values,
    prepare,
)
from tests.emulator.semantics.alu_harness import FULL, PARTIAL, Wave, assemble, compile_all
from tests.emulator.semantics.test_alu_vector import exact_fma, vmax, vmin

pytestmark = pytest.mark.normal

U16, I16, U32, I32, U64 = np.uint16, np.int16, np.uint32, np.int32, np.uint64


def lanes_of(mask):
    return np.array([mask >> i & 1 for i in range(64)], bool)


def same(got, want):
    """Equal bits, or both NaN."""
    if got.dtype.kind == "f":
        return (got.view(f"u{got.itemsize}") == want.view(f"u{got.itemsize}")) | (
            np.isnan(got) & np.isnan(want)
        )
    return got == want


# Packed: (mnemonic, type, sources, meaning on one half)
def shift_left(a, b):
    return b << (a & 15)


def saturated(f, dtype):
    info = np.iinfo(dtype)
    return lambda a, b: np.clip(f(a.astype(np.int64), b.astype(np.int64)), info.min, info.max)


PACKED = [
    ("v_pk_add_f16", F16, 2, lambda a, b: a + b),
    ("v_pk_mul_f16", F16, 2, lambda a, b: a * b),
    ("v_pk_min_f16", F16, 2, vmin),
    ("v_pk_max_f16", F16, 2, vmax),
    ("v_pk_fma_f16", F16, 3, exact_fma),
    ("v_pk_add_u16", U16, 2, lambda a, b: a + b),
    ("v_pk_sub_i16", I16, 2, lambda a, b: a - b),
    ("v_pk_mul_lo_u16", U16, 2, lambda a, b: a * b),
    ("v_pk_mad_i16", I16, 3, lambda a, b, c: a * b + c),
    ("v_pk_min_i16", I16, 2, np.minimum),
    ("v_pk_max_u16", U16, 2, np.maximum),
    ("v_pk_lshlrev_b16", U16, 2, shift_left),
    ("v_pk_lshrrev_b16", U16, 2, lambda a, b: b >> (a & 15)),
    ("v_pk_ashrrev_i16", I16, 2, lambda a, b: b >> (a & 15)),
    ("v_pk_add_f32", F32, 2, lambda a, b: a + b),
    ("v_pk_mul_f32", F32, 2, lambda a, b: a * b),
    ("v_pk_fma_f32", F32, 3, exact_fma),
]
SELECTS = [
    {},
    {"op_sel_hi": (0, 0, 0)},
    {"op_sel": (1, 0, 1), "op_sel_hi": (0, 1, 1)},
    {"op_sel": (1, 1, 0), "op_sel_hi": (1, 1, 0), "neg_lo": (1, 0, 0), "neg_hi": (0, 1, 1)},
]


def packed_line(name, dtype, count, chosen, scalar):
    wide = dtype is F32
    places = []
    for i in range(count):
        letter = "s" if i == scalar else "v"
        start = 10 + 2 * i
        places.append(f"{letter}[{start}:{start + 1}]" if wide else f"{letter}{start}")
    result = "v[0:1]" if wide else "v0"
    used = {k: v for k, v in chosen.items() if dtype in (F16, F32) or not k.startswith("neg")}
    tail = " ".join(f"{k}:[{','.join(map(str, v[:count]))}]" for k, v in used.items())
    return f"{name} {result}, {', '.join(places)} {tail}", used


PACKED_FORMS = [(*op, chosen, scalar) for op in PACKED for chosen in SELECTS for scalar in (-1, 1)]


@pytest.fixture(scope="module")
def packed_instructions():
    found = assemble([packed_line(*f[:3], *f[4:])[0] for f in PACKED_FORMS], "gfx942")
    compile_all(found, "gfx942")
    return found


@pytest.mark.parametrize("index", range(len(PACKED_FORMS)))
def test_packed(index, packed_instructions):
    name, dtype, count, meaning, chosen, scalar = PACKED_FORMS[index]
    inst = packed_instructions[index]
    _, used = packed_line(name, dtype, count, chosen, scalar)
    rng = np.random.default_rng(index)
    for exec_mask in (FULL, PARTIAL):
        wave = Wave()
        wave.exec = exec_mask
        wave.v[:2] = rng.integers(0, 1 << 32, (2, 64), dtype=U32)
        before = wave.v.copy()
        halves = []
        for i in range(count):
            pair = edge_values(dtype, rng, 128).reshape(64, 2)
            if i == scalar:
                pair[:] = pair[0]
            halves.append(pair)
            raw = np.ascontiguousarray(pair).view(U32).reshape(64, -1)
            for row in range(raw.shape[1]):
                target = wave.s if i == scalar else wave.v
                target[10 + 2 * i + row] = raw[0, row] if i == scalar else raw[:, row]
        results = []
        for half, select, neg in ((0, "op_sel", "neg_lo"), (1, "op_sel_hi", "neg_hi")):
            picks = used.get(select, (half,) * 3)
            signs = used.get(neg, (0,) * 3)
            sources = [
                -h[:, p] if s else h[:, p] for h, p, s in zip(halves, picks, signs, strict=False)
            ]
            with np.errstate(all="ignore"):
                results.append(meaning(*sources).astype(dtype))
        wave.run(inst, "gfx942")
        on = lanes_of(exec_mask)
        rows = 2 if dtype is F32 else 1
        got = wave.v[:rows].T.copy().view(dtype)
        for half, want in enumerate(results):
            assert same(got[:, half], want)[on].all(), (inst.text, half)
        assert np.array_equal(wave.v[:rows, ~on], before[:rows, ~on])
        assert np.array_equal(wave.v[rows:10], before[rows:10])


def test_packed_constants_moves_and_clamp():
    lines = [
        "v_pk_mul_f16 v0, v10, 2.0 op_sel_hi:[1,0]",
        "v_pk_mul_f32 v[0:1], v[10:11], 2.0 op_sel_hi:[1,0]",
        "v_pk_mov_b32 v[0:1], v[10:11], v[12:13] op_sel:[1,0]",
        "v_pk_mov_b32 v[0:1], s[10:11], v[12:13] op_sel:[0,1]",
        "v_pk_add_u16 v0, v10, v12 clamp",
        "v_pk_sub_i16 v0, v10, v12 clamp",
        "v_pk_mul_f32 v[0:1], v[10:11], 2.0",
    ]
    half, single, move, scalar_move, add, sub, unclear = assemble(lines, "gfx90a")
    rng = np.random.default_rng(1)
    wave = Wave()
    wave.v[10:14] = rng.standard_normal((4, 128)).astype(F16).view(U32)
    wave.run(half, "gfx90a")
    assert np.array_equal(wave.v[0].view(F16), wave.v[10].view(F16) * F16(2))
    wave.run(single, "gfx90a")
    assert np.array_equal(wave.v[:2].view(F32), wave.v[10:12].view(F32) * F32(2))
    wave.run(move, "gfx90a")
    assert np.array_equal(wave.v[:2], wave.v[[11, 12]])
    wave.s[10] = 99
    wave.run(scalar_move, "gfx90a")
    assert np.array_equal(wave.v[1], wave.v[13])
    assert (wave.v[0] == 99).all()
    for inst, dtype, f in ((add, U16, lambda a, b: a + b), (sub, I16, lambda a, b: a - b)):
        wave.run(inst, "gfx90a")
        want = saturated(f, dtype)(wave.v[10].view(dtype), wave.v[12].view(dtype))
        assert np.array_equal(wave.v[0].view(dtype), want)
    with pytest.raises(UnknownInstruction, match="high half of a constant"):
        lower(unclear, "gfx90a", True)


# Dot products and mixed precision
def fields(x, bits, signed):
    parts = [(x.astype(np.int64) >> i) & ((1 << bits) - 1) for i in range(0, 32, bits)]
    return [np.where(signed & (p >> (bits - 1) == 1), p - (1 << bits), p) for p in parts]


def dot(bits, signed):
    def meaning(a, b, c):
        total = c.astype(np.int64)
        for x, y in zip(fields(a, bits, signed), fields(b, bits, signed), strict=True):
            total = total + x * y
        return total.astype(U32) if not signed else total.astype(I32)

    return meaning


def dot_clamped(bits, signed):
    info = np.iinfo(I32 if signed else U32)

    def meaning(a, b, c):
        total = c.astype(np.int64)
        for x, y in zip(fields(a, bits, signed), fields(b, bits, signed), strict=True):
            total = total + x * y
        return np.clip(total, info.min, info.max)

    return meaning


def float_dot(dtype):
    def meaning(a, b, c):
        x, y = (v.view(dtype).reshape(64, 2).astype(F32) for v in (a, b))
        c = exact_fma(x[:, 0], y[:, 0], c)
        return exact_fma(x[:, 1], y[:, 1], c)

    return meaning


CASES: list[Case] = []


def add(template, result, sources, meaning, **options):
    CASES.append(Case(template, (result,), sources, meaning, **options))


for bits, signed, suffix in (
    (16, True, "2_i32_i16"), (16, False, "2_u32_u16"), (8, True, "4_i32_i8"),
    (8, False, "4_u32_u8"), (4, True, "8_i32_i4"), (4, False, "8_u32_u4"),
):  # fmt: skip
    t = I32 if signed else U32
    add(f"v_dot{suffix} v0, {{0}}, {{1}}, {{2}}", t, (U32, U32, t), dot(bits, signed))
    add(f"v_dot{suffix} v0, {{0}}, {{1}}, {{2}} clamp", t, (U32, U32, t), dot_clamped(bits, signed),
        scalars=False)  # fmt: skip
add("v_dot4c_i32_i8 v0, {0}, {1}", I32, (U32, U32), dot(8, True), reads_result=True, scalars=False)
add("v_dot2_f32_f16 v0, {0}, {1}, {2}", F32, (U32, U32, F32), float_dot(F16))
add("v_dot2c_f32_f16 v0, {0}, {1}", F32, (U32, U32), float_dot(F16), reads_result=True,
    scalars=False)  # fmt: skip
add("v_dot2c_f32_bf16 v0, {0}, {1}", F32, (U32, U32), float_dot(BF16), reads_result=True,
    scalars=False, arch="gfx950")  # fmt: skip


def products_first(a, b, c):
    x, y = (v.view(BF16).reshape(64, 2).astype(F32) for v in (a, b))
    return exact_fma(x[:, 1], y[:, 1], x[:, 0] * y[:, 0]) + c


add("v_dot2_f32_bf16 v0, {0}, {1}, {2}", F32, (U32, U32, F32), products_first, arch="gfx950")


def mix(pick):
    return lambda a, b, c: exact_fma(*pick(a, b, c))


def low16(x):
    return (x & 0xFFFF).astype(U16).view(F16).astype(F32)


def high16(x):
    return (x >> 16).astype(U16).view(F16).astype(F32)


add("v_fma_mix_f32 v0, {0}, {1}, {2}", F32, (F32,) * 3, exact_fma, arch="gfx942")
add("v_fma_mix_f32 v0, {0}, -{1}, |{2}| op_sel:[0,1,0] op_sel_hi:[1,1,0]", F32, (U32, U32, F32),
    mix(lambda a, b, c: (low16(a), -high16(b), np.abs(c))))  # fmt: skip


# 8-bit floats
FNUZ = {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz}
OCP = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}


def formats(arch):
    return FNUZ if arch == "gfx942" else OCP


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_float8_codes_to_numbers(arch, kind):
    lines = [
        f"v_cvt_f32_{kind} v0, v2",
        f"v_cvt_f32_{kind}_sdwa v0, v2 src0_sel:BYTE_2",
        f"v_cvt_pk_f32_{kind} v[0:1], v2",
        f"v_cvt_pk_f32_{kind}_sdwa v[0:1], v2 src0_sel:WORD_1",
    ]
    found = assemble(lines, arch)
    dtype = formats(arch)[kind]
    for start in range(0, 256, 64):
        wave = Wave()
        codes = (start + np.arange(64)).astype(U32)
        wave.v[2] = codes | (codes ^ 0x55) << 8 | (codes ^ 0xAA) << 16 | (codes ^ 0xFF) << 24
        numbers = wave.v[2].view(np.uint8).reshape(64, 4).view(dtype).astype(F32)
        wants = [[0], [2], [0, 1], [2, 3]]
        for inst, columns in zip(found, wants, strict=True):
            wave.run(inst, arch)
            for row, column in enumerate(columns):
                want = np.ascontiguousarray(numbers[:, column])
                assert same(wave.v[row].view(F32), want).all(), inst.text


def float8_reference(x, dtype, limit):
    """ml_dtypes gives the code; overflow is NaN (infinity in OCP E5M2) or the largest number."""
    with np.errstate(all="ignore"):
        code = x.astype(dtype)
    if limit:
        largest = float(ml_dtypes.finfo(dtype).max)
        wide = code.astype(F32)
        over = ~np.isfinite(wide) & np.isfinite(x)
        with np.errstate(all="ignore"):
            code = np.where(over, np.copysign(largest, x).astype(F32), x).astype(dtype)
    return code.view(np.uint8)


@pytest.mark.parametrize("limit", [False, True])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_numbers_to_float8(arch, kind, limit):
    lines = [f"v_cvt_pk_{kind}_f32 v0, v1, v2", f"v_cvt_pk_{kind}_f32 v0, v1, v2 op_sel:[0,0,1]"]
    found = assemble(lines, arch)
    dtype = formats(arch)[kind]
    mode = FloatMode(fp16_overflow=limit)
    compile_all(found, arch, [mode])
    rng = np.random.default_rng(3)
    codes = np.arange(256, dtype=np.uint8).view(dtype).astype(F32)
    finite = np.unique(codes[np.isfinite(codes)])
    middles = (finite[1:] + finite[:-1]) / 2
    numbers = np.concatenate(
        [codes, middles, np.nextafter(middles, F32(9e9)), np.nextafter(middles, F32(-9e9))]
    )
    numbers = np.concatenate([numbers, edge_values(F32, rng, 2048), numbers * F32(1.01)])
    largest = float(ml_dtypes.finfo(dtype).max)
    numbers = np.append(numbers, np.linspace(largest * 0.9, largest * 1.2, 200, dtype=F32))
    numbers = np.resize(numbers.astype(F32), (len(numbers) // 64 + 1) * 64).reshape(-1, 64)
    for row in numbers:
        for exec_mask, (word, inst) in itertools.product((FULL, PARTIAL), enumerate(found)):
            wave = Wave()
            wave.exec = exec_mask
            wave.v[0] = 0xDEADBEEF
            wave.v[1], wave.v[2] = row.view(U32), row[::-1].copy().view(U32)
            wave.run(inst, arch, mode)
            low, high = (float8_reference(x, dtype, limit) for x in (row, row[::-1]))
            pair = low.astype(U32) | high.astype(U32) << 8
            want = pair << 16 | 0xBEEF if word else pair | 0xDEAD0000
            want = np.where(lanes_of(exec_mask), want, 0xDEADBEEF)
            bad = (wave.v[0] != want) & ~both_nan(wave.v[0], want, word, dtype)
            assert not bad.any(), (inst.text, row[bad], hex(wave.v[0][bad][0]), hex(want[bad][0]))


def both_nan(got, want, word, dtype):
    """NaNs may differ in sign and payload."""
    equal = np.ones(64, bool)
    for shift in (16 * word, 16 * word + 8):
        g, w = ((v >> shift & 255).astype(np.uint8) for v in (got, want))
        nan = [np.isnan(v.view(dtype).astype(F32)) for v in (g, w)]
        equal &= (g == w) | (nan[0] & nan[1])
    return equal


def test_stochastic_float8():
    """Rounds down or up, as often up as the fraction says, and never changes exact values."""
    lines = [f"v_cvt_sr_fp8_f32 v0, v1, v2 op_sel:[0,0,{b & 1},{b >> 1}]" for b in range(4)]
    found = assemble(lines, "gfx942")
    dtype = FNUZ["fp8"]
    wave = Wave()
    rng = np.random.default_rng(4)
    for byte, inst in enumerate(found):
        up = 0
        for _ in range(20):
            wave.v[0] = 0x11223344
            wave.v[1] = np.full(64, 1.0 + 0.125 * 0.25, F32).view(U32)
            wave.v[2] = rng.integers(0, 1 << 32, 64, dtype=U32)
            wave.run(inst, "gfx942")
            code = (wave.v[0] >> 8 * byte & 255).astype(np.uint8).view(dtype).astype(F32)
            assert set(code.tolist()) <= {1.0, 1.125}
            up += (code == 1.125).sum()
            kept = 0xFFFFFFFF ^ 0xFF << 8 * byte
            assert ((wave.v[0] & kept) == (0x11223344 & kept)).all()
        assert 0.18 < up / 1280 < 0.32
        wave.v[1] = np.full(64, -1.125, F32).view(U32)
        wave.run(inst, "gfx942")
        code = (wave.v[0] >> 8 * byte & 255).astype(np.uint8).view(dtype).astype(F32)
        assert (code == -1.125).all()


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], F32)
FP4_CODES = np.concatenate([FP4, -FP4])


def test_scaled_conversions():
    lines = [
        "v_cvt_scalef32_pk_f32_fp8 v[0:1], v2, v3 op_sel:[1,0,0]",
        "v_cvt_scalef32_pk_f16_bf8 v0, v2, v3",
        "v_cvt_scalef32_pk_bf16_fp4 v0, v2, v3 op_sel:[0,1,0]",
        "v_cvt_scalef32_f32_fp8 v0, v2, v3 op_sel:[1,1,0]",
        "v_cvt_scalef32_pk_fp8_f32 v0, v4, v5, v3 op_sel:[0,0,0,1]",
        "v_cvt_scalef32_pk_bf8_bf16 v0, v6, v3",
        "v_cvt_scalef32_pk_fp4_f32 v0, v4, v5, v3 op_sel:[0,0,1,0]",
        "v_cvt_scalef32_pk_fp4_f16 v0, v7, v3 op_sel:[0,0,1,1]",
    ]
    found = assemble(lines, "gfx950")
    compile_all(found, "gfx950")
    rng = np.random.default_rng(7)
    wave = Wave()
    exponents = rng.integers(-6, 7, 64)
    scale = np.exp2(exponents).astype(F32)
    wave.v[2] = rng.integers(0, 1 << 32, 64, dtype=U32) & 0x77777777
    # Only the scale's exponent counts.
    wave.v[3] = (scale * F32(1.5)).view(U32)
    wave.v[4:6] = (rng.standard_normal((2, 64)) * 3).astype(F32).view(U32)
    wave.v[6] = (rng.standard_normal(128) * 3).astype(BF16).view(U32)
    wave.v[7] = (rng.standard_normal(128) * 3).astype(F16).view(U32)
    codes = wave.v[2].view(np.uint8).reshape(64, 4)
    e4, e5 = (codes.view(t).astype(F32) for t in (OCP["fp8"], OCP["bf8"]))
    before = wave.v.copy()

    wave.run(found[0], "gfx950")
    assert np.array_equal(wave.v[:2].view(F32), (e4[:, 2:] * scale[:, None]).T)
    wave.run(found[1], "gfx950")
    got = wave.v[0].view(F16).reshape(64, 2)
    with np.errstate(over="ignore"):
        assert same(got, (e5[:, :2] * scale[:, None]).astype(F16)).all()
    wave.run(found[2], "gfx950")
    pairs = np.stack([FP4_CODES[codes[:, 2] & 15], FP4_CODES[codes[:, 2] >> 4]], 1)
    assert np.array_equal(wave.v[0].view(BF16).reshape(64, 2).astype(F32), pairs * scale[:, None])
    wave.run(found[3], "gfx950")
    assert np.array_equal(wave.v[0].view(F32), e4[:, 3] * scale)

    inputs = before[4:6].view(F32) / scale
    wave.v[0] = 0xDEADBEEF
    wave.run(found[4], "gfx950")
    low, high = (float8_reference(x, OCP["fp8"], False).astype(U32) for x in inputs)
    assert np.array_equal(wave.v[0], (low | high << 8) << 16 | 0xBEEF)
    wave.v[0] = 0xDEADBEEF
    wave.run(found[5], "gfx950")
    pairs = before[6].view(BF16).reshape(64, 2).astype(F32) / scale[:, None]
    low, high = (float8_reference(x, OCP["bf8"], False).astype(U32) for x in pairs.T)
    assert np.array_equal(wave.v[0], low | high << 8 | 0xDEAD0000)
    wave.v[0] = 0xDEADBEEF
    wave.run(found[6], "gfx950")
    low, high = (fp4_code(x) for x in inputs)
    assert np.array_equal(wave.v[0], 0xDEADBEEF & ~U32(0xFF00) | (low | high << 4) << 8)
    wave.v[0] = 0xDEADBEEF
    wave.run(found[7], "gfx950")
    pairs = before[7].view(F16).reshape(64, 2).astype(F32) / scale[:, None]
    low, high = (fp4_code(x) for x in pairs.T)
    assert np.array_equal(wave.v[0], 0xADBEEF | (low | high << 4) << 24)


def fp4_code(x):
    return x.astype(ml_dtypes.float4_e2m1fn).view(np.uint8).astype(U32) & 15


# Division, as compilers write it
F32_DIVISION = """v_div_scale_f32 v3, s[4:5], v2, v2, v1
v_div_scale_f32 v4, vcc, v1, v2, v1
v_rcp_f32 v5, v3
v_fma_f32 v6, -v3, v5, 1.0
v_fma_f32 v5, v6, v5, v5
v_mul_f32 v6, v4, v5
v_fma_f32 v7, -v3, v6, v4
v_fma_f32 v6, v7, v5, v6
v_fma_f32 v3, -v3, v6, v4
v_div_fmas_f32 v3, v3, v5, v6
v_div_fixup_f32 v0, v3, v2, v1""".splitlines()
F64_DIVISION = """v_div_scale_f64 v[10:11], s[4:5], v[4:5], v[4:5], v[2:3]
v_div_scale_f64 v[12:13], vcc, v[2:3], v[4:5], v[2:3]
v_rcp_f64 v[14:15], v[10:11]
v_fma_f64 v[16:17], -v[10:11], v[14:15], 1.0
v_fma_f64 v[14:15], v[14:15], v[16:17], v[14:15]
v_fma_f64 v[16:17], -v[10:11], v[14:15], 1.0
v_fma_f64 v[14:15], v[14:15], v[16:17], v[14:15]
v_mul_f64 v[16:17], v[12:13], v[14:15]
v_fma_f64 v[10:11], -v[10:11], v[16:17], v[12:13]
v_div_fmas_f64 v[10:11], v[10:11], v[14:15], v[16:17]
v_div_fixup_f64 v[0:1], v[10:11], v[4:5], v[2:3]""".splitlines()


def test_f32_division_is_correctly_rounded():
    found = assemble(F32_DIVISION, "gfx942")
    compile_all(found, "gfx942")
    rng = np.random.default_rng(13)
    for turn in range(60):
        n, d = edge_values(F32, rng, 64), edge_values(F32, rng, 64)
        if turn % 3 == 0:  # quotients that are subnormal, or near the largest number
            shift = rng.integers(-150, 128, 64)
            with np.errstate(all="ignore"):
                d = np.ldexp(n, shift).astype(F32)
        wave = Wave()
        wave.v[1], wave.v[2] = n.view(U32), d.view(U32)
        for inst in found:
            wave.run(inst, "gfx942")
        with np.errstate(all="ignore"):
            want = n / d
        good = same(wave.v[0].view(F32), want)
        assert good.all(), (n[~good], d[~good], wave.v[0].view(F32)[~good], want[~good])


def test_f64_division():
    """Correctly rounded; a subnormal quotient is rounded twice and may be one step off."""
    found = assemble(F64_DIVISION, "gfx942")
    compile_all(found, "gfx942")
    rng = np.random.default_rng(14)
    for _ in range(60):
        n, d = edge_values(F64, rng, 64), edge_values(F64, rng, 64)
        wave = Wave()
        wave.set_v64(2, n)
        wave.set_v64(4, d)
        for inst in found:
            wave.run(inst, "gfx942")
        with np.errstate(all="ignore"):
            want = n / d
        got = wave.v64(0).view(F64)
        with np.errstate(all="ignore"):
            tiny = (np.abs(want) < np.finfo(F64).tiny) & (np.abs(got - want) <= 5e-324)
        good = same(got, want) | tiny
        assert good.all(), (n[~good], d[~good], got[~good], want[~good])


def frexp(x):
    mantissa, exponent = np.frexp(x)
    return np.where(np.isfinite(x), mantissa, x), np.where(np.isfinite(x), exponent, 0)


for name, t, d in (("f32", F32, "v0"), ("f64", F64, "v[0:1]")):
    add(f"v_frexp_mant_{name} {d}, {{0}}", t, (t,), lambda x: frexp(x)[0])
    add(f"v_frexp_exp_i32_{name} v0, {{0}}", I32, (t,), lambda x: frexp(x)[1])
add("v_frexp_mant_f16 v0, {0}", F16, (F16,), lambda x: frexp(x.astype(F32))[0])
add("v_frexp_exp_i16_f16 v0, {0}", I16, (F16,), lambda x: frexp(x.astype(F32))[1])


@pytest.fixture(scope="module")
def instructions():
    return prepare(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_instruction(case, instructions):
    check(case, instructions[case.name])


def test_conversions_of_pairs():
    """Packed results are compared half by half, so that NaNs may have any payload."""
    lines = [
        ("v_cvt_pkrtz_f16_f32 v0, v1, v2", "gfx90a", F16),
        ("v_cvt_pk_f16_f32 v0, v1, v2", "gfx950", F16),
        ("v_cvt_pk_bf16_f32 v0, v1, v2", "gfx950", BF16),
    ]
    rng = np.random.default_rng(15)
    for line, arch, dtype in lines:
        (inst,) = assemble([line], arch)
        for exec_mask in (FULL, PARTIAL) * 6:
            wave = Wave()
            wave.exec = exec_mask
            sources = [edge_values(F32, rng, 64) for _ in range(2)]
            wave.v[0], wave.v[1], wave.v[2] = 7, *(s.view(U32) for s in sources)
            wave.run(inst, arch)
            got = wave.v[0].view(dtype).reshape(64, 2).astype(F32)
            on = lanes_of(exec_mask)
            for half, x in enumerate(sources):
                with np.errstate(all="ignore"):
                    want = x.astype(dtype).astype(F32)
                    if "rtz" in line:
                        near = x.astype(F16)
                        back = np.nextafter(near, F16(0))
                        beyond = np.abs(near.astype(F32)) > np.abs(x)
                        want = np.where(beyond, back, near).astype(F32)
                good = same(np.ascontiguousarray(got[:, half]), want)
                assert good[on].all(), (line, x[on & ~good], got[on & ~good, half])
            assert (wave.v[0][~on] == 7).all()


def test_float_halves_from_bf16():
    (inst,) = assemble(["v_cvt_f32_bf16 v0, v1"], "gfx950")
    wave = Wave()
    wave.v[1] = np.arange(64, dtype=U32) * 1021 | 0xABCD0000
    wave.run(inst, "gfx950")
    assert np.array_equal(wave.v[0], (wave.v[1] & 0xFFFF) << 16)


def test_mixed_precision_to_one_half():
    low, high = assemble(
        [
            "v_fma_mixlo_f16 v0, v1, v2, v3 op_sel_hi:[1,0,0]",
            "v_fma_mixhi_f16 v0, v1, v2, 1.0 op_sel:[1,0,0] op_sel_hi:[1,0,1]",
        ],
        "gfx942",
    )
    rng = np.random.default_rng(16)
    wave = Wave()
    wave.exec = PARTIAL
    on = lanes_of(PARTIAL)
    wave.v[0] = 0xDEADBEEF
    wave.v[1] = rng.standard_normal(128).astype(F16).view(U32)
    wave.v[2:4] = rng.standard_normal((2, 64)).astype(F32).view(U32)
    halves = wave.v[1].view(F16).reshape(64, 2).astype(F32)
    y, z = wave.v[2].view(F32), wave.v[3].view(F32)
    wave.run(low, "gfx942")
    first = exact_fma(halves[:, 0].copy(), y, z).astype(F16).view(U16)
    assert np.array_equal(wave.v[0][on], first[on].astype(U32) | 0xDEAD0000)
    wave.run(high, "gfx942")
    second = exact_fma(halves[:, 1].copy(), y, np.ones(64, F32)).astype(F16).view(U16)
    assert np.array_equal(wave.v[0][on], (second.astype(U32) << 16 | first)[on])
    assert (wave.v[0][~on] == 0xDEADBEEF).all()


def two_over_pi_bits(start, count):
    """Bits of the fraction of 2 / pi, from a long decimal expansion of pi / 2 = 1.5707963..."""
    from decimal import Decimal, getcontext

    getcontext().prec = 500
    # pi by the Gauss-Legendre iteration.
    a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25"), Decimal(1)
    for _ in range(10):
        mean = (a + b) / 2
        b = (a * b).sqrt()
        t -= p * (a - mean) ** 2
        a, p = mean, 2 * p
    inverse = 2 / ((a + b) ** 2 / (4 * t))
    return int(inverse * 2 ** (start + count)) % 2**count


def test_trig_preop():
    (inst,) = assemble(["v_trig_preop_f64 v[0:1], v[2:3], v4"], "gfx90a")
    compile_all([inst], "gfx90a")
    exponents = np.resize([0, 1, 1023, 1077, 1078, 1100, 1500, 1967, 1968, 2046], 64)
    segments = np.resize([0, 1, 2, 5, 11, 20, 31], 64)
    wave = Wave()
    wave.set_v64(2, (exponents.astype(U64) << U64(52)) + U64(12345))
    wave.v[4] = segments + 32 * 7
    wave.run(inst, "gfx90a")
    for lane, (exponent, segment) in enumerate(zip(exponents, segments, strict=True)):
        shift = int(segment) * 53 + max(0, int(exponent) - 1077)
        known = max(0, min(53, 1201 - shift))
        bits = two_over_pi_bits(shift, known) << 53 - known if known else 0
        scale = -53 - shift + (128 if exponent >= 1968 else 0)
        assert wave.v64(0).view(F64)[lane] == float(np.ldexp(float(bits), scale)), lane
