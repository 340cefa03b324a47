"""Block-sparse attention forward, the fast form: many waves, K and V through LDS.

One workgroup takes the rows of one query block (or a share of them), all waves together: K and V
tiles come to LDS one step ahead, each wave computes ``S^T = K Q^T``, softmax and
``O^T += V^T P^T`` for its rows. The loop runs over the listed blocks only: full tiles first,
without masks, then partial ones (last block, variable sizes, window edges).

The spec, the kernel's parameters and the launch rule are in :mod:`.bsa_spec`, the settings and
their defaults in :mod:`.bsa_settings`; the stages are :mod:`.bsa_order` and :mod:`.bsa_rows` (which
rows), :mod:`.bsa_steps` (which tiles), :mod:`.bsa_staging` (memory to LDS), :mod:`.bsa_products`,
:mod:`.bsa_softmax`, :mod:`.bsa_mask` and :mod:`.bsa_output`, on the layouts of :mod:`.bsa_layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rocke.core.ir import IRBuilder, KernelDef, Value

from .bsa_mask import hide_others
from .bsa_output import merge_groups, store_rows
from .bsa_products import KeyReader, ValueReader, next_phase
from .bsa_rows import QueryRows, load_query
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
from .bsa_staging import Staging, Step, Tiles, staging
from .bsa_steps import PORTION, VALID_BITS, Portion

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
    query = load_query(b, shape, place, rows, params)
    out = rows.output(b, shape, place, params)
    with b.incoming_scope():
        stage = staging(b, shape, place, keys, values)
        visit = Visitor(b, shape, place, params, rows, stage, query)
        state = visit.softmax.start()
        state = visit.all_tiles(state)
    state = merge_groups(b, shape, place, stage.array, state)
    store_rows(b, shape, place, state, out)


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
        """Visit the full tiles, then the partial ones, if there are any.

        With two key groups the loop over full tiles runs as long as both have one; an odd last one
        goes to the partial tiles, whose loop lets a group sit out.
        """
        b, none = self.b, self.b.const_i32(0)
        first = [none, none, b.const_i64(0), *state.values()]
        loop = b.scf_for_iter(none, self.steps.n, PORTION, first, iv_name="position")
        with loop as (position, (start, left, others, *carried)):
            portion = self.steps.portion(start, self.steps.n, none, partial=False)
            new = self._visit(State.of(carried), portion, position, partial=False)
            left = b.lor(left, self._left_over(portion))
            b.scf_yield(portion.following, left, b.lor(others, portion.others), *new.values())
        _, left, others, *carried = loop.results

        any_partial = b.cmp_ne(others, 0)
        one = b.select(b.cmp_ne(left, 0), b.const_i32(1), none)
        # Uniform already: this hides from LLVM when the loop runs at all. It would else part the
        # ways to it, copy the whole state on one of them, and spill 40 registers.
        end = b.readfirstlane(b.select(any_partial, self.steps.n, one))
        loop = b.scf_for_iter(none, end, PORTION, [none, left, *carried], iv_name="position")
        with loop as (position, (start, left, *carried)):
            portion = self.steps.portion(start, end, left, partial=True)
            new = self._visit(State.of(carried), portion, position, partial=True)
            b.scf_yield(portion.following, none, *new.values())
        return State.of(loop.results[2:])

    def _left_over(self, portion: Portion) -> Value:
        """The last entry of a portion that the key groups cannot share evenly, else 0."""
        b, none = self.b, self.b.const_i32(0)
        if self.shape.settings.waves_k == 1:
            return none
        last = self.steps.entry(portion, b.smax(b.sub(portion.count, 1), 0))
        return b.select(b.cmp_eq(b.land(portion.count, 1), 1), last, none)

    def _visit(self, state: State, portion: Portion, position: Value, *, partial: bool) -> State:
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

        started = self.stage.begin(step(b.const_i32(0)), b.land(b.div(position, PORTION), 1))
        count = len(started)
        loop = b.scf_for_iter(0, turns, 1, [*started, *state.values()], iv_name="turn")
        with loop as (turn, carried):
            tiles = self.stage.arrive(carried[:count])
            here, following = step(turn), step(b.add(turn, 1))
            if shared:
                with b.scf_if(b.cmp_ne(here.wanted, 0), [v.type for v in carried]) as branch:
                    b.scf_yield(*self._turn(carried, count, tiles, here, following))
                with branch.orelse():
                    b.scf_yield(*carried)
                b.scf_yield(*branch.results)
            else:
                b.scf_yield(*self._turn(carried, count, tiles, here, following))
        return State.of(loop.results[count:])

    def _turn(
        self, carried: Sequence[Value], count: int, tiles: Tiles, here: Step, following: Step
    ) -> list[Value]:
        """Compute one tile and start to stage the next.

        Of what the loop carries the first ``count`` values are the staging's, the rest the state.
        """
        staged: list[Value] = []

        def fetch_keys() -> None:
            staged.extend(self.stage.fetch_keys(carried[:count], following))

        def fetch_values() -> None:
            staged.extend(self.stage.fetch_values(carried[:count], following))

        new = self._tile(State.of(carried[count:]), tiles, here, (fetch_keys, fetch_values))
        return [*staged, *new.values()]

    def _tile(
        self,
        state: State,
        tiles: Tiles,
        here: Step,
        meanwhile: Sequence[Callable[[], None]],
    ) -> State:
        """One tile: scores, softmax, output."""
        b = self.b
        scores = self.keys.scores(tiles.keys, self.query, meanwhile)
        within = self.values.within(tiles.values)
        ahead = self.values.read(within, 0)
        if here.valid is not None:
            low, end = self._attended(here.number, here.valid)
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

    def _attended(self, step: Value, valid: Value) -> tuple[Value, Value]:
        """The keys ``[low, end)`` of a partial tile that the lane's row attends."""
        b, window = self.b, self.steps.window
        if window is None:
            return b.const_i32(0), valid
        row = b.sub(self.rows.row, b.mul(step, self.shape.settings.tile_k))
        low = b.smax(b.add(row, window.low), 0)
        return low, b.smin(b.add(b.add(row, window.high), 1), valid)
