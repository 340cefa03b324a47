"""Source lines of instructions, from the code object's DWARF line table."""

from __future__ import annotations

import functools
import posixpath
from bisect import bisect_right
from collections.abc import Sequence

from rocke.compiler.code_object import CodeObject, CodeObjectError
from rocke.compiler.line_table import line_table
from rocke.emulator.blocks import Program


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

    def near(self, base: int, address: int, block: Sequence[int]) -> str:
        """``file:line`` of ``base + address``, or ``near file:line``: the closest line before it.

        Compilers give an instruction that they merged from several no line. ``block`` are the
        addresses of the instructions around it, in order, as far as one follows the other.
        """
        exact = self.at(base + address)
        earlier = (self.at(base + other) for other in reversed(block) if other < address)
        found = exact or next(filter(None, earlier), "")
        return found if exact or not found else f"near {found}"


def block_around(program: Program, address: int) -> list[int]:
    """The addresses of the instructions in the block that holds the one at ``address``."""
    for block in program.blocks:
        if block.instructions and block.start <= address <= block.instructions[-1].address:
            found = [inst.address for inst in block.instructions]
            if address in found:
                return found
    return []
