"""Block-sparse attention on numpy arrays, on the emulated device and on GPUs.

``block_sparse_attention(q, k, v, pattern, device="emulated:gfx942")`` with a :class:`BitmapPattern`
or a :class:`ListPattern`. Nothing that is decided on the host depends on what the tensors or the
pattern hold, only on shapes, types and layouts.

The names are loaded at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocke.attention.api import block_sparse_attention as block_sparse_attention
    from rocke.attention.metadata import bitmap_to_list as bitmap_to_list
    from rocke.attention.metadata import block_means as block_means
    from rocke.attention.metadata import invert_list as invert_list
    from rocke.attention.metadata import list_from_deltas as list_from_deltas
    from rocke.attention.metadata import list_to_bitmap as list_to_bitmap
    from rocke.attention.metadata import list_to_deltas as list_to_deltas
    from rocke.attention.metadata import longest_first as longest_first
    from rocke.attention.metadata import select_blocks as select_blocks
    from rocke.attention.patterns import BitmapPattern as BitmapPattern
    from rocke.attention.patterns import ListPattern as ListPattern
    from rocke.attention.settings import BlockSparseSettings as BlockSparseSettings

_HOME = {
    "BitmapPattern": "patterns",
    "BlockSparseSettings": "settings",
    "ListPattern": "patterns",
    "block_sparse_attention": "api",
    "bitmap_to_list": "metadata",
    "block_means": "metadata",
    "invert_list": "metadata",
    "list_from_deltas": "metadata",
    "list_to_bitmap": "metadata",
    "list_to_deltas": "metadata",
    "longest_first": "metadata",
    "select_blocks": "metadata",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
