"""Kernel signatures and argument bytes.

A signature is an ordered list of ``{"name": ..., "type": ...}``. Types are written
``ptr<f16, global>`` for a pointer to f16 elements in global memory, and ``i32``, ``f32``, ... for a
value. The offsets and sizes come from the code object's metadata, so what is packed is what the
code reads.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from rocke.compiler.code_object import KernelArgument, KernelInfo

SignatureItem = Mapping[str, str]


class ArgumentError(ValueError):
    """An argument of a launch is wrong; the text names it, what it is and what it must be."""


_INTEGERS = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
_FLOATS: dict[str, tuple[int, type]] = {
    "f16": (2, np.float16),
    "bf16": (2, ml_dtypes.bfloat16),
    "f32": (4, np.float32),
    "f64": (8, np.float64),
}
_DTYPES: dict[str, tuple[type, ...]] = {
    "i1": (np.bool_, np.int8, np.uint8),
    "i8": (np.int8, np.uint8, np.bool_),
    "i16": (np.int16, np.uint16),
    "i32": (np.int32, np.uint32),
    "i64": (np.int64, np.uint64),
    "f16": (np.float16,),
    "bf16": (ml_dtypes.bfloat16,),
    "f32": (np.float32,),
    "f64": (np.float64,),
    "fp8e4m3": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz),
    "bf8e5m2": (ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz),
}
_QUICK = {
    ("i32", int): struct.Struct("<i").pack,
    ("i64", int): struct.Struct("<q").pack,
    ("f32", float): struct.Struct("<f").pack,
}
_POINTER = re.compile(r"ptr<\s*(\w+)\s*,\s*(\w+)\s*>")
_TYPE_NAME = re.compile(r"(.+?)(?: align\((\d+)\))?")
"""The type of a signature and the promised alignment, as rocke's compiler writes a type name."""


@dataclass(frozen=True)
class ArgumentType:
    """The type of one kernel argument.

    ``element`` is the element type of a pointer, or the type of a value. ``size`` is the bytes in
    the kernel argument segment; ``dtypes`` are the numpy types that an array for a
    pointer may have.
    """

    element: str
    pointer: bool
    size: int
    dtypes: tuple[np.dtype[Any], ...]
    address_space: str = ""

    def __str__(self) -> str:
        return f"ptr<{self.element}, {self.address_space}>" if self.pointer else self.element


def parse_type(text: str) -> ArgumentType:
    """Read a type as signatures write it; raises :class:`ArgumentError` for anything else."""
    match = _POINTER.fullmatch(text.strip())
    if match:
        element, space = match.groups()
        if element in _DTYPES and space in ("global", "constant"):
            dtypes = tuple(np.dtype(t) for t in _DTYPES[element])
            return ArgumentType(element, True, 8, dtypes, space)
    elif text in _INTEGERS:
        return ArgumentType(text, False, _INTEGERS[text], ())
    elif text in _FLOATS:
        return ArgumentType(text, False, _FLOATS[text][0], ())
    raise ArgumentError(
        f"type {text!r}: expected ptr<ELEMENT, global> with an element of {', '.join(_DTYPES)}, "
        f"or one of {', '.join((*_INTEGERS, *_FLOATS))}"
    )


def parse_signature(signature: Sequence[SignatureItem]) -> dict[str, ArgumentType]:
    """The argument types by name, in order; raises :class:`ArgumentError`."""
    types: dict[str, ArgumentType] = {}
    for item in signature:
        name = item["name"]
        if name in types:
            raise ArgumentError(f"signature: argument {name!r} is declared twice")
        try:
            types[name] = parse_type(item["type"])
        except ArgumentError as error:
            raise ArgumentError(f"signature: argument {name!r}: {error}") from None
    return types


def object_signature(info: KernelInfo) -> list[dict[str, str]]:
    """The signature that a code object of rocke's compiler states itself.

    Raises :class:`ArgumentError` for an object that does not state it.
    """
    found = []
    for argument in info.explicit_arguments:
        type_ = _declared(argument)[0]
        if type_ is None:
            raise ArgumentError(
                f"kernel {info.name}: the code object does not say the type of argument "
                f"{argument.name!r} ({argument.type_name or argument.kind}): give the signature"
            )
        found.append({"name": argument.name, "type": str(type_)})
    return found


def promised_alignment(argument: KernelArgument) -> int:
    """The bytes to which a pointer's address must be aligned, by the code object; 1 for none."""
    return _declared(argument)[1]


def _declared(argument: KernelArgument) -> tuple[ArgumentType | None, int]:
    match = _TYPE_NAME.fullmatch(argument.type_name)
    if match is None:
        return None, 1
    try:
        return parse_type(match[1]), int(match[2] or 1)
    except ArgumentError:
        return None, 1  # another compiler's text


