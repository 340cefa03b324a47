"""Entry point of the ``rocke`` command.

Subcommands are imported when they are called, so ``rocke --help`` needs neither numpy nor LLVM.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import click
from click.exceptions import NoArgsIsHelpError

from rocke.cli.errors import USAGE, explain

COMMANDS = {
    "list": ("rocke.cli.list_command", "Show kernel families and targets, or a library."),
    "build": ("rocke.cli.build_command", "Compile a kernel, or a library of kernels."),
    "run": ("rocke.cli.run_command", "Build a kernel, run it, compare with the reference."),
    "inspect": ("rocke.cli.inspect_command", "Show what a code object says of itself."),
    "pack": ("rocke.cli.pack_command", "Package a built library as a wheel or zip."),
    "verify": ("rocke.cli.verify_command", "Run a library's kernels against their references."),
    "diff": ("rocke.cli.diff_command", "Show what changed between two libraries."),
    "demo": ("rocke.cli.demo_command", "Run the seed kernels on every target."),
    "hip-env": ("rocke.cli.hip_env_command", "Run HIP programs on the emulated device."),
    "doctor": ("rocke.cli.doctor_command", "Show what was found on this machine."),
}
"""Name -> module with a click command called ``command``, and its short help."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are looked up."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of :data:`COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command called ``name``, or ``None``."""
        if name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, help_) in COMMANDS.items()])


def _version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"rocke {version('rocke')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, callback=_version, expose_value=False, help="Show it.")
def cli() -> None:
    """Write, compile and check AMD Instinct GPU kernels, with or without a GPU.

    \b
    Examples:
      rocke list
      rocke build vsa -s head_size=128 --arch gfx942 -o build/
      rocke run jenga -s head_size=64 --density 0.1
      rocke doctor

    Exit codes: 0 done, 1 a check or a compilation failed, 2 wrong input.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: errors of the user's are one line, not a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _show_warning
    try:
        code = cli.main(given, prog_name="rocke", standalone_mode=False)
    except click.Abort:
        again = "; run the same command to go on" if given[:1] == ["build"] else ""
        click.echo(f"interrupted{again}", err=True)
        sys.exit(130)
    except click.ClickException as error:
        _report(error, as_json="--json" in given)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        report = explain(error)
        if report is None:
            raise
        _report(report, as_json="--json" in given, facts=getattr(error, "report", {}))
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _report(
    error: click.ClickException,
    *,
    as_json: bool,
    facts: Mapping[str, object] = MappingProxyType({}),
) -> None:
    if isinstance(error, NoArgsIsHelpError):
        click.echo(error.format_message())
        sys.exit(USAGE)
    message = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message = f"{message.rstrip('.')} (see {error.ctx.command_path} --help)"
    if as_json:
        told = {"error": message, **({"report": dict(facts)} if facts else {})}
        click.echo(json.dumps(told, default=str))
    click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)
    sys.exit(error.exit_code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    click.echo(f"{click.style('warning:', fg='yellow', bold=True)} {message}", err=True)
