"""``rocke run``: build a kernel, run it, compare with the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from rocke.cli.checking import check_option, has_findings, report_facts, report_text
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
    manifest_target,
    spec_options,
    split_assignment,
)
from rocke.compiler import CodeObject, CodeObjectError
from rocke.kernels.registry import FAMILIES, Family
from rocke.runtime.device import DeviceError

_COUNTED_LINES = 20
"""Source lines, and LDS instructions with conflicts, that ``--counters`` shows."""


class RunCommand(click.Command):
    """The command, with every family's problem options at the end of its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options with their defaults."""
        with formatter.section("Problem options (-p), with their defaults"):
            formatter.write_dl([(f.name, _told_options(f)) for f in FAMILIES.values()])


@click.command(
    "run", cls=RunCommand, short_help="Build a kernel, run it, compare with the reference."
)
@spec_options
@click.option(
    "--arch",
    "archs",
    multiple=True,
    help="Target(s) of the emulated device, or all.  [default: that of the object or manifest, "
    "else gfx950]",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="emulated, hip (hip:1 for the second GPU), or auto: a GPU if there is one.",
)
@click.option(
    "--density",
    type=click.FloatRange(0, 1),
    help="Share of the key blocks that each query block attends.  [default: the family's, 0.25]",
)
@click.option(
    "-p",
    "--problem",
    "problem_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another option of the family's problems (see below).",
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
@check_option
@linker_option
@click.option("--no-cache", is_flag=True, help="Compile anew, and do not keep the result.")
@json_option
def command(
    family: str,
    settings: tuple[str, ...],
    spec_file: Path | None,
    demo: bool,
    archs: tuple[str, ...],
    device: str,
    density: float | None,
    problem_options: tuple[str, ...],
    seed: int,
    object_file: Path | None,
    count: bool,
    check: str | None,
    linker: str | None,
    no_cache: bool,
    as_json: bool,
) -> int:
    """Build one kernel of FAMILY, run it on random data, compare with the float64 reference.

    The exit code is 1 if an output is farther from the reference than the family's tolerance, or
    if --check finds something.

    Problem options (-p) differ between families and stand below. pattern is random, none, one,
    first, last or all; layout is token or head (which axis comes first in memory); seqlen_q and
    seqlen_k are the lengths of this launch; lists are clean or dirty (entries out of range,
    duplicates, counts too large).

    \b
    Examples:
      rocke run vsa --demo --density 0.1
      rocke run jenga --demo -s dtype=bf16 --arch gfx942 -p pattern=last
      rocke run vsa --demo --counters
      rocke run vsa --demo --check
      rocke run vsa --spec build/KERNEL.gfx950.json --object build/KERNEL.gfx950.hsaco --json
    """
    chosen = find_family(family)
    given = None if object_file is None else _read_object(object_file)
    wanted = _targets(archs, given, spec_file)
    spec = make_spec(chosen, settings, spec_file, demo=demo)
    for arch in wanted:
        if arch is not None:
            check_spec(chosen, spec, arch)
    options = dict(map(_problem_option, problem_options))
    if density is not None:
        options["density"] = density
    reports, passed = [], True
    for arch in wanted:
        opened = open_device(device, arch, count=count, check=check)
        check_spec(chosen, spec, opened.arch)
        problem = make_problem(chosen, spec, seed, options)
        code_object, seconds = (
            (given, 0.0)
            if given is not None
            else compile_spec(chosen, spec, opened.arch, cached=not no_cache, linker=linker)
        )
        if not as_json and len(wanted) > 1 and arch != wanted[0]:
            click.echo()
        try:
            outcome = run_problem(
                chosen, spec, opened, code_object, problem, compile_seconds=seconds
            )
        except DeviceError as error:
            if as_json or not has_findings(error):
                raise
            click.echo(report_text(opened))
            passed = False
            continue
        passed &= outcome.passed
        counters = getattr(opened, "counters", None) if count else None
        facts = {"spec": chosen.flatten(spec), "problem": options, "seed": seed}
        if check:
            facts["checks"] = report_facts(opened)
        reports.append(_report(outcome, counters) | facts)
        if not as_json:
            _show(outcome)
            if check:
                click.echo("\n" + report_text(opened))
            if counters is not None:
                click.echo("\n" + counters.table(lines=_COUNTED_LINES, conflicts=_COUNTED_LINES))
    if as_json:
        print_json(reports if len(wanted) > 1 else reports[0])
    return OK if passed else FAILED


def _targets(
    archs: tuple[str, ...], given: CodeObject | None, spec_file: Path | None
) -> list[str | None]:
    """The targets to run for; ``None`` leaves it to the device."""
    if archs:
        wanted: list[str | None] = [*find_targets(archs)]
        if given is not None and wanted != [given.arch]:
            named = ", ".join(map(str, wanted))
            raise UserError(f"--arch is {named}, the code object is for {given.arch}")
        return wanted
    return [given.arch if given is not None else manifest_target(spec_file)]


def _report(outcome: Outcome, counters: Any) -> dict[str, Any]:
    counted = {} if counters is None else {"counters": counters.to_dict()}
    return {**counted, **asdict(outcome), "share": outcome.share, "passed": outcome.passed}


def _read_object(path: Path) -> CodeObject:
    try:
        return CodeObject.from_bytes(path.read_bytes(), source=str(path))
    except CodeObjectError as error:
        raise UserError(f"{error}: build it again with rocke build") from None


def _told_options(family: Family) -> str:
    told = (n if d is None else f"{n}={d}" for n, d in family.problem_options.items())
    return ", ".join(told)


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
        ("resources", _resources(outcome.resources)),
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


def _resources(found: Mapping[str, int]) -> str:
    registers = [f"{found[key]} {key.upper()}s" for key in ("vgpr", "agpr", "sgpr")]
    memory = [f"{found['lds']} bytes of LDS", f"{found['scratch']} bytes of scratch"]
    return ", ".join([*registers, f"{found['spills']} spills", *memory])


def _matrix(outcome: Outcome) -> str:
    if not outcome.dense_matrix_instructions:
        return "none"
    dense = f"{outcome.dense_matrix_instructions:,} dense"
    if outcome.matrix_instructions is None or outcome.share is None:
        return f"not counted by this device ({dense})"
    return f"{outcome.matrix_instructions:,} of {dense} ({outcome.share:.1%})"
