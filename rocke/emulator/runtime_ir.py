"""The native part of the executor, as LLVM IR: memory map search, dispatcher, workgroup loop.

One call of ``rk_run(launch, thread)`` executes workgroups, taken one after the other from the
launch's shared counter, until none is left or one faults. Every wave of a workgroup runs until it
ends, reaches a barrier or uses up its time slice; then the next wave runs; a barrier opens when all
waves that have not ended wait at it. The thread record belongs to one host thread, the launch
record is shared (only the counter and the stop flag change, atomically).
"""

from __future__ import annotations

import itertools

from rocke.emulator import state
from rocke.emulator.checks.runtime import check_runtime_ir
from rocke.emulator.instruction import FLAT_SCRATCH
from rocke.emulator.state import Fault, Status

# The launch record: 64-bit fields, by byte offset.
L_BLOCKS = 0
"""Address of ``{ptr function, u64 instructions}`` for each block."""
L_JUMPS = 8
"""Address of u32 block numbers (:data:`NO_BLOCK`: none), one for each 4 bytes of text."""
L_TEXT_BYTES = 16
L_ENTRY = 24
L_GROUPS_X = 32
L_GROUPS_Y = 40
L_TOTAL = 48
L_NEXT = 56
"""The next workgroup to start."""
L_STOP = 64
"""Nonzero: start no more workgroups."""
L_WAVES = 72
"""Waves a workgroup."""
L_TEMPLATE = 80
"""Address of one :data:`TEMPLATE_BYTES` record a wave: v0 (64 lanes), then EXEC."""
L_GROUP_ID_X = 88
L_GROUP_ID_Y = 96
L_GROUP_ID_Z = 104
L_GROUP_INFO = 112
L_SCRATCH_OFFSET = 120
"""SGPR numbers that get these values, or -1."""
L_MODE = 128
L_LDS_SIZE = 136
L_SCRATCH_LANE_BYTES = 144
L_MAP = 152
L_IMAGE = 160
L_VGPR_BYTES = 168
L_AGPR_BYTES = 176
"""Bytes of the register files that the kernel owns; filled with a pattern at the start."""
L_BUDGET = 184
L_SLICE = 192
L_FLAT_SCRATCH = 200
"""1: ``flat_scratch`` starts as the wave's scratch address (gfx942 and later)."""
LAUNCH_BYTES = 256

# The thread record.
T_WAVES = 0
T_LDS = 8
T_SCRATCH = 16
T_SGPRS = 24
"""Address of the u32[128] that every wave starts with."""
T_COUNTS = 32
"""Address of u64 execution counts, one a block."""
T_FAULT_WAVE = 40
T_FAULT_GROUP = 48
T_PROBES = 56
"""Address of the table that counting code adds to, or 0."""
T_CHECKS = 64
"""Address of what the checked mode keeps for the thread, or 0."""
THREAD_BYTES = 128

NO_BLOCK = 0xFFFF_FFFF
TEMPLATE_BYTES = 320
WAVE_STRIDE = state.WAVE_BYTES
POISON = 0xFF
"""Byte that registers and LDS hold before they are written: NaN as a float, -1 as an integer."""


def _field(name: str, base: str, offset: int, type_: str = "i64") -> str:
    return (
        f"  %{name}.p = getelementptr i8, ptr {base}, i64 {offset}\n"
        f"  %{name} = load {type_}, ptr %{name}.p, align 4"
    )


_numbers = itertools.count()


def _put(value: str, base: str, offset: int) -> str:
    at = f"%put{next(_numbers)}"
    return (
        f"  {at} = getelementptr i8, ptr {base}, i64 {offset}\n  store {value}, ptr {at}, align 4"
    )


