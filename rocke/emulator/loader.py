"""Puts a code object into memory: segments at their addresses, relocations applied.

Source of the relocation types: LLVM "User Guide for AMDGPU Backend", *Relocation Records*.
"""

from __future__ import annotations

import io
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from rocke.compiler.code_object import CodeObject, CodeObjectError, KernelInfo
from rocke.emulator.memory import Range

_R_ABS64, _R_RELATIVE64 = 3, 13
_IMAGE_LIMIT = 1 << 30
_PF_W = 2


@dataclass(frozen=True, eq=False)
class Segments:
    """A code object's segments in ``memory``, which its kernels share.

    ``ranges`` may be read (and written, for data segments) by kernels.
    """

    memory: np.ndarray
    ranges: tuple[Range, ...]

    @property
    def base(self) -> int:
        """Where address 0 of the ELF file is in memory."""
        return int(self.memory.ctypes.data)


@dataclass(frozen=True)
class Variable:
    """A variable of a code object: its ELF address and size, and whether kernels may write it."""

    offset: int
    nbytes: int
    writable: bool


@dataclass(frozen=True, eq=False)
class Image:
    """A kernel of a code object in memory.

    ``text`` is the code of the section that holds the kernel, ``text_address`` where its first
    byte is in memory and ``text_virtual`` its address in the ELF file; ``entry`` and ``functions``
    (what the kernel may call: all functions that are no kernels) are offsets in the text.
    """

    text: bytes
    text_address: int
    text_virtual: int
    entry: int
    functions: tuple[int, ...]
    segments: Segments


def load_segments(code_object: CodeObject) -> Segments:
    """Put ``code_object`` into memory of its own. Raises :class:`CodeObjectError`."""
    with _reading("segments and relocations"):
        return _load_segments(code_object)


def load_image(
    code_object: CodeObject, info: KernelInfo, segments: Segments | None = None
) -> Image:
    """The kernel ``info`` of ``code_object``, which ``segments`` holds (loaded unless given).

    Raises :class:`CodeObjectError`.
    """
    with _reading("segments and functions"):
        return _load_image(code_object, info, segments or _load_segments(code_object))


def find_variable(code_object: CodeObject, name: str) -> Variable | None:
    """The global variable of that name, ``None`` without one. Raises :class:`CodeObjectError`."""
    if name in {kernel.symbol for kernel in code_object.kernels}:  # a descriptor is an object too
        return None
    with _reading("symbol table"):
        return _find_variable(ELFFile(io.BytesIO(code_object.data)), name)


@contextmanager
def _reading(part: str) -> Iterator[None]:
    try:
        yield
    except CodeObjectError:
        raise
    except (MemoryError, OSError):  # the host's, not the object's
        raise
    except Exception as error:  # pyelftools lets construct's own errors through
        raise CodeObjectError(f"damaged code object: the {part} cannot be read") from error


def _load_segments(code_object: CodeObject) -> Segments:
    elf = ELFFile(io.BytesIO(code_object.data))
    segments = list(elf.iter_segments("PT_LOAD"))
    size = max(s["p_vaddr"] + s["p_memsz"] for s in segments)
    if size > _IMAGE_LIMIT:
        raise CodeObjectError(f"the code object wants {size} bytes, more than {_IMAGE_LIMIT}")
    memory = np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8)
    base = memory.ctypes.data
    ranges = []
    for segment in segments:
        start, data = segment["p_vaddr"], segment.data()
        memory[start : start + len(data)] = np.frombuffer(data, dtype=np.uint8)
        what = "code object" if not segment["p_flags"] & _PF_W else "code object's data"
        ranges.append(
            Range(
                base + start,
                base + start + segment["p_memsz"],
                bool(segment["p_flags"] & _PF_W),
                what,
            )
        )
    _relocate(elf, memory, base)
    return Segments(memory, tuple(ranges))


def _load_image(code_object: CodeObject, info: KernelInfo, segments: Segments) -> Image:
    elf = ELFFile(io.BytesIO(code_object.data))
    offset, length = info.text
    virtual = info.entry_address - (info.entry - offset)
    return Image(
        text=code_object.data[offset : offset + length // 4 * 4],
        text_address=segments.base + virtual,
        text_virtual=virtual,
        entry=info.entry - offset,
        functions=tuple(
            f
            for f in _functions(elf, virtual, length)
            if f not in {k.entry - offset for k in code_object.kernels}
        ),
        segments=segments,
    )


def _find_variable(elf: ELFFile, name: str) -> Variable | None:
    for table in (".dynsym", ".symtab"):
        section = elf.get_section_by_name(table)
        for symbol in (section.get_symbol_by_name(name) if section else None) or ():
            if symbol["st_info"]["type"] != "STT_OBJECT" or not isinstance(symbol["st_shndx"], int):
                continue
            flags = elf.get_section(symbol["st_shndx"])["sh_flags"]
            writable = bool(flags & SH_FLAGS.SHF_WRITE)
            return Variable(symbol["st_value"], symbol["st_size"], writable)
    return None


def _relocate(elf: ELFFile, memory: np.ndarray, base: int) -> None:
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection) or not section["sh_flags"] & 2:
            continue
        symbols = elf.get_section(section["sh_link"])
        for relocation in section.iter_relocations():
            kind, where = relocation["r_info_type"], relocation["r_offset"]
            addend = relocation["r_addend"] if relocation.is_RELA() else 0
            if kind == _R_RELATIVE64:
                value = base + addend
            elif kind == _R_ABS64:
                symbol = symbols.get_symbol(relocation["r_info_sym"])
                if symbol["st_shndx"] == "SHN_UNDEF":
                    raise CodeObjectError(f"undefined symbol {symbol.name!r}: link it in")
                value = base + symbol["st_value"] + addend
            else:
                raise CodeObjectError(f"relocation type {kind} at {where:#x} is not supported")
            if not 0 <= where <= len(memory) - 8:
                raise CodeObjectError(f"relocation at {where:#x} lies outside the code object")
            memory[where : where + 8] = np.frombuffer(
                (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little"), dtype=np.uint8
            )


def _functions(elf: ELFFile, virtual: int, length: int) -> tuple[int, ...]:
    found = set()
    for name in (".symtab", ".dynsym"):
        table = elf.get_section_by_name(name)
        if table is None:
            continue
        for symbol in table.iter_symbols():
            value = symbol["st_value"] - virtual
            if symbol["st_info"]["type"] == "STT_FUNC" and 0 <= value < length and value % 4 == 0:
                found.add(value)
    return tuple(sorted(found))
