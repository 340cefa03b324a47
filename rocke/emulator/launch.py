"""From launch arguments to memory contents: kernel argument segment, packet, initial registers.

Source: LLVM "User Guide for AMDGPU Backend", *Code Object V5 Metadata* (hidden arguments) and
*Initial Kernel Execution State*; the HSA Runtime Programmer's Reference for the dispatch packet.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from rocke.compiler.code_object import KernelInfo
from rocke.emulator import state
from rocke.emulator.descriptor import Descriptor
from rocke.emulator.memory import Range
from rocke.emulator.runtime_ir import TEMPLATE_BYTES
from rocke.runtime.device import DeviceError

_ZERO_HIDDEN = frozenset(
    f"hidden_{name}"
    for name in (
        *("global_offset_x", "global_offset_y", "global_offset_z", "none"),
        *("printf_buffer", "hostcall_buffer", "multigrid_sync_arg", "heap_v1"),
        *("default_queue", "completion_action"),
    )
)
_PREFETCH_PADDING = 64
_RESOURCE_WORD3 = 1 << 19 | 3 << 21 | 1 << 23
"""Element size 4 bytes, index stride 64, ADD_TID_ENABLE."""
_SWIZZLE = 1 << 31


@dataclass(frozen=True)
class Geometry:
    """Sizes of a launch: ``grid`` in workgroups, ``block`` in work-items, ``dynamic_lds`` bytes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_lds: int

    @property
    def items(self) -> int:
        """Work-items a workgroup."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def waves(self) -> int:
        """Waves a workgroup."""
        return -(-self.items // state.LANES)

    @property
    def workgroups(self) -> int:
        """Workgroups of the launch."""
        return self.grid[0] * self.grid[1] * self.grid[2]


def kernarg_segment(info: KernelInfo, given: bytes, geometry: Geometry, queue: int) -> bytes:
    """The whole kernel argument segment: the caller's bytes, then the hidden arguments.

    Raises DeviceError when ``given`` does not fit the kernel's metadata, or for a hidden argument
    that the emulated device does not know.
    """
    explicit = info.explicit_arguments
    needed = max((a.offset + a.size for a in explicit), default=0)
    if not needed <= len(given) <= max(info.kernarg_size, needed):
        raise DeviceError(
            f"kernel {info.name}: {len(given)} bytes of kernel arguments, expected {needed} "
            f"for {len(explicit)} arguments"
        )
    segment = bytearray(max(info.kernarg_size, needed))
    segment[: len(given)] = given
    values = _hidden_values(geometry, queue)
    for argument in info.arguments:
        if not argument.hidden or argument.kind in _ZERO_HIDDEN:
            continue
        if argument.kind not in values:
            raise DeviceError(
                f"kernel {info.name}: hidden argument {argument.kind!r} is not supported"
            )
        end = argument.offset + argument.size
        if end > len(segment):
            raise DeviceError(
                f"kernel {info.name}: {argument.kind} at byte {argument.offset} lies outside the "
                f"{len(segment)} bytes of kernel arguments"
            )
        segment[argument.offset : end] = values[argument.kind].to_bytes(argument.size, "little")
    return bytes(segment)


def _hidden_values(geometry: Geometry, queue: int) -> dict[str, int]:
    grid, block = geometry.grid, geometry.block
    values = {
        "hidden_grid_dims": 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1,
        "hidden_dynamic_lds_size": geometry.dynamic_lds,
        "hidden_private_base": state.PRIVATE_APERTURE_HI,
        "hidden_shared_base": state.SHARED_APERTURE_HI,
        "hidden_queue_ptr": queue,
    }
    for i, axis in enumerate("xyz"):
        values[f"hidden_block_count_{axis}"] = grid[i]
        values[f"hidden_group_size_{axis}"] = block[i]
        values[f"hidden_remainder_{axis}"] = 0
    return values


def dispatch_packet(geometry: Geometry, lds: int, scratch: int, kernarg: int) -> bytes:
    """The 64-byte HSA kernel dispatch packet that ``dispatch_ptr`` points at."""
    sizes = [g * b for g, b in zip(geometry.grid, geometry.block, strict=True)]
    return struct.pack(
        "<6H5I4Q",
        *(2, 3, *geometry.block, 0),
        *(*(s & 0xFFFF_FFFF for s in sizes), scratch, lds),
        *(0, kernarg, 0, 0),
    )


def queue_record() -> bytes:
    """What ``queue_ptr`` points at: 256 bytes, zero but for the two aperture words."""
    record = bytearray(256)
    struct.pack_into("<II", record, 0x40, state.SHARED_APERTURE_HI, state.PRIVATE_APERTURE_HI)
    return bytes(record)


class LaunchArguments:
    """The memory that a launch's arguments live in while it runs: segment, packet, queue record.

    ``words`` are the segment's dwords. Raises as :func:`kernarg_segment`.
    """

    def __init__(self, info: KernelInfo, given: bytes, geometry: Geometry, lds: int) -> None:
        self.queue = np.frombuffer(queue_record(), dtype=np.uint8).copy()
        raw = kernarg_segment(info, given, geometry, self.queue.ctypes.data)
        # The hardware prefetches whole cache lines; compilers widen loads to what is aligned.
        self.segment = np.zeros(-(-len(raw) // 64) * 64 + _PREFETCH_PADDING, dtype=np.uint8)
        self.segment[: len(raw)] = np.frombuffer(raw, dtype=np.uint8)
        self.words = tuple(int(w) for w in self.segment.view(np.uint32))
        packet = dispatch_packet(geometry, lds, info.scratch, self.segment.ctypes.data)
        self.packet = np.frombuffer(packet, dtype=np.uint8).copy()

    def ranges(self) -> list[Range]:
        """Read-only map entries."""
        named = (
            ("kernel arguments", self.segment),
            ("dispatch packet", self.packet),
            ("queue record", self.queue),
        )
        return [Range(a.ctypes.data, a.ctypes.data + a.nbytes, False, what) for what, a in named]


def scratch_descriptor(address: int, nbytes: int) -> tuple[int, int, int, int]:
    """The buffer descriptor through which gfx90a code reaches scratch: swizzled by lane."""
    high = (address >> 32 & 0xFFFF) | _SWIZZLE
    return address & 0xFFFF_FFFF, high, min(nbytes, 0xFFFF_FFFF), _RESOURCE_WORD3


def wave_templates(descriptor: Descriptor, geometry: Geometry) -> np.ndarray:
    """v0 and EXEC of every wave of a workgroup.

    v0 holds the packed work-item ids (x in bits 9:0, y in 19:10, z in 29:20), as far as the
    descriptor asks for them.
    """
    bx, by, _ = geometry.block
    flat = np.arange(geometry.waves * state.LANES, dtype=np.uint32)
    packed = flat % bx
    if descriptor.workitem_dimensions > 1:
        packed |= flat // bx % by << 10
    if descriptor.workitem_dimensions > 2:
        packed |= flat // (bx * by) << 20
    active = flat < geometry.items
    templates = np.zeros((geometry.waves, TEMPLATE_BYTES), dtype=np.uint8)
    templates[:, : state.ROW_BYTES] = packed.reshape(-1, state.LANES).view(np.uint8)
    mask = np.packbits(active.reshape(-1, state.LANES), axis=1, bitorder="little")
    templates[:, state.ROW_BYTES : state.ROW_BYTES + 8] = mask
    return templates
