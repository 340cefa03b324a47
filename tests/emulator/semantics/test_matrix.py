"""Matrix instructions against numpy and the layouts of AMD's matrix instruction calculator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rocke.emulator.semantics import UnknownInstruction, matrix_tiles, memory_address
from tests.emulator.semantics.memory_harness import Wave, lower_text

D, A, B, C = 0, 64, 96, 128


def result_place(m: int, row: int, column: int, block: int) -> tuple[int, int]:
    """Register and lane of D[row, column]."""
    if m == 4:
        return row, 4 * block + column
    if m == 16:
        return 4 * block + row % 4, 16 * (row // 4) + column
    return 16 * block + 4 * (row // 8) + row % 4, 32 * (row // 4 % 2) + column


def pack(wave: Wave, base: int, lanes: np.ndarray, width: int) -> None:
    """``lanes[64, elements]``, bit patterns of ``width`` bits, into consecutive registers."""
    bits = (lanes.astype(np.uint64)[:, :, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    words = bits.astype(np.uint8).reshape(64, -1, 32)
    packed = np.packbits(words, axis=2, bitorder="little").view(np.uint32)[:, :, 0]
    wave.v[base : base + packed.shape[1]] = packed.T


def fill(wave: Wave, base: int, values: np.ndarray, width: int) -> None:
    """``values[block, row, k]``, bit patterns: row l mod M in lane l, k in runs by lane group."""
    blocks, m, k = values.shape
    per = m * k * blocks // 64
    if blocks > 1:
        lanes = values.reshape(64, per)
    else:
        lanes = values[0].reshape(m, 64 // m, per).transpose(1, 0, 2).reshape(64, per)
    pack(wave, base, lanes, width)


def result(wave: Wave, base: int, m: int, blocks: int, type_: type) -> np.ndarray:
    out = np.zeros((blocks, m, m), type_)
    rows = wave.v.view(type_)
    for block, row, column in np.ndindex(out.shape):
        register, lane = result_place(m, row, column, block)
        out[block, row, column] = rows[base + register, lane]
    return out


def put_result(wave: Wave, base: int, values: np.ndarray) -> None:
    m = values.shape[1]
    rows = wave.v.view(values.dtype)
    for block, row, column in np.ndindex(values.shape):
        register, lane = result_place(m, row, column, block)
        rows[base + register, lane] = values[block, row, column]


def ascending(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """C + A B^T with one rounding to f32 a step, k ascending. a, b: [block, row, k] float64."""
    total = c.astype(np.float64)
    for k in range(a.shape[2]):
        total = (total + a[:, :, None, k] * b[:, None, :, k]).astype(np.float32).astype(np.float64)
    return total.astype(np.float32)


FLOATS = {
    "f32": (np.float32, np.uint32),
    "f16": (np.float16, np.uint16),
    "bf16": (ml_dtypes.bfloat16, np.uint16),
    "fp8fnuz": (ml_dtypes.float8_e4m3fnuz, np.uint8),
    "bf8fnuz": (ml_dtypes.float8_e5m2fnuz, np.uint8),
    "fp8": (ml_dtypes.float8_e4m3fn, np.uint8),
    "bf8": (ml_dtypes.float8_e5m2, np.uint8),
}

DENSE = [
    ("gfx90a", "v_mfma_f32_16x16x16f16", 16, 16, 1, "f16"),
    ("gfx90a", "v_mfma_f32_32x32x8f16", 32, 8, 1, "f16"),
    ("gfx90a", "v_mfma_f32_16x16x16bf16_1k", 16, 16, 1, "bf16"),
    ("gfx90a", "v_mfma_f32_32x32x8bf16_1k", 32, 8, 1, "bf16"),
    ("gfx90a", "v_mfma_f32_16x16x8bf16", 16, 8, 1, "bf16"),
    ("gfx90a", "v_mfma_f32_32x32x4bf16", 32, 4, 1, "bf16"),
    ("gfx90a", "v_mfma_f32_32x32x2bf16", 32, 2, 2, "bf16"),
    ("gfx90a", "v_mfma_f32_16x16x2bf16", 16, 2, 4, "bf16"),
    ("gfx90a", "v_mfma_f32_4x4x2bf16", 4, 2, 16, "bf16"),
    ("gfx90a", "v_mfma_f32_32x32x4f16", 32, 4, 2, "f16"),
    ("gfx90a", "v_mfma_f32_32x32x4bf16_1k", 32, 4, 2, "bf16"),
    ("gfx942", "v_mfma_f32_16x16x16_f16", 16, 16, 1, "f16"),
    ("gfx942", "v_mfma_f32_16x16x16_bf16", 16, 16, 1, "bf16"),
    ("gfx942", "v_mfma_f32_32x32x8_f16", 32, 8, 1, "f16"),
    ("gfx942", "v_mfma_f32_32x32x8_bf16", 32, 8, 1, "bf16"),
    ("gfx942", "v_mfma_f32_32x32x4_2b_f16", 32, 4, 2, "f16"),
    ("gfx942", "v_mfma_f32_16x16x4_4b_f16", 16, 4, 4, "f16"),
    ("gfx942", "v_mfma_f32_4x4x4_16b_f16", 4, 4, 16, "f16"),
    ("gfx942", "v_mfma_f32_4x4x4_16b_bf16", 4, 4, 16, "bf16"),
    ("gfx942", "v_mfma_f32_16x16x4_f32", 16, 4, 1, "f32"),
    ("gfx942", "v_mfma_f32_32x32x2_f32", 32, 2, 1, "f32"),
    ("gfx942", "v_mfma_f32_32x32x1_2b_f32", 32, 1, 2, "f32"),
    ("gfx942", "v_mfma_f32_16x16x1_4b_f32", 16, 1, 4, "f32"),
    ("gfx942", "v_mfma_f32_4x4x1_16b_f32", 4, 1, 16, "f32"),
    ("gfx950", "v_mfma_f32_16x16x32_f16", 16, 32, 1, "f16"),
    ("gfx950", "v_mfma_f32_16x16x32_bf16", 16, 32, 1, "bf16"),
    ("gfx950", "v_mfma_f32_32x32x16_f16", 32, 16, 1, "f16"),
    ("gfx950", "v_mfma_f32_32x32x16_bf16", 32, 16, 1, "bf16"),
    ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8", 16, 32, 1, "fp8fnuz"),
    ("gfx942", "v_mfma_f32_32x32x16_bf8_bf8", 32, 16, 1, "bf8fnuz"),
    ("gfx950", "v_mfma_f32_16x16x32_fp8_fp8", 16, 32, 1, "fp8"),
    ("gfx950", "v_mfma_f32_32x32x16_bf8_bf8", 32, 16, 1, "bf8"),
]


def registers(base: int, count: int, file: str = "v") -> str:
    return f"{file}{base}" if count == 1 else f"{file}[{base}:{base + count - 1}]"


def random_values(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> np.ndarray:
    type_, _ = FLOATS[name]
    return rng.standard_normal(shape).astype(np.float32).astype(type_)


@pytest.mark.normal
@pytest.mark.parametrize(("arch", "mnemonic", "m", "k", "blocks", "name"), DENSE)
def test_dense_float_forms(arch, mnemonic, m, k, blocks, name):
    rng = np.random.default_rng(7)
    _, bits = FLOATS[name]
    width = bits().itemsize * 8
    a, b = (random_values(rng, (blocks, m, k), name) for _ in range(2))
    c = rng.standard_normal((blocks, m, m)).astype(np.float32)
    wave = Wave(arch)
    wave.exec = 0x5  # ignored
    fill(wave, A, a.view(bits), width)
    fill(wave, B, b.view(bits), width)
    put_result(wave, C, c)
    per = m * k * blocks * width // 64 // 32
    out = m * m * blocks // 64
    d_text, c_text = registers(D, out), registers(C, out)
    wave.run(f"{mnemonic} {d_text}, {registers(A, per)}, {registers(B, per)}, {c_text}")
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_array_equal(result(wave, D, m, blocks, np.float32), ascending(a64, b64, c))
    # In place, with a constant C, and with C in the accumulation registers.
    wave.run(f"{mnemonic} {c_text}, {registers(A, per)}, {registers(B, per)}, {c_text}")
    np.testing.assert_array_equal(result(wave, C, m, blocks, np.float32), ascending(a64, b64, c))
    wave.run(f"{mnemonic} {d_text}, {registers(A, per)}, {registers(B, per)}, 1.0")
    one = np.ones_like(c)
    np.testing.assert_array_equal(result(wave, D, m, blocks, np.float32), ascending(a64, b64, one))
    put_result(wave, C, c)
    wave.a[16 : 16 + out] = wave.v[C : C + out]
    acc = registers(16, out, "a")
    wave.run(f"{mnemonic} {acc}, {registers(A, per)}, {registers(B, per)}, {acc}")
    wave.v[D : D + out] = wave.a[16 : 16 + out]
    np.testing.assert_array_equal(result(wave, D, m, blocks, np.float32), ascending(a64, b64, c))


def random_wave(arch: str, seed: int = 3) -> tuple[Wave, np.random.Generator]:
    rng = np.random.default_rng(seed)
    wave = Wave(arch)
    wave.v[:] = rng.integers(0, 2**32, wave.v.shape, dtype=np.uint32)
    return wave, rng


@pytest.mark.parametrize(
    ("arch", "mnemonic", "m", "k", "blocks"),
    [
        ("gfx90a", "v_mfma_i32_16x16x16i8", 16, 16, 1),
        ("gfx90a", "v_mfma_i32_32x32x8i8", 32, 8, 1),
        ("gfx942", "v_mfma_i32_16x16x32_i8", 16, 32, 1),
        ("gfx942", "v_mfma_i32_32x32x16_i8", 32, 16, 1),
        ("gfx942", "v_mfma_i32_32x32x4_2b_i8", 32, 4, 2),
        ("gfx942", "v_mfma_i32_16x16x4_4b_i8", 16, 4, 4),
        ("gfx942", "v_mfma_i32_4x4x4_16b_i8", 4, 4, 16),
        ("gfx950", "v_mfma_i32_16x16x64_i8", 16, 64, 1),
        ("gfx950", "v_mfma_i32_32x32x32_i8", 32, 32, 1),
    ],
)
def test_integer_forms_wrap_around(arch, mnemonic, m, k, blocks):
    wave, rng = random_wave(arch)
    a, b = (rng.integers(-128, 128, (blocks, m, k)) for _ in range(2))
    c = rng.integers(-(2**31), 2**31, (blocks, m, m)).astype(np.int32)
    fill(wave, A, a & 0xFF, 8)
    fill(wave, B, b & 0xFF, 8)
    put_result(wave, C, c)
    per, out = m * k * blocks // 256, m * m * blocks // 64
    expected = (c + np.einsum("bik,bjk->bij", a, b)).astype(np.int32)
    text = f"{registers(A, per)}, {registers(B, per)}, {registers(C, out)}"
    wave.run(f"{mnemonic} {registers(D, out)}, {text}")
    np.testing.assert_array_equal(result(wave, D, m, blocks, np.int32), expected)
    wave.run(f"{mnemonic} {registers(D, out)}, {registers(A, per)}, {registers(B, per)}, -3")
    expected = (np.einsum("bik,bjk->bij", a, b) - 3).astype(np.int32)
    np.testing.assert_array_equal(result(wave, D, m, blocks, np.int32), expected)


def put_f64(wave: Wave, base: int, lanes: np.ndarray) -> None:
    wave.set_pair(base, np.ascontiguousarray(lanes).view(np.uint64))


def get_f64(wave: Wave, base: int) -> np.ndarray:
    wide = wave.v[base].astype(np.uint64) | wave.v[base + 1].astype(np.uint64) << np.uint64(32)
    return wide.view(np.float64)


def fma_chain(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Fused in float64, by way of exact rational arithmetic."""
    from fractions import Fraction

    total = c.copy()
    for index in np.ndindex(c.shape):
        for k in range(a.shape[-1]):
            left, right = Fraction(a[index[:-1]][k]), Fraction(b[(*index[:-2], index[-1], k)])
            total[index] = float(left * right + Fraction(total[index]))
    return total


