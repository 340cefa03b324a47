"""Runs single ALU instructions on a wave state: assembles, decodes, lowers, calls the helpers."""

from __future__ import annotations

import ctypes
import io
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from rocke.emulator import state
from rocke.emulator.decoder import decode
from rocke.emulator.instruction import EXEC, Instruction
from rocke.emulator.jit import jit
from rocke.emulator.semantics import (
    FloatMode,
    Helper,
    HelperCall,
    Imm,
    RegPtr,
    ScalarReg,
    lower,
)

DEFAULT = FloatMode()
FULL = (1 << 64) - 1
PARTIAL = 0x8000_F0F0_1234_ABCD


def assemble(lines: Sequence[str], arch: str) -> list[Instruction]:
    """Machine code of the lines, by zig's assembler, decoded by the emulator."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "t.s"), Path(folder, "t.o")
        source.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-m", "ziglang", "cc", "-target", "amdgcn-amdhsa"]
        command += [f"-mcpu={arch}", "-c", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stderr)
        text = ELFFile(io.BytesIO(target.read_bytes())).get_section_by_name(".text")
        instructions = decode(text.data(), arch)[: len(lines)]
    assert len(instructions) == len(lines)
    return instructions


class Wave:
    """A wave state with views of its registers."""

    def __init__(self) -> None:
        self._memory = np.zeros(state.WAVE_BYTES + 64, np.uint8)
        start = -self._memory.ctypes.data % 64
        self.bytes = self._memory[start : start + state.WAVE_BYTES]
        self.v = self.bytes[state.VGPR : state.AGPR].view(np.uint32).reshape(256, 64)
        self.a = self.bytes[state.AGPR : state.SGPR].view(np.uint32).reshape(256, 64)
        self.s = self.bytes[state.SGPR : state.SGPR + 512].view(np.uint32)
        self.scc = self.bytes[state.SCC : state.SCC + 4].view(np.uint32)
        self.mode = self.bytes[state.MODE : state.MODE + 4].view(np.uint32)
        self.mode[0] = FloatMode().register()
        self.exec = FULL

    @property
    def exec(self) -> int:
        return self.s64(EXEC)

    @exec.setter
    def exec(self, value: int) -> None:
        self.set_s64(EXEC, value)

    def s64(self, index: int) -> int:
        return int(self.s[index]) | int(self.s[index + 1]) << 32

    def set_s64(self, index: int, value: int) -> None:
        self.s[index] = value & 0xFFFF_FFFF
        self.s[index + 1] = value >> 32 & 0xFFFF_FFFF

    def v64(self, index: int) -> np.ndarray:
        """Two registers as 64 unsigned 64-bit values."""
        low, high = self.v[index].astype(np.uint64), self.v[index + 1].astype(np.uint64)
        return low | high << np.uint64(32)

    def set_v64(self, index: int, values: np.ndarray) -> None:
        bits = values.view(np.uint64)
        self.v[index] = (bits & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
        self.v[index + 1] = (bits >> np.uint64(32)).astype(np.uint32)

    def run(
        self, inst: Instruction, arch: str, mode: FloatMode = DEFAULT, full: bool | None = None
    ) -> None:
        """Execute one instruction; the masked variant when EXEC is not all ones."""
        exec_full = self.exec == FULL if full is None else full
        for call in lower(inst, arch, exec_full, mode).calls:
            self._call(call)

    def _call(self, call: HelperCall) -> None:
        base = self.bytes.ctypes.data
        types, values = [], []
        for arg in call.args:
            if isinstance(arg, RegPtr):
                types.append(ctypes.c_uint64)
                values.append(base + arg.offset)
            elif isinstance(arg, ScalarReg):
                wide = arg.width == 64
                types.append(ctypes.c_uint64 if wide else ctypes.c_uint32)
                values.append(self.s64(arg.index) if wide else int(self.s[arg.index]))
            elif isinstance(arg, Imm):
                types.append(ctypes.c_uint64 if arg.width == 64 else ctypes.c_uint32)
                values.append(arg.value)
            else:
                types.append(ctypes.c_uint64)
                values.append(base)
        address = jit().helpers([call.helper])[call.helper.name]
        assert ctypes.CFUNCTYPE(ctypes.c_int32 if call.helper.can_fault else None, *types)(address)(
            *values
        ) in (None, 0)


def compile_all(
    instructions: Sequence[Instruction],
    arch: str,
    modes: Sequence[FloatMode] = (DEFAULT,),
) -> None:
    """Compile the helpers of all variants in one batch."""
    helpers: dict[str, Helper] = {}
    for inst in instructions:
        for mode in modes:
            for full in (True, False):
                for call in lower(inst, arch, full, mode).calls:
                    helpers[call.helper.name] = call.helper
    jit().helpers(list(helpers.values()))
