"""``rocke build CATALOGUE.toml``: a whole library, with progress."""

from __future__ import annotations

import time
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
from rocke.cli.filters import matcher
from rocke.cli.output import console, print_json
from rocke.library.build import Progress, Report, build_library, report_as_json
from rocke.library.catalogue import Catalogue, shipped
from rocke.library.naming import count_of
from rocke.library.plan import Plan, expand

EVERY = 10.0
"""Seconds between lines of progress where there is no terminal to draw on."""


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
    matches = matcher(filters, catalogue)
    if dry_run:
        plan = expand(catalogue, archs=archs, matches=matches)
        for line in plan.warnings:
            click.echo(f"warning: {line}", err=True)
        _show_plan(plan, as_json)
        return OK if plan.jobs else FAILED
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
    for line in report.unused:
        click.echo(f"warning: {line}", err=True)
    if as_json:
        print_json(report_as_json(report))
    else:
        _show_report(report)
    return FAILED if report.failures else OK


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
    """Draws a bar on standard error, and a line for each failure; without a terminal a line every
    ten seconds.
    """
    err = Console(stderr=True, highlight=False, emoji=False)
    columns = (
        TextColumn("building"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeRemainingColumn(compact=True),
    )
    drawn = err.is_terminal and not quiet
    last = time.monotonic()
    with Bar(*columns, console=err, disable=not drawn) as bar:
        task = bar.add_task("building", total=None, counts="")

        def tell(state: Progress) -> None:
            nonlocal last
            counts = f"{state.cached} cached, {state.failed} failed"
            completed = state.done + state.failed
            bar.update(task, total=state.total, completed=completed, counts=counts)
            if state.reason:
                err.print(f"failed: {state.label}: {state.reason}", markup=False, soft_wrap=True)
            for line in state.warnings:
                err.print(f"warning: {line}", markup=False, soft_wrap=True)
            if not drawn and not quiet and time.monotonic() - last >= EVERY:
                last = time.monotonic()
                click.echo(f"{completed} of {count_of(state.total, 'kernel')} ({counts})", err=True)

        yield tell


def _show_plan(plan: Plan, as_json: bool) -> None:
    if as_json:
        jobs = [{"family": j.family, "arch": j.arch, "spec": dict(j.spec)} for j in plan.jobs]
        dropped = [asdict(d) for d in plan.dropped]
        print_json({"jobs": jobs, "dropped": dropped, "left_out": plan.left_out})
        return
    for job in plan.jobs:
        click.echo(f"build    {job.label}")
    for drop in plan.dropped:
        click.echo(f"dropped  {drop.label}: {drop.reason}")
    click.echo(f"{len(plan.jobs)} to build, {plan.counts()}")


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
            f"{name}: {count_of(report.manifest.kernels, 'kernel')} in {report.folder}",
            markup=False,
            soft_wrap=True,
        )
