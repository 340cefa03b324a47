"""A catalogue to the list of kernels to build, and what drops out with its reason."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rocke.arch import TARGETS
from rocke.kernels.registry import FAMILIES, Family
from rocke.library.catalogue import Catalogue, Entry
from rocke.library.constraints import Constraint
from rocke.library.errors import CatalogueError
from rocke.library.grids import GridCheck, grid
from rocke.library.naming import check_symbol, short
from rocke.library.problems import check as check_problem
from rocke.library.rules import check_free, selection


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
    """What a catalogue comes to: jobs in the order of the file, each once.

    ``left_out`` counts the kernels that the caller did not choose. ``warnings`` tell of rules that
    change nothing.
    """

    jobs: tuple[Job, ...]
    dropped: tuple[Dropped, ...]
    left_out: int = 0
    warnings: tuple[str, ...] = ()

    def counts(self) -> str:
        """What is not built, for people."""
        left = f", {self.left_out} not chosen by filter or target" if self.left_out else ""
        return f"{len(self.dropped)} dropped{left}"


def expand(
    catalogue: Catalogue,
    *,
    archs: Iterable[str] = (),
    matches: Callable[[Job], bool] = lambda job: True,
) -> Plan:
    """Every combination of every entry, validated.

    ``archs`` (one, or several; none: all) and ``matches`` choose some; what they leave out is
    counted, and not listed as dropped. Raises :class:`CatalogueError` for families, fields and
    values that do not exist, and for all that would be wrong with a kernel once it is compiled.
    """
    wanted = (archs,) if isinstance(archs, str) else tuple(archs)
    for arch in wanted:
        if arch not in catalogue.targets:
            listed = ", ".join(catalogue.targets)
            raise CatalogueError(f"{catalogue.source}: target {arch!r} is not in it ({listed})")
    made = _Expansion()
    for entry in catalogue.entries:
        made.add(entry, lambda job: (not wanted or job.arch in wanted) and matches(job))
    return Plan(tuple(made.jobs.values()), tuple(made.dropped), made.left_out, tuple(made.warnings))


class _Expansion:
    def __init__(self) -> None:
        self.jobs: dict[tuple[Any, ...], Job] = {}
        self.dropped: list[Dropped] = []
        self.left_out = 0
        self.warnings: list[str] = []

    def add(self, entry: Entry, chosen: Callable[[Job], bool]) -> None:
        family = _family(entry)
        _check_names(entry, family)
        check_values(entry, family)
        check_free(family, entry)
        checks = _KernelChecks(family, entry)
        idle = set(range(len(entry.exclude)))
        for values in entry.combinations():
            spec, flat = _spec(entry, family, values)
            for arch in entry.targets:
                known = {**flat, "arch": arch}
                idle -= {i for i in idle if entry.exclude[i].matches(known)}
                job = Job(family.name, flat, arch, entry)
                if not chosen(job):
                    self.left_out += 1
                    continue
                reason = _reason(entry, family, spec, flat, arch)
                key = (family.name, arch, tuple(sorted(flat.items())))
                if not reason and key in self.jobs:
                    reason = f"listed before, in {self.jobs[key].entry.where}"
                if reason:
                    self.dropped.append(Dropped(job.label, reason))
                    continue
                checks.check(spec, arch)
                self.jobs[key] = job
        self.warnings += [
            f"{entry.where} exclude {i + 1}: it matches none of the combinations"
            for i in sorted(idle)
        ]


class _KernelChecks:
    """What is wrong with a kernel is told before hours go into compiling all."""

    def __init__(self, family: Family, entry: Entry) -> None:
        self.family = family
        self.entry = entry
        self.grids = GridCheck(family, entry)
        self.last: Any = None

    def check(self, spec: Any, arch: str) -> None:
        family, entry = self.family, self.entry
        needed = selection(family, spec, entry)
        self.grids.compare(spec, arch, grid(family, spec, arch, entry, needed), needed)
        try:
            check_symbol(family.name_of(spec, arch), f"{entry.where} axes: the kernel's name")
        except ValueError as error:
            raise CatalogueError(str(error)) from None
        if spec is not self.last:  # problems do not depend on the target
            self.last = spec
            try:
                check_problem(family, spec, entry.problem)
            except ValueError as error:
                raise CatalogueError(f"{entry.where} problem: {error}") from None


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
                quote = ", or quote texts: 'f16'" if where == "constraints" else ""
                raise CatalogueError(
                    f"{entry.where} {where}: unknown field {name!r}{hint} "
                    f"(fields: {', '.join(known)}{quote})"
                )
    missing = [f.name for f in family.fields if f.required and f.name not in entry.axes]
    if missing:
        raise CatalogueError(f"{entry.where} axes: missing {', '.join(missing)}")


def check_values(entry: Entry, family: Family) -> None:
    """Refuse values of exclusions and constraints that no combination could have."""
    for number, exclusion in enumerate(entry.exclude, 1):
        for name, values in exclusion.values.items():
            for value in values:
                _check_value(family, name, value, f"{entry.where} exclude {number}.{name}")
    for rule in entry.constraints:
        if rule.modulus is None and not rule.right_is_field:
            where = f"{entry.where} constraints: {rule.text!r}: {rule.left}"
            _check_value(family, rule.left, rule.right, where, listed=rule.op in ("==", "!="))


def _check_value(family: Family, name: str, value: Any, where: str, *, listed: bool = True) -> None:
    kinds = {f.name: (f.type, f.choices) for f in family.fields}
    kind, choices = kinds.get(name, (str, tuple(TARGETS)))
    if type(value) is not kind:
        raise CatalogueError(f"{where}: {short(value)}, expected {kind.__name__}")
    if listed and choices and value not in choices:
        raise CatalogueError(f"{where}: {value!r}, expected {', '.join(map(str, choices))}")


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
