"""The kernel families by name."""

from __future__ import annotations

import difflib
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
    """The family called ``name``, or the only one whose name starts with it (``vsa``).

    Raises ``ValueError`` that lists the known ones.
    """
    if name in FAMILIES:
        return FAMILIES[name]
    matches = [known for known in FAMILIES if known.startswith(name)] if name else []
    if len(matches) == 1:
        return FAMILIES[matches[0]]
    close = difflib.get_close_matches(name, FAMILIES, n=1)
    hint = f", did you mean {close[0]!r}?" if close else ""
    raise ValueError(
        f"unknown family {name!r}{hint}: expected one of {', '.join(FAMILIES)} (or the beginning "
        "of one)"
    )
