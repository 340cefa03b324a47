"""Block-sparse attention forward: Jenga (bitmap mask) and VSA (index list).

One wavefront computes 16 query rows of one head. The key blocks that these rows attend are staged
in LDS as bytes once a workgroup; the loop over 16-key tiles reads one byte a tile and skips the
tile, loads and matrix work included, when no row attends it.

``block_q`` need not be a multiple of 16: the rows of one tile then belong to several query blocks
(16 of them for ``block_q`` 1), whose mask rows are staged side by side, and each row's result takes
only the tiles that the row attends.

Run-time ``seqlen_q`` and ``seqlen_k`` may be smaller than the spec's: rows from ``seqlen_q`` on are
not written, keys from ``seqlen_k`` on take no part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rocke.core.ir import I8, IRBuilder, KernelDef, Value
from rocke.helpers.lds_staging import cooperative_for
from rocke.helpers.mfma_attention import (
    MFMA_ATTN_BLOCK_K,
    MFMA_ATTN_BLOCK_M,
    mfma_attention_fwd_inner_body,
)
from rocke.helpers.transforms import divide

from ._fmha_common import FmhaKernelBuilder
from .sparse_spec import (
    JengaSparseSpec,
    SparseGeometry,
    VsaSparseSpec,
    is_valid_jenga_spec,
    is_valid_vsa_spec,
)

__all__ = [
    "BLOCK",
    "JengaSparseSpec",
    "VsaSparseSpec",
    "build_jenga_sparse_attention",
    "build_vsa_sparse_attention",
    "is_valid_jenga_spec",
    "is_valid_vsa_spec",
    "jenga_sparse_attention_grid",
    "jenga_sparse_attention_signature",
    "vsa_sparse_attention_grid",
    "vsa_sparse_attention_signature",
]

WAVE_SIZE = 64
BLOCK = (WAVE_SIZE, 1, 1)
"""The workgroup of both families: one wavefront."""


def build_jenga_sparse_attention(spec: JengaSparseSpec, arch: str = "gfx950") -> KernelDef:
    """Build the Jenga forward kernel for one target.

    Parameters: Q, K, V, O, mask (i8, row-major ``[num_q_blocks, num_k_blocks]``, not 0 = attend),
    scale_log2, seqlen_q, seqlen_k, then token and head strides of q, k, v, o.
    Raises ``ValueError`` with the reason of :func:`is_valid_jenga_spec`.
    """
    ok, reason = is_valid_jenga_spec(spec, arch)
    if not ok:
        raise ValueError(f"invalid Jenga spec: {reason}")
    kb = FmhaKernelBuilder(spec.kernel_name(), spec.common)
    kb.block_size(WAVE_SIZE)
    _declare_jenga_params(kb)
    kb.decode_grid()
    tile = _QueryTile.of(kb, spec)
    _emit_body(kb, spec, arch, tile, _stage_bitmap(kb.builder, spec, tile, kb.ptr("mask")))
    return kb.kernel


def build_vsa_sparse_attention(spec: VsaSparseSpec, arch: str = "gfx950") -> KernelDef:
    """Build the VSA forward kernel for one target.

    Parameters: Q, K, V, O, block_lut (i32 ``[num_q_blocks, max_blocks_per_q]``: key block numbers
    in any order), block_count (i32 ``[num_q_blocks]``, clamped to ``0 .. max_blocks_per_q``),
    scale_log2, seqlen_q, seqlen_k, then token and head strides of q, k, v, o. Entries outside
    ``[0, num_k_blocks)`` are ignored; duplicates count once.
    Raises ``ValueError`` with the reason of :func:`is_valid_vsa_spec`.
    """
    ok, reason = is_valid_vsa_spec(spec, arch)
    if not ok:
        raise ValueError(f"invalid VSA spec: {reason}")
    kb = FmhaKernelBuilder(spec.kernel_name(), spec.common)
    kb.block_size(WAVE_SIZE)
    _declare_vsa_params(kb)
    kb.decode_grid()
    tile = _QueryTile.of(kb, spec)
    bitmap = _stage_lists(kb.builder, spec, tile, kb.ptr("block_lut"), kb.ptr("block_count"))
    _emit_body(kb, spec, arch, tile, bitmap)
    return kb.kernel


def jenga_sparse_attention_grid(spec: JengaSparseSpec) -> tuple[int, int, int]:
    """Workgroups to launch: Q tiles of 16 rows, query heads, 1."""
    return spec.seqlen_q // MFMA_ATTN_BLOCK_M, spec.common.shape.num_query_heads, 1


def vsa_sparse_attention_grid(spec: VsaSparseSpec) -> tuple[int, int, int]:
    """Workgroups to launch: Q tiles of 16 rows, query heads, 1."""
    return spec.seqlen_q // MFMA_ATTN_BLOCK_M, spec.common.shape.num_query_heads, 1


def jenga_sparse_attention_signature(spec: JengaSparseSpec) -> list[dict[str, str]]:
    """The kernel's ordered ``{"name", "type"}`` parameters, without building its body."""
    kb = FmhaKernelBuilder("signature", spec.common)
    _declare_jenga_params(kb)
    return kb.signature()


