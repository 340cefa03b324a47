"""From a decoded instruction to its helper calls, through the table."""

from __future__ import annotations

from rocke.emulator.instruction import Instruction
from rocke.emulator.semantics.interface import (
    FloatMode,
    Lowered,
    LoweringContext,
    UnknownInstruction,
    find_lowering,
)
from rocke.emulator.semantics.special_sources import with_special_sources

_DEFAULT = FloatMode()


def lower(inst: Instruction, arch: str, exec_full: bool, mode: FloatMode = _DEFAULT) -> Lowered:
    """The helper calls that execute ``inst`` on target ``arch``.

    ``exec_full`` chooses the variants for EXEC all ones; ``mode`` is the floating-point mode in
    force. Raises :class:`UnknownInstruction`.
    """
    function = find_lowering(inst.mnemonic)
    if function is None:
        raise UnknownInstruction(inst, "not in the semantics table")
    if mode.vgpr_index and inst.mnemonic.startswith("v_") and inst.mnemonic != "v_mov_b32":
        raise UnknownInstruction(inst, "only v_mov_b32 is supported with indexed registers")
    return with_special_sources(function, inst, LoweringContext(arch, exec_full, mode))
