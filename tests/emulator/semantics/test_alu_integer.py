"""Vector integer instructions, comparisons and conversions one by one against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.semantics.alu_cases import F16, F32, F64, MASK, Case, check, prepare

pytestmark = pytest.mark.normal

U8, U16, I16, U32, I32, U64, I64 = (
    np.uint8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64,
)  # fmt: skip
CASES: list[Case] = []


def add(template, results, sources, meaning, **options):
    results = results if isinstance(results, tuple) else (results,)
    CASES.append(Case(template, results, sources, meaning, **options))


def exact(f):
    """f on Python integers, lane by lane; the caller's type keeps the low bits."""

    def meaning(*sources):
        rows = zip(*(s.tolist() for s in sources), strict=True)
        return np.array([f(*row) for row in rows], dtype=object)

    return meaning


def low(values, dtype):
    """Python integers modulo the type's width."""
    bits = np.dtype(dtype).itemsize * 8
    unsigned = np.array([int(v) & ((1 << bits) - 1) for v in values], f"u{bits // 8}")
    return unsigned.view(dtype)


def integer(template, result, sources, f, **options):
    add(template, result, sources, lambda *v: low(exact(f)(*v), result), **options)


def clamp(value, dtype):
    return max(np.iinfo(dtype).min, min(np.iinfo(dtype).max, value))


def bits_of(value, width=32):
    return [value >> i & 1 for i in range(width)]


def first_one(value):
    """Position from the top, -1 for none."""
    return next((i for i in range(32) if value >> (31 - i) & 1), -1)


def first_differing(value):
    value &= 0xFFFFFFFF
    return next((i for i in range(1, 32) if (value >> (31 - i) & 1) != value >> 31), -1)


def signed24(value):
    value &= 0xFFFFFF
    return value - (1 << 24) if value >> 23 else value


def bfe_signed(value, offset, width):
    offset, width = offset & 31, width & 31
    if not width:
        return 0
    field = value >> offset & (1 << width) - 1
    return field - (1 << width) if field >> (width - 1) else field


def perm(a, b, selector):
    data = [(a << 32 | b) >> 8 * i & 0xFF for i in range(8)]
    result = 0
    for i in range(4):
        s = selector >> 8 * i & 0xFF
        if s >= 13:
            byte = 0xFF
        elif s == 12:
            byte = 0
        elif s >= 8:
            byte = 0xFF if data[2 * (s - 8) + 1] & 0x80 else 0
        else:
            byte = data[s]
        result |= byte << 8 * i
    return result


def sad(a, b, c, width):
    mask = (1 << width) - 1
    parts = range(0, 32, width)
    return c + sum(abs((a >> i & mask) - (b >> i & mask)) for i in parts)


for name, t in (("u32", U32), ("i32", I32), ("u16", U16)):
    for op, f in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b)):
        integer(f"v_{op}_{name} v0, {{0}}, {{1}}", t, (t, t), f)
        integer(f"v_{op}_{name}_e64 v0, {{0}}, {{1}} clamp", t, (t, t),
                lambda a, b, f=f, t=t: clamp(f(a, b), t))  # fmt: skip
    if name != "i32":
        integer(f"v_subrev_{name} v0, {{0}}, {{1}}", t, (t, t), lambda a, b: b - a)
for name, t in (("u32", U32), ("i32", I32), ("u16", U16), ("i16", I16)):
    integer(f"v_min_{name} v0, {{0}}, {{1}}", t, (t, t), min)
    integer(f"v_max_{name} v0, {{0}}, {{1}}", t, (t, t), max)
for name, t in (("u32", U32), ("i32", I32)):
    integer(f"v_min3_{name} v0, {{0}}, {{1}}, {{2}}", t, (t,) * 3, min)
    integer(f"v_max3_{name} v0, {{0}}, {{1}}, {{2}}", t, (t,) * 3, max)
    integer(f"v_med3_{name} v0, {{0}}, {{1}}, {{2}}", t, (t,) * 3, lambda *v: sorted(v)[1])
    integer(f"v_mul_hi_{name} v0, {{0}}, {{1}}", t, (t, t), lambda a, b: a * b >> 32)
integer("v_mul_lo_u32 v0, {0}, {1}", U32, (U32, U32), lambda a, b: a * b)
integer("v_mul_lo_u16 v0, {0}, {1}", U16, (U16, U16), lambda a, b: a * b)
integer("v_mul_u32_u24 v0, {0}, {1}", U32, (U32, U32), lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF))
integer("v_mul_hi_u32_u24 v0, {0}, {1}", U32, (U32, U32),
        lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32)  # fmt: skip
