"""Source lines of instructions, from the code object's DWARF line table."""

from __future__ import annotations

import functools
import posixpath
from bisect import bisect_right

from rocke.compiler.code_object import CodeObject, CodeObjectError
from rocke.compiler.line_table import line_table


class SourceLines:
    """Looks up ``file:line`` by ELF virtual address. The table is read at the first look-up."""

    def __init__(self, code_object: CodeObject) -> None:
        self._code_object = code_object

    @functools.cached_property
    def _table(self) -> tuple[list[int], list[str]]:
        try:
            entries = line_table(self._code_object)
        except CodeObjectError:
            return [], []
        names = [
            f"{posixpath.normpath(entry.file)}:{entry.line}" if entry.line else ""
            for entry in entries
        ]
        return [entry.address for entry in entries], names

    def at(self, address: int) -> str:
        """``file:line``, or ``""`` where the object does not say."""
        addresses, names = self._table
        i = bisect_right(addresses, address) - 1
        return names[i] if i >= 0 else ""
