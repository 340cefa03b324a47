"""Types of the builder: plain frozen values that exist without an MLIR context.

Scalars are ``I1 I8 I16 I32 I64 F16 BF16 F32 FP8E4M3 BF8E5M2``; `vec`, `ptr`, `smem` make vectors,
pointers and LDS arrays. Two types are the same when they compare equal.

The 8-bit float types name a *format family*, not one encoding: the encoding (OCP or FNUZ) is the
target's, so they travel through MLIR as ``i8`` bytes and only conversions and matrix operations
interpret them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

AddressSpace = Literal["global", "lds", "constant"]

ADDRESS_SPACES: dict[str, int] = {"global": 1, "lds": 3, "constant": 4}
"""Address space name -> LLVM's number [LLVM "User Guide for AMDGPU Backend", Address Spaces]."""


@dataclass(frozen=True)
class Type:
    """Base of all types. ``name`` is how rocke writes the type, ``mlir`` how MLIR writes it."""

    @property
    def name(self) -> str:
        """The type as rocke writes it in signatures and messages."""
        raise NotImplementedError

    @property
    def mlir(self) -> str:
        """The MLIR type that carries values of this type."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ScalarType(Type):
    """A number: ``kind`` is ``int`` or ``float``, ``bits`` its width in bits."""

    label: str
    kind: Literal["int", "float"]
    bits: int
    mlir_name: str

    @property
    def name(self) -> str:
        """``i32``, ``bf16``, ``fp8e4m3``, ..."""
        return self.label

    @property
    def mlir(self) -> str:
        """MLIR spelling; ``i8`` for the 8-bit floats."""
        return self.mlir_name

    @property
    def bytes(self) -> int:
        """Size in memory, in bytes (1 for ``i1``)."""
        return max(1, self.bits // 8)

    @property
    def is_fp8(self) -> bool:
        """Whether this is one of the two 8-bit float types."""
        return self.kind == "float" and self.bits == 8


@dataclass(frozen=True)
class VectorType(Type):
    """``count`` elements of one scalar type, held in registers."""

    elem: ScalarType
    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.elem, ScalarType):
            raise TypeError(f"a vector element must be a scalar type, got {self.elem!r}")
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise ValueError(f"a vector needs at least one element, got {self.count!r}")

    @property
    def name(self) -> str:
        """``vec<f16, 4>``."""
        return f"vec<{self.elem.name}, {self.count}>"

    @property
    def mlir(self) -> str:
        """``vector<4xf16>``."""
        return f"vector<{self.count}x{self.elem.mlir}>"

    @property
    def bits(self) -> int:
        """Width of all elements together, in bits."""
        return self.elem.bits * self.count

    @property
    def bytes(self) -> int:
        """Size in memory, in bytes."""
        return self.elem.bytes * self.count


@dataclass(frozen=True)
class PtrType(Type):
    """A pointer to elements of a scalar type in one address space."""

    elem: ScalarType
    space: AddressSpace = "global"

    def __post_init__(self) -> None:
        if not isinstance(self.elem, ScalarType):
            raise TypeError(f"a pointer's element must be a scalar type, got {self.elem!r}")
        if self.space not in ADDRESS_SPACES:
            known = ", ".join(ADDRESS_SPACES)
            raise ValueError(f"unknown address space {self.space!r}; known: {known}")

    @property
    def name(self) -> str:
        """``ptr<f16, global>``."""
        return f"ptr<{self.elem.name}, {self.space}>"

    @property
    def mlir(self) -> str:
        """``!llvm.ptr<1>``."""
        return f"!llvm.ptr<{ADDRESS_SPACES[self.space]}>"


@dataclass(frozen=True)
class SmemType(Type):
    """An LDS array of a fixed shape, row-major, shared by one workgroup."""

    elem: ScalarType
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.elem, ScalarType):
            raise TypeError(f"an LDS array's element must be a scalar type, got {self.elem!r}")
        object.__setattr__(self, "shape", tuple(self.shape))
        bad = [d for d in self.shape if isinstance(d, bool) or not isinstance(d, int) or d < 1]
        if bad or not self.shape:
            raise ValueError(f"an LDS array's sizes must be positive integers, got {self.shape}")

    @property
    def name(self) -> str:
        """``lds<f16, 64x128>``."""
        return f"lds<{self.elem.name}, {'x'.join(map(str, self.shape))}>"

    @property
    def mlir(self) -> str:
        """``!llvm.ptr<3>``: the value of an LDS array is its address."""
        return "!llvm.ptr<3>"

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.elem.bytes * prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance between neighbours along each dimension, in elements."""
        return tuple(prod(self.shape[i + 1 :]) for i in range(len(self.shape)))