integer("v_mul_i32_i24 v0, {0}, {1}", I32, (I32, I32), lambda a, b: signed24(a) * signed24(b))
integer("v_mul_hi_i32_i24 v0, {0}, {1}", I32, (I32, I32),
        lambda a, b: signed24(a) * signed24(b) >> 32)  # fmt: skip
integer("v_mad_u32_u24 v0, {0}, {1}, {2}", U32, (U32,) * 3,
        lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c)  # fmt: skip
integer("v_mad_u32_u24 v0, {0}, {1}, {2} clamp", U32, (U32,) * 3,
        lambda a, b, c: clamp((a & 0xFFFFFF) * (b & 0xFFFFFF) + c, U32))  # fmt: skip
integer("v_mad_i32_i24 v0, {0}, {1}, {2}", I32, (I32,) * 3,
        lambda a, b, c: signed24(a) * signed24(b) + c)  # fmt: skip
integer("v_mad_u32_u16 v0, {0}, {1}, {2}", U32, (U16, U16, U32), lambda a, b, c: a * b + c)
integer("v_mad_i32_i16 v0, {0}, {1}, {2}", I32, (I16, I16, I32), lambda a, b, c: a * b + c)


def mad64(dtype):
    def meaning(a, b, c):
        exact_sums = [x * y + z for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
        carry = np.array([s >> 64 & 1 for s in exact_sums], bool)
        return low(exact_sums, dtype), carry

    return meaning


add("v_mad_u64_u32 v[0:1], s[20:21], {0}, {1}, {2}", (U64, MASK), (U32, U32, U64), mad64(U64))
add("v_mad_i64_i32 v[0:1], s[20:21], {0}, {1}, {2}", (I64, MASK), (I32, I32, I64), mad64(I64))


def carry(f):
    def meaning(a, b, c=None):
        extra = [0] * 64 if c is None else c.tolist()
        sums = [f(x, y, z) for x, y, z in zip(a.tolist(), b.tolist(), extra, strict=True)]
        return low(sums, U32), np.array([not 0 <= s < 1 << 32 for s in sums])

    return meaning


for op, f in (
    ("add", lambda a, b, c: a + b + c),
    ("sub", lambda a, b, c: a - b - c),
    ("subrev", lambda a, b, c: b - a - c),
):
    add(f"v_{op}_co_u32_e64 v0, s[20:21], {{0}}, {{1}}", (U32, MASK), (U32, U32), carry(f))
    long = {"add": "addc", "sub": "subb", "subrev": "subbrev"}[op]
    add(f"v_{long}_co_u32_e64 v0, s[20:21], {{0}}, {{1}}, {{2}}", (U32, MASK), (U32, U32, MASK),
        carry(f), scalars=False)  # fmt: skip
add("v_add_co_u32 v0, vcc, {0}, {1}", (U32, MASK), (U32, U32), carry(lambda a, b, c: a + b + c),
    scalars=False)  # fmt: skip

for width, u, i in ((16, U16, I16), (32, U32, I32), (64, U64, I64)):
    d = "v[0:1]" if width == 64 else "v0"
    n = U16 if width == 16 else U32
    integer(f"v_lshlrev_b{width} {d}, {{0}}, {{1}}", u, (n, u), lambda a, b, w=width: b << a % w)
    integer(f"v_lshrrev_b{width} {d}, {{0}}, {{1}}", u, (n, u), lambda a, b, w=width: b >> a % w)
    integer(f"v_ashrrev_i{width} {d}, {{0}}, {{1}}", i, (n, i), lambda a, b, w=width: b >> a % w)
for op, f in (
    ("and", lambda a, b: a & b),
    ("or", lambda a, b: a | b),
    ("xor", lambda a, b: a ^ b),
    ("xnor", lambda a, b: ~(a ^ b)),
):
    integer(f"v_{op}_b32 v0, {{0}}, {{1}}", U32, (U32, U32), f)
integer("v_not_b32 v0, {0}", U32, (U32,), lambda a: ~a)
integer("v_mov_b32 v0, {0}", U32, (U32,), lambda a: a)
integer("v_mov_b64 v[0:1], {0}", U64, (U64,), lambda a: a)
integer("v_cndmask_b32_e64 v0, {0}, {1}, {2}", U32, (U32, U32, MASK), lambda a, b, m: b if m else a,
        scalars=False)  # fmt: skip
for template, f in (
    ("v_and_or_b32", lambda a, b, c: a & b | c),
    ("v_or3_b32", lambda a, b, c: a | b | c),
    ("v_add3_u32", lambda a, b, c: a + b + c),
    ("v_xad_u32", lambda a, b, c: (a ^ b) + c),
    ("v_lshl_add_u32", lambda a, b, c: (a << b % 32) + c),
    ("v_lshl_or_b32", lambda a, b, c: a << b % 32 | c),
    ("v_add_lshl_u32", lambda a, b, c: (a + b) % 2**32 << c % 32),
    ("v_bfi_b32", lambda a, b, c: a & b | ~a & c),
    ("v_bfe_u32", lambda a, b, c: a >> b % 32 & (1 << c % 32) - 1),
    ("v_alignbit_b32", lambda a, b, c: (a << 32 | b) >> c % 32),
    ("v_alignbyte_b32", lambda a, b, c: (a << 32 | b) >> 8 * (c % 4)),
    ("v_perm_b32", perm),
    ("v_sad_u8", lambda a, b, c: sad(a, b, c, 8)),
    ("v_sad_u16", lambda a, b, c: sad(a, b, c, 16)),
    ("v_sad_u32", lambda a, b, c: sad(a, b, c, 32)),
    ("v_sad_hi_u8", lambda a, b, c: (sad(a, b, 0, 8) << 16) + c),
):
    integer(f"{template} v0, {{0}}, {{1}}, {{2}}", U32, (U32,) * 3, f)
integer("v_bfe_i32 v0, {0}, {1}, {2}", I32, (I32, U32, U32), bfe_signed)
integer("v_lshl_add_u64 v[0:1], {0}, {1}, {2}", U64, (U64, U32, U64),
        lambda a, b, c: (a << (b & 7)) + c)  # fmt: skip
integer("v_bfm_b32 v0, {0}, {1}", U32, (U32, U32), lambda a, b: ((1 << a % 32) - 1) << b % 32)
integer("v_bfrev_b32 v0, {0}", U32, (U32,), lambda a: int(f"{a:032b}"[::-1], 2))
integer("v_ffbh_u32 v0, {0}", U32, (U32,), first_one)
integer("v_ffbh_i32 v0, {0}", U32, (I32,), first_differing)
integer("v_ffbl_b32 v0, {0}", U32, (U32,), lambda a: (a & -a).bit_length() - 1)
integer("v_bcnt_u32_b32 v0, {0}, {1}", U32, (U32, U32), lambda a, b: a.bit_count() + b)


def mbcnt(first):
    def meaning(mask, base):
        lanes = [max(0, min(32, lane - first)) for lane in range(64)]
        rows = zip(mask.tolist(), base.tolist(), lanes, strict=True)
        return low([(m & ((1 << n) - 1)).bit_count() + b for m, b, n in rows], U32)

    return meaning


add("v_mbcnt_lo_u32_b32 v0, {0}, {1}", U32, (U32, U32), mbcnt(0))
add("v_mbcnt_hi_u32_b32 v0, {0}, {1}", U32, (U32, U32), mbcnt(32))
for table in (0x00, 0x1E, 0x27, 0x80, 0xCA, 0x96, 0xFE, 0xFF):
    integer(f"v_bitop3_b32 v0, {{0}}, {{1}}, {{2}} bitop3:{table:#x}", U32, (U32,) * 3,
            lambda a, b, c, t=table: sum(
                (t >> (x << 2 | y << 1 | z) & 1) << i
                for i, (x, y, z) in enumerate(zip(bits_of(a), bits_of(b), bits_of(c), strict=True))
            ), arch="gfx950")  # fmt: skip

# Comparisons
FLOAT_RELATIONS = {
    "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "lg": lambda a, b: (a < b) | (a > b), "ge": lambda a, b: a >= b,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b), "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b), "nle": lambda a, b: ~(a <= b), "neq": lambda a, b: a != b,
    "nlt": lambda a, b: ~(a < b), "f": lambda a, b: np.zeros(64, bool),
    "tru": lambda a, b: np.ones(64, bool),
}  # fmt: skip
INTEGER_RELATIONS = {
    "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ne": lambda a, b: a != b, "ge": lambda a, b: a >= b,
    "t": lambda a, b: np.ones(64, bool), "f": lambda a, b: np.zeros(64, bool),
}  # fmt: skip
for name, t in (("f32", F32), ("f16", F16), ("f64", F64)):
    for relation, f in FLOAT_RELATIONS.items():
        add(f"v_cmp_{relation}_{name}_e64 s[20:21], {{0}}, {{1}}", MASK, (t, t), f,
            scalars=relation == "lt")  # fmt: skip
