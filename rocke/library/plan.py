"""A catalogue to the list of kernels to build, and what drops out with its reason."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rocke.kernels.registry import FAMILIES, Family
from rocke.library.catalogue import Catalogue, Entry
from rocke.library.constraints import Constraint
from rocke.library.errors import CatalogueError
from rocke.library.rules import grid, selection


@dataclass(frozen=True)
class Job:
    """One kernel to build. ``spec`` holds flat field values, as the family names them."""

    family: str
    spec: Mapping[str, Any]
    arch: str
    entry: Entry

    @property
    def label(self) -> str:
        """Family, given fields and target, for people."""
        fields = ", ".join(f"{name}={self.spec[name]}" for name in self.entry.axes)
        return f"{self.family} ({fields}) for {self.arch}"


@dataclass(frozen=True)
class Dropped:
    """A combination that is not built, and why."""

    label: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What a catalogue comes to: jobs in the order of the file, each once."""

    jobs: tuple[Job, ...]
    dropped: tuple[Dropped, ...]


def expand(
    catalogue: Catalogue,
    *,
    archs: Iterable[str] = (),
    matches: Callable[[Job], bool] = lambda job: True,
) -> Plan:
    """Every combination of every entry, validated.

    ``archs`` (none: all) and ``matches`` choose some; what they leave out is not listed as dropped.
    Raises :class:`CatalogueError` for families, fields and values that do not exist.
    """
    wanted = tuple(archs)
    for arch in wanted:
        if arch not in catalogue.targets:
            listed = ", ".join(catalogue.targets)
            raise CatalogueError(f"{catalogue.source}: target {arch!r} is not in it ({listed})")
    jobs: dict[tuple[Any, ...], Job] = {}
    dropped: list[Dropped] = []
    for entry in catalogue.entries:
        family = _family(entry)
        _check_names(entry, family)
        launch_checked = False
        for values in entry.combinations():
            spec, flat = _spec(entry, family, values)
            for arch in entry.targets:
                job = Job(family.name, flat, arch, entry)
                if (wanted and arch not in wanted) or not matches(job):
                    continue
                reason = _reason(entry, family, spec, flat, arch)
                key = (family.name, arch, tuple(sorted(flat.items())))
                if not reason and key in jobs:
                    reason = f"listed before, in {jobs[key].entry.where}"
                if reason:
                    dropped.append(Dropped(job.label, reason))
                    continue
                if not launch_checked:  # of one kernel, before hours go into compiling all
                    grid(family, spec, arch, entry, selection(family, spec, entry))
                    launch_checked = True
                jobs[key] = job
    return Plan(tuple(jobs.values()), tuple(dropped))


def constraints(job: Job) -> tuple[Constraint, ...]:
    """What a problem must satisfy for the kernel of a job."""
    family = FAMILIES[job.family]
    return selection(family, family.make_spec(job.spec), job.entry)


def _family(entry: Entry) -> Family:
    if entry.family in FAMILIES:
        return FAMILIES[entry.family]
    close = difflib.get_close_matches(entry.family, FAMILIES, n=1)
    hint = f", did you mean {close[0]!r}?" if close else ""
    raise CatalogueError(f"{entry.where}: unknown family{hint} (known: {', '.join(FAMILIES)})")


def _check_names(entry: Entry, family: Family) -> None:
    known = [f.name for f in family.fields]
    named: dict[str, Iterable[str]] = {
        "axes": entry.axes,
        "free": entry.free,
        "exclude": [n for e in entry.exclude for n in e.values if n != "arch"],
        "constraints": [
            n
            for rule in entry.constraints
            for n in (rule.left, rule.modulus, rule.right if rule.right_is_field else None)
            if isinstance(n, str) and n != "arch"
        ],
    }
    for where, names in named.items():
        for name in names:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f", did you mean {close[0]!r}?" if close else ""
                raise CatalogueError(
                    f"{entry.where} {where}: unknown field {name!r}{hint} "
                    f"(fields: {', '.join(known)})"
                )
    missing = [f.name for f in family.fields if f.required and f.name not in entry.axes]
    if missing:
        raise CatalogueError(f"{entry.where} axes: missing {', '.join(missing)}")


def _spec(entry: Entry, family: Family, values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    try:
        spec = family.make_spec(values)
    except ValueError as error:
        raise CatalogueError(f"{entry.where} axes: {error}") from None
    return spec, family.flatten(spec)


def _reason(entry: Entry, family: Family, spec: Any, flat: Mapping[str, Any], arch: str) -> str:
    values = {**flat, "arch": arch}
    for exclusion in entry.exclude:
        if exclusion.matches(values):
            return exclusion.reason
    for rule in entry.constraints:
        try:
            if not rule.holds(values):
                return f"constraint {rule.text!r} does not hold"
        except TypeError as error:
            raise CatalogueError(f"{entry.where} constraints: {rule.text!r}: {error}") from None
    ok, reason = family.validate(spec, arch)
    return "" if ok else reason
