"""What the attention forward families share: shape, common spec, and the builder of parameters."""

from __future__ import annotations

from dataclasses import dataclass

from rocke.core.ir import I32, IRBuilder, KernelDef, Value, ptr, scalar_type
from rocke.helpers.mfma_attention import check_head_size
from rocke.helpers.spec import check_choice, check_int, first_reason
from rocke.helpers.transforms import divide

from .fmha_arch import FMHA_DTYPES

MASK_MODES = ("none",)
"""The mask modes that the one-wave body honours beside a sparsity pattern."""

MAX_HEADS = 65535
"""Heads are the grid's y dimension, which HIP limits to 16 bits."""


@dataclass(frozen=True)
class FmhaShape:
    """The head size in elements and the numbers of query and key/value heads.

    Query head ``h`` reads key/value head ``h // (num_query_heads // num_kv_heads)``: as many as
    query heads is ordinary attention, fewer is GQA, one is MQA.
    """

    head_size: int
    num_query_heads: int
    num_kv_heads: int

    @property
    def queries_per_kv_head(self) -> int:
        """Query heads that share one key/value head."""
        return self.num_query_heads // self.num_kv_heads


@dataclass(frozen=True)
class FmhaCommonSpec:
    """What every attention forward spec holds: shape, element type of Q, K, V and O, mask mode."""

    shape: FmhaShape
    dtype: str = "f16"
    mask_mode: str = "none"


def validate_common_spec(spec: FmhaCommonSpec) -> tuple[bool, str]:
    """Whether the one-wave body honours every field, for any target; returns ``(ok, reason)``."""
    if not isinstance(spec, FmhaCommonSpec) or not isinstance(spec.shape, FmhaShape):
        return False, f"common is {spec!r}, expected an FmhaCommonSpec with an FmhaShape"
    shape = spec.shape
    ok, reason = first_reason(
        check_head_size(shape.head_size),
        check_int("num_query_heads", shape.num_query_heads, 1, MAX_HEADS),
        check_int("num_kv_heads", shape.num_kv_heads, 1, MAX_HEADS),
        check_choice("dtype", spec.dtype, FMHA_DTYPES),
        check_choice("mask_mode", spec.mask_mode, MASK_MODES),
    )
    if ok and shape.num_query_heads % shape.num_kv_heads:
        return False, (
            f"num_query_heads is {shape.num_query_heads}, expected a multiple of num_kv_heads "
            f"({shape.num_kv_heads})"
        )
    return ok, reason


class FmhaKernelBuilder:
    """Declares an attention kernel's parameters by name and decodes its grid.

    Parameters keep the order in which they are added. :meth:`signature` works as soon as they are
    declared. ``q_token``, ``head_idx`` and ``kv_head_idx`` (i32) exist after :meth:`decode_grid`.
    """

    def __init__(self, name: str, common: FmhaCommonSpec) -> None:
        self.common = common
        self._builder = IRBuilder(name)
        self._values: dict[str, Value] = {}
        self._grid: dict[str, Value] = {}

    def block_size(self, n: int) -> None:
        """Set the workgroup size, in work-items: the only one that may be launched."""
        self.kernel.attributes["max_workgroup_size"] = n
        self.kernel.attributes["required_workgroup_size"] = (n, 1, 1)

    def add_tensor(self, name: str, readonly: bool = False, writeonly: bool = False) -> Value:
        """Add a pointer to elements of the spec's type, 16-byte aligned."""
        return self._add_pointer(name, self.common.dtype, readonly, writeonly, 16)

    def add_ptr(
        self, name: str, dtype: str, readonly: bool = False, align: int | None = None
    ) -> Value:
        """Add a pointer to ``dtype`` (``"i8"``, ``"i32"``, ...) elements, ``align`` in bytes."""
        return self._add_pointer(name, dtype, readonly, False, align)

    def add_scalar(self, name: str, dtype: str) -> Value:
        """Add a value of type ``dtype`` (``"i32"``, ``"f32"``, ...)."""
        return self._remember(name, self._builder.param(name, scalar_type(dtype)))

    def add_strides(self, *names: str) -> None:
        """Add ``stride_<name>_token`` and ``stride_<name>_head`` (i32, in elements)."""
        for name in names:
            self.add_scalar(f"stride_{name}_token", I32.name)
            self.add_scalar(f"stride_{name}_head", I32.name)

    def decode_grid(self, *, batch: bool = False) -> None:
        """Read the grid: x = Q tile, y = query head, z = batch where ``batch`` is set."""
        b = self._builder
        self._grid["q_token"] = b.block_id_x()
        self._grid["head_idx"] = b.block_id_y()
        per_kv = self.common.shape.queries_per_kv_head
        self._grid["kv_head_idx"] = divide(b, self._grid["head_idx"], per_kv)
        if batch:
            self._grid["batch_idx"] = b.block_id_z()

    @property
    def builder(self) -> IRBuilder:
        """The builder that the body is written with."""
        return self._builder

    @property
    def kernel(self) -> KernelDef:
        """The kernel as built so far."""
        return self._builder.kernel

    @property
    def q_token(self) -> Value:
        """The Q tile's index, as the grid gives it; the tile's first row is 16 times that."""
        return self._from_grid("q_token")

    @property
    def head_idx(self) -> Value:
        """The query head's index."""
        return self._from_grid("head_idx")

    @property
    def kv_head_idx(self) -> Value:
        """The index of the key/value head that the query head reads."""
        return self._from_grid("kv_head_idx")

    @property
    def batch_idx(self) -> Value:
        """The batch index, after ``decode_grid(batch=True)``."""
        return self._from_grid("batch_idx")

    def tensor(self, name: str) -> Value:
        """The pointer added by :meth:`add_tensor`; KeyError lists the parameters."""
        return self._look_up(name)

    def ptr(self, name: str) -> Value:
        """The pointer added by :meth:`add_ptr`; KeyError lists the parameters."""
        return self._look_up(name)

    def scalar(self, name: str) -> Value:
        """The value added by :meth:`add_scalar`; KeyError lists the parameters."""
        return self._look_up(name)

    def stride_token(self, name: str) -> Value:
        """The token stride of tensor ``name`` (i32, in elements)."""
        return self._look_up(f"stride_{name}_token")

    def stride_head(self, name: str) -> Value:
        """The head stride of tensor ``name`` (i32, in elements)."""
        return self._look_up(f"stride_{name}_head")

    def signature(self) -> list[dict[str, str]]:
        """The ordered ``{"name", "type"}`` of the parameters declared so far."""
        return self.kernel.signature()

    def _add_pointer(
        self, name: str, dtype: str, readonly: bool, writeonly: bool, align: int | None
    ) -> Value:
        value = self._builder.param(
            name, ptr(scalar_type(dtype)), readonly=readonly, writeonly=writeonly, align=align
        )
        return self._remember(name, value)

    def _remember(self, name: str, value: Value) -> Value:
        self._values[name] = value
        return value

    def _look_up(self, name: str) -> Value:
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(self._values) or "none"
            raise KeyError(f"no parameter {name!r}; declared: {known}") from None

    def _from_grid(self, name: str) -> Value:
        try:
            return self._grid[name]
        except KeyError:
            raise RuntimeError(f"{name} is known only after decode_grid()") from None