add("v_cmpx_lt_f32_e32 vcc, {0}, {1}", MASK, (F32, F32), FLOAT_RELATIONS["lt"], scalars=False)
add("v_cmpx_ne_u32 vcc, {0}, {1}", MASK, (U32, U32), INTEGER_RELATIONS["ne"], scalars=False)
for name, t in (("i16", I16), ("u16", U16), ("i32", I32), ("u32", U32), ("i64", I64), ("u64", U64)):
    for relation, f in INTEGER_RELATIONS.items():
        add(f"v_cmp_{relation}_{name}_e64 s[20:21], {{0}}, {{1}}", MASK, (t, t), f,
            scalars=relation == "lt")  # fmt: skip


def classify(a, mask):
    size = a.dtype.itemsize
    quiet = {2: 0x200, 4: 0x400000, 8: 1 << 51}[size]
    signaling = np.isnan(a) & ((a.view(f"u{size}") & np.array(quiet, f"u{size}")) == 0)
    sub = (np.abs(a) < np.finfo(a.dtype).tiny) & (a != 0)
    normal = np.isfinite(a) & (a != 0) & ~sub
    neg = np.signbit(a)
    classes = [signaling, np.isnan(a) & ~signaling, np.isinf(a) & neg, normal & neg, sub & neg,
               (a == 0) & neg, (a == 0) & ~neg, sub & ~neg, normal & ~neg,
               np.isinf(a) & ~neg]  # fmt: skip
    return np.any([c & (mask >> i & 1).astype(bool) for i, c in enumerate(classes)], axis=0)


