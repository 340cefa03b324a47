"""The kernel descriptor: what a wave's registers hold when it starts.

Source of the layout and of the order of the initial SGPRs: LLVM "User Guide for AMDGPU Backend",
sections *Kernel Descriptor*, *Initial Kernel Execution State* and *Kernarg Preload*.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

PRELOAD_SKIP = 256
"""Bytes of compatibility code before the entry of a kernel with preloaded arguments."""
FP16_OVFL_BIT = 23
"""Bit of the MODE register for the descriptor's FP16_OVFL."""


@dataclass(frozen=True)
class Descriptor:
    """The fields of a 64-byte kernel descriptor that matter on gfx90a, gfx942 and gfx950.

    ``lds`` and ``scratch`` are bytes a workgroup and bytes a work-item. ``vgprs`` counts
    architectural registers and ``agprs`` accumulation registers that the wave may own (upper
    bounds). ``preload`` is the number of dwords of kernel arguments that arrive in SGPRs and
    ``preload_offset`` the dword they start at.
    """

    lds: int
    scratch: int
    entry_offset: int
    vgprs: int
    agprs: int
    mode: int
    user_sgprs: int
    group_id: tuple[bool, bool, bool]
    group_info: bool
    scratch_wave_offset: bool
    workitem_dimensions: int
    private_segment_buffer: bool
    dispatch_ptr: bool
    queue_ptr: bool
    kernarg_ptr: bool
    dispatch_id: bool
    flat_scratch_init: bool
    private_segment_size: bool
    wave32: bool
    preload: int
    preload_offset: int

    @classmethod
    def parse(cls, raw: bytes) -> Descriptor:
        """Read the 64 bytes. Raises ValueError for another length."""
        if len(raw) != 64:
            raise ValueError(f"a kernel descriptor has 64 bytes, not {len(raw)}")
        lds, scratch, _, _, entry = struct.unpack_from("<IIIIq", raw, 0)
        rsrc3, rsrc1, rsrc2, properties, preload = struct.unpack_from("<IIIHH", raw, 44)
        total = ((rsrc1 & 0x3F) + 1) * 8
        vgprs = min(((rsrc3 & 0x3F) + 1) * 4, total, 256)
        mode = rsrc1 >> 12 & 0xFF
        mode |= (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9
        mode |= (rsrc1 >> 26 & 1) << FP16_OVFL_BIT
        return cls(
            lds=lds,
            scratch=scratch,
            entry_offset=entry,
            vgprs=vgprs,
            agprs=min(total - vgprs, 256),
            mode=mode,
            user_sgprs=rsrc2 >> 1 & 0x1F,
            group_id=(bool(rsrc2 >> 7 & 1), bool(rsrc2 >> 8 & 1), bool(rsrc2 >> 9 & 1)),
            group_info=bool(rsrc2 >> 10 & 1),
            scratch_wave_offset=bool(rsrc2 & 1),
            workitem_dimensions=min(rsrc2 >> 11 & 3, 2) + 1,
            private_segment_buffer=bool(properties & 1),
            dispatch_ptr=bool(properties >> 1 & 1),
            queue_ptr=bool(properties >> 2 & 1),
            kernarg_ptr=bool(properties >> 3 & 1),
            dispatch_id=bool(properties >> 4 & 1),
            flat_scratch_init=bool(properties >> 5 & 1),
            private_segment_size=bool(properties >> 6 & 1),
            wave32=bool(properties >> 10 & 1),
            preload=preload & 0x7F,
            preload_offset=preload >> 7 & 0x1FF,
        )


@dataclass(frozen=True)
class SystemSgprs:
    """SGPR numbers of the values that differ between waves; -1 where a value is not wanted."""

    group_x: int
    group_y: int
    group_z: int
    group_info: int
    scratch_offset: int


def system_sgprs(d: Descriptor, architected_scratch: bool) -> SystemSgprs:
    """Where the values after the user SGPRs go.

    With ``architected_scratch`` (gfx942 and later) the scratch offset is not passed.
    """
    at = d.user_sgprs
    numbers = []
    wanted = (*d.group_id, d.group_info, d.scratch_wave_offset and not architected_scratch)
    for wants in wanted:
        numbers.append(at if wants else -1)
        at += wants
    return SystemSgprs(*numbers)


@dataclass(frozen=True)
class UserValues:
    """The 64-bit addresses and sizes that user SGPRs may ask for."""

    private_buffer: tuple[int, int, int, int]
    dispatch_packet: int
    queue: int
    kernarg: int
    flat_scratch: int
    scratch_bytes: int
    kernarg_words: tuple[int, ...]


def user_sgprs(d: Descriptor, values: UserValues, architected_scratch: bool) -> list[int]:
    """The first SGPRs of every wave, in the descriptor's order.

    Raises ValueError when the descriptor asks for more than its own count of user SGPRs.
    """

    def pair(value: int) -> tuple[int, int]:
        return value & 0xFFFF_FFFF, value >> 32

    words: list[int] = []
    if d.private_segment_buffer and not architected_scratch:
        words += values.private_buffer
    for wanted, value in (
        (d.dispatch_ptr, values.dispatch_packet),
        (d.queue_ptr, values.queue),
        (d.kernarg_ptr, values.kernarg),
        (d.dispatch_id, 0),
        (d.flat_scratch_init and not architected_scratch, values.flat_scratch),
    ):
        if wanted:
            words += pair(value)
    if d.private_segment_size:
        words.append(values.scratch_bytes)
    given = values.kernarg_words
    for i in range(d.preload_offset, d.preload_offset + d.preload):
        words.append(given[i] if i < len(given) else 0)
    if len(words) > d.user_sgprs:
        raise ValueError(
            f"the kernel descriptor asks for {len(words)} user SGPRs and declares {d.user_sgprs}"
        )
    return words
