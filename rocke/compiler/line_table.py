"""The DWARF line table of a code object: which source line each instruction came from."""

from __future__ import annotations

import io
import posixpath
from typing import Any, NamedTuple

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

from rocke.compiler.code_object import CodeObject, CodeObjectError


class LineEntry(NamedTuple):
    """Instructions from ``address`` on, up to the next entry, belong to ``file`` and ``line``.

    ``address`` is an ELF virtual address, as ``KernelInfo.entry_address``. ``line`` 0 says that the
    instructions belong to no line.
    """

    address: int
    file: str
    line: int


def line_table(code_object: CodeObject) -> list[LineEntry]:
    """The line table, sorted by address; empty for a code object without debug information.

    Raises :class:`CodeObjectError` for a damaged table.
    """
    try:
        elf = ELFFile(io.BytesIO(code_object.data))
        if elf.get_section_by_name(".debug_line") is None:
            return []
        dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        found: dict[int, LineEntry] = {}
        for unit in dwarf.iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            if program is not None:
                for entry in _entries(program):
                    found[entry.address] = entry
        return [found[address] for address in sorted(found)]
    except (DWARFError, ELFError, ValueError, KeyError, IndexError, TypeError) as error:
        raise CodeObjectError(f"damaged line table ({type(error).__name__}: {error})") from error


def _entries(program: Any) -> list[LineEntry]:
    header = program.header
    files = [_file_name(header, file) for file in header["file_entry"]]
    first = 0 if header["version"] >= 5 else 1
    entries = []
    for item in program.get_entries():
        state = item.state
        if state is None:
            continue
        if state.end_sequence:
            entries.append(LineEntry(state.address, "", 0))
            continue
        index = state.file - first
        name = files[index] if 0 <= index < len(files) else ""
        entries.append(LineEntry(state.address, name, state.line))
    return entries


def _file_name(header: Any, file: Any) -> str:
    name = file.name.decode("utf-8", "replace")
    index = file.dir_index
    folders = header["include_directory"]
    folder = b""
    if header["version"] >= 5 and index < len(folders):
        folder = folders[index]
    elif 0 < index <= len(folders):
        folder = folders[index - 1]
    return posixpath.join(folder.decode("utf-8", "replace"), name)
