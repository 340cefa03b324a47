"""Matrix instructions against numpy and the layouts of AMD's matrix instruction calculator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.semantics.memory_harness import Wave

D, A, B, C = 0, 64, 96, 128


def operand_place(m: int, k_count: int, blocks: int, row: int, k: int, block: int, per: int):
    """Lane and element index of A[row, k] (or B[k, row]) of a block; ``per`` elements a lane."""
    if blocks > 1:
        return block * m + row, k
    return k // per * m + row, k % per


def result_place(m: int, row: int, column: int, block: int) -> tuple[int, int]:
    """Register and lane of D[row, column]."""
    if m == 4:
        return row, 4 * block + column
    if m == 16:
        return 4 * block + row % 4, 16 * (row // 4) + column
    return 16 * block + 4 * (row // 8) + row % 4, 32 * (row // 4 % 2) + column


def put(wave: Wave, base: int, lane: int, index: int, bits: int, width: int) -> None:
    for bit in range(width):
        register, position = divmod(index * width + bit, 32)
        mask = np.uint32(1 << position)
        if bits >> bit & 1:
            wave.v[base + register, lane] |= mask
        else:
            wave.v[base + register, lane] &= ~mask


def fill(wave: Wave, base: int, values: np.ndarray, m: int, transpose: bool, width: int) -> None:
    """``values[block, row, k]`` as bit patterns."""
    blocks, _, k_count = values.shape
    per = m * k_count * blocks // 64
    for block in range(blocks):
        for row in range(m):
            for k in range(k_count):
                lane, index = operand_place(m, k_count, blocks, row, k, block, per)
                put(wave, base, lane, index, int(values[block, row, k]), width)


def result(wave: Wave, base: int, m: int, blocks: int, type_: type) -> np.ndarray:
    out = np.zeros((blocks, m, m), type_)
    rows = wave.v.view(type_)
    for block in range(blocks):
        for row in range(m):
            for column in range(m):
                register, lane = result_place(m, row, column, block)
                out[block, row, column] = rows[base + register, lane]
    return out


def put_result(wave: Wave, base: int, values: np.ndarray) -> None:
    blocks, m, _ = values.shape
    rows = wave.v.view(values.dtype)
    for block in range(blocks):
        for row in range(m):
            for column in range(m):
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


@pytest.mark.parametrize(("arch", "mnemonic", "m", "k", "blocks", "name"), DENSE)
def test_dense_float_forms(arch, mnemonic, m, k, blocks, name):
    rng = np.random.default_rng(7)
    _, bits = FLOATS[name]
    width = bits().itemsize * 8
    a, b = (random_values(rng, (blocks, m, k), name) for _ in range(2))
    c = rng.standard_normal((blocks, m, m)).astype(np.float32)
    wave = Wave(arch)
    wave.exec = 0x5  # ignored
    fill(wave, A, a.view(bits), m, False, width)
    fill(wave, B, b.view(bits), m, True, width)
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
