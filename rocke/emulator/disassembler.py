"""Bytes to assembly text, by AMD's LLVM disassembler.

``librocmllvm.so`` (package ``rocm-llvm-python``) is opened by ``dlmopen`` in a link namespace of
its own. It exports the same C++ symbols as the libLLVM of the MLIR bindings, and the two abort
a process when they share a namespace. In its own namespace it works beside them, in any import
order.
"""

from __future__ import annotations

import ctypes
import importlib.util
import struct
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from rocke.arch import TARGETS

_LM_ID_NEWLM = -1
_RTLD_NOW = 2
_RTLD_DI_LMID = 1
_PRINT_IMM_HEX = 2
_TRIPLE = b"amdgcn-amd-amdhsa"
_LINE_BYTES = 512
_PADDING = 32
"""Zero bytes kept readable after the code: the library reads ahead for literals."""


class DisassemblerError(RuntimeError):
    """The disassembler library is missing or does not work."""


class Line(NamedTuple):
    """One instruction: byte offset, size in bytes, and text without leading white space.

    Bytes that are no instruction give ``text == ""`` and ``size == 4``.
    """

    offset: int
    size: int
    text: str


def library_path() -> Path:
    """Where ``librocmllvm.so`` is installed. Raises :class:`DisassemblerError` when it is not."""
    try:
        spec = importlib.util.find_spec("rocm")
    except (ImportError, ValueError):
        spec = None
    for folder in spec.submodule_search_locations or () if spec else ():
        path = Path(folder) / "llvm" / "librocmllvm.so"
        if path.is_file():
            return path
    raise DisassemblerError(
        "librocmllvm.so was not found: install it with `pip install rocm-llvm-python`"
    )


class _Library:
    """The functions of librocmllvm that are needed, taken from its own link namespace."""

    def __init__(self) -> None:
        if not sys.platform.startswith("linux"):
            raise DisassemblerError("the disassembler library is loaded by dlmopen, on Linux only")
        path = library_path()
        libc = ctypes.CDLL(None)
        libc.dlmopen.restype = ctypes.c_void_p
        libc.dlmopen.argtypes = [ctypes.c_long, ctypes.c_char_p, ctypes.c_int]
        libc.dlsym.restype = ctypes.c_void_p
        libc.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        libc.dlerror.restype = ctypes.c_char_p
        libc.dlerror.argtypes = []
        self._libc = libc
        self._handle = libc.dlmopen(_LM_ID_NEWLM, bytes(path), _RTLD_NOW)
        if not self._handle:
            raise DisassemblerError(f"cannot open {path}: {self._error()}")
        for part in ("TargetInfo", "TargetMC", "Disassembler"):
            self._function(f"LLVMInitializeAMDGPU{part}", None)()
        pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        self.create = self._function(
            "LLVMCreateDisasmCPUFeatures",
            pointer,
            *(text, text, text, pointer, ctypes.c_int, pointer, pointer),
        )
        self.options = self._function(
            "LLVMSetDisasmOptions", ctypes.c_int, pointer, ctypes.c_uint64
        )
        self.instruction = self._function(
            "LLVMDisasmInstruction",
            size,
            *(pointer, pointer, ctypes.c_uint64, ctypes.c_uint64, text, size),
        )

    def _function(self, name: str, result: type | None, *arguments: type) -> Any:
        address = self._libc.dlsym(self._handle, name.encode())
        if not address:
            raise DisassemblerError(f"librocmllvm.so has no {name}: {self._error()}")
        return ctypes.CFUNCTYPE(result, *arguments)(address)

    def _error(self) -> str:
        return (self._libc.dlerror() or b"unknown error").decode(errors="replace")


_lock = threading.Lock()
_library: _Library | None = None
_contexts: dict[str, int] = {}


def _context(cpu: str) -> tuple[_Library, int]:
    global _library
    if cpu not in TARGETS:  # the library would end the process
        raise DisassemblerError(f"no processor {cpu!r}: expected one of {', '.join(TARGETS)}")
    if _library is None:
        _library = _Library()
    if cpu not in _contexts:
        created = _library.create(_TRIPLE, cpu.encode(), b"", None, 0, None, None)
        if not created:
            raise DisassemblerError(f"the disassembler library knows no processor {cpu!r}")
        _library.options(created, _PRINT_IMM_HEX)
        _contexts[cpu] = created
    return _library, _contexts[cpu]


