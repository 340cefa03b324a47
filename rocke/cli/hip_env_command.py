"""``rocke hip-env``: let a command's HIP calls go to the emulated device."""

from __future__ import annotations

import os
import re
import shlex

import click

from rocke.cli.errors import UserError
from rocke.cli.output import json_option, print_json

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@click.command("hip-env", short_help="Run HIP programs on the emulated device.")
@click.option(
    "--arch",
    "--devices",
    "arch",
    default="gfx950",
    show_default=True,
    metavar="TARGET[,TARGET...]",
    help="What to emulate, with or without features (gfx942:sramecc+:xnack-); several targets "
    "are several GPUs.",
)
@click.option(
    "--memory", metavar="SIZE", help="The memory of a GPU, as 16G or 512M (default: the host's)."
)
@click.option("--threads", type=click.IntRange(1), help="Host threads (default: all cores).")
@click.option(
    "--max-instructions",
    type=click.IntRange(1),
    metavar="N",
    help="Stop a kernel whose wave executes more instructions.",
)
@click.option("--check", is_flag=True, help="Checked mode: races, waits, hazards and more.")
@json_option
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(
    arch: str,
    memory: str | None,
    threads: int | None,
    max_instructions: int | None,
    check: bool,
    as_json: bool,
    program: tuple[str, ...],
) -> None:
    """Show a Python program emulated GPUs, through HIP and the unmodified hip-python.

    With a PROGRAM after -- that program runs; without one, the shell commands that switch it on are
    printed, for eval. It serves the Python processes of this installation below that shell, also
    where ROCm is installed: asking for it is asking for emulation. No C compiler is needed.

    \b
    Examples:
      rocke hip-env --arch gfx942 -- python script.py
      rocke hip-env --devices gfx950,gfx942 -- python two_gpus.py
      eval "$(rocke hip-env --arch gfx942:sramecc+:xnack-)"
    """
    from rocke.emulator.hip.environment import environment
    from rocke.emulator.hip.library import ensure_library
    from rocke.emulator.hip.settings import Settings
    from rocke.runtime.device import DeviceError

    options = {"threads": threads, "max_instructions": max_instructions, "check": check or None}
    size = None if memory is None else _bytes(memory)
    try:
        Settings(arch, size)
    except DeviceError as error:
        raise UserError(f"--arch or --memory: {error}") from error
    ensure_library()
    variables = environment(arch, size, options, os.environ)
    if program:
        _replace_process(program, {**os.environ, **variables})
    if as_json:
        print_json(dict(variables))
        return
    for name, value in variables.items():
        click.echo(f"export {name}={shlex.quote(value)}")
    click.echo("# To switch it off again: unset ROCKE_HIP")


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UserError(f"--memory is {text!r}, expected a size such as 16G or 512M")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _replace_process(program: tuple[str, ...], variables: dict[str, str]) -> None:
    try:
        os.execvpe(program[0], program, variables)
    except OSError as error:
        raise UserError(f"{program[0]}: {error.strerror}") from error
