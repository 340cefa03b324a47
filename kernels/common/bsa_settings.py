"""How the block-sparse attention kernel is laid out on a target, and the table of defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rocke.arch import Target
from rocke.helpers.spec import check_choice, check_int, first_reason

from .bsa_layout import WAVE_SIZE, TileLayout, key_layout, value_layout

ELEMENT_BYTES = 2
"""f16 and bf16."""
MOST_OF_TABLE = (64, 4)
"""The largest ``tile_k`` and ``waves_q`` of :func:`default_settings`."""
MOST_FOR_TWO = 128
"""Head size up to which a wave's output, query and scores leave room for a second wave."""
STAGED_BYTES = 256
"""Most bytes of K and V that a lane holds on their way to LDS: 64 registers."""
REGISTER_STAGED_LDS = 32 * 1024
"""LDS of a workgroup where K and V come through registers: two workgroups a compute unit."""


@dataclass(frozen=True)
class BlockSparseSettings:
    """One layout of the kernel.

    A workgroup has ``waves_q * waves_k`` waves: ``waves_q`` of them take ``wave_rows`` query rows
    each (32: 32x32 matrix instructions, 16: 16x16, of the target's full rate), and ``waves_k``
    groups of them share the key tiles of the list among themselves and merge at the end. A step of
    a group takes ``tile_k`` keys. ``buffers``: copies of K and V in LDS; 2 are filled by direct
    copies, 1 through registers, where the target has no 16-byte direct copies. ``dies``: parts of
    the device that workgroups are dealt to in turn; each gets neighbouring query blocks of few
    heads (see :mod:`.bsa_order`).
    """

    wave_rows: int
    waves_q: int
    waves_k: int
    tile_k: int
    buffers: int
    dies: int = 1

    TAGS: ClassVar[tuple[str, ...]] = ("R", "WQ", "WK", "T", "B", "X")
    """What stands before each field in the kernel's name."""

    @property
    def rows(self) -> int:
        """Query rows of a workgroup."""
        return self.wave_rows * self.waves_q

    @property
    def work_items(self) -> int:
        """Size of the workgroup."""
        return WAVE_SIZE * self.waves_q * self.waves_k

    def lds_bytes(self, facts: Target, head_size: int) -> int:
        """LDS that K and V take, in bytes."""
        tile = (facts, self.wave_rows, self.tile_k, head_size)
        elements = (self.tile_elements(f(*tile)) for f in (key_layout, value_layout))
        return self.waves_k * self.buffers * sum(elements) * ELEMENT_BYTES

    def tile_elements(self, layout: TileLayout) -> int:
        """LDS of a tile in elements. Direct copies take as many pieces in every wave."""
        waves = self.waves_q if self.buffers > 1 else 1
        return -(-layout.pieces // waves) * waves * layout.piece_elements

    def merge_elements(self, head_size: int) -> int:
        """f32 elements of LDS in which the key groups merge: a wave's output and two row values."""
        registers = self.wave_rows * head_size // WAVE_SIZE
        return self.waves_q * (registers + 2) * WAVE_SIZE if self.waves_k > 1 else 0

    def waves_per_simd(self, facts: Target, head_size: int) -> int:
        """Waves on a SIMD to compile for: as many as LDS lets in, up to the two of which one can
        multiply while the other does softmax.
        """
        workgroups = facts.lds_bytes // self.lds_bytes(facts, head_size)
        waves = workgroups * self.waves_q * self.waves_k // facts.simds_per_cu
        return max(1, min(2 if head_size <= MOST_FOR_TWO else 1, waves))


def default_settings(
    facts: Target, head_size: int, block_q: int, block_k: int
) -> BlockSparseSettings:
    """The table's choice.

    - 32 rows a wave read each byte of K and V from LDS half as often as 16, and 16-row waves would
      be bound by LDS; 16 where a size is no multiple of 32, so that no product is padded, and
      where one wave alone would have to hold too much of a large tile.
    - ``tile_k`` 64: the loop's own instructions are a tenth of the work, and scores take 32
      registers. Smaller where LDS is: a tile of K and V takes ``4 * tile_k * head_size`` bytes,
      and what comes through registers leaves LDS for a second workgroup.
    - Up to 4 waves share a tile. With 64 query rows there are two: on gfx950 two such groups split
      the list, so that 4 waves fill the 4 SIMDs from one list; elsewhere LDS has room for a
      second workgroup instead.
    - One query block and one head a workgroup. Two blocks that walk the union of their lists would
      read shared keys once, but a list in any order has no cheap union, waves would wait at the
      barriers of tiles that only the other block attends, and a row's order of keys, and so its
      bits, would depend on its neighbour. Nor may heads of a group be taken together: their
      patterns may differ. What they share comes from L2 instead.
    - ``dies``: the target's. A die's workgroups are neighbours then, and find each other's keys,
      and those of the other heads of a group, in its L2; else each L2 would read all keys.
    """
    for wave_rows in (32, 16):
        if all(size % wave_rows == 0 for size in (head_size, block_q, block_k)):
            for settings in _candidates(facts, block_q, block_k, wave_rows):
                if _fits(settings, facts, head_size):
                    return settings
    raise ValueError(f"no settings for head_size {head_size}, blocks {block_q} and {block_k}")


def _candidates(
    facts: Target, block_q: int, block_k: int, wave_rows: int
) -> Iterator[BlockSparseSettings]:
    """Settings with ``wave_rows``, best first."""
    direct = 16 in facts.direct_lds_bytes
    row_tiles = block_q // wave_rows
    # Equal shares where the waves do not divide the block: 5 row tiles are 3 + 2, not 4 + 1.
    most_k, most_q = MOST_OF_TABLE
    workgroups = -(-row_tiles // min(most_q, row_tiles))
    waves_q = -(-row_tiles // workgroups)
    for tile_k in range(min(most_k, block_k), 0, -16):
        if tile_k % wave_rows == 0 and block_k % tile_k == 0:
            for waves_k in (2, 1) if direct and waves_q <= 2 else (1,):
                yield BlockSparseSettings(
                    *(wave_rows, waves_q, waves_k, tile_k, 2 if direct else 1), facts.dies
                )


def _fits(s: BlockSparseSettings, facts: Target, head_size: int) -> bool:
    """Whether LDS, and the registers that tiles come through, have room."""
    if s.buffers > 1:
        return s.lds_bytes(facts, head_size) <= facts.lds_bytes
    staged = 2 * s.tile_k * head_size * ELEMENT_BYTES // (WAVE_SIZE * s.waves_q)
    return staged <= STAGED_BYTES and s.lds_bytes(facts, head_size) <= REGISTER_STAGED_LDS


def check_settings(
    s: BlockSparseSettings, facts: Target, head_size: int, block_q: int, block_k: int
) -> tuple[bool, str]:
    """Whether the kernel can be laid out so; returns ``(ok, reason)``."""
    if not isinstance(s, BlockSparseSettings):
        return False, f"settings is {s!r}, expected BlockSparseSettings or None"
    direct = 16 in facts.direct_lds_bytes
    ok, reason = first_reason(
        check_choice("settings.wave_rows", s.wave_rows, (16, 32)),
        check_int("settings.waves_q", s.waves_q, 1, 8),
        check_int("settings.waves_k", s.waves_k, 1, 2),
        check_int("settings.buffers", s.buffers, 2 if direct else 1, 2 if direct else 1),
        check_choice("settings.dies", s.dies, (1, 2, 4, 8)),
    )
    if not ok:
        return False, f"{reason} (on {facts.name})"
    for name, size in (("head_size", head_size), ("block_k", block_k)):
        if size % s.wave_rows:
            return False, (
                f"{name} is {size}, expected a multiple of settings.wave_rows ({s.wave_rows})"
            )
    ok, reason = first_reason(
        check_int("settings.tile_k", s.tile_k, s.wave_rows, block_k, multiple_of=s.wave_rows)
    )
    if not ok:
        return False, reason
    if block_k % s.tile_k:
        return False, f"settings.tile_k is {s.tile_k}, expected a divisor of block_k ({block_k})"
    if block_q % s.wave_rows:
        return False, (
            f"block_q is {block_q}, expected a multiple of settings.wave_rows ({s.wave_rows})"
        )
    if s.rows > block_q:
        return False, (
            f"settings.waves_q is {s.waves_q}: {s.rows} rows a workgroup, expected at most "
            f"block_q ({block_q})"
        )
    if s.work_items > facts.max_workgroup_size:
        return False, f"settings need {s.work_items} work-items, expected at most 1024"
    need, limit = s.lds_bytes(facts, head_size), facts.lds_bytes
    if need > limit:
        return False, (
            f"settings.tile_k {s.tile_k} with head_size {head_size} needs {need} bytes of LDS; "
            f"{facts.name} has {limit}"
        )
    merge = 4 * s.merge_elements(head_size)
    if merge > need:
        return False, (
            f"settings.waves_k is 2: {s.waves_q} waves merge in {merge} bytes of LDS, their tiles "
            f"take {need}; expected a larger settings.tile_k or fewer waves"
        )
    return True, "ok"
