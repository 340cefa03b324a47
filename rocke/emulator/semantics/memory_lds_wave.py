"""LDS instructions whose address comes from M0: append, consume, and the add-thread-id forms.

``ds_append`` and ``ds_consume`` add (subtract) the number of active lanes to the dword at
M0[31:16] + immediate; every active lane gets the old value. ``ds_read_addtid_b32`` and
``ds_write_addtid_b32`` access byte M0[15:0] + immediate + 4 * lane.
Source: AMD Instinct MI200 / MI300 ISA guides, *DS instructions* and *LDS append and consume*.
"""

from __future__ import annotations

from rocke.emulator import state
from rocke.emulator.instruction import M0, Instruction, Operand
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Imm,
    Lowered,
    LoweringContext,
    ScalarReg,
    UnknownInstruction,
    lowering,
)
from rocke.emulator.semantics.memory_address import (
    Address,
    exec_params,
    known_call,
    lowered_call,
    offset_of,
    refuse_modifiers,
)
from rocke.emulator.semantics.memory_global import transfer
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import ADDRESSES, INTS, DataType, LaneMemory
from rocke.emulator.semantics.memory_lds import check_lds, lds_host
from rocke.emulator.semantics.operands import register_pointer

_LANE_BYTES = "<" + ", ".join(f"i32 {4 * lane}" for lane in range(state.LANES)) + ">"


def counter_bytes(w: IRWriter) -> str:
    """LDS byte of the counter in every lane (``<64 x i32>``), from ``%m0`` and ``%offset``."""
    return w.splat("i32", w.new(f"add i32 {w.new('lshr i32 %m0, 16')}, %offset"))


def thread_bytes(w: IRWriter) -> str:
    """LDS byte of each lane with add-thread-id (``<64 x i32>``), from ``%m0`` and ``%offset``."""
    start = w.new(f"add i32 {w.new('and i32 %m0, 65535')}, %offset")
    return w.new(f"add {INTS} {w.splat('i32', start)}, {_LANE_BYTES}")


def _only_operand(inst: Instruction) -> Operand:
    refuse_modifiers(inst, frozenset({"offset"}))
    if len(inst.operands) != 1 or inst.operands[0].count != 1:
        raise UnknownInstruction(inst, "the only operand must be one register")
    return inst.operands[0]


@lowering("ds_append", "ds_consume")
def _count(inst: Instruction, ctx: LoweringContext) -> Lowered:
    result = _only_operand(inst)
    operation = "add" if inst.mnemonic == "ds_append" else "sub"
    exec_param, exec_arg = exec_params(ctx)
    name = f"lds_count_{operation}{'_masked' if exec_param else ''}"
    params = [("ptr", "wave"), *exec_param, ("ptr", "result"), ("i32", "m0"), ("i32", "offset")]
    args: list[Arg] = [WAVE, *exec_arg, register_pointer(inst, result)]
    args += [ScalarReg(M0), Imm(offset_of(inst))]
    if known := known_call(name, args):
        return known
    w = IRWriter(name, params, "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    at = counter_bytes(w)
    check_lds(memory, at, 4, True)
    odd = w.new(f"icmp ne {INTS} {w.new(f'and {INTS} {at}, splat (i32 3)')}, zeroinitializer")
    wide = w.new(f"zext {INTS} {at} to {ADDRESSES}")
    memory.check(odd, state.Fault.MISALIGNED, wide, 4)
    lanes = memory.active_lanes()
    some, after = w.label(), w.label()
    # Without an active lane the address was not checked.
    w.branch_if(w.new(f"icmp eq i64 {lanes}, 0"), after, some)
    w.place(some)
    host = w.new(f"extractelement {ADDRESSES} {lds_host(w, at)}, i32 0")
    count = w.call("i64", "llvm.ctpop.i64", ("i64", lanes))
    target = w.new(f"inttoptr i64 {host} to ptr")
    narrow = w.new(f"trunc i64 {count} to i32")
    old = w.splat("i32", w.new(f"atomicrmw {operation} ptr {target}, i32 {narrow} seq_cst"))
    mask = w.new(f"bitcast i64 {lanes} to <64 x i1>")
    choice = f"<64 x i1> {mask}, {INTS} {old}, {INTS} {w.row('%result')}"
    w.set_row(w.new(f"select {choice}"), "%result")
    w.branch(after)
    w.place(after)
    return lowered_call(name, w, args)


class _ThreadAddress(Address):
    """M0[15:0], an immediate and the lane."""

    def __init__(self, inst: Instruction) -> None:
        self.tag = "lds_addtid"
        self.params = [("i32", "m0"), ("i32", "offset")]
        self.args = [ScalarReg(M0), Imm(offset_of(inst))]

    def resolve(self, memory: LaneMemory, size: int, write: bool) -> tuple[str, str | None]:
        """Host addresses; a fault beyond the allocation."""
        w = memory.w
        at = thread_bytes(w)
        check_lds(memory, at, size, write)
        return lds_host(w, at), None


@lowering("ds_read_addtid_b32", "ds_write_addtid_b32")
def _by_thread(inst: Instruction, ctx: LoweringContext) -> Lowered:
    data = _only_operand(inst)
    write = inst.mnemonic.startswith("ds_write")
    return transfer(inst, ctx, DataType(4), data, _ThreadAddress(inst), write)
