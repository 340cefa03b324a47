"""Options of the matrix helpers, and the steps that all of them share."""

from __future__ import annotations

from dataclasses import dataclass

from rocke.emulator.semantics.matrix_elements import ElementReader, flush_subnormal
from rocke.emulator.semantics.matrix_forms import MatrixForm
from rocke.emulator.semantics.memory_ir import IRWriter


@dataclass(frozen=True)
class MatrixOptions:
    """What distinguishes the variants of one form.

    ``constant_c``: C is a scalar argument. ``copy_c``: C and D overlap without being equal.
    ``cbsz``, ``abid``: blocks in groups of ``2 ** cbsz`` all use A of block ``abid`` of the group.
    ``blgp``: which 16-lane groups B is taken from. ``neg_a``, ``neg_c``: f64 signs (``neg_a`` is
    the product of the signs of A and B). ``flush``: subnormal f16 and bf16 operands and f32 C and D
    become zero. ``fnuz``: format of fp8 and bf8. ``scaled``: two more arguments, rows of E8M0
    exponents, whose bytes ``scale_bytes`` choose.
    """

    constant_c: bool = False
    copy_c: bool = False
    cbsz: int = 0
    abid: int = 0
    blgp: int = 0
    neg_a: bool = False
    neg_c: bool = False
    flush: bool = False
    fnuz: bool = False
    scaled: bool = False
    scale_bytes: tuple[int, int] = (0, 0)


BLGP_GROUPS = (
    (0, 1, 2, 3),
    (0, 1, 0, 1),
    (2, 3, 2, 3),
    (1, 2, 3, 0),
    (0, 0, 0, 0),
    (1, 1, 1, 1),
    (2, 2, 2, 2),
    (3, 3, 3, 3),
)
"""Source group of each 16-lane group of B, by blgp."""


def multiply_add(w: IRWriter, type_: str, a: str, b: str, c: str) -> str:
    """c + a * b, fused for floats, of vectors of ``type_``."""
    if type_.endswith("x i32>"):
        return w.new(f"add {type_} {c}, {w.new(f'mul {type_} {a}, {b}')}")
    lanes, scalar = type_.strip("<>").split(" x ")
    suffix = f"v{lanes}{'f64' if scalar == 'double' else 'f32'}"
    return w.call(type_, f"llvm.fma.{suffix}", (type_, a), (type_, b), (type_, c))


def readers(
    w: IRWriter, form: MatrixForm, options: MatrixOptions, lanes: int
) -> tuple[ElementReader, ElementReader]:
    """Readers of A and B."""
    flush, fnuz = options.flush, options.fnuz
    return (
        ElementReader(w, "%a", form.a, lanes, flush, fnuz, options.neg_a),
        ElementReader(w, "%b", form.b, lanes, flush, fnuz),
    )


def flush_result(w: IRWriter, options: MatrixOptions, value: str, lanes: int) -> str:
    """f32 values of C or D, subnormals flushed where the options say so."""
    return flush_subnormal(w, value, lanes) if options.flush else value