@dataclass(frozen=True)
class BufferType(Type):
    """A buffer descriptor (128 bits, wave-uniform): base address, size in bytes, format flags."""

    elem: ScalarType

    @property
    def name(self) -> str:
        """``buffer<f16>``."""
        return f"buffer<{self.elem.name}>"

    @property
    def mlir(self) -> str:
        """``!llvm.ptr<8>``."""
        return "!llvm.ptr<8>"


I1 = ScalarType("i1", "int", 1, "i1")
I8 = ScalarType("i8", "int", 8, "i8")
I16 = ScalarType("i16", "int", 16, "i16")
I32 = ScalarType("i32", "int", 32, "i32")
I64 = ScalarType("i64", "int", 64, "i64")
F16 = ScalarType("f16", "float", 16, "f16")
BF16 = ScalarType("bf16", "float", 16, "bf16")
F32 = ScalarType("f32", "float", 32, "f32")
FP8E4M3 = ScalarType("fp8e4m3", "float", 8, "i8")
BF8E5M2 = ScalarType("bf8e5m2", "float", 8, "i8")

SCALAR_TYPES: dict[str, ScalarType] = {
    t.label: t for t in (I1, I8, I16, I32, I64, F16, BF16, F32, FP8E4M3, BF8E5M2)
}
"""Every scalar type by its name."""


def scalar_type(name: str) -> ScalarType:
    """The scalar type called ``name`` (``"f16"``, ``"i32"``); ValueError lists the known ones."""
    try:
        return SCALAR_TYPES[name]
    except KeyError:
        raise ValueError(f"unknown type {name!r}; known: {', '.join(SCALAR_TYPES)}") from None


def vec(elem: ScalarType, count: int) -> VectorType:
    """A vector of ``count`` elements."""
    return VectorType(elem, count)


def ptr(elem: ScalarType, space: AddressSpace = "global") -> PtrType:
    """A pointer to ``elem`` in address space ``global``, ``lds`` or ``constant``."""
    return PtrType(elem, space)


def smem(elem: ScalarType, shape: Sequence[int]) -> SmemType:
    """An LDS array type."""
    return SmemType(elem, tuple(shape))


def element_of(type_: Type) -> Type:
    """The element of a vector, the type itself for everything else."""
    return type_.elem if isinstance(type_, VectorType) else type_


def with_article(type_: Type) -> str:
    """``an i32``, ``a vec<f16, 4>``: the type in a sentence."""
    return f"{'an' if type_.name[0] in 'if' else 'a'} {type_.name}"


def is_int(type_: Type) -> bool:
    """Whether it is an integer or a vector of integers."""
    elem = element_of(type_)
    return isinstance(elem, ScalarType) and elem.kind == "int"


def is_float(type_: Type) -> bool:
    """Whether it is a float with arithmetic (not an 8-bit one) or a vector of such."""
    elem = element_of(type_)
    return isinstance(elem, ScalarType) and elem.kind == "float" and not elem.is_fp8


def with_element(type_: Type, elem: ScalarType) -> Type:
    """``type_`` with its element replaced: same shape, other element."""
    return VectorType(elem, type_.count) if isinstance(type_, VectorType) else elem


@dataclass(frozen=True)
class MlirType(Type):
    """Any other MLIR type by its text, for operations reached through ``b._op``: ``index``, ..."""

    text: str

    @property
    def name(self) -> str:
        """The text as given."""
        return self.text

    @property
    def mlir(self) -> str:
        """The text as given."""
        return self.text