def test_f64_16x16x4():
    wave, rng = random_wave("gfx942")
    a, b = (rng.standard_normal((16, 4)) for _ in range(2))
    c = rng.standard_normal((16, 16))
    put_f64(wave, A, a.T.reshape(64))
    put_f64(wave, B, b.T.reshape(64))
    for pair in range(4):
        # Pair r: row 4 r + lane / 16, column lane mod 16.
        put_f64(wave, C + 2 * pair, c[4 * pair : 4 * pair + 4].reshape(64))
    for text, start in ((registers(C, 8), c), ("-2.0", np.full((16, 16), -2.0))):
        wave.run(f"v_mfma_f64_16x16x4_f64 v[0:7], {registers(A, 2)}, {registers(B, 2)}, {text}")
        got = np.concatenate([get_f64(wave, 2 * pair).reshape(4, 16) for pair in range(4)])
        np.testing.assert_array_equal(got, fma_chain(a, b, start))
    wave.run(f"v_mfma_f64_16x16x4_f64 v[0:7], v[{A}:{A + 1}], v[{B}:{B + 1}], 0 neg:[1,0,0]")
    got = np.concatenate([get_f64(wave, 2 * pair).reshape(4, 16) for pair in range(4)])
    np.testing.assert_array_equal(got, fma_chain(-a, b, np.zeros((16, 16))))


