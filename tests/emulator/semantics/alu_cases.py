"""Operand values and the comparison loop of the per-instruction tests.

A case is an assembly template with ``{0}``, ``{1}``, ... for the sources, the numpy types of
results and sources (``m`` for a lane mask) and an independent statement of the meaning on arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from rocke.emulator.instruction import EXEC, VCC, Instruction
from rocke.emulator.semantics import FloatMode
from tests.emulator.semantics.alu_harness import FULL, PARTIAL, Wave, assemble, compile_all

F16, F32, F64 = np.float16, np.float32, np.float64
BF16 = ml_dtypes.bfloat16
MASK = "m"
DEFAULT = FloatMode()
Kind = type | str
ROW = np.arange(64, dtype=np.uint64)

_EDGE_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 2.0, 3.0, 1e-3, -7.25, 100.0, 65504.0, 0.1,
    np.inf, -np.inf, np.nan,
]  # fmt: skip


def edge_values(kind: Kind, rng: np.random.Generator, count: int) -> np.ndarray:
    """``count`` values, half of them edges: zeros, infinities, NaNs, subnormals, extremes."""
    if kind == MASK:
        return rng.integers(0, 2, count).astype(bool)
    dtype = np.dtype(kind)
    if dtype.kind in "ui":
        info = np.iinfo(dtype)
        edges = [0, 1, 2, 3, 7, 15, 16, 31, 32, 33, 63, 64, 255, info.max, info.max - 1, info.min]
        if dtype.kind == "i":
            edges += [-1, -2, info.min + 1]
        pool = np.array(edges, dtype)
        random = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    else:
        bits = np.dtype(f"u{dtype.itemsize}")
        pool = np.array(_EDGE_FLOATS, np.float32).astype(dtype)
        mantissa = {F16: 10, F32: 23, F64: 52}.get(kind, 7)
        top = np.iinfo(bits).max
        patterns = [
            1,
            (1 << mantissa) - 1,
            1 << mantissa,
            (1 << mantissa - 1) | top >> 1 << mantissa,
        ]
        inf = (top >> 1) >> mantissa << mantissa
        patterns += [inf - 1, inf + 1, 3, 1 << (mantissa // 2)]
        extra = np.array([p & top for p in patterns], bits)
        pool = np.concatenate(
            [pool.view(bits), extra, extra ^ bits.type(1 << (dtype.itemsize * 8 - 1))]
        )
        pool = pool.view(dtype)
        wide = rng.integers(0, top, count, dtype=bits, endpoint=True).view(dtype)
        plain = (rng.standard_normal(count) * 4).astype(dtype)
        random = np.where(rng.integers(0, 2, count) == 0, wide, plain)
    edge = pool[rng.integers(0, len(pool), count)]
    return np.where(rng.integers(0, 2, count) == 0, edge, random)


@dataclass(frozen=True)
class Case:
    """One instruction form; ``meaning`` gets the sources (then the old result if asked for)."""

    template: str
    results: tuple[Kind, ...]
    sources: tuple[Kind, ...]
    meaning: Callable[..., object]
    arch: str = "gfx942"
    ulp: int = 0
    reads_result: bool = False
    mode: FloatMode = DEFAULT
    scalars: bool = True
    """Whether each source may also be a scalar register."""

    @property
    def name(self) -> str:
        mode = "" if self.mode == DEFAULT else f" {self.mode.tag}"
        return f"{self.template} {self.arch}{mode}"

    def lines(self) -> list[str]:
        """The assembly of all operand forms: all vector, then each source scalar in turn."""
        forms = [-1]
        if self.scalars:
            forms += [i for i, k in enumerate(self.sources) if k != MASK]
        return [
            self.template.format(*(_place(i, k, i == form) for i, k in enumerate(self.sources)))
            for form in forms
        ]


def _width(kind: Kind) -> int:
    return 2 if kind != MASK and np.dtype(kind).itemsize == 8 else 1


def _place(index: int, kind: Kind, scalar: bool) -> str:
    first = 10 + 2 * index
    if kind == MASK:
        return f"s[{first}:{first + 1}]"
    letter = "s" if scalar else "v"
    return f"{letter}{first}" if _width(kind) == 1 else f"{letter}[{first}:{first + 1}]"


def _bits(values: np.ndarray) -> np.ndarray:
    size = values.dtype.itemsize
    raw = values.view(f"u{size}")
    return raw.astype(np.uint32) if size < 4 else raw


def prepare(cases: list[Case]) -> dict[str, list[Instruction]]:
    """Assemble all cases and compile their helpers in one batch a target."""
    found: dict[str, list[Instruction]] = {}
    for arch in sorted({c.arch for c in cases}):
        mine = [c for c in cases if c.arch == arch]
        lines = [line for case in mine for line in case.lines()]
        instructions = assemble(lines, arch)
        taken = iter(instructions)
        for case in mine:
            found[case.name] = [next(taken) for _ in case.lines()]
        for mode in {c.mode for c in mine}:
            chosen = [i for c in mine if c.mode == mode for i in found[c.name]]
            compile_all(chosen, arch, [mode])
    return found


def check(case: Case, instructions: list[Instruction], waves: int = 6) -> None:
    """Run every form, with full and partial EXEC, against the case's meaning."""
    rng = np.random.default_rng(sum(map(ord, case.template)))
    for form, inst in enumerate(instructions):
        for turn in range(waves):
            scalar = form - 1 if form else -1
            if form:
                typed = [i for i, k in enumerate(case.sources) if k != MASK]
                scalar = typed[form - 1]
            _check_once(case, inst, scalar, rng, FULL if turn % 2 == 0 else PARTIAL)


