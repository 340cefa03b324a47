"""Sub-dword addressing: byte and word selects of sources and of the result.

Source: AMD Instinct MI300 ISA guide, *SDWA*. A selected source is zero-extended to 32 bits, or
sign-extended under ``sext``. The result's low bits go to the selected byte or word; the rest of the
register becomes 0 (UNUSED_PAD), the sign above and 0 below (UNUSED_SEXT), or stays
(UNUSED_PRESERVE).
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke.emulator.instruction import Instruction
from rocke.emulator.semantics.expr import I32, U32, Value
from rocke.emulator.semantics.interface import UnknownInstruction

_SELECTS = {
    "DWORD": (0, 32),
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    **{f"BYTE_{i}": (8 * i, 8) for i in range(4)},
}
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")


@dataclass(frozen=True)
class SdwaControl:
    """The selects of one instruction, as names of the assembly syntax."""

    dst_sel: str
    dst_unused: str
    src_sel: tuple[str, str]

    @property
    def preserves(self) -> bool:
        """Whether the result depends on the old register."""
        return self.dst_unused == "UNUSED_PRESERVE" and self.dst_sel != "DWORD"

    @property
    def tag(self) -> str:
        """For helper names."""
        return "_".join((self.dst_sel, self.dst_unused, *self.src_sel)).lower()

    def select_source(self, raw: Value, index: int, sext: bool) -> Value:
        """The selected part of source ``index``, extended to 32 bits."""
        if index > 1:
            return raw
        low, bits = _SELECTS[self.src_sel[index]]
        if bits == 32:
            return raw
        if sext:
            return (raw.view(I32) << (32 - low - bits) >> (32 - bits)).view(U32)
        shifted = raw >> low if low else raw
        return shifted & ((1 << bits) - 1) if low + bits < 32 else shifted

    def place_result(self, raw: Value, old: Value | None) -> Value:
        """The register's new value from the result's low bits."""
        low, bits = _SELECTS[self.dst_sel]
        if bits == 32:
            return raw
        mask = (1 << bits) - 1
        if self.dst_unused == "UNUSED_SEXT":
            return (raw.view(I32) << (32 - bits) >> (32 - bits - low)).view(U32) & (
                0xFFFF_FFFF << low & 0xFFFF_FFFF
            )
        placed = (raw & mask) << low if low else raw & mask
        if self.dst_unused == "UNUSED_PRESERVE":
            assert old is not None
            return old & (0xFFFF_FFFF ^ mask << low) | placed
        return placed


def sdwa_control(inst: Instruction) -> SdwaControl:
    """The selects of an SDWA instruction."""
    modifiers = inst.modifiers
    selects = [str(modifiers.get(k, "DWORD")) for k in ("dst_sel", "src0_sel", "src1_sel")]
    unused = str(modifiers.get("dst_unused", "UNUSED_PAD"))
    for name in selects:
        if name not in _SELECTS:
            raise UnknownInstruction(inst, f"SDWA select {name!r} is not known")
    if unused not in _UNUSED:
        raise UnknownInstruction(inst, f"dst_unused {unused!r} is not known")
    return SdwaControl(selects[0], unused, (selects[1], selects[2]))
