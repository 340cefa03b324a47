"""Scalar ALU instructions one by one against Python integers."""

from __future__ import annotations

import random

import pytest

from rocke.emulator.instruction import EXEC
from rocke.emulator.semantics import FloatMode, UnknownInstruction, lower
from tests.emulator.semantics.alu_harness import FULL, PARTIAL, Wave, assemble, compile_all

W32, W64 = 1 << 32, 1 << 64


def signed(value, bits=32):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def overflow(value, bits=32):
    return not -(1 << bits - 1) <= value < 1 << bits - 1


def nonzero(value, bits=32):
    value &= (1 << bits) - 1
    return value, value != 0


def first(value, bits, from_top):
    order = range(bits - 1, -1, -1) if from_top else range(bits)
    for position, bit in enumerate(order):
        if value >> bit & 1:
            return position
    return -1


def first_differing(value, bits):
    sign = value >> bits - 1 & 1
    return next((i for i in range(bits) if (value >> bits - 1 - i & 1) != sign), -1)


def nibble_mask(value, bits):
    return [value >> 4 * i & 15 != 0 for i in range(bits // 4)]


def bfe(value, control, bits, is_signed):
    offset, width = control & bits - 1, control >> 16 & 0x7F
    if is_signed:
        shifted = signed(value, bits) >> offset
        if width == 0:
            return nonzero(0, bits)
        if width >= bits:
            return nonzero(shifted, bits)
        return nonzero(signed(shifted, width), bits)
    return nonzero(value >> offset & (1 << width) - 1, bits)


# template -> (destination bits, source bits, meaning). The meaning gets the sources as unsigned
# integers (and old destination or SCC when it names them) and gives the result, or the result and
# SCC; a destination of 0 bits means SCC only.
CASES: dict[str, tuple[int, tuple[int, ...], object]] = {}


def add(template, bits, sources, meaning):
    CASES[template] = (bits, sources, meaning)


LOGIC = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
for n in (32, 64):
    for name, f in LOGIC.items():
        add(f"s_{name}_b{n} D, {{0}}, {{1}}", n, (n, n), lambda a, b, f=f, n=n: nonzero(f(a, b), n))
    add(f"s_mov_b{n} D, {{0}}", n, (n,), lambda a: a)
    add(f"s_not_b{n} D, {{0}}", n, (n,), lambda a, n=n: nonzero(~a, n))
    add(f"s_cmov_b{n} D, {{0}}", n, (n,), lambda a, old, scc: a if scc else old)
    add(f"s_cselect_b{n} D, {{0}}, {{1}}", n, (n, n), lambda a, b, scc: a if scc else b)
    add(f"s_brev_b{n} D, {{0}}", n, (n,), lambda a, n=n: int(f"{a:0{n}b}"[::-1], 2))
    add(
        f"s_wqm_b{n} D, {{0}}",
        n,
        (n,),
        lambda a, n=n: nonzero(sum(15 << 4 * i for i, m in enumerate(nibble_mask(a, n)) if m), n),
    )
    add(
        f"s_quadmask_b{n} D, {{0}}",
        n,
        (n,),
        lambda a, n=n: nonzero(sum(1 << i for i, m in enumerate(nibble_mask(a, n)) if m), n),
    )
    add(f"s_bcnt1_i32_b{n} D, {{0}}", 32, (n,), lambda a: nonzero(a.bit_count()))
    add(f"s_bcnt0_i32_b{n} D, {{0}}", 32, (n,), lambda a, n=n: nonzero(n - a.bit_count()))
    add(f"s_ff1_i32_b{n} D, {{0}}", 32, (n,), lambda a, n=n: first(a, n, False))
    add(f"s_ff0_i32_b{n} D, {{0}}", 32, (n,), lambda a, n=n: first(~a, n, False))
    add(f"s_flbit_i32_b{n} D, {{0}}", 32, (n,), lambda a, n=n: first(a, n, True))
    add(
        f"s_flbit_i32{'_i64' if n == 64 else ''} D, {{0}}",
        32,
        (n,),
        lambda a, n=n: first_differing(a, n),
    )
    add(f"s_lshl_b{n} D, {{0}}, {{1}}", n, (n, 32), lambda a, b, n=n: nonzero(a << b % n, n))
    add(f"s_lshr_b{n} D, {{0}}, {{1}}", n, (n, 32), lambda a, b, n=n: nonzero(a >> b % n, n))
    add(
        f"s_ashr_i{n} D, {{0}}, {{1}}",
        n,
        (n, 32),
        lambda a, b, n=n: nonzero(signed(a, n) >> b % n, n),
    )
    add(f"s_bfe_u{n} D, {{0}}, {{1}}", n, (n, 32), lambda a, b, n=n: bfe(a, b, n, False))
    add(f"s_bfe_i{n} D, {{0}}, {{1}}", n, (n, 32), lambda a, b, n=n: bfe(a, b, n, True))
    add(f"s_bfm_b{n} D, {{0}}, {{1}}", n, (32, 32), lambda a, b, n=n: ((1 << a % n) - 1) << b % n)
    add(f"s_bitset0_b{n} D, {{0}}", n, (32,), lambda a, old, n=n: old & ~(1 << a % n))
    add(f"s_bitset1_b{n} D, {{0}}", n, (32,), lambda a, old, n=n: old | 1 << a % n)
    add(f"s_bitcmp0_b{n} {{0}}, {{1}}", 0, (n, 32), lambda a, b, n=n: not a >> b % n & 1)
    add(f"s_bitcmp1_b{n} {{0}}, {{1}}", 0, (n, 32), lambda a, b, n=n: bool(a >> b % n & 1))
add("s_add_u32 D, {0}, {1}", 32, (32, 32), lambda a, b: (a + b, a + b >= W32))
add("s_sub_u32 D, {0}, {1}", 32, (32, 32), lambda a, b: (a - b, b > a))
add("s_addc_u32 D, {0}, {1}", 32, (32, 32), lambda a, b, scc: (a + b + scc, a + b + scc >= W32))
add("s_subb_u32 D, {0}, {1}", 32, (32, 32), lambda a, b, scc: (a - b - scc, a - b - scc < 0))
add("s_add_i32 D, {0}, {1}", 32, (32, 32), lambda a, b: (a + b, overflow(signed(a) + signed(b))))
add("s_sub_i32 D, {0}, {1}", 32, (32, 32), lambda a, b: (a - b, overflow(signed(a) - signed(b))))
add("s_mul_i32 D, {0}, {1}", 32, (32, 32), lambda a, b: a * b)
add("s_mul_hi_u32 D, {0}, {1}", 32, (32, 32), lambda a, b: a * b >> 32)
add("s_mul_hi_i32 D, {0}, {1}", 32, (32, 32), lambda a, b: signed(a) * signed(b) >> 32)
add("s_min_u32 D, {0}, {1}", 32, (32, 32), lambda a, b: (min(a, b), a < b))
add("s_max_u32 D, {0}, {1}", 32, (32, 32), lambda a, b: (max(a, b), a >= b))
add(
    "s_min_i32 D, {0}, {1}",
    32,
    (32, 32),
    lambda a, b: (min(signed(a), signed(b)), signed(a) < signed(b)),
)
add(
    "s_max_i32 D, {0}, {1}",
    32,
    (32, 32),
    lambda a, b: (max(signed(a), signed(b)), signed(a) >= signed(b)),
)
for shift in range(1, 5):
    add(
        f"s_lshl{shift}_add_u32 D, {{0}}, {{1}}",
        32,
        (32, 32),
        lambda a, b, s=shift: ((a << s) + b, (a << s) + b >= W32),
    )
add("s_pack_ll_b32_b16 D, {0}, {1}", 32, (32, 32), lambda a, b: a & 0xFFFF | b << 16)
add("s_pack_lh_b32_b16 D, {0}, {1}", 32, (32, 32), lambda a, b: a & 0xFFFF | b >> 16 << 16)
add("s_pack_hh_b32_b16 D, {0}, {1}", 32, (32, 32), lambda a, b: a >> 16 | b >> 16 << 16)
add("s_abs_i32 D, {0}", 32, (32,), lambda a: nonzero(abs(signed(a))))
add("s_absdiff_i32 D, {0}, {1}", 32, (32, 32), lambda a, b: nonzero(abs(signed(a - b))))
add("s_sext_i32_i8 D, {0}", 32, (32,), lambda a: signed(a, 8))
add("s_sext_i32_i16 D, {0}", 32, (32,), lambda a: signed(a, 16))
add(
    "s_bitreplicate_b64_b32 D, {0}",
    64,
    (32,),
    lambda a: sum(3 << 2 * i for i in range(32) if a >> i & 1),
)
RELATIONS = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}
for name, f in RELATIONS.items():
    add(f"s_cmp_{name}_u32 {{0}}, {{1}}", 0, (32, 32), f)
    add(f"s_cmp_{name}_i32 {{0}}, {{1}}", 0, (32, 32), lambda a, b, f=f: f(signed(a), signed(b)))
    for constant in (0x7FFF, 0x8000, 5):
        add(
            f"s_cmpk_{name}_i32 {{0}}, {constant:#x}",
            0,
            (32,),
            lambda a, f=f, k=constant: f(signed(a), signed(k, 16)),
        )
        add(f"s_cmpk_{name}_u32 {{0}}, {constant:#x}", 0, (32,), lambda a, f=f, k=constant: f(a, k))
add("s_cmp_eq_u64 {0}, {1}", 0, (64, 64), lambda a, b: a == b)
add("s_cmp_lg_u64 {0}, {1}", 0, (64, 64), lambda a, b: a != b)
for constant in (0x7FFF, 0x8000, 0xFFFF, 1):
    k = signed(constant, 16)
    add(f"s_movk_i32 D, {constant:#x}", 32, (), lambda k=k: k)
    add(f"s_cmovk_i32 D, {constant:#x}", 32, (), lambda old, scc, k=k: k if scc else old)
    add(f"s_mulk_i32 D, {constant:#x}", 32, (), lambda old, k=k: old * k)
    add(
        f"s_addk_i32 D, {constant:#x}",
        32,
        (),
        lambda old, k=k: (old + k, overflow(signed(old) + k)),
    )
for name, f in {**LOGIC, "andn1": lambda a, b: ~a & b, "orn1": lambda a, b: ~a | b}.items():
    add(f"s_{name}_saveexec_b64 D, {{0}}", 64, (64,), ("saveexec", f))
for name, f in (("andn1", lambda a, b: ~a & b), ("andn2", lambda a, b: a & ~b)):
    add(f"s_{name}_wrexec_b64 D, {{0}}", 64, (64,), ("wrexec", f))
add("s_mov_b64 D, -5", 64, (), lambda: -5)
add("s_mov_b64 D, 0xfffffff0", 64, (), lambda: 0xFFFFFFF0)
add("s_mov_b32 D, 1.0", 32, (), lambda: 0x3F800000)
add("s_mov_b64 D, 1.0", 64, (), lambda: 0x3FF0000000000000)
add("s_ashr_i64 D, 0x80000000, 4", 64, (), lambda: nonzero(signed(0xFFFFFFFF80000000, 64) >> 4, 64))
add("s_mov_b64 D, src_shared_base", 64, (), lambda: 0x10000 << 32)


def operand(index, bits):
    start = 10 + 2 * index
    return f"s{start}" if bits == 32 else f"s[{start}:{start + 1}]"


def line(template):
    bits, sources, _ = CASES[template]
    text = template.replace("D,", "s0," if bits == 32 else "s[0:1],")
    return text.format(*(operand(i, n) for i, n in enumerate(sources)))


@pytest.fixture(scope="module")
def instructions():
    found = assemble([line(t) for t in CASES], "gfx942")
    compile_all(found, "gfx942")
    return dict(zip(CASES, found, strict=True))


def random_value(rng, bits):
    edges = [0, 1, 2, 31, 32, 63, 64, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1, 1 << 16]
    return rng.choice(edges) & (1 << bits) - 1 if rng.random() < 0.5 else rng.getrandbits(bits)


def call(meaning, sources, old, scc):
    names = meaning.__code__.co_varnames[: meaning.__code__.co_argcount]
    extra = {"old": old, "scc": int(scc)}
    return meaning(*sources, **{n: v for n, v in extra.items() if n in names})


@pytest.mark.parametrize("template", CASES)
def test_scalar_instruction(template, instructions):
    bits, source_bits, meaning = CASES[template]
    rng = random.Random(template)
    for _ in range(24):
        wave = Wave()
        wave.s[:106] = [rng.getrandbits(32) for _ in range(106)]
        wave.exec = old_exec = rng.choice([FULL, PARTIAL, 0, rng.getrandbits(64)])
        wave.scc[0] = scc = rng.getrandbits(1)
        sources = [random_value(rng, n) for n in source_bits]
        for i, (value, n) in enumerate(zip(sources, source_bits, strict=True)):
            if n == 64:
                wave.set_s64(10 + 2 * i, value)
            else:
                wave.s[10 + 2 * i] = value
        old = wave.s64(0) if bits == 64 else int(wave.s[0])
        before = wave.s.copy()
        want_exec = old_exec
        if isinstance(meaning, tuple):
            new = meaning[1](sources[0], old_exec) & W64 - 1
            result, want_scc = (old_exec if meaning[0] == "saveexec" else new), new != 0
            want_exec = new
        else:
            outcome = call(meaning, sources, old, scc)
            if bits == 0:
                result, want_scc = None, outcome
            else:
                result, want_scc = outcome if isinstance(outcome, tuple) else (outcome, scc)
        wave.run(instructions[template], "gfx942")
        given = [hex(v) for v in sources]
        if bits:
            got = wave.s64(0) if bits == 64 else int(wave.s[0])
            assert got == result & (1 << bits) - 1, (given, hex(got), hex(result))
        assert bool(wave.scc[0]) == bool(want_scc), given
        assert wave.exec == want_exec
        first_kept = bits // 32
        assert (wave.s[first_kept:EXEC] == before[first_kept:EXEC]).all()


def test_lane_instructions():
    lines = [
        "v_readfirstlane_b32 s0, v1",
        "v_readlane_b32 s0, v1, s2",
        "v_writelane_b32 v1, 7, s2",
        "v_readlane_b32 s0, v1, 17",
    ]
    first_lane, read, write, read_constant = assemble(lines, "gfx90a")
    wave = Wave()
    wave.v[1] = range(100, 164)
    for mask, lane in ((FULL, 0), (0xF0, 4), (1 << 63, 63), (0, 0)):
        wave.exec = mask
        wave.run(first_lane, "gfx90a")
        assert wave.s[0] == 100 + lane
    wave.exec = 0
    for select in (0, 63, 64, 70, 0xFFFFFFFF):
        wave.s[2] = select
        wave.run(read, "gfx90a")
        assert wave.s[0] == 100 + select % 64
    wave.run(read_constant, "gfx90a")
    assert wave.s[0] == 117
    wave.s[2] = 65
    wave.run(write, "gfx90a")
    assert wave.v[1].tolist() == [100, 7, *range(102, 164)]


def test_mode_changes_are_followed():
    lines = [
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1",
        "s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 4)",
        "s_getreg_b32 s1, hwreg(HW_REG_SH_MEM_BASES, 16, 16)",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 12, 1), 1",
        "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s0",
    ]
    flush, limit, get, bases, trap, dynamic = assemble(lines, "gfx942")
    wave = Wave()
    wave.run(flush, "gfx942")
    mode = lower(flush, "gfx942", True).mode
    assert mode == FloatMode(denormals_f32=0)
    assert wave.mode[0] == mode.register()
    mode = lower(limit, "gfx942", True, mode).mode
    assert mode == FloatMode(denormals_f32=0, fp16_overflow=True)
    wave.run(get, "gfx942")
    assert wave.s[0] == 0b1100
    wave.run(bases, "gfx942")
    assert wave.s[1] == 1
    for refused in (trap, dynamic):
        with pytest.raises(UnknownInstruction, match="s_setreg"):
            lower(refused, "gfx942", True)
