"""``rocke doctor``: what was found on this machine, and how to get what is missing."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib import metadata

import click

from rocke.cli.errors import FAILED, OK
from rocke.cli.output import console, json_option, print_json
from rocke.cli.probes import Finding, examine


@click.command("doctor", short_help="Show what was found on this machine.")
@json_option
def command(as_json: bool) -> int:
    """Show what was found on this machine, with versions, and how to get what is missing.

    A GPU is not needed: kernels run on the emulated device. The exit code is 1 if something that
    building or emulating needs is missing.

    \b
    Examples:
      rocke doctor
      rocke doctor --json
    """
    findings = examine()
    works = all(f.found for f in findings if f.needed)
    if as_json:
        print_json(
            {
                "rocke": metadata.version("rocke"),
                "python": platform.python_version(),
                "platform": platform.platform(),
                "works": works,
                "findings": [asdict(f) for f in findings],
            }
        )
    else:
        _show(findings, works)
    return OK if works else FAILED


def _show(findings: list[Finding], works: bool) -> None:
    out = console()
    out.print(
        f"rocke {metadata.version('rocke')}, Python {platform.python_version()}, "
        f"{platform.platform()}"
    )
    for f in findings:
        mark = (
            "[green]ok[/]     " if f.found else "[red]missing[/]" if f.needed else "[dim]none[/]   "
        )
        out.print(f"{mark}  [bold]{f.name:16}[/] ", end="")
        out.print(f.detail, markup=False, soft_wrap=True)
        if f.remedy:
            out.print(f"{'':28}-> {f.remedy}", markup=False, soft_wrap=True)
    if works:
        out.print("Kernels can be built and run on the emulated device.")
    else:
        out.print("[red]Kernels cannot be built and run until what is missing is installed.[/]")
        out.print("Kernels of a library can be selected, and launched on a GPU, without it.")
