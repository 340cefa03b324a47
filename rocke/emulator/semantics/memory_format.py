"""Lowering of ``buffer_load_format_*``, ``buffer_store_format_*`` and ``tbuffer_*``, with ``d16``.

The data format of one to four components and the number format come from the descriptor (bits
114:111 and 110:108) or, in tbuffer instructions, from the instruction. Components have 8, 16 or 32
bits. Registers hold one component, or two of 16 bits (``d16``). Implemented is what is exact:

- 32-bit components of UINT, SINT and FLOAT, and 16-bit ones with ``d16``, which move unchanged;
- loads that extend: 8 and 16 bits of UINT and SINT, FLOAT16 to float32;
- loads of 8 and 16 bits of UNORM, SNORM, USCALED and SSCALED to float32.

Others (packed formats, stores that narrow) are a fault: the descriptor is known at run time only.

Loads: the descriptor's DST_SEL fields (bits 107:96, three bits a register; 0 and 1 are constants,
4 to 7 R, G, B, A) choose what each register gets; tbuffer loads take R, G, B, A in order. Where the
format lacks a component, that is 0, or 1 for A. Stores write the components in order, and must have
all that the format has. An element is in range as a whole, or reads 0 and is not written. A 16-bit
half that no component is for stays as it was.
Source: AMD Instinct MI300 ISA guide, *Memory buffer instructions*, *Buffer data formats*, *Range
checking*; LLVM ``SIDefines.h`` for the numbers of the formats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
from rocke.emulator.semantics.memory_lanes import ADDRESSES, INTS, DataType, LaneMemory
from rocke.emulator.semantics.operands import register_pointer

_COMPONENT_FORMATS = {
    1: {1: 1, 2: 3, 4: 10},
    2: {1: 2, 2: 5, 4: 12},
    4: {1: 4, 2: 11, 3: 13, 4: 14},
}
"""By bytes of a component and number of components: the code of the data format."""
_DATA_FORMATS = {
    "_".join([str(8 * size)] * count): code
    for size, formats in _COMPONENT_FORMATS.items()
    for count, code in formats.items()
}
ELEMENT_BYTES = {
    code: size * count
    for size, formats in _COMPONENT_FORMATS.items()
    for count, code in formats.items()
}
"""Bytes of an element by the code of its data format."""
_UNORM, _SNORM, _USCALED, _SSCALED, _UINT, _SINT, _FLOAT = 0, 1, 2, 3, 4, 5, 7
_NUMBER_FORMATS = {
    "UNORM": _UNORM, "SNORM": _SNORM, "USCALED": _USCALED, "SSCALED": _SSCALED,
    "UINT": _UINT, "SINT": _SINT, "FLOAT": _FLOAT,
}  # fmt: skip
_UNCHANGED = (_UINT, _SINT, _FLOAT)
_WIDENED = (_UNORM, _SNORM, _USCALED, _SSCALED, _UINT, _SINT)
_COMPONENTS = {"x": 1, "xy": 2, "xyz": 3, "xyzw": 4}
_FORMAT = re.compile(r"\[(?:BUF_DATA_FORMAT_(\w+?))?,?(?:BUF_NUM_FORMAT_(\w+))?\]")


def _numbers(size: int, d16: bool, write: bool) -> tuple[int, ...]:
    """The number formats that are implemented for components of ``size`` bytes."""
    if size == (2 if d16 else 4):
        return _UNCHANGED
    if write or size == 4:
        return ()
    if d16:
        return (_UINT, _SINT)
    return (*_WIDENED, _FLOAT) if size == 2 else _WIDENED


def typed_format(inst: Instruction) -> int:
    """The instruction's formats, laid out like the last dword of a descriptor."""
    d16 = "_d16_" in inst.mnemonic
    given = inst.modifiers.get("format", "[]")  # the printer leaves out 8 and UNORM
    found = _FORMAT.fullmatch(str(given))
    data = _DATA_FORMATS.get(found[1] or "8") if found else None
    number = _NUMBER_FORMATS.get(found[2] or "UNORM") if found else None
    if data is None or number is None:
        raise UnknownInstruction(inst, f"format {given} is not implemented")
    size = next(s for s, formats in _COMPONENT_FORMATS.items() if data in formats.values())
    if number not in _numbers(size, d16, "_store_" in inst.mnemonic):
        raise UnknownInstruction(inst, f"the conversion of {given} is not implemented")
    in_order = 4 | 5 << 3 | 6 << 6 | 7 << 9
    return in_order | number << 12 | data << 15


