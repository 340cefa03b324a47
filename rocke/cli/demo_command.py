"""``rocke demo``: the seed kernels on every target, and cost against density."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from rocke.arch import TARGETS
from rocke.cli.devices import open_device
from rocke.cli.errors import FAILED, OK
from rocke.cli.execute import Outcome, compile_spec, make_problem, run_problem
from rocke.cli.output import console, json_option, print_json, table
from rocke.kernels.registry import SEED_FAMILIES, Family

DENSITIES = (1.0, 0.5, 0.25, 0.1, 0.05)
_SEED = 0


@click.command("demo", short_help="Run the seed kernels on every target.")
@json_option
def command(as_json: bool) -> int:
    """Build the seed kernels for every target, run them on the emulated device, check the results.

    Prints compile time, instructions executed and error against the float64 reference, then the
    matrix instructions by density: masked blocks are skipped. Takes less than a minute.

    \b
    Example:
      rocke demo
    """
    outcomes: list[tuple[float, Outcome]] = []
    out = console()
    # The first compile pays for starting the worker process: leave that out of the times.
    if not as_json:
        out.print(f"Compiling for {', '.join(TARGETS)}; running on the emulated device")
    first = next(iter(SEED_FAMILIES.values()))
    compile_spec(first, first.make_spec(first.demo), next(iter(TARGETS)), cached=False)
    for arch in TARGETS:
        for family in SEED_FAMILIES.values():
            found = _run_family(family, arch)
            outcomes += zip(DENSITIES, found, strict=True)
            if not as_json:
                out.print(_line(family, found), soft_wrap=True)
    if as_json:
        print_json([{"density": d, "passed": o.passed, **asdict(o)} for d, o in outcomes])
    else:
        _show_costs(outcomes)
    return OK if all(outcome.passed for _, outcome in outcomes) else FAILED


def _run_family(family: Family, arch: str) -> list[Outcome]:
    spec = family.make_spec(family.demo)
    device = open_device("emulated", arch)
    code_object, seconds = compile_spec(family, spec, arch, cached=False)
    found = []
    for density in DENSITIES:
        problem = make_problem(family, spec, _SEED, {"density": density})
        found.append(
            run_problem(family, spec, device, code_object, problem, compile_seconds=seconds)
        )
    return found


def _line(family: Family, outcomes: list[Outcome]) -> str:
    worst = max(error for o in outcomes for error in o.errors.values())
    ok = all(o.passed for o in outcomes)
    executed = sum(o.instructions or 0 for o in outcomes)
    seconds = sum(o.run_seconds for o in outcomes)
    verdict = "[green]ok[/]" if ok else "[red]WRONG[/]"
    compiled = outcomes[0].compile_seconds * 1e3
    return (
        f"{outcomes[0].arch}  {family.name:24} compiled in {compiled:4.0f} ms, {executed:>9,} "
        f"instructions in {seconds * 1e3:4.0f} ms, error {worst:.1e}  {verdict}"
    )


def _show_costs(outcomes: list[tuple[float, Outcome]]) -> None:
    cells: dict[tuple[str, str], dict[float, Any]] = {}
    for density, outcome in outcomes:
        row = cells.setdefault((outcome.arch, outcome.family), {})
        row[density] = f"{outcome.matrix_instructions:,} ({outcome.share:.0%})"
    rows = [[arch, family, *row.values()] for (arch, family), row in cells.items()]
    columns = ["target", "kernel", *(f">{d:.0%}" for d in DENSITIES)]
    out = console()
    out.print()
    title = "Matrix instructions executed, by density (share of those of a dense launch)"
    out.print(table(columns, rows, title=title))