def test_f64_4x4x4():
    """Lane 16 k + 4 block + row of A and B, lane 16 row + 4 block + column of C and D."""
    wave, rng = random_wave("gfx942")
    a, b = (rng.standard_normal((4, 4, 4)) for _ in range(2))  # [block, row, k]
    c = rng.standard_normal((4, 4, 4))
    put_f64(wave, A, a.transpose(2, 0, 1).reshape(64))
    put_f64(wave, B, b.transpose(2, 0, 1).reshape(64))
    put_f64(wave, C, c.transpose(1, 0, 2).reshape(64))
    operands = f"v[{A}:{A + 1}], v[{B}:{B + 1}], v[{C}:{C + 1}]"
    wave.run(f"v_mfma_f64_4x4x4_4b_f64 v[0:1], {operands}")
    got = get_f64(wave, 0).reshape(4, 4, 4).transpose(1, 0, 2)
    np.testing.assert_array_equal(got, fma_chain(a, b, c))


def test_xf32_rounds_its_operands_to_ten_bits_of_mantissa():
    wave, rng = random_wave("gfx942")
    a, b = (rng.standard_normal((1, 16, 8)).astype(np.float32) for _ in range(2))
    a[0, 0, 0] = np.float32(1 + 2**-11)  # a tie: to even, which is 1
    a[0, 1, 0] = np.float32(1 + 3 * 2**-11)

    def rounded(x: np.ndarray) -> np.ndarray:
        return (np.round(np.frexp(x)[0] * 2**11) * 2.0 ** (np.frexp(x)[1] - 11)).astype(np.float64)

    fill(wave, A, a.view(np.uint32), 32)
    fill(wave, B, b.view(np.uint32), 32)
    wave.run(f"v_mfma_f32_16x16x8_xf32 v[0:3], v[{A}:{A + 1}], v[{B}:{B + 1}], 0")
    expected = ascending(rounded(a), rounded(b), np.zeros((1, 16, 16)))
    np.testing.assert_array_equal(result(wave, D, 16, 1, np.float32), expected)


