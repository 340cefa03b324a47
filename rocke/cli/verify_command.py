"""``rocke verify``: run every kernel of a library against its reference."""

from __future__ import annotations

from dataclasses import asdict

import click

from rocke.cli.devices import open_device
from rocke.cli.errors import FAILED, OK, UserError
from rocke.cli.libraries import choose, kernels_option, library_argument
from rocke.cli.output import json_option, print_json
from rocke.cli.specs import find_targets
from rocke.library.library import KernelLibrary
from rocke.library.naming import count_of
from rocke.library.verifying import Verification, verify_library


@click.command("verify", short_help="Run a library's kernels against their references.")
@library_argument
@click.option("--arch", "archs", multiple=True, help="Only these targets.  [default: all]")
@click.option(
    "--device",
    default="emulated",
    show_default=True,
    help="emulated, or hip (hip:1 for the second GPU) with the --arch of that GPU.",
)
@kernels_option
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the data.")
@json_option
def command(
    library: str,
    archs: tuple[str, ...],
    device: str,
    patterns: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> int:
    """Run every kernel of LIBRARY, from its packaged bytes, against the reference of its family.

    LIBRARY is a build folder, a zip, a wheel, or the name of an installed library. The exit code is
    1 if a kernel is wrong.

    \b
    Examples:
      rocke verify build/
      rocke verify my-attention --arch gfx942 --device hip
    """
    opened = KernelLibrary.open(library)
    kernels = choose(opened, patterns, find_targets(archs) if archs else ())
    targets = list(dict.fromkeys(k.entry.arch for k in kernels))
    if device != "emulated" and len(targets) > 1:
        raise UserError(f"--device {device}: choose its target with --arch ({', '.join(targets)})")
    results = []
    for arch in targets:
        own = [k for k in kernels if k.entry.arch == arch]
        for result in verify_library(opened, open_device(device, arch), own, seed=seed):
            results.append(result)
            if not as_json:
                _show(result)
    wrong = sum(bool(r.reason) for r in results)
    if as_json:
        print_json({"wrong": wrong, "kernels": [asdict(r) for r in results]})
    else:
        right = len(results) - wrong
        verb = "is" if len(results) == 1 else "are"
        click.echo(f"{right} of {count_of(results, 'kernel')} {verb} right")
    return FAILED if wrong else OK


def _show(result: Verification) -> None:
    said = result.reason or f"error {result.error:.1e}"
    mark = click.style("WRONG", fg="red") if result.reason else click.style("ok", fg="green")
    click.echo(f"{mark}  {result.kernel}: {said} ({result.seconds:.1f} s)")
