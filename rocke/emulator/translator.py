"""Blocks to LLVM IR: each block becomes one function that calls helpers.

``i64 block(ptr wave)`` returns ``status << 32 | next block``. Inside a block, EXEC is looked at
once, and again after each instruction that writes it; the code up to there exists for a full and
for a partial EXEC. Register numbers become constant offsets from the wave's address, and the code
of the helpers stays outside, so that translation costs little and grows linearly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rocke.emulator import state
from rocke.emulator.blocks import (
    CONDITIONS,
    NO_OPERATIONS,
    Block,
    Exit,
    Program,
    scalar_pair,
)
from rocke.emulator.instruction import EXEC, VCC, Instruction
from rocke.emulator.semantics import (
    FloatMode,
    Helper,
    HelperCall,
    Imm,
    Lowered,
    RegPtr,
    ScalarReg,
    UnknownInstruction,
    lower,
)
from rocke.emulator.state import Fault, Status

CONTROL = CONDITIONS | {"s_branch", "s_barrier", "s_endpgm", "s_endpgm_saved", "s_trap"}
CONTROL |= {"s_setpc_b64", "s_swappc_b64", "s_call_b64", "s_getpc_b64", "s_memtime"}
CONTROL |= {"s_memrealtime", "s_endpgm_ordered_ps_done"}
_EXEC = ScalarReg(EXEC, 64)


@dataclass(frozen=True)
class Translation:
    """What a program became.

    ``ir`` is one LLVM module with a function ``b<i>`` for ``program.blocks[i]``; ``helpers`` are
    the functions that it needs. ``unknown`` holds the text offsets of instructions that end in
    a fault when they are reached, with the reason.
    """

    ir: str
    helpers: tuple[Helper, ...]
    unknown: dict[int, str]


Instrument = Callable[[Instruction], tuple[HelperCall, ...]]
"""Calls to make before an instruction. They may not fault, nor change the wave's registers."""


def combined(instruments: Sequence[Instrument]) -> Instrument | None:
    """The calls of several instruments, one after the other; None for none."""
    if not instruments:
        return None
    return lambda inst: tuple(call for each in instruments for call in each(inst))


def translate(program: Program, arch: str, instrument: Instrument | None = None) -> Translation:
    """Translate every block of ``program`` for target ``arch``.

    ``instrument`` adds calls before every instruction.
    """
    translator = _Translator(program, arch, instrument)
    bodies = [translator.block(i, block) for i, block in enumerate(program.blocks)]
    helpers = tuple(translator.helpers.values())
    declarations = [
        f"declare {'i32' if h.can_fault else 'void'} @{h.name}({translator.types[h.name]})"
        for h in helpers
    ]
    return Translation("\n".join(declarations + bodies), helpers, translator.unknown)


_Segment = Sequence[tuple[Instruction, Lowered, Lowered]]
"""Instructions with their calls for a full and for a partial EXEC."""