EIGHT_BITS = {"gfx942": ("fp8fnuz", "bf8fnuz"), "gfx950": ("fp8", "bf8")}


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("which", [0, 1])
def test_every_8_bit_value(arch, which):
    """256 patterns as A, one a row and k, times the identity."""
    name = EIGHT_BITS[arch][which]
    type_, _ = FLOATS[name]
    short = ("fp8", "bf8")[which]
    for part in range(2):
        patterns = (np.arange(128, dtype=np.uint8) + 128 * part).reshape(16, 8)
        a = np.zeros((1, 16, 32), np.uint8)
        a[0, :, :8] = patterns
        wave = Wave(arch)
        fill(wave, A, a, 8)
        one = np.eye(16, 32, dtype=np.float32).astype(type_).view(np.uint8)
        fill(wave, B, one[None], 8)
        mnemonic = f"v_mfma_f32_16x16x32_{short}_{short}"
        wave.run(f"{mnemonic} v[0:3], v[{A}:{A + 1}], v[{B}:{B + 1}], 0")
        got = result(wave, D, 16, 1, np.float32)[0, :, :8]
        values = patterns.view(type_).astype(np.float32)
        special = ~np.isfinite(values).all(axis=1)
        np.testing.assert_array_equal(got[~special], values[~special])
        # A NaN or infinity spoils its row: 0 times it is NaN.
        for row in np.flatnonzero(special):
            assert np.isnan(got[row]).any()


