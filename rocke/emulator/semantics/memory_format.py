"""Lowering of ``buffer_load_format_*``, ``buffer_store_format_*`` and ``tbuffer_*``.

The data format of one to four components and the number format come from the descriptor (bits
114:111 and 110:108) or, in tbuffer instructions, from the instruction. Implemented are the formats
of 32-bit components as UINT, SINT and FLOAT, which move bits unchanged; others are a fault, as the
descriptor is known at run time only (in a tbuffer instruction: refused).

Loads: the descriptor's DST_SEL fields (bits 107:96, three bits a register; 0 and 1 are constants,
4 to 7 R, G, B, A) choose what each register gets; tbuffer loads take R, G, B, A in order. Where the
format lacks a component, that is 0, or 1 for A. Stores write the components in order, and must have
all that the format has. An element is in range as a whole, or reads 0 and is not written.
Source: AMD Instinct MI300 ISA guide, *Memory buffer instructions*, *Buffer data formats*, *Range
checking*.
"""

from __future__ import annotations

import re

from rocke.emulator import state
from rocke.emulator.instruction import Instruction
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Imm,
    Lowered,
    LoweringContext,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.memory_address import (
    exec_params,
    known_call,
    lowered_call,
    refuse_modifiers,
)
from rocke.emulator.semantics.memory_descriptor import (
    BUFFER_MODIFIERS,
    BufferAddress,
    buffer_operands,
)
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import ADDRESSES, DWORDS, INTS, LaneMemory
from rocke.emulator.semantics.operands import register_pointer

_DATA_FORMATS = {"32": 4, "32_32": 11, "32_32_32": 13, "32_32_32_32": 14}
_NUMBER_FORMATS = {"UINT": 4, "SINT": 5, "FLOAT": 7}
_COMPONENTS = {"x": 1, "xy": 2, "xyz": 3, "xyzw": 4}
_FORMAT = re.compile(r"\[BUF_DATA_FORMAT_(\w+),BUF_NUM_FORMAT_(\w+)\]")
_FLOAT_ONE = 0x3F80_0000


def _typed_format(inst: Instruction) -> int:
    """The instruction's formats, laid out like the third dword of a descriptor."""
    given = inst.modifiers.get("format", "[BUF_DATA_FORMAT_8,BUF_NUM_FORMAT_UNORM]")
    found = _FORMAT.fullmatch(str(given))
    data, number = (found[1], found[2]) if found else ("", "")
    if data not in _DATA_FORMATS or number not in _NUMBER_FORMATS:
        raise UnknownInstruction(inst, f"format {given} is not of 32-bit UINT, SINT or FLOAT")
    in_order = 4 | 5 << 3 | 6 << 6 | 7 << 9
    return in_order | _NUMBER_FORMATS[number] << 12 | _DATA_FORMATS[data] << 15


def _lower(inst: Instruction, ctx: LoweringContext) -> Lowered:
    typed = inst.mnemonic.startswith("tbuffer")
    refuse_modifiers(inst, BUFFER_MODIFIERS | ({"format"} if typed else frozenset()))
    _, verb, _, which = inst.mnemonic.split("_")
    count, write = _COMPONENTS[which], verb == "store"
    data, vaddr, resource, soffset = buffer_operands(inst, True)
    if data is None or data.count != count:
        raise UnknownInstruction(inst, f"data operand is not {count} registers")
    address = BufferAddress(inst, vaddr, resource, soffset)
    exec_param, exec_arg = exec_params(ctx)
    params = [("ptr", "wave"), *exec_param, ("ptr", "data"), *address.params]
    args: list[Arg] = [WAVE, *exec_arg, register_pointer(inst, data), *address.args]
    if typed:
        params.append(("i32", "format"))
        args.append(Imm(_typed_format(inst)))
    kind = "typed" if typed else "format"
    name = f"{address.tag}_{kind}_{verb}_{which}{'_masked' if exec_param else ''}"
    if known := known_call(name, args):
        return known
    w = IRWriter(name, params, "i32")
    _Transfer(w, LaneMemory(w, masked=not ctx.exec_full), address, count, write, typed).emit()
    return lowered_call(name, w, args)


