"""The register contents that a random program starts with."""

from __future__ import annotations

import numpy as np

from .machine import EXEC, M0, VCC

VGPRS, AGPRS = 96, 32


def _values(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Register contents of many kinds: any bits, small integers, floats, halves, edges."""
    edges = np.array(
        [
            *(0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0x7F800000, 0xFF800000),
            *(0x7FC00000, 0x807FFFFF, 0x7F7FFFFF, 0x7C003C00, 0x18000, 0xFFFF0000, 0x7FF00000),
        ],
        np.uint32,
    )
    kinds = np.stack(
        [
            rng.integers(0, 1 << 32, shape, dtype=np.uint32),
            rng.integers(-40, 40, shape).astype(np.int32).view(np.uint32),
            (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape))
            .astype(np.float32)
            .view(np.uint32),
            (rng.standard_normal((*shape, 2)) * 8).astype(np.float16).view(np.uint32)[..., 0],
            rng.choice(edges, shape),
        ]
    )
    weights = [0.25, 0.2, 0.3, 0.2, 0.05]
    return np.take_along_axis(kinds, rng.choice(5, (1, *shape), p=weights), axis=0)[0]


def first_registers(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First values of v, a and s; see :mod:`.generator` for who uses which."""
    v, a = np.zeros((VGPRS, 64), np.uint32), np.zeros((AGPRS, 64), np.uint32)
    v[:32] = _values(rng, (32, 64))
    v[33] = 16 * np.arange(64)
    v[63] = 4 * np.arange(64)

    def small(shape: tuple[int, ...]) -> np.ndarray:
        return rng.integers(-2, 3, shape)

    v[64:72] = np.ascontiguousarray(small((8, 64, 2)).astype(np.float16)).view(np.uint32)[..., 0]
    bf16 = (small((8, 64, 2)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    v[72:80] = np.ascontiguousarray(bf16).view(np.uint32)[..., 0]
    v[80:88] = np.ascontiguousarray(small((8, 64, 4)).astype(np.int8)).view(np.uint32)[..., 0]
    v[88:90] = small((2, 64)).astype(np.float32).view(np.uint32)
    for rows in (a[:16], v[48:52]):
        rows[:] = small(rows.shape).astype(np.float32).view(np.uint32)
    for rows in (a[16:], v[52:56]):
        rows[:] = small(rows.shape).astype(np.int32).view(np.uint32)
    s = np.zeros(128, np.uint32)
    s[8:40] = _values(rng, (32,))
    s[62], s[64], s[65] = 0xFBFFFBFF, 0xFFFFFFFF, 0xFFEFFFFF
    s[VCC : VCC + 2] = rng.integers(0, 1 << 32, 2)
    s[M0] = rng.integers(0, 64)
    s[EXEC : EXEC + 2] = 0xFFFFFFFF if rng.random() < 0.5 else rng.integers(0, 1 << 32, 2)
    return v, a, s
