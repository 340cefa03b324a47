"""What the commands on kernel libraries share."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

import click

from rocke.cli.errors import UserError
from rocke.library.library import KernelLibrary, LibraryKernel

library_argument = click.argument("library")
kernels_option = click.option(
    "-k", "--kernel", "patterns", multiple=True, help="Only kernels whose id matches (*bf16*)."
)


def choose(
    library: KernelLibrary, patterns: Iterable[str], archs: Iterable[str]
) -> list[LibraryKernel]:
    """The kernels of some targets (none: all) whose id matches a pattern (none: all)."""
    wanted, targets = tuple(patterns), tuple(archs)
    found = [
        k
        for k in library.kernels
        if (not targets or k.entry.arch in targets)
        and (not wanted or any(fnmatch.fnmatchcase(k.id, p) for p in wanted))
    ]
    if not found:
        raise UserError(f"{library.source}: no kernel matches (rocke list {library.source})")
    return found
