"""Runs single instructions on a wave state made of numpy arrays, without the engine.

The engine's runtime functions (map search, fault record) are Python callbacks here.
"""

from __future__ import annotations

import ctypes
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from rocke.emulator import state
from rocke.emulator.decoder import decode_line
from rocke.emulator.disassembler import Line
from rocke.emulator.semantics import WAVE, Imm, Lowered, RegPtr, ScalarReg, lower

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

FULL = (1 << 64) - 1
GUARD = 256


def aligned(size: int, align: int = 64) -> np.ndarray:
    raw = np.zeros(size + align, np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + size]


@cache
def _target_machine() -> llvm.TargetMachine:
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1
    )


_engines: dict[str, tuple[object, int]] = {}


def compile_ir(text: str, symbol: str) -> int:
    """Host address of ``symbol``."""
    if text not in _engines:
        tm = _target_machine()
        module = llvm.parse_assembly(text)
        module.triple = tm.triple
        module.verify()
        builder = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options(speed_level=1))
        builder.getModulePassManager().run(module, builder)
        engine = llvm.create_mcjit_compiler(module, tm)
        engine.finalize_object()
        _engines[text] = (engine, engine.get_function_address(symbol))
    return _engines[text][1]


_FIND = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
_FAULT = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_uint64,
    ctypes.c_uint32,
    ctypes.c_uint64,
    ctypes.c_uint64,
    ctypes.c_uint32,
)
_current: list[Wave] = []


def _find(write: bool) -> object:
    def find(wave: int, address: int, size: int) -> int:
        return _current[-1].find(address, size, write)

    return _FIND(find)


def _fault(wave: int, kind: int, address: int, lanes: int, size: int) -> int:
    _current[-1].fault = (state.Fault(kind), address, lanes, size)
    return 1


_callbacks = {
    "rk_find_read": _find(False),
    "rk_find_write": _find(True),
    "rk_fault": _FAULT(_fault),
}
for _name, _callback in _callbacks.items():
    llvm.add_symbol(_name, ctypes.cast(_callback, ctypes.c_void_p).value)


def lower_text(text: str, arch: str = "gfx942", exec_full: bool = True) -> Lowered:
    return lower(decode_line(Line(0, 8, text), 0), arch, exec_full)


def driver(lowered: Lowered) -> str:
    """A module whose ``run(ptr wave)`` makes the calls and returns the first nonzero status."""
    helpers = {call.helper.name: call.helper for call in lowered.calls}
    declares = sorted(set().union(*(h.declares for h in helpers.values())) if helpers else [])
    body = []
    for number, call in enumerate(lowered.calls):
        args = []
        for position, arg in enumerate(call.args):
            name = f"%a{number}_{position}"
            if arg is WAVE:
                args.append("ptr %w")
            elif isinstance(arg, RegPtr):
                body.append(f"{name} = getelementptr i8, ptr %w, i64 {arg.offset}")
                args.append(f"ptr {name}")
            elif isinstance(arg, ScalarReg):
                at = state.sgpr(arg.index)
                body.append(f"{name}p = getelementptr i8, ptr %w, i64 {at}")
                body.append(f"{name} = load i{arg.width}, ptr {name}p, align 4")
                args.append(f"i{arg.width} {name}")
            elif isinstance(arg, Imm):
                args.append(f"i{arg.width} {arg.value}")
            else:
                raise AssertionError(arg)
        call_text = f"@{call.helper.name}({', '.join(args)})"
        if call.helper.can_fault:
            body.append(f"%s{number} = call i32 {call_text}")
            body.append(f"%c{number} = icmp ne i32 %s{number}, 0")
            body.append(f"br i1 %c{number}, label %bad, label %n{number}")
            body.append(f"n{number}:")
        else:
            body.append(f"call void {call_text}")
    text = [*declares, *(h.ir() for h in helpers.values())]
    text += ["define i32 @run(ptr %w) {", *body, "ret i32 0"]
    if any(call.helper.can_fault for call in lowered.calls):
        text += ["bad:", "ret i32 1"]
    return "\n".join([*text, "}"])


class Wave:
    """One wave, its LDS and its memory map. Registers are views: ``v[r, lane]``."""

    def __init__(self, arch: str = "gfx942", lds: int = 0, scratch: int = 0) -> None:
        self.arch = arch
        self.memory = aligned(state.WAVE_BYTES)
        self.v = self._rows(state.VGPR)
        self.a = self._rows(state.AGPR)
        self.s = self.memory[state.SGPR : state.SGPR + 512].view(np.uint32)
        self.exec = FULL
        self.lds = aligned(lds + 2 * GUARD)
        self.lds[:] = 0xEE
        self.lds = self.lds[GUARD : GUARD + lds]
        self.set64(state.LDS_BASE, self.lds.ctypes.data if lds else 0)
        self.set32(state.LDS_SIZE, lds)
        self.scratch = aligned(max(scratch, 1) * 64)
        self.set64(state.SCRATCH_BASE, self.scratch.ctypes.data)
        self.set32(state.SCRATCH_LANE_BYTES, scratch)
        self.map: list[tuple[int, int, bool]] = []
        self._kept: list[np.ndarray] = []
        self.fault: tuple[state.Fault, int, int, int] | None = None

    def _rows(self, offset: int) -> np.ndarray:
        return self.memory[offset : offset + 65536].view(np.uint32).reshape(256, 64)

    def set32(self, offset: int, value: int) -> None:
        self.memory[offset : offset + 4].view(np.uint32)[0] = value & 0xFFFFFFFF

    def set64(self, offset: int, value: int) -> None:
        self.memory[offset : offset + 8].view(np.uint64)[0] = value & FULL

    def get64(self, offset: int) -> int:
        return int(self.memory[offset : offset + 8].view(np.uint64)[0])

    @property
    def exec(self) -> int:
        return self.get64(state.sgpr(126))

    @exec.setter
    def exec(self, value: int) -> None:
        self.set64(state.sgpr(126), value)

    @property
    def active(self) -> np.ndarray:
        return np.array([self.exec >> lane & 1 for lane in range(64)], bool)

    def allocate(self, size: int, writable: bool = True, fill: int | None = None) -> np.ndarray:
        """Device memory with guard zones; its address is ``array.ctypes.data``."""
        whole = aligned(size + 2 * GUARD)
        inner = whole[GUARD : GUARD + size]
        if fill is not None:
            inner[:] = fill
        self._kept.append(whole)
        self.map.append((inner.ctypes.data, inner.ctypes.data + size, writable))
        return inner

    def find(self, address: int, size: int, write: bool) -> int:
        for low, high, writable in self.map:
            if low <= address and address + size <= high and (writable or not write):
                self.set64(state.WRITE_LO if write else state.READ_LO, low)
                self.set64(state.WRITE_HI if write else state.READ_HI, high)
                return 1
        return 0

    def set_pair(self, register: int, values: object) -> None:
        """A 64-bit value a lane into ``v[register : register + 1]``."""
        wide = np.broadcast_to(np.asarray(values, np.uint64), 64)
        self.v[register] = wide.astype(np.uint32)
        self.v[register + 1] = (wide >> np.uint64(32)).astype(np.uint32)

    def run(self, text: str, exec_full: bool | None = None) -> int:
        """Execute one instruction; 0, or 1 with :attr:`fault` set."""
        full = self.exec == FULL if exec_full is None else exec_full
        lowered = lower_text(text, self.arch, full)
        address = compile_ir(driver(lowered), "run")
        _current.append(self)
        try:
            return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)(
                self.memory.ctypes.data
            )
        finally:
            _current.pop()
