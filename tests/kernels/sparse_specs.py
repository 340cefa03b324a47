"""Shorthands for specs of the block-sparse families."""

from rocke.kernels.common._fmha_common import FmhaCommonSpec, FmhaShape
from rocke.kernels.common.sparse_attention import JengaSparseSpec, VsaSparseSpec

ARCHS = ("gfx90a", "gfx942", "gfx950")
DTYPES = ("f16", "bf16")
SHAPE = {"head_size": 64, "num_query_heads": 2, "num_kv_heads": 1}


def common(dtype="f16", mask_mode="none", **shape):
    return FmhaCommonSpec(FmhaShape(**(SHAPE | shape)), dtype, mask_mode)


def jenga(seqlen_q=64, seqlen_k=256, *, dtype="f16", shape=None, **fields):
    return JengaSparseSpec(common(dtype, **(shape or {})), seqlen_q, seqlen_k, **fields)


def vsa(seqlen_q=64, seqlen_k=256, *, dtype="f16", shape=None, **fields):
    return VsaSparseSpec(common(dtype, **(shape or {})), seqlen_q, seqlen_k, **fields)
