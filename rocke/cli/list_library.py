"""``rocke list LIBRARY``: what a library holds."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import click

from rocke.cli.output import console, print_json, table
from rocke.library.library import KernelLibrary
from rocke.library.store import find_installed, is_archive, is_built


def is_library(name: str) -> bool:
    """Whether an argument of ``rocke list`` names a library and not a family."""
    path = Path(name)
    if find_installed(name) is not None or is_built(path) or is_archive(path):
        return True
    # Without a separator it may be a folder or file that happens to be called like a family.
    return path.exists() and os.sep in name


def list_library(name: str, as_json: bool) -> None:
    """Show the kernels of a library, with what they take."""
    library = KernelLibrary.open(name)
    manifest = library.manifest
    if as_json:
        print_json(
            {
                "name": manifest.name,
                "version": manifest.version,
                "description": manifest.description,
                "rocke": manifest.rocke,
                "toolchain": list(manifest.toolchain),
                "kernels": [k.entry.plain() for k in library.kernels],
            }
        )
        return
    out = console()
    title = f"{manifest.name} {manifest.version}"
    title += f": {manifest.description}" if manifest.description else ""
    out.print(title, markup=False, soft_wrap=True)
    rows = []
    for kernel in library.kernels:
        entry, r = kernel.entry, kernel.entry.resources
        spills = r.vgpr_spills + r.sgpr_spills
        rows.append((kernel.id.rpartition(".")[0], entry.arch, r.vgpr, r.lds, spills, entry.size))
    width = max(len(str(row[0])) for row in rows)
    shown = table(["kernel", "target", ">VGPR", ">LDS bytes", ">spills", ">object bytes"], rows)
    out.width = max(out.width, width + 60)
    out.print(shown, soft_wrap=True)
    counts = Counter((k.entry.family, k.entry.arch) for k in library.kernels)
    for (family, arch), number in counts.items():
        click.echo(f"{number} of {family} for {arch}")
