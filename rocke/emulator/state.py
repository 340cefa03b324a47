"""Layout of the state of one wave in host memory, shared by the engine and the instruction helpers.

A wave is one flat block of :data:`WAVE_BYTES` bytes, 64-byte aligned. Helpers get its address (or
addresses of registers inside it) and use the byte offsets below. All integers are little endian.

Registers
    ``VGPR`` and ``AGPR``: ``u32[256][64]``, register-major: lane ``l`` of ``v[r]`` is at
    ``VGPR + r * ROW_BYTES + l * 4``, so that a 64-bit value is split over two rows, as in hardware.
    ``SGPR``: ``u32[128]``, indexed by the ISA's scalar operand number (see
    :mod:`rocke.emulator.instruction`): vcc at 106, m0 at 124, exec at 126. A 64-bit scalar (VCC,
    EXEC, a pointer pair) is one little-endian u64 at its even register, so it can be read whole.
    ``SCC``: u32, always 0 or 1.
    ``MODE``: u32, the MODE hardware register: bits 1:0 rounding of f32, 3:2 rounding of f64 and
    f16 (0 nearest even, 1 up, 2 down, 3 to zero); bits 5:4 denormals of f32, 7:6 denormals of f64
    and f16 (bit 0 of a pair: keep on input, bit 1: keep on output); bit 8 DX10_CLAMP, 9 IEEE.

Memory map
    Device addresses are host addresses. ``MAP`` holds the address of the launch's memory map: an
    immutable snapshot, sorted by address, that outlives the launch::

        u64 count
        u64 reserved
        { u64 lo, u64 hi, u64 flags }[count]      # [lo, hi) may be accessed; no two overlap

    ``flags`` bit 0 (:data:`MAP_WRITABLE`): stores and atomics allowed. Entries are separated by
    guard zones, so an access that lies inside one entry is always backed by memory.

    ``READ_LO``/``READ_HI`` and ``WRITE_LO``/``WRITE_HI`` (u64) are the last entry hit by a read
    and by a write. An empty cache is lo = hi = 0. Fast path of a helper: every active lane's
    ``address - lo <= (hi - lo) - size``, unsigned, with ``hi - lo >= size``. On a miss it asks
    ``rk_find_read`` / ``rk_find_write`` (below) lane by lane; these search the map and replace the
    cache when they hit. A null page or a wrapped address is never in the map.

    The private segment (scratch) of the running wave is one entry of the map, and so is the
    loaded code object (read-only), which ``s_getpc``-relative loads reach.

LDS
    ``LDS_BASE`` (host address) and ``LDS_SIZE`` (u32: bytes that the workgroup owns, static plus
    dynamic). An access at LDS byte ``a`` of ``n`` bytes is good when ``a + n <= LDS_SIZE``.

Scratch
    ``SCRATCH_BASE`` (host address of the wave's private segment) and ``SCRATCH_LANE_BYTES`` (u32:
    bytes a lane, a multiple of 16). Dword-interleaved by lane as the hardware swizzles it: byte
    ``a`` of lane ``l`` is at ``SCRATCH_BASE + (a // 4) * 256 + l * 4 + a % 4``. On gfx90a, buffer
    instructions reach it with the descriptor in the first user SGPRs (element size 4, index stride
    64, ADD_TID_ENABLE), which gives the same layout.
    Flat addresses: high dword :data:`SHARED_APERTURE_HI` means LDS, :data:`PRIVATE_APERTURE_HI`
    scratch, with the segment offset in the low dword; these are the values of the high halves of
    ``src_shared_base`` and ``src_private_base`` (the low halves are 0).

Faults
    A helper that finds a bad access fills in the fault record by ``rk_fault`` and returns its
    (nonzero) result; the block then leaves with the fault, the engine adds the instruction. The
    instruction must not have changed memory or registers for the faulting lanes.

Everything else is the engine's.

Source of the register numbers and the MODE layout: AMD Instinct MI200 / MI300 / CDNA4 ISA guides,
chapters *Program State* and *Operands*.
"""

from __future__ import annotations

from enum import IntEnum

LANES = 64
ROW_BYTES = LANES * 4
"""Bytes of one vector register (64 lanes of 32 bits)."""

VGPR = 0
AGPR = VGPR + 256 * ROW_BYTES
SGPR = AGPR + 256 * ROW_BYTES
"""``u32[128]``."""

_SCALARS = SGPR + 128 * 4
SCC = _SCALARS + 0
MODE = _SCALARS + 4
LDS_SIZE = _SCALARS + 8
"""u32: bytes of LDS that the workgroup owns."""
SCRATCH_LANE_BYTES = _SCALARS + 12
LDS_BASE = _SCALARS + 16
SCRATCH_BASE = _SCALARS + 24
MAP = _SCALARS + 32
READ_LO = _SCALARS + 40
READ_HI = _SCALARS + 48
WRITE_LO = _SCALARS + 56
WRITE_HI = _SCALARS + 64

FAULT_KIND = _SCALARS + 72
"""u32, a :class:`Fault`; 0 while all is well."""
FAULT_SIZE = _SCALARS + 76
"""u32: bytes a lane of the access."""
FAULT_ADDRESS = _SCALARS + 80
"""u64: address (or LDS byte) of the lowest faulting lane."""
FAULT_LANES = _SCALARS + 88
"""u64: bit mask of the faulting lanes (all ones for a scalar access)."""
FAULT_INSTRUCTION = _SCALARS + 96
"""u64: text offset of the faulting instruction; the block code sets it."""

