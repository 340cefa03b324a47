"""Problems of the hand-written assembly objects: x [4, 64] u32, results a row after the other.

The models follow the AMD Instinct MI300 ISA guide, chapters on the instructions and on data
sharing between lanes (DPP), sub-dword addressing (SDWA) and buffer addressing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from .problem import Expected, Problem

LANES = np.arange(64)
ALL = np.ones(64, bool)
MASK = 0xFFFFFFFF
WIDE_MASK = (1 << 64) - 1
Row = np.ndarray


def _inputs(rng: np.random.Generator) -> np.ndarray:
    """Random words of all lengths."""
    full = rng.integers(0, 1 << 32, size=(4, 64), dtype=np.uint32)
    return full >> rng.integers(0, 24, size=(4, 64)).astype(np.uint32) * (rng.random((4, 64)) < 0.4)


def _problem(x: np.ndarray, rows: Iterable[Row]) -> Problem:
    words = [np.array([int(v) & MASK for v in row], np.uint32) for row in rows]
    out = np.stack(words)
    return Problem({"x": x.astype(np.uint32), "out": np.full_like(out, 77)}, {"out": Expected(out)})


def _i32(row: Row) -> Row:
    return row.astype(np.uint32).view(np.int32).astype(np.int64)


def _signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _bits(value: int) -> Row:
    """The lanes of a 64-bit mask."""
    return np.array([value >> i & 1 for i in range(64)], bool)


# --- DPP -----------------------------------------------------------------------------------------


def _source(control: str) -> tuple[Row, Row]:
    """The lane that each lane reads, and whether there is one."""
    row, at = LANES // 16 * 16, LANES % 16
    kind, _, text = control.partition(":")
    if kind == "quad_perm":
        order = np.array([int(c) for c in text.strip("[]").split(",")])
        return LANES // 4 * 4 + order[LANES % 4], ALL
    n = int(text or 0)
    if kind == "row_shl":
        return row + (at + n) % 16, at + n < 16
    if kind == "row_shr":
        return row + (at - n) % 16, at - n >= 0
    if kind == "row_bcast":
        return (LANES - 16) // 16 * 16 % 64 + 15 if n == 15 else np.full(64, 31), ALL
    whole = {
        "row_ror": row + (at - n) % 16,
        "wave_rol": (LANES + 1) % 64,
        "wave_ror": (LANES - 1) % 64,
        "row_mirror": row + 15 - at,
        "row_half_mirror": LANES // 8 * 8 + 7 - LANES % 8,
        "row_newbcast": row + n,
    }
    if kind in whole:
        return whole[kind], ALL
    step = {"wave_shl": 1, "wave_shr": -1}[kind]
    return (LANES + step) % 64, (LANES + step >= 0) & (LANES + step < 64)


def _dpp(
    control: str, source: Row, operate: Callable[[Row], Row], old: Row, *,
    rows: int = 15, banks: int = 15, zero: bool = False, active: Row = ALL,
) -> Row:  # fmt: skip
    """``operate`` is given the moved source; lanes that are masked or have no source keep old."""
    lane, valid = _source(control)
    valid = valid & active[lane]
    written = active & (rows >> LANES // 16 & 1 == 1) & (banks >> LANES % 16 // 4 & 1 == 1)
    moved = np.where(valid, source[lane], 0)
    return np.where(written & (valid | zero), operate(moved), old)


_CONTROLS = (
    "quad_perm:[2,0,3,1]", "row_shl:3", "row_shr:5", "row_ror:7", "wave_shl:1", "wave_rol:1",
    "wave_shr:1", "wave_ror:1", "row_mirror", "row_half_mirror", "row_newbcast:6",
)  # fmt: skip


def dpp(rng: np.random.Generator) -> Problem:
    x = _inputs(rng)
    a, b, c = (r.astype(np.int64) for r in x[:3])
    active = _bits(0x0F0FF6FE_33FF77F0)
    rows = []
    for r, banks, zero, lanes in (
        (15, 15, False, ALL), (11, 7, True, ALL), (15, 15, False, active), (5, 13, True, active),
    ):  # fmt: skip
        for control in _CONTROLS:
            rows.append(
                _dpp(control, a, lambda m: m, b, rows=r, banks=banks, zero=zero, active=lanes)
            )
    rows += [
        _dpp("row_bcast:15", a, lambda m: m, b, rows=10),
        _dpp("row_bcast:31", a, lambda m: m, b, rows=12),
        _dpp("row_shr:1", a, lambda m: m + c, b),
        _dpp("quad_perm:[3,3,1,0]", a, lambda m: m ^ b, b),
        _dpp("row_half_mirror", a, lambda m: m - c, b, rows=6, zero=True),
        _dpp("row_ror:1", a, lambda m: np.maximum(_i32(m), _i32(c)), b, banks=9),
        _dpp("row_shl:1", a, lambda m: np.where(_i32(a) > _i32(b), c, m), b, zero=True),
    ]
    return _problem(x, rows)


# --- SDWA ----------------------------------------------------------------------------------------

_PART = {
    "DWORD": (0, 32), "WORD_0": (0, 16), "WORD_1": (16, 16),
    **{f"BYTE_{i}": (8 * i, 8) for i in range(4)},
}  # fmt: skip


def _part(row: Row, select: str, sext: bool = False) -> Row:
    shift, width = _PART[select]
    value = row >> shift & (1 << width) - 1
    return np.where(value >> width - 1 & 1, value - (1 << width), value) if sext else value


def _place(result: Row, select: str, unused: str, old: Row) -> Row:
    shift, width = _PART[select]
    value = result & (1 << width) - 1
    if unused == "PRESERVE":
        return old & ~(((1 << width) - 1) << shift) | value << shift
    if unused == "SEXT":
        value = np.where(value >> width - 1 & 1, value - (1 << width), value)
    return value << shift


def sdwa(rng: np.random.Generator) -> Problem:
    x = _inputs(rng)
    a, b, c, d = (r.astype(np.int64) for r in x)

    def p(row: Row, select: str, sext: bool = False) -> Row:
        return _part(row, select, sext)

    floats = p(a, "BYTE_1", True).astype(np.float32).view(np.uint32).astype(np.int64)
    some = _bits(0xAAAA5555_0FF0FF0F)
    product = p(a, "WORD_0") * p(b, "WORD_1")
    rows = [
        _place(p(a, "BYTE_3"), "BYTE_1", "PRESERVE", c),
        _place(p(a, "WORD_0"), "WORD_1", "PAD", c),
        p(a, "BYTE_2", True),
        _place(p(a, "BYTE_0"), "BYTE_2", "SEXT", c),
        p(a, "BYTE_1") + p(b, "WORD_1"),
        _place(p(a, "BYTE_0", True) + p(b, "WORD_0", True), "WORD_1", "PRESERVE", c),
        _place(p(a, "WORD_1", True) + p(b, "BYTE_2"), "BYTE_3", "PRESERVE", c),
        _place(p(a, "BYTE_3", True) - p(b, "BYTE_3"), "WORD_0", "SEXT", c),
        p(b, "WORD_1") << (p(a, "BYTE_0") & 31),
        product,
        _place(p(a, "BYTE_1") | p(b, "BYTE_2"), "BYTE_0", "PAD", c),
        np.maximum(p(a, "WORD_1", True), p(b, "WORD_0", True)),
        _place(np.maximum(p(a, "WORD_1"), p(b, "WORD_0")), "WORD_1", "PRESERVE", c),
        floats,
        p(a, "WORD_1") & 0x0FF3,
        np.where(p(a, "BYTE_3", True) < p(b, "BYTE_3", True), d, c),
        np.where(p(a, "BYTE_0") == p(b, "BYTE_0"), d, c),
        np.where(some, _place(p(a, "BYTE_0") + p(b, "BYTE_1"), "WORD_1", "PRESERVE", c), c),
    ]
    return _problem(x, rows)


# --- Lanes ---------------------------------------------------------------------------------------


def lanes(rng: np.random.Generator) -> Problem:
    x = _inputs(rng)
    a, b, c = (r.astype(np.int64) for r in x[:3])
    counts = np.bincount(c & 3, minlength=4)[c & 3]
    less = _i32(a) < _i32(b)
    bits = _bits(0x70707070_0F0F3355)
    below = np.concatenate([[0], np.cumsum(bits)[:-1]])
    rows = [
        a[::-1], np.cumsum(b), counts, np.full(64, a[8]), np.full(64, b[0]),
        np.where(less, b, a), less.astype(np.int64), c, a, below + LANES, b, a,
    ]  # fmt: skip
    return _problem(x, rows)


# --- Buffers -------------------------------------------------------------------------------------


def buffers(rng: np.random.Generator) -> Problem:
    x = _inputs(rng)
    memory = x.astype("<u4").tobytes()

    def word(offset: int) -> int:
        return int.from_bytes(memory[offset : offset + 4], "little")

    records = x.reshape(64, 4).astype(np.int64)
    kept = LANES < 48
    b = x[1].astype(np.int64)
    byte = np.array([memory[4 * i + 1] for i in range(64)])
    half = np.array([int.from_bytes(memory[4 * i + 514 : 4 * i + 516], "little") for i in LANES])

    def swizzled(offset: int) -> Row:
        places = (LANES // 8 * 16 + offset) * 8 + LANES % 8 * 4
        return np.array([word(at) for at in places])

    stored = np.full(64, 77)
    for i in range(50):
        stored[i] = int(x[0, i]) & 0xFFFF0000 | int(x[1, i]) >> 16
        stored[i] = stored[i] & 0xFFFFFF | (int(x[2, i]) & 0xFF) << 24
    rows = [
        np.where(kept, records[:, 2], 0),
        records[LANES // 4, LANES % 4],
        np.where(kept, records[:, 0] ^ records[:, 3], 0),
        np.where(kept, records[:, 2], 0),
        np.array([word(768 + 4 * i) if 772 + 4 * i <= 1000 else 0 for i in range(64)]),
        b & 0xFFFF | byte << 16,
        b & 0xFFFF0000 | half,
        np.array([_signed(memory[i], 8) for i in range(64)]),
        np.full(64, word(16) + word(20)),
        swizzled(4),
        swizzled(12),
        stored,
        x[0].astype(np.int64),
        x[0].astype(np.int64),
    ]
    return _problem(x, rows)


PROBLEMS: tuple[Callable[..., Problem], ...] = (dpp, sdwa, lanes, buffers)