def check_signature(types: Mapping[str, ArgumentType], info: KernelInfo) -> None:
    """Refuse a signature that is not the one the code object was compiled with.

    Compares number, names and types (where the metadata has them), sizes and kinds with the
    explicit arguments of ``info``. Raises :class:`ArgumentError`.
    """
    declared = info.explicit_arguments
    if len(declared) != len(types):
        raise ArgumentError(
            f"kernel {info.name}: the signature has {len(types)} arguments, the code object "
            f"{len(declared)} ({', '.join(a.name for a in declared)})"
        )
    for index, ((name, type_), found) in enumerate(zip(types.items(), declared, strict=True)):
        where = f"kernel {info.name}: argument {index} ({name!r})"
        if found.name not in (name, f"arg{index}"):
            raise ArgumentError(f"{where} is called {found.name!r} in the code object")
        if (found.kind == "global_buffer") != type_.pointer:
            raise ArgumentError(f"{where} is {type_} in the signature, {found.kind} in the object")
        if found.size != type_.size:
            raise ArgumentError(
                f"{where} is {type_} ({type_.size} bytes) in the signature, "
                f"{found.size} bytes in the code object"
            )
        stated = _declared(found)[0]
        if stated is not None and stated != type_:
            raise ArgumentError(f"{where} is {type_} in the signature, {stated} in the code object")


@dataclass(frozen=True)
class Packing:
    """Where the explicit arguments of a kernel lie in its ``size`` bytes of arguments."""

    types: Mapping[str, ArgumentType]
    offsets: Mapping[str, int]
    size: int

    @staticmethod
    def of(types: Mapping[str, ArgumentType], info: KernelInfo) -> Packing:
        """The places that a code object's metadata states, for a signature's arguments in order."""
        declared = info.explicit_arguments
        offsets = {name: a.offset for name, a in zip(types, declared, strict=True)}
        return Packing(types, offsets, max((a.offset + a.size for a in declared), default=0))

    def join(self, encoded: Mapping[str, bytes]) -> bytes:
        """All arguments, each as :func:`encode` gives it."""
        data = bytearray(self.size)
        for name, offset in self.offsets.items():
            part = encoded[name]
            data[offset : offset + len(part)] = part
        return bytes(data)


def pack(
    types: Mapping[str, ArgumentType], info: KernelInfo, values: Mapping[str, int | float]
) -> bytes:
    """The bytes of the explicit arguments, as ``info`` lays them out.

    ``values`` holds a device address for each pointer and a number for each value; a number outside
    the type's range is refused. Raises :class:`ArgumentError`.
    """
    encoded = {name: encode(name, type_, values[name]) for name, type_ in types.items()}
    return Packing.of(types, info).join(encoded)


def encode(name: str, type_: ArgumentType, value: Any) -> bytes:
    """The little-endian bytes of one argument; raises :class:`ArgumentError` naming it."""
    if type_.pointer:
        return struct.pack("<Q", value)
    # Python's own numbers, in range, need no conversion by numpy.
    quick = _QUICK.get((type_.element, type(value)))
    if quick is not None:
        try:
            return quick(value)
        except (struct.error, OverflowError):
            pass
    if type_.element in _INTEGERS:
        return _encode_integer(name, type_, value)
    return _encode_float(name, type_, value)


def _encode_integer(name: str, type_: ArgumentType, value: Any) -> bytes:
    boolean = isinstance(value, (bool, np.bool_))
    if not isinstance(value, (int, np.integer, np.bool_)) or (boolean and type_.element != "i1"):
        raise ArgumentError(
            f"argument {name!r}: {_describe(value)}, expected an integer ({type_.element})"
        )
    number = int(value)
    bits = 1 if type_.element == "i1" else 8 * type_.size
    low, high = (0, 1) if bits == 1 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if not low <= number <= high:
        raise ArgumentError(
            f"argument {name!r}: {number} does not fit {type_.element} ({low} to {high})"
        )
    return number.to_bytes(type_.size, "little", signed=bits > 1)


def _encode_float(name: str, type_: ArgumentType, value: Any) -> bytes:
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating, ml_dtypes.bfloat16)
    ):
        raise ArgumentError(
            f"argument {name!r}: {_describe(value)}, expected a number ({type_.element})"
        )
    number = float(value)
    with np.errstate(over="ignore"):
        stored: np.ndarray = np.array(number, dtype=_FLOATS[type_.element][1])
    if math.isfinite(number) and not math.isfinite(float(stored)):
        raise ArgumentError(f"argument {name!r}: {number} is outside the range of {type_.element}")
    return stored.tobytes()


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    text = repr(value)
    return f"{text if len(text) < 60 else text[:57] + '...'} ({type(value).__name__})"
