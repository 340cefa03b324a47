"""What is fixed for one kernel, and where a lane stands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rocke.arch import Target, target
from rocke.core.ir import IRBuilder, ScalarType, Value, scalar_type

from .bsa_layout import SLOT, WAVE_SIZE, Atoms, TileLayout, key_layout, value_layout
from .bsa_settings import BlockSparseSettings
from .bsa_spec import BlockSparseAttentionSpec


@dataclass(frozen=True)
class Shape:
    """Spec, settings and target, and the sizes that follow from them."""

    spec: BlockSparseAttentionSpec
    settings: BlockSparseSettings
    facts: Target

    @staticmethod
    def of(spec: BlockSparseAttentionSpec, arch: str) -> Shape:
        """The shape of a spec on ``arch``."""
        return Shape(spec, spec.resolve(arch), target(arch))

    @cached_property
    def atoms(self) -> Atoms:
        """The matrix instructions."""
        return Atoms.of(self.facts, self.settings.wave_rows, self.spec.dtype)

    @property
    def elem(self) -> ScalarType:
        """Element type of Q, K, V and O."""
        return scalar_type(self.spec.dtype)

    @property
    def direct(self) -> bool:
        """Whether K and V go to LDS by direct copies, else through registers."""
        return self.settings.buffers > 1

    @cached_property
    def keys(self) -> TileLayout:
        """K in LDS."""
        return key_layout(self.facts, *self._tile)

    @cached_property
    def values(self) -> TileLayout:
        """V in LDS."""
        return value_layout(self.facts, *self._tile)

    @property
    def _tile(self) -> tuple[int, int, int]:
        return self.settings.wave_rows, self.settings.tile_k, self.spec.head_size

    @property
    def buffer_elements(self) -> int:
        """LDS of one buffer, K and then V, in elements."""
        return self.key_elements + self.settings.tile_elements(self.values)

    @property
    def key_elements(self) -> int:
        """LDS of K in one buffer, in elements."""
        return self.settings.tile_elements(self.keys)

    @property
    def score_tiles(self) -> int:
        """Results of the first product that cover the keys of a tile."""
        return self.settings.tile_k // self.atoms.rows

    @property
    def key_quads(self) -> int:
        """Quads of scores that a lane holds of a tile."""
        return self.score_tiles * self.atoms.quads

    @property
    def output_tiles(self) -> int:
        """Results of the second product that cover the head dimensions."""
        return self.spec.head_size // self.atoms.rows

    @property
    def group_lanes(self) -> int:
        """Lanes of the waves that share a tile."""
        return WAVE_SIZE * self.settings.waves_q

    @property
    def steps_per_block(self) -> int:
        """Tiles of keys in a key block."""
        return self.spec.block_k // self.settings.tile_k

    def dimension_chunks(self) -> tuple[tuple[int, int], ...]:
        """``(first slot, elements a lane)`` of each chunk of the first product.

        Lane group g takes 8 neighbouring dimensions of each ``8 G``; a rest takes 4.
        """
        groups = self.atoms.groups
        wide = self.spec.head_size // (SLOT * groups)
        chunks = tuple((c * groups, SLOT) for c in range(wide))
        rest = self.spec.head_size % (SLOT * groups)
        return (*chunks, (wide * groups, SLOT // 2)) if rest else chunks


@dataclass(frozen=True)
class Place:
    """Where a lane stands (all i32; the wave numbers are wave-uniform).

    ``column`` is its query within the wave's rows, ``group`` its lane group. Wave ``row_wave`` of
    the key group ``key_group`` takes rows ``row_wave * wave_rows`` on.
    """

    lane: Value
    column: Value
    group: Value
    row_wave: Value
    key_group: Value

    @staticmethod
    def of(b: IRBuilder, shape: Shape) -> Place:
        """The place of the executing lane."""
        rows, waves_q = shape.atoms.rows, shape.settings.waves_q
        thread = b.thread_id_x()
        lane = b.land(thread, WAVE_SIZE - 1)
        wave = b.readfirstlane(b.lshr(thread, 6))
        alone = shape.settings.waves_k == 1
        key_group = b.const_i32(0) if alone else b.div(wave, waves_q)
        return Place(
            lane=lane,
            column=b.land(lane, rows - 1),
            group=b.lshr(lane, rows.bit_length() - 1),
            row_wave=b.sub(wave, b.mul(key_group, waves_q)),
            key_group=key_group,
        )

    def half_offset(self, b: IRBuilder) -> Value:
        """4 times the lane group: where the lane's 4 keys or dimensions of a quad start."""
        return b.mul(self.group, 4)
