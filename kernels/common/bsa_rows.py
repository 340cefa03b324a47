"""The rows of a workgroup: where they lie, what they load, where they go, what they attend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocke.core.ir import F32, I32, I64, IRBuilder, Value

from .bsa_layout import SLOT
from .bsa_order import Task
from .bsa_output import NOWHERE, OutputRow, head_pointer
from .bsa_shape import Place, Shape
from .bsa_staging import Rows
from .bsa_steps import StepList, Window


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
        """Decode the task: x = query block and workgroup within it, query head, batch."""
        spec, settings = shape.spec, shape.settings
        task = Task.of(b, settings.dies)
        kv_head = b.div(task.head, params["heads_per_kv"])
        batch64, head64, kv64 = (b.sext(v, I64) for v in (task.batch, task.head, kv_head))
        workgroups = -(-spec.block_q // settings.rows)
        q_block = b.div(task.x, workgroups)
        share = b.sub(task.x, b.mul(q_block, workgroups))
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


def load_query(
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