IMAGE = _SCALARS + 104
"""u64: host address of the first byte of the code object's text section (the PC's origin)."""
CLOCK = _SCALARS + 112
"""u64: instructions executed by the wave before this block; what ``s_memtime`` returns."""
LAUNCH = _SCALARS + 120
"""u64: address of the launch record (the engine's)."""
WORKGROUP_X = _SCALARS + 128
WORKGROUP_Y = _SCALARS + 132
WORKGROUP_Z = _SCALARS + 136
WAVE_IN_GROUP = _SCALARS + 140
"""u32 each: which wave this is."""
RESUME = _SCALARS + 144
"""u32: block at which the wave goes on after a barrier or a time slice."""
WAVE_STATUS = _SCALARS + 148
"""u32: a :class:`Status`."""
HW_ID = _SCALARS + 152
"""u32: what ``s_getreg_b32 hwreg(HW_REG_HW_ID)`` returns."""
XCC_ID = _SCALARS + 156
"""u32: what ``s_getreg_b32 hwreg(HW_REG_XCC_ID)`` returns."""
BUDGET = _SCALARS + 160
"""i64: instructions that the wave may still execute before it is stopped for lack of progress."""
INDIRECT = _SCALARS + 168
"""u64: target text offset of a computed jump (``s_setpc_b64``, ``s_swappc_b64``)."""
PROBES = _SCALARS + 176
"""u64: address of the host thread's table that counting code adds to; 0 when nothing is counted."""
SHADOW = _SCALARS + 192
"""u64[16]: of the checked mode, see :mod:`rocke.emulator.checks.layout`."""

SCRATCH_ROWS = _SCALARS + 512
"""``u32[32][64]``: rows that a helper, or a sequence of helper calls of one instruction, may use
as temporary storage. Nothing in them survives an instruction."""
SCRATCH_ROW_COUNT = 32

DEFINED = SCRATCH_ROWS + SCRATCH_ROW_COUNT * ROW_BYTES
"""``u64[641]``, in checked mode: which bits of a register are defined, by lane for v0-v255 and
a0-a255, by bit for the scalar registers (512 + ISA operand number) and SCC (640)."""
DEFINED_REGISTERS = 641

UNDEFINED = DEFINED + 5184
"""``u32[512][64]``, in checked mode: the bits of v0-v255 and a0-a255 that are not defined, in the
lanes that :data:`DEFINED` leaves out."""

WAVE_BYTES = UNDEFINED + 512 * ROW_BYTES
WAVE_ALIGN = 64

MAP_COUNT = 0
MAP_ENTRIES = 16
MAP_ENTRY_BYTES = 24
MAP_WRITABLE = 1

SHARED_APERTURE_HI = 0x0001_0000
PRIVATE_APERTURE_HI = 0x0002_0000


class Fault(IntEnum):
    """Why a wave stopped."""

    NONE = 0
    GLOBAL_READ = 1
    """A load outside every allocation (global, flat, buffer or scalar)."""
    GLOBAL_WRITE = 2
    """A store or atomic outside every allocation, or into read-only memory."""
    LDS_READ = 3
    LDS_WRITE = 4
    SCRATCH = 5
    """Beyond the wave's private segment."""
    MISALIGNED = 6
    """An address that the instruction does not allow."""
    UNKNOWN_INSTRUCTION = 7
    """Reached an instruction that the semantics table does not hold (the engine's)."""
    PROGRESS = 8
    """More instructions than the limit (the engine's)."""
    BAD_JUMP = 9
    """A branch to no instruction of the text section, or past its end (the engine's)."""
    EXEC = 10
    """An instruction that needs all lanes active ran with some off."""
    TRAP = 11
    """``s_trap`` (the engine's)."""
    UNSUPPORTED = 12
    """A form of the instruction that only its operand's run-time value shows to be unsupported
    (a descriptor format, say)."""


class Status(IntEnum):
    """How a block ends. A block function returns ``status << 32 | next block``."""

    NEXT = 0
    BARRIER = 1
    END = 2
    FAULT = 3
    JUMP = 4
    """A computed jump: the target is in :data:`INDIRECT`."""
    SLICE = 5
    """The time slice of the wave is over."""


RUNTIME_DECLARATIONS = {
    "rk_find_read": "declare i32 @rk_find_read(ptr, i64, i64)",
    "rk_find_write": "declare i32 @rk_find_write(ptr, i64, i64)",
    "rk_fault": "declare i32 @rk_fault(ptr, i32, i64, i64, i32)",
}
"""Functions of the engine that every helper may call (list the declaration in ``declares``).

``rk_find_read(wave, address, size)``: 1 when ``[address, address + size)`` lies in one map entry
(the read cache then holds it), else 0. ``rk_find_write``: the same for writable entries and the
write cache. ``rk_fault(wave, kind, address, lane mask, size a lane)``: fills in the fault record
and returns 1.
"""


def vgpr(index: int) -> int:
    """Byte offset of ``v[index]``."""
    return VGPR + index * ROW_BYTES


def agpr(index: int) -> int:
    """Byte offset of ``a[index]``."""
    return AGPR + index * ROW_BYTES


def sgpr(index: int) -> int:
    """Byte offset of the scalar register with ISA operand number ``index``."""
    return SGPR + index * 4
