"""Why a kernel was chosen, and why others were not, constraint by constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocke.library.constraints import Constraint, Problem, plain_problem
from rocke.library.manifest import KernelEntry
from rocke.library.naming import short
from rocke.library.selector import FAMILY, argument_rules, known_fields, rank

_SHOWN = 3


@dataclass(frozen=True)
class Verdict:
    """One kernel of the family and target; ``reasons`` is empty where it serves the problem."""

    kernel: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """``chosen`` is the id of the selected kernel or ``None``; ``verdicts`` come best first."""

    problem: Problem
    arch: str
    chosen: str | None
    verdicts: tuple[Verdict, ...]
    note: str = ""

    def __str__(self) -> str:
        if self.note:
            return self.note
        serving = [v.kernel for v in self.verdicts if not v.reasons]
        lines = []
        if self.chosen is not None:
            others = len(serving) - 1
            before = f", before {others} other{'s' * (others > 1)}" if others else ""
            lines.append(f"{self.chosen} is chosen{before}")
        else:
            lines.append(self._none())
        missed = [v for v in self.verdicts if v.reasons]
        for verdict in sorted(missed, key=lambda v: len(v.reasons))[:_SHOWN]:
            lines.append(f"{verdict.kernel}: {'; '.join(verdict.reasons)}")
        if len(missed) > _SHOWN:
            rest = len(missed) - _SHOWN
            differ = "differs" if rest == 1 else "differ"
            lines.append(f"and {rest} more that {differ} in as much or more")
        return "\n  ".join(lines)

    def _none(self) -> str:
        if len(self.verdicts) == 1:
            return f"the only kernel for {self.arch} does not serve the problem"
        return f"none of {len(self.verdicts)} kernels for {self.arch} serves the problem"


def family_of(problem: Problem, families: Sequence[str]) -> str | None:
    """The family that a problem means: the one it names, or the only one."""
    if FAMILY in problem:
        named = problem[FAMILY]
        return str.__str__(named) if isinstance(named, str) else None
    return families[0] if len(families) == 1 else None


def explain(entries: Sequence[KernelEntry], problem: Problem, arch: str) -> Explanation:
    """Judge every kernel of the problem's family and target."""
    plain_problem(problem)
    families = sorted({e.family for e in entries})
    archs = sorted({e.arch for e in entries})
    family = family_of(problem, families)
    if family not in families:
        listed = ", ".join(families)
        named = (
            f"family is {short(problem[FAMILY])}" if FAMILY in problem else "family is not given"
        )
        return Explanation(problem, arch, None, (), f"family {named}, expected one of {listed}")
    if arch not in archs:
        shown = arch if isinstance(arch, str) else short(arch)
        note = f"no kernels for {shown}: the library is for {', '.join(archs)}"
        return Explanation(problem, arch, None, (), note)
    own = sorted((e for e in entries if (e.family, e.arch) == (family, arch)), key=rank)
    if not own:
        return Explanation(problem, arch, None, (), f"no kernels of {family} for {arch}")
    verdicts = tuple(Verdict(e.id, reasons(e, problem)) for e in own)
    chosen = next((v.kernel for v in verdicts if not v.reasons), None)
    return Explanation(problem, arch, chosen, verdicts)


def reasons(entry: KernelEntry, problem: Problem) -> tuple[str, ...]:
    """Why a kernel does not serve a problem, a reason a field; empty if it does."""
    failing: dict[str, list[Constraint]] = {}
    for c in entry.constraints:
        if c.reason(problem):
            failing.setdefault(c.field, []).append(c)
    found = [
        own[0].reason(problem) + "".join(f" and {c.expected()}" for c in own[1:])
        for own in failing.values()
    ]
    found += filter(
        None, (r.reason(problem) for r in argument_rules(entry) if r.field not in failing)
    )
    known = known_fields(entry)
    found += [f"{name} is not known to this kernel" for name in problem if name not in known]
    return tuple(found)