class _Transfer:
    """One helper: a path for each number of components that a format can have."""

    def __init__(
        self,
        w: IRWriter,
        memory: LaneMemory,
        address: BufferAddress,
        count: int,
        write: bool,
        typed: bool,
    ) -> None:
        self.w, self.memory, self.address = w, memory, address
        self.count, self.write = count, write
        self.descriptor = address.descriptor(w)
        self.index = address.lane_index(w, self.descriptor)
        self.offsets = address.lane_offset(w)
        self.format = "%format" if typed else w.load("i32", "%resource", 12, align=4)
        # With ADD_TID_ENABLE the descriptor's data format is a part of the stride.
        self.formatless = "false" if typed else w.new(f"icmp ne i64 {self.descriptor.add_tid}, 0")
        self.rows = "" if write else w.new(f"alloca [{4 * state.ROW_BYTES} x i8], align 64")

    def _field(self, low: int, bits: int) -> str:
        shifted = self.w.new(f"lshr i32 {self.format}, {low}")
        return self.w.new(f"and i32 {shifted}, {(1 << bits) - 1}")

    def emit(self) -> None:
        """Everything after the parameters."""
        w = self.w
        number, data = self._field(12, 3), self._field(15, 4)
        good = "false"
        for value in _NUMBER_FORMATS.values():
            good = w.new(f"or i1 {good}, {w.new(f'icmp eq i32 {number}, {value}')}")
        good = w.new(f"and i1 {good}, {w.new(f'xor i1 {self.formatless}, true')}")
        after, unknown = w.label(), w.label()
        for components, value in enumerate(_DATA_FORMATS.values(), 1):
            if self.write and components > self.count:
                continue
            path, following = w.label(), w.label()
            mine = w.new(f"and i1 {good}, {w.new(f'icmp eq i32 {data}, {value}')}")
            w.branch_if(mine, path, following)
            w.place(path)
            self._path(components)
            w.branch(after)
            w.place(following)
        w.branch(unknown)
        w.place(unknown)
        shown = w.splat("i64", w.new(f"zext i32 {self.format} to i64"))
        every = w.splat("i1", "true")
        self.memory.check(every, state.Fault.UNSUPPORTED, shown, 4 * self.count)
        w.branch(after)
        w.place(after)
        if not self.write:
            self._deliver()

    def _path(self, components: int) -> None:
        w, memory, d = self.w, self.memory, self.descriptor
        size = 4 * components
        _, good = self.address.component(w, d, self.index, self.offsets, size)
        lanes = w.new(f"and i64 {good}, {memory.active_lanes()}")
        places = []
        for number in range(components):
            here = w.new(f"add {ADDRESSES} {self.offsets}, splat (i64 {4 * number})")
            place, _ = self.address.component(w, d, self.index, here, 4)
            memory.check_map(place, 4, self.write, lanes)
            places.append(place)
        spare = w.at("%wave", state.SCRATCH_ROWS)
        for number, place in enumerate(places):
            w.store("<4 x i32>", "zeroinitializer", spare, align=16)
            memory.place(place, lanes=lanes, spare=spare)
            if self.write:
                memory.store(w.at("%data", number * state.ROW_BYTES), DWORDS[1])
            else:
                memory.load(w.at(self.rows, number * state.ROW_BYTES), DWORDS[1])
        if self.write:
            return
        for number in range(components, 4):
            missing = self._one() if number == 3 else w.splat("i32", "0")
            w.set_row(missing, self.rows, number)

    def _one(self) -> str:
        """The constant 1 of the number format."""
        w = self.w
        is_float = w.new(f"icmp eq i32 {self._field(12, 3)}, {_NUMBER_FORMATS['FLOAT']}")
        return w.splat("i32", w.new(f"select i1 {is_float}, i32 {_FLOAT_ONE}, i32 1"))

    def _deliver(self) -> None:
        """The loaded components to the registers, as DST_SEL says."""
        w = self.w
        components = [w.row(self.rows, number) for number in range(4)]
        one = self._one()
        for register_ in range(self.count):
            select = self._field(3 * register_, 3)
            value = "zeroinitializer"
            for code, source in ((1, one), *enumerate(components, 4)):
                mine = w.new(f"icmp eq i32 {select}, {code}")
                value = w.new(f"select i1 {mine}, {INTS} {source}, {INTS} {value}")
            if self.memory.masked:
                mask = w.new("bitcast i64 %exec to <64 x i1>")
                old = w.row("%data", register_)
                value = w.new(f"select <64 x i1> {mask}, {INTS} {value}, {INTS} {old}")
            w.set_row(value, "%data", register_)


for _name in _COMPONENTS:
    for _prefix in ("buffer", "tbuffer"):
        register(f"{_prefix}_load_format_{_name}", _lower)
        register(f"{_prefix}_store_format_{_name}", _lower)