def _lower(inst: Instruction, ctx: LoweringContext) -> Lowered:
    typed = inst.mnemonic.startswith("tbuffer")
    refuse_modifiers(inst, BUFFER_MODIFIERS | ({"format"} if typed else frozenset()))
    verb, which = inst.mnemonic.split("_")[1], inst.mnemonic.rpartition("_")[2]
    d16, high = "_d16_" in inst.mnemonic, "_hi_" in inst.mnemonic
    count, write = _COMPONENTS[which], verb == "store"
    data, vaddr, resource, soffset = buffer_operands(inst, True)
    registers = (count + 1) // 2 if d16 else count
    if data is None or data.count != registers:
        raise UnknownInstruction(inst, f"data operand is not {registers} registers")
    address = BufferAddress(inst, vaddr, resource, soffset)
    exec_param, exec_arg = exec_params(ctx)
    params = [("ptr", "wave"), *exec_param, ("ptr", "data"), *address.params]
    args: list[Arg] = [WAVE, *exec_arg, register_pointer(inst, data), *address.args]
    if typed:
        params.append(("i32", "format"))
        args.append(Imm(typed_format(inst)))
    kind = "typed" if typed else "format"
    half = ("_d16_hi" if high else "_d16") if d16 else ""
    name = f"{address.tag}_{kind}_{verb}{half}_{which}{'_masked' if exec_param else ''}"
    if known := known_call(name, args):
        return known
    w = IRWriter(name, params, "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    form = _Form(count, write, typed, d16, high)
    _Transfer(w, memory, address, form).emit()
    return lowered_call(name, w, args)


@dataclass(frozen=True)
class _Form:
    """A form of the instruction; ``high``: the only component is in the high half."""

    count: int
    write: bool
    typed: bool
    d16: bool
    high: bool


class _Transfer:
    """One helper: a path for each size of components that a format can have."""

    def __init__(
        self, w: IRWriter, memory: LaneMemory, address: BufferAddress, form: _Form
    ) -> None:
        self.w, self.memory, self.address, self.form = w, memory, address, form
        self.descriptor = address.descriptor(w)
        self.index = address.lane_index(w, self.descriptor)
        self.offsets = address.lane_offset(w)
        self.format = "%format" if form.typed else w.load("i32", "%resource", 12, align=4)
        # With ADD_TID_ENABLE the descriptor's data format is a part of the stride.
        add_tid = "false" if form.typed else w.new(f"icmp ne i64 {self.descriptor.add_tid}, 0")
        self.formatted = w.new(f"xor i1 {add_tid}, true")
        self.number, self.data = self._field(12, 3), self._field(15, 4)
        self.rows = w.new(f"alloca [{4 * state.ROW_BYTES} x i8], align 64")

    def _field(self, low: int, bits: int) -> str:
        shifted = self.w.new(f"lshr i32 {self.format}, {low}")
        return self.w.new(f"and i32 {shifted}, {(1 << bits) - 1}")

    def _number_is(self, *numbers: int) -> str:
        """Whether the number format is one of some (i1)."""
        listed = sum(1 << number for number in numbers)
        bit = self.w.new(f"lshr i32 {listed}, {self.number}")
        return self.w.new(f"trunc i32 {bit} to i1")

    def emit(self) -> None:
        """Everything after the parameters."""
        w, form = self.w, self.form
        if form.write:
            self._unpack()
        after = w.label()
        for size, formats in _COMPONENT_FORMATS.items():
            numbers = _numbers(size, form.d16, form.write)
            if not numbers:
                continue
            components = "0"
            for count, code in formats.items():
                if not form.write or count <= form.count:
                    mine = w.new(f"icmp eq i32 {self.data}, {code}")
                    components = w.new(f"select i1 {mine}, i64 {count}, i64 {components}")
            good = w.new(f"and i1 {self.formatted}, {self._number_is(*numbers)}")
            good = w.new(f"and i1 {good}, {w.new(f'icmp ne i64 {components}, 0')}")
            path, following = w.label(), w.label()
            w.branch_if(good, path, following)
            w.place(path)
            self._path(size, components)
            w.branch(after)
            w.place(following)
        shown = w.splat("i64", w.new(f"zext i32 {self.format} to i64"))
        every = w.splat("i1", "true")
        self.memory.check(every, state.Fault.UNSUPPORTED, shown, 4 * form.count)
        w.branch(after)
        w.place(after)
        if not form.write:
            self._deliver()

    def _path(self, size: int, components: str) -> None:
        w, memory, d, write = self.w, self.memory, self.descriptor, self.form.write
        whole = w.new(f"mul i64 {components}, {size}")
        _, good = self.address.component(w, d, self.index, self.offsets, whole)
        lanes = w.new(f"and i64 {good}, {memory.active_lanes()}")

        def place(component: str) -> str:
            step = w.splat("i64", w.new(f"mul i64 {component}, {size}"))
            here = w.new(f"add {ADDRESSES} {self.offsets}, {step}")
            return self.address.component(w, d, self.index, here, size)[0]

        def move(component: str) -> None:
            memory.place(place(component), lanes=lanes, spare=spare)
            row = w.at(self.rows, w.new(f"mul i64 {component}, {state.ROW_BYTES}"))
            (memory.store if write else memory.load)(row, DataType(size))

        memory.each_row(components, lambda row: memory.check_map(place(row), size, write, lanes))
        spare = w.at("%wave", state.SCRATCH_ROWS)
        w.store("<4 x i32>", "zeroinitializer", spare, align=16)
        memory.each_row(components, move)
        if write:
            return
        for number in range(4):
            missing = self._one() if number == 3 else "zeroinitializer"
            value = self._converted(w.row(self.rows, number), size)
            there = w.new(f"icmp ugt i64 {components}, {number}")
            value = w.new(f"select i1 {there}, {INTS} {value}, {INTS} {missing}")
            w.set_row(value, self.rows, number)

    def _unpack(self) -> None:
        """The components to store, one a row."""
        w, form = self.w, self.form
        for number in range(form.count):
            value = w.row("%data", number // 2 if form.d16 else number)
            if form.high or (form.d16 and number % 2):
                value = w.new(f"lshr {INTS} {value}, splat (i32 16)")
            w.set_row(value, self.rows, number)

    def _converted(self, unsigned: str, size: int) -> str:
        """A loaded component (zero extended) as the number format has it in a register."""
        w, d16, bits = self.w, self.form.d16, 8 * size
        if size == 4:
            return unsigned
        shift = f"splat (i32 {32 - bits})"
        signed = w.new(f"ashr {INTS} {w.new(f'shl {INTS} {unsigned}, {shift}')}, {shift}")
        forms = {_SINT: signed}
        if not d16:
            forms |= self._as_float(unsigned, signed, bits)
        value = unsigned
        for number, other in forms.items():
            value = w.new(f"select i1 {self._number_is(number)}, {INTS} {other}, {INTS} {value}")
        return value

    def _as_float(self, unsigned: str, signed: str, bits: int) -> dict[int, str]:
        """float32 bits by number format. 1 is the largest integer of the width."""
        w, floats = self.w, "<64 x float>"

        def scaled(value: str, largest: int) -> str:
            one = w.splat("float", w.new(f"uitofp i32 {largest} to float"))
            return w.new(f"fdiv {floats} {value}, {one}")

        plain = w.new(f"uitofp {INTS} {unsigned} to {floats}")
        with_sign = w.new(f"sitofp {INTS} {signed} to {floats}")
        least = (floats, w.splat("float", "-1.0"))
        normal = (floats, scaled(with_sign, (1 << bits - 1) - 1))
        forms = {
            _UNORM: scaled(plain, (1 << bits) - 1),
            _SNORM: w.call(floats, "llvm.maxnum.v64f32", normal, least),
            _USCALED: plain,
            _SSCALED: with_sign,
        }
        if bits == 16:
            half = w.new(f"bitcast <64 x i16> {w.new(f'trunc {INTS} {unsigned} to <64 x i16>')}"
                         " to <64 x half>")  # fmt: skip
            forms[_FLOAT] = w.new(f"fpext <64 x half> {half} to {floats}")
        return {n: w.new(f"bitcast {floats} {value} to {INTS}") for n, value in forms.items()}

    def _one(self) -> str:
        """The constant 1 of the number format."""
        one = 0x3C00 if self.form.d16 else 0x3F80_0000
        whole = self._number_is(_UINT, _SINT)
        return self.w.splat("i32", self.w.new(f"select i1 {whole}, i32 1, i32 {one}"))

    def _deliver(self) -> None:
        """The loaded components to the registers, as DST_SEL says."""
        w, form = self.w, self.form
        components = [w.row(self.rows, number) for number in range(4)]
        one = self._one()
        values = []
        for position in range(form.count):
            select = self._field(3 * position, 3)
            value = "zeroinitializer"
            for code, source in ((1, one), *enumerate(components, 4)):
                mine = w.new(f"icmp eq i32 {select}, {code}")
                value = w.new(f"select i1 {mine}, {INTS} {source}, {INTS} {value}")
            values.append(value)
        if form.d16:
            values = self._packed(values)
        for number, value in enumerate(values):
            if self.memory.masked:
                mask = w.new("bitcast i64 %exec to <64 x i1>")
                old = w.row("%data", number)
                value = w.new(f"select <64 x i1> {mask}, {INTS} {value}, {INTS} {old}")
            w.set_row(value, "%data", number)

    def _packed(self, halves: list[str]) -> list[str]:
        """Two components a register."""
        w, low_half, registers = self.w, "splat (i32 65535)", []
        for number in range(0, len(halves), 2):
            old = w.row("%data", number // 2)
            parts: list[str | None] = [halves[number], *halves[number + 1 : number + 2], None]
            low, high = (None, parts[0]) if self.form.high else parts[:2]
            low = w.new(f"and {INTS} {low or old}, {low_half}")
            if high is None:
                high = w.new(f"lshr {INTS} {old}, splat (i32 16)")
            high = w.new(f"shl {INTS} {high}, splat (i32 16)")
            registers.append(w.new(f"or {INTS} {low}, {high}"))
        return registers


for _name in _COMPONENTS:
    for _prefix in ("buffer", "tbuffer"):
        for _kind in ("", "d16_"):
            register(f"{_prefix}_load_format_{_kind}{_name}", _lower)
            register(f"{_prefix}_store_format_{_kind}{_name}", _lower)
register("buffer_load_format_d16_hi_x", _lower)
register("buffer_store_format_d16_hi_x", _lower)
