"""Lowering of ``flat_load_*`` and ``flat_store_*``: global, LDS or scratch by the address.

The high dword of an address (before the immediate is added) chooses the segment: the shared or the
private aperture, else global memory; the low dword is then the LDS or scratch byte.
Source: AMD Instinct MI300 ISA guide, *Flat memory instructions*; aperture values:
:mod:`rocke.emulator.state`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke.emulator import state
from rocke.emulator.instruction import Instruction, Operand
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Lowered,
    LoweringContext,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.memory_address import (
    LOADS,
    STORES,
    GlobalAddress,
    exec_params,
    known_call,
    lowered_call,
    refuse_modifiers,
)
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import ADDRESSES, INTS, DataType, LaneMemory
from rocke.emulator.semantics.memory_lds import beyond_lds, lds_host
from rocke.emulator.semantics.memory_scratch import (
    beyond_scratch,
    misaligned_scratch,
    scratch_host,
)
from rocke.emulator.semantics.operands import register_pointer


@dataclass(frozen=True)
class _Lanes:
    """What the address registers say: ``<64 x i1>``, bytes in the segment, address."""

    shared: str
    private: str
    at: str
    address: str


class FlatAddress(GlobalAddress):
    """A VGPR pair and an immediate."""

    def __init__(self, inst: Instruction, vaddr: Operand) -> None:
        super().__init__(inst, vaddr, None)
        self.tag = "flat"

    def _lanes(self, w: IRWriter) -> _Lanes:
        high = w.row("%addr", 1)
        apertures = (state.SHARED_APERTURE_HI, state.PRIVATE_APERTURE_HI)
        shared, private = (
            w.new(f"icmp eq {INTS} {high}, splat (i32 {value})") for value in apertures
        )
        offset = w.splat("i32", w.new("trunc i64 %offset to i32"))
        at = w.new(f"add {INTS} {w.row('%addr')}, {offset}")
        return _Lanes(shared, private, at, self.addresses(w))

    def _check(self, memory: LaneMemory, lanes: _Lanes, size: int, write: bool) -> None:
        """Fault unless every active lane's access is good in its segment."""
        w, at = memory.w, lanes.at
        beyond = w.new(f"and <64 x i1> {lanes.shared}, {beyond_lds(w, at, size)}")
        kind = state.Fault.LDS_WRITE if write else state.Fault.LDS_READ
        memory.check(beyond, kind, lanes.address, size)
        crossing = w.new(f"and <64 x i1> {lanes.private}, {misaligned_scratch(w, at, size)}")
        memory.check(crossing, state.Fault.MISALIGNED, lanes.address, size)
        outside = w.new(f"and <64 x i1> {lanes.private}, {beyond_scratch(w, at, size)}")
        memory.check(outside, state.Fault.SCRATCH, lanes.address, size)
        local = w.new(f"or <64 x i1> {lanes.shared}, {lanes.private}")
        local = w.new(f"bitcast <64 x i1> {local} to i64")
        elsewhere = w.new(f"xor i64 {local}, -1")
        elsewhere = w.new(f"and i64 {elsewhere}, {memory.active_lanes()}")
        memory.check_map(lanes.address, size, write, elsewhere)

    def _component(self, w: IRWriter, lanes: _Lanes, row: str) -> str:
        """Host addresses of dword ``row`` (i64) of every lane."""
        step = w.splat("i64", w.new(f"shl i64 {row}, 2"))
        in_lds = lds_host(w, lanes.at)
        plain = f"{ADDRESSES} {in_lds}, {ADDRESSES} {lanes.address}"
        plain = w.new(f"select <64 x i1> {lanes.shared}, {plain}")
        plain = w.new(f"add {ADDRESSES} {plain}, {step}")
        in_scratch = scratch_host(w, lanes.at, row)
        either = f"{ADDRESSES} {in_scratch}, {ADDRESSES} {plain}"
        return w.new(f"select <64 x i1> {lanes.private}, {either}")

    def resolve(self, memory: LaneMemory, size: int, write: bool) -> tuple[str, str | None]:
        """Host addresses; for 64-bit atomics a lane in scratch is a fault."""
        lanes = self._lanes(memory.w)
        if size > 4:
            memory.check(lanes.private, state.Fault.UNSUPPORTED, lanes.address, size)
        self._check(memory, lanes, size, write)
        return self._component(memory.w, lanes, "0"), None

    def move(self, memory: LaneMemory, data: str, type_: DataType, write: bool) -> None:
        """Load or store; as a whole when no active lane is in LDS or scratch."""
        w = memory.w
        lanes = self._lanes(w)
        either = w.new(f"or <64 x i1> {lanes.shared}, {lanes.private}")
        local = w.new(f"bitcast <64 x i1> {either} to i64")
        local = w.new(f"and i64 {local}, {memory.active_lanes()}")
        plain, mixed, after = (w.label() for _ in range(3))
        w.branch_if(w.new(f"icmp eq i64 {local}, 0"), plain, mixed, likely=True)
        w.place(plain)
        memory.check_map(lanes.address, type_.size, write)
        memory.place(lanes.address)
        (memory.store if write else memory.load)(data, type_)
        w.branch(after)
        w.place(mixed)
        self._check(memory, lanes, type_.size, write)
        memory.move_rows(data, type_, lambda row: (self._component(w, lanes, row), None), write)
        w.branch(after)
        w.place(after)


def _transfer(
    inst: Instruction,
    ctx: LoweringContext,
    type_: DataType,
    data: Operand,
    vaddr: Operand,
    write: bool,
) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    if data.count != type_.rows:
        raise UnknownInstruction(inst, f"data operand {data.text} is not {type_.rows} registers")
    address = FlatAddress(inst, vaddr)
    exec_param, exec_arg = exec_params(ctx)
    name = f"flat_{'store' if write else 'load'}_{type_.tag}{'_masked' if exec_param else ''}"
    args: list[Arg] = [WAVE, *exec_arg, register_pointer(inst, data), *address.args]
    if known := known_call(name, args):
        return known
    w = IRWriter(name, [("ptr", "wave"), *exec_param, ("ptr", "data"), *address.params], "i32")
    address.move(LaneMemory(w, masked=not ctx.exec_full), "%data", type_, write)
    return lowered_call(name, w, args)


def _load(inst: Instruction, ctx: LoweringContext) -> Lowered:
    if len(inst.operands) != 2:
        raise UnknownInstruction(inst, "a flat load has two operands")
    data, vaddr = inst.operands
    return _transfer(inst, ctx, LOADS[inst.mnemonic.removeprefix("flat_load_")], data, vaddr, False)


def _store(inst: Instruction, ctx: LoweringContext) -> Lowered:
    if len(inst.operands) != 2:
        raise UnknownInstruction(inst, "a flat store has two operands")
    vaddr, data = inst.operands
    return _transfer(
        inst, ctx, STORES[inst.mnemonic.removeprefix("flat_store_")], data, vaddr, True
    )


for _name in LOADS:
    register(f"flat_load_{_name}", _load)
for _name in STORES:
    register(f"flat_store_{_name}", _store)
