"""Python values to the MLIR attributes that an operation declares.

The bindings say for every operation which kind each attribute has, in the generated class that
MLIR's tablegen wrote; this module reads it there, so every registered dialect is covered and no
table of operations is kept here.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from mlir import ir as mlir_ir

from rocke.core.types import MlirType, ScalarType, Type, VectorType

_BUILT = re.compile(r"""attributes\["(\w+)"\] = \(.*?AttrBuilder\.contains\('(\w+)'\)""", re.DOTALL)
_UNIT = re.compile(r"""attributes\["(\w+)"\] = _ods_ir\.UnitAttr""")
_OPERAND = re.compile(r"""(?:operands|results)\.\w+\((?:\w+\()?(\w+)""")


class AttributeMismatch(Exception):
    """A Python value that is no value of the declared attribute; the text says what is expected."""


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


@cache
def _dialect_operations(dialect: str) -> Mapping[str, type[mlir_ir.OpView]]:
    """Operation name -> generated class, for one dialect; empty where the bindings have none."""
    _module(f"mlir.dialects.{dialect}")
    generated = _module(f"mlir.dialects._{dialect}_ops_gen")
    if generated is None:
        return {}
    found = {}
    for item in vars(generated).values():
        name = getattr(item, "OPERATION_NAME", None)
        if inspect.isclass(item) and isinstance(name, str):
            found[name] = item
    return found


def operation_class(name: str) -> type[mlir_ir.OpView] | None:
    """The bindings' class of operation ``name``, or None."""
    return _dialect_operations(name.partition(".")[0]).get(name)


@cache
def declared_attributes(name: str) -> Mapping[str, str]:
    """Attribute name -> kind of one operation: ``I32Attr``, ``StrAttr``, ...; empty if not told."""
    cls = operation_class(name)
    if cls is None:
        return {}
    source = inspect.getsource(cls.__init__)
    used = set(_OPERAND.findall(source)) | {"self", "res", "results", "loc", "ip"}
    kinds = {p: "" for p in inspect.signature(cls.__init__).parameters if p not in used}
    kinds.update(dict.fromkeys(_UNIT.findall(source), "UnitAttr"))
    kinds.update({key: kind for key, kind in _BUILT.findall(source)})
    if cls._ODS_OPERAND_SEGMENTS is not None:
        kinds["operandSegmentSizes"] = "DenseI32ArrayAttr"
    return kinds


def _enumerator(dialect: str, kind: str, text: str) -> enum.Enum | None:
    module = _module(f"mlir.dialects._{dialect}_enum_gen")
    for cls in vars(module).values() if module else ():
        if not (inspect.isclass(cls) and issubclass(cls, enum.Enum)):
            continue
        if cls.__name__.removesuffix("Flags") not in kind:
            continue
        for member in cls:
            if text in (str(member), member.name):
                return member
    return None


def constant_attribute(context: mlir_ir.Context, type_: Type, value: Any) -> mlir_ir.Attribute:
    """The typed attribute of a constant of ``type_``: a number, or for vectors also a sequence.

    Raises AttributeMismatch where the number does not fit. Integers may be given signed or as the
    unsigned number with the same bits.
    """
    mlir_type = mlir_ir.Type.parse(type_.mlir, context)
    if isinstance(type_, VectorType):
        values = list(value) if isinstance(value, (list, tuple)) else [value] * type_.count
        if len(values) != type_.count:
            raise AttributeMismatch(f"{type_.count} values for {type_}, got {len(values)}")
        elements = [constant_attribute(context, type_.elem, v) for v in values]
        if len(set(map(str, elements))) == 1:
            return mlir_ir.DenseElementsAttr.get_splat(mlir_type, elements[0])
        return mlir_ir.DenseElementsAttr.get(elements, mlir_type, context)
    if isinstance(type_, MlirType) and type_.text == "index":
        return mlir_ir.IntegerAttr.get(mlir_type, value)
    if not isinstance(type_, ScalarType):
        raise AttributeMismatch(f"a scalar or vector result type, got {type_}")
    if type_.kind == "float" and not type_.is_fp8:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise AttributeMismatch(f"a number for {type_}, got {value!r}")
        with context:
            return mlir_ir.FloatAttr.get(mlir_type, float(value), mlir_ir.Location.unknown(context))
    if not isinstance(value, int):
        raise AttributeMismatch(f"an integer for {type_}, got {value!r}")
    low, high = -(1 << (type_.bits - 1)), 1 << type_.bits
    if not low <= int(value) < high:
        raise AttributeMismatch(f"an integer that fits {type_}, got {value}")
    signed = int(value) - (1 << type_.bits) if int(value) >= 1 << (type_.bits - 1) else int(value)
    return mlir_ir.IntegerAttr.get(mlir_type, signed)


def _inferred(context: mlir_ir.Context, value: Any) -> mlir_ir.Attribute:
    """The natural attribute of a Python value, where the operation declares nothing."""
    if isinstance(value, bool):
        return mlir_ir.BoolAttr.get(value, context=context)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise AttributeMismatch(f"an integer that fits i64, got {value}")
        signed = value - (1 << 64) if value >= 1 << 63 else value
        return mlir_ir.IntegerAttr.get(mlir_ir.IntegerType.get_signless(64, context), signed)
    if isinstance(value, float):
        place = mlir_ir.Location.unknown(context)
        return mlir_ir.FloatAttr.get(mlir_ir.F64Type.get(context), value, place)
    if isinstance(value, str):
        return mlir_ir.StringAttr.get(value, context=context)
    if isinstance(value, Type):
        return mlir_ir.TypeAttr.get(mlir_ir.Type.parse(value.mlir, context), context=context)
    if isinstance(value, (list, tuple)):
        return mlir_ir.ArrayAttr.get([_inferred(context, v) for v in value], context=context)
    raise AttributeMismatch(f"an int, float, str, bool, list or type, got {value!r}")


_PYTHON_KINDS: dict[str, tuple[type, ...]] = {
    "BoolAttr": (bool,),
    "I1Attr": (bool, int),
    "F32Attr": (float, int),
    "F64Attr": (float, int),
    "StrAttr": (str,),
    "SymbolNameAttr": (str,),
    "FlatSymbolRefAttr": (str,),
    "SymbolRefAttr": (str,),
    "I8Attr": (int,),
    "I16Attr": (int,),
    "I32Attr": (int,),
    "I64Attr": (int,),
    "IndexAttr": (int,),
}


def to_attribute(
    context: mlir_ir.Context, operation: str, key: str, kind: str | None, value: Any
) -> mlir_ir.Attribute | None:
    """``value`` as attribute ``key`` of ``operation``; None: leave it out (a flag that is off).

    ``kind`` is the declared kind, None for an attribute that the operation does not declare.
    Raises AttributeMismatch with what is expected.
    """
    if isinstance(value, mlir_ir.Attribute):
        return value
    if kind is None:
        return _inferred(context, value)
    if kind == "UnitAttr":
        if not isinstance(value, bool):
            raise AttributeMismatch(f"True or False (a flag), got {value!r}")
        return mlir_ir.UnitAttr.get(context=context) if value else None
    if isinstance(value, Type):
        value = mlir_ir.Type.parse(value.mlir, context)
    accepted = _PYTHON_KINDS.get(kind)
    plain_int = isinstance(value, bool) and accepted is not None and bool not in accepted
    if accepted and (plain_int or not isinstance(value, accepted)):
        raise AttributeMismatch(
            f"{kind} ({' or '.join(t.__name__ for t in accepted)}), got {value!r}"
        )
    dialect = operation.partition(".")[0]
    if isinstance(value, str) and kind not in _PYTHON_KINDS:
        member = _enumerator(dialect, kind, value)
        if member is None:
            return _parsed(context, kind, value)
        value = member
    return _built(context, kind, value)


def _parsed(context: mlir_ir.Context, kind: str, text: str) -> mlir_ir.Attribute:
    try:
        return mlir_ir.Attribute.parse(text, context)
    except mlir_ir.MLIRError:
        raise AttributeMismatch(f"{kind} (MLIR attribute text), got {text!r}") from None


def _built(context: mlir_ir.Context, kind: str, value: Any) -> mlir_ir.Attribute:
    if not mlir_ir.AttrBuilder.contains(kind):
        raise AttributeMismatch(f"{kind} as an MLIR attribute or its text, got {value!r}")
    builder: Callable[..., mlir_ir.Attribute] = mlir_ir.AttrBuilder.get(kind)
    try:
        with context, mlir_ir.Location.unknown(context):
            return builder(value, context=context)
    except (TypeError, ValueError, OverflowError, AttributeError, mlir_ir.MLIRError) as error:
        raise AttributeMismatch(f"{kind}, got {value!r} ({error})") from None
