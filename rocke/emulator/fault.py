"""Turns the fault record of a wave into a :class:`KernelFault` that a person can act on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rocke.emulator.executor import CompiledKernel, FaultRecord
from rocke.emulator.launch import Geometry
from rocke.emulator.loader import Image
from rocke.emulator.memory import Memory, Range
from rocke.emulator.source_lines import SourceLines, block_around
from rocke.emulator.state import PRIVATE_APERTURE_HI, SHARED_APERTURE_HI, Fault
from rocke.runtime.device import KernelFault

_WHAT = {
    Fault.NONE: "instruction failed without saying why",
    Fault.GLOBAL_READ: "load outside every allocation",
    Fault.GLOBAL_WRITE: "store to memory that may not be written",
    Fault.LDS_READ: "LDS read outside the workgroup's allocation",
    Fault.LDS_WRITE: "LDS write outside the workgroup's allocation",
    Fault.SCRATCH: "access outside the wave's scratch memory",
    Fault.MISALIGNED: "misaligned address",
    Fault.UNKNOWN_INSTRUCTION: "instruction is not supported",
    Fault.PROGRESS: "no progress",
    Fault.BAD_JUMP: "jump to an address without code",
    Fault.EXEC: "instruction needs all lanes active",
    Fault.TRAP: "s_trap",
    Fault.UNSUPPORTED: "form of the instruction is not supported",
}

_NO_LDS = (
    "0: the code object declares none, so its LDS is the launch's to give, in bytes: dynamic_lds, "
    "with HIP sharedMemBytes"
)


class FaultReporter:
    """Everything that a report about one launch needs."""

    def __init__(
        self,
        kernel: str,
        lines: SourceLines,
        image: Image,
        compiled: CompiledKernel,
        geometry: Geometry,
        lds: int,
        limit: int | None,
    ) -> None:
        self.kernel, self.lines, self.image = kernel, lines, image
        self.compiled, self.geometry, self.lds, self.limit = compiled, geometry, lds, limit

    def fault(
        self, record: FaultRecord, counts: np.ndarray, memory: Memory, ranges: Sequence[Range]
    ) -> KernelFault:
        """The exception for a fault; ``counts`` are the launch's executions by block."""
        gx, gy, _ = self.geometry.grid
        group = (record.group % gx, record.group // gx % gy, record.group // (gx * gy))
        pc = self._pc(record)
        text = self.compiled.reader.at(pc).text or "(no instruction)"
        report: dict[str, Any] = {
            "kind": record.kind.name.lower(),
            "kernel": self.kernel,
            "workgroup": group,
            "wave": record.wave,
            "pc": pc,
            "instruction": text,
            "exec": record.exec,
        }
        block = block_around(self.compiled.program, pc)
        source = self.lines.near(self.image.text_virtual, pc, block)
        if source:
            report["source"] = source
        detail = self._detail(record, pc, counts, memory, ranges, report)
        lines = [
            f"kernel {self.kernel}: {_WHAT[record.kind]}{detail}",
            f"  at {pc:#x}: {text}" + (f"  ({source})" if source else ""),
            f"  workgroup {group}, wave {record.wave}" + _lane_text(report.get("lanes")),
        ]
        return KernelFault("\n".join(lines), report)

    def _pc(self, record: FaultRecord) -> int:
        if record.instruction >= 0:
            return record.instruction
        block = self.compiled.program.blocks[record.block]
        if record.kind is Fault.PROGRESS or not block.instructions:
            return block.start
        return block.instructions[-1].address

    def _detail(
        self,
        record: FaultRecord,
        pc: int,
        counts: np.ndarray,
        memory: Memory,
        ranges: Sequence[Range],
        report: dict[str, Any],
    ) -> str:
        kind = record.kind
        if kind in (Fault.UNKNOWN_INSTRUCTION, Fault.UNSUPPORTED):
            return f": {self.compiled.unknown.get(pc, 'see the instruction')}"
        if kind is Fault.PROGRESS:
            return self._loop(counts, report)
        if kind is Fault.BAD_JUMP:
            report["address"] = record.address
            return f": text offset {record.address:#x} of {self.compiled.reader.size} bytes"
        if kind is Fault.TRAP:
            return f" {record.address}"
        report["address"] = record.address
        report["size"] = record.size
        report["lanes"] = [i for i in range(64) if record.lanes >> i & 1]
        where = f": {record.size} bytes at {record.address:#x}"
        if kind in (Fault.LDS_READ, Fault.LDS_WRITE):
            return f"{where}, the workgroup has {self.lds or _NO_LDS}"
        if kind in (Fault.GLOBAL_READ, Fault.GLOBAL_WRITE):
            segment = {SHARED_APERTURE_HI: "in LDS", PRIVATE_APERTURE_HI: "in scratch"}
            known = segment.get(record.address >> 32)
            return f"{where}, {known or memory.explain(record.address, ranges)}"
        return where

    def _loop(self, counts: np.ndarray, report: dict[str, Any]) -> str:
        """Where the wave loops: the block executed most, with its count."""
        hottest = int(np.argmax(counts))
        block = self.compiled.program.blocks[hottest]
        last = block.instructions[-1].address if block.instructions else block.start
        report["loop"] = (block.start, last)
        report["executions"] = int(counts[hottest])
        source = self.lines.at(self.image.text_virtual + block.start)
        return (
            f": a wave executed more than {self.limit} instructions; the code at "
            f"{block.start:#x}-{last:#x}{f' ({source})' if source else ''} ran "
            f"{int(counts[hottest])} times"
        )


def _lane_text(lanes: list[int] | None) -> str:
    if lanes is None:
        return ""
    if len(lanes) == 64:
        return ", all lanes"
    shown = ", ".join(map(str, lanes[:8])) + (", ..." if len(lanes) > 8 else "")
    return f", {'lane' if len(lanes) == 1 else 'lanes'} {shown}"
