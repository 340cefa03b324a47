"""Settings of the attention kernel, for those who choose them."""

from __future__ import annotations

from dataclasses import fields

from rocke.attention.options import count
from rocke.kernels.common.block_sparse_attention import BlockSparseSettings
from rocke.runtime import ArgumentError

__all__ = ["BlockSparseSettings", "checked_settings"]


def checked_settings(settings: object) -> BlockSparseSettings:
    """Settings of integers; raises :class:`ArgumentError` that names the field."""
    if not isinstance(settings, BlockSparseSettings):
        raise ArgumentError(f"settings: {settings!r}, expected BlockSparseSettings or None")
    names = [f.name for f in fields(settings)]
    return BlockSparseSettings(*(count(f"settings.{n}", getattr(settings, n)) for n in names))