_VOP3_READLANE = 0x289
"""The only VOP3 opcode with a scalar result besides comparisons, which are those below 0x100."""


def _crashes_printer(low: int, high: int) -> bool:
    """Whether the library would end the process on this (invalid) instruction word pair.

    Its printer has no answer to reserved encodings that no assembler emits: found by running it
    over random words in child processes.
    """
    top = low >> 26
    if top == 0x34:  # VOP3, VOP3P: a literal as a source, or as a scalar result
        opcode = low >> 16 & 0x3FF
        result = low & 0xFF if opcode < 0x100 or opcode == _VOP3_READLANE else 0
        return 0xFF in (result, high & 0x1FF, high >> 9 & 0x1FF, high >> 18 & 0x1FF)
    if top in (0x38, 0x3A):  # MUBUF, MTBUF: a literal as the scalar offset
        return high >> 24 == 0xFF
    if low >> 31 == 0 and low & 0x1FF == 0xF9:  # SDWA: a reserved byte or word selection
        return 7 in (high >> 8 & 7, high >> 16 & 7, high >> 24 & 7)
    return False


def _compare_exec_bit(low: int) -> int:
    """The opcode bit that makes a comparison in VOP3 form a ``v_cmpx``; 0 for all other words.

    The library does not know ``v_cmpx`` in this form: such a word is read as the ``v_cmp`` beside
    it. Source of the opcodes: AMD Instinct MI300 ISA guide, *VOPC opcodes*.
    """
    opcode = low >> 16 & 0x3FF
    if low >> 26 != 0x34 or opcode > 0xFF:
        return 0
    if opcode in (0x11, 0x13, 0x15):
        return 1 << 16
    return 1 << 20 if opcode & 0x10 and opcode >> 5 not in (0, 4) else 0


class Disassembler:
    """Disassembles the instructions of one stretch of code, in any order.

    Safe to use from several threads. Raises :class:`DisassemblerError` when the library is missing
    or does not know processor ``arch``.
    """

    def __init__(self, code: bytes, arch: str) -> None:
        self.size = len(code)
        self._data = ctypes.create_string_buffer(code, self.size + _PADDING)
        self._base = ctypes.addressof(self._data)
        self._words = struct.unpack_from(f"<{self.size // 4 + 1}I", self._data)
        self._out = ctypes.create_string_buffer(_LINE_BYTES)
        with _lock:
            self._library, self._context = _context(arch)

    def word(self, offset: int) -> int:
        """The 32-bit word at a byte offset that is a multiple of 4."""
        return self._words[offset // 4]

    def line(self, offset: int) -> Line:
        """The instruction at a byte offset. Branch distances are printed as 16-bit numbers."""
        i, room = offset // 4, self.size - offset
        if offset % 4 or room < 4 or _crashes_printer(self._words[i], self._words[i + 1]):
            return Line(offset, 4, "")
        out, source = self._out, self._base + offset
        exec_bit = _compare_exec_bit(self._words[i])
        if exec_bit:
            words = (ctypes.c_uint32 * 2)(self._words[i] ^ exec_bit, self._words[i + 1])
            source, room = ctypes.addressof(words), min(room, 8)
        with _lock:
            size = self._library.instruction(
                self._context,
                source,
                room + (0 if exec_bit else _PADDING),
                offset,
                out,
                _LINE_BYTES,
            )
            text = out.value.decode(errors="replace").partition(" ;")[0].strip()
        if exec_bit:
            text = text.replace("v_cmp_", "v_cmpx_", 1)
        if not 0 < size <= room or "/*" in text:
            return Line(offset, 4, "")
        return Line(offset, size, text)


def disassemble(code: bytes, arch: str) -> list[Line]:
    """All instructions of ``code`` for processor ``arch``, one after the other."""
    disassembler = Disassembler(code, arch)
    lines: list[Line] = []
    offset = 0
    while offset < len(code):
        lines.append(disassembler.line(offset))
        offset += lines[-1].size
    return lines
