"""Figures of the fast block-sparse attention kernel, by counters, as a table in markdown.

    python tools/bench/attention_figures.py [--write docs/attention-figures.md]

All are counts of what the emulated device executes, or facts of the code object: the same on every
machine. Two launches whose query block attends few and many key blocks differ by the main loop
alone; their difference is given for one wave's work on 32 query rows and 64 keys. All keys of a
launch are equal, so that no row is rescaled. ``--write`` puts the tables between the markers of a
document instead of printing them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rocke.arch import TARGETS
from rocke.compiler import compile_kernel
from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice
from rocke.emulator.counters import Counters, InstructionClass
from rocke.kernels.common.block_sparse_attention import BlockSparseAttentionSpec
from rocke.kernels.registry import family
from rocke.runtime import Launcher

BEGIN, END = "<!-- figures begin -->", "<!-- figures end -->"
FEW, MANY = 4, 20
"""Key blocks of the two launches."""
ROWS, KEYS = 32, 64
"""Query rows and keys of the work that figures are given for."""
KINDS = [(arch, dtype) for arch in reversed(list(TARGETS)) for dtype in ("f16", "bf16")]
SIZES, BLOCKS, LSE_SIZE = (64, 128), (64, 128), 128
FAMILY = family("block_sparse_attention")
HEADINGS = (
    "target, type, D, block",
    "instructions",
    "matrix",
    "vector",
    "vector a matrix",
    "LDS bytes read",
    "conflicts: reads, writes",
    "memory bytes a workgroup",
    "VGPR",
    "LDS bytes a workgroup",
    "waves a workgroup, a SIMD",
)
LSE_HEADINGS = ("target, type, block", "instructions", "with need_lse")


@dataclass(frozen=True)
class Figures:
    """One kernel: what a wave executes for 32 rows by 64 keys, and what it occupies.

    ``lds_bytes`` are read by that wave for this work, ``memory_bytes`` by its workgroup for the 64
    keys; ``read_conflicts`` and ``write_conflicts`` are LDS cycles of the wave's share.
    """

    instructions: float
    matrix: float
    vector: float
    lds_bytes: float
    read_conflicts: float
    write_conflicts: float
    memory_bytes: float
    registers: int
    lds: int
    waves: int
    waves_per_simd: float

    def cells(self) -> list[str]:
        """As the table shows them, in the order of the headings."""
        return [
            number(self.instructions),
            number(self.matrix),
            number(self.vector),
            f"{self.vector / self.matrix:.2f}",
            number(self.lds_bytes),
            f"{number(self.read_conflicts)}, {number(self.write_conflicts)}",
            number(self.memory_bytes),
            str(self.registers),
            number(self.lds),
            f"{self.waves}, {self.waves_per_simd:g}",
        ]


def number(value: float) -> str:
    """Whole numbers without a fraction, others with one digit."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def counted(
    device: EmulatedDevice, code: CodeObject, spec: BlockSparseAttentionSpec, blocks: int
) -> Counters:
    """One query block that attends ``blocks`` key blocks, all keys equal."""
    problem = FAMILY.make_problem(
        spec,
        np.random.default_rng(0),
        density=1.0,
        heads=1,
        seqlen_q=spec.block_q,
        seqlen_k=blocks * spec.block_k,
    )
    given = problem.arguments
    given["K"][...] = given["K"][:, :, :1]
    Launcher.of_family(device, code, FAMILY, spec, given)(**given)
    assert device.counters is not None
    return device.counters


def figures(spec: BlockSparseAttentionSpec, arch: str) -> Figures:
    """Compile the kernel of a spec and measure it."""
    code = compile_kernel(FAMILY.build(spec, arch), arch)
    device = EmulatedDevice(arch, counters="full", threads=1)
    few, many = (counted(device, code, spec, blocks) for blocks in (FEW, MANY))
    key_tiles = (MANY - FEW) * spec.block_k // KEYS
    tiles = key_tiles * spec.block_q // ROWS

    def per_tile(count: float, before: float) -> float:
        return (count - before) / tiles

    def executed(class_: InstructionClass) -> float:
        return per_tile(many.by_class[class_], few.by_class[class_])

    def moved(level: str) -> int:
        levels = many.bytes_by_level, few.bytes_by_level
        assert levels[0] is not None
        assert levels[1] is not None
        return levels[0][level][0] - levels[1][level][0]

    def conflicts(kind: str) -> float:
        return per_tile(*(sum(conflict_cycles(c, kind)) for c in (many, few)))

    return Figures(
        instructions=per_tile(many.instructions, few.instructions),
        matrix=executed(InstructionClass.MATRIX),
        vector=executed(InstructionClass.VECTOR),
        lds_bytes=moved("lds") / tiles,
        read_conflicts=conflicts("read"),
        write_conflicts=conflicts("write"),
        memory_bytes=moved("global") / key_tiles,
        registers=many.resources.vgprs,
        lds=many.resources.lds,
        waves=spec.resolve(arch).work_items // 64,
        waves_per_simd=many.resources.waves_per_simd,
    )


def conflict_cycles(counters: Counters, kind: str) -> Iterator[int]:
    """Of the LDS instructions that read or that write (direct copies among them)."""
    for row in counters.detail or ():
        if ("read" in row.mnemonic) == (kind == "read"):
            yield row.lds_conflicts


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table; all columns but the first are numbers."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


Rows = list[list[str]]


def kernels(arch: str, dtype: str) -> tuple[Rows, Rows]:
    """The rows of one target and type in both tables."""
    rows, with_lse = [], []
    for size in SIZES:
        for block in BLOCKS:
            spec = BlockSparseAttentionSpec(size, dtype, block, block)
            found = figures(spec, arch)
            rows.append([f"{arch}, {dtype}, {size}, {block}", *found.cells()])
            if size == LSE_SIZE:
                costs = found.instructions, figures(replace(spec, need_lse=True), arch).instructions
                with_lse.append([f"{arch}, {dtype}, {block}", *map(number, costs)])
    return rows, with_lse


def tables() -> str:
    """Both tables: the tuned sizes, and what the logarithm of the row sums costs."""
    found = [kernels(arch, dtype) for arch, dtype in KINDS]
    rows, with_lse = ([row for part in found for row in part[i]] for i in range(2))
    between = f"\nThe same work with D = {LSE_SIZE}:\n\n"
    return table(HEADINGS, rows) + between + table(LSE_HEADINGS, with_lse)


def between_markers(document: str) -> str:
    """The tables that a document holds. Raises ``ValueError`` without the markers, in order."""
    begin, end = document.find(BEGIN), document.find(END)
    if not 0 <= begin < end:
        raise ValueError(f"expected the lines {BEGIN} and {END}, in this order")
    return document[begin + len(BEGIN) : end].strip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="DOCUMENT")
    options = parser.parse_args()
    if options.write is None:
        print(tables(), end="")
        return
    document = options.write.read_text()
    between_markers(document)
    before, after = document.split(BEGIN)[0], document.split(END)[1]
    options.write.write_text(f"{before}{BEGIN}\n{tables()}{END}{after}")


if __name__ == "__main__":
    main()
