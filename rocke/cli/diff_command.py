"""``rocke diff``: what changed between two libraries."""

from __future__ import annotations

import importlib.util
from collections import Counter
from dataclasses import asdict

import click

from rocke.cli.errors import FAILED, OK
from rocke.cli.output import json_option, print_json
from rocke.library.diffing import Count, diff_libraries
from rocke.library.library import KernelLibrary, LibraryKernel


@click.command("diff", short_help="Show what changed between two libraries.")
@click.argument("old")
@click.argument("new")
@click.option("--exit-code", is_flag=True, help="Exit with 1 where the libraries differ.")
@json_option
def command(old: str, new: str, exit_code: bool, as_json: bool) -> int:
    """Show what changed from the library OLD to NEW: kernels added and removed, and for those in
    both registers, spills, LDS, arguments, constraints, and instructions by class.

    \b
    Examples:
      rocke diff yesterday/ build/
      rocke diff my-attention my_attention-1.1.0-py3-none-any.whl
    """
    count = _counter()
    found = diff_libraries(KernelLibrary.open(old), KernelLibrary.open(new), count)
    code = FAILED if exit_code and not found.empty else OK
    if as_json:
        print_json({**asdict(found), "instructions_compared": count is not None})
        return code
    for ident in found.removed:
        click.echo(f"- {ident}")
    for ident in found.added:
        click.echo(f"+ {ident}")
    last = ""
    for change in found.changes:
        if change.kernel != last:
            last = change.kernel
            click.echo(f"  {last}")
        click.echo(f"    {change.what}: {change.old} -> {change.new}")
    changed = len({c.kernel for c in found.changes})
    click.echo(
        f"{len(found.added)} added, {len(found.removed)} removed, {changed} changed, "
        f"{found.same} the same"
    )
    if count is None:
        click.echo("Instructions were not compared: that needs rocke[emulator].", err=True)
    return code


def _counter() -> Count | None:
    """Counts the instructions of a kernel's code by class, if the disassembler is installed."""
    if importlib.util.find_spec("llvmlite") is None:
        return None
    from rocke.emulator.counters import classify
    from rocke.emulator.disassembler import DisassemblerError, disassemble, library_path

    try:
        library_path()
    except DisassemblerError:
        return None

    def count(kernel: LibraryKernel) -> dict[str, int]:
        code_object = kernel.code_object()
        start, size = code_object.kernel(kernel.entry.symbol).text
        lines = disassemble(code_object.data[start : start + size], code_object.arch)
        return dict(Counter(classify(line.text.split()[0]).value for line in lines if line.text))

    return count
