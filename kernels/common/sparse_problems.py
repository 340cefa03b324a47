"""Random problems for the block-sparse attention families."""

from __future__ import annotations

from math import e, log2, sqrt
from typing import Any

import ml_dtypes
import numpy as np

from ..family import Problem
from .sparse_spec import JengaSparseSpec, SparseGeometry, VsaSparseSpec

PATTERNS = ("random", "none", "one", "first", "last", "all")
LAYOUTS = ("token", "head")
DEFAULT_DENSITY = 0.25
NUMPY_TYPES: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}

GARBAGE = (-1, -(2**31), 2**31 - 1)
"""List entries that are no block numbers of any kernel."""


def attended_blocks(
    rng: np.random.Generator, spec: SparseGeometry, density: float, pattern: str
) -> list[np.ndarray]:
    """The key blocks of each query block, in random order.

    ``pattern``: ``random`` draws ``density`` of the blocks for each row, rounded so that the mean
    holds; ``one`` draws one block a row; ``first``, ``last``, ``none`` and ``all`` say themselves.
    """
    blocks = spec.num_k_blocks
    if pattern == "random":
        counts = np.floor(density * blocks + rng.random(spec.num_q_blocks)).astype(int)
        return [rng.permutation(blocks)[:n] for n in counts]
    if pattern in ("first", "last"):
        return [np.array([0 if pattern == "first" else blocks - 1])] * spec.num_q_blocks
    count = {"none": 0, "one": 1, "all": blocks}[pattern]
    return [rng.permutation(blocks)[:count] for _ in range(spec.num_q_blocks)]


def attention_bytes(heads: int, tokens: tuple[int, int], head_size: int, blocks: int) -> int:
    """An estimate of the bytes that an attention problem and its reference hold at once.

    ``heads`` counts those of the whole batch, ``tokens`` queries and keys, ``blocks`` the entries
    of the pattern. An element of Q, K, V or O counts 12 bytes: it is drawn as f32, and the
    reference computes a head in float64. An entry of the pattern counts 20: a float64, and lists.
    """
    return 12 * heads * 2 * sum(tokens) * head_size + 20 * blocks


def make_jenga_problem(
    spec: JengaSparseSpec,
    rng: np.random.Generator,
    *,
    density: float | None = None,
    pattern: str = "random",
    layout: str = "token",
    seqlen_q: int | None = None,
    seqlen_k: int | None = None,
) -> Problem:
    """Random arguments of a Jenga launch; options as :func:`make_vsa_problem`."""
    choices = _Options(density, pattern, layout, seqlen_q, seqlen_k)
    mask = np.zeros((spec.num_q_blocks, spec.num_k_blocks), np.int8)
    for row, blocks in zip(mask, choices.attended(rng, spec), strict=True):
        row[blocks] = 1
    return _problem(spec, rng, choices, {"mask": mask})


def make_vsa_problem(
    spec: VsaSparseSpec,
    rng: np.random.Generator,
    *,
    density: float | None = None,
    pattern: str = "random",
    layout: str = "token",
    seqlen_q: int | None = None,
    seqlen_k: int | None = None,
    lists: str = "clean",
) -> Problem:
    """Random arguments of a VSA launch.

    Options: ``density`` (0 to 1, of the pattern ``random`` only; left out, 0.25 or what fits the
    lists) and ``pattern`` as :func:`attended_blocks`; ``layout``: the axis
    that comes first in memory, ``token`` or ``head``; ``seqlen_q`` and ``seqlen_k``: run-time
    lengths, at most (and by default) the spec's; ``lists`` (VSA only): ``clean``, or ``dirty`` with
    entries out of range, duplicates and counts beyond the row. Entries past the count are always
    garbage. Raises ``ValueError`` for an impossible option.
    """
    choices = _Options(density, pattern, layout, seqlen_q, seqlen_k, lists)
    rows, width = spec.num_q_blocks, spec.max_blocks_per_q
    choices.limit_density(width / spec.num_k_blocks)
    lut = rng.choice(np.array((*GARBAGE, spec.num_k_blocks), np.int64), (rows, width))
    count = np.zeros(rows, np.int32)
    for i, blocks in enumerate(choices.attended(rng, spec)):
        if len(blocks) > width:
            raise ValueError(
                f"{choices} attends {len(blocks)} of {spec.num_k_blocks} blocks in a row, "
                f"max_blocks_per_q is {width}"
            )
        listed = blocks
        if choices.lists == "dirty":
            garbage = rng.choice(np.array((*GARBAGE, spec.num_k_blocks), np.int64), 2)
            listed = rng.permutation(np.concatenate([listed, listed[:2], garbage]))[:width]
        lut[i, : len(listed)] = listed
        count[i] = len(listed)
        if choices.lists == "dirty" and len(listed) == width:
            count[i] = width + rng.integers(1, 1000)
    return _problem(spec, rng, choices, {"block_lut": lut.astype(np.int32), "block_count": count})