def vsa_sparse_attention_signature(spec: VsaSparseSpec) -> list[dict[str, str]]:
    """The kernel's ordered ``{"name", "type"}`` parameters, without building its body."""
    kb = FmhaKernelBuilder("signature", spec.common)
    _declare_vsa_params(kb)
    return kb.signature()


def _declare_jenga_params(kb: FmhaKernelBuilder) -> None:
    _declare_tensors(kb)
    kb.add_ptr("mask", dtype="i8", readonly=True, align=1)
    _declare_scalars(kb)


def _declare_vsa_params(kb: FmhaKernelBuilder) -> None:
    _declare_tensors(kb)
    kb.add_ptr("block_lut", dtype="i32", readonly=True, align=4)
    kb.add_ptr("block_count", dtype="i32", readonly=True, align=4)
    _declare_scalars(kb)


def _declare_tensors(kb: FmhaKernelBuilder) -> None:
    for name in ("Q", "K", "V"):
        kb.add_tensor(name, readonly=True)
    kb.add_tensor("O", writeonly=True)


def _declare_scalars(kb: FmhaKernelBuilder) -> None:
    kb.add_scalar("scale_log2", "f32")
    kb.add_scalar("seqlen_q", "i32")
    kb.add_scalar("seqlen_k", "i32")
    kb.add_strides("q", "k", "v", "o")


@dataclass(frozen=True)
class _QueryTile:
    """A workgroup's 16 query rows: first row, first query block, and the lane (i32)."""

    base: Value
    first_block: Value
    lane: Value

    @staticmethod
    def of(kb: FmhaKernelBuilder, spec: SparseGeometry) -> _QueryTile:
        b = kb.builder
        base = b.mul(kb.q_token, MFMA_ATTN_BLOCK_M)
        return _QueryTile(base, divide(b, base, spec.block_q), b.thread_id_x())

    def row_block(self, b: IRBuilder, spec: SparseGeometry) -> Value:
        """The query block of this lane's row (lane mod 16), counted from ``first_block``."""
        row = b.add(self.base, b.land(self.lane, MFMA_ATTN_BLOCK_M - 1))
        return b.sub(divide(b, row, spec.block_q), self.first_block)


def _for_each_mask_row(
    b: IRBuilder,
    spec: SparseGeometry,
    tile: _QueryTile,
    body: Callable[[Value | int, Value], None],
) -> None:
    """Emit ``body(r, q_block)`` for each mask row ``r`` of the tile."""
    rows = spec.mask_rows_per_tile
    if rows == 1:
        body(0, tile.first_block)
        return
    with b.scf_for(0, rows, 1) as r:
        # A tile may touch fewer blocks than the most possible: stay inside the pattern.
        last = spec.num_q_blocks - 1
        body(r, b.smin(b.add(tile.first_block, r), last))


def _slot(b: IRBuilder, spec: SparseGeometry, k_block: Value, r: Value | int) -> Value:
    """The LDS byte of a key block and mask row: a block's rows lie side by side."""
    rows = spec.mask_rows_per_tile
    return k_block if rows == 1 else b.add(b.mul(k_block, rows), r)


