"""The one-wave attention forward body: 16 query rows, 16 keys at a time, on matrix instructions.

Both products are computed transposed (see :mod:`rocke.helpers.matrix` for the orders chosen):

1. ``S^T = K Q^T``: a lane gets the scores of one query row (``lane mod 16``), keys
   ``4 * (lane / 16) + r``;
2. online softmax, base 2, in f32: mostly in-lane;
3. ``O^T += V^T P^T``: the weights are this product's operand as they stand.

K and V are read straight from memory through buffer descriptors that end at the last key: rows past
it read as 0, and their weights are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rocke.core.ir import F32, I64, IRBuilder, PtrType, ScalarType, Value, scalar_type, vec
from rocke.helpers.matrix import (
    ACCUMULATORS,
    ROWS,
    AttentionAtoms,
    contraction_chunks,
    row_groups,
    transpose_columns,
)
from rocke.helpers.online_softmax import (
    SoftmaxState,
    select_state,
    softmax_normalizer,
    softmax_step,
)
from rocke.helpers.spec import check_choice, check_int

MFMA_ATTN_BLOCK_M = ROWS
"""Query rows of one wave."""

MFMA_ATTN_BLOCK_K = 16
"""Keys of one tile."""

MAX_HEAD_SIZE = 256
"""Beyond this the accumulators, Q, K and V of one wave no longer fit its registers."""

TilePredicate = Callable[[IRBuilder, Value], Value]
"""``(b, kt) -> i1``: whether the 16-key tile ``kt`` (i32) takes part."""

NO_BOUND = -1
"""As an unsigned number of bytes: the most that a buffer descriptor holds."""


def check_head_size(head_size: object) -> str:
    """Why the body cannot have this head size; empty when it can."""
    return check_int("head_size", head_size, ROWS, MAX_HEAD_SIZE, multiple_of=ROWS)


def matrix_instructions_per_tile(head_size: int, dtype: str, arch: str) -> int:
    """Matrix instructions that one wave executes for one 16-key tile."""
    atoms = AttentionAtoms.of(arch, dtype)
    scores = sum(atoms.instructions(width) for _, width in contraction_chunks(head_size))
    return scores + head_size // ROWS


def mfma_attention_fwd_inner_body(
    b: IRBuilder,
    *,
    Q: Value,
    K: Value,
    V: Value,
    O: Value,
    head_size: int,
    seqlen_k: Value,
    q_tile_base: Value,
    head_idx: Value,
    kv_head_idx: Value,
    stride_q_token: Value,
    stride_q_head: Value,
    stride_k_token: Value,
    stride_k_head: Value,
    stride_v_token: Value,
    stride_v_head: Value,
    stride_o_token: Value,
    stride_o_head: Value,
    scale_log2: Value,
    dtype: str,
    mask_mode: str = "none",
    extra_mask_predicate: TilePredicate | None = None,
    arch: str = "gfx950",
    predicate_per_row: bool = False,
    seqlen_q: Value | None = None,
    max_seqlen_k: int | None = None,
) -> None:
    """Emit attention of the rows ``q_tile_base .. q_tile_base + 15`` of one head.

    ``Q``, ``K``, ``V`` and ``O`` are global pointers to ``dtype`` elements (``f16`` or ``bf16``);
    element ``d`` of row ``s`` and head ``h`` lies at ``h * stride_head + s * stride_token + d``.
    Lengths, indices and strides are i32, strides in elements; one head's rows span less than
    ``2**32`` bytes. Scores are multiplied by ``scale_log2`` (f32: log2(e) / sqrt(head size) for
    ordinary attention) and the softmax is base 2. A row without any key gives exactly 0.

    ``extra_mask_predicate`` may differ between lanes; a tile is skipped, loads and matrix work
    included, when no lane wants it. With ``predicate_per_row`` each lane speaks for the row
    ``lane mod 16``, and a tile reaches only the rows that want it; otherwise it reaches all 16.

    Keys from ``seqlen_k`` on, or from ``max_seqlen_k`` on where given, take no part. With
    ``seqlen_q`` rows from there on are not stored. All 64 lanes must be active.

    Raises ``ValueError`` for a head size, type or mask mode that the body does not honour, and
    binds the kernel to ``arch``.
    """
    for reason in (
        check_head_size(head_size),
        check_choice("dtype", dtype, ("f16", "bf16")),
        check_choice("mask_mode", mask_mode, ("none",)),
    ):
        if reason:
            raise ValueError(f"attention body: {reason}")
    b.bind_arch(arch)
    keys = seqlen_k if max_seqlen_k is None else b.smin(seqlen_k, max_seqlen_k)
    shape = _Shape(b, head_size, scalar_type(dtype), AttentionAtoms.of(arch, dtype))
    q = shape.rows_of(Q, head_idx, stride_q_head, stride_q_token, seqlen_q)
    k = shape.rows_of(K, kv_head_idx, stride_k_head, stride_k_token, keys)
    v = shape.rows_of(V, kv_head_idx, stride_v_head, stride_v_token, keys)
    o = shape.rows_of(O, head_idx, stride_o_head, stride_o_token, seqlen_q)

    q_row = b.add(q_tile_base, shape.row)
    query = _load_contraction(shape, q, q_row)
    tiles = b.ashr(b.add(keys, MFMA_ATTN_BLOCK_K - 1), 4)
    if seqlen_q is not None:
        tiles = b.select(b.cmp_lt(q_tile_base, seqlen_q), tiles, b.const_i32(0))

    def step(kt: Value, wanted: Value | None, state: _State) -> _State:
        scores = _scores(shape, k, query, kt, keys, scale_log2)
        softmax = softmax_step(b, state.softmax, scores)
        output = _accumulate(shape, v, kt, softmax.weights, softmax.rescale, state.output)
        new = _State(softmax.state, output)
        return new if wanted is None else _select(b, wanted, new, state)

    state = _over_tiles(shape, tiles, extra_mask_predicate, predicate_per_row, step)
    _store(shape, o, q_row, state)


@dataclass(frozen=True)
class _Rows:
    """The rows of one head in memory, behind a descriptor that ends with the last row."""

    b: IRBuilder
    buffer: Value
    stride: Value
    elem: ScalarType

    def load(self, row: Value, first: Value, count: int) -> Value:
        """``count`` elements of a row from ``first`` on; zeros for a row past the end."""
        offset = self.b.add(self.b.mul(row, self.stride), first)
        return self.b.buffer_load_vN(self.buffer, offset, self.elem, count)

    def store(self, row: Value, first: Value, values: Value, count: int) -> None:
        """Store ``count`` elements of a row; dropped for a row past the end."""
        offset = self.b.add(self.b.mul(row, self.stride), first)
        self.b.buffer_store_vN(self.buffer, offset, values, count)


class _Shape:
    """What is fixed for the whole body, and where the lane stands: its row and lane group."""

    def __init__(
        self, b: IRBuilder, head_size: int, elem: ScalarType, atoms: AttentionAtoms
    ) -> None:
        self.b, self.head_size, self.elem, self.atoms = b, head_size, elem, atoms
        lane = b.lane_id()
        self.row = b.land(lane, ROWS - 1)
        self.group = b.lshr(lane, 4)

    @property
    def tiles(self) -> int:
        """16-row tiles of O^T."""
        return self.head_size // ROWS

    def rows_of(
        self, base: Value, head: Value, stride_head: Value, stride_token: Value, rows: Value | None
    ) -> _Rows:
        """One head of a tensor; ``rows`` bounds it. Head offsets are 64-bit, the rest 32-bit."""
        b = self.b
        if not isinstance(base.type, PtrType) or base.type.elem != self.elem:
            raise ValueError(f"attention body: expected a pointer to {self.elem}, got {base.type}")
        pointer = b.ptr_add(base, b.mul(b.sext(head, I64), b.sext(stride_head, I64)))
        size = b.const_i32(NO_BOUND)
        if rows is not None:
            span = b.add(b.mul(b.sub(rows, 1), stride_token), self.head_size)
            size = b.mul(b.smax(span, 0), self.elem.bytes)
        return _Rows(b, b.buffer_rsrc(pointer, size), stride_token, self.elem)

    def key(self, kt: Value, r: int) -> Value:
        """The lane's ``r``-th key of tile ``kt``: 16 * kt + 4 * group + r."""
        b = self.b
        return b.add(b.add(b.mul(kt, MFMA_ATTN_BLOCK_K), b.mul(self.group, ACCUMULATORS)), r)


