"""The host function: checks, the choice of the kernel, one launch."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rocke.attention.contents import check_contents
from rocke.attention.devices import device_of
from rocke.attention.patterns import (
    BitmapPattern,
    ListPattern,
    Pattern,
    as_i32,
    lead_strides,
)
from rocke.attention.tensors import Tensors, element_strides
from rocke.kernels.common.block_sparse_attention import (
    EMPTY_LSE,
    NO_WINDOW,
    BlockSparseAttentionSpec,
    BlockSparseSettings,
    block_sparse_attention_block,
    block_sparse_attention_grid,
    block_sparse_attention_signature,
    build_block_sparse_attention,
    is_valid_block_sparse_spec,
)
from rocke.kernels.common.block_sparse_family import block_sparse_limits
from rocke.runtime import ArgumentError, Launcher
from rocke.runtime.device import Device

if TYPE_CHECKING:
    from rocke.compiler import CodeObject

LOG2_E = math.log2(math.e)
Window = tuple[int | None, int | None]


def block_sparse_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    pattern: Pattern,
    *,
    device: Device | str,
    layout: str = "bhsd",
    softmax_scale: float | None = None,
    causal: bool = False,
    window: Window = (None, None),
    variable_block_sizes: np.ndarray | None = None,
    need_lse: bool = False,
    row_order: np.ndarray | str | None = None,
    settings: BlockSparseSettings | None = None,
    checked: bool = False,
) -> Any:
    """Attention of q over the key blocks that ``pattern`` keeps; cost follows the kept blocks.

    q is ``[batch, heads, Sq, head size]``, k and v ``[batch, kv heads, Sk, head size]`` in f16 or
    bf16 (``layout="bshd"``: the sequence before the heads); any strides that are multiples of 16
    bytes, the head dimension contiguous. Heads are a multiple of kv heads (GQA, MQA), the head size
    is 32 to 256 in steps of 16, block sizes 16 to 256 in steps of 16.

    - ``softmax_scale``: default ``1 / sqrt(head size)``; finite, not negative.
    - ``window`` (left, right): row r sees key c where ``-left <= c - (r + Sk - Sq) <= right``;
      None or -1 is no bound. ``causal`` bounds the right side by 0.
    - ``variable_block_sizes`` i32 ``[num_k_blocks]``: leading keys of each block that are real.
    - ``row_order`` i32 ``[..., num_q_blocks]``, leading axes as the pattern's: the order in which
      query blocks are started, a permutation; ``"longest_first"``: by count, found on the device.
      Results do not depend on it.
    - ``device``: a device, or a name as :func:`rocke.open_device` takes.
    - ``settings``: of the kernel, instead of the table's choice.
    - ``checked``: read the pattern, the sizes and the order on the host first, and refuse entries
      out of range, duplicates, sizes above the block's and orders that are no permutation. Without
      it nothing is read: such entries are ignored or have an unspecified weight.

    Returns o, like q, newly allocated; with ``need_lse`` ``(o, lse)``, ``lse`` f32 ``[batch, heads,
    Sq]``: base-2 logarithm of the sum of ``2**score``, score = (q . k) * scale * log2(e). A row
    that attends nothing has o = 0 and the largest negative finite f32 as lse.

    Raises :class:`rocke.runtime.ArgumentError` that names the argument, before anything runs.
    """
    tensors = Tensors.of(q, k, v, layout)
    _check_pattern(pattern, tensors)
    scale = _scale(softmax_scale, tensors.head_size)
    bounds = _window(window, causal)
    sizes = _block_sizes(variable_block_sizes, pattern, tensors)
    order = _row_order(row_order, pattern, device)
    spec = BlockSparseAttentionSpec(
        head_size=tensors.head_size,
        dtype=tensors.dtype,
        block_q=pattern.block_q,
        block_k=pattern.block_k,
        pattern="bitmap" if isinstance(pattern, BitmapPattern) else "list",
        mask_mode="none" if bounds is None else "band",
        variable_blocks=sizes is not None,
        need_lse=need_lse,
        row_order=order is not None,
        settings=settings,
    )
    if checked:
        check_contents(pattern, tensors.seqlen_k, sizes, order)
    opened = device_of(device)
    ok, reason = is_valid_block_sparse_spec(spec, opened.arch)
    if not ok:
        raise ArgumentError(reason)
    o = tensors.output()
    lse = np.empty(o.shape[:3], np.float32) if need_lse else None
    arguments = {
        **_tensor_arguments(tensors, o, lse),
        **_pattern_arguments(pattern, tensors),
        "scale_log2": scale * LOG2_E,
    }
    if bounds is not None:
        arguments |= {"window_left": bounds[0], "window_right": bounds[1]}
    if sizes is not None:
        arguments["block_sizes"] = sizes
    if order is not None:
        strides = lead_strides("row_order", order, tensors.batch, tensors.heads)
        arguments |= {"order": order, **_named("order", strides)}
    _launch(opened, spec, tensors, pattern, arguments)
    out = tensors.in_layout(o)
    return (out, lse) if need_lse else out


def _launch(
    device: Device,
    spec: BlockSparseAttentionSpec,
    tensors: Tensors,
    pattern: Pattern,
    arguments: Mapping[str, Any],
) -> None:
    """Run the kernel; where there is no row nothing, and where there is no key nothing attends."""
    if not arguments["O"].size:
        return
    if not tensors.seqlen_k or (isinstance(pattern, ListPattern) and not pattern.width):
        arguments["O"][...] = 0
        if "LSE" in arguments:
            arguments["LSE"][...] = EMPTY_LSE
        return
    launcher = Launcher(
        device,
        code_object(spec, device.arch),
        block_sparse_attention_signature(spec),
        grid=block_sparse_attention_grid(
            spec,
            device.arch,
            batch=tensors.batch,
            heads=tensors.heads,
            seqlen_q=tensors.seqlen_q,
        ),
        block=block_sparse_attention_block(spec, device.arch),
        limits=block_sparse_limits(
            spec,
            batch=tensors.batch,
            heads=tensors.heads,
            kv_heads=tensors.kv_heads,
            q_blocks=pattern.num_q_blocks,
            k_blocks=-(-tensors.seqlen_k // pattern.block_k),
        ),
    )
    launcher(**arguments)


@functools.lru_cache(maxsize=256)
def code_object(spec: BlockSparseAttentionSpec, arch: str) -> CodeObject:
    """The compiled kernel of a spec; each is compiled once a process."""
    from rocke.compiler import compile_kernel

    return compile_kernel(build_block_sparse_attention(spec, arch), arch)


def _tensor_arguments(tensors: Tensors, o: np.ndarray, lse: np.ndarray | None) -> dict[str, Any]:
    views = {"q": tensors.q, "k": tensors.k, "v": tensors.v, "o": o}
    arguments: dict[str, Any] = {name.upper(): view for name, view in views.items()}
    for name, view in views.items():
        arguments |= _named(name, element_strides(view), ("batch", "head", "token"))
    if lse is not None:
        head = lse.shape[2]
        arguments |= {"LSE": lse, **_named("lse", (head * lse.shape[1], head))}
    arguments["seqlen_q"], arguments["seqlen_k"] = tensors.seqlen_q, tensors.seqlen_k
    arguments["heads_per_kv"] = tensors.heads // tensors.kv_heads
    return arguments


def _pattern_arguments(pattern: Pattern, tensors: Tensors) -> dict[str, Any]:
    arrays = (
        {"bitmap": pattern.bitmap}
        if isinstance(pattern, BitmapPattern)
        else {
            "indices": pattern.indices,
            "counts": pattern.counts,
        }
    )
    arguments: dict[str, Any] = dict(arrays)
    for name, array in arrays.items():
        strides = lead_strides(name, array, tensors.batch, tensors.heads)
        arguments |= _named(name, strides)
        if name != "counts":
            arguments[f"stride_{name}_row"] = array.strides[2] // array.itemsize
    if isinstance(pattern, ListPattern):
        arguments["list_width"] = pattern.width
    return arguments


def _named(
    name: str, strides: tuple[int, ...], axes: tuple[str, ...] = ("batch", "head")
) -> dict[str, int]:
    return {f"stride_{name}_{axis}": s for axis, s in zip(axes, strides, strict=True)}


def _check_pattern(pattern: object, tensors: Tensors) -> None:
    if not isinstance(pattern, (BitmapPattern, ListPattern)):
        raise ArgumentError(
            f"pattern: {type(pattern).__name__}, expected a BitmapPattern or a ListPattern"
        )
    for name, size in (("block_q", pattern.block_q), ("block_k", pattern.block_k)):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ArgumentError(f"pattern: {name} is {size!r}, expected an integer of at least 1")
    rows = -(-tensors.seqlen_q // pattern.block_q)
    if pattern.num_q_blocks != rows:
        raise ArgumentError(
            f"pattern: {pattern.num_q_blocks} query blocks, expected {rows} for {tensors.seqlen_q} "
            f"rows in blocks of {pattern.block_q}"
        )
    if isinstance(pattern, BitmapPattern):
        columns = -(-tensors.seqlen_k // pattern.block_k)
        if pattern.bitmap.shape[3] != columns:
            raise ArgumentError(
                f"bitmap: {pattern.bitmap.shape[3]} key blocks, expected {columns} for "
                f"{tensors.seqlen_k} keys in blocks of {pattern.block_k}"
            )


def _scale(softmax_scale: float | None, head_size: int) -> float:
    if softmax_scale is None:
        return 1 / math.sqrt(head_size) if head_size else 1.0
    number = isinstance(softmax_scale, (int, float, np.floating, np.integer))
    if not number or not math.isfinite(softmax_scale) or softmax_scale < 0:
        raise ArgumentError(
            f"softmax_scale: {softmax_scale!r}, expected a finite number that is not negative"
        )
    return float(softmax_scale)


def _window(window: object, causal: object) -> tuple[int, int] | None:
    """Both bounds as the kernel takes them, or None where there are none."""
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise ArgumentError(f"window: {window!r}, expected (left, right)")
    if not isinstance(causal, (bool, np.bool_)):
        raise ArgumentError(f"causal: {causal!r}, expected True or False")
    bounds = []
    for side, bound in zip(("left", "right"), window, strict=True):
        integer = isinstance(bound, (int, np.integer)) and not isinstance(bound, bool)
        if bound is not None and (not integer or bound < -1):
            raise ArgumentError(
                f"window: {side} is {bound!r}, expected None or -1 (no bound), or 0 and up"
            )
        bounds.append(NO_WINDOW if bound in (None, -1) else min(int(bound), NO_WINDOW))
    if causal:
        bounds[1] = 0
    left, right = bounds
    return None if left == right == NO_WINDOW else (left, right)


def _block_sizes(sizes: object, pattern: Pattern, tensors: Tensors) -> np.ndarray | None:
    if sizes is None:
        return None
    blocks = -(-tensors.seqlen_k // pattern.block_k)
    good = isinstance(sizes, np.ndarray) and sizes.dtype.kind in "iu" and sizes.shape == (blocks,)
    if not good:
        found = (
            f"{sizes.dtype} of shape {sizes.shape}"
            if isinstance(sizes, np.ndarray)
            else type(sizes).__name__
        )
        raise ArgumentError(
            f"variable_block_sizes: {found}, expected integers of shape ({blocks},), one for each "
            f"key block"
        )
    assert isinstance(sizes, np.ndarray)
    return as_i32(sizes)


def _row_order(order: object, pattern: Pattern, device: Device | str) -> np.ndarray | None:
    if order is None:
        return None
    if isinstance(order, str):
        if order != "longest_first":
            raise ArgumentError(f"row_order: {order!r}, expected 'longest_first' or an array")
        from rocke.attention.metadata import longest_first

        return longest_first(pattern, device=device)
    if not isinstance(order, np.ndarray) or order.dtype.kind not in "iu":
        found = order.dtype if isinstance(order, np.ndarray) else type(order).__name__
        raise ArgumentError(f"row_order: {found}, expected a numpy array of integers")
    if not 1 <= order.ndim <= 3 or order.shape[-1] != pattern.num_q_blocks:
        raise ArgumentError(
            f"row_order: shape {order.shape}, expected [batch, heads, {pattern.num_q_blocks}] "
            "(leading axes may be left out)"
        )
    return as_i32(order.reshape((1,) * (3 - order.ndim) + order.shape))
