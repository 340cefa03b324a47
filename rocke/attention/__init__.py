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
    from rocke.attention.devices import open_device as open_device
    from rocke.attention.patterns import BitmapPattern as BitmapPattern
    from rocke.attention.patterns import ListPattern as ListPattern

_HOME = {
    "BitmapPattern": "patterns",
    "ListPattern": "patterns",
    "block_sparse_attention": "api",
    "open_device": "devices",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