@dataclass(frozen=True)
class _State:
    """What a loop over tiles carries: the softmax state and O^T, unnormalised."""

    softmax: SoftmaxState
    output: list[Value]

    @staticmethod
    def start(b: IRBuilder, tiles: int) -> _State:
        return _State(SoftmaxState.start(b), [b.zero_vec(F32, ACCUMULATORS) for _ in range(tiles)])

    @staticmethod
    def of(values: tuple[Value, ...]) -> _State:
        maximum, total, *output = values
        return _State(SoftmaxState(maximum, total), output)

    def values(self) -> list[Value]:
        return [self.softmax.maximum, self.softmax.total, *self.output]


def _select(b: IRBuilder, wanted: Value, new: _State, old: _State) -> _State:
    """The new state for the rows that want the tile; NaN of a key they do not attend stays out."""
    output = [b.select(wanted, n, o) for n, o in zip(new.output, old.output, strict=True)]
    return _State(select_state(b, wanted, new.softmax, old.softmax), output)


def _over_tiles(
    shape: _Shape,
    tiles: Value,
    predicate: TilePredicate | None,
    per_row: bool,
    step: Callable[[Value, Value | None, _State], _State],
) -> _State:
    """Run ``step`` over the tiles that take part. The branch around one is the whole wave's."""
    b = shape.b
    first = _State.start(b, shape.tiles).values()
    types = [value.type for value in first]
    loop = b.scf_for_iter(0, tiles, 1, first, iv_name="kt")
    with loop as (kt, carried):
        state = _State.of(carried)
        if predicate is None:
            b.scf_yield(*step(kt, None, state).values())
        else:
            wanted = predicate(b, kt)
            with b.scf_if(b.wave_any(wanted), types) as branch:
                b.scf_yield(*step(kt, wanted if per_row else None, state).values())
            with branch.orelse():
                b.scf_yield(*carried)
            b.scf_yield(*branch.results)
    return _State.of(loop.results)


