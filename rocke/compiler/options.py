"""What a caller may choose about a compilation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CODE_OBJECT_VERSION = 5
"""ROCm 6 and ROCm 7 both load version 5 (LLVM's own default is 6)."""


@dataclass(frozen=True)
class CompileOptions:
    """Choices that change the bytes; all of them are part of the cache key.

    ``opt_level`` is LLVM's optimisation level, 0 to 3, of module passes and code generation.
    ``linker`` is the path of another ``ld.lld`` (ROCm's, the system's); ``None`` takes the pinned
    one. Each linker leaves its own vendor string in the bytes.

    Raises ``ValueError`` for a level outside 0 to 3.
    """

    opt_level: int = 3
    linker: str | None = None

    def __post_init__(self) -> None:
        if self.opt_level not in (0, 1, 2, 3):
            raise ValueError(f"opt_level is {self.opt_level!r}, expected 0, 1, 2 or 3")

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, as plain values."""
        return {"opt_level": self.opt_level, "linker": self.linker}


DEFAULT_OPTIONS = CompileOptions()
