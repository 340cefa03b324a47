"""``rocke run``: build a kernel, run it, compare with the reference."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from rocke.cli.devices import open_device
from rocke.cli.errors import FAILED, OK, UserError
from rocke.cli.execute import Outcome, compile_spec, make_problem, run_problem
from rocke.cli.output import console, json_option, print_json
from rocke.cli.specs import (
    check_spec,
    find_family,
    find_targets,
    linker_option,
    make_spec,
    spec_options,
    split_assignment,
)
from rocke.compiler import CodeObject, CodeObjectError

_COUNTED_LINES = 20
"""Source lines, and LDS instructions with conflicts, that ``--counters`` shows."""


@click.command("run", short_help="Build a kernel, run it, compare with the reference.")
@spec_options
@click.option("--arch", help="Target of the emulated device.  [default: gfx950]")
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="emulated, hip (hip:1 for the second GPU), or auto: a GPU if there is one.",
)
@click.option(
    "--density",
    type=click.FloatRange(0, 1),
    default=0.25,
    show_default=True,
    help="Share of the key blocks that each query block attends.",
)
@click.option(
    "-p",
    "--problem",
    "problem_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another option of the family's problems (pattern=last, layout=head, ...).",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the data.")
@click.option(
    "--object",
    "object_file",
    type=click.Path(path_type=Path),
    help="Run this code object (.hsaco) of the spec instead of building one.",
)
@click.option(
    "--counters",
    "count",
    is_flag=True,
    help="Count instructions by class and source line, bytes, LDS bank conflicts, lanes off.",
)
@linker_option
@click.option("--no-cache", is_flag=True, help="Compile anew, and do not keep the result.")
@json_option
def command(
    family: str,
    settings: tuple[str, ...],
    spec_file: Path | None,
    demo: bool,
    arch: str | None,
    device: str,
    density: float,
    problem_options: tuple[str, ...],
    seed: int,
    object_file: Path | None,
    count: bool,
    linker: str | None,
    no_cache: bool,
    as_json: bool,
) -> int:
    """Build one kernel of FAMILY, run it on random data, compare with the float64 reference.

    The exit code is 1 if an output is farther from the reference than the family's tolerance.

    \b
    Examples:
      rocke run vsa --demo --density 0.1
      rocke run jenga --demo -s dtype=bf16 --arch gfx942 -p pattern=last
      rocke run vsa --demo --counters
      rocke run vsa --spec build/KERNEL.gfx950.json --object build/KERNEL.gfx950.hsaco --json
    """
    chosen = find_family(family)
    wanted = find_targets([arch])[0] if arch is not None else None
    spec = make_spec(chosen, settings, spec_file, demo=demo)
    if wanted is not None:
        check_spec(chosen, spec, wanted)
    opened = open_device(device, wanted, count=count)
    check_spec(chosen, spec, opened.arch)
    options = {"density": density, **dict(map(_problem_option, problem_options))}
    problem = make_problem(chosen, spec, seed, options)
    if object_file is not None:
        code_object, seconds = _read_object(object_file), 0.0
    else:
        code_object, seconds = compile_spec(
            chosen, spec, opened.arch, cached=not no_cache, linker=linker
        )
    outcome = run_problem(chosen, spec, opened, code_object, problem, compile_seconds=seconds)
    counters = getattr(opened, "counters", None) if count else None
    if as_json:
        print_json(
            {
                **({} if counters is None else {"counters": counters.to_dict()}),
                **asdict(outcome),
                "share": outcome.share,
                "passed": outcome.passed,
                "spec": chosen.flatten(spec),
                "problem": options,
                "seed": seed,
            }
        )
    else:
        _show(outcome)
        if counters is not None:
            click.echo("\n" + counters.table(lines=_COUNTED_LINES, conflicts=_COUNTED_LINES))
    return OK if outcome.passed else FAILED


def _read_object(path: Path) -> CodeObject:
    try:
        return CodeObject.from_bytes(path.read_bytes(), source=str(path))
    except CodeObjectError as error:
        raise UserError(f"{error}: build it again with rocke build") from None


def _problem_option(text: str) -> tuple[str, Any]:
    name, value = split_assignment(text, "-p")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


def _show(outcome: Outcome) -> None:
    out = console()
    rows = [
        ("kernel", outcome.kernel),
        ("device", outcome.device),
        ("compile", f"{outcome.compile_seconds * 1e3:.0f} ms"),
        ("run", f"{outcome.run_seconds * 1e3:.1f} ms"),
        ("resources", ", ".join(f"{v} {k}" for k, v in outcome.resources.items())),
    ]
    if outcome.instructions is not None:
        rows.append(("instructions", f"{outcome.instructions:,}"))
    rows.append(("matrix instr.", _matrix(outcome)))
    for name, error in outcome.errors.items():
        verdict = "[green]ok[/]" if error <= outcome.tolerance else "[red]WRONG[/]"
        within = f"error {error:.2e}, tolerance {outcome.tolerance:.0e}"
        rows.append((f"output {name}", f"{verdict}, {within}"))
    width = max(14, 1 + max(len(name) for name, _ in rows))
    for name, text in rows:
        out.print(f"[bold]{name:{width}}[/]{text}", soft_wrap=True)


def _matrix(outcome: Outcome) -> str:
    if not outcome.dense_matrix_instructions:
        return "none"
    dense = f"{outcome.dense_matrix_instructions:,} dense"
    if outcome.matrix_instructions is None or outcome.share is None:
        return f"not counted by this device ({dense})"
    return f"{outcome.matrix_instructions:,} of {dense} ({outcome.share:.1%})"