def _find(kind: str, lo: int, hi: int) -> str:
    """Binary search for the last map entry with ``entry.lo <= address``."""
    writable = "and i64 %flags, 1" if kind == "write" else "or i64 %flags, 1"
    return f"""
define i32 @rk_find_{kind}(ptr %w, i64 %address, i64 %size) nounwind noinline {{
entry:
{_field("map", "%w", state.MAP, "ptr")}
{_field("count", "%map", state.MAP_COUNT)}
  %entries = getelementptr i8, ptr %map, i64 {state.MAP_ENTRIES}
  br label %loop
loop:
  %low = phi i64 [ 0, %entry ], [ %low2, %step ]
  %high = phi i64 [ %count, %entry ], [ %high2, %step ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %step, label %found
step:
  %sum = add i64 %low, %high
  %mid = lshr i64 %sum, 1
  %midat = getelementptr [{state.MAP_ENTRY_BYTES} x i8], ptr %entries, i64 %mid
  %midlo = load i64, ptr %midat
  %after = icmp ule i64 %midlo, %address
  %mid1 = add i64 %mid, 1
  %low2 = select i1 %after, i64 %mid1, i64 %low
  %high2 = select i1 %after, i64 %high, i64 %mid
  br label %loop
found:
  %none = icmp eq i64 %low, 0
  br i1 %none, label %no, label %check
check:
  %index = sub i64 %low, 1
  %at = getelementptr [{state.MAP_ENTRY_BYTES} x i8], ptr %entries, i64 %index
  %lo = load i64, ptr %at
{_field("hi", "%at", 8)}
{_field("flags", "%at", 16)}
  %permitted = {writable}
  %ok1 = icmp ne i64 %permitted, 0
  %inside = sub i64 %hi, %address
  %before = icmp ult i64 %address, %hi
  %fits = icmp uge i64 %inside, %size
  %ok2 = and i1 %before, %fits
  %ok = and i1 %ok1, %ok2
  br i1 %ok, label %yes, label %no
yes:
{_put("i64 %lo", "%w", lo)}
{_put("i64 %hi", "%w", hi)}
  ret i32 1
no:
  ret i32 0
}}
"""


def _fault() -> str:
    return f"""
define i32 @rk_fault(ptr %w, i32 %kind, i64 %address, i64 %lanes, i32 %size) nounwind noinline {{
{_put("i32 %kind", "%w", state.FAULT_KIND)}
{_put("i64 %address", "%w", state.FAULT_ADDRESS)}
{_put("i64 %lanes", "%w", state.FAULT_LANES)}
{_put("i32 %size", "%w", state.FAULT_SIZE)}
  ret i32 1
}}
"""


def _dispatch() -> str:
    return f"""
define internal i32 @wave_run(ptr %L, ptr %T, ptr %w) nounwind {{
entry:
{_field("blocks", "%L", L_BLOCKS, "ptr")}
{_field("jumps", "%L", L_JUMPS, "ptr")}
{_field("text", "%L", L_TEXT_BYTES)}
{_field("slice", "%L", L_SLICE)}
{_field("counts", "%T", T_COUNTS, "ptr")}
{_field("budget0", "%w", state.BUDGET)}
{_field("clock0", "%w", state.CLOCK)}
{_field("first", "%w", state.RESUME, "i32")}
  %clock.at = getelementptr i8, ptr %w, i64 {state.CLOCK}
  br label %loop
loop:
  %id = phi i32 [ %first, %entry ], [ %next, %again ], [ %target, %jumped ]
  %left = phi i64 [ %slice, %entry ], [ %left2, %again ], [ %left2, %jumped ]
  %budget = phi i64 [ %budget0, %entry ], [ %budget2, %again ], [ %budget2, %jumped ]
  %clock = phi i64 [ %clock0, %entry ], [ %clock2, %again ], [ %clock2, %jumped ]
  %id64 = zext i32 %id to i64
  %at = getelementptr {{ ptr, i64 }}, ptr %blocks, i64 %id64
  %fn = load ptr, ptr %at
{_field("n", "%at", 8)}
  %budget2 = sub i64 %budget, %n
  %spent = icmp slt i64 %budget2, 0
  br i1 %spent, label %progress, label %go, !prof !0
go:
  %count.at = getelementptr i64, ptr %counts, i64 %id64
  %count = load i64, ptr %count.at
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %count.at
  store i64 %clock, ptr %clock.at
  %result = call i64 %fn(ptr %w)
  %clock2 = add i64 %clock, %n
  %left2 = sub i64 %left, %n
  %next = trunc i64 %result to i32
  %status = lshr i64 %result, 32
  switch i64 %status, label %leave [ i64 {int(Status.NEXT)}, label %check
                                     i64 {int(Status.JUMP)}, label %jump ]
check:
  %over = icmp slt i64 %left2, 0
  br i1 %over, label %sliced, label %again, !prof !0
again:
  br label %loop
jump:
{_field("offset", "%w", state.INDIRECT)}
  %low = and i64 %offset, 3
  %aligned = icmp eq i64 %low, 0
  %inside = icmp ult i64 %offset, %text
  %good = and i1 %aligned, %inside
  br i1 %good, label %lookup, label %badjump
lookup:
  %word = lshr i64 %offset, 2
  %jump.at = getelementptr i32, ptr %jumps, i64 %word
  %target = load i32, ptr %jump.at
  %known = icmp ne i32 %target, -1
  br i1 %known, label %jumped, label %badjump
jumped:
  %over2 = icmp slt i64 %left2, 0
  br i1 %over2, label %sliced, label %loop
sliced:
  %resume = phi i32 [ %next, %check ], [ %target, %jumped ]
{_put("i32 %resume", "%w", state.RESUME)}
{_put("i64 %budget2", "%w", state.BUDGET)}
{_put("i64 %clock2", "%w", state.CLOCK)}
  ret i32 {int(Status.SLICE)}
leave:
{_put("i32 %next", "%w", state.RESUME)}
{_put("i64 %budget2", "%w", state.BUDGET)}
{_put("i64 %clock2", "%w", state.CLOCK)}
  %status32 = trunc i64 %status to i32
  ret i32 %status32
badjump:
{_put("i32 %id", "%w", state.RESUME)}
{_put(f"i32 {int(Fault.BAD_JUMP)}", "%w", state.FAULT_KIND)}
{_put("i64 %offset", "%w", state.FAULT_ADDRESS)}
{_put("i64 -1", "%w", state.FAULT_INSTRUCTION)}
  ret i32 {int(Status.FAULT)}
progress:
{_put("i32 %id", "%w", state.RESUME)}
{_put(f"i32 {int(Fault.PROGRESS)}", "%w", state.FAULT_KIND)}
{_put("i64 -1", "%w", state.FAULT_INSTRUCTION)}
  ret i32 {int(Status.FAULT)}
}}
"""


