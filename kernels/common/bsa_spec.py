"""Spec, settings and launch interface of the fast block-sparse attention kernel.

Parameters of the kernel, in order (those in brackets exist only where the named field asks):

- ``Q K V O``: pointers to ``dtype`` elements, 16-byte aligned;
- [``LSE``: f32, ``need_lse``];
- the pattern: ``indices`` and ``counts`` (i32, ``pattern="list"``) or ``bitmap`` (i8, not 0 =
  attend, ``pattern="bitmap"``);
- [``block_sizes``: i32 ``[num_k_blocks]``, ``variable_blocks``];
- [``order``: i32, ``row_order``: the query block that each group of workgroups takes];
- ``scale_log2``: f32, softmax scale times log2(e), finite and not negative;
- ``seqlen_q seqlen_k``: i32; ``heads_per_kv``: i32, query heads that share one key/value head;
- [``list_width``: i32, entries in a row of ``indices``; larger counts are cut to it];
- [``window_left window_right``: i32, ``mask_mode="band"``: row ``r`` attends key ``c`` where
  ``-window_left <= c - (r + seqlen_k - seqlen_q) <= window_right``; causal is ``window_right`` 0
  and ``window_left`` 2**30, and no bound on a side is 2**30];
- ``stride_<t>_batch stride_<t>_head`` (i64) and ``stride_<t>_token`` (i32) for t = q, k, v, o;
- [``stride_lse_batch stride_lse_head``: i64; rows are neighbours];
- ``stride_indices_batch/_head/_row`` and ``stride_counts_batch/_head``, or
  ``stride_bitmap_batch/_head/_row`` (i64);
- [``stride_order_batch stride_order_head``: i64].

Strides are in elements; the head dimension (and a pattern's last) is contiguous. A stride of 0
shares a pattern. Token, head and batch strides of Q, K, V and O are multiples of 8, so that every
row is 16-byte aligned; one head's rows span less than 2**32 bytes, of O 1024 less, and token
strides of K and V are at most :func:`longest_key_stride`, whatever the number of keys. Rows of Q, K
and V may overlap, or be the same; those of O may not.

Grid: x = query blocks times workgroups a block, y = query heads, z = batch. Which of them a
workgroup takes is :mod:`.bsa_order`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from rocke.arch import Target, target
from rocke.core.ir import PtrType, ScalarType, ptr, scalar_type
from rocke.helpers.spec import check_choice, check_int, check_name, first_reason, kernel_name_join

from .bsa_layout import SLOT, WAVE_SIZE
from .bsa_settings import (
    ELEMENT_BYTES,
    MOST_OF_TABLE,
    BlockSparseSettings,
    check_settings,
    default_settings,
)
from .fmha_arch import validate_fmha_mfma_atom

PATTERNS = ("list", "bitmap")
MASK_MODES = ("none", "band")
NO_WINDOW = 2**30
"""``window_left`` or ``window_right`` without a bound."""
EMPTY_LSE = -3.4028234663852886e38
"""The ``LSE`` of a row that attends nothing: the largest negative finite f32."""
PIECE_ELEMENTS = WAVE_SIZE * SLOT
"""Of K or V, what a wave copies at once."""
EARLIER_BYTES = 4096
"""More than the immediate of a direct copy, by which descriptors begin before the rows."""


@dataclass(frozen=True)
class BlockSparseAttentionSpec:
    """One kernel: it serves every sequence length, batch size, head count and density.

    ``head_size``: 32 to 256 in steps of 16; ``block_q`` and ``block_k``: 16 to 256 in steps of 16.
    ``settings`` left out is the table's choice for the target (:func:`default_settings`).
    """

    head_size: int
    dtype: str = "bf16"
    block_q: int = 64
    block_k: int = 64
    pattern: str = "list"
    mask_mode: str = "none"
    variable_blocks: bool = False
    need_lse: bool = False
    row_order: bool = False
    settings: BlockSparseSettings | None = None
    name: str = "rocke_block_sparse_attn"

    def resolve(self, arch: str) -> BlockSparseSettings:
        """The settings for ``arch``: the spec's own, or the table's."""
        if self.settings is not None:
            return self.settings
        return default_settings(target(arch), self.head_size, self.block_q, self.block_k)

    def kernel_name(self, arch: str = "gfx950") -> str:
        """The kernel's symbol: every field stands in it, the settings as resolved for ``arch``."""
        s = self.resolve(arch)
        return kernel_name_join(
            self.name,
            f"D{self.head_size}",
            self.dtype,
            f"BQ{self.block_q}",
            f"BK{self.block_k}",
            self.pattern,
            "" if self.mask_mode == "none" else self.mask_mode,
            "varblk" if self.variable_blocks else "",
            "lse" if self.need_lse else "",
            "ord" if self.row_order else "",
            *(f"{tag}{getattr(s, f.name)}" for tag, f in zip(s.TAGS, fields(s), strict=True)),
        )

    def workgroups_per_block(self, arch: str = "gfx950") -> int:
        """Workgroups that share one query block."""
        return -(-self.block_q // self.resolve(arch).rows)


def is_valid_block_sparse_spec(
    spec: BlockSparseAttentionSpec, arch: str = "gfx950"
) -> tuple[bool, str]:
    """Whether :func:`build_block_sparse_attention` builds the spec; returns ``(ok, reason)``."""
    if not isinstance(spec, BlockSparseAttentionSpec):
        return False, f"spec is {type(spec).__name__}, expected BlockSparseAttentionSpec"
    ok, reason = first_reason(
        check_name("name", spec.name),
        check_int("head_size", spec.head_size, 32, 256, multiple_of=16),
        check_int("block_q", spec.block_q, 16, 256, multiple_of=16),
        check_int("block_k", spec.block_k, 16, 256, multiple_of=16),
        check_choice("dtype", spec.dtype, ("f16", "bf16")),
        check_choice("pattern", spec.pattern, PATTERNS),
        check_choice("mask_mode", spec.mask_mode, MASK_MODES),
        *(
            check_choice(name, getattr(spec, name), (True, False))
            for name in ("variable_blocks", "need_lse", "row_order")
        ),
    )
    if not ok:
        return False, reason
    ok, reason = validate_fmha_mfma_atom(spec.dtype, arch)
    if not ok:
        return False, reason
    facts: Target = target(arch)
    return check_settings(spec.resolve(arch), facts, spec.head_size, spec.block_q, spec.block_k)


def longest_key_stride(spec: BlockSparseAttentionSpec) -> int:
    """The longest token stride of K and V, in elements, on every target.

    Copies address whole tiles, and past the last row the pieces that are as many in every wave, by
    offsets of 32 bits that must not come round to real rows; direct copies begin their descriptor
    up to 4 KiB earlier. The table has tiles of up to 64 keys and up to 4 waves to a tile.
    """
    tile_k, waves_q = MOST_OF_TABLE
    if spec.settings is not None:
        tile_k, waves_q = spec.settings.tile_k, spec.settings.waves_q
    rows = tile_k + -(-PIECE_ELEMENTS * waves_q // spec.head_size)
    return (2**32 - EARLIER_BYTES) // ELEMENT_BYTES // rows


def block_sparse_attention_grid(
    spec: BlockSparseAttentionSpec, arch: str, *, batch: int, heads: int, seqlen_q: int
) -> tuple[int, int, int]:
    """Workgroups to launch for one problem: ``heads`` query heads, ``seqlen_q`` rows."""
    blocks = -(-seqlen_q // spec.block_q)
    return blocks * spec.workgroups_per_block(arch), heads, batch


def block_sparse_attention_block(spec: BlockSparseAttentionSpec, arch: str) -> tuple[int, int, int]:
    """The workgroup in work-items."""
    return spec.resolve(arch).work_items, 1, 1


def block_sparse_attention_signature(spec: BlockSparseAttentionSpec) -> list[dict[str, str]]:
    """The kernel's ordered ``{"name", "type"}`` parameters; the same for every target."""
    return [{"name": name, "type": type_.name} for name, type_, _ in parameters(spec)]


def parameters(
    spec: BlockSparseAttentionSpec,
) -> list[tuple[str, PtrType | ScalarType, dict[str, bool | int]]]:
    """The kernel's parameters in order: name, type, and what its declaration promises."""
    reads: dict[str, bool | int] = {"readonly": True, "align": 16}
    found: list[tuple[str, PtrType | ScalarType, dict[str, bool | int]]] = []

    def pointer(name: str, dtype: str, **promises: bool | int) -> None:
        found.append((name, ptr(scalar_type(dtype)), promises))

    def scalars(dtype: str, *names: str) -> None:
        found.extend((name, scalar_type(dtype), {}) for name in names)

    for name in ("Q", "K", "V"):
        pointer(name, spec.dtype, **reads)
    pointer("O", spec.dtype, writeonly=True, align=16)
    if spec.need_lse:
        pointer("LSE", "f32", writeonly=True)
    listed = spec.pattern == "list"
    for name in ("indices", "counts") if listed else ("bitmap",):
        pointer(name, "i32" if listed else "i8", readonly=True)
    if spec.variable_blocks:
        pointer("block_sizes", "i32", readonly=True)
    if spec.row_order:
        pointer("order", "i32", readonly=True)
    scalars("f32", "scale_log2")
    scalars("i32", "seqlen_q", "seqlen_k", "heads_per_kv")
    if listed:
        scalars("i32", "list_width")
    if spec.mask_mode == "band":
        scalars("i32", "window_left", "window_right")
    for name in "qkvo":
        scalars("i64", f"stride_{name}_batch", f"stride_{name}_head")
        scalars("i32", f"stride_{name}_token")
    if spec.need_lse:
        scalars("i64", "stride_lse_batch", "stride_lse_head")
    rows = ("indices", "counts") if listed else ("bitmap",)
    for name in rows:
        scalars("i64", f"stride_{name}_batch", f"stride_{name}_head")
        if name != "counts":
            scalars("i64", f"stride_{name}_row")
    if spec.row_order:
        scalars("i64", "stride_order_batch", "stride_order_head")
    return found