for name, t in (("f32", F32), ("f16", F16), ("f64", F64)):
    add(f"v_cmp_class_{name}_e64 s[20:21], {{0}}, {{1}}", MASK, (t, U32), classify)


# Conversions
def saturate(x, dtype):
    """Truncated, limited, 0 for NaN."""
    info = np.iinfo(dtype)
    return np.array(
        [
            0 if np.isnan(v) else info.max if v > info.max else info.min if v < info.min else int(v)
            for v in x.astype(F64)
        ],
        dtype,
    )


for name, t in (("u32", U32), ("i32", I32)):
    for float_name, f in (("f32", F32), ("f64", F64)):
        d = "v[0:1]" if f is F64 else "v0"
        add(f"v_cvt_{name}_{float_name} v0, {{0}}", t, (f,), lambda x, t=t: saturate(x, t))
        add(f"v_cvt_{float_name}_{name} {d}, {{0}}", f, (t,), lambda x, f=f: x.astype(f))
for name, t in (("u16", U16), ("i16", I16)):
    add(f"v_cvt_{name}_f16 v0, {{0}}", t, (F16,), lambda x, t=t: saturate(x, t))
    add(f"v_cvt_f16_{name} v0, {{0}}", F16, (t,), lambda x: x.astype(F16))
add("v_cvt_f32_f16 v0, {0}", F32, (F16,), lambda x: x)
add("v_cvt_f16_f32 v0, {0}", F16, (F32,), lambda x: x)
add("v_cvt_f32_f64 v0, {0}", F32, (F64,), lambda x: x)
add("v_cvt_f64_f32 v[0:1], {0}", F64, (F32,), lambda x: x)
for n in range(4):
    add(f"v_cvt_f32_ubyte{n} v0, {{0}}", F32, (U32,), lambda x, n=n: x >> 8 * n & 255)
add("v_cvt_flr_i32_f32 v0, {0}", I32, (F32,), lambda x: saturate(np.floor(x), I32))
add("v_cvt_rpi_i32_f32 v0, {0}", I32, (F32,), lambda x: saturate(np.floor(x + F32(0.5)), I32))


def halves(a, b):
    return a.view(U16).astype(U32) | b.view(U16).astype(U32) << 16


def normalized(x, scale, dtype, lowest):
    x = np.where(np.isnan(x), 0, np.clip(x.astype(F32), lowest, 1)).astype(F32)
    return np.rint(x * F32(scale)).astype(dtype)


add("v_cvt_pk_u16_u32 v0, {0}, {1}", U32, (U32, U32),
    lambda a, b: np.minimum(a, 65535) | np.minimum(b, 65535) << 16)  # fmt: skip
add("v_cvt_pk_i16_i32 v0, {0}, {1}", U32, (I32, I32),
    lambda a, b: halves(*(np.clip(v, -32768, 32767).astype(I16) for v in (a, b))))  # fmt: skip
add("v_cvt_pknorm_i16_f32 v0, {0}, {1}", U32, (F32, F32),
    lambda a, b: halves(*(normalized(v, 32767, I16, -1) for v in (a, b))))  # fmt: skip
add("v_cvt_pknorm_u16_f32 v0, {0}, {1}", U32, (F32, F32),
    lambda a, b: halves(*(normalized(v, 65535, U16, 0) for v in (a, b))))  # fmt: skip
add("v_cvt_off_f32_i4 v0, {0}", F32, (U32,),
    lambda x: ((x & 15).astype(I32) - np.where(x & 8, 16, 0)) / 16)  # fmt: skip
add("v_pack_b32_f16 v0, {0}, {1}", U32, (F16, F16), halves)


@pytest.fixture(scope="module")
def instructions():
    return prepare(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_vector_instruction(case, instructions):
    check(case, instructions[case.name])
