"""Scaled conversions to and from six-bit floats, and stochastic rounding, on gfx950."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.semantics.alu_cases import BF16, F16, F32
from tests.emulator.semantics.alu_harness import FULL, PARTIAL, Wave, assemble

pytestmark = pytest.mark.normal

U32 = np.uint32
ARCH = "gfx950"
SMALL = {"fp6": ml_dtypes.float6_e2m3fn, "bf6": ml_dtypes.float6_e3m2fn}
NUMBERS = {"f32": F32, "f16": F16, "bf16": BF16}
SCALE, SEED, SOURCE = 40, 41, 50


def active(mask: int) -> np.ndarray:
    return np.array([mask >> i & 1 for i in range(64)], bool)


def start(mask: int = FULL, seed: int = 1) -> tuple[Wave, np.random.Generator, np.ndarray]:
    """A wave of random registers; powers of two as scales (only the exponent counts)."""
    rng = np.random.default_rng(seed)
    wave = Wave()
    wave.exec = mask
    wave.v[:] = rng.integers(0, 1 << 32, wave.v.shape, dtype=U32)
    scale = np.exp2(rng.integers(-4, 5, 64)).astype(F32)
    wave.v[SCALE] = (scale * F32(1.75)).view(U32)
    return wave, rng, scale


def put_numbers(wave: Wave, base: int, values: np.ndarray) -> int:
    """``values[64, count]`` into consecutive registers; how many."""
    rows = np.ascontiguousarray(values).view(U32)
    wave.v[base : base + rows.shape[1]] = rows.T
    return rows.shape[1]


def codes_of(wave: Wave, base: int) -> np.ndarray:
    """The 32 six-bit codes of each lane."""
    words = np.ascontiguousarray(wave.v[base : base + 6].T)
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").reshape(64, 32, 6)
    return (bits << np.arange(6, dtype=np.uint8)).sum(axis=2).astype(np.uint8)


def tuple_text(base: int, count: int) -> str:
    return f"v[{base}:{base + count - 1}]"


def nearest(x: np.ndarray, kind: str) -> np.ndarray:
    """Codes of the nearest numbers, the largest where x is beyond it."""
    type_ = SMALL[kind]
    largest = float(ml_dtypes.finfo(type_).max)
    return np.clip(x, -largest, largest).astype(type_).view(np.uint8) & 63


def random_numbers(rng: np.random.Generator, type_: type) -> np.ndarray:
    values = (rng.standard_normal((64, 32)) * np.exp2(rng.integers(-6, 7, (64, 32)))).astype(F32)
    values[0, :4] = (0.0, -0.0, np.inf, -np.inf)
    return values.astype(type_)


@pytest.mark.parametrize("mask", [FULL, PARTIAL])
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", SMALL)
def test_from_codes(kind, number, mask):
    wave, _, scale = start(mask)
    codes = codes_of(wave, SOURCE)
    values = codes.view(SMALL[kind]).astype(F32) * scale[:, None]
    words = np.ascontiguousarray(values.astype(NUMBERS[number])).view(U32)
    count = words.shape[1]
    expected = wave.v.copy()
    expected[:count, active(mask)] = words.T[:, active(mask)]
    text = f"v_cvt_scalef32_pk32_{number}_{kind} {tuple_text(0, count)}, {tuple_text(SOURCE, 6)}"
    wave.run(assemble([f"{text}, v{SCALE}"], ARCH)[0], ARCH)
    np.testing.assert_array_equal(wave.v, expected)


@pytest.mark.parametrize("mask", [FULL, PARTIAL])
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", SMALL)
def test_to_codes(kind, number, mask):
    wave, rng, scale = start(mask)
    values = random_numbers(rng, NUMBERS[number])
    if number == "f32":
        # Two sources of 16 numbers, whose codes alternate.
        put_numbers(wave, SOURCE, values[:, 0::2])
        put_numbers(wave, SOURCE + 16, values[:, 1::2])
        sources = f"{tuple_text(SOURCE, 16)}, {tuple_text(SOURCE + 16, 16)}"
        name = f"2xpk16_{kind}_f32"
    else:
        sources = tuple_text(SOURCE, put_numbers(wave, SOURCE, values))
        name = f"pk32_{kind}_{number}"
    kept = wave.v.copy()
    text = f"v_cvt_scalef32_{name} v[0:5], {sources}, v{SCALE}"
    wave.run(assemble([text], ARCH)[0], ARCH)
    lanes = active(mask)
    expected = nearest(values.astype(F32) / scale[:, None], kind)
    np.testing.assert_array_equal(codes_of(wave, 0)[lanes], expected[lanes])
    np.testing.assert_array_equal(wave.v[:6, ~lanes], kept[:6, ~lanes])
    np.testing.assert_array_equal(wave.v[6:], kept[6:])


def following(seed: np.ndarray) -> np.ndarray:
    """The generator of v_prng_b32."""
    return seed << U32(1) ^ np.where(seed >> U32(31), U32(197), U32(0))


def stochastic(x: np.ndarray, seed: np.ndarray, grid: np.ndarray, mantissa: int, least: float):
    """Codes of |x| rounded up where fraction + seed / 2**32 reaches 1; where that is sure.

    ``grid``: the format's numbers from 0 up, with the step that follows the largest.
    """
    size = np.minimum(np.abs(x).astype(np.float64), grid[-1])
    below = np.searchsorted(grid, size, side="right") - 1
    step = np.maximum(np.exp2(np.floor(np.log2(np.maximum(size, least)))), least) / 2.0**mantissa
    chance = (size - grid[below]) / step + seed.astype(np.float64) / 2.0**32
    sure = np.abs(chance - 1) > 2.0**-6 if mantissa > 6 else np.abs(chance - 1) > 2.0**-18
    return np.minimum(below + (chance >= 1), len(grid) - 1), sure


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", SMALL)
def test_stochastic_to_codes(kind, number):
    wave, rng, scale = start()
    values = random_numbers(rng, NUMBERS[number])
    count = put_numbers(wave, SOURCE, values)
    text = f"v_cvt_scalef32_sr_pk32_{kind}_{number} v[0:5], {tuple_text(SOURCE, count)}"
    wave.run(assemble([f"{text}, v{SEED}, v{SCALE}"], ARCH)[0], ARCH)
    grid = np.arange(32, dtype=np.uint8).view(SMALL[kind]).astype(np.float64)
    least, mantissa = {"fp6": (1.0, 3), "bf6": (0.25, 2)}[kind]
    x, seed, codes = values.astype(F32) / scale[:, None], wave.v[SEED].copy(), codes_of(wave, 0)
    for i in range(32):
        expected, sure = stochastic(x[:, i], seed, grid, mantissa, least)
        expected = expected | np.signbit(x[:, i]) << 5
        np.testing.assert_array_equal(codes[sure, i], expected[sure])
        assert sure.sum() > 55
        seed = following(seed)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_stochastic_scaled_bytes(kind, number):
    type_ = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}[kind]
    mantissa, least = {"fp8": (3, 2.0**-6), "bf8": (2, 2.0**-14)}[kind]
    top = {"fp8": 0x7E, "bf8": 0x7B}[kind]
    grid = np.arange(top + 1, dtype=np.uint8).view(type_).astype(np.float64)
    for byte in range(4):
        wave, rng, scale = start(seed=byte)
        values = (rng.standard_normal((64, 2)) * 4).astype(NUMBERS[number])
        put_numbers(wave, SOURCE, values if number != "f32" else values[:, :1])
        wave.v[0] = 0xDEADBEEF
        chosen = f"op_sel:[0,0,{byte & 1},{byte >> 1}]"
        text = f"v_cvt_scalef32_sr_{kind}_{number} v0, v{SOURCE}, v{SEED}, v{SCALE} {chosen}"
        wave.run(assemble([text], ARCH)[0], ARCH)
        x = values[:, 0].astype(F32) / scale
        expected, sure = stochastic(x, wave.v[SEED], grid, mantissa, least)
        expected = expected | np.signbit(x) << 7
        np.testing.assert_array_equal((wave.v[0] >> U32(8 * byte) & 255)[sure], expected[sure])
        kept = 0xFFFFFFFF ^ 0xFF << 8 * byte
        assert ((wave.v[0] & U32(kept)) == 0xDEADBEEF & kept).all()
        assert sure.sum() > 55


@pytest.mark.parametrize("number", NUMBERS)
def test_stochastic_fp4(number):
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    wave, rng, scale = start()
    values = (rng.standard_normal((64, 2)) * 4).astype(NUMBERS[number])
    count = put_numbers(wave, SOURCE, values)
    wave.v[0] = 0xDEADBEEF
    source = f"v{SOURCE}" if count == 1 else tuple_text(SOURCE, 2)
    text = f"v_cvt_scalef32_sr_pk_fp4_{number} v0, {source}, v{SEED}, v{SCALE} op_sel:[0,0,0,1]"
    wave.run(assemble([text], ARCH)[0], ARCH)
    seeds = (wave.v[SEED], following(wave.v[SEED]))
    for half, seed in enumerate(seeds):
        x = values[:, half].astype(F32) / scale
        expected, sure = stochastic(x, seed, grid, 1, 1.0)
        expected = expected | np.signbit(x) << 3
        got = wave.v[0] >> U32(16 + 4 * half) & 15
        np.testing.assert_array_equal(got[sure], expected[sure])
    assert ((wave.v[0] & U32(0xFF00FFFF)) == 0xDE00BEEF).all()


@pytest.mark.parametrize("high", [0, 1])
@pytest.mark.parametrize("number", ["f16", "bf16"])
def test_stochastic_halves(number, high):
    type_ = NUMBERS[number]
    inst = assemble([f"v_cvt_sr_{number}_f32 v0, v1, v2 op_sel:[0,0,{high}]"], ARCH)[0]
    top, mantissa, least = {"f16": (0x7C00, 10, 2.0**-14), "bf16": (0x7F80, 7, 2.0**-126)}[number]
    grid = np.arange(top, dtype=np.uint16).view(type_).astype(np.float64)
    rng = np.random.default_rng(high)
    for exponent in (0, -16, 12):
        wave = Wave()
        x = (rng.standard_normal(64) * 2.0**exponent).astype(F32)
        wave.v[0], wave.v[1] = 0xDEADBEEF, x.view(U32)
        wave.v[2] = rng.integers(0, 1 << 32, 64, dtype=U32)
        wave.run(inst, ARCH)
        expected, sure = stochastic(x, wave.v[2], grid, mantissa, least)
        expected = expected | np.signbit(x) << 15
        got = wave.v[0] >> U32(16 * high) & U32(0xFFFF)
        np.testing.assert_array_equal(got[sure], expected[sure])
        assert sure.sum() > 50
        other = wave.v[0] >> U32(16 * (1 - high)) & U32(0xFFFF)
        assert (other == (0xDEAD, 0xBEEF)[high]).all()


@pytest.mark.parametrize("number", ["f16", "bf16"])
def test_stochastic_halves_of_special_values(number):
    type_ = NUMBERS[number]
    inst = assemble([f"v_cvt_sr_{number}_f32 v0, v1, v2"], ARCH)[0]
    wave = Wave()
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.0, 3.4e38], F32)
    wave.v[1] = np.resize(special, 64).view(U32)
    wave.v[2] = 0xFFFFFFFF
    wave.run(inst, ARCH)
    got = (wave.v[0, :8] & U32(0xFFFF)).astype(np.uint16).view(type_).astype(F32)
    expected = special.copy()
    expected[7] = np.inf
    np.testing.assert_array_equal(got, expected)
    assert np.signbit(got[1])
