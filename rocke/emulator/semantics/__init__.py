"""Instruction semantics: one table from mnemonics to host code.

:func:`lower` turns a decoded instruction into calls of helpers; see
:mod:`rocke.emulator.semantics.interface`. Every module of this package registers its instructions
when it is imported.
"""

from __future__ import annotations

import importlib
import pkgutil

from rocke.emulator.semantics.dispatch import lower
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    FloatMode,
    Helper,
    HelperCall,
    Imm,
    Lowered,
    LoweringContext,
    RegPtr,
    ScalarReg,
    UnknownInstruction,
    known_mnemonics,
    lowering,
    register,
)

__all__ = [
    "WAVE",
    "Arg",
    "FloatMode",
    "Helper",
    "HelperCall",
    "Imm",
    "Lowered",
    "LoweringContext",
    "RegPtr",
    "ScalarReg",
    "UnknownInstruction",
    "known_mnemonics",
    "lower",
    "lowering",
    "register",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
