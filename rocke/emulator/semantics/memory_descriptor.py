"""Addresses and range checks of buffer instructions.

Descriptor (four SGPRs): base in bits 47:0, stride 61:48, swizzle enable 63, number of records
95:64, index stride 118:117 (8, 16, 32, 64), add-thread-id 119 (the data format in 114:111 then
extends the stride). Swizzled elements always have 4 bytes: the descriptor of gfx9 has no field for
that (LLVM ``getScratchRsrcWords23`` sets one for older generations only).

Address: base + soffset + offset + stride * index, with offset = immediate + VGPR (``offen``) and
index = VGPR (``idxen``) + lane (add-thread-id). Swizzled, with index stride IS: base + soffset
+ (index / IS * stride + offset / 4 * 4) * IS + index mod IS * 4 + offset mod 4.

Range: with a stride and ``idxen`` or add-thread-id, a dword is out of range when index >= records
or offset + 4 > stride; else when offset + 4 > records - soffset (saturating). Each dword of a load
or store is checked by itself, atomics as a whole. What is out of range reads 0 and is not written;
what is in range must lie in the memory map all the same, or the access is a fault.
Source: AMD Instinct MI300 ISA guide, *Memory buffer addressing* and *Range checking*; LLVM
``AMDGPUUsage``, *Relaxed buffer out-of-bounds mode*.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke.emulator import state
from rocke.emulator.instruction import Instruction, Operand, OperandKind
from rocke.emulator.semantics.expr import U32
from rocke.emulator.semantics.interface import Imm, RegPtr, UnknownInstruction
from rocke.emulator.semantics.memory_address import Address, is_off, offset_of
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import ADDRESSES, INTS, DataType, LaneMemory
from rocke.emulator.semantics.operands import register_pointer, scalar_arg

_LANE_NUMBERS = "<" + ", ".join(f"i64 {lane}" for lane in range(state.LANES)) + ">"
BUFFER_MODIFIERS = frozenset({"offset", "offen", "idxen"})


@dataclass
class _Descriptor:
    """Scalar i64 values (``structured``, ``plain``, ``swizzled`` i1) of a descriptor."""

    base: str
    stride: str
    records: str
    index_stride: str
    add_tid: str
    swizzled: str
    structured: str
    plain: str
    """No stride at work, no swizzle: address and range depend on the offset alone."""


class BufferAddress(Address):
    """Operands ``vaddr, srsrc, soffset`` of a buffer instruction."""

    def __init__(
        self, inst: Instruction, vaddr: Operand | None, resource: Operand, soffset: Operand
    ) -> None:
        self.offen = bool(inst.modifiers.get("offen"))
        self.idxen = bool(inst.modifiers.get("idxen"))
        registers = int(self.offen) + int(self.idxen)
        if registers and (
            vaddr is None or vaddr.kind is not OperandKind.VGPR or vaddr.count != registers
        ):
            raise UnknownInstruction(inst, f"a buffer address needs {registers} VGPRs")
        if resource.kind is not OperandKind.SGPR or resource.count != 4:
            raise UnknownInstruction(inst, f"descriptor operand {resource.text}")
        mode = ("_idxen" if self.idxen else "") + ("_offen" if self.offen else "")
        self.tag = f"buffer{mode}"
        self.params = [("ptr", "resource"), ("i32", "soffset"), ("i64", "offset")]
        self.args = [
            register_pointer(inst, resource),
            scalar_arg(inst, soffset, U32),
            Imm(offset_of(inst), 64),
        ]
        if registers and vaddr is not None:
            self.params.append(("ptr", "vaddr"))
            self.args.append(RegPtr(state.vgpr(vaddr.index)))

    def descriptor(self, w: IRWriter) -> _Descriptor:
        """Take the descriptor apart."""
        word0 = w.load("i64", "%resource", align=4)
        word2 = w.load("i64", "%resource", 8, align=4)

        def bits(word: str, low: int, count: int) -> str:
            shifted = w.new(f"lshr i64 {word}, {low}") if low else word
            return w.new(f"and i64 {shifted}, {(1 << count) - 1}")

        tid_bit = bits(word2, 55, 1)
        add_tid = w.new(f"icmp ne i64 {tid_bit}, 0")
        extension = w.new(f"shl i64 {bits(word2, 47, 4)}, 14")
        extension = w.new(f"select i1 {add_tid}, i64 {extension}, i64 0")
        stride = w.new(f"or i64 {bits(word0, 48, 14)}, {extension}")
        swizzled = w.new(f"icmp slt i64 {word0}, 0")
        indexed = "true" if self.idxen else add_tid
        has_stride = w.new(f"icmp ne i64 {stride}, 0")
        structured = w.new(f"and i1 {has_stride}, {indexed}")
        special = w.new(f"or i1 {w.new(f'or i1 {swizzled}, {structured}')}, {add_tid}")
        return _Descriptor(
            base=bits(word0, 0, 48),
            stride=stride,
            records=bits(word2, 0, 32),
            index_stride=w.new(f"shl i64 8, {bits(word2, 53, 2)}"),
            add_tid=tid_bit,
            swizzled=swizzled,
            structured=structured,
            plain=w.new(f"xor i1 {special}, true"),
        )

    def lane_offset(self, w: IRWriter) -> str:
        """Immediate plus the offset VGPR, 64 bits wide."""
        offset = w.splat("i64", "%offset")
        if not self.offen:
            return offset
        wide = w.new(f"zext {INTS} {w.row('%vaddr', int(self.idxen))} to {ADDRESSES}")
        return w.new(f"add {ADDRESSES} {wide}, {offset}")

    def room(self, w: IRWriter, d: _Descriptor) -> str:
        """Bytes that offsets of an unstructured access may reach."""
        soffset = w.new("zext i32 %soffset to i64")
        return w.call("i64", "llvm.usub.sat.i64", ("i64", d.records), ("i64", soffset))

    def plain_addresses(self, w: IRWriter, d: _Descriptor, offsets: str) -> str:
        """base + soffset + offset."""
        soffset = w.new("zext i32 %soffset to i64")
        start = w.new(f"add i64 {d.base}, {soffset}")
        return w.new(f"add {ADDRESSES} {offsets}, {w.splat('i64', start)}")

    def plain_limit(self, w: IRWriter, d: _Descriptor, size: int) -> str:
        """Offsets below this have ``size`` bytes in range."""
        less = ("i64", str(size - 1))
        return w.call("i64", "llvm.usub.sat.i64", ("i64", self.room(w, d)), less)

    def lane_index(self, w: IRWriter, d: _Descriptor) -> str:
        """Index VGPR plus, with add-thread-id, the lane number."""
        index = w.splat("i64", d.add_tid)
        index = w.new(f"mul {ADDRESSES} {index}, {_LANE_NUMBERS}")
        if not self.idxen:
            return index
        wide = w.new(f"zext {INTS} {w.row('%vaddr')} to {ADDRESSES}")
        return w.new(f"add {ADDRESSES} {index}, {wide}")

    def component(
        self, w: IRWriter, d: _Descriptor, index: str, offsets: str, size: int | str
    ) -> tuple[str, str]:
        """Any kind of descriptor: host addresses, and the lanes (i64) in range.

        ``size`` is in bytes, a constant or an i64 value.
        """
        stride = w.splat("i64", d.stride)
        linear = w.new(f"mul {ADDRESSES} {index}, {stride}")
        linear = w.new(f"add {ADDRESSES} {linear}, {offsets}")
        swizzled = self._swizzle(w, d, index, offsets, stride)
        place = w.new(f"select i1 {d.swizzled}, {ADDRESSES} {swizzled}, {ADDRESSES} {linear}")
        # Structured: index < records and offset + size <= stride. Else: offset + size <= room.
        less = ("i64", str(size - 1) if isinstance(size, int) else w.new(f"sub i64 {size}, 1"))
        bound = w.new(f"select i1 {d.structured}, i64 {d.stride}, i64 {self.room(w, d)}")
        bound = w.call("i64", "llvm.usub.sat.i64", ("i64", bound), less)
        fits = w.new(f"icmp ult {ADDRESSES} {offsets}, {w.splat('i64', bound)}")
        indexed = w.new(f"icmp ult {ADDRESSES} {index}, {w.splat('i64', d.records)}")
        free = w.splat("i1", w.new(f"xor i1 {d.structured}, true"))
        indexed = w.new(f"or <64 x i1> {indexed}, {free}")
        good = w.new(f"and <64 x i1> {fits}, {indexed}")
        return self.plain_addresses(w, d, place), w.new(f"bitcast <64 x i1> {good} to i64")

    def _swizzle(self, w: IRWriter, d: _Descriptor, index: str, offsets: str, stride: str) -> str:
        """The swizzled place; the index stride is a power of two."""
        count = w.splat("i64", d.index_stride)
        bits = w.call("i64", "llvm.cttz.i64", ("i64", d.index_stride), ("i1", "true"))
        group = w.new(f"lshr {ADDRESSES} {index}, {w.splat('i64', bits)}")
        member = w.new(
            f"and {ADDRESSES} {index}, {w.new(f'sub {ADDRESSES} {count}, splat (i64 1)')}"
        )
        within = w.new(f"and {ADDRESSES} {offsets}, splat (i64 3)")
        whole = w.new(f"sub {ADDRESSES} {offsets}, {within}")
        far = w.new(f"add {ADDRESSES} {w.new(f'mul {ADDRESSES} {group}, {stride}')}, {whole}")
        far = w.new(f"mul {ADDRESSES} {far}, {count}")
        near = w.new(f"shl {ADDRESSES} {member}, splat (i64 2)")
        near = w.new(f"add {ADDRESSES} {near}, {within}")
        return w.new(f"add {ADDRESSES} {far}, {near}")

    def resolve(self, memory: LaneMemory, size: int, write: bool) -> tuple[str, str | None]:
        """All or nothing, for atomics: host addresses and the lanes that are in range."""
        w = memory.w
        d = self.descriptor(w)
        index, offsets = self.lane_index(w, d), self.lane_offset(w)
        addresses, good = self.component(w, d, index, offsets, size)
        lanes = w.new(f"and i64 {good}, {memory.active_lanes()}")
        memory.check_map(addresses, size, write, lanes)
        return addresses, lanes

    def move(self, memory: LaneMemory, data: str, type_: DataType, write: bool) -> None:
        """Load or store dword by dword; the common case, all in range and plain, as a whole."""
        w = memory.w
        d, offsets = self.descriptor(w), self.lane_offset(w)
        whole, apart, test, after = (w.label() for _ in range(4))
        w.branch_if(d.plain, test, apart, likely=True)
        w.place(test)
        limit = w.splat("i64", self.plain_limit(w, d, type_.size))
        out = w.new(f"icmp uge {ADDRESSES} {offsets}, {limit}")
        some = w.new(f"bitcast <64 x i1> {out} to i64")
        some = w.new(f"and i64 {some}, {memory.active_lanes()}")
        w.branch_if(w.new(f"icmp eq i64 {some}, 0"), whole, apart, likely=True)
        w.place(whole)
        addresses = self.plain_addresses(w, d, offsets)
        memory.check_map(addresses, type_.size, write)
        memory.place(addresses)
        (memory.store if write else memory.load)(data, type_)
        w.branch(after)
        w.place(apart)
        self._move_apart(memory, d, offsets, data, type_, write)
        w.branch(after)
        w.place(after)

    def _move_apart(
        self,
        memory: LaneMemory,
        d: _Descriptor,
        offsets: str,
        data: str,
        type_: DataType,
        write: bool,
    ) -> None:
        w = memory.w
        size = min(type_.size, 4)
        # Read before the data overwrites the address registers.
        index = self.lane_index(w, d)

        def component(row: str) -> tuple[str, str]:
            step = w.splat("i64", w.new(f"shl i64 {row}, 2"))
            here = w.new(f"add {ADDRESSES} {offsets}, {step}")
            addresses, good = self.component(w, d, index, here, size)
            return addresses, w.new(f"and i64 {good}, {memory.active_lanes()}")

        def check(row: str) -> None:
            addresses, lanes = component(row)
            memory.check_map(addresses, size, write, lanes)

        memory.each_row(type_.rows, check)
        spare = None
        if not write:
            spare = w.at("%wave", state.SCRATCH_ROWS)
            w.store("<4 x i32>", "zeroinitializer", spare, align=16)
        memory.move_rows(data, type_, component, write, spare)


def buffer_operands(
    inst: Instruction, data: bool
) -> tuple[Operand | None, Operand | None, Operand, Operand]:
    """``[vdata,] [vaddr | off,] srsrc, soffset``; None where there is none."""
    operands = list(inst.operands)
    first = operands.pop(0) if data else None
    vaddr = None
    if len(operands) == 3:
        vaddr = operands.pop(0)
        if is_off(vaddr):
            vaddr = None
    if len(operands) != 2:
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands of a buffer instruction")
    return first, vaddr, operands[0], operands[1]