def _check_once(
    case: Case, inst: Instruction, scalar: int, rng: np.random.Generator, exec_mask: int
) -> None:
    wave = Wave()
    wave.exec = exec_mask
    wave.v[:] = rng.integers(0, 1 << 32, wave.v.shape, dtype=np.uint32)
    wave.s[:100] = rng.integers(0, 1 << 32, 100, dtype=np.uint32)
    wave.set_s64(VCC, int(rng.integers(0, 1 << 63)))
    values = []
    for i, kind in enumerate(case.sources):
        data = edge_values(kind, rng, 64)
        if i == scalar:
            data = np.full(64, data[0])
        values.append(data)
        _load(wave, 10 + 2 * i, kind, data, i == scalar)
    if case.reads_result:
        data = edge_values(case.results[0], rng, 64)
        values.append(data)
        _load(wave, 0, case.results[0], data, False)
    before_v, before_s = wave.v.copy(), wave.s.copy()
    wave.run(inst, case.arch, case.mode)
    with np.errstate(all="ignore"):
        outcome = case.meaning(*values)
    outcomes = outcome if isinstance(outcome, tuple) else (outcome,)
    active = (np.uint64(exec_mask) >> ROW & np.uint64(1)).astype(bool)
    rows = 0
    for kind, expected in zip(case.results, outcomes, strict=True):
        if kind == MASK:
            index = inst.operands[case.results.index(MASK)].index
            want = sum(1 << i for i in range(64) if active[i] and expected[i])
            got = wave.s64(index)
            assert got == want, f"{inst.text}: mask {got:#x} instead of {want:#x}"
            before_s[index : index + 2] = wave.s[index : index + 2]
            if inst.mnemonic.startswith("v_cmpx"):
                assert wave.exec == want
                before_s[EXEC : EXEC + 2] = wave.s[EXEC : EXEC + 2]
            continue
        rows = _width(kind)
        with np.errstate(all="ignore"):
            expected = np.asarray(expected).astype(kind)
        got = wave.v64(0) if rows == 2 else wave.v[0]
        old = before_v[0] if rows == 1 else None
        _compare(case, inst, kind, got, expected, active, values)
        if old is not None:
            assert np.array_equal(wave.v[0][~active], old[~active]), "inactive lanes changed"
        else:
            assert np.array_equal(wave.v[:2, ~active], before_v[:2, ~active])
    assert np.array_equal(wave.v[rows:], before_v[rows:]), "other vector registers changed"
    assert np.array_equal(wave.s, before_s), "other scalar registers changed"


def _load(wave: Wave, index: int, kind: Kind, data: np.ndarray, scalar: bool) -> None:
    if kind == MASK:
        wave.set_s64(index, sum(1 << i for i in range(64) if data[i]))
    elif _width(kind) == 2:
        if scalar:
            wave.set_s64(index, int(data.view(np.uint64)[0]))
        else:
            wave.set_v64(index, data)
    elif scalar:
        wave.s[index] = _bits(data)[0]
    else:
        # The high half of a 16-bit source is not looked at: leave random bits there.
        mask = (1 << 8 * data.dtype.itemsize) - 1
        wave.v[index] = (wave.v[index] & ~np.uint32(mask)) | (_bits(data) & np.uint32(mask))


def _compare(
    case: Case,
    inst: Instruction,
    kind: Kind,
    got: np.ndarray,
    expected: np.ndarray,
    active: np.ndarray,
    values: list[np.ndarray],
) -> None:
    want = _bits(expected)
    bad = (got != want) & active
    dtype = np.dtype(kind)
    if dtype.kind not in "ui":
        numbers = got.astype(f"u{dtype.itemsize}").view(dtype)
        with np.errstate(all="ignore"):
            nan = np.isnan(numbers.astype(np.float64)) & np.isnan(expected.astype(np.float64))
        bad &= ~nan
        if case.ulp:
            bad &= np.abs(_ordered(got, dtype) - _ordered(want, dtype)) > case.ulp
    if bad.any():
        lane = int(np.argmax(bad))
        given = ", ".join(f"{v[lane]!r} ({_hex(v, lane)})" for v in values)
        raise AssertionError(
            f"{inst.text}: lane {lane}: sources {given}: got {int(got[lane]):#x}, "
            f"expected {int(want[lane]):#x} ({expected[lane]!r}); {int(bad.sum())} lanes differ"
        )


def _hex(values: np.ndarray, lane: int) -> str:
    return hex(int(_bits(values)[lane])) if values.dtype != bool else ""


def _ordered(bits: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Float patterns as integers in numeric order, so that neighbours differ by 1."""
    signed = np.dtype(f"i{dtype.itemsize}")
    raw = bits.astype(f"u{dtype.itemsize}").view(signed).astype(np.int64)
    return np.where(raw < 0, np.iinfo(signed).min - raw, raw)
