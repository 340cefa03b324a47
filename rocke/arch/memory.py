"""LDS bank groups, issue costs and latencies.

Sources: pyhip measurements (gfx942), HipKittens (bank phases), FlyDSL and AMD GEAK notes (gfx950),
MI300X simulator configurations (cache latencies). None was measured by this project.
"""

from __future__ import annotations

from dataclasses import dataclass

Lanes = tuple[int, ...]


@dataclass(frozen=True)
class LdsPhases:
    """The groups of lanes that one LDS instruction serves together.

    Lanes of one group must not share a bank (unless they read the same address). ``banks`` is the
    number of 4-byte banks in play, ``groups`` the lanes, each group one phase.
    """

    instruction: str
    banks: int
    groups: tuple[Lanes, ...]


@dataclass(frozen=True)
class Latencies:
    """Costs in cycles. ``None`` means that the target has no such instruction or no figure.

    ``ds_read_issue`` pairs (bits a lane, cycles) are those of one wave alone. ``l2_hit`` and
    ``memory`` are (least, most).
    """

    vector: int
    transcendental: int
    permlane32_swap: int | None
    ds_read_issue: tuple[tuple[int, int], ...]
    ds_read_latency: tuple[tuple[int, int], ...]
    l1_hit: int
    l2_hit: tuple[int, int]
    memory: tuple[int, int]
    buffer_load_x4_issue: int
    direct_lds_load_issue: int | None
    matrix_to_vector_issue: int


def _lanes(*ranges: tuple[int, int]) -> Lanes:
    return tuple(lane for first, last in ranges for lane in range(first, last + 1))


def _both_halves(*groups: Lanes) -> tuple[Lanes, ...]:
    return groups + tuple(tuple(lane + 32 for lane in group) for group in groups)


_SIXTEENS = tuple(_lanes((16 * i, 16 * i + 15)) for i in range(4))

GFX942_LDS_PHASES = (
    LdsPhases("ds_read_b64", 32, _SIXTEENS),  # [pyhip]
    LdsPhases(  # [pyhip, HipKittens]
        "ds_read_b128",
        32,
        _both_halves(
            _lanes((0, 3), (20, 23)),
            _lanes((4, 7), (16, 19)),
            _lanes((8, 11), (28, 31)),
            _lanes((12, 15), (24, 27)),
        ),
    ),
)

GFX950_LDS_PHASES = (
    LdsPhases("ds_read_b64", 64, (_lanes((0, 31)), _lanes((32, 63)))),  # [HipKittens]
    LdsPhases(  # [HipKittens]
        "ds_read_b128",
        64,
        _both_halves(_lanes((0, 3), (12, 15), (20, 27)), _lanes((4, 11), (16, 19), (28, 31))),
    ),
    LdsPhases("ds_write_b64", 32, _SIXTEENS),  # [HipKittens]
)

GFX942_LATENCIES = Latencies(
    vector=4,  # [pyhip]
    transcendental=16,  # [pyhip]
    permlane32_swap=None,
    ds_read_issue=((32, 4), (64, 8), (128, 16)),  # [pyhip]
    ds_read_latency=((32, 52), (128, 64)),  # [pyhip]
    l1_hit=144,  # [MI300X simulator configurations]
    l2_hit=(254, 317),  # [MI300X simulator configurations]
    memory=(500, 800),  # [MI300X simulator configurations]
    buffer_load_x4_issue=32,  # a CU: 32 bytes a clock [pyhip]
    direct_lds_load_issue=11,  # [pyhip]
    matrix_to_vector_issue=4,  # independent vector work may start then [pyhip]
)

GFX950_LATENCIES = Latencies(
    vector=4,  # [AMD GEAK]
    transcendental=8,  # [AMD GEAK]
    permlane32_swap=20,  # [FlyDSL]
    ds_read_issue=((64, 8), (128, 16)),  # [FlyDSL]
    ds_read_latency=((32, 52), (128, 64)),  # about gfx942's [FlyDSL]
    l1_hit=144,  # gfx942's figure
    l2_hit=(254, 317),  # gfx942's figure
    memory=(500, 800),  # gfx942's figure
    buffer_load_x4_issue=64,  # [AMD GEAK]
    direct_lds_load_issue=None,
    matrix_to_vector_issue=4,  # [AMD GEAK]
)
