"""The hazard rules: how many wait states an instruction needs after an earlier one.

A :class:`Rule` belongs to one consumer. It watches a register set; ``needs`` is asked for each
earlier instruction that touches the set. The numbers are those of :mod:`rocke.arch.hazards`; rows
that only LLVM's recogniser has (double-precision matrix, dot products) stand here.
Source: LLVM ``GCNHazardRecognizer``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rocke.arch import Hazard, target
from rocke.emulator.checks.effects import (
    EXEC_BITS,
    M0_BIT,
    SCALAR_BITS,
    VCC_BITS,
    VECTOR_BITS,
    Effects,
    Kind,
    is_dpp,
    is_transcendental,
    registers,
    writes_part,
)
from rocke.emulator.instruction import Instruction, OperandKind

Need = Callable[[Instruction, Effects], int]


@dataclass
class Rule:
    """``needs(inst, effects)``: wait states after an instruction that touches ``registers``.

    ``reach`` bounds the answer. A rule on results (``on_reads`` unset) looks at the last writer of
    each register, one on reads at the last reader.
    """

    name: str
    registers: int
    reach: int
    needs: Need
    on_reads: bool = False


_LANE_SELECT = ("v_readlane_b32", "v_writelane_b32")
_LANES = ("v_readlane_b32", "v_readfirstlane_b32")
_MEMORY = (Kind.VMEM, Kind.FLAT, Kind.LDS)
_READS_M0 = re.compile(
    r"s_(movrel|sendmsg|ttracedata)|ds_(read|write)_addtid_|ds_gws_|buffer_store_lds_"
)
"""What needs one wait state after a scalar instruction wrote M0, besides direct copies."""


class Rules:
    """The rules of one target."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.hazards: Mapping[str, Hazard] = {h.name: h for h in target(arch).hazards}
        self.gfx940 = arch != "gfx90a"

    def of(self, inst: Instruction, effect: Effects, matrix_used: bool) -> list[Rule]:
        """What ``inst`` has to wait for. ``matrix_used``: the kernel has matrix instructions."""
        rules: list[Rule] = []
        if effect.kind is Kind.MATRIX:
            rules += self._matrix(effect)
        elif effect.kind is Kind.VECTOR:
            if matrix_used:
                rules += self._matrix_result(effect)
            rules += self._vector(inst, effect)
        elif effect.kind in _MEMORY:
            if matrix_used:
                rules += self._matrix_result(effect)
            rules += self._memory(inst, effect)
        if _READS_M0.match(inst.mnemonic):
            rules.append(Rule("m0 used", M0_BIT, 1, lambda i, e: int(e.kind is Kind.SCALAR)))
        return [r for r in rules if r.registers]

    def _states(self, name: str, passes: int | None = None) -> int:
        hazard = self.hazards.get(name)
        return hazard.required(passes) if hazard else 0

    def _plain(
        self, name: str, watched: int, producer: Callable[[Instruction, Effects], bool]
    ) -> list[Rule]:
        states = self._states(name)
        if not states or not watched:
            return []
        return [Rule(name, watched, states, lambda i, e: states if producer(i, e) else 0)]

    # After matrix instructions

    def _matrix(self, effect: Effects) -> list[Rule]:
        consumer = effect.matrix
        assert consumer is not None
        rules = self._plain(
            "vector_mfma", effect.reads & VECTOR_BITS, lambda i, e: _vector(i, e) and not _dot(i)
        )
        rules += self._plain("exec_mfma", EXEC_BITS, _vector)

        def into_c(_: Instruction, e: Effects) -> int:
            producer = e.matrix
            if producer is None or not producer.d & consumer.c:
                return 0
            return self._accumulator(effect, e)

        def into_ab(_: Instruction, e: Effects) -> int:
            producer = e.matrix
            if producer is None:
                return 0
            if producer.double:
                if producer.passes == 4:
                    return 6
                return 19 if self.arch == "gfx950" else 11
            name = "mfma_ab" if producer.xdl else "sgemm_ab"
            return self._states(name, producer.passes)

        return [
            *rules,
            Rule("matrix D to C", consumer.c, 20, into_c),
            Rule("matrix D to A or B", consumer.ab, 20, into_ab),
        ]

    def _accumulator(self, later: Effects, earlier: Effects) -> int:
        """Matrix D to matrix C."""
        consumer, producer = later.matrix, earlier.matrix
        assert consumer is not None
        assert producer is not None
        if producer.double and not consumer.double and not self.gfx940:
            return 0
        if _first(producer.d) == _first(consumer.c):
            if producer.double and consumer.double and producer.passes == consumer.passes == 4:
                return 4
            return 2 if self.gfx940 and producer.passes == 2 else 0
        if producer.double:
            if consumer.xdl:
                return 0
            if producer.passes == 4:
                return 4
            return 17 if self.arch == "gfx950" else 9
        if not producer.xdl:
            return 0 if consumer.xdl else self._states("sgemm_c_overlap", producer.passes)
        states = self._states("mfma_c_overlap", producer.passes)
        return states + 1 if consumer.double and not self.gfx940 else states

    def _matrix_result(self, effect: Effects) -> list[Rule]:
        memory = effect.kind is not Kind.VECTOR
        touched = (effect.reads | effect.writes) & VECTOR_BITS

        def result(_: Instruction, e: Effects) -> int:
            producer = e.matrix
            if producer is None:
                return 0
            if producer.double:
                if producer.passes == 4:
                    return 9 if memory else 6
                slow = 19 if self.arch == "gfx950" else 11
                return 18 if memory else slow
            name = "mfma_vector" if producer.xdl else "sgemm_vector"
            return self._states(name, producer.passes)

        def source(_: Instruction, e: Effects) -> int:
            reader = e.matrix
            if reader is None or reader.double or not reader.c & effect.writes:
                return 0
            return self._states("mfma_war", reader.passes) if reader.xdl else 0

        return [
            Rule("matrix D to vector", touched, 20, result),
            Rule("matrix C overwritten", effect.writes & VECTOR_BITS, 15, source, on_reads=True),
        ]

    # After vector instructions

    def _vector(self, inst: Instruction, effect: Effects) -> list[Rule]:
        vectors = effect.reads & VECTOR_BITS
        name = inst.mnemonic
        rules: list[Rule] = []
        if not is_transcendental(inst):
            rules += self._plain("trans_vector", vectors, lambda i, e: is_transcendental(i))
        if self.gfx940:
            rules += self._plain(
                "partial_write", vectors, lambda i, e: e.kind is Kind.VECTOR and writes_part(i)
            )
        rules += self._plain(
            "sgpr_constant", effect.reads & SCALAR_BITS & ~EXEC_BITS & ~M0_BIT, _vector
        )
        rules += self._lanes(inst, effect)
        if name.startswith("v_div_fmas"):
            rules += self._plain("vcc_div_fmas", VCC_BITS, _vector)
        if is_dpp(inst):
            rules += self._plain("vector_dpp", registers(inst.operands[1]), _vector)
            rules += self._plain("exec_dpp", EXEC_BITS, _vector)
        rules += self._dot(inst, effect)
        rules += self._wide_store(effect)
        return rules

    def _lanes(self, inst: Instruction, effect: Effects) -> list[Rule]:
        name = inst.mnemonic
        rules: list[Rule] = []
        if name in _LANES or name == "v_writelane_b32":
            rules += self._plain("exec_lane", EXEC_BITS, _vector)
        if name in _LANES:
            rules += self._plain("vector_readlane", effect.reads & VECTOR_BITS, _vector)
        if name in _LANE_SELECT and inst.operands[-1].kind is OperandKind.SGPR:
            rules += self._plain("sgpr_lane_select", registers(inst.operands[-1]), _vector)
        if "permlane" in name and name.endswith("_swap_b32"):
            rules += self._plain("vector_permlane_swap", effect.reads & VECTOR_BITS, _vector)
        return rules

    def _dot(self, inst: Instruction, effect: Effects) -> list[Rule]:
        """A dot product's result: 3 wait states, but for the accumulator of the same kind."""
        accumulator = 0
        if _dot(inst):
            accumulates = inst.mnemonic.startswith("v_dot") and "c_" in inst.mnemonic
            accumulator = registers(inst.operands[0 if accumulates else -1])

        def different(i: Instruction, e: Effects) -> int:
            same = i.mnemonic == inst.mnemonic
            touched = e.writes & (effect.reads & ~accumulator if same else watched)
            return 3 if _dot(i) and touched else 0

        watched = (effect.reads | effect.writes) & VECTOR_BITS
        return [Rule("dot product to vector", watched, 3, different)]

    def _wide_store(self, effect: Effects) -> list[Rule]:
        states = self._states("wide_store")

        def overwritten(i: Instruction, e: Effects) -> int:
            if e.kind not in (Kind.VMEM, Kind.FLAT) or e.data.bit_count() <= 2:
                return 0
            buffer = i.mnemonic.startswith(("buffer_", "tbuffer_"))
            if buffer and any(o.kind is OperandKind.SGPR and o.count == 1 for o in i.operands[-1:]):
                return 0
            return states if e.data & effect.writes else 0

        watched = effect.writes & VECTOR_BITS
        return [Rule("wide_store", watched, states, overwritten, on_reads=True)]

    def _memory(self, inst: Instruction, effect: Effects) -> list[Rule]:
        if effect.kind is Kind.LDS:
            return []
        rules = self._plain("sgpr_vmem", effect.reads & SCALAR_BITS, _vector)
        if effect.to_lds:
            rules += self._plain("m0_lds_direct", M0_BIT, lambda i, e: e.kind is Kind.SCALAR)
        return rules


def _first(found: int) -> int:
    return found & -found


def _vector(inst: Instruction, effect: Effects) -> bool:
    return effect.kind is Kind.VECTOR


def _dot(inst: Instruction) -> bool:
    return inst.mnemonic.startswith("v_dot")
