"""Block-sparse attention forward, the fast form: many waves, K and V through LDS.

One workgroup takes the rows of one query block (or a share of them), all waves together: K and V
tiles come to LDS one step ahead, each wave computes ``S^T = K Q^T``, softmax and
``O^T += V^T P^T`` for its rows. The loop runs over the listed blocks only: full tiles first,
without masks, then partial ones (last block, variable sizes, window edges).

The spec, the kernel's parameters and the launch rule are in :mod:`.bsa_spec`, the settings and
their defaults in :mod:`.bsa_settings`; the stages are :mod:`.bsa_steps` (which tiles),
:mod:`.bsa_staging` (memory to LDS), :mod:`.bsa_products`, :mod:`.bsa_softmax` and
:mod:`.bsa_output`, on the layouts of :mod:`.bsa_layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rocke.core.ir import F32, I32, I64, IRBuilder, KernelDef, Value

from .bsa_layout import SLOT
from .bsa_mask import hide_others
from .bsa_output import NOWHERE, OutputRow, head_pointer, merge_groups, store_rows
from .bsa_products import KeyReader, ValueReader, next_phase
from .bsa_settings import BlockSparseSettings, default_settings
from .bsa_shape import Place, Shape
from .bsa_softmax import Softmax, State
from .bsa_spec import (
    EMPTY_LSE,
    NO_WINDOW,
    BlockSparseAttentionSpec,
    block_sparse_attention_block,
    block_sparse_attention_grid,
    block_sparse_attention_signature,
    is_valid_block_sparse_spec,
    parameters,
)
from .bsa_staging import Rows, Staging, Step, Tiles, staging
from .bsa_steps import PORTION, VALID_BITS, Portion, StepList, Window

__all__ = [
    "EMPTY_LSE",
    "NO_WINDOW",
    "BlockSparseAttentionSpec",
    "BlockSparseSettings",
    "block_sparse_attention_block",
    "block_sparse_attention_grid",
    "block_sparse_attention_signature",
    "build_block_sparse_attention",
    "default_settings",
    "is_valid_block_sparse_spec",
]


Fetch = Callable[[Sequence[Value], Step], list[Value]]


def build_block_sparse_attention(spec: BlockSparseAttentionSpec, arch: str = "gfx950") -> KernelDef:
    """Build the kernel for one target; parameters as :mod:`.bsa_spec` says.

    Raises ``ValueError`` with the reason of :func:`is_valid_block_sparse_spec`.
    """
    ok, reason = is_valid_block_sparse_spec(spec, arch)
    if not ok:
        raise ValueError(f"invalid block-sparse attention spec: {reason}")
    shape = Shape.of(spec, arch)
    b = IRBuilder(spec.kernel_name(arch))
    b.bind_arch(arch)
    work_items = shape.settings.work_items
    b.kernel.attributes["max_workgroup_size"] = work_items
    b.kernel.attributes["required_workgroup_size"] = (work_items, 1, 1)
    b.kernel.attributes["waves_per_eu"] = shape.settings.waves_per_simd(shape.facts, spec.head_size)
    params = {
        name: b.param(name, type_, **promises)  # type: ignore[arg-type]
        for name, type_, promises in parameters(spec)
    }
    _emit(b, shape, params)
    b.ret()
    return b.kernel


def _emit(b: IRBuilder, shape: Shape, params: Mapping[str, Value]) -> None:
    """The kernel: find the rows, visit full tiles, then partial ones, merge and store."""
    place = Place.of(b, shape)
    rows = QueryRows.of(b, shape, place, params)
    keys, values = (rows.key_rows(b, params, name) for name in "kv")
    query = _load_query(b, shape, place, rows, params)
    out = rows.output(b, shape, place, params)
    with b.incoming_scope():
        stage = staging(b, shape, place, keys, values)
        visit = Visitor(b, shape, place, params, rows, stage, query)
        state = visit.softmax.start()
        state = visit.all_tiles(state)
    state = merge_groups(b, shape, place, stage.array, state)
    store_rows(b, shape, place, state, out)


@dataclass(frozen=True)
class QueryRows:
    """The rows of this workgroup and this lane (i32); ``batch``, ``head``, ``kv_head`` are i64.

    ``first`` is the workgroup's first row, ``row`` the lane's, ``in_block`` the lane's row within
    its query block. ``exists``: the grid's query block is one of the problem's.
    """

    batch: Value
    head: Value
    kv_head: Value
    q_block: Value
    first: Value
    row: Value
    in_block: Value
    exists: Value

    @staticmethod
    def of(b: IRBuilder, shape: Shape, place: Place, params: Mapping[str, Value]) -> QueryRows:
        """Decode the grid: x = query block and workgroup within it, y = query head, z = batch."""
        spec, settings = shape.spec, shape.settings
        head = b.block_id_y()
        kv_head = b.div(head, params["heads_per_kv"])
        batch64, head64, kv64 = (b.sext(v, I64) for v in (b.block_id_z(), head, kv_head))
        workgroups = -(-spec.block_q // settings.rows)
        q_block = b.div(b.block_id_x(), workgroups)
        share = b.sub(b.block_id_x(), b.mul(q_block, workgroups))
        exists = b.const_i1(True)
        if spec.row_order:
            order = head_pointer(b, params, "order", batch64, head64)
            q_block = b.readfirstlane(b.global_load_i32(order, q_block))
            block_q = spec.block_q
            count = b.div(b.add(params["seqlen_q"], block_q - 1), block_q)
            exists = b.cmp_ult(q_block, count)
            q_block = b.select(exists, q_block, b.const_i32(0))
        within = b.mul(share, settings.rows)
        in_block = b.add(b.add(within, b.mul(place.row_wave, settings.wave_rows)), place.column)
        base = b.mul(q_block, spec.block_q)
        return QueryRows(
            batch=batch64,
            head=head64,
            kv_head=kv64,
            q_block=q_block,
            first=b.add(base, within),
            row=b.add(base, in_block),
            in_block=in_block,
            exists=exists,
        )

    def key_rows(self, b: IRBuilder, params: Mapping[str, Value], name: str) -> Rows:
        """K or V of the head that the query head reads."""
        base = head_pointer(b, params, name, self.batch, self.kv_head)
        return Rows(base, params[f"stride_{name}_token"])

    def output(
        self, b: IRBuilder, shape: Shape, place: Place, params: Mapping[str, Value]
    ) -> OutputRow:
        """Where the lane's row goes; the first key group stores, LSE its first lane group."""
        seqlen_q, stride = params["seqlen_q"], params["stride_o_token"]
        stores = b.land(self.exists, b.cmp_lt(self.row, seqlen_q))
        if shape.spec.block_q % shape.settings.rows:
            stores = b.land(stores, b.cmp_lt(self.in_block, shape.spec.block_q))
        if shape.settings.waves_k > 1:
            stores = b.land(stores, b.cmp_eq(place.key_group, 0))
        span = b.add(b.mul(b.sub(seqlen_q, 1), stride), shape.spec.head_size)
        o = head_pointer(b, params, "o", self.batch, self.head)
        lse = None
        if shape.spec.need_lse:
            lse = head_pointer(b, params, "lse", self.batch, self.head)
            lse = b.buffer_rsrc(lse, b.mul(seqlen_q, F32.bytes))
        first = b.land(stores, b.cmp_eq(place.group, 0))
        return OutputRow(
            o=b.buffer_rsrc(o, b.mul(span, shape.elem.bytes)),
            o_offset=b.select(stores, b.mul(self.row, stride), NOWHERE),
            lse=lse,
            lse_offset=b.select(first, self.row, NOWHERE // 2),
        )

    def window(self, b: IRBuilder, shape: Shape, params: Mapping[str, Value]) -> Window | None:
        """The band mask, with its bounds relative to a row's number."""
        if shape.spec.mask_mode == "none":
            return None
        shift = b.sub(params["seqlen_k"], params["seqlen_q"])
        last = b.add(self.first, shape.settings.rows - 1)
        return Window(
            low=b.sub(shift, params["window_left"]),
            high=b.add(shift, params["window_right"]),
            first_row=self.first,
            last_row=b.smin(last, b.sub(params["seqlen_q"], 1)),
        )

    def steps(
        self, b: IRBuilder, shape: Shape, place: Place, params: Mapping[str, Value]
    ) -> StepList:
        """The pattern's row of this query block."""
        row = b.sext(self.q_block, I64)
        name = "indices" if shape.spec.pattern == "list" else "bitmap"
        pointer = head_pointer(b, params, name, self.batch, self.head)
        pointer = b.ptr_add(pointer, b.mul(row, params[f"stride_{name}_row"]))
        if name == "indices":
            counts = head_pointer(b, params, "counts", self.batch, self.head)
            count = b.readfirstlane(b.global_load_i32(counts, row))
            blocks = b.smax(b.smin(count, params["list_width"]), 0)
            size = b.mul(blocks, I32.bytes)
        else:
            block_k = shape.spec.block_k
            blocks = b.div(b.add(params["seqlen_k"], block_k - 1), block_k)
            size = blocks
        blocks = b.select(self.exists, blocks, b.const_i32(0))
        pattern = b.buffer_rsrc(pointer, size)
        window = self.window(b, shape, params)
        return StepList(b, shape, place, params, pattern, blocks, window)


def _load_query(
    b: IRBuilder, shape: Shape, place: Place, rows: QueryRows, params: Mapping[str, Value]
) -> list[Value]:
    """The lane's query row as operands of the first product; rows past the last repeat it."""
    row = b.smin(rows.row, b.sub(params["seqlen_q"], 1))
    pointer = head_pointer(b, params, "q", rows.batch, rows.head)
    start = b.mul(row, params["stride_q_token"])
    return [
        b.global_load_vN(
            pointer,
            b.add(b.add(start, first * SLOT), b.mul(place.group, width)),
            shape.elem,
            width,
            align=2 * width,
        )
        for first, width in shape.dimension_chunks()
    ]


class Visitor:
    """The loop over the key tiles of a query block."""

    def __init__(
        self,
        b: IRBuilder,
        shape: Shape,
        place: Place,
        params: Mapping[str, Value],
        rows: QueryRows,
        stage: Staging,
        query: Sequence[Value],
    ) -> None:
        self.b, self.shape, self.place, self.stage, self.query = b, shape, place, stage, query
        self.rows = rows
        self.steps = rows.steps(b, shape, place, params)
        self.softmax = Softmax(b, shape, params["scale_log2"])
        self.keys = KeyReader(b, shape, place, stage.array)
        self.values = ValueReader(b, shape, place, stage.array)

    def all_tiles(self, state: State) -> State:
        """Visit the full tiles, then the partial ones.

        With two key groups the loop over full tiles runs as long as both have one; an odd last one
        goes to the partial tiles, whose loop lets a group sit out.
        """
        none = self.b.const_i32(0)
        state, left = self._pass(state, none, partial=False)
        state, _ = self._pass(state, left, partial=True)
        return state

    def _pass(self, state: State, carried_over: Value, *, partial: bool) -> tuple[State, Value]:
        """Visit the full (or the partial) tiles, one portion at a time.

        Takes and gives the entry of a full tile that is carried over to the partial ones, or 0.
        """
        b, none = self.b, self.b.const_i32(0)
        first = [none, carried_over, *state.values()]
        loop = b.scf_for_iter(0, self.steps.n, PORTION, first, iv_name="position")
        with loop as (position, (start, over, *carried)):
            portion = self.steps.portion(start, over if partial else none, partial=partial)
            buffer = b.land(b.div(position, PORTION), 1)
            new = self._visit(State.of(carried), portion, buffer, partial)
            left = none if partial else b.lor(over, self._left_over(portion))
            b.scf_yield(portion.following, left, *new.values())
        _, left, *values = loop.results
        return State.of(values), left

    def _left_over(self, portion: Portion) -> Value:
        """The last entry of a portion that the key groups cannot share evenly, else 0."""
        b, none = self.b, self.b.const_i32(0)
        if self.shape.settings.waves_k == 1:
            return none
        last = self.steps.entry(portion, b.smax(b.sub(portion.count, 1), 0))
        return b.select(b.cmp_eq(b.land(portion.count, 1), 1), last, none)

    def _visit(self, state: State, portion: Portion, buffer: Value, partial: bool) -> State:
        """Visit one portion's tiles: the next is staged while this one is computed."""
        b, waves_k = self.b, self.shape.settings.waves_k
        shared = partial and waves_k > 1
        turns = b.div(b.add(portion.count, waves_k - 1) if partial else portion.count, waves_k)
        end = portion.count if shared else b.mul(turns, waves_k)

        def step(turn: Value) -> Step:
            """The tile of this wave's group in a turn."""
            index = turn if waves_k == 1 else b.add(b.mul(turn, waves_k), self.place.key_group)
            entry = self.steps.entry(portion, index)
            valid = b.land(entry, (1 << VALID_BITS) - 1) if partial else None
            # A mask by arithmetic: a comparison would hold the scalar condition code meanwhile.
            wanted = b.ashr(b.sub(index, end), 31)
            return Step(b.lshr(entry, VALID_BITS), valid, wanted)

        started = self.stage.begin(step(b.const_i32(0)), buffer)
        count = len(started)
        loop = b.scf_for_iter(0, turns, 1, [*started, *state.values()], iv_name="turn")
        with loop as (turn, carried):
            tiles = self.stage.arrive(carried[:count])

            def compute(carried: Sequence[Value], turn: Value) -> list[Value]:
                here, following = step(turn) if partial else None, step(b.add(turn, 1))
                staged: list[Value] = []

                def fetch(start: Fetch) -> Callable[[], None]:
                    return lambda: staged.extend(start(carried[:count], following))

                meanwhile = fetch(self.stage.fetch_keys), fetch(self.stage.fetch_values)
                new = self._tile(State.of(carried[count:]), tiles, here, meanwhile)
                return [*staged, *new.values()]

            if not shared:
                b.scf_yield(*compute(carried, turn))
            else:
                with b.scf_if(b.cmp_ne(step(turn).wanted, 0), [v.type for v in carried]) as branch:
                    b.scf_yield(*compute(carried, turn))
                with branch.orelse():
                    b.scf_yield(*carried)
                b.scf_yield(*branch.results)
        return State.of(loop.results[count:])

    def _tile(
        self,
        state: State,
        tiles: Tiles,
        here: Step | None,
        meanwhile: Sequence[Callable[[], None]],
    ) -> State:
        """One tile: scores, softmax, output. ``here`` is the step of a partial tile."""
        b = self.b
        scores = self.keys.scores(tiles.keys, self.query, meanwhile)
        within = self.values.within(tiles.values)
        ahead = self.values.read(within, 0)
        if here is not None:
            low, end = self._attended(here)
            scores = hide_others(b, self.shape, self.place, scores, low, end)
        state = self.softmax.grow(state, scores)
        chunks = self.shape.atoms.chunks(self.shape.key_quads)
        parts = [slice(4 * quad, 4 * quad + width) for quad, width in chunks]
        state, weight = self.softmax.weigh(state, scores[parts[0]])
        for i in range(len(chunks)):
            next_phase(b)
            fragments, more = ahead, i + 1 < len(chunks)
            ahead = self.values.read(within, i + 1) if more else []
            output = self.values.accumulate(fragments, weight, state.output)
            if more:
                state, weight = self.softmax.weigh(state, scores[parts[i + 1]])
            state = replace(state, output=tuple(output))
        return state

    def _attended(self, step: Step) -> tuple[Value, Value]:
        """The keys ``[low, end)`` of a partial tile that the lane's row attends."""
        b, window = self.b, self.steps.window
        low, end = b.const_i32(0), step.valid
        assert end is not None
        if window is not None:
            row = b.sub(self.rows.row, b.mul(step.number, self.shape.settings.tile_k))
            low = b.smax(b.add(row, window.low), 0)
            end = b.smin(b.add(b.add(row, window.high), 1), end)
        return low, end
