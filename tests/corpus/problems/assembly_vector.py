"""The models of vop3.s and lds.s: one lane at a time, in Python integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .assembly import LANES, MASK, _bits, _inputs, _problem, _signed
from .assembly_scalar import _leading, _leading_sign, _lowest, _reverse
from .problem import Problem


def _parts(value: int, width: int, signed: bool = False) -> list[int]:
    """Fields of ``width`` bits, the lowest first."""
    fields = [value >> at & (1 << width) - 1 for at in range(0, 32, width)]
    return [_signed(f, width) for f in fields] if signed else fields


def _join(fields: list[int], width: int) -> int:
    return sum((f & (1 << width) - 1) << width * i for i, f in enumerate(fields))


def _clip(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def _clip_i32(value: int) -> int:
    return _clip(value, -(1 << 31), (1 << 31) - 1)


def _bits_of(value: np.float32) -> int:
    return int(np.float32(value).view(np.uint32))


def _field(value: int, first: int, width: int, signed: bool) -> int:
    # The signed shift brings in the sign where the field reaches beyond bit 31.
    part = (_signed(value) if signed else value) >> (first & 31) & (1 << (width & 31)) - 1
    return _signed(part, width & 31) if signed and width & 31 else part


def _permute_bytes(a: int, b: int, select: int) -> int:
    """v_perm_b32: bytes 0-3 of b, 4-7 of a, 8-11 signs of odd bytes, 12 zero, others ones."""
    source = a << 32 | b
    result = []
    for s in _parts(select, 8):
        if s < 8:
            result.append(source >> 8 * s & 255)
        elif s < 12:
            result.append(255 * (source >> 16 * (s - 8) + 15 & 1))
        else:
            result.append(0 if s == 12 else 255)
    return _join(result, 8)


def _differences(a: int, b: int, width: int) -> list[int]:
    return [abs(p - q) for p, q in zip(_parts(a, width), _parts(b, width), strict=True)]


def _three_operands(a: int, b: int, c: int) -> list[int]:
    sa, sb, sc = (_signed(v) for v in (a, b, c))
    a24, b24, u24, v24 = _signed(a, 24), _signed(b, 24), a & 0xFFFFFF, b & 0xFFFFFF
    pairs = list(zip(_parts(a, 8), _parts(b, 8), strict=True))
    return [
        (a << 32 | b) >> 8 * (c & 3),
        (a << 32 | b) >> (c & 31),
        a & b | ~a & c,
        ((1 << (a & 31)) - 1) << (b & 31),
        _field(a, b, c, False),
        _field(a, b, c, True),
        sorted([sa, sb, sc])[1],
        sorted([a, b, c])[1],
        min(sa, sb, sc),
        max(a, b, c),
        sum(_differences(a, b, 8)) + c,
        (sum(_differences(a, b, 8)) << 16) + c,
        sum(_differences(a, b, 16)) + c,
        abs(a - b) + c,
        sum(abs(p - q) for p, q in pairs if q) + c,
        _join([(p + q + (r & 1)) >> 1 for (p, q), r in zip(pairs, _parts(c, 8), strict=True)], 8),
        _permute_bytes(a, b, c),
        a24 * b24 + sc,
        u24 * v24 + c,
        a24 * b24 >> 32,
        u24 * v24 >> 32,
        a24 * b24,
        sa * sb >> 32,
        a * b >> 32,
        a * b + c & 0xFFFF,
        _signed(a >> 16, 16) * _signed(b, 16) + _signed(c >> 16, 16) & 0xFFFF,
        a + b + c,
        (a << (b & 31)) + c,
        a + b << (c & 31),
        a << (b & 31) | c,
        a & b | c,
        a | b | c,
        (a ^ b) + c,
    ]


def _few_operands(a: int, b: int, c: int) -> list[int]:
    sa, sb = _signed(a), _signed(b)
    ah, bh, ch = (_parts(v, 16, True) for v in (a, b, c))
    au, bu = _parts(a, 16), _parts(b, 16)
    byte = 8 * (b & 3)
    return [
        _leading(a, 32),
        _lowest(a),
        _leading_sign(a, 32),
        _reverse(a, 32),
        a.bit_count() + b,
        _clip_i32(sa + sb),
        min(a + b, MASK),
        max(au[0] - bu[0], 0),
        _clip_i32(sa - sb),
        c & ~(255 << byte) | (a >> 16 & 255) << byte,
        _bits_of(np.float32(_signed(a, 4) / 16)),
        _join([_clip(h, 0, 255) for h in ah], 8),
        _join([au[1] + bu[0], au[0] + bu[1]], 16),
        _join([p * q + r for p, q, r in zip(ah, bh, ch, strict=True)], 16),
        _join([q >> (p & 15) for p, q in zip(au, bh, strict=True)], 16),
        _join([max(p, q) for p, q in zip(au, bu, strict=True)], 16),
        _join([_clip(p - q, -32768, 32767) for p, q in zip(ah, bh, strict=True)], 16),
    ]


def _wide(a: int, b: int, c: int, d: int) -> list[int]:
    cd = c | d << 32
    total = a * b + cd
    rows = [total, total >> 32, total >> 64]
    for value in (
        _signed(a) * _signed(b) + _signed(cd, 64), cd << (a & 63), _signed(cd, 64) >> (a & 63),
        cd >> (a & 63),
    ):  # fmt: skip
        rows += [value & MASK, value >> 32 & MASK]
    left, right = a | b << 32, cd
    rows += [left + right, left + right >> 32]
    rows += [left - right, left - right >> 32, left < right]
    return [*rows, right - left >> 32]


def _floats(a: int, b: int) -> list[int]:
    scale = np.float32(2.0**-31)
    x, y = np.float32(_signed(a)) * scale, np.float32(_signed(b)) * scale
    return [
        _bits_of(-x + abs(y)),
        _bits_of(np.clip(x * y, np.float32(0), np.float32(1))),
        _bits_of(max(-abs(x), y)),
        _bits_of(sorted([x, y, np.float32(0.5)])[1]),
        x != 0,
    ]


def vop3(rng: np.random.Generator) -> Problem:
    x = _inputs(rng)
    columns = []
    for a, b, c, d in x.T.tolist():
        columns.append(
            [*_three_operands(a, b, c), *_few_operands(a, b, c), *_wide(a, b, c, d), *_floats(a, b)]
        )
    return _problem(x, [np.array(row, object) for row in zip(*columns, strict=True)])


def _atomics(a: int, b: int, c: int, d: int) -> list[int]:
    """The word that each returning instruction leaves; it returns a."""
    compare = b if _signed(c) < _signed(d) else a
    return [
        a + b,
        b - a,
        0 if a >= b else a + 1,
        b if a == 0 or a > b else a - 1,
        min(_signed(a), _signed(b)),
        max(a, b),
        a & ~b | c,
        b,
        c if a == compare else a,
        a - b if a >= b else a + c,
    ]


def lds(rng: np.random.Generator) -> Problem:
    x = _inputs(rng)
    a, b, c, d = (r.astype(np.int64) for r in x)
    quad = np.array([1, 3, 0, 2])
    bitmask = LANES & 32 | (LANES & 7 | 8) ^ 2
    pull = (3 * LANES + 5) % 64
    pushed = np.zeros(64, np.int64)
    pushed[pull] = a
    some = _bits(0x55555555_F0FF0FF0)
    rows = [
        a[LANES // 4 * 4 + quad[LANES % 4]], a[LANES ^ 4], a[LANES ^ 7], a[LANES // 16 * 16 + 5],
        a[bitmask], a[pull], pushed, np.where(some, np.where(some[pull], a[pull], 0), b),
    ]  # fmt: skip
    for left in zip(*(_atomics(*words) for words in x.T.tolist()), strict=True):
        rows += [a, np.array(left, object)]
    rows += [c, np.concatenate([a[1:], b[:1]]), b, a, d, c]
    byte: Callable[[np.ndarray, int], np.ndarray] = lambda r, i: r >> 8 * i & 255  # noqa: E731
    signed_2 = (byte(a, 2) ^ 128) - 128
    rows += [
        (byte(a, 3) ^ 128) - 128,
        b & 0xFFFF0000 | byte(a, 1),
        b & 0xFFFF | signed_2 << 16,
        b & 0xFFFF | (a & 0xFFFF) << 16,
        (a >> 16 ^ 32768) - 32768,
        byte(a, 0) | byte(b, 2) << 8 | c >> 16 << 16,
        (a ^ b ^ c) + d,
        a + b + c,
        np.full(64, 1000 ^ 1011),
        np.full(64, 1000),
    ]
    return _problem(x, rows)


def waves(rng: np.random.Generator) -> Problem:
    """Two waves; x [1, 128] u32."""
    x = rng.integers(0, 1 << 32, size=(1, 128), dtype=np.uint32)
    own, items = x[0].astype(np.int64), np.arange(128)
    other = own[items ^ 64]
    counter = np.full(128, 1000 + 128 - 2 * 7)
    rows = [other, own[::-1], other[::-1], other[::-1], items[::-1], counter]
    return _problem(x, rows)


PROBLEMS = (vop3, lds, waves)
