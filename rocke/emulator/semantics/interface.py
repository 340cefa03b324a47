"""What the translator gets for an instruction: helper calls, and the registry of lowerings.

An instruction becomes a sequence of calls of *helpers*: LLVM IR functions that are compiled once
for the host and shared by all kernels. A helper never contains a register number: addresses and
scalar values come in as arguments, so that one helper serves every instruction of its form.

A module of this package registers what it knows with :func:`lowering`::

    @lowering("ds_read_b128")
    def _ds_read_b128(inst: Instruction, ctx: LoweringContext) -> Lowered: ...

Importing :mod:`rocke.emulator.semantics` imports every module of the package, and with that fills
the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from rocke.emulator.instruction import Instruction


class UnknownInstruction(Exception):
    """An instruction, or a form of one, that the semantics table does not hold.

    ``instruction`` is the instruction and ``why`` the missing part.
    """

    def __init__(self, instruction: Instruction, why: str) -> None:
        super().__init__(
            f"{instruction.text or instruction.mnemonic} at {instruction.address:#x}: {why}"
        )
        self.instruction = instruction
        self.why = why

    def __reduce__(self) -> tuple[type[UnknownInstruction], tuple[Instruction, str]]:
        return UnknownInstruction, (self.instruction, self.why)


@dataclass(frozen=True)
class FloatMode:
    """The part of the MODE register that is fixed when an instruction is lowered.

    ``denormals_f32`` and ``denormals_f64_f16`` are the register's two-bit fields: bit 0 keeps
    subnormal inputs, bit 1 keeps subnormal results. ``fp16_overflow`` (FP16_OVFL): an f16 or 8-bit
    float result that overflows becomes the largest number. ``vgpr_index`` is what
    ``s_set_gpr_idx_on`` chose: bits for sources 0-2 and the result, 0 when it is off. The default
    is what compilers set for CDNA kernels: round to nearest even, all subnormals kept, IEEE and
    DX10_CLAMP on. Source: AMD Instinct MI300 ISA guide, *Mode register*.
    """

    denormals_f32: int = 3
    denormals_f64_f16: int = 3
    round_f32: int = 0
    round_f64_f16: int = 0
    dx10_clamp: bool = True
    ieee: bool = True
    fp16_overflow: bool = False
    vgpr_index: int = 0

    @classmethod
    def from_register(cls, mode: int) -> FloatMode:
        """The mode that a MODE register value holds (``vgpr_index`` is not there)."""
        return cls(
            round_f32=mode & 3,
            round_f64_f16=mode >> 2 & 3,
            denormals_f32=mode >> 4 & 3,
            denormals_f64_f16=mode >> 6 & 3,
            dx10_clamp=bool(mode >> 8 & 1),
            ieee=bool(mode >> 9 & 1),
            fp16_overflow=bool(mode >> 23 & 1),
        )

    def register(self) -> int:
        """The value of the MODE register."""
        return (
            self.round_f32
            | self.round_f64_f16 << 2
            | self.denormals_f32 << 4
            | self.denormals_f64_f16 << 6
            | int(self.dx10_clamp) << 8
            | int(self.ieee) << 9
            | int(self.fp16_overflow) << 23
            | int(self.vgpr_index != 0) << 27
        )

    @property
    def tag(self) -> str:
        """A short name for helper names; empty for the default."""
        return "" if self == FloatMode() else f"mode{self.register():x}"

    @property
    def plain(self) -> FloatMode:
        """The mode without register indexing: what arithmetic depends on."""
        return replace(self, vgpr_index=0) if self.vgpr_index else self


@dataclass(frozen=True)
class LoweringContext:
    """What a lowering may depend on besides the instruction.

    ``exec_full`` says that EXEC is all ones wherever the calls run.
    """

    arch: str
    exec_full: bool
    mode: FloatMode = FloatMode()


@dataclass(frozen=True)
class RegPtr:
    """A pointer argument: the address of the wave state plus ``offset`` bytes."""

    offset: int


@dataclass(frozen=True)
class ScalarReg:
    """A value argument: the SGPR(s) from ISA operand number ``index``, as i32 or i64.

    ``index`` counts dwords from the first SGPR and may go beyond the registers, into scratch rows.
    """

    index: int
    width: Literal[32, 64] = 32


@dataclass(frozen=True)
class Imm:
    """A constant argument of 32 or 64 bits; ``value`` is the unsigned bit pattern."""

    value: int
    width: Literal[32, 64] = 32


class _Wave(Enum):
    WAVE = "wave"


WAVE = _Wave.WAVE
"""The argument that is the address of the wave state."""

Arg = RegPtr | ScalarReg | Imm | Literal[_Wave.WAVE]


@dataclass(frozen=True)
class Helper:
    """One host function of the helper library.

    ``name`` is unique for the variant (same name, same text) and a plain LLVM symbol. ``ir`` gives
    the text of one LLVM IR ``define`` of that name, returning ``i32`` (0, or nonzero after
    a fault) when ``can_fault`` is set and ``void`` otherwise; ``declares`` are the declarations of
    the functions that it calls.
    """

    name: str
    ir: Callable[[], str] = field(compare=False)
    declares: frozenset[str] = frozenset()
    can_fault: bool = False


@dataclass(frozen=True)
class HelperCall:
    """A call of ``helper``: ptr for RegPtr and WAVE, i32 or i64 by width for the others."""

    helper: Helper
    args: tuple[Arg, ...]


@dataclass(frozen=True)
class Lowered:
    """The meaning of one instruction.

    ``writes_exec``: EXEC may differ afterwards, so code that assumes a full EXEC must end here.
    ``mode``: the floating-point mode from here on, when the instruction changes it.
    """

    calls: tuple[HelperCall, ...]
    writes_exec: bool = False
    can_fault: bool = False
    mode: FloatMode | None = None


LoweringFunction = Callable[[Instruction, LoweringContext], Lowered]

_TABLE: dict[str, LoweringFunction] = {}


def register(mnemonic: str, function: LoweringFunction) -> None:
    """Make ``function`` lower ``mnemonic``. Raises ValueError if it is registered already."""
    if mnemonic in _TABLE:
        raise ValueError(f"{mnemonic}: registered twice")
    _TABLE[mnemonic] = function


def lowering(*mnemonics: str) -> Callable[[LoweringFunction], LoweringFunction]:
    """Decorator: the function lowers these mnemonics (without encoding suffix)."""

    def decorate(function: LoweringFunction) -> LoweringFunction:
        for mnemonic in mnemonics:
            register(mnemonic, function)
        return function

    return decorate


def find_lowering(mnemonic: str) -> LoweringFunction | None:
    """What :func:`register` was given."""
    return _TABLE.get(mnemonic)


def known_mnemonics() -> frozenset[str]:
    """All mnemonics in the table."""
    return frozenset(_TABLE)
