"""What a launch executed: instruction counts by class, by mnemonic and by address."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

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
class Counters:
    """Counts of one launch, in wave instructions (one instruction of one wave counts 1).

    ``by_address`` maps the byte offset in the text section to the count, ``by_mnemonic`` leaves out
    encoding suffixes, ``by_line`` maps ``file:line`` (``""``: not known) to the count. ``seconds``
    is the host's time for executing, without translating. A launch that ended in a fault counts
    each block that began.
    """

    kernel: str
    arch: str
    workgroups: int
    waves: int
    seconds: float
    by_address: Mapping[int, int] = field(repr=False)
    by_mnemonic: Mapping[str, int] = field(repr=False)
    by_line: Mapping[str, int] = field(repr=False)

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

    def table(self, mnemonics: int = 10, lines: int = 0) -> str:
        """A table for people: classes, the most frequent mnemonics, and source lines."""
        total = max(1, self.instructions)
        text = [
            f"{self.kernel} on {self.arch}: {self.workgroups} workgroups, {self.waves} waves, "
            f"{self.instructions} instructions in {self.seconds * 1e3:.1f} ms",
            f"{'class':<28}{'instructions':>14}{'share':>8}",
        ]
        rows: list[tuple[str, int]] = [(c.value, n) for c, n in self.by_class.items() if n]
        rows.sort(key=lambda row: -row[1])
        for counts, shown in ((self.by_mnemonic, mnemonics), (self.by_line, lines)):
            named = [(name, n) for name, n in counts.items() if name]
            most = sorted(named, key=lambda row: -row[1])[:shown]
            rows += [("", 0), *most] if most else []
        for name, count in rows:
            text.append(f"{name:<28}{count:>14}{100 * count / total:>7.1f}%" if name else "")
        return "\n".join(text)

    def to_json(self) -> str:
        """The counts as a JSON object; addresses become hexadecimal keys."""
        facts: dict[str, Any] = {
            "kernel": self.kernel,
            "arch": self.arch,
            "workgroups": self.workgroups,
            "waves": self.waves,
            "seconds": self.seconds,
            "instructions": self.instructions,
            "matrix_instructions": self.matrix_instructions,
            "matrix_operations": self.matrix_operations,
            "by_class": {c.value: n for c, n in self.by_class.items()},
            "by_mnemonic": dict(self.by_mnemonic),
            "by_line": dict(self.by_line),
            "by_address": {hex(a): n for a, n in self.by_address.items()},
        }
        return json.dumps(facts, indent=2, sort_keys=True)
