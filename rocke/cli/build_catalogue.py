"""``rocke build CATALOGUE.toml``: a whole library, with progress."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from rocke.cli.errors import FAILED, OK, UserError
from rocke.cli.output import console, print_json
from rocke.library.build import Progress, Report, build_library, report_as_json
from rocke.library.catalogue import Catalogue, shipped
from rocke.library.plan import Job, Plan, expand


def is_catalogue(name: str) -> bool:
    """Whether an argument of ``rocke build`` names a catalogue and not a family."""
    return name.endswith(".toml")


def build_catalogue(
    name: str,
    output: Path,
    *,
    archs: list[str],
    filters: tuple[str, ...],
    jobs: int | None,
    dry_run: bool,
    linker: str | None,
    as_json: bool,
) -> int:
    """Build a catalogue, or with ``dry_run`` show what would be built; gives the exit code."""
    catalogue = Catalogue.load(_find(name))
    matches = matcher(filters)
    if dry_run:
        _show_plan(expand(catalogue, archs=archs, matches=matches), as_json)
        return OK
    with _progress(quiet=as_json) as tell:
        report = build_library(
            catalogue,
            output,
            archs=archs,
            matches=matches,
            jobs=jobs,
            linker=linker,
            progress=tell,
        )
    if as_json:
        print_json(report_as_json(report))
    else:
        _show_report(report)
    return FAILED if report.failures else OK


def matcher(filters: tuple[str, ...]) -> Callable[[Job], bool]:
    """Jobs that match every filter: ``FIELD=PATTERN``, or a pattern of the family's name.

    Patterns are those of a shell; several stand with ``|`` between them.
    """
    rules = []
    for text in filters:
        field, equals, pattern = text.partition("=")
        rules.append((field, pattern) if equals else ("family", text))

    def matches(job: Job) -> bool:
        values = {**job.spec, "family": job.family, "arch": job.arch}
        for field, patterns in rules:
            if field not in values:
                return False
            value = str(values[field]).lower() if field != "family" else job.family
            if not any(fnmatch.fnmatchcase(value, p.strip()) for p in patterns.split("|")):
                return False
        return True

    return matches


def _find(name: str) -> Path:
    path = Path(name)
    if path.exists():
        return path
    known = shipped()
    if name in known:
        return known[name]
    raise UserError(
        f"{name}: no such file, and rocke ships no catalogue of that name "
        f"(it ships {', '.join(known)})"
    )


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Draws a bar on standard error, and a line for each failure."""
    err = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("building"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeRemainingColumn(compact=True),
    )
    with Bar(*columns, console=err, disable=quiet or not err.is_terminal) as bar:
        task = bar.add_task("building", total=None, counts="")

        def tell(state: Progress) -> None:
            counts = f"{state.cached} cached, {state.failed} failed"
            completed = state.done + state.failed
            bar.update(task, total=state.total, completed=completed, counts=counts)
            if state.reason:
                err.print(f"failed: {state.label}: {state.reason}", markup=False, soft_wrap=True)
            for line in state.warnings:
                err.print(f"warning: {line}", markup=False, soft_wrap=True)

        yield tell


def _show_plan(plan: Plan, as_json: bool) -> None:
    if as_json:
        jobs = [{"family": j.family, "arch": j.arch, "spec": dict(j.spec)} for j in plan.jobs]
        print_json({"jobs": jobs, "dropped": [asdict(d) for d in plan.dropped]})
        return
    for job in plan.jobs:
        click.echo(f"build    {job.label}")
    for drop in plan.dropped:
        click.echo(f"dropped  {drop.label}: {drop.reason}")
    click.echo(f"{len(plan.jobs)} to build, {len(plan.dropped)} dropped")


def _show_report(report: Report) -> None:
    out = console()
    facts: list[tuple[str, Any]] = [
        ("compiled", report.compiled),
        ("cached", report.cached),
        ("failed", len(report.failures)),
        ("dropped", len(report.dropped)),
    ]
    counts = ", ".join(f"{n} {what}" for what, n in facts)
    out.print(f"{counts} in {report.seconds:.1f} s", soft_wrap=True)
    if report.manifest is None:
        out.print("No manifest was written: repair or exclude what failed, and build again.")
    else:
        name = f"{report.manifest.name} {report.manifest.version}"
        out.print(
            f"{name}: {len(report.manifest.kernels)} kernels in {report.folder}",
            markup=False,
            soft_wrap=True,
        )