def _optional_sgpr(name: str, field: int, value: str) -> str:
    """``sgpr[launch.field] = value`` unless the field is negative."""
    return f"""
{_field(name, "%L", field)}
  %{name}.has = icmp sge i64 %{name}, 0
  br i1 %{name}.has, label %{name}.set, label %{name}.after
{name}.set:
  %{name}.base = getelementptr i8, ptr %w, i64 {state.SGPR}
  %{name}.at = getelementptr i32, ptr %{name}.base, i64 %{name}
  store i32 {value}, ptr %{name}.at
  br label %{name}.after
{name}.after:"""


def _start() -> str:
    return f"""
define internal void @wave_start(ptr %L, ptr %T, ptr %w, i64 %i, i32 %x, i32 %y, i32 %z) nounwind {{
entry:
{_field("vbytes", "%L", L_VGPR_BYTES)}
{_field("abytes", "%L", L_AGPR_BYTES)}
  %agprs = getelementptr i8, ptr %w, i64 {state.AGPR}
  call void @llvm.memset.p0.i64(ptr align 64 %w, i8 {POISON}, i64 %vbytes, i1 false)
  call void @llvm.memset.p0.i64(ptr align 64 %agprs, i8 {POISON}, i64 %abytes, i1 false)
{_field("templates", "%L", L_TEMPLATE, "ptr")}
  %template = getelementptr [{TEMPLATE_BYTES} x i8], ptr %templates, i64 %i
  call void @llvm.memcpy.p0.p0.i64(ptr %w, ptr %template, i64 {state.ROW_BYTES}, i1 false)
  %scalars = getelementptr i8, ptr %w, i64 {state.SGPR}
  call void @llvm.memset.p0.i64(ptr %scalars, i8 0, i64 {state.SCRATCH_ROWS - state.SGPR}, i1 false)
{_field("sgprs", "%T", T_SGPRS, "ptr")}
  call void @llvm.memcpy.p0.p0.i64(ptr %scalars, ptr %sgprs, i64 512, i1 false)
{_field("exec", "%template", state.ROW_BYTES)}
{_put("i64 %exec", "%w", state.sgpr(126))}
{_field("mode", "%L", L_MODE, "i32")}
{_put("i32 %mode", "%w", state.MODE)}
{_field("ldssize", "%L", L_LDS_SIZE, "i32")}
{_put("i32 %ldssize", "%w", state.LDS_SIZE)}
{_field("lds", "%T", T_LDS)}
{_put("i64 %lds", "%w", state.LDS_BASE)}
{_field("lane", "%L", L_SCRATCH_LANE_BYTES)}
  %lane32 = trunc i64 %lane to i32
{_put("i32 %lane32", "%w", state.SCRATCH_LANE_BYTES)}
  %wavescratch = shl i64 %lane, 6
  %scratchoff = mul i64 %wavescratch, %i
{_field("scratch0", "%T", T_SCRATCH)}
  %scratch = add i64 %scratch0, %scratchoff
{_put("i64 %scratch", "%w", state.SCRATCH_BASE)}
{_field("map", "%L", L_MAP)}
{_put("i64 %map", "%w", state.MAP)}
{_field("image", "%L", L_IMAGE)}
{_put("i64 %image", "%w", state.IMAGE)}
{_field("budget", "%L", L_BUDGET)}
{_put("i64 %budget", "%w", state.BUDGET)}
{_field("block", "%L", L_ENTRY, "i32")}
{_put("i32 %block", "%w", state.RESUME)}
{_put("ptr %L", "%w", state.LAUNCH)}
{_field("probes", "%T", T_PROBES)}
{_put("i64 %probes", "%w", state.PROBES)}
{_put("i32 %x", "%w", state.WORKGROUP_X)}
{_put("i32 %y", "%w", state.WORKGROUP_Y)}
{_put("i32 %z", "%w", state.WORKGROUP_Z)}
  %i32 = trunc i64 %i to i32
  %scratchoff32 = trunc i64 %scratchoff to i32
{_put("i32 %i32", "%w", state.WAVE_IN_GROUP)}
{_put("i32 %i32", "%w", state.HW_ID)}
{_field("waves", "%L", L_WAVES, "i32")}
  %first = icmp eq i32 %i32, 0
  %firstbit = select i1 %first, i32 -2147483648, i32 0
  %info = or i32 %waves, %firstbit
{_optional_sgpr("gx", L_GROUP_ID_X, "%x")}
{_optional_sgpr("gy", L_GROUP_ID_Y, "%y")}
{_optional_sgpr("gz", L_GROUP_ID_Z, "%z")}
{_optional_sgpr("gi", L_GROUP_INFO, "%info")}
{_optional_sgpr("so", L_SCRATCH_OFFSET, "%scratchoff32")}
{_field("flat", "%L", L_FLAT_SCRATCH)}
  %isflat = icmp ne i64 %flat, 0
  br i1 %isflat, label %setflat, label %done
setflat:
{_put("i64 %scratch", "%w", state.sgpr(FLAT_SCRATCH))}
  br label %done
done:
  ret void
}}
"""


