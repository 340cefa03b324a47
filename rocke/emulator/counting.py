"""Counting code: calls before each vector instruction that record EXEC and LDS bank conflicts.

Each instruction has a row of :data:`FIELDS` numbers in the host thread's table. The LDS serves an
instruction in phases, groups of lanes given by ``Target.lds_phases_of``. A phase takes as many
cycles as the busiest bank has different dwords to serve (atomics: as many as it has lanes); one of
them is needed anyway, the others are conflicts. Lanes that access the same dword share it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from enum import IntEnum

import numpy as np

from rocke.arch import LdsPhases, Target
from rocke.emulator import state
from rocke.emulator.access import Access, Level, access_of
from rocke.emulator.checks.code import Code, Num
from rocke.emulator.checks.effects import is_from_lds, is_to_lds
from rocke.emulator.counters import InstructionCounts
from rocke.emulator.instruction import EXEC, Instruction, OperandKind
from rocke.emulator.semantics import (
    WAVE,
    Helper,
    HelperCall,
    Imm,
    RegPtr,
    ScalarReg,
    UnknownInstruction,
)
from rocke.emulator.semantics.memory_descriptor import BufferAddress, buffer_operands
from rocke.emulator.semantics.memory_lanes import ADDRESSES
from rocke.emulator.translator import Instrument


class Field(IntEnum):
    """The numbers of one instruction."""

    PARTIAL = 0
    """Executions with some lanes off."""
    LANES = 1
    """Active lanes, over all executions."""
    LDS_CYCLES = 2
    """Cycles in which the LDS serves it."""
    LDS_CONFLICTS = 3
    """Those of them that bank conflicts cause."""
    BUFFER_BYTES = 4
    """Bytes that a buffer access moves: those in range of its descriptor."""


FIELDS = len(Field)
_ROW = 8 * FIELDS


def table_size(text_bytes: int) -> int:
    """Numbers (u64) in the table of a kernel: one row for every 4 bytes of text."""
    return text_bytes // 4 * FIELDS


def row_of(address: int) -> int:
    """Index of the first number of the instruction at text offset ``address``."""
    return address // 4 * FIELDS


def counting(target: Target) -> Instrument:
    """The instrument that counts for ``target``."""
    return functools.partial(_calls, target)


def is_counted(inst: Instruction) -> bool:
    """Whether lanes matter to the instruction: it then has a row."""
    access = access_of(inst.mnemonic)
    if access is not None:
        return access.level is not Level.SCALAR
    return inst.mnemonic.startswith(("v_", "ds_"))


def _calls(target: Target, inst: Instruction) -> tuple[HelperCall, ...]:
    if not is_counted(inst):
        return ()
    access = access_of(inst.mnemonic)
    slot = Imm(row_of(inst.address) * 8, 64)
    calls = [HelperCall(_LANES, (WAVE, ScalarReg(EXEC, 64), slot))]
    if access is not None and access.level is Level.LDS:
        calls += _lds_calls(target, inst, access, slot)
    if access is not None and _has_range(inst, access):
        calls += _buffer_calls(inst, access, slot)
    return tuple(calls)


def _has_range(inst: Instruction, access: Access) -> bool:
    """Whether a range check may leave lanes out; formats have sizes of their own, so not those."""
    return inst.mnemonic.startswith("buffer_") and not access.formatted


def _buffer_calls(inst: Instruction, access: Access, slot: Imm) -> list[HelperCall]:
    try:
        has_data = not (is_to_lds(inst) or is_from_lds(inst))
        _, vaddr, resource, soffset = buffer_operands(inst, has_data)
        address = BufferAddress(inst, vaddr, resource, soffset)
    except UnknownInstruction:
        return []  # the translation reports it when it is reached
    helper = _buffer_helper(address, access.bytes, access.atomic)
    return [HelperCall(helper, (WAVE, ScalarReg(EXEC, 64), slot, *address.args))]


_BUFFER_HELPERS: dict[str, Helper] = {}


def _buffer_helper(address: BufferAddress, size: int, atomic: bool) -> Helper:
    """Adds the bytes of active lanes that are in range: dword by dword, atomics as a whole."""
    name = f"count_{address.tag}_{size}{'_atomic' if atomic else ''}"
    if name not in _BUFFER_HELPERS:
        c = Code(name, [("ptr", "wave"), ("i64", "exec"), ("i64", "slot"), *address.params])
        descriptor = address.descriptor(c)
        index, offsets = address.lane_index(c, descriptor), address.lane_offset(c)
        part = size if atomic else min(size, 4)
        total = Num(c, "0") + 0
        for first in range(0, size, part):
            here = c.new(f"add {ADDRESSES} {offsets}, splat (i64 {first})")
            _, good = address.component(c, descriptor, index, here, part)
            lanes = c.invoke("i64", "llvm.ctpop.i64", ("i64", c.param("exec") & Num(c, good)))
            total = total + lanes * part
        row = c.pointer(c.get("%wave", state.PROBES) + c.param("slot") + 8 * Field.BUFFER_BYTES)
        c.put(c.get(row) + total, row)
        text = c.end().whole
        _BUFFER_HELPERS[name] = Helper(name, lambda: text, frozenset(c.declares))
    return _BUFFER_HELPERS[name]


def _lds_calls(target: Target, inst: Instruction, access: Access, slot: Imm) -> list[HelperCall]:
    if access.by_m0:
        return []  # consecutive dwords, or one
    has_result = inst.mnemonic.startswith("ds_read") or "_rtn_" in inst.mnemonic
    address = inst.operands[1 if has_result else 0]
    if address.kind is not OperandKind.VGPR:
        return []  # the semantics table refuses it
    phases = target.lds_phases_of(access.write, access.bytes)
    helper = _lds_helper(phases, access.bytes, access.atomic)
    unit = access.bytes * (64 if "st64" in inst.mnemonic else 1)
    names = {"offset0": unit, "offset1": unit} if access.pair else {"offset": 1}
    calls = []
    for name, scale in names.items():
        offset = inst.modifiers.get(name, 0)
        at = Imm(offset * scale if isinstance(offset, int) else 0)
        pointer = RegPtr(state.vgpr(address.index))
        calls.append(HelperCall(helper, (WAVE, ScalarReg(EXEC, 64), pointer, at, slot)))
    return calls


def _add(name: str, field: Field, value: str) -> str:
    return f"""  %{name}.at = getelementptr i8, ptr %row, i64 {8 * field}
  %{name}.old = load i64, ptr %{name}.at
  %{name}.new = add i64 %{name}.old, {value}
  store i64 %{name}.new, ptr %{name}.at"""


_FIND_ROW = f"""  %table.at = getelementptr i8, ptr %wave, i64 {state.PROBES}
  %table = load ptr, ptr %table.at
  %row = getelementptr i8, ptr %table, i64 %slot"""


def _lanes_ir() -> str:
    return f"""define void @count_lanes(ptr %wave, i64 %exec, i64 %slot) nounwind {{
{_FIND_ROW}
  %part = icmp ne i64 %exec, -1
  %one = zext i1 %part to i64
  %lanes = call i64 @llvm.ctpop.i64(i64 %exec)
{_add("partial", Field.PARTIAL, "%one")}
{_add("lanes", Field.LANES, "%lanes")}
  ret void
}}
"""


_LANES = Helper("count_lanes", _lanes_ir, frozenset({"declare i64 @llvm.ctpop.i64(i64)"}))


@functools.cache
def _lds_helper(phases: LdsPhases, size: int, atomic: bool) -> Helper:
    name = f"count_{phases.instruction}_{phases.banks}_{size}{'_atomic' if atomic else ''}"
    text = functools.partial(_lds_ir, name, phases, size, atomic)
    return Helper(name, text, frozenset({"declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"}))


def _lds_ir(name: str, phases: LdsPhases, size: int, atomic: bool) -> str:
    """For each phase, each active lane and each dword of it: enter the dword in its bank's list."""
    order = [lane for group in phases.groups for lane in group]
    lanes = len(order) // len(phases.groups)
    listed = ", ".join(f"i8 {lane}" for lane in order)
    banks = phases.banks
    search = "br label %fresh" if atomic else "br i1 %all, label %fresh, label %compare"
    return f"""@{name}.order = private unnamed_addr constant [{len(order)} x i8] [{listed}]
define void @{name}(ptr %wave, i64 %exec, ptr %addr, i32 %offset, i64 %slot) nounwind {{
entry:
  %lists = alloca [{banks * 64} x i32], align 64
  %used = alloca [{banks} x i32], align 64
{_FIND_ROW}
  br label %phase
phase:
  %first = phi i64 [ 0, %entry ], [ %first1, %served ]
  %cycles = phi i64 [ 0, %entry ], [ %cycles1, %served ]
  %conflicts = phi i64 [ 0, %entry ], [ %conflicts1, %served ]
  call void @llvm.memset.p0.i64(ptr %used, i8 0, i64 {4 * banks}, i1 false)
  %end = add i64 %first, {lanes}
  br label %lane
lane:
  %i = phi i64 [ %first, %phase ], [ %i1, %nextlane ]
  %worst = phi i32 [ 0, %phase ], [ %worst3, %nextlane ]
  %order.at = getelementptr i8, ptr @{name}.order, i64 %i
  %l8 = load i8, ptr %order.at
  %l = zext i8 %l8 to i64
  %bit = lshr i64 %exec, %l
  %on = trunc i64 %bit to i1
  br i1 %on, label %active, label %nextlane
active:
  %addr.at = getelementptr i32, ptr %addr, i64 %l
  %a0 = load i32, ptr %addr.at
  %a = add i32 %a0, %offset
  %lastbyte = add i32 %a, {size - 1}
  %d0 = lshr i32 %a, 2
  %dlast = lshr i32 %lastbyte, 2
  br label %dword
dword:
  %d = phi i32 [ %d0, %active ], [ %d1, %nextdword ]
  %worst1 = phi i32 [ %worst, %active ], [ %worst2, %nextdword ]
  %bank = and i32 %d, {banks - 1}
  %used.at = getelementptr i32, ptr %used, i32 %bank
  %n = load i32, ptr %used.at
  %start = shl i32 %bank, 6
  %list = getelementptr i32, ptr %lists, i32 %start
  br label %search
search:
  %k = phi i32 [ 0, %dword ], [ %k1, %other ]
  %all = icmp eq i32 %k, %n
  {search}
compare:
  %known.at = getelementptr i32, ptr %list, i32 %k
  %known = load i32, ptr %known.at
  %same = icmp eq i32 %known, %d
  br i1 %same, label %nextdword, label %other
other:
  %k1 = add i32 %k, 1
  br label %search
fresh:
  %new.at = getelementptr i32, ptr %list, i32 %n
  store i32 %d, ptr %new.at
  %n1 = add i32 %n, 1
  store i32 %n1, ptr %used.at
  %worse = icmp ugt i32 %n1, %worst1
  %most = select i1 %worse, i32 %n1, i32 %worst1
  br label %nextdword
nextdword:
  %worst2 = phi i32 [ %worst1, %compare ], [ %most, %fresh ]
  %d1 = add i32 %d, 1
  %last = icmp eq i32 %d, %dlast
  br i1 %last, label %nextlane, label %dword
nextlane:
  %worst3 = phi i32 [ %worst, %lane ], [ %worst2, %nextdword ]
  %i1 = add i64 %i, 1
  %done = icmp eq i64 %i1, %end
  br i1 %done, label %served, label %lane
served:
  %busy = zext i32 %worst3 to i64
  %cycles1 = add i64 %cycles, %busy
  %some = icmp ne i32 %worst3, 0
  %needed = zext i1 %some to i64
  %extra = sub i64 %busy, %needed
  %conflicts1 = add i64 %conflicts, %extra
  %first1 = add i64 %first, {lanes}
  %over = icmp eq i64 %first1, {len(order)}
  br i1 %over, label %finish, label %phase
finish:
{_add("cycles", Field.LDS_CYCLES, "%cycles1")}
{_add("conflicts", Field.LDS_CONFLICTS, "%conflicts1")}
  ret void
}}
"""