def test_mixed_8_bit_operands():
    wave, rng = random_wave("gfx950")
    a = rng.standard_normal((1, 16, 32)).astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
    b = rng.standard_normal((1, 16, 32)).astype(np.float32).astype(ml_dtypes.float8_e5m2)
    fill(wave, A, a.view(np.uint8), 8)
    fill(wave, B, b.view(np.uint8), 8)
    wave.run(f"v_mfma_f32_16x16x32_fp8_bf8 v[0:3], v[{A}:{A + 1}], v[{B}:{B + 1}], 0")
    expected = ascending(a.astype(float), b.astype(float), np.zeros((1, 16, 16)))
    np.testing.assert_array_equal(result(wave, D, 16, 1, np.float32), expected)


NARROW = {
    0: (ml_dtypes.float8_e4m3fn, 8),
    1: (ml_dtypes.float8_e5m2, 8),
    2: (ml_dtypes.float6_e2m3fn, 6),
    3: (ml_dtypes.float6_e3m2fn, 6),
    4: (ml_dtypes.float4_e2m1fn, 4),
}


def fill_f8f6f4(wave: Wave, base: int, values: np.ndarray, width: int) -> None:
    """``values[row, k]`` bit patterns; 8-bit formats hold two runs of 16 k in each lane."""
    m = values.shape[0]
    groups = 64 // m
    if width == 8:
        lanes = values.reshape(m, 2, groups, 16).transpose(2, 0, 1, 3)
    else:
        lanes = values.reshape(m, groups, 32).transpose(1, 0, 2)
    pack(wave, base, lanes.reshape(64, 32), width)


