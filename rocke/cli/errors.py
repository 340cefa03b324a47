"""What the command line says when something goes wrong, and the exit code that goes with it."""

from __future__ import annotations

import click

OK = 0
FAILED = 1
"""A check failed: wrong results, a kernel that does not compile or faults, a missing tool."""
USAGE = 2
"""The input is wrong: an option, a spec, a target, a file."""


class UserError(click.ClickException):
    """Wrong input; the text says what is wrong and what to do."""

    exit_code = USAGE


class Failure(click.ClickException):
    """The input is right, but the work failed."""

    exit_code = FAILED


EXTRAS = {
    "mlir": "compiler",
    "ziglang": "compiler",
    "llvmlite": "all",
    "rocm": "emulator",
    "tomli": "compiler",
}
"""Modules that rocke's run-time part comes without -> the extra that brings them."""


def missing_extra(error: Exception) -> str:
    """What to install for a module of an extra that is missing; empty for any other error."""
    root = (error.name or "").split(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if root not in EXTRAS:
        return ""
    from rocke.cli.probes import install_command

    return f"this needs {root}, which is not installed: {install_command(EXTRAS[root])}"


def explain(error: Exception) -> click.ClickException | None:
    """The one-line report for an error of rocke's own, or ``None`` for a bug.

    The modules that define the errors are not imported: an error of theirs means they are loaded.
    """
    if advice := missing_extra(error):
        return Failure(advice)
    usage = {"UnknownTarget", "ArgumentError", "CodeObjectError", "SpecError"}
    usage |= {"CatalogueError", "LibraryError", "NoKernel"}
    failed = {"CompileError", "DeviceError", "DisassemblerError", "IRError", "BuildError"}
    names = {c.__name__ for c in type(error).__mro__ if c.__module__.split(".")[0] == "rocke"}
    text = " ".join(str(error).split())
    if names & usage:
        return UserError(text)
    if names & failed:
        return Failure(text)
    if isinstance(error, OSError) and error.filename is not None:
        return UserError(f"{error.filename}: {error.strerror}")
    if isinstance(error, OSError) and error.strerror:
        return Failure(error.strerror)
    if isinstance(error, MemoryError):
        return Failure(f"out of memory ({text or 'no details'}): a smaller spec needs less")
    return None
