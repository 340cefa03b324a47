"""Sparse matrix instructions against a dense product; layouts written out lane by lane."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.emulator.semantics import UnknownInstruction
from tests.emulator.semantics.memory_harness import Wave, lower_text
from tests.emulator.semantics.test_matrix import (
    FLOATS,
    ascending,
    pack,
    put_result,
    random_values,
    registers,
    result,
)

D, A, B, INDEX = 0, 64, 96, 128
PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]

FORMS = [
    ("gfx942", "f32_16x16x32_f16", 16, 32, "f16", "f16"),
    ("gfx942", "f32_32x32x16_bf16", 32, 16, "bf16", "bf16"),
    ("gfx950", "f32_16x16x64_f16", 16, 64, "f16", "f16"),
    ("gfx950", "f32_32x32x32_bf16", 32, 32, "bf16", "bf16"),
    ("gfx942", "f32_16x16x64_fp8_bf8", 16, 64, "fp8fnuz", "bf8fnuz"),
    ("gfx942", "f32_32x32x32_bf8_fp8", 32, 32, "bf8fnuz", "fp8fnuz"),
    ("gfx950", "f32_16x16x128_fp8_bf8", 16, 128, "fp8", "bf8"),
    ("gfx950", "f32_32x32x64_bf8_fp8", 32, 64, "bf8", "fp8"),
    ("gfx942", "i32_16x16x64_i8", 16, 64, "i8", "i8"),
    ("gfx950", "i32_32x32x64_i8", 32, 64, "i8", "i8"),
]


def stored_place(m: int, k: int, bits: int, c: int) -> tuple[int, int]:
    """Lane group and element of stored value ``c`` of a row, as measured on hardware."""
    if bits == 16:
        per = 4 if k * m == 512 else 8
        return c // per, c % per
    if k * m == 1024:
        period = {16: 16, 32: 8}[m]
        return c % period // 4, 4 * (c // period) + c % 4
    if m == 16:
        group = 2 * (c >> 5 & 1) + (c >> 3 & 1)
        return group, 4 * (2 * (c >> 2 & 1) + (c >> 4 & 1)) + (c & 3)
    return c >> 4 & 1, 4 * (2 * (c >> 2 & 1) + (c >> 3 & 1)) + (c & 3)


def dense_k(m: int, group: int, element: int) -> int:
    """k of an element of B."""
    return 512 // m * (element // 8) + 8 * group + element % 8


class Problem:
    """Random operands of one form in a wave's registers."""

    def __init__(self, form, shift: int = 0, seed: int = 1) -> None:
        self.arch, self.name, self.m, self.k, a_type, b_type = form
        m, k = self.m, self.k
        rng = np.random.default_rng(seed)
        self.bits = 16 if "16" in a_type else 8
        stored, self.b = (self._values(rng, (m, n), t) for n, t in ((k // 2, a_type), (k, b_type)))
        self.choice = np.array(PAIRS)[rng.integers(0, 6, (m, k // 4))]
        self.a = np.zeros((m, k))
        for row, q, half in np.ndindex(m, k // 4, 2):
            at = 4 * q + self.choice[row, q, half]
            self.a[row, at] = self._number(stored[row, 2 * q + half])
        self.wave = Wave(self.arch)
        self.wave.v[:] = rng.integers(0, 1 << 32, self.wave.v.shape, dtype=np.uint32)
        self._place(stored, shift)
        type_ = np.int32 if self.name.startswith("i32") else np.float32
        self.c = (rng.standard_normal((1, m, m)) * 8).astype(type_)
        put_result(self.wave, D, self.c)

    def _values(self, rng, shape, name):
        if name == "i8":
            return rng.integers(-128, 128, shape).astype(np.int8)
        return random_values(rng, shape, name)

    def _number(self, value):
        return np.asarray(value).astype(np.float32).astype(np.float64)

    def _place(self, stored: np.ndarray, shift: int) -> None:
        m, k, groups = self.m, self.k, 64 // self.m
        raw = np.uint16 if self.bits == 16 else np.uint8
        lanes_a = np.zeros((64, k // 2 // groups), raw)
        lanes_b = np.zeros((64, k // groups), raw)
        index = np.zeros(64, np.uint64)
        for row, c in np.ndindex(m, k // 2):
            group, element = stored_place(m, k, self.bits, c)
            lane = group * m + row
            lanes_a[lane, element] = stored[row, c].view(raw)
            chosen = self.choice[row, c // 2, c % 2]
            index[lane] |= np.uint64(chosen << (4 * (element // 2) + 2 * (element % 2)))
        for lane in range(64):
            for element in range(k // groups):
                at = dense_k(m, lane // m, element)
                lanes_b[lane, element] = self.b[lane % m, at].view(raw)
        pack(self.wave, A, lanes_a, self.bits)
        pack(self.wave, B, lanes_b, self.bits)
        width = 2 * (k // 2 // groups)
        mask = np.uint64((1 << width) - 1 << shift)
        other = self.wave.v[INDEX].astype(np.uint64) & ~mask
        self.wave.v[INDEX] = (other | index << np.uint64(shift)).astype(np.uint32)

    def text(self, modifiers: str = "") -> str:
        m, words = self.m, self.k * self.m * self.bits // 64 // 32
        operands = ", ".join(
            registers(base, count)
            for base, count in ((D, m * m // 64), (A, words // 2), (B, words), (INDEX, 1))
        )
        return f"v_smfmac_{self.name} {operands} {modifiers}"

    def expected(self) -> np.ndarray:
        b = self._number(self.b)
        if self.c.dtype == np.int32:
            return (self.c + (self.a @ b.T)).astype(np.int64).astype(np.int32)
        return ascending(self.a[None], b[None], self.c)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f"{f[0]}-{f[1]}")
def test_product(form):
    problem = Problem(form)
    expected = problem.expected()
    kept = problem.wave.v[A:].copy()
    problem.wave.exec = 0x5555
    assert problem.wave.run(problem.text()) == 0
    found = result(problem.wave, D, problem.m, 1, problem.c.dtype.type)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(problem.wave.v[A:], kept)


@pytest.mark.parametrize(
    ("form", "modifiers", "shift"),
    [
        (FORMS[0], "abid:3", 24),
        (FORMS[0], "cbsz:1 abid:3", 0),
        (FORMS[2], "abid:1", 16),
        (FORMS[4], "abid:1", 16),
        (FORMS[6], "abid:1", 0),
    ],
)
def test_index_sets(form, modifiers, shift):
    problem = Problem(form, shift)
    expected = problem.expected()
    assert problem.wave.run(problem.text(modifiers)) == 0
    found = result(problem.wave, D, problem.m, 1, np.float32)
    np.testing.assert_array_equal(found, expected)


def test_values_that_are_not_stored_are_not_multiplied():
    problem = Problem(FORMS[0])
    problem.choice[:] = (0, 1)
    type_, _ = FLOATS["f16"]
    problem.b[:, 2::4] = type_(np.inf)
    problem.b[:, 3::4] = type_(np.nan)
    problem._place(np.ones((16, 16), type_), 0)
    assert problem.wave.run(problem.text()) == 0
    assert np.isfinite(result(problem.wave, D, 16, 1, np.float32)).all()


def test_an_index_set_that_does_not_exist_is_refused():
    with pytest.raises(UnknownInstruction, match="abid:2 with index sets of 16 bits"):
        lower_text(Problem(FORMS[2]).text("abid:2"), "gfx950")