def detail(
    rows: Iterable[tuple[Instruction, int, str]], table: np.ndarray
) -> tuple[InstructionCounts, ...]:
    """What the table says of each counted instruction, in address order.

    ``rows`` are (instruction, executions, ``file:line``), one for each address.
    """
    return tuple(
        _counts(inst, count, line, table[row_of(inst.address) :][:FIELDS])
        for inst, count, line in sorted(rows, key=lambda row: row[0].address)
        if is_counted(inst)
    )


def _counts(inst: Instruction, count: int, line: str, row: np.ndarray) -> InstructionCounts:
    numbers = [int(n) for n in row]
    lanes = numbers[Field.LANES]
    access = access_of(inst.mnemonic)
    moved = 0 if access is None else lanes * access.bytes * (2 if access.pair else 1)
    if access is not None and _has_range(inst, access):
        moved = numbers[Field.BUFFER_BYTES]
    direct = "lds" in inst.modifiers or "_load_lds_" in inst.mnemonic
    return InstructionCounts(
        address=inst.address,
        mnemonic=inst.mnemonic,
        line=line,
        text=" ".join(inst.text.split()),
        count=count,
        partial=numbers[Field.PARTIAL],
        lanes=lanes,
        lds_cycles=numbers[Field.LDS_CYCLES],
        lds_conflicts=numbers[Field.LDS_CONFLICTS],
        level="" if access is None else access.level.value,
        bytes_read=moved if access is not None and access.read else 0,
        bytes_written=moved if access is not None and access.write else 0,
        lds_bytes_written=lanes * max(4, access.bytes) if access is not None and direct else 0,
    )
