"""What kernel files import: types, `Value`, `KernelDef`, `IRBuilder`."""

from rocke.core.builder import IRBuilder
from rocke.core.control_flow import For, If
from rocke.core.errors import IRError
from rocke.core.kernel_def import KernelDef, Param
from rocke.core.types import (
    BF8E5M2,
    BF16,
    F16,
    F32,
    FP8E4M3,
    I1,
    I8,
    I16,
    I32,
    I64,
    SCALAR_TYPES,
    BufferType,
    MlirType,
    PtrType,
    ScalarType,
    SmemType,
    Type,
    VectorType,
    ptr,
    scalar_type,
    smem,
    vec,
)
from rocke.core.value import OpResult, Value

__all__ = [
    "BF8E5M2",
    "BF16",
    "F16",
    "F32",
    "FP8E4M3",
    "I1",
    "I8",
    "I16",
    "I32",
    "I64",
    "SCALAR_TYPES",
    "BufferType",
    "For",
    "IRBuilder",
    "IRError",
    "If",
    "KernelDef",
    "MlirType",
    "OpResult",
    "Param",
    "PtrType",
    "ScalarType",
    "SmemType",
    "Type",
    "Value",
    "VectorType",
    "ptr",
    "scalar_type",
    "smem",
    "vec",
]
