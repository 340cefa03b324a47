"""The host function: checks, the choice of the kernel, one launch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rocke.attention.contents import check_contents
from rocke.attention.devices import device_of
from rocke.attention.launching import Kernel, Library, check, check_library, launch
from rocke.attention.metadata import longest_first
from rocke.attention.options import bounds_of, flag, scale_of
from rocke.attention.patterns import (
    BitmapPattern,
    ListPattern,
    Pattern,
    as_i32,
    described,
    lead_strides,
    refuse_masked,
)
from rocke.attention.tensors import Tensors, element_strides
from rocke.runtime import ArgumentError
from rocke.runtime.device import Device

if TYPE_CHECKING:
    from rocke.attention.settings import BlockSparseSettings

FAMILY = "block_sparse_attention"
LOG2_E = math.log2(math.e)
EMPTY_LSE = float(np.finfo(np.float32).min)
"""The ``lse`` of a row that attends nothing."""
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
    library: Library | None = None,
    checked: bool = False,
) -> Any:
    """Attention of q over the key blocks that ``pattern`` keeps; cost follows the kept blocks.

    q is ``[batch, heads, Sq, head size]``, k and v ``[batch, kv heads, Sk, head size]`` in f16 or
    bf16 (``layout="bshd"``: the sequence before the heads); any strides that are multiples of 16
    bytes, the head dimension contiguous. Heads are a multiple of kv heads (GQA, MQA), the head size
    is 32 to 256 in steps of 16, block sizes 16 to 256 in steps of 16.

    - ``softmax_scale``: default ``1 / sqrt(head size)``; 0 to 1e19.
    - ``window`` (left, right): row r sees key c where ``-left <= c - (r + Sk - Sq) <= right``;
      None or -1 is no bound. ``causal`` bounds the right side by 0.
    - ``variable_block_sizes`` i32 ``[num_k_blocks]``: leading keys of each block that are real.
    - ``row_order`` i32 ``[..., num_q_blocks]``, leading axes as the pattern's: the order in which
      query blocks are started, a permutation; ``"longest_first"``: by count, found on the device.
      Results do not depend on it. Query blocks that an array leaves out are as if they attended
      nothing.
    - ``device``: a device, or a name as :func:`rocke.open_device` takes.
    - ``settings``: of the kernel, instead of the table's choice.
    - ``library``: a :class:`rocke.library.KernelLibrary` whose kernels are launched; nothing is
      compiled.
    - ``checked``: read the pattern, the sizes and the order on the host first, and refuse entries
      out of range, duplicates, sizes above the block's and orders that are no permutation. Without
      it nothing is read: such entries are ignored or have an unspecified weight.

    Returns o, like q, newly allocated; with ``need_lse`` ``(o, lse)``, ``lse`` f32 ``[batch, heads,
    Sq]``: base-2 logarithm of the sum of ``2**score``, score = (q . k) * scale * log2(e). A row
    that attends nothing has o = 0 and the largest negative finite f32 as lse.

    Raises :class:`rocke.runtime.ArgumentError` that names the argument, before anything runs;
    :class:`rocke.runtime.DeviceError` as :func:`rocke.open_device` for a name of no device; and
    ``rocke.library.NoKernel`` for a library that has no kernel for this, with nothing to run too.
    """
    tensors = Tensors.of(q, k, v, layout)
    _check_pattern(pattern, tensors)
    arguments = _pattern_arguments(pattern, tensors)
    arguments["scale_log2"] = scale_of(softmax_scale, tensors.head_size) * LOG2_E
    bounds = bounds_of(window, flag("causal", causal))
    if bounds is not None:
        arguments |= {"window_left": bounds[0], "window_right": bounds[1]}
    sizes = _block_sizes(variable_block_sizes, pattern, tensors)
    if sizes is not None:
        arguments["block_sizes"] = sizes
    order = _row_order(row_order, pattern, tensors)
    need_lse = flag("need_lse", need_lse)
    kernel = Kernel.of(
        FAMILY,
        settings,
        head_size=tensors.head_size,
        dtype=tensors.dtype,
        block_q=pattern.block_q,
        block_k=pattern.block_k,
        pattern="bitmap" if isinstance(pattern, BitmapPattern) else "list",
        mask_mode="none" if bounds is None else "band",
        variable_blocks=sizes is not None,
        need_lse=need_lse,
        row_order=row_order is not None,
    )
    if kernel.settings is None:
        tensors.check_tiles()
    else:
        tensors.check_tiles(kernel.settings.tile_k, kernel.settings.waves_q)
    if flag("checked", checked):
        given = row_order if isinstance(row_order, np.ndarray) else None
        check_contents(pattern, tensors.seqlen_k, variable_block_sizes, given)
    opened = device_of(device)
    check_library(library, settings)
    listed = isinstance(pattern, BitmapPattern) or pattern.width > 0
    runs = bool(tensors.q.size and tensors.seqlen_k and listed)
    # Rows that an order which is no permutation leaves out must hold something all the same.
    o, lse = _outputs(tensors, need_lse, empty=order is not None or not runs)
    sizes_beside = {"batch": tensors.batch, "heads": tensors.heads}
    arguments = {**_tensor_arguments(tensors, o, lse), **arguments}
    if runs:
        if row_order is not None:
            if order is None:
                order = longest_first(pattern, device=opened, library=library)
            arguments |= _order_arguments(order, tensors)
        launch(kernel, opened, arguments, library=library, sizes=sizes_beside)
    else:
        check(kernel, opened, arguments, library=library, sizes=sizes_beside)
    out = tensors.in_layout(o)
    return (out, lse) if need_lse else out


def _outputs(
    tensors: Tensors, need_lse: bool, *, empty: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """New arrays for o and lse; with ``empty`` filled as for rows that attend nothing."""
    o = tensors.output()
    lse = np.empty(o.shape[:3], np.float32) if need_lse else None
    if empty:
        o[...] = 0
        if lse is not None:
            lse[...] = EMPTY_LSE
    return o, lse


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
            rows = array.shape[2]
            arguments[f"stride_{name}_row"] = (
                array.strides[2] // array.itemsize if rows > 1 else array.shape[3]
            )
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
        if not 16 <= size <= 256 or size % 16:
            raise ArgumentError(
                f"pattern: {name} is {size}, expected 16 to 256 and a multiple of 16"
            )
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


def _block_sizes(sizes: object, pattern: Pattern, tensors: Tensors) -> np.ndarray | None:
    if sizes is None:
        return None
    blocks = -(-tensors.seqlen_k // pattern.block_k)
    refuse_masked("variable_block_sizes", sizes)
    good = isinstance(sizes, np.ndarray) and sizes.dtype.kind in "iu" and sizes.shape == (blocks,)
    if not good:
        raise ArgumentError(
            f"variable_block_sizes: {described(sizes)}, expected integers of shape ({blocks},), "
            "one for each key block"
        )
    assert isinstance(sizes, np.ndarray)
    return as_i32(sizes)


def _row_order(order: object, pattern: Pattern, tensors: Tensors) -> np.ndarray | None:
    """The caller's order over both leading axes; None where there is none yet."""
    if order is None or (isinstance(order, str) and order == "longest_first"):
        return None
    if isinstance(order, str):
        raise ArgumentError(f"row_order: {order!r}, expected 'longest_first' or an array")
    refuse_masked("row_order", order)
    if not isinstance(order, np.ndarray) or order.dtype.kind not in "iu":
        found = order.dtype if isinstance(order, np.ndarray) else type(order).__name__
        raise ArgumentError(f"row_order: {found}, expected a numpy array of integers")
    if not 1 <= order.ndim <= 3 or order.shape[-1] != pattern.num_q_blocks:
        raise ArgumentError(
            f"row_order: shape {order.shape}, expected [batch, heads, {pattern.num_q_blocks}] "
            "(leading axes may be left out)"
        )
    made = as_i32(order.reshape((1,) * (3 - order.ndim) + order.shape))
    lead_strides("row_order", made, tensors.batch, tensors.heads)
    return made


def _order_arguments(order: np.ndarray, tensors: Tensors) -> dict[str, Any]:
    strides = lead_strides("row_order", order, tensors.batch, tensors.heads)
    return {"order": order, **_named("order", strides)}
