"""What the methods compute, by running small kernels on the emulated device against numpy."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from rocke.arch import target
from rocke.compiler import compile_kernel
from rocke.core.ir import (
    BF8E5M2,
    BF16,
    F16,
    F32,
    FP8E4M3,
    I1,
    I8,
    I16,
    I32,
    I64,
    IRBuilder,
    ptr,
    vec,
)
from rocke.core.matrix import ATOMS
from rocke.emulator import EmulatedDevice
from rocke.runtime import Launcher

pytestmark = pytest.mark.normal

ARCHS = ("gfx90a", "gfx942", "gfx950")
LANES = np.arange(64)
TYPES = {
    np.dtype(np.float32): F32,
    np.dtype(np.float16): F16,
    np.dtype(ml_dtypes.bfloat16): BF16,
    np.dtype(np.int8): I8,
    np.dtype(np.int16): I16,
    np.dtype(np.int32): I32,
    np.dtype(np.int64): I64,
}

Body = Callable[[IRBuilder, SimpleNamespace], None]


def run(arch: str, body: Body, **arrays: np.ndarray) -> SimpleNamespace:
    """One wave runs ``body``; the arrays are its parameters, read back afterwards."""
    b = IRBuilder("k")
    b.kernel.attributes["max_workgroup_size"] = 64
    values = {name: b.param(name, ptr(TYPES[array.dtype])) for name, array in arrays.items()}
    body(b, SimpleNamespace(**values))
    b.ret()
    code_object = compile_kernel(b.kernel, arch)
    device, signature = EmulatedDevice(arch), b.kernel.signature()
    launch = Launcher(device, code_object, signature, grid=(1, 1, 1), block=(64, 1, 1))
    launch(**arrays)
    return SimpleNamespace(**arrays)


def lanewise(arch: str, method: Callable, *inputs: np.ndarray, out: np.dtype) -> np.ndarray:
    """``method(b, *values)`` for each element of the inputs, 64 lanes at a time."""
    count = -(-inputs[0].size // 64)
    padded = {f"x{i}": np.resize(x, count * 64) for i, x in enumerate(inputs)}

    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        for i in range(count):
            place = b.add(b.thread_id_x(), 64 * i)
            values = [b.global_load(getattr(p, name), place) for name in padded]
            b.global_store(p.out, place, method(b, *values))

    result = run(arch, body, **padded, out=np.zeros(count * 64, out)).out
    return result[: inputs[0].size]


INTS = np.array([0, 1, -1, 2, 7, -7, 100, -100, 2**31 - 1, -(2**31), 12345, -54321], np.int32)
PAIRS = [a.ravel() for a in np.meshgrid(INTS, INTS)]
NONZERO = [(a, b) for a, b in zip(*PAIRS, strict=True) if b and (a, b) != (-(2**31), -1)]


def test_integer_arithmetic():
    a, b = PAIRS
    u = [x.astype(np.int64) & 0xFFFFFFFF for x in (a, b)]
    wide = {
        "add": a.astype(np.int64) + b,
        "sub": a.astype(np.int64) - b,
        "mul": a.astype(np.int64) * b,
        "smax": np.maximum(a, b),
        "smin": np.minimum(a, b),
        "land": a & b,
        "lor": a | b,
        "xor": a ^ b,
        "umul_hi_i32": [x * y >> 32 for x, y in zip(*(map(int, v) for v in u), strict=True)],
    }
    for name, expected in wide.items():
        given = lanewise(
            "gfx942", lambda bu, x, y, n=name: getattr(bu, n)(x, y), a, b, out=np.int32
        )
        wrapped = np.array(expected).astype(np.uint64).astype(np.uint32).astype(np.int32)
        np.testing.assert_array_equal(given, wrapped, name)


def test_division_rounds_toward_zero():
    a, b = (np.array(v, np.int32) for v in zip(*NONZERO, strict=True))
    quotient = np.trunc(a.astype(np.float64) / b).astype(np.int32)
    div = lanewise("gfx90a", lambda bu, x, y: bu.div(x, y), a, b, out=np.int32)
    mod = lanewise("gfx90a", lambda bu, x, y: bu.mod(x, y), a, b, out=np.int32)
    np.testing.assert_array_equal(div, quotient)
    np.testing.assert_array_equal(mod, a - quotient * b)


def test_shifts_and_comparisons():
    a = INTS
    for n in (0, 1, 5, 31):
        shl = lanewise("gfx950", lambda bu, x, n=n: bu.shl(x, n), a, out=np.int32)
        lshr = lanewise("gfx950", lambda bu, x, n=n: bu.lshr(x, n), a, out=np.int32)
        ashr = lanewise("gfx950", lambda bu, x, n=n: bu.ashr(x, n), a, out=np.int32)
        np.testing.assert_array_equal(shl, a << n)
        np.testing.assert_array_equal(lshr, (a.view(np.uint32) >> n).view(np.int32))
        np.testing.assert_array_equal(ashr, a >> n)
    a, b = PAIRS
    unsigned = a.view(np.uint32) < b.view(np.uint32)
    expected = {
        "cmp_eq": a == b,
        "cmp_ne": a != b,
        "cmp_lt": a < b,
        "cmp_le": a <= b,
        "cmp_gt": a > b,
        "cmp_ge": a >= b,
        "cmp_ult": unsigned,
    }
    for name, truth in expected.items():
        given = lanewise(
            "gfx950",
            lambda bu, x, y, n=name: bu.zext(getattr(bu, n)(x, y), I32),
            a,
            b,
            out=np.int32,
        )
        np.testing.assert_array_equal(given, truth, name)


FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.5, 3.4e38, 1e-38, 1e-40, np.inf, -np.inf, np.nan, 0.1, 126.5], np.float32
)


def test_maximum_and_minimum_skip_nan():
    a, b = (x.ravel() for x in np.meshgrid(FLOATS, FLOATS))
    for name, reference in (("fmax", np.fmax), ("fmin", np.fmin)):
        given = lanewise(
            "gfx942", lambda bu, x, y, n=name: getattr(bu, n)(x, y), a, b, out=np.float32
        )
        np.testing.assert_array_equal(given, reference(a, b))
    three = lanewise("gfx942", lambda bu, x, y: bu.fmax3(x, y, 0.5), a, b, out=np.float32)
    np.testing.assert_array_equal(three, np.fmax(np.fmax(a, b), np.float32(0.5)))


@pytest.mark.parametrize("arch", ARCHS)
def test_exact_functions_over_the_full_range(arch):
    x = np.array([1.0, 0.5, 3.0, 1e-40, 3e38, 7e-45, 2.0, 1e20, 1e-20, 0.3], np.float32)
    wide = x.astype(np.float64)
    sqrt = lanewise(arch, lambda b, v: b.sqrt(v), x, out=np.float32)
    np.testing.assert_array_equal(sqrt, np.sqrt(x))
    rcp = lanewise(arch, lambda b, v: b.rcp(v), x, out=np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(rcp, (1 / wide).astype(np.float32))
    log2 = lanewise(arch, lambda b, v: b.log2(v), x, out=np.float32)
    np.testing.assert_allclose(log2, np.log2(wide), rtol=3e-7, atol=1e-6)
    e = np.array([0.0, 1.5, -3.25, 127.9, -126.5, -140.0, -149.0, -160.0, 200.0], np.float32)
    exp2 = lanewise(arch, lambda b, v: b.exp2(v), e, out=np.float32)
    with np.errstate(over="ignore"):
        expected = np.exp2(e.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(exp2, expected, rtol=3e-7, atol=2e-45)


def test_fast_functions_are_close_and_flush_subnormals():
    e = np.array([0.0, 1.5, -3.25, 100.0, -126.0, -140.0, -np.inf], np.float32)
    exp2 = lanewise("gfx950", lambda b, v: b.exp2_fast(v), e, out=np.float32)
    np.testing.assert_allclose(exp2[:5], np.exp2(e[:5].astype(np.float64)), rtol=3e-7)
    np.testing.assert_array_equal(exp2[5:], [0, 0])
    rcp = lanewise("gfx950", lambda b, v: b.rcp_fast(v), e[1:4], out=np.float32)
    np.testing.assert_allclose(rcp, 1 / e[1:4], rtol=3e-7)


def bits_of(*words: int) -> np.ndarray:
    return np.array(words, np.uint32).view(np.float32)


ROUNDING = np.concatenate(
    [
        bits_of(0x3F800000, 0x3F807FFF, 0x3F808000, 0x3F808001, 0x3F818000, 0x00008000, 0x00018000),
        bits_of(0x7F7FFFFF, 0x7F7F7FFF, 0x7F800000, 0xFF800000, 0x80000001, 0xBF808000, 0xC0490FDB),
    ]
)


@pytest.mark.parametrize("arch", ARCHS)
def test_bf16_rounds_to_nearest_even_and_keeps_nan(arch):
    x = np.concatenate([ROUNDING, bits_of(0x7FC00000, 0x7F800001, 0xFFFFFFFF)])
    for method in (
        lambda b, v: b.cast_f32_to(v, BF16),
        lambda b, v: b.vec_extract(b.cvt_pk_bf16_f32(b.const_f32(9), v), 1),
    ):
        given = lanewise(arch, method, x, out=ml_dtypes.bfloat16)
        with np.errstate(invalid="ignore"):
            expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
            np.testing.assert_array_equal(given.astype(np.float32), expected)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_fast_bf16_pair_rounds_ties_away(arch):
    away = ((ROUNDING.view(np.uint32) + 0x8000) >> 16).astype(np.uint16).view(ml_dtypes.bfloat16)
    for place in (0, 1):

        def method(b, v, place=place):
            pair = [b.const_f32(9), b.const_f32(9)]
            pair[place] = v
            return b.vec_extract(b.cvt_pk_bf16_f32_fast(*pair), place)

        given = lanewise(arch, method, ROUNDING, out=ml_dtypes.bfloat16)
        np.testing.assert_array_equal(given.view(np.uint16), away.view(np.uint16))
    nan = bits_of(0x7FC00000)
    given = lanewise(
        arch,
        lambda b, v: b.vec_extract(b.cvt_pk_bf16_f32_fast(v, v), 0),
        nan,
        out=ml_dtypes.bfloat16,
    )
    assert np.isnan(given[0])


def test_packed_f16_truncates():
    x = np.array([1.00097, -1.00097, 65519.0, 1e-8], np.float32)
    given = lanewise(
        "gfx942",
        lambda b, v: b.vec_extract(b.cvt_pkrtz_f16_f32(b.const_f32(0), v), 1),
        x,
        out=np.float16,
    )
    np.testing.assert_array_equal(given, np.array([1.0, -1.0, 65504.0, 0.0], np.float16))


@pytest.mark.parametrize(
    ("arch", "type_", "reference"),
    [
        ("gfx942", FP8E4M3, ml_dtypes.float8_e4m3fnuz),
        ("gfx942", BF8E5M2, ml_dtypes.float8_e5m2fnuz),
        ("gfx950", FP8E4M3, ml_dtypes.float8_e4m3fn),
        ("gfx950", BF8E5M2, ml_dtypes.float8_e5m2),
    ],
)
def test_byte_floats_have_the_targets_encoding(arch, type_, reference):
    x = np.array([0, 1, -1.5, 0.0625, 17, 18, 19, 100.5, 230, 1e-3, -(2.0**-9)], np.float32)
    once = lanewise(arch, lambda b, v: b.cast_to_f32(b.cast_f32_to(v, type_)), x, out=np.float32)

    def packed(b, v):
        pair = b.cvt_pk_f32_fp8(b.cvt_pk_fp8_f32(b.const_f32(9), v, type_))
        return b.vec_extract(pair, 1)

    np.testing.assert_array_equal(once, x.astype(reference).astype(np.float32))
    np.testing.assert_array_equal(lanewise(arch, packed, x, out=np.float32), once)


# -- cross-lane --------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
def test_shuffle_xor_for_every_mask(arch):
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        value = b.global_load(p.x, b.thread_id_x())
        for mask in range(1, 64):
            b.global_store(p.o, b.add(b.thread_id_x(), 64 * mask), b.warp_shuffle_xor(value, mask))

    x = (LANES * 7 - 100).astype(np.int32)
    o = run(arch, body, x=x, o=np.zeros(64 * 64, np.int32)).o.reshape(64, 64)
    for mask in range(1, 64):
        np.testing.assert_array_equal(o[mask], x[LANES ^ mask], f"mask {mask}")


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32, np.int64])
def test_cross_lane_methods_take_every_width(dtype):
    x = (LANES - 20).astype(dtype)
    for mask in (1, 16, 32):
        given = lanewise(
            "gfx950", lambda b, v, m=mask: b.warp_shuffle_xor(v, m), x, out=np.dtype(dtype)
        )
        np.testing.assert_array_equal(given, x[LANES ^ mask])
    first = lanewise("gfx950", lambda b, v: b.readfirstlane(v), x, out=np.dtype(dtype))
    np.testing.assert_array_equal(first, np.full(64, x[0]))
    ninth = lanewise("gfx950", lambda b, v: b.readlane(v, 9), x, out=np.dtype(dtype))
    np.testing.assert_array_equal(ninth, np.full(64, x[9]))


def test_vectors_cross_lanes_whole():
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        at = b.mul(b.thread_id_x(), 8)
        value = b.global_load_vN(p.x, at, F16, 8)
        b.global_store_vN(p.o, at, b.warp_shuffle_xor(value, 5), 8)

    x = np.arange(512).astype(np.float16)
    o = run("gfx90a", body, x=x, o=np.zeros(512, np.float16)).o
    np.testing.assert_array_equal(o.reshape(64, 8), x.reshape(64, 8)[LANES ^ 5])


def test_permlane32_swap():
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        tid = b.thread_id_x()
        low, high = b.permlane32_swap(b.global_load(p.x, tid), b.global_load(p.y, tid))
        b.global_store(p.low, tid, low)
        b.global_store(p.high, tid, high)

    x, y = LANES.astype(np.float32), (LANES + 100).astype(np.float32)
    zeros = {name: np.zeros(64, np.float32) for name in ("low", "high")}
    r = run("gfx950", body, x=x, y=y, **zeros)
    np.testing.assert_array_equal(r.low, np.concatenate([x[:32], y[:32]]))
    np.testing.assert_array_equal(r.high, np.concatenate([x[32:], y[32:]]))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("mask", [0, 1, 1 << 63, (1 << 64) - 1, 0x00FF00FF12345678])
def test_votes(arch, mask):
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        tid = b.thread_id_x()
        truth = b.cmp_ne(b.global_load(p.x, tid), 0)
        b.global_store(p.ballot, tid, b.wave_ballot(truth))
        b.global_store(p.any, tid, b.zext(b.wave_any(truth), I32))
        b.global_store(p.all, tid, b.zext(b.wave_all(truth), I32))

    x = np.array([mask >> lane & 1 for lane in range(64)], np.int32)
    outs = {name: np.zeros(64, np.int32) for name in ("any", "all")}
    r = run(arch, body, x=x, ballot=np.zeros(64, np.int64), **outs)
    np.testing.assert_array_equal(r.ballot.view(np.uint64), np.full(64, mask, np.uint64))
    np.testing.assert_array_equal(r.any, np.full(64, mask != 0))
    np.testing.assert_array_equal(r.all, np.full(64, mask == (1 << 64) - 1))


def test_votes_count_active_lanes_only():
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        tid = b.thread_id_x()
        with b.scf_if(b.cmp_lt(tid, 8)):
            small = b.cmp_lt(tid, 20)
            b.global_store(p.ballot, tid, b.wave_ballot(small))
            b.global_store(p.all, tid, b.zext(b.wave_all(small), I32))

    r = run("gfx942", body, ballot=np.zeros(64, np.int64), all=np.zeros(64, np.int32))
    np.testing.assert_array_equal(r.ballot, np.where(LANES < 8, 0xFF, 0))
    np.testing.assert_array_equal(r.all, LANES < 8)


def test_bpermute_and_lane_id():
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        tid = b.thread_id_x()
        value = b.mul(b.lane_id(), 3)
        from_lane = b.land(b.mul(tid, 5), 63)
        b.global_store(p.o, tid, b.ds_bpermute(b.shl(from_lane, 2), value))

    o = run("gfx90a", body, o=np.zeros(64, np.int32)).o
    np.testing.assert_array_equal(o, LANES * 5 % 64 * 3)


# -- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
def test_buffers_end_where_they_are_told(arch):
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        tid = b.thread_id_x()
        source, sink = b.buffer_rsrc(p.x, 40 * 4), b.buffer_rsrc(p.o, 50 * 4)
        b.buffer_store(sink, tid, b.buffer_load(source, b.sub(tid, 4)))

    x, o = (LANES + 1).astype(np.float32), np.full(64, -1, np.float32)
    o = run(arch, body, x=x, o=o).o
    shifted = np.where((LANES >= 4) & (LANES < 44), LANES - 3, 0)
    np.testing.assert_array_equal(o, np.where(LANES < 50, shifted, -1))


def test_buffer_vectors_and_uniform_offset():
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        at = b.mul(b.thread_id_x(), 8)
        source, sink = b.buffer_rsrc(p.x, 1040), b.buffer_rsrc(p.o, 1024)
        b.buffer_store_vN(sink, at, b.buffer_load_vN(source, at, F16, 8, soffset=8), 8)

    x = np.arange(520).astype(np.float16)
    o = run("gfx942", body, x=x, o=np.zeros(512, np.float16)).o
    np.testing.assert_array_equal(o, x[8:])


def test_lds_arrays_are_row_major():
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        tid = b.thread_id_x()
        array = b.smem_alloc(F32, [8, 2, 4])
        i, j, k = b.lshr(tid, 3), b.land(b.lshr(tid, 2), 1), b.land(tid, 3)
        b.smem_store_vN(array, [i, j, k], b.sitofp_f32(tid), 1)
        b.sync()
        b.global_store_vN(p.o, b.mul(tid, 4), b.smem_load_vN(array, i, j, 0, dtype=F32, n=4), 4)

    o = run("gfx950", body, o=np.zeros(256, np.float32)).o.reshape(64, 4)
    np.testing.assert_array_equal(o, (LANES[:, None] & ~3) + np.arange(4))


@pytest.mark.parametrize(("arch", "nbytes"), [("gfx90a", 4), ("gfx942", 4), ("gfx950", 16)])
def test_direct_copies_write_lane_after_lane(arch, nbytes):
    words = nbytes // 4

    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        tid = b.thread_id_x()
        array = b.smem_alloc(F32, [64 * words + 4])
        backwards = b.mul(b.sub(63, tid), words)
        source = b.buffer_rsrc(p.x, 64 * nbytes)
        b.buffer_load_lds(source, backwards, array, 4, nbytes=nbytes)
        b.sync()
        at = b.mul(tid, words)
        got = b.smem_load_vN(array, b.add(at, 4), dtype=F32, n=words)
        b.global_store_vN(p.o, at, got, words)

    x = np.arange(64 * words).astype(np.float32)
    o = run(arch, body, x=x, o=np.zeros_like(x)).o
    np.testing.assert_array_equal(o.reshape(64, words), x.reshape(64, words)[::-1])


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_the_immediate_of_a_direct_copy_moves_both_addresses(arch):
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        tid = b.thread_id_x()
        array = b.smem_alloc(F32, [128])
        source = b.buffer_rsrc(p.x, 100 * 4)
        for immediate in (0, 64):
            b.buffer_load_lds(source, tid, array, 0, immediate=immediate)
        b.sync()
        for at in (tid, b.add(tid, 64)):
            b.global_store(p.o, at, b.smem_load(array, at))

    x = np.arange(1, 129).astype(np.float32)
    o = run(arch, body, x=x, o=np.zeros_like(x)).o
    # The descriptor's bound counts the immediate.
    np.testing.assert_array_equal(o, np.where(np.arange(128) < 100, x, 0))


def test_transposed_reads_gather_four_lanes_groups():
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        tid = b.thread_id_x()
        array = b.smem_alloc(F16, [256])
        at = b.mul(tid, 4)
        b.smem_store_vN(array, at, b.global_load_vN(p.x, at, F16, 4), 4)
        b.sync()
        b.global_store_vN(p.o, at, b.ds_read_tr16_b64(array, at), 4)

    x = np.arange(256).astype(np.float16)
    o = run("gfx950", body, x=x, o=np.zeros_like(x)).o.reshape(4, 16, 4)
    groups = x.reshape(4, 16, 4)
    for lane in range(16):
        for e in range(4):
            expected = groups[:, 4 * e + lane // 4, lane % 4]
            np.testing.assert_array_equal(o[:, lane, e], expected)


# -- control flow ------------------------------------------------------------------------------


def test_loops_branches_and_early_return():
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        tid = b.thread_id_x()
        n = b.global_load(p.n, tid)
        with b.scf_if(b.cmp_lt(n, 0)):
            b.global_store(p.o, tid, -1)
            b.ret()
        loop = b.scf_for_iter(0, n, 2, [("sum", 0), 1])
        with loop as (i, (total, count)):
            with b.scf_if(b.cmp_gt(i, 5), [I32]) as branch:
                b.scf_yield(b.sub(total, i))
            with branch.orelse():
                b.scf_yield(b.add(total, i))
            b.scf_yield(branch.results[0], b.add(count, 1))
        total, count = loop.results
        b.global_store(p.o, tid, b.add(total, b.mul(count, 1000)))

    n = (LANES % 14 - 3).astype(np.int32)

    def reference(n: int) -> int:
        steps = range(0, n, 2)
        return -1 if n < 0 else sum(-i if i > 5 else i for i in steps) + 1000 * (1 + len(steps))

    o = run("gfx942", body, n=n, o=np.zeros(64, np.int32)).o
    np.testing.assert_array_equal(o, [reference(v) for v in n])


# -- matrix ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arch"),
    [(n, a) for n, atom in ATOMS.items() for a in atom.targets if atom.a in (F16, BF16, F32)],
)
def test_matrix_operations_follow_the_documented_layouts(name, arch):
    atom = ATOMS[name]
    op = next(o for o in target(arch).matrix_ops if o.name == name)
    dtype = next(d for d, t in TYPES.items() if t == atom.a)
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (op.m, op.k)).astype(dtype)
    b_matrix = rng.integers(-4, 5, (op.k, op.n)).astype(dtype)
    c = rng.integers(-9, 9, (op.m, op.n)).astype(np.float32)
    per_lane = {
        "a": [a[op.a_position(lane, e)] for lane in range(64) for e in range(op.a_elements)],
        "b": [b_matrix[op.b_position(lane, e)] for lane in range(64) for e in range(op.b_elements)],
        "c": [c[op.c_position(lane, e)] for lane in range(64) for e in range(op.c_elements)],
    }

    def load(b: IRBuilder, pointer, n: int):
        at = b.mul(b.thread_id_x(), n)
        if n == 1:
            return b.global_load(pointer, at)
        return b.global_load_vN(pointer, at, pointer.type.elem, n)

    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        operands = (load(b, p.a, op.a_elements), load(b, p.b, op.b_elements))
        d = b.mma(op, *operands, load(b, p.c, op.c_elements))
        b.global_store_vN(p.d, b.mul(b.thread_id_x(), op.c_elements), d, op.c_elements)

    arrays = {k: np.array(v) for k, v in per_lane.items()}
    d = run(arch, body, **arrays, d=np.zeros(op.m * op.n, np.float32)).d
    expected = a.astype(np.float32) @ b_matrix.astype(np.float32) + c
    places = [op.c_position(lane, e) for lane in range(64) for e in range(op.c_elements)]
    np.testing.assert_array_equal(d, [expected[place] for place in places])


def test_bits_survive_bitcasts_and_vector_surgery():
    def body(b: IRBuilder, p: SimpleNamespace) -> None:
        at = b.mul(b.thread_id_x(), 4)
        x = b.global_load_vN(p.x, at, F16, 4)
        turned = b.vec_concat(b.vec_slice(x, 2, 2), b.vec_slice(x, 0, 2))
        turned = b.bitcast(b.bitcast(turned, I64), vec(F16, 4))
        b.global_store_vN(p.o, at, b.vec_insert(turned, b.vec_extract(x, 1), 1), 4)

    x = np.arange(256).astype(np.float16)
    o = run("gfx90a", body, x=x, o=np.zeros_like(x)).o.reshape(64, 4)
    np.testing.assert_array_equal(o, x.reshape(64, 4)[:, [2, 1, 0, 1]])


def test_select_and_logic_on_conditions():
    def method(b: IRBuilder, x):
        low, even = b.cmp_lt(x, 20), b.cmp_eq(b.land(x, 1), 0)
        both, either = b.land(low, even), b.lor(low, even)
        assert both.type == I1
        return b.select(both, 2, b.select(b.lnot(either), b.const_i32(0), b.const_i32(1)))

    x = LANES.astype(np.int32)
    given = lanewise("gfx942", method, x, out=np.int32)
    np.testing.assert_array_equal(given, (x < 20).astype(int) + (x % 2 == 0))


def test_constant_offsets_of_any_size():
    far = 1 << 28
    out = np.zeros(far + 64, np.int8)

    def body(b, p):
        for value, offset in enumerate((far - 1, far, far + 63), start=1):
            b.global_store(p.out, offset, b.const_i8(value))
        end = b.ptr_add(p.out, far + 8)
        for value, offset in enumerate((-far, -far - 1), start=4):
            b.global_store(end, offset, b.const_i8(value))

    run("gfx950", body, out=out)
    places = np.flatnonzero(out)
    np.testing.assert_array_equal(places, [7, 8, far - 1, far, far + 63])
    np.testing.assert_array_equal(out[places], [5, 4, 1, 2, 3])


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_grid_sizes_count_workgroups(arch):
    b = IRBuilder("k")
    b.kernel.attributes["max_workgroup_size"] = 64
    out = b.param("o", ptr(I32))
    for i, size in enumerate(b.grid_sizes()):
        b.global_store(out, i, size)
    b.ret()
    o, signature = np.zeros(3, np.int32), b.kernel.signature()
    code_object = compile_kernel(b.kernel, arch)
    Launcher(EmulatedDevice(arch), code_object, signature, grid=(5, 3, 2), block=(64, 1, 1))(o=o)
    assert o.tolist() == [5, 3, 2]