def _load_contraction(shape: _Shape, rows: _Rows, row: Value) -> list[Value]:
    """A row of Q or K as operands of the products over the head dimension."""
    b = shape.b
    return [
        rows.load(row, b.add(b.mul(shape.group, width), first), width)
        for first, width in contraction_chunks(shape.head_size)
    ]


def _scores(
    shape: _Shape, k: _Rows, query: list[Value], kt: Value, keys: Value, scale_log2: Value
) -> list[Value]:
    """The lane's 4 scaled scores of a tile; -inf for keys past the last."""
    b = shape.b
    key = _load_contraction(shape, k, b.add(b.mul(kt, MFMA_ATTN_BLOCK_K), shape.row))
    scores = b.zero_vec(F32, ACCUMULATORS)
    chunks = contraction_chunks(shape.head_size)
    for (_, width), key_chunk, query_chunk in zip(chunks, key, query, strict=True):
        scores = shape.atoms.multiply(b, key_chunk, query_chunk, scores, width)
    hidden = b.const_f32(float("-inf"))
    return [
        b.select(
            b.cmp_lt(shape.key(kt, r), keys),
            b.fmul(b.vec_extract(scores, r), scale_log2),
            hidden,
        )
        for r in range(ACCUMULATORS)
    ]


def _accumulate(
    shape: _Shape,
    v: _Rows,
    kt: Value,
    weights: list[Value],
    rescale: Value,
    output: list[Value],
) -> list[Value]:
    """``O^T * rescale + V^T P^T`` for one tile of keys."""
    b = shape.b
    weight = b.cast_f32_to(b.vec_pack(weights), vec(shape.elem, ACCUMULATORS))
    factor = b.vec_splat(rescale, ACCUMULATORS)
    result: list[Value] = []
    for first, width in row_groups(shape.head_size):
        column = b.add(b.mul(shape.row, width), first)
        rows = [v.load(shape.key(kt, r), column, width) for r in range(ACCUMULATORS)]
        for value in transpose_columns(b, rows, width):
            scaled = b.fmul(output[len(result)], factor)
            result.append(b.mma(shape.atoms.narrow, value, weight, scaled))
    return result


def _store(shape: _Shape, o: _Rows, q_row: Value, state: _State) -> None:
    """Normalise and store: of a row group, a lane holds ``4 * width`` neighbours of its row."""
    b = shape.b
    normalizer = softmax_normalizer(b, state.softmax)
    tile = 0
    for first, width in row_groups(shape.head_size):
        columns = state.output[tile : tile + width]
        tile += width
        values = [b.vec_extract(c, r) for r in range(ACCUMULATORS) for c in columns]
        results = b.vec_pack([b.fmul(value, normalizer) for value in values])
        narrow = b.cast_f32_to(results, vec(shape.elem, len(values)))
        start = b.add(b.mul(shape.group, ACCUMULATORS * width), first)
        count = min(8, len(values))
        for at in range(0, len(values), count):
            o.store(q_row, b.add(start, at), b.vec_slice(narrow, at, count), count)
