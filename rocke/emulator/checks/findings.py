"""What the checks found, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rocke.emulator.checks.kinds import Check
from rocke.runtime.device import KernelFault

_ALSO_SHOWN = 3


@dataclass(frozen=True)
class Finding:
    """One thing that a kernel does wrong.

    ``address`` is a byte offset in the text section (``None`` where no instruction is to blame),
    ``source`` is ``file:line`` of the kernel's source or empty. ``workgroup``, ``wave`` and
    ``lanes`` are those of the first time; ``count`` is how often it happened. ``cause`` is the
    other instruction of the story, as text, if there is one. ``memory_address`` is the LDS byte or
    the global address that it is about, ``argument`` the kernel argument whose memory that is or
    should be, where they are known.

    Races of one kind between the same two source lines (``source`` and ``cause_source``) are one
    finding: the first, with the ``count`` of all; ``also`` has the instructions of the others.
    """

    check: Check
    kernel: str
    detail: str
    instruction: str = ""
    address: int | None = None
    source: str = ""
    workgroup: tuple[int, int, int] | None = None
    wave: int | None = None
    lanes: tuple[int, ...] = ()
    count: int = 1
    cause: str = ""
    memory_address: int | None = None
    argument: str = ""
    cause_source: str = ""
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.check.value}: {self.detail}"]
        if self.address is not None:
            source = f"  ({self.source})" if self.source else ""
            lines.append(f"  at {self.address:#x}: {self.instruction}{source}")
        if self.cause:
            lines.append(f"  after {self.cause}")
        if self.also:
            more = len(self.also) - _ALSO_SHOWN
            end = f" and {more} more" if more > 0 else ""
            lines.append(f"  also at {'; '.join(self.also[:_ALSO_SHOWN])}{end}")
        if self.workgroup is not None:
            times = f", {self.count} times" if self.count > 1 else ""
            where = f"  workgroup {self.workgroup}, wave {self.wave}"
            lines.append(f"{where}{lane_text(self.lanes)}{times}")
        return "\n".join(lines)

    def facts(self) -> dict[str, Any]:
        """The finding under plain keys and values."""
        return {**asdict(self), "check": self.check.value}


def joined_races(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, with races of one kind between the same two source lines made one."""
    found: dict[object, Finding] = {}
    for number, finding in enumerate(findings):
        key: object = number
        lines = tuple(s.removeprefix("near ") for s in (finding.source, finding.cause_source))
        if finding.check is Check.RACE and all(lines):
            kind = finding.detail.split(" what ")[0]
            in_lds = ": LDS byte " in finding.detail
            key = (*lines, kind, in_lds, " workgroup (" in finding.detail)
        first = found.get(key)
        if first is not None:
            also = f"{finding.address:#x}: {finding.instruction}"
            count = first.count + finding.count
            finding = replace(first, count=count, also=(*first.also, also))
        found[key] = finding
    return list(found.values())


@dataclass(frozen=True)
class CheckReport:
    """The findings of one launch, in the order in which they happened first.

    ``fault`` is the fault that ended the launch early, in words, or empty: what would have come
    after it was not checked.
    """

    kernel: str
    checks: frozenset[Check]
    findings: tuple[Finding, ...] = field(default=())
    fault: str = ""

    @property
    def by_check(self) -> dict[Check, tuple[Finding, ...]]:
        """Findings of every check that was on, empty ones included."""
        return {
            check: tuple(f for f in self.findings if f.check is check)
            for check in Check
            if check in self.checks
        }

    def __str__(self) -> str:
        lines = [f"kernel {self.kernel}:"]
        until = " before the fault" if self.fault else ""
        if self.fault:
            lines.append("  stopped by a fault: what comes after it was not checked")
        for check, found in self.by_check.items():
            number = "no findings" if not found else f"{len(found)} finding(s)"
            lines.append(f"  {check.value}: {number}{until}")
        lines += [str(finding) for finding in self.findings]
        if self.fault:
            lines.append(self.fault)
        return "\n".join(lines)


class CheckError(KernelFault):
    """A checked launch with findings; ``findings`` has them all, the text tells the first ones.

    ``report["findings"]`` holds them under plain keys. ``fault`` is the fault that ended the
    launch, if one did.
    """

    def __init__(self, kernel: str, findings: Sequence[Finding], fault: KernelFault | None) -> None:
        shown = [str(finding) for finding in findings[:5]]
        if len(findings) > len(shown):
            shown.append(f"... and {len(findings) - len(shown)} more findings")
        if fault is not None:
            shown.append(str(fault))
        first: Mapping[str, Any] = findings[0].facts()
        super().__init__(
            f"kernel {kernel}: {len(findings)} finding(s)\n" + "\n".join(shown),
            {
                **{k: first[k] for k in ("workgroup", "wave", "lanes", "instruction", "source")},
                "kernel": kernel,
                "pc": first["address"],
                "kind": first["check"],
                "findings": [finding.facts() for finding in findings],
            },
        )
        self.findings = tuple(findings)
        self.fault = fault

    def __reduce__(self) -> tuple[type[CheckError], tuple[Any, ...]]:
        return CheckError, (self.report["kernel"], self.findings, self.fault)


def lane_text(lanes: Sequence[int]) -> str:
    """Lanes in words, as the end of a sentence."""
    if not lanes:
        return ""
    if len(lanes) == 64:
        return ", all lanes"
    shown = ", ".join(map(str, lanes[:8])) + (", ..." if len(lanes) > 8 else "")
    return f", {'lane' if len(lanes) == 1 else 'lanes'} {shown}"