class _Translator:
    def __init__(self, program: Program, arch: str, instrument: Instrument | None) -> None:
        self.program, self.arch, self.instrument = program, arch, instrument
        self.helpers: dict[str, Helper] = {}
        self.types: dict[str, str] = {}
        self.unknown: dict[int, str] = {}
        self.lines: list[str] = []
        self.faults: list[int] = []
        self.count = 0

    def block(self, index: int, block: Block) -> str:
        self.lines = [f"define i64 @b{index}(ptr %w) nounwind {{", "entry:"]
        self.faults = []
        self.count = 0
        mode = block.mode
        segment: list[tuple[Instruction, Lowered, Lowered]] = []
        done = False
        for inst in block.instructions:
            chooses = block.exit is Exit.MODE and inst is block.instructions[-1]
            if inst.mnemonic in NO_OPERATIONS or inst.mnemonic in CONTROL or chooses:
                alone = Lowered(() if self.instrument is None else self.instrument(inst))
                segment.append((inst, alone, alone))
                if inst.mnemonic in CONTROL or chooses:
                    self._segment(segment)
                    segment = []
                    self._control(inst)
                continue
            if inst.mnemonic == "":
                break  # the block's exit reports it
            try:
                full = lower(inst, self.arch, True, mode)
                masked = lower(inst, self.arch, False, mode)
            except UnknownInstruction as error:
                self._segment(segment)
                self._unknown(inst, error.why)
                done = True
                break
            if self.instrument is not None and (calls := self.instrument(inst)):
                full = replace(full, calls=(*calls, *full.calls))
                masked = replace(masked, calls=(*calls, *masked.calls))
            segment.append((inst, full, masked))
            mode = full.mode or mode
            if full.writes_exec:
                self._segment(segment)
                segment = []
        if not done:
            self._segment(segment)
            self._exit(block, mode)
        for address in dict.fromkeys(self.faults):
            self.lines += [
                f"fault{address}:",
                *self._store("i64", state.FAULT_INSTRUCTION, address, f"fi{address}"),
                f"ret i64 {_result(Status.FAULT)}",
            ]
        self.lines.append("}")
        return "\n".join(self.lines)

    def _segment(self, segment: _Segment) -> None:
        """Code between two places where EXEC may change, in one or in both versions."""
        if not segment:
            return
        differ = [i for i, (_, full, part) in enumerate(segment) if full.calls != part.calls]
        if not differ:
            self._calls(segment, 1)
            return
        before, after = segment[: differ[0]], segment[differ[-1] + 1 :]
        segment = segment[differ[0] : differ[-1] + 1]
        self._calls(before, 1)
        n = self.count = self.count + 1
        self.lines += [
            *self._load("i64", state.sgpr(EXEC), f"x{n}"),
            f"%c{n} = icmp eq i64 %x{n}, -1",
            f"br i1 %c{n}, label %full{n}, label %part{n}",
            f"full{n}:",
        ]
        self._calls(segment, 1, "-1")
        self.lines += [f"br label %join{n}", f"part{n}:"]
        self._calls(segment, 2, f"%x{n}")
        self.lines += [f"br label %join{n}", f"join{n}:"]
        self._calls(after, 1)

    def _calls(self, segment: _Segment, which: Literal[1, 2], exec_: str = "") -> None:
        """Emit one version of a segment; ``exec_`` is EXEC's value there, where it is at hand."""
        for item in segment:
            lowered = item[which]
            for i, call in enumerate(lowered.calls):
                self._call(item[0], call, exec_ if i == 0 or not lowered.writes_exec else "")

    def _call(self, inst: Instruction, call: HelperCall, exec_: str) -> None:
        n = self.count = self.count + 1
        types, values = [], []
        lines = self.lines
        for i, arg in enumerate(call.args):
            if isinstance(arg, RegPtr):
                types.append("ptr")
                lines.append(f"%a{n}_{i} = getelementptr i8, ptr %w, i64 {arg.offset}")
                values.append(f"ptr %a{n}_{i}")
            elif isinstance(arg, Imm):
                types.append(f"i{arg.width}")
                values.append(f"i{arg.width} {arg.value}")
            elif exec_ and arg == _EXEC:
                types.append("i64")
                values.append(f"i64 {exec_}")
            elif isinstance(arg, ScalarReg):
                types.append(f"i{arg.width}")
                lines += self._load(f"i{arg.width}", state.sgpr(arg.index), f"a{n}_{i}")
                values.append(f"i{arg.width} %a{n}_{i}")
            else:
                types.append("ptr")
                values.append("ptr %w")
        helper = call.helper
        if helper.name not in self.helpers:
            self.helpers[helper.name] = helper
            self.types[helper.name] = ", ".join(types)
        listed = ", ".join(values)
        if not helper.can_fault:
            lines.append(f"call void @{helper.name}({listed})")
            return
        self.faults.append(inst.address)
        lines += [
            f"%s{n} = call i32 @{helper.name}({listed})",
            f"%f{n} = icmp ne i32 %s{n}, 0",
            f"br i1 %f{n}, label %fault{inst.address}, label %go{n}",
            f"go{n}:",
        ]

    def _load(self, type_: str, offset: int, name: str) -> list[str]:
        return [
            f"%{name}p = getelementptr i8, ptr %w, i64 {offset}",
            f"%{name} = load {type_}, ptr %{name}p, align 4",
        ]

    def _store(self, type_: str, offset: int, value: int | str, name: str) -> list[str]:
        return [
            f"%{name}p = getelementptr i8, ptr %w, i64 {offset}",
            f"store {type_} {value}, ptr %{name}p, align 4",
        ]

    def _pc(self, offset: int, name: str) -> list[str]:
        """``%name`` = the device address of a text offset."""
        return [
            *self._load("i64", state.IMAGE, f"{name}i"),
            f"%{name} = add i64 %{name}i, {offset}",
        ]

    def _control(self, inst: Instruction) -> None:
        """The register effects of control instructions; exits are made at the end of the block."""
        n = self.count = self.count + 1
        if inst.mnemonic in ("s_memtime", "s_memrealtime", "s_getpc_b64"):
            pair = scalar_pair(inst.operands[0])
            if pair is None:
                return
            if inst.mnemonic == "s_getpc_b64":
                self.lines += self._pc(inst.address + inst.size, f"v{n}")
            else:
                self.lines += self._load("i64", state.CLOCK, f"v{n}")
            self.lines += self._store("i64", state.sgpr(pair), f"%v{n}", f"d{n}")
        elif inst.mnemonic in ("s_setpc_b64", "s_swappc_b64", "s_call_b64"):
            if inst.mnemonic != "s_call_b64":
                source = scalar_pair(inst.operands[-1]) or 0
                self.lines += [
                    *self._load("i64", state.sgpr(source), f"t{n}"),
                    *self._load("i64", state.IMAGE, f"o{n}"),
                    f"%j{n} = sub i64 %t{n}, %o{n}",
                    *self._store("i64", state.INDIRECT, f"%j{n}", f"k{n}"),
                ]
            if inst.mnemonic != "s_setpc_b64":
                back = scalar_pair(inst.operands[0]) or 0
                self.lines += self._pc(inst.address + inst.size, f"r{n}")
                self.lines += self._store("i64", state.sgpr(back), f"%r{n}", f"b{n}")

    def _exit(self, block: Block, mode: FloatMode) -> None:
        last = block.instructions[-1] if block.instructions else None
        if block.exit is Exit.END:
            self.lines.append(f"ret i64 {_result(Status.END)}")
        elif block.exit is Exit.JUMP:
            self._jump(last, mode)
        elif block.exit is Exit.BARRIER:
            self.lines.append(f"ret i64 {self._to(block, 0, Status.BARRIER)}")
        elif block.exit is Exit.GO:
            self.lines.append(f"ret i64 {self._to(block, 0)}")
        elif block.exit is Exit.CONDITION and last is not None:
            self._condition(last, block)
        elif block.exit is Exit.MODE and last is not None:
            self._choose_mode(last, block)
        elif block.exit is Exit.OUTSIDE:
            address = last.address if last is not None else block.outside
            self._fault(Fault.BAD_JUMP, address, block.outside)
        elif block.exit is Exit.TRAP and last is not None:
            self._fault(Fault.TRAP, last.address, last.operands[0].value if last.operands else 0)
        elif last is not None:
            self._unknown(last, f"these bytes are no instruction of {self.arch}")

    def _to(self, block: Block, which: int, status: Status = Status.NEXT) -> int:
        return _result(status, self.program.index[block.targets[which]])

    def _jump(self, inst: Instruction | None, mode: FloatMode) -> None:
        if inst is not None and scalar_pair(inst.operands[-1]) is None:
            self._unknown(inst, "a jump to something else than a pair of scalar registers")
        elif inst is not None and mode != self.program.blocks[0].mode:
            # What a jump reaches was translated for the mode that the kernel starts in.
            self._unknown(inst, "a call or return in another floating-point mode than the kernel's")
        else:
            self.lines.append(f"ret i64 {_result(Status.JUMP)}")

    def _choose_mode(self, inst: Instruction, block: Block) -> None:
        """Go on in the code for the mode that the register's value gives."""
        n = self.count = self.count + 1
        source = inst.operands[-1]
        choices = range(len(block.targets))
        listed = " ".join(f"i32 {value}, label %mode{value}" for value in choices[1:])
        self.lines += [
            *self._load("i32", state.sgpr(source.index), f"m{n}"),
            f"%m{n}v = and i32 %m{n}, {len(block.targets) - 1}",
            f"switch i32 %m{n}v, label %mode0 [ {listed} ]",
        ]
        for value in choices:
            register = block.targets[value][1].register()
            self.lines += [
                f"mode{value}:",
                *self._store("i32", state.MODE, register, f"m{n}_{value}"),
                f"ret i64 {self._to(block, value)}",
            ]

    def _condition(self, inst: Instruction, block: Block) -> None:
        what = inst.mnemonic.removeprefix("s_cbranch_")
        n = self.count = self.count + 1
        if what.startswith("scc"):
            self.lines += self._load("i32", state.SCC, f"q{n}")
            self.lines.append(f"%q{n}c = icmp {'eq' if what == 'scc0' else 'ne'} i32 %q{n}, 0")
        else:
            register = VCC if what.startswith("vcc") else EXEC
            self.lines += self._load("i64", state.sgpr(register), f"q{n}")
            self.lines.append(f"%q{n}c = icmp {'ne' if what.endswith('nz') else 'eq'} i64 %q{n}, 0")
        self.lines += [
            f"br i1 %q{n}c, label %taken, label %fallen",
            "taken:",
            f"ret i64 {self._to(block, 0)}",
            "fallen:",
            f"ret i64 {self._to(block, 1)}",
        ]

    def _unknown(self, inst: Instruction, why: str) -> None:
        self.unknown[inst.address] = why
        self._fault(Fault.UNKNOWN_INSTRUCTION, inst.address, inst.address)

    def _fault(self, kind: Fault, instruction: int, address: int) -> None:
        n = self.count = self.count + 1
        self.lines += [
            *self._store("i32", state.FAULT_KIND, int(kind), f"e{n}a"),
            *self._store("i64", state.FAULT_ADDRESS, address, f"e{n}b"),
            *self._store("i64", state.FAULT_INSTRUCTION, instruction, f"e{n}c"),
            f"ret i64 {_result(Status.FAULT)}",
        ]


def _result(status: Status, block: int = 0) -> int:
    return int(status) << 32 | block
