"""The kernel families by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .common.block_sparse_family import BLOCK_SPARSE
from .common.sparse_family import JENGA, VSA
from .family import REQUIRED, Family, Field, LaunchRule, Problem, SpecError
from .sparsity.families import COMPANION_FAMILIES

__all__ = [
    "FAMILIES",
    "REQUIRED",
    "SEED_FAMILIES",
    "Family",
    "Field",
    "LaunchRule",
    "Problem",
    "SpecError",
    "family",
]

SEED_FAMILIES: Mapping[str, Family] = MappingProxyType({f.name: f for f in (JENGA, VSA)})
"""The two simple attention families, by name: one wave a workgroup, sizes in the spec."""
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {**SEED_FAMILIES, **{f.name: f for f in (BLOCK_SPARSE, *COMPANION_FAMILIES)}}
)
"""Every kernel family, by name."""


def family(name: str) -> Family:
    """The family called ``name``; raises ``ValueError`` that lists the known ones."""
    try:
        return FAMILIES[name]
    except KeyError:
        known = ", ".join(FAMILIES)
        raise ValueError(f"unknown family {name!r}: expected one of {known}") from None
