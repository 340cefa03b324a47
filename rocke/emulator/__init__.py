"""The emulated device: executes HSACO code objects on the CPU.

:class:`EmulatedDevice` is imported when it is first used, so that the disassembler and the decoder
can be used alone without loading the compiler of host code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocke.emulator.checks.findings import CheckError, CheckReport, Finding
    from rocke.emulator.checks.kinds import Check
    from rocke.emulator.counters import Counters, InstructionClass
    from rocke.emulator.device import EmulatedDevice

__all__ = [
    "Check",
    "CheckError",
    "CheckReport",
    "Counters",
    "EmulatedDevice",
    "Finding",
    "InstructionClass",
]


def __getattr__(name: str) -> Any:
    if name == "EmulatedDevice":
        try:
            from rocke.emulator.device import EmulatedDevice
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in ("llvmlite", "rocm"):
                raise
            raise ModuleNotFoundError(
                f"the emulated device needs {error.name}, which is not installed: "
                "pip install 'rocke[emulator]'",
                name=error.name,
            ) from None
        return EmulatedDevice
    if name in ("Counters", "InstructionClass"):
        from rocke.emulator import counters

        return getattr(counters, name)
    if name in ("CheckError", "CheckReport", "Finding"):
        from rocke.emulator.checks import findings

        return getattr(findings, name)
    if name == "Check":
        from rocke.emulator.checks.kinds import Check

        return Check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
