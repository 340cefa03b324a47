"""Block-sparse attention forward, the fast form: many waves, K and V through LDS.

The spec, the kernel's parameters and the launch rule are in :mod:`.bsa_spec`.
"""

from __future__ import annotations

from .bsa_settings import BlockSparseSettings, default_settings
from .bsa_spec import (
    EMPTY_LSE,
    NO_WINDOW,
    BlockSparseAttentionSpec,
    block_sparse_attention_block,
    block_sparse_attention_grid,
    block_sparse_attention_signature,
    is_valid_block_sparse_spec,
)

__all__ = [
    "EMPTY_LSE",
    "NO_WINDOW",
    "BlockSparseAttentionSpec",
    "BlockSparseSettings",
    "block_sparse_attention_block",
    "block_sparse_attention_grid",
    "block_sparse_attention_signature",
    "default_settings",
    "is_valid_block_sparse_spec",
]
