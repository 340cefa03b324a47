"""Facts about the targets, as one typed table: see :mod:`rocke.arch.targets`."""

from rocke.arch.hazards import Hazard
from rocke.arch.matrix import CYCLES_PER_PASS, F8F6F4_NARROW_CYCLES, MatrixOp
from rocke.arch.memory import Latencies, LdsPhases
from rocke.arch.targets import (
    GFX90A,
    GFX942,
    GFX950,
    TARGETS,
    Target,
    UnknownMatrixOp,
    UnknownTarget,
    target,
)

__all__ = [
    "CYCLES_PER_PASS",
    "F8F6F4_NARROW_CYCLES",
    "GFX90A",
    "GFX942",
    "GFX950",
    "TARGETS",
    "Hazard",
    "Latencies",
    "LdsPhases",
    "MatrixOp",
    "Target",
    "UnknownMatrixOp",
    "UnknownTarget",
    "target",
]
