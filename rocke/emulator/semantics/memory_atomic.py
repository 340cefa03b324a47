"""Lowering of the memory atomics: global, flat, buffer and LDS.

Lanes take their turn in ascending order; each operation is atomic on the host, so workgroups on
other threads may touch the same memory. With ``glc`` (gfx90a) or ``sc0`` the old value is
returned; so it is by the ``_rtn`` forms of LDS. Addresses must be naturally aligned. Buffer
accesses out of range do nothing and return 0.

Float operations round to nearest even, keep subnormals and treat NaN as IEEE 754 minimumNumber and
maximumNumber do. Increment: old >= data ? 0 : old + 1; decrement: old == 0 or old > data ? data :
old - 1. Compare-and-swap: the data's first part is the new value and the second the comparand in
global and buffer instructions; LDS has the comparand first. Wrap: old >= data0 ? old - data0 :
old + data1. Conditional exchange: each dword of the data whose bit 31 is set replaces the memory's
dword, with bit 31 clear.
Source: AMD Instinct MI200 / MI300 / CDNA4 ISA guides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rocke.emulator import state
from rocke.emulator.instruction import Instruction, Operand
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Lowered,
    LoweringContext,
    RegPtr,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.memory_address import (
    Address,
    GlobalAddress,
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
from rocke.emulator.semantics.memory_flat import FlatAddress
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import ADDRESSES, LaneMemory
from rocke.emulator.semantics.memory_lds import (
    LdsAddress,
    check_lds,
    lds_bytes,
    lds_host,
    lds_pointer,
    pair_offset,
)
from rocke.emulator.semantics.operands import register_pointer


@dataclass(frozen=True)
class Atomic:
    """``op`` is an LLVM ``atomicrmw`` operation, ``cmpxchg``, or one that this module spells out.

    ``type`` is the LLVM type of the memory, ``parts`` the number of data values a lane.
    """

    op: str
    type: str = "i32"
    parts: int = 1

    @property
    def rows(self) -> int:
        """Registers of one value."""
        return 2 if self.type in ("i64", "double") else 1


_VECTOR_MEMORY = {
    "swap": "xchg",
    "add": "add",
    "sub": "sub",
    "smin": "min",
    "umin": "umin",
    "smax": "max",
    "umax": "umax",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "inc": "uinc_wrap",
    "dec": "udec_wrap",
    "cmpswap": "cmpxchg",
}


def _vector_memory() -> dict[str, Atomic]:
    table: dict[str, Atomic] = {}
    for name, op in _VECTOR_MEMORY.items():
        parts = 2 if op == "cmpxchg" else 1
        table[name] = Atomic(op, "i32", parts)
        table[f"{name}_x2"] = Atomic(op, "i64", parts)
    table["add_f32"] = Atomic("fadd", "float")
    for name, op in (("add", "fadd"), ("min", "fmin"), ("max", "fmax")):
        table[f"{name}_f64"] = Atomic(op, "double")
    table["pk_add_f16"] = Atomic("pk_add_f16")
    table["pk_add_bf16"] = Atomic("pk_add_bf16")
    return table


VECTOR_MEMORY_ATOMICS = _vector_memory()
"""By the part of the mnemonic after ``global_atomic_``."""


def _lds() -> dict[str, Atomic]:
    """Mnemonic to operation; the forms that return have ``_rtn`` before the type."""
    plain = {
        "add_u": "add",
        "sub_u": "sub",
        "rsub_u": "rsub",
        "inc_u": "uinc_wrap",
        "dec_u": "udec_wrap",
        "min_i": "min",
        "max_i": "max",
        "min_u": "umin",
        "max_u": "umax",
        "and_b": "and",
        "or_b": "or",
        "xor_b": "xor",
    }
    table: dict[str, Atomic] = {}
    for name, op in plain.items():
        for bits in (32, 64):
            stem, letter = name.split("_")
            for rtn in ("", "_rtn"):
                table[f"ds_{stem}{rtn}_{letter}{bits}"] = Atomic(op, f"i{bits}")
    for bits in (32, 64):
        table[f"ds_wrxchg_rtn_b{bits}"] = Atomic("xchg", f"i{bits}")
        for rtn in ("", "_rtn"):
            table[f"ds_mskor{rtn}_b{bits}"] = Atomic("mskor", f"i{bits}", 2)
            table[f"ds_cmpst{rtn}_b{bits}"] = Atomic("cmpxchg", f"i{bits}", 2)
            float_type = {32: "float", 64: "double"}[bits]
            table[f"ds_cmpst{rtn}_f{bits}"] = Atomic("fcmpxchg", f"i{bits}", 2)
            for name in ("add", "min", "max"):
                table[f"ds_{name}{rtn}_f{bits}"] = Atomic(f"f{name}", float_type)
    table["ds_wrap_rtn_b32"] = Atomic("wrap", "i32", 2)
    table["ds_condxchg32_rtn_b64"] = Atomic("condxchg", "i64")
    for rtn in ("", "_rtn"):
        table[f"ds_pk_add{rtn}_f16"] = Atomic("pk_add_f16")
        table[f"ds_pk_add{rtn}_bf16"] = Atomic("pk_add_bf16")
    return table


LDS_ATOMICS = _lds()


def _lower(
    inst: Instruction,
    ctx: LoweringContext,
    atomic: Atomic,
    address: Address,
    data: tuple[RegPtr, ...],
    result: Operand | None,
) -> Lowered:
    """``data``: one pointer for each part of :class:`Atomic`."""
    if result is not None and result.count != atomic.rows:
        raise UnknownInstruction(inst, f"result operand {result.text}")
    exec_param, exec_arg = exec_params(ctx)
    params = [("ptr", "wave"), *exec_param]
    params += [("ptr", f"data{i}") for i in range(len(data))]
    args: list[Arg] = [WAVE, *exec_arg, *data]
    if result is not None:
        params.append(("ptr", "result"))
        args.append(register_pointer(inst, result))
    returns = "" if result is None else "_rtn"
    masked = "_masked" if exec_param else ""
    name = f"{address.tag}_atomic_{atomic.op}_{atomic.type}{returns}{masked}"
    args += address.args
    if known := known_call(name, args):
        return known
    w = IRWriter(name, [*params, *address.params], "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    size = 4 * atomic.rows
    addresses, lanes = address.resolve(memory, size, True)
    odd = _misaligned(w, addresses, size)
    if lanes is not None:
        odd = w.new(f"and <64 x i1> {odd}, {w.new(f'bitcast i64 {lanes} to <64 x i1>')}")
    memory.check(odd, state.Fault.MISALIGNED, addresses, size)
    w.store(ADDRESSES, addresses, memory.array, align=64)
    if result is not None and lanes is not None:
        _clear_others(w, memory, lanes, atomic.rows)
    _lane_loop(w, memory, atomic, lanes or memory.active_lanes(), result is not None)
    return lowered_call(name, w, args)


def _misaligned(w: IRWriter, addresses: str, size: int) -> str:
    low_bits = w.new(f"and {ADDRESSES} {addresses}, splat (i64 {size - 1})")
    return w.new(f"icmp ne {ADDRESSES} {low_bits}, zeroinitializer")


def _clear_others(w: IRWriter, memory: LaneMemory, lanes: str, rows: int) -> None:
    """Active lanes that make no access return 0."""
    idle = w.new(f"and i64 {w.new(f'xor i64 {lanes}, -1')}, {memory.active_lanes()}")
    mask = w.new(f"bitcast i64 {idle} to <64 x i1>")
    for row in range(rows):
        old = w.row("%result", row)
        choice = f"<64 x i1> {mask}, <64 x i32> zeroinitializer, <64 x i32> {old}"
        w.set_row(w.new(f"select {choice}"), "%result", row)


def _lane_loop(w: IRWriter, memory: LaneMemory, atomic: Atomic, lanes: str, result: bool) -> None:
    def turn(lane: str) -> None:
        target = w.load("ptr", w.at(memory.array, w.new(f"shl i64 {lane}, 3")), align=8)
        place = w.new(f"shl i64 {lane}, 2")
        values = [_value(w, w.at(f"%data{i}", place), atomic.type) for i in range(atomic.parts)]
        old = _perform(w, atomic, target, values)
        if result:
            _write_result(w, atomic, w.at("%result", place), old)

    _each_lane(w, lanes, turn)


def _each_lane(w: IRWriter, lanes: str, turn: Callable[[str], None]) -> None:
    """``turn`` for every lane (an i64 number) of the set ``lanes``, in ascending order."""
    start, loop, after = w.label(), w.label(), w.label()
    w.branch_if(w.new(f"icmp eq i64 {lanes}, 0"), after, start)
    w.place(start)
    w.branch(loop)
    w.place(loop)
    pending, phi = w.phi_later("i64", lanes, start)
    turn(w.call("i64", "llvm.cttz.i64", ("i64", pending), ("i1", "true")))
    less = w.new(f"sub i64 {pending}, 1")
    rest = w.new(f"and i64 {pending}, {less}")
    w.close_phi(phi, rest, w.block)
    w.branch_if(w.new(f"icmp eq i64 {rest}, 0"), after, loop)
    w.place(after)


def _value(w: IRWriter, pointer: str, type_: str) -> str:
    if type_ in ("i32", "float"):
        return w.load(type_, pointer, align=4)
    low = w.new(f"zext i32 {w.load('i32', pointer, align=4)} to i64")
    high = w.new(f"zext i32 {w.load('i32', pointer, state.ROW_BYTES, 4)} to i64")
    bits = w.new(f"or i64 {w.new(f'shl i64 {high}, 32')}, {low}")
    return bits if type_ == "i64" else w.new(f"bitcast i64 {bits} to double")


def _write_result(w: IRWriter, atomic: Atomic, pointer: str, old: str) -> None:
    if atomic.rows == 1:
        w.store(atomic.type, old, pointer, align=4)
        return
    if atomic.type == "double":
        old = w.new(f"bitcast double {old} to i64")
    w.store("i32", w.new(f"trunc i64 {old} to i32"), pointer, align=4)
    high = w.new(f"lshr i64 {old}, 32")
    w.store("i32", w.new(f"trunc i64 {high} to i32"), pointer, state.ROW_BYTES, 4)


_LOOPED = frozenset({"rsub", "mskor", "wrap", "condxchg", "fcmpxchg", "pk_add_f16", "pk_add_bf16"})


def _perform(w: IRWriter, atomic: Atomic, target: str, values: list[str]) -> str:
    """Do the operation; the old value."""
    type_ = atomic.type
    if atomic.op == "cmpxchg":
        # The comparand is the first value here, whatever the instruction's order.
        pair = w.new(
            f"cmpxchg ptr {target}, {type_} {values[0]}, {type_} {values[1]} seq_cst seq_cst"
        )
        return w.new(f"extractvalue {{ {type_}, i1 }} {pair}, 0")
    if atomic.op not in _LOOPED:
        return w.new(f"atomicrmw {atomic.op} ptr {target}, {type_} {values[0]} seq_cst")
    loop, after = w.label(), w.label()
    first = w.load(type_, target, align=4)
    origin = w.block
    w.branch(loop)
    w.place(loop)
    old, phi = w.phi_later(type_, first, origin)
    new = _combine(w, atomic.op, type_, old, values)
    pair = w.new(f"cmpxchg ptr {target}, {type_} {old}, {type_} {new} seq_cst seq_cst")
    seen = w.new(f"extractvalue {{ {type_}, i1 }} {pair}, 0")
    done = w.new(f"extractvalue {{ {type_}, i1 }} {pair}, 1")
    w.close_phi(phi, seen, w.block)
    w.branch_if(done, after, loop)
    w.place(after)
    return old


def _combine(w: IRWriter, op: str, type_: str, old: str, values: list[str]) -> str:
    if op == "rsub":
        return w.new(f"sub {type_} {values[0]}, {old}")
    if op == "mskor":
        kept = w.new(f"and {type_} {old}, {w.new(f'xor {type_} {values[0]}, -1')}")
        return w.new(f"or {type_} {kept}, {values[1]}")
    if op == "wrap":
        reached = w.new(f"icmp uge {type_} {old}, {values[0]}")
        less, more = (
            w.new(f"sub {type_} {old}, {values[0]}"),
            w.new(f"add {type_} {old}, {values[1]}"),
        )
        return w.new(f"select i1 {reached}, {type_} {less}, {type_} {more}")
    if op == "condxchg":
        return _conditional_exchange(w, old, values[0])
    if op == "fcmpxchg":
        float_type = "float" if type_ == "i32" else "double"
        sides = [w.new(f"bitcast {type_} {v} to {float_type}") for v in (old, values[0])]
        same = w.new(f"fcmp oeq {float_type} {sides[0]}, {sides[1]}")
        return w.new(f"select i1 {same}, {type_} {values[1]}, {type_} {old}")
    if op == "pk_add_f16":
        halves = [w.new(f"bitcast i32 {v} to <2 x half>") for v in (old, values[0])]
        # An f32 sum of two f16 values is exact enough that rounding it again is right.
        wide = [w.new(f"fpext <2 x half> {v} to <2 x float>") for v in halves]
        sum_ = w.new(f"fadd <2 x float> {wide[0]}, {wide[1]}")
        return w.new(
            f"bitcast <2 x half> {w.new(f'fptrunc <2 x float> {sum_} to <2 x half>')} to i32"
        )
    return _add_bf16_pair(w, old, values[0])


def _conditional_exchange(w: IRWriter, old: str, data: str) -> str:
    result = old
    for shift in (0, 32):
        sign, mask = 1 << 31 + shift, 0x7FFF_FFFF << shift
        chosen = w.new(f"icmp ne i64 {w.new(f'and i64 {data}, {sign}')}, 0")
        kept = w.new(f"and i64 {result}, {~(0xFFFF_FFFF << shift)}")
        new = w.new(f"or i64 {kept}, {w.new(f'and i64 {data}, {mask}')}")
        result = w.new(f"select i1 {chosen}, i64 {new}, i64 {result}")
    return result


def _add_bf16_pair(w: IRWriter, left: str, right: str) -> str:
    parts = []
    for high in (False, True):
        sides = []
        for value in (left, right):
            bits = w.new(f"and i32 {value}, -65536" if high else f"shl i32 {value}, 16")
            sides.append(w.new(f"bitcast i32 {bits} to float"))
        sum_ = w.new(f"fadd float {sides[0]}, {sides[1]}")
        bits = w.new(f"bitcast float {sum_} to i32")
        odd = w.new(f"and i32 {w.new(f'lshr i32 {bits}, 16')}, 1")
        rounded = w.new(f"add i32 {bits}, {w.new(f'add i32 {odd}, 32767')}")
        nan = w.new(f"fcmp uno float {sum_}, {sum_}")
        # A NaN keeps its high half, made quiet.
        chosen = w.new(f"select i1 {nan}, i32 {w.new(f'or i32 {bits}, 4194304')}, i32 {rounded}")
        parts.append(w.new(f"and i32 {chosen}, -65536" if high else f"lshr i32 {chosen}, 16"))
    return w.new(f"or i32 {parts[0]}, {parts[1]}")


def _parts(inst: Instruction, atomic: Atomic, data: Operand) -> tuple[RegPtr, ...]:
    """Pointers to the values of a vector-memory atomic: for a compare-and-swap, comparand first."""
    if data.count != atomic.rows * atomic.parts:
        raise UnknownInstruction(inst, f"data operand {data.text}")
    first = register_pointer(inst, data)
    if atomic.parts == 1:
        return (first,)
    return RegPtr(first.offset + atomic.rows * state.ROW_BYTES), first


def _returns(inst: Instruction) -> bool:
    return bool(inst.modifiers.get("glc") or inst.modifiers.get("sc0"))


def _global(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    flat = inst.mnemonic.startswith("flat")
    atomic = VECTOR_MEMORY_ATOMICS[inst.mnemonic.split("_atomic_")[1]]
    operands = list(inst.operands)
    result = operands.pop(0) if _returns(inst) else None
    if len(operands) != (2 if flat else 3):
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands of an atomic")
    vaddr, data = operands[:2]
    address = FlatAddress(inst, vaddr) if flat else GlobalAddress(inst, vaddr, operands[2])
    return _lower(inst, ctx, atomic, address, _parts(inst, atomic, data), result)


def _buffer(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, BUFFER_MODIFIERS)
    atomic = VECTOR_MEMORY_ATOMICS[inst.mnemonic.removeprefix("buffer_atomic_")]
    data, vaddr, resource, soffset = buffer_operands(inst, True)
    if data is None:
        raise UnknownInstruction(inst, "a buffer atomic needs data")
    address = BufferAddress(inst, vaddr, resource, soffset)
    parts = _parts(inst, atomic, data)
    if not _returns(inst):
        return _lower(inst, ctx, atomic, address, parts, None)
    # The old value replaces the first part of the data.
    result = Operand(data.kind, data.index, atomic.rows, text=data.text)
    return _lower(inst, ctx, atomic, address, parts, result)


def _ds(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    atomic = LDS_ATOMICS[inst.mnemonic]
    operands = list(inst.operands)
    result = operands.pop(0) if "_rtn_" in inst.mnemonic else None
    if len(operands) != 1 + atomic.parts or any(o.count != atomic.rows for o in operands[1:]):
        raise UnknownInstruction(inst, "operands of an LDS atomic")
    data = tuple(register_pointer(inst, operand) for operand in operands[1:])
    return _lower(inst, ctx, atomic, LdsAddress(inst, operands[0]), data, result)


_EXCHANGE_UNITS = {
    "ds_wrxchg2_rtn_b32": ("i32", 4),
    "ds_wrxchg2_rtn_b64": ("i64", 8),
    "ds_wrxchg2st64_rtn_b32": ("i32", 256),
    "ds_wrxchg2st64_rtn_b64": ("i64", 512),
}
"""Type of each half, and the unit of its offset in bytes."""


def _two_exchanges(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """A lane exchanges at its first address, then at its second."""
    refuse_modifiers(inst, frozenset({"offset0", "offset1"}))
    type_, unit = _EXCHANGE_UNITS[inst.mnemonic]
    atomic = Atomic("xchg", type_)
    if len(inst.operands) != 4:
        raise UnknownInstruction(inst, "operands of an LDS exchange")
    result, addr, *data = inst.operands
    if result.count != 2 * atomic.rows or any(d.count != atomic.rows for d in data):
        raise UnknownInstruction(inst, "number of data registers")
    exec_param, exec_arg = exec_params(ctx)
    name = f"lds_exchange2_{type_}{'_masked' if exec_param else ''}"
    params = [("ptr", "wave"), *exec_param, ("ptr", "result"), ("ptr", "data0"), ("ptr", "data1")]
    params += [("ptr", "addr"), ("i32", "offset0"), ("i32", "offset1")]
    args: list[Arg] = [WAVE, *exec_arg, *(register_pointer(inst, o) for o in (result, *data))]
    args += [lds_pointer(inst, addr), *(pair_offset(inst, f"offset{i}", unit) for i in range(2))]
    if known := known_call(name, args):
        return known
    w = IRWriter(name, params, "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    arrays = [w.new(f"alloca {ADDRESSES}, align 64") for _ in range(2)]
    size = 4 * atomic.rows
    for i, array in enumerate(arrays):
        at = lds_bytes(w, "%addr", f"%offset{i}")
        check_lds(memory, at, size, True)
        host = lds_host(w, at)
        memory.check(_misaligned(w, host, size), state.Fault.MISALIGNED, host, size)
        w.store(ADDRESSES, host, array, align=64)

    def turn(lane: str) -> None:
        place = w.new(f"shl i64 {lane}, 2")
        values = [_value(w, w.at(f"%data{i}", place), type_) for i in range(2)]
        entry = w.new(f"shl i64 {lane}, 3")
        targets = [w.load("ptr", w.at(array, entry), align=8) for array in arrays]
        old = [_perform(w, atomic, t, [v]) for t, v in zip(targets, values, strict=True)]
        first = w.at("%result", place)
        for i, value in enumerate(old):
            _write_result(w, atomic, w.at(first, i * atomic.rows * state.ROW_BYTES), value)

    _each_lane(w, memory.active_lanes(), turn)
    return lowered_call(name, w, args)


for _name in _EXCHANGE_UNITS:
    register(_name, _two_exchanges)
for _name in VECTOR_MEMORY_ATOMICS:
    register(f"global_atomic_{_name}", _global)
    register(f"flat_atomic_{_name}", _global)
    register(f"buffer_atomic_{_name}", _buffer)
for _name in LDS_ATOMICS:
    register(_name, _ds)
