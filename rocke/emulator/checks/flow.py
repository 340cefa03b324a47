"""The instructions of a kernel with their effects, and the ways that lead from one to another."""

from __future__ import annotations

from dataclasses import dataclass

from rocke.emulator.blocks import Block, Exit, Key, Program
from rocke.emulator.checks.effects import Effects, effects
from rocke.emulator.instruction import Instruction

Step = tuple[Instruction, Effects]


@dataclass(frozen=True)
class StaticFinding:
    """What is wrong at an instruction whenever it executes; addresses are text offsets.

    ``cause`` is the instruction whose result comes too late, ``detail`` the rest in words.
    """

    check: str
    address: int
    cause: int
    detail: str


@dataclass(frozen=True)
class Flow:
    """``steps[i]`` are the instructions of ``program.blocks[i]``.

    ``predecessors[i]`` are blocks that lead to block i without a call in between; what a computed
    jump or a call leads to has none, as every function starts and ends with nothing outstanding.
    """

    program: Program
    arch: str
    steps: tuple[tuple[Step, ...], ...]
    predecessors: tuple[tuple[int, ...], ...]


def control_flow(program: Program, arch: str) -> Flow:
    """The flow of ``program``."""
    known: dict[int, Step] = {}
    steps = []
    for block in program.blocks:
        row = []
        for inst in block.instructions:
            if inst.address not in known:
                known[inst.address] = (inst, effects(inst, arch))
            row.append(known[inst.address])
        steps.append(tuple(row))
    predecessors: list[list[int]] = [[] for _ in program.blocks]
    for i, block in enumerate(program.blocks):
        for target in _successors(block):
            predecessors[program.index[target]].append(i)
    return Flow(program, arch, tuple(steps), tuple(tuple(p) for p in predecessors))


def _successors(block: Block) -> tuple[Key, ...]:
    calls = block.exit is Exit.JUMP or (
        block.instructions and block.instructions[-1].mnemonic == "s_call_b64"
    )
    return () if calls else block.targets
