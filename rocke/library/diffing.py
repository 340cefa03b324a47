"""What changed between two libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rocke.library.library import KernelLibrary, LibraryKernel

Count = Callable[[LibraryKernel], Mapping[str, int]]
"""Instructions of a kernel's code, by class."""


@dataclass(frozen=True)
class Change:
    """One fact of a kernel in both libraries."""

    kernel: str
    what: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Difference:
    """Ids of kernels in one library only, and facts that differ in those of both."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changes: tuple[Change, ...]
    same: int

    @property
    def empty(self) -> bool:
        """Whether the libraries hold the same kernels."""
        return not (self.added or self.removed or self.changes)


def diff_libraries(
    old: KernelLibrary, new: KernelLibrary, count: Count | None = None
) -> Difference:
    """Compare two libraries, kernel by kernel.

    ``count`` gives the instructions of objects that differ; without it they are not compared.
    """
    before = {k.id: k for k in old.kernels}
    after = {k.id: k for k in new.kernels}
    changes: list[Change] = []
    same = 0
    for ident in before:
        if ident in after:
            found = list(_changes(before[ident], after[ident], count))
            same += not found
            changes += found
    return Difference(
        added=tuple(i for i in after if i not in before),
        removed=tuple(i for i in before if i not in after),
        changes=tuple(changes),
        same=same,
    )


def _changes(old: LibraryKernel, new: LibraryKernel, count: Count | None) -> list[Change]:
    facts = [_facts(old), _facts(new)]
    if old.entry.sha256 != new.entry.sha256 and count is not None:
        for fact, kernel in zip(facts, (old, new), strict=True):
            fact |= {f"{name} instructions": n for name, n in count(kernel).items()}
    names = [*facts[0], *(n for n in facts[1] if n not in facts[0])]
    return [
        Change(old.id, name, facts[0].get(name, 0), facts[1].get(name, 0))
        for name in names
        if facts[0].get(name, 0) != facts[1].get(name, 0)
    ]


def _facts(kernel: LibraryKernel) -> dict[str, Any]:
    entry = kernel.entry.plain()
    resources = entry.pop("resources")
    for name in ("id", "file"):  # the first is the same, the second says nothing new
        entry.pop(name)
    return {**resources, **entry}