class _Options:
    def __init__(
        self,
        density: float | None,
        pattern: str,
        layout: str,
        seqlen_q: int | None,
        seqlen_k: int | None,
        lists: str = "clean",
    ) -> None:
        if density is not None and not 0 <= density <= 1:
            raise ValueError(f"density is {density!r}, expected 0 to 1")
        for name, value, known in (
            ("pattern", pattern, PATTERNS),
            ("layout", layout, LAYOUTS),
            ("lists", lists, ("clean", "dirty")),
        ):
            if value not in known:
                raise ValueError(f"{name} is {value!r}, expected one of {', '.join(known)}")
        if density is not None and pattern != "random":
            raise ValueError(
                f"density is {density}, but pattern {pattern!r} has a density of its own: leave "
                "one out"
            )
        self.density, self.pattern, self.layout, self.lists = density, pattern, layout, lists
        self.default_density = DEFAULT_DENSITY
        self.seqlen_q, self.seqlen_k = seqlen_q, seqlen_k

    def attended(self, rng: np.random.Generator, spec: SparseGeometry) -> list[np.ndarray]:
        density = self.default_density if self.density is None else self.density
        return attended_blocks(rng, spec, density, self.pattern)

    def limit_density(self, most: float) -> None:
        """Lower the density that holds where none was asked for."""
        self.default_density = min(self.default_density, most)

    def __str__(self) -> str:
        random = self.pattern == "random"
        return f"density {self.density}" if random else f"pattern {self.pattern!r}"

    def lengths(self, spec: SparseGeometry) -> tuple[int, int]:
        found = []
        for name, value, most in (
            ("seqlen_q", self.seqlen_q, spec.seqlen_q),
            ("seqlen_k", self.seqlen_k, spec.seqlen_k),
        ):
            value = most if value is None else value
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise ValueError(f"{name} is {value!r}, expected an integer")
            if not 1 <= value <= most:
                raise ValueError(f"{name} is {value}, expected 1 to the spec's {most}")
            found.append(value)
        return found[0], found[1]


def _problem(
    spec: SparseGeometry, rng: np.random.Generator, options: _Options, pattern: dict[str, Any]
) -> Problem:
    shape = spec.common.shape
    seqlen_q, seqlen_k = options.lengths(spec)
    dtype = NUMPY_TYPES[spec.common.dtype]

    def tensor(tokens: int, heads: int) -> np.ndarray:
        first, second = (tokens, heads) if options.layout == "token" else (heads, tokens)
        values = rng.standard_normal((first, second, shape.head_size), np.float32).astype(dtype)
        return values if options.layout == "token" else values.swapaxes(0, 1)

    arrays = {
        "Q": tensor(seqlen_q, shape.num_query_heads),
        "K": tensor(seqlen_k, shape.num_kv_heads),
        "V": tensor(seqlen_k, shape.num_kv_heads),
        "O": tensor(seqlen_q, shape.num_query_heads),
    }
    arrays["O"][...] = np.nan
    strides = {
        f"stride_{name.lower()}_{axis}": arrays[name].strides[i] // dtype.itemsize
        for name in arrays
        for i, axis in enumerate(("token", "head"))
    }
    scalars = {
        "scale_log2": log2(e) / sqrt(shape.head_size),
        "seqlen_q": seqlen_q,
        "seqlen_k": seqlen_k,
    }
    return Problem({**arrays, **pattern, **scalars, **strides}, ("O",))
