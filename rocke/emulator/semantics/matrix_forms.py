"""The dense matrix instructions of CDNA: names, shapes and operand types.

Sources: AMD Instinct MI200, MI300 and CDNA4 ISA guides (chapter *Matrix Arithmetic Instructions*),
AMD matrix instruction calculator.
"""

from __future__ import annotations

from dataclasses import dataclass

ELEMENT_BITS = {
    "f64": 64,
    "f32": 32,
    "xf32": 32,
    "f16": 16,
    "bf16": 16,
    "i8": 8,
    "fp8": 8,
    "bf8": 8,
    "fp6": 6,
    "bf6": 6,
    "fp4": 4,
}
"""Bits of an operand element. ``fp8`` is e4m3, ``bf8`` e5m2, ``fp6`` e2m3, ``bf6`` e3m2, ``fp4``
e2m1."""

F8F6F4_FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")
"""Formats that ``cbsz`` (A) and ``blgp`` (B) of the f8f6f4 instructions choose."""


@dataclass(frozen=True)
class MatrixForm:
    """``blocks`` independent products D = A x B + C of M x K by K x N (N = M) elements."""

    m: int
    k: int
    blocks: int
    a: str
    b: str
    result: str

    @property
    def chunks(self) -> int:
        """Groups of ``m`` lanes in a wavefront; each holds its own k (or block) of A and B."""
        return 64 // self.m

    @property
    def elements(self) -> int:
        """Elements of A (or B) in one lane."""
        return self.m * self.k * self.blocks // 64

    @property
    def result_registers(self) -> int:
        """32-bit registers of C and D."""
        return self.m * self.m * self.blocks // 64 * (2 if self.result == "f64" else 1)

    def operand_registers(self, element: str) -> int:
        """32-bit registers of an operand of type ``element``."""
        return self.elements * ELEMENT_BITS[element] // 32


def _spellings(form: MatrixForm, element: str, suffix: str = "") -> tuple[str, ...]:
    shape = f"{form.m}x{form.m}x{form.k}"
    block = f"_{form.blocks}b" if form.blocks > 1 else ""
    names = {
        f"v_mfma_{form.result}_{shape}{element}{suffix}",
        f"v_mfma_{form.result}_{shape}_{element}{suffix}",
        f"v_mfma_{form.result}_{shape}{block}_{element}",
    }
    return tuple(sorted(names))


def _catalogue() -> dict[str, MatrixForm]:
    forms: dict[str, MatrixForm] = {}

    def add(m: int, k: int, blocks: int, element: str, result: str, suffix: str = "") -> None:
        form = MatrixForm(m, k, blocks, element, element, result)
        for name in _spellings(form, element, suffix):
            forms[name] = form

    for m, k, blocks in ((32, 1, 2), (16, 1, 4), (4, 1, 16), (32, 2, 1), (16, 4, 1)):
        add(m, k, blocks, "f32", "f32")
    shapes16 = ((32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 8, 1), (16, 16, 1))
    for m, k, blocks in (*shapes16, (16, 32, 1), (32, 16, 1)):
        add(m, k, blocks, "f16", "f32")
        add(m, k, blocks, "bf16", "f32", "_1k" if (m, k, blocks) in shapes16 else "")
    for m, k, blocks in ((32, 2, 2), (16, 2, 4), (4, 2, 16), (32, 4, 1), (16, 8, 1)):
        add(m, k, blocks, "bf16", "f32")
    for m, k, blocks in (
        (32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 8, 1), (16, 16, 1),
        (16, 32, 1), (32, 16, 1), (16, 64, 1), (32, 32, 1),
    ):  # fmt: skip
        add(m, k, blocks, "i8", "i32")
    for m, k in ((16, 8), (32, 4)):
        add(m, k, 1, "xf32", "f32")
    for m, k in ((16, 32), (32, 16)):
        for a in ("fp8", "bf8"):
            for b in ("fp8", "bf8"):
                forms[f"v_mfma_f32_{m}x{m}x{k}_{a}_{b}"] = MatrixForm(m, k, 1, a, b, "f32")
    for m, k in ((16, 128), (32, 64)):
        form = MatrixForm(m, k, 1, "fp8", "fp8", "f32")
        forms[f"v_mfma_f32_{m}x{m}x{k}_f8f6f4"] = form
        forms[f"v_mfma_scale_f32_{m}x{m}x{k}_f8f6f4"] = form
    for name, m, blocks in (("16x16x4", 16, 1), ("4x4x4", 4, 4)):
        form = MatrixForm(m, 4, blocks, "f64", "f64", "f64")
        block = "_4b" if blocks > 1 else ""
        for spelling in (f"{name}f64", f"{name}_f64", f"{name}{block}_f64"):
            forms[f"v_mfma_f64_{spelling}"] = form
    return forms


MATRIX_FORMS = _catalogue()
"""Mnemonic to form. The disassembler refuses what a target does not have; both the older
(``16x16x16f16``) and the newer spelling (``16x16x16_f16``) are listed. For the f8f6f4 entries
``a`` and ``b`` are replaced by the formats that ``cbsz`` and ``blgp`` choose."""