def _stage_bitmap(b: IRBuilder, spec: JengaSparseSpec, tile: _QueryTile, mask: Value) -> Value:
    """Copy the mask rows that the tile touches into LDS; returns the LDS array."""
    staged = b.smem_alloc(I8, [spec.lds_bytes], name_hint="jenga_mask")

    def stage_row(r: Value | int, q_block: Value) -> None:
        row_base = b.mul(q_block, spec.num_k_blocks)

        def copy(k_block: Value) -> None:
            byte = b.global_load(mask, b.add(row_base, k_block), I8)
            b.smem_store_vN(staged, [_slot(b, spec, k_block, r)], byte, 1)

        cooperative_for(b, lane=tile.lane, lanes=WAVE_SIZE, total=spec.num_k_blocks, body=copy)

    _for_each_mask_row(b, spec, tile, stage_row)
    b.sync()
    return staged


def _stage_lists(
    b: IRBuilder, spec: VsaSparseSpec, tile: _QueryTile, block_lut: Value, block_count: Value
) -> Value:
    """Turn the lists of the tile's query blocks into a bitmap in LDS; returns the LDS array."""
    bitmap = b.smem_alloc(I8, [spec.lds_bytes], name_hint="vsa_bitmap")
    zero, one = b.const_i8(0), b.const_i8(1)
    cooperative_for(
        b,
        lane=tile.lane,
        lanes=WAVE_SIZE,
        total=spec.num_k_blocks * spec.mask_rows_per_tile,
        body=lambda slot: b.smem_store_vN(bitmap, [slot], zero, 1),
    )
    b.sync()

    def scatter_row(r: Value | int, q_block: Value) -> None:
        row_base = b.mul(q_block, spec.max_blocks_per_q)
        listed = b.smin(b.global_load_i32(block_count, q_block), spec.max_blocks_per_q)
        count = b.readfirstlane(listed)

        with b.scf_for(0, count, WAVE_SIZE) as first:
            position = b.add(first, tile.lane)
            readable = b.smin(position, b.sub(count, 1))
            entry = b.global_load_i32(block_lut, b.add(row_base, readable))
            valid = b.land(b.cmp_lt(position, count), b.cmp_ult(entry, spec.num_k_blocks))
            slot = _slot(b, spec, entry, r)
            if spec.use_wave_ballot_scatter:
                spare = spec.lds_bytes - 1
                with b.scf_if(b.wave_any(valid)):
                    b.smem_store_vN(bitmap, [b.select(valid, slot, spare)], one, 1)
            else:
                with b.scf_if(valid):
                    b.smem_store_vN(bitmap, [slot], one, 1)

    _for_each_mask_row(b, spec, tile, scatter_row)
    b.sync()
    return bitmap


def _emit_body(
    kb: FmhaKernelBuilder,
    spec: SparseGeometry,
    arch: str,
    tile: _QueryTile,
    staged: Value,
) -> None:
    """Emit the attention body over the key tiles whose byte in ``staged`` is not 0."""
    b = kb.builder
    per_row = spec.mask_rows_per_tile > 1
    row = tile.row_block(b, spec) if per_row else 0

    def attends(b: IRBuilder, kt: Value) -> Value:
        k_block = divide(b, kt, spec.block_k // MFMA_ATTN_BLOCK_K)
        byte = b.smem_load_vN(staged, [_slot(b, spec, k_block, row)], dtype=I8, n=1)
        return b.cmp_ne(b.vec_extract(byte, 0), b.const_i8(0))

    mfma_attention_fwd_inner_body(
        b,
        Q=kb.tensor("Q"),
        K=kb.tensor("K"),
        V=kb.tensor("V"),
        O=kb.tensor("O"),
        head_size=spec.common.shape.head_size,
        seqlen_k=kb.scalar("seqlen_k"),
        q_tile_base=tile.base,
        head_idx=kb.head_idx,
        kv_head_idx=kb.kv_head_idx,
        stride_q_token=kb.stride_token("q"),
        stride_q_head=kb.stride_head("q"),
        stride_k_token=kb.stride_token("k"),
        stride_k_head=kb.stride_head("k"),
        stride_v_token=kb.stride_token("v"),
        stride_v_head=kb.stride_head("v"),
        stride_o_token=kb.stride_token("o"),
        stride_o_head=kb.stride_head("o"),
        scale_log2=kb.scalar("scale_log2"),
        dtype=spec.common.dtype,
        mask_mode=spec.common.mask_mode,
        extra_mask_predicate=attends,
        arch=arch,
        predicate_per_row=per_row,
        seqlen_q=kb.scalar("seqlen_q"),
        max_seqlen_k=spec.seqlen_k,
    )
    b.ret()