@pytest.mark.normal
@pytest.mark.parametrize(("m", "k"), [(16, 128), (32, 64)])
@pytest.mark.parametrize(("cbsz", "blgp"), [(0, 0), (1, 4), (2, 3), (3, 0), (4, 4), (4, 2)])
def test_f8f6f4(m, k, cbsz, blgp):
    wave, rng = random_wave("gfx950")
    (type_a, bits_a), (type_b, bits_b) = NARROW[cbsz], NARROW[blgp]
    a = rng.standard_normal((m, k)).astype(np.float32).astype(type_a)
    b = rng.standard_normal((m, k)).astype(np.float32).astype(type_b)
    fill_f8f6f4(wave, A, a.view(np.uint8), bits_a)
    fill_f8f6f4(wave, B, b.view(np.uint8), bits_b)
    out = m * m // 64
    operands = f"{registers(A, bits_a)}, {registers(B, bits_b)}"
    formats = "".join(f" {n}:{v}" for n, v in (("cbsz", cbsz), ("blgp", blgp)) if v)
    mnemonic = f"v_mfma_f32_{m}x{m}x{k}_f8f6f4"
    wave.run(f"{mnemonic} {registers(D, out)}, {operands}, 0{formats}")
    a64, b64 = a.astype(np.float64)[None], b.astype(np.float64)[None]
    expected = ascending(a64, b64, np.zeros((1, m, m)))
    np.testing.assert_array_equal(result(wave, D, m, 1, np.float32), expected)

    # With E8M0 scales: lane block * M + row holds the scale of 32 k; op_sel chooses its byte.
    scales = rng.integers(120, 134, (2, 64))
    wave.v[40] = rng.integers(0, 2**32, 64, dtype=np.uint32) & 0xFFFF00FF | scales[0] << 8
    wave.v[41] = rng.integers(0, 2**32, 64, dtype=np.uint32) & 0x00FFFFFF | scales[1] << 24
    text = f"{registers(D, out)}, {operands}, 0, v40, v41 op_sel:[1,1,0] op_sel_hi:[0,1,0]{formats}"
    wave.run(f"v_mfma_scale_f32_{m}x{m}x{k}_f8f6f4 {text}")
    factor = 2.0 ** (scales.reshape(2, k // 32, m).transpose(0, 2, 1) - 127).repeat(32, axis=2)
    expected = ascending(a64 * factor[0], b64 * factor[1], np.zeros((1, m, m)))
    np.testing.assert_array_equal(result(wave, D, m, 1, np.float32), expected)


def test_broadcast_of_a_blocks():
    """cbsz:1 abid:1: blocks 2 n and 2 n + 1 both use A of block 2 n + 1."""
    wave, rng = random_wave("gfx942")
    a, b = (rng.standard_normal((4, 16, 4)).astype(np.float16) for _ in range(2))
    fill(wave, A, a.view(np.uint16), 16)
    fill(wave, B, b.view(np.uint16), 16)
    operands = f"v[{A}:{A + 1}], v[{B}:{B + 1}], 0"
    wave.run(f"v_mfma_f32_16x16x4_4b_f16 v[0:15], {operands} cbsz:1 abid:1")
    spread = a[[1, 1, 3, 3]].astype(np.float64)
    expected = ascending(spread, b.astype(np.float64), np.zeros((4, 16, 16)))
    np.testing.assert_array_equal(result(wave, D, 16, 4, np.float32), expected)
    c, d = (rng.standard_normal((16, 4, 1)).astype(np.float32) for _ in range(2))
    fill(wave, A, c.view(np.uint32), 32)
    fill(wave, B, d.view(np.uint32), 32)
    wave.run(f"v_mfma_f32_4x4x1_16b_f32 v[0:3], v{A}, v{B}, 0 cbsz:4 abid:7")
    spread = np.broadcast_to(c[7], c.shape).astype(np.float64)
    expected = ascending(spread, d.astype(np.float64), np.zeros((16, 4, 4)))
    np.testing.assert_array_equal(result(wave, D, 4, 16, np.float32), expected)


@pytest.mark.parametrize(
    ("blgp", "source"),
    [
        (1, lambda lane: lane % 32),
        (2, lambda lane: lane % 32 + 32),
        (3, lambda lane: (lane + 16) % 64),
        (4, lambda lane: lane % 16),
        (7, lambda lane: lane % 16 + 48),
    ],
)
def test_lane_groups_of_b(blgp, source):
    """The same as without blgp, on a B whose lanes were moved before."""
    wave, rng = random_wave("gfx942")
    lanes = rng.standard_normal((64, 1)).astype(np.float32)
    wave.v[A] = rng.standard_normal(64).astype(np.float32).view(np.uint32)
    wave.v[B] = lanes[:, 0].view(np.uint32)
    wave.run(f"v_mfma_f32_16x16x4_f32 v[0:3], v{A}, v{B}, 0 blgp:{blgp}")
    wave.run(f"v_mfma_f32_4x4x1_16b_f32 v[8:11], v{A}, v{B}, 0 blgp:{blgp}")
    got = wave.v[0:4].copy(), wave.v[8:12].copy()
    wave.v[B] = wave.v[B][[source(lane) for lane in range(64)]]
    wave.run(f"v_mfma_f32_16x16x4_f32 v[0:3], v{A}, v{B}, 0")
    wave.run(f"v_mfma_f32_4x4x1_16b_f32 v[8:11], v{A}, v{B}, 0")
    np.testing.assert_array_equal(got[0], wave.v[0:4])
    np.testing.assert_array_equal(got[1], wave.v[8:12])


@pytest.mark.parametrize(("name", "small"), [("f16", 2.0**-15), ("bf16", 2.0**-127)])
def test_subnormal_operands_are_flushed_on_gfx90a_only(name, small):
    type_, bits = FLOATS[name]
    for arch, mnemonic in (
        ("gfx90a", f"v_mfma_f32_16x16x16{name}{'_1k' if name == 'bf16' else ''}"),
        ("gfx942", f"v_mfma_f32_16x16x16_{name}"),
    ):
        wave = Wave(arch)
        a = np.zeros((1, 16, 16), type_)
        a[0, :, 0] = small
        b = np.zeros((1, 16, 16), type_)
        b[0, :, 0] = 2.0
        fill(wave, A, a.view(bits), 16)
        fill(wave, B, b.view(bits), 16)
        wave.run(f"{mnemonic} v[0:3], v[{A}:{A + 1}], v[{B}:{B + 1}], 0")
        expected = 0 if arch == "gfx90a" else 2 * small
        assert (result(wave, D, 16, 1, np.float32) == np.float32(expected)).all()


def test_subnormal_results_are_flushed_on_gfx90a_only():
    for arch, mnemonic, expected in (
        ("gfx90a", "v_mfma_f32_16x16x16bf16_1k", 0),
        ("gfx942", "v_mfma_f32_16x16x16_bf16", 2.0**-130),
        ("gfx90a", "v_mfma_f32_16x16x4f32", 2.0**-130),
    ):
        wave = Wave(arch)
        wave.v.view(np.float32)[C : C + 4] = 2.0**-130
        count = 1 if mnemonic.endswith("f32") else 2
        operands = f"{registers(A, count)}, {registers(B, count)}, v[{C}:{C + 3}]"
        wave.run(f"{mnemonic} v[0:3], {operands}")
        assert (wave.v[0:4].view(np.float32) == np.float32(expected)).all()


def test_result_may_overlap_operands():
    """D on A and B, and D partly on C."""
    wave, rng = random_wave("gfx942")
    a, b = (rng.standard_normal((1, 32, 8)).astype(np.float16) for _ in range(2))
    c = rng.standard_normal((1, 32, 32)).astype(np.float32)
    expected = ascending(a.astype(np.float64), b.astype(np.float64), c)
    for d, at_a, at_b, at_c in ((0, 0, 14, 32), (40, 0, 2, 32), (24, 0, 2, 32), (0, 3, 5, 8)):
        put_result(wave, at_c, c)
        fill(wave, at_a, a.view(np.uint16), 16)
        fill(wave, at_b, b.view(np.uint16), 16)
        operands = f"{registers(at_a, 2)}, {registers(at_b, 2)}, {registers(at_c, 16)}"
        wave.run(f"v_mfma_f32_32x32x8_f16 {registers(d, 16)}, {operands}")
        np.testing.assert_array_equal(result(wave, d, 32, 1, np.float32), expected)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("mnemonic", "m", "k", "blocks"),
    [
        ("v_mfma_f32_16x16x32_f16", 16, 32, 1),
        ("v_mfma_f32_32x32x16_f16", 32, 16, 1),
        ("v_mfma_f32_32x32x4_2b_f16", 32, 4, 2),
    ],
)
def test_tile_shapes_for_wide_and_narrow_hosts(monkeypatch, mnemonic, m, k, blocks, wide):
    monkeypatch.setattr(matrix_tiles, "_wide_registers", lambda: wide)
    monkeypatch.setattr(memory_address, "_BUILT", {})
    wave, rng = random_wave("gfx950")
    a, b = (rng.standard_normal((blocks, m, k)).astype(np.float16) for _ in range(2))
    c = rng.standard_normal((blocks, m, m)).astype(np.float32)
    fill(wave, A, a.view(np.uint16), 16)
    fill(wave, B, b.view(np.uint16), 16)
    put_result(wave, C, c)
    per, out = m * k * blocks // 128, m * m * blocks // 64
    operands = f"{registers(A, per)}, {registers(B, per)}, {registers(C, out)}"
    wave.run(f"{mnemonic} {registers(D, out)}, {operands}")
    expected = ascending(a.astype(np.float64), b.astype(np.float64), c)
    np.testing.assert_array_equal(result(wave, D, m, blocks, np.float32), expected)


def test_exec_is_ignored_in_the_masked_variant_too():
    wave, _ = random_wave("gfx942")
    wave.run("v_mfma_f32_16x16x16_f16 v[0:3], v[64:65], v[96:97], 0")
    want = wave.v[0:4].copy()
    wave.exec = 0
    wave.run("v_mfma_f32_16x16x16_f16 v[4:7], v[64:65], v[96:97], 0")
    np.testing.assert_array_equal(wave.v[4:8], want)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 cbsz:1", "cbsz:1 abid:0 with 1"),
        ("v_mfma_f32_16x16x4_4b_f16 v[0:15], v[4:5], v[6:7], 0 cbsz:1 abid:2", "abid:2"),
        ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:6], v[6:7], 0", "has 3 registers, expected 2"),
        ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0 neg:[1,0,0]", "neg is defined for f64"),
        ("v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], 0 cbsz:5", "format cbsz:5"),
        ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], s[6:7], 0", "not a vector register"),
    ],
)
def test_undefined_forms_are_refused(text, why):
    with pytest.raises(UnknownInstruction, match=why):
        lower_text(text, "gfx950")
