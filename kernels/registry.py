"""The kernel families by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .common.sparse_family import JENGA, VSA
from .family import REQUIRED, Family, Field, Problem, SpecError

__all__ = ["FAMILIES", "REQUIRED", "Family", "Field", "Problem", "SpecError", "family"]

FAMILIES: Mapping[str, Family] = MappingProxyType({f.name: f for f in (JENGA, VSA)})
"""Every kernel family, by name."""


def family(name: str) -> Family:
    """The family called ``name``; raises ``ValueError`` that lists the known ones."""
    try:
        return FAMILIES[name]
    except KeyError:
        known = ", ".join(FAMILIES)
        raise ValueError(f"unknown family {name!r}: expected one of {known}") from None