def _run() -> str:
    end, barrier, fault, slice_ = (
        int(s) for s in (Status.END, Status.BARRIER, Status.FAULT, Status.SLICE)
    )
    stride = f"getelementptr [{WAVE_STRIDE} x i8], ptr %waves, i64"
    return f"""
define i32 @rk_run(ptr %L, ptr %T) nounwind {{
entry:
  call void @llvm.reset.fpenv()  ; a host library may have set flush-to-zero in our thread
{_field("total", "%L", L_TOTAL)}
{_field("gx", "%L", L_GROUPS_X)}
{_field("gy", "%L", L_GROUPS_Y)}
{_field("n", "%L", L_WAVES)}
{_field("waves", "%T", T_WAVES, "ptr")}
{_field("lds", "%T", T_LDS, "ptr")}
{_field("ldssize", "%L", L_LDS_SIZE)}
{_field("checks", "%T", T_CHECKS, "ptr")}
  %checked = icmp ne ptr %checks, null
  %next.at = getelementptr i8, ptr %L, i64 {L_NEXT}
  %stop.at = getelementptr i8, ptr %L, i64 {L_STOP}
  br label %outer
outer:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %finish, label %take
take:
  %g = atomicrmw add ptr %next.at, i64 1 monotonic
  %none = icmp uge i64 %g, %total
  br i1 %none, label %finish, label %group
group:
  %x = urem i64 %g, %gx
  %row = udiv i64 %g, %gx
  %y = urem i64 %row, %gy
  %z = udiv i64 %row, %gy
  %x32 = trunc i64 %x to i32
  %y32 = trunc i64 %y to i32
  %z32 = trunc i64 %z to i32
  call void @llvm.memset.p0.i64(ptr %lds, i8 {POISON}, i64 %ldssize, i1 false)
  br label %start
start:
  %si = phi i64 [ 0, %group ], [ %si1, %start ]
  %sw = {stride} %si
  call void @wave_start(ptr %L, ptr %T, ptr %sw, i64 %si, i32 %x32, i32 %y32, i32 %z32)
  %si1 = add i64 %si, 1
  %smore = icmp ult i64 %si1, %n
  br i1 %smore, label %start, label %started
started:
  br i1 %checked, label %checkgroup, label %sweep
checkgroup:
  call void @rk_check_group(ptr %checks, i64 %g, i64 %n)
  br label %sweep
sweep:
  br label %wave
wave:
  %wi = phi i64 [ 0, %sweep ], [ %wi1, %wavenext ]
  %ready = phi i32 [ 0, %sweep ], [ %ready2, %wavenext ]
  %waiting = phi i32 [ 0, %sweep ], [ %waiting2, %wavenext ]
  br i1 %checked, label %shuffle, label %choose
shuffle:
  %shuffled = call i64 @rk_check_order(ptr %checks, i64 %wi, i64 %n)
  br label %choose
choose:
  %chosen = phi i64 [ %wi, %wave ], [ %shuffled, %shuffle ]
  %w = {stride} %chosen
  %status.at = getelementptr i8, ptr %w, i64 {state.WAVE_STATUS}
  %status = load i32, ptr %status.at
  %runnable = icmp eq i32 %status, 0
  br i1 %runnable, label %runwave, label %wavenext
runwave:
  %r = call i32 @wave_run(ptr %L, ptr %T, ptr %w)
  switch i32 %r, label %other [ i32 {fault}, label %faulted i32 {slice_}, label %sliced ]
other:
  store i32 %r, ptr %status.at
  br label %wavenext
sliced:
  %stop2 = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped2 = icmp ne i64 %stop2, 0
  br i1 %stopped2, label %finish, label %wavenext
wavenext:
  %now = phi i32 [ %status, %choose ], [ %r, %other ], [ {slice_}, %sliced ]
  %isslice = icmp eq i32 %now, {slice_}
  %isbarrier = icmp eq i32 %now, {barrier}
  %ready1 = zext i1 %isslice to i32
  %waiting1 = zext i1 %isbarrier to i32
  %ready2 = or i32 %ready, %ready1
  %waiting2 = or i32 %waiting, %waiting1
  %wi1 = add i64 %wi, 1
  %wmore = icmp ult i64 %wi1, %n
  br i1 %wmore, label %wave, label %swept
swept:
  %anyready = icmp ne i32 %ready2, 0
  br i1 %anyready, label %sweep, label %checkbarrier
checkbarrier:
  %anywaiting = icmp ne i32 %waiting2, 0
  br i1 %anywaiting, label %open, label %outer
open:
  br i1 %checked, label %checkopen, label %release
checkopen:
  call void @rk_check_release(ptr %checks, i64 %n)
  br label %release
release:
  %ri = phi i64 [ 0, %open ], [ 0, %checkopen ], [ %ri1, %release ]
  %rw = {stride} %ri
  %rs.at = getelementptr i8, ptr %rw, i64 {state.WAVE_STATUS}
  %rs = load i32, ptr %rs.at
  %rsend = icmp eq i32 %rs, {end}
  %rs1 = select i1 %rsend, i32 {end}, i32 0
  store i32 %rs1, ptr %rs.at
  %ri1 = add i64 %ri, 1
  %rmore = icmp ult i64 %ri1, %n
  br i1 %rmore, label %release, label %sweep
faulted:
{_put("i64 %chosen", "%T", T_FAULT_WAVE)}
{_put("i64 %g", "%T", T_FAULT_GROUP)}
  store atomic i64 1, ptr %stop.at monotonic, align 8
  ret i32 1
finish:
  ret i32 0
}}
"""


_CHECKS, _CHECK_DECLARATIONS = check_runtime_ir()
_DECLARATIONS = {
    "declare void @llvm.reset.fpenv()",
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
}
RUNTIME_IR = "\n".join(
    [
        *sorted(_DECLARATIONS | _CHECK_DECLARATIONS),
        _find("read", state.READ_LO, state.READ_HI),
        _find("write", state.WRITE_LO, state.WRITE_HI),
        _fault(),
        _CHECKS,
        _dispatch(),
        _start(),
        _run(),
        '!0 = !{!"branch_weights", i32 1, i32 1000000}',
    ]
)
"""The module: ``rk_run``, ``rk_find_read``, ``rk_find_write``, ``rk_fault``, and what the checks
call (``CHECK_SYMBOLS``)."""
