"""What a launch executed: instructions by class, mnemonic, address and source line; resources.

With full counting also what every vector instruction did: lanes, bytes, LDS bank conflicts.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from rocke.arch import Target
from rocke.emulator.access import Level, access_of
from rocke.emulator.semantics.matrix_forms import MATRIX_FORMS


class InstructionClass(Enum):
    """The unit that an instruction occupies."""

    SCALAR = "scalar"
    VECTOR = "vector"
    MATRIX = "matrix"
    LDS = "lds"
    VMEM = "vmem"
    SMEM = "smem"
    BRANCH = "branch"
    WAIT = "wait"
    BARRIER = "barrier"
    OTHER = "other"


_PREFIXES: tuple[tuple[InstructionClass, tuple[str, ...]], ...] = (
    (InstructionClass.MATRIX, ("v_mfma_", "v_smfmac_")),
    (InstructionClass.VECTOR, ("v_",)),
    (InstructionClass.LDS, ("ds_",)),
    (InstructionClass.VMEM, ("global_", "buffer_", "flat_", "scratch_", "tbuffer_")),
    (InstructionClass.BARRIER, ("s_barrier",)),
    (InstructionClass.WAIT, ("s_waitcnt", "s_nop", "s_sleep")),
    (InstructionClass.BRANCH, ("s_branch", "s_cbranch", "s_setpc", "s_swappc", "s_call")),
    (InstructionClass.BRANCH, ("s_endpgm",)),
    (
        InstructionClass.SMEM,
        ("s_load_", "s_buffer_", "s_store_", "s_scratch_", "s_mem", "s_dcache", "s_atomic"),
    ),
    (InstructionClass.SCALAR, ("s_",)),
)


def matrix_flops(mnemonic: str) -> int:
    """Operations (multiplications and additions) of one dense matrix instruction, else 0."""
    form = MATRIX_FORMS.get(mnemonic)
    return 2 * form.m * form.m * form.k * form.blocks if form else 0


@functools.cache
def classify(mnemonic: str) -> InstructionClass:
    """The class of an instruction, by its mnemonic."""
    for class_, prefixes in _PREFIXES:
        if mnemonic.startswith(prefixes):
            return class_
    return InstructionClass.OTHER


@dataclass(frozen=True)
class Resources:
    """What a wave and a workgroup occupy on the target.

    ``vgprs`` counts all vector registers a lane, ``agprs`` the accumulation registers among them;
    ``lds`` is bytes a workgroup (static and dynamic), ``scratch`` bytes a work-item.
    ``waves_per_simd`` is how many waves fit by vector registers and LDS; ``limit`` names what
    limits it.
    """

    vgprs: int
    agprs: int
    sgprs: int
    lds: int
    scratch: int
    waves_per_simd: float
    limit: str

    @classmethod
    def of(
        cls,
        target: Target,
        waves: int,
        *,
        vgprs: int,
        agprs: int,
        sgprs: int,
        lds: int,
        scratch: int,
    ) -> Resources:
        """Those of a kernel that runs in workgroups of ``waves`` waves."""
        slots = target.max_waves_per_simd * target.simds_per_cu
        groups = {
            "wave slots": slots // waves,
            "vector registers": target.waves_per_simd(vgprs) * target.simds_per_cu // waves,
            "LDS": target.lds_bytes // lds if lds else slots,
        }
        limit = min(groups, key=lambda what: groups[what])
        resident = groups[limit] * waves / target.simds_per_cu
        return cls(vgprs, agprs, sgprs, lds, scratch, resident, limit)


@dataclass(frozen=True)
class InstructionCounts:
    """One vector, LDS or vector memory instruction of the kernel, over a whole launch.

    ``count`` is wave instructions, ``partial`` those with some lanes off in EXEC, ``lanes`` the
    active lanes. ``lds_cycles`` is how long the LDS serves it and ``lds_conflicts`` the part that
    bank conflicts cause (lanes of one phase that need different dwords of one bank).
    ``bytes_read`` and ``bytes_written`` are those that its active lanes ask for at ``level``
    (a direct-to-LDS load also writes ``lds_bytes_written``).
    """

    address: int
    mnemonic: str
    line: str
    text: str
    count: int
    partial: int
    lanes: int
    lds_cycles: int = 0
    lds_conflicts: int = 0
    level: str = ""
    bytes_read: int = 0
    bytes_written: int = 0
    lds_bytes_written: int = 0


@dataclass(frozen=True)
class Counters:
    """Counts of one launch, in wave instructions (one instruction of one wave counts 1).

    ``by_address`` maps the byte offset in the text section to the count, ``by_mnemonic`` leaves out
    encoding suffixes, ``by_line`` maps ``file:line`` (``""``: not known) to the count. ``seconds``
    is the host's time for executing, without translating. A launch that ended in a fault counts
    each block that began. ``detail`` holds the vector and memory instructions of a device with
    full counting, in address order, and is ``None`` otherwise.
    """

    kernel: str
    arch: str
    workgroups: int
    waves: int
    seconds: float
    by_address: Mapping[int, int] = field(repr=False)
    by_mnemonic: Mapping[str, int] = field(repr=False)
    by_line: Mapping[str, int] = field(repr=False)
    resources: Resources
    detail: tuple[InstructionCounts, ...] | None = field(default=None, repr=False)

    @property
    def by_class(self) -> dict[InstructionClass, int]:
        """Counts of every class, zeros included."""
        found: Counter[InstructionClass] = Counter()
        for mnemonic, count in self.by_mnemonic.items():
            found[classify(mnemonic)] += count
        return {c: found[c] for c in InstructionClass}

    @property
    def instructions(self) -> int:
        """All wave instructions."""
        return sum(self.by_mnemonic.values())

    @property
    def matrix_instructions(self) -> int:
        """Matrix (MFMA) wave instructions."""
        return self.by_class[InstructionClass.MATRIX]

    @property
    def matrix_operations(self) -> int:
        """Multiplications and additions of the dense matrix instructions."""
        return sum(matrix_flops(name) * n for name, n in self.by_mnemonic.items())

    @property
    def barriers(self) -> int:
        """``s_barrier`` instructions, counted by wave."""
        return self.by_class[InstructionClass.BARRIER]

    @property
    def partial_instructions(self) -> int | None:
        """Vector and memory wave instructions with some lanes off (``None``: not counted)."""
        return self._sum(lambda row: row.partial)

    @property
    def lds_conflicts(self) -> int | None:
        """LDS cycles that bank conflicts cost, over all workgroups (``None``: not counted)."""
        return self._sum(lambda row: row.lds_conflicts)

    @property
    def lds_cycles(self) -> int | None:
        """LDS cycles of reads and writes, conflicts included (``None``: not counted)."""
        return self._sum(lambda row: row.lds_cycles)

    @property
    def lds_conflicts_by_line(self) -> dict[str, int]:
        """Conflict cycles of the source lines that have any; empty without full counting."""
        found: Counter[str] = Counter()
        for row in self.detail or ():
            if row.lds_conflicts:
                found[row.line] += row.lds_conflicts
        return dict(found.most_common())

    @property
    def bytes_by_level(self) -> dict[str, tuple[int, int]] | None:
        """Bytes (read, written) that instructions ask for, by level (``None``: not counted).

        ``global`` is what global, flat and buffer instructions move, hits in caches included;
        ``scalar`` the scalar loads, which serve a whole wave.
        """
        if self.detail is None:
            return None
        read: Counter[str] = Counter()
        written: Counter[str] = Counter()
        for row in self.detail:
            read[row.level] += row.bytes_read
            written[row.level] += row.bytes_written
            written[Level.LDS.value] += row.lds_bytes_written
        for name, count in self.by_mnemonic.items():
            access = access_of(name)
            if access is not None and access.level is Level.SCALAR:
                read[Level.SCALAR.value] += count * access.bytes * access.read
                written[Level.SCALAR.value] += count * access.bytes * access.write
        return {level.value: (read[level.value], written[level.value]) for level in Level}

    def _sum(self, number: Callable[[InstructionCounts], int]) -> int | None:
        return None if self.detail is None else sum(map(number, self.detail))

    def table(self, mnemonics: int = 10, lines: int = 0, conflicts: int = 10) -> str:
        """A table for people: classes, most frequent mnemonics and source lines, resources.

        With full counting also bytes, divergence, and the LDS instructions with most conflicts.
        """
        total = max(1, self.instructions)
        rows: list[tuple[str, int]] = [(c.value, n) for c, n in self.by_class.items() if n]
        rows.sort(key=lambda row: -row[1])
        for counts, shown in ((self.by_mnemonic, mnemonics), (self.by_line, lines)):
            named = [(name, n) for name, n in counts.items() if name]
            most = sorted(named, key=lambda row: -row[1])[:shown]
            rows += [("", 0), *most] if most else []
        width = max(28, *(len(name) + 2 for name, _ in rows)) if rows else 28
        text = [
            f"{self.kernel} on {self.arch}: {self.workgroups} workgroups, {self.waves} waves, "
            f"{self.instructions} instructions in {self.seconds * 1e3:.1f} ms",
            f"{'class':<{width}}{'instructions':>14}{'share':>8}",
        ]
        for name, count in rows:
            text.append(f"{name:<{width}}{count:>14}{100 * count / total:>7.1f}%" if name else "")
        text += ["", *self._facts(), *self._conflict_rows(conflicts)]
        return "\n".join(text)

    def _facts(self) -> Iterable[str]:
        r = self.resources
        yield f"{'matrix operations':<28}{self.matrix_operations:>14}"
        yield f"{'barriers (by wave)':<28}{self.barriers:>14}"
        yield (
            f"registers: {r.vgprs} vector ({r.agprs} accumulation), {r.sgprs} scalar; "
            f"{r.lds} bytes of LDS, {r.scratch} of scratch a lane; "
            f"{r.waves_per_simd:g} waves a SIMD, limited by {r.limit}"
        )
        levels = self.bytes_by_level
        if levels is None:
            return
        yield f"{'with some lanes off':<28}{self.partial_instructions:>14}"
        for level, (read, written) in levels.items():
            if read or written:
                yield f"{level:<10}{read:>16} bytes read{written:>16} bytes written"
        yield f"LDS: {self.lds_cycles} cycles, {self.lds_conflicts} of them by bank conflicts"

    def _conflict_rows(self, shown: int) -> Iterable[str]:
        rows = [row for row in self.detail or () if row.lds_conflicts]
        if not rows or shown < 1:
            return
        yield f"{'conflicts':>10}{'cycles':>10}{'count':>10}  instruction"
        for row in sorted(rows, key=lambda row: -row.lds_conflicts)[:shown]:
            yield (
                f"{row.lds_conflicts:>10}{row.lds_cycles:>10}{row.count:>10}  "
                f"{row.address:#07x} {row.text}  {row.line}"
            )

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain data; addresses become hexadecimal keys."""
        facts: dict[str, Any] = {
            "kernel": self.kernel,
            "arch": self.arch,
            "workgroups": self.workgroups,
            "waves": self.waves,
            "seconds": self.seconds,
            "instructions": self.instructions,
            "matrix_instructions": self.matrix_instructions,
            "matrix_operations": self.matrix_operations,
            "barriers": self.barriers,
            "resources": asdict(self.resources),
            "by_class": {c.value: n for c, n in self.by_class.items()},
            "by_mnemonic": dict(self.by_mnemonic),
            "by_line": dict(self.by_line),
            "by_address": {hex(a): n for a, n in self.by_address.items()},
        }
        levels = self.bytes_by_level
        if self.detail is not None and levels is not None:
            facts |= {
                "partial_instructions": self.partial_instructions,
                "lds_cycles": self.lds_cycles,
                "lds_conflicts": self.lds_conflicts,
                "lds_conflicts_by_line": self.lds_conflicts_by_line,
                "bytes": {name: {"read": r, "written": w} for name, (r, w) in levels.items()},
                "detail": [asdict(row) for row in self.detail],
            }
        return facts

    def to_json(self) -> str:
        """:meth:`to_dict` as a JSON object."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True)
