"""Specs of the block-sparse attention families, and the checks that decide what is built."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from rocke.arch import target
from rocke.helpers.mfma_attention import MFMA_ATTN_BLOCK_K, MFMA_ATTN_BLOCK_M
from rocke.helpers.spec import check_choice, check_int, check_name, first_reason, kernel_name_join

from ._fmha_common import FmhaCommonSpec, validate_common_spec
from .fmha_arch import validate_fmha_mfma_atom

MAX_SIZE = 2**31 - 64
"""Rows, keys and elements of the pattern are counted in i32, with room for a loop's last step."""


ELEMENT_BYTES = 2
"""Of f16 and bf16."""


def longest_token_stride(rows: int) -> int:
    """In elements, so that the addresses of one head's ``rows`` and its last tile fit 32 bits."""
    return (2**32 - 1) // (ELEMENT_BYTES * (rows + MFMA_ATTN_BLOCK_M))


class SparseGeometry:
    """What both specs derive from their lengths and block sizes."""

    common: FmhaCommonSpec
    seqlen_q: int
    seqlen_k: int
    block_q: int
    block_k: int
    name: str

    @property
    def num_q_blocks(self) -> int:
        """Query blocks, the last one possibly partial."""
        return -(-self.seqlen_q // self.block_q)

    @property
    def num_k_blocks(self) -> int:
        """Key blocks."""
        return -(-self.seqlen_k // self.block_k)

    @property
    def mask_rows_per_tile(self) -> int:
        """The most query blocks that the 16 rows of one tile can belong to."""
        # A tile starts at a multiple of gcd(16, block_q) within its query block.
        latest_start = self.block_q - gcd(MFMA_ATTN_BLOCK_M, self.block_q)
        touched = (latest_start + MFMA_ATTN_BLOCK_M - 1) // self.block_q + 1
        return min(touched, self.num_q_blocks)

    def _name_parts(self) -> tuple[str, ...]:
        common, shape = self.common, self.common.shape
        return (
            self.name,
            f"H{shape.head_size}",
            f"HQ{shape.num_query_heads}",
            f"HK{shape.num_kv_heads}",
            common.dtype,
            "" if common.mask_mode == "none" else common.mask_mode,
            f"Q{self.seqlen_q}",
            f"K{self.seqlen_k}",
            f"BQ{self.block_q}",
            f"BK{self.block_k}",
        )


@dataclass(frozen=True)
class JengaSparseSpec(SparseGeometry):
    """One Jenga configuration: a bitmap says which key blocks each query block attends.

    ``seqlen_q`` is a multiple of 16, ``seqlen_k`` of ``block_k``, ``block_k`` of 16.
    """

    common: FmhaCommonSpec
    seqlen_q: int
    seqlen_k: int
    block_q: int = 1
    block_k: int = 64
    name: str = "rocke_jenga_sparse_attn"

    @property
    def lds_bytes(self) -> int:
        """LDS that the staged mask takes, in bytes."""
        return self.num_k_blocks * self.mask_rows_per_tile

    def kernel_name(self) -> str:
        """The kernel's symbol: every field stands in it."""
        return kernel_name_join(*self._name_parts())


@dataclass(frozen=True)
class VsaSparseSpec(SparseGeometry):
    """One VSA configuration: a list of key blocks for each query block.

    ``max_blocks_per_q`` is the length of a list's row. ``use_wave_ballot_scatter`` chooses how 64
    list entries become bytes in LDS: one store by all lanes behind one branch of the whole wave,
    lanes without a valid entry hitting a spare byte, or a branch of each lane. Both give the same
    results. The rest is as for :class:`JengaSparseSpec`.
    """

    common: FmhaCommonSpec
    seqlen_q: int
    seqlen_k: int
    block_q: int = 1
    block_k: int = 64
    max_blocks_per_q: int = 32
    name: str = "rocke_vsa_sparse_attn"
    use_wave_ballot_scatter: bool = True

    @property
    def lds_bytes(self) -> int:
        """LDS that the bitmap takes, in bytes, with the spare byte of the ballot form."""
        return self.num_k_blocks * self.mask_rows_per_tile + int(self.use_wave_ballot_scatter)

    def kernel_name(self) -> str:
        """The kernel's symbol: every field stands in it."""
        scatter = "ballot" if self.use_wave_ballot_scatter else "branch"
        return kernel_name_join(*self._name_parts(), f"MB{self.max_blocks_per_q}", scatter)


def is_valid_jenga_spec(spec: JengaSparseSpec, arch: str = "gfx950") -> tuple[bool, str]:
    """Whether :func:`build_jenga_sparse_attention` builds the spec; returns ``(ok, reason)``."""
    if not isinstance(spec, JengaSparseSpec):
        return False, f"spec is {type(spec).__name__}, expected JengaSparseSpec"
    ok, reason = _validate_geometry(spec, arch)
    if not ok:
        return False, reason
    return _validate_sizes(spec, arch, spec.lds_bytes, "the mask", spec.num_k_blocks)


def is_valid_vsa_spec(spec: VsaSparseSpec, arch: str = "gfx950") -> tuple[bool, str]:
    """Whether :func:`build_vsa_sparse_attention` builds the spec; returns ``(ok, reason)``."""
    if not isinstance(spec, VsaSparseSpec):
        return False, f"spec is {type(spec).__name__}, expected VsaSparseSpec"
    ok, reason = _validate_geometry(spec, arch)
    if not ok:
        return False, reason
    ok, reason = first_reason(
        check_int("max_blocks_per_q", spec.max_blocks_per_q, 1, MAX_SIZE),
        check_choice("use_wave_ballot_scatter", spec.use_wave_ballot_scatter, (True, False)),
    )
    if not ok:
        return False, reason
    return _validate_sizes(spec, arch, spec.lds_bytes, "block_lut", spec.max_blocks_per_q)


def _validate_geometry(spec: SparseGeometry, arch: str) -> tuple[bool, str]:
    ok, reason = validate_common_spec(spec.common)
    if not ok:
        return False, reason
    ok, reason = validate_fmha_mfma_atom(spec.common.dtype, arch)
    if not ok:
        return False, reason
    ok, reason = first_reason(
        check_name("name", spec.name),
        check_int("seqlen_q", spec.seqlen_q, 1, MAX_SIZE, multiple_of=MFMA_ATTN_BLOCK_M),
        check_int("seqlen_k", spec.seqlen_k, 1, MAX_SIZE, multiple_of=MFMA_ATTN_BLOCK_K),
        check_int("block_q", spec.block_q, 1, MAX_SIZE),
        check_int("block_k", spec.block_k, 1, MAX_SIZE, multiple_of=MFMA_ATTN_BLOCK_K),
    )
    if ok and spec.seqlen_k % spec.block_k:
        return False, (
            f"seqlen_k is {spec.seqlen_k}, expected a multiple of block_k ({spec.block_k})"
        )
    return ok, reason


def _validate_sizes(
    spec: SparseGeometry, arch: str, lds: int, pattern: str, row: int
) -> tuple[bool, str]:
    if spec.num_q_blocks * row > MAX_SIZE:
        return False, (
            f"{pattern} has {spec.num_q_blocks} x {row} elements, expected at most {MAX_SIZE}; "
            "larger blocks need fewer"
        )
    available = target(arch).lds_bytes
    if lds > available:
        return False, (
            f"seqlen_k {spec.seqlen_k} in blocks of block_k {spec.block_k}, with block_q "
            f"{spec.block_q}, needs {lds} bytes of LDS; {arch} has {available}"
        )
    head_size = spec.common.shape.head_size
    for field, rows in (("seqlen_q", spec.seqlen_q), ("seqlen_k", spec.seqlen_k)):
        if longest_token_stride(rows) < head_size:
            return False, (
                f"{field} is {rows}: rows of {head_size} elements of one head take more than the "
                "4 GiB that a kernel addresses"
            )
    return True, "ok"
