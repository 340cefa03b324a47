"""The hazard check: dependent instructions with too few wait states between them.

For every instruction, all ways that lead to it are followed backwards as far as a rule reaches,
as LLVM's hazard recogniser does when it inserts the ``s_nop`` instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke.emulator.checks.effects import Effects, Kind, names
from rocke.emulator.checks.flow import Flow, StaticFinding
from rocke.emulator.checks.hazard_rules import Rule, Rules
from rocke.emulator.instruction import Instruction


def find_hazards(flow: Flow) -> list[StaticFinding]:
    """Every instruction that follows another one too soon, by address."""
    rules = Rules(flow.arch)
    matrix = any(e.kind is Kind.MATRIX for steps in flow.steps for _, e in steps)
    found: dict[int, StaticFinding] = {}
    for block, steps in enumerate(flow.steps):
        for index, (inst, effect) in enumerate(steps):
            if inst.address in found:
                continue
            watched = rules.of(inst, effect, matrix)
            if not watched:
                continue
            search = _Search(flow, inst)
            search.back(block, index, 0, [(rule, rule.registers) for rule in watched])
            if search.found is not None:
                found[inst.address] = search.found
    return [found[address] for address in sorted(found)]


@dataclass
class _Search:
    """The way back from one consumer."""

    flow: Flow
    consumer: Instruction
    found: StaticFinding | None = None

    def back(self, block: int, index: int, passed: int, rules: list[tuple[Rule, int]]) -> None:
        """Look at the instructions before ``index`` of a block, ``passed`` wait states away."""
        steps = self.flow.steps[block]
        for inst, effect in reversed(steps[:index]):
            remaining: list[tuple[Rule, int]] = []
            for rule, registers in rules:
                if passed >= rule.reach:
                    continue
                touched = registers & (effect.reads if rule.on_reads else effect.writes)
                if touched:
                    needed = rule.needs(inst, effect)
                    if needed > passed:
                        self._report(inst, effect, rule, touched, needed, passed)
                        return
                    if not rule.on_reads or needed:
                        registers &= ~touched
                if registers:
                    remaining.append((rule, registers))
            rules = remaining
            if not rules:
                return
            passed += effect.wait_states
        rules = [(rule, registers) for rule, registers in rules if passed < rule.reach]
        if rules:
            for predecessor in self.flow.predecessors[block]:
                if self.found is None:
                    self.back(predecessor, len(self.flow.steps[predecessor]), passed, rules)

    def _report(
        self,
        producer: Instruction,
        effect: Effects,
        rule: Rule,
        touched: int,
        needed: int,
        passed: int,
    ) -> None:
        self.found = StaticFinding(
            "hazard",
            self.consumer.address,
            producer.address,
            f"{rule.name}: {names(touched)} needs {needed} wait states, there are {passed}",
        )
