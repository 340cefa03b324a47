"""Memory that checking code keeps: one block a host thread, fields and marks a wave, cells of LDS
and of global memory.

Time is counted in operations: every wave numbers its LDS operations and its vector memory
operations, and remembers which of them its waits have proved over (*done*) and which were done when
it last passed a barrier (*visible* to the other waves).

LDS: for each byte a u32 *write word* (0: never written) and a u32 *read word* (epoch << 16 | waves
that read it in that epoch). An epoch is the time between two barriers of the workgroup.

Global memory: for each dword of a buffer a u64 *write cell* (0: not written in this launch) and a
*read cell* of four u64: four bits for each wave (the bytes that it read), the workgroup and epoch
of that, which accesses were the last, and what was written. Owners of parts of one dword replace
each other, so a finding may be missed there, but none invented.
"""

from __future__ import annotations

from rocke.emulator import state

# The block of a host thread (8-byte fields).
T_INITIAL = 0
"""Address of the definedness of a new wave's registers, laid out as :data:`state.DEFINED`."""
T_FINDINGS = 8
T_DESCRIPTIONS = 16
"""Address of i32 register lists, see :mod:`rocke.emulator.checks.instrument`."""
T_LDS_WRITES, T_LDS_READS = 24, 32
T_LDS_BYTES = 40
T_EPOCH = 48
T_GROUP = 56
T_RANDOM = 64
T_ROTATION, T_BACKWARDS = 72, 80
T_SEED = 88
T_DIRECTORY = 96
"""Address of ``{u64 count, u64 0, {u64 lo, hi, write cells, read cells}[count]}``."""
T_CLOCK = 104
"""Address of the counter that orders findings."""
T_RELEASED = 112
"""Address of one byte a workgroup: whether it made its writes known by an atomic."""
T_ACQUIRED = 120
"""Whether the running workgroup looked at what others made known."""
T_WAVES = 128
T_LDS_WRITERS, T_LDS_READERS = 136, 168
"""Addresses of a u32 a byte of LDS: by whom it was written and read last (see WHO_SLOT)."""
T_VGPR_BYTES, T_AGPR_BYTES = 152, 160
"""Bytes of undefined rows to set at the start of a workgroup; 0 where they are not kept."""
T_ARGUMENTS = 144
"""Address of the kernel argument segment."""
T_MAP = 192
"""Address of the lane map of the running instruction (:mod:`rocke.emulator.checks.moved`)."""
T_LANES = 200
"""Room for a lane map that depends on addresses: 64 bytes."""
THREAD_BYTES = 264
DIRECTORY_ENTRIES, DIRECTORY_ENTRY_BYTES = 16, 32


def _wave(index: int) -> int:
    return state.SHADOW + 8 * index


# Fields of a wave, by offset in its state.
W_THREAD = _wave(0)
W_LDS_ISSUED, W_LDS_DONE, W_LDS_VISIBLE = _wave(1), _wave(2), _wave(3)
W_VM_ISSUED, W_VM_DONE, W_VM_VISIBLE = _wave(4), _wave(5), _wave(6)
W_BARRIER = _wave(7)
"""Finding slot of the barrier that the wave reached last."""
W_VM_PASSED = _wave(8)
"""Vector memory operations that the wave had issued when it last passed a barrier. The waves of a
workgroup share a first-level cache that serves them in order, so for global memory a barrier is
enough, without a wait (LLVM's memory model for AMDGPU, workgroup scope, not in tgsplit mode)."""
W_LO, W_HI, W_WRITES, W_READS = _wave(9), _wave(10), _wave(11), _wave(12)
"""The directory entry used last."""
W_CAUSE = _wave(13)
"""Finding slot of the other access of a race that is being reported, or 0."""

WHO_SLOT = 4
"""*Who* made an access: its finding slot, then four bits for the wave."""

# A finding slot.
F_COUNT, F_ORDER, F_GROUP, F_WAVE, F_LANES, F_ADDRESS, F_OTHER, F_CAUSE = range(0, 64, 8)
FINDING_BYTES = 64

# LDS write words.
LDS_SEQUENCE_BITS = 24
LDS_WAVE = 24
LDS_UNDEFINED, LDS_ATOMIC, LDS_COPY, LDS_WRITTEN = 1 << 28, 1 << 29, 1 << 30, 1 << 31

# Global write cells.
CELL_SEQUENCE_BITS = 26
CELL_GROUP, CELL_GROUP_BITS = 26, 24
CELL_WAVE = 50
CELL_OWNED = 54
"""Four bits: the bytes that the owner wrote."""
CELL_WRITTEN = 58
"""Four bits: the bytes that anybody wrote."""
CELL_ATOMIC = 1 << 62
CELL_LOCK = 63
"""The bit that is set while a host thread judges and changes the marks of the dword."""

# A global read cell.
READ_CELL_BYTES, READ_WRITER, READ_READER, READ_VALUE, READ_INFO = 32, 16, 20, 24, 28
"""Bytes of a cell, and where it has by whom (u32) the dword was written and read last, what was
written, and more about that. A write is judged by this value, for bytes that the launch wrote."""
INFO_VALUES, INFO_SHARED, INFO_GROUP = 0, 4, 8
"""Four bits: bytes to which the last writer's workgroup wrote several values, or unknown ones; four
bits: bytes to which another workgroup wrote the same value before; that workgroup."""
# Its second u64.
READ_EPOCH_BITS = 20
READ_GROUP = 20
READ_CHANGED = 44
"""Four bits: bytes that writes have changed."""
READ_OTHERS = 56
"""Four bits: bytes that several workgroups read."""
READ_VALID = 1 << 63

# F_OTHER of a race.
READ_AFTER_WRITE, WRITE_AFTER_WRITE, WRITE_AFTER_READ = 1, 2, 3
OTHER_WAVE = 8
OTHER_GROUP = 16
OTHER_IS_GROUP = 1 << 7
