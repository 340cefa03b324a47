"""The builder's ground: the module under construction and how one operation gets into it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from mlir import ir as mlir_ir

from rocke.core.attributes import (
    AttributeMismatch,
    constant_attribute,
    declared_attributes,
    operation_class,
    to_attribute,
)
from rocke.core.errors import IRError
from rocke.core.kernel_def import KNOWN_TARGETS, KernelDef, Param, parameter_type
from rocke.core.locations import source_location, source_place
from rocke.core.types import I32, SCALAR_TYPES, ScalarType, Type, with_article
from rocke.core.value import OpResult, Value

Number = int | float
Operand = Value | int | float

_TERMINATORS = frozenset(
    {"scf.yield", "scf.condition", "gpu.return", "gpu.yield", "gpu.terminator", "func.return"}
    | {"cf.br", "cf.cond_br", "cf.switch"}
    | {"llvm.return", "llvm.br", "llvm.cond_br", "llvm.switch", "llvm.unreachable"}
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*\Z")


class BuilderBase:
    """Context, module and insertion point of one kernel; the groups of methods build on it."""

    def __init__(self, kernel_name: str) -> None:
        if not isinstance(kernel_name, str) or not _IDENTIFIER.match(kernel_name):
            raise IRError(
                "a kernel name is letters, digits, '_', '.', '$' and starts with a letter or '_'; "
                f"got {kernel_name!r} (at {source_place()})"
            )
        if kernel_name.startswith("llvm."):
            raise IRError(
                "a kernel name may not start with 'llvm.', where LLVM keeps its own functions; "
                f"got {kernel_name!r} (at {source_place()})"
            )
        self._context = mlir_ir.Context()
        self._context.enable_multithreading(False)
        self._types: dict[Type, mlir_ir.Type] = {}
        self._places: dict[tuple[str, int], mlir_ir.Location] = {}
        self._operations = 0
        self._cached: tuple[object, str] | None = None
        self._returned: str | None = None
        self._constants: dict[object, Value] = {}
        self._attributes_by_text: dict[str, mlir_ir.Attribute] = {}
        self._incomplete: dict[int, str] = {}
        self._ended: set[int] = set()
        self._depth = 1
        self._smem_count = 0
        self.kernel = KernelDef(kernel_name, self._render)
        self._start(kernel_name)

    def _start(self, name: str) -> None:
        loc = self._location()
        self._module = mlir_ir.Module.create(loc)
        top = self._module.operation
        top.attributes["gpu.container_module"] = self._attr("unit")
        self._gpu_module = mlir_ir.Operation.create(
            "gpu.module",
            regions=1,
            attributes={"sym_name": self._attr('"kernels"')},
            loc=loc,
            ip=mlir_ir.InsertionPoint(self._module.body),
        )
        self._module_block = self._gpu_module.regions[0].blocks.append()
        self._function = mlir_ir.Operation.create(
            "gpu.func",
            regions=1,
            attributes={
                "sym_name": self._attr(f'"{name}"'),
                "function_type": self._attr("() -> ()"),
                "gpu.kernel": self._attr("unit"),
            },
            loc=loc,
            ip=mlir_ir.InsertionPoint(self._module_block),
        )
        self._entry = self._function.regions[0].blocks.append()
        self._blocks: list[int] = [0]
        self._block_count = 0
        self._ip = mlir_ir.InsertionPoint(self._entry)

    # -- parameters and targets ----------------------------------------------------------

    def param(
        self,
        name: str,
        type: Type,
        *,
        readonly: bool = False,
        writeonly: bool = False,
        align: int | None = None,
        noalias: bool | None = None,
    ) -> Value:
        """Adds the next kernel parameter and gives its value.

        ``type`` is an integer, a float or a pointer (global or constant). For pointers:
        ``readonly`` and ``writeonly`` promise what the kernel does through it, ``align`` is in
        bytes, a power of two, promised by the caller; ``noalias`` (default: true where readonly or
        writeonly) promises that no other parameter reaches the same bytes. Emits a block argument
        of the ``gpu.func``.
        """
        if any(p.name == name for p in self.kernel.params):
            self._fail("param", f"there is a parameter {name!r} already")
        if not isinstance(name, str) or not name.isidentifier():
            self._fail("param", f"a parameter name is an identifier, got {name!r}")
        if not isinstance(type, Type) or not parameter_type(type):
            wanted = "an integer of 8 bits or more, f16, bf16, f32 or a global or constant pointer"
            self._fail("param", f"expected {wanted} for {name!r}, got {_shown(type)}")
        pointer = not isinstance(type, ScalarType)
        if not pointer and (readonly or writeonly or noalias or align is not None):
            self._fail(
                "param", f"readonly, writeonly, noalias, align need a pointer; {name!r}: {type}"
            )
        if readonly and writeonly:
            self._fail("param", f"{name!r} cannot be readonly and writeonly")
        if align is not None and (align < 1 or align & (align - 1)):
            self._fail("param", f"align of {name!r} must be a power of two, got {align}")
        exclusive = pointer and (readonly or writeonly) if noalias is None else noalias
        self.kernel.params += (Param(name, type, readonly, writeonly, align, exclusive),)  # type: ignore[arg-type]
        argument = self._entry.add_argument(self._type(type), self._location(name))
        self._operations += 1
        return Value(self, argument, type, 0, self.kernel.params[-1])

    def bind_arch(self, arch: str) -> None:
        """Binds the kernel to one target (``gfx950``).

        IRError for an unknown target, and where the kernel is bound to another one or has an
        operation that the target lacks.
        """
        name = str(getattr(arch, "name", arch))
        bound, targets = self.kernel._bound, self.kernel.targets
        if name not in KNOWN_TARGETS:
            self._fail("bind_arch", f"unknown target {name!r}; known: {', '.join(KNOWN_TARGETS)}")
        if bound not in (None, name):
            self._fail("bind_arch", f"the kernel is bound to {bound}, it cannot be bound to {name}")
        if targets is not None and name not in targets:
            culprit = next(w for t, w in self.kernel.needs.items() if name not in t)
            self._fail("bind_arch", f"the kernel cannot be for {name}: it has no {culprit}")
        self.kernel._bound = name

    def _require(self, op: str, *targets: str) -> None:
        """Notes that only ``targets`` have the operation; IRError where that leaves none."""
        bound, known = self.kernel._bound, self.kernel.targets
        left = tuple(t for t in targets if known is None or t in known)
        if (bound is not None and bound not in targets) or not left:
            have = bound or " or ".join(known or ())
            culprits = ", ".join(w for t, w in self.kernel.needs.items() if set(t) != set(targets))
            because = f" (by {culprits})" if culprits and bound is None else ""
            self._fail(op, f"only {', '.join(targets)} have it; this kernel is for {have}{because}")
        self.kernel.targets = left
        if targets not in self.kernel.needs and set(targets) != set(KNOWN_TARGETS):
            self.kernel.needs[targets] = f"{op} (at {source_place()})"

    # -- text ----------------------------------------------------------------------------

    def _render(self, kernel: KernelDef) -> str:
        key = (self._operations, len(kernel.params), repr(sorted(kernel.attributes.items())))
        if self._cached is not None and self._cached[0] == key:
            return self._cached[1]
        for message in self._incomplete.values():
            raise IRError(message)
        if len(self._blocks) > self._depth:
            self._fail(f"kernel {kernel.name}", "a scf_if or scf_for is still open")
        if self._returned is None:
            self._fail(
                f"kernel {kernel.name}", "it has no end: call b.ret() after its last operation"
            )
        self._finish(kernel)
        try:
            self._module.operation.verify()
        except mlir_ir.MLIRError as error:
            raise IRError(f"kernel {kernel.name} does not verify: {_first_line(error)}") from None
        text = self._module.operation.get_asm(enable_debug_info=True, use_name_loc_as_prefix=True)
        self._cached = (key, text)
        return text

    def _finish(self, kernel: KernelDef) -> None:
        """Writes signature and attributes into the function."""
        types = ", ".join(p.type.mlir for p in kernel.params)
        attributes = self._function.attributes
        attributes["function_type"] = self._attr(f"({types}) -> ()")
        attributes["arg_attrs"] = self._attr(
            "[" + ", ".join("{" + ", ".join(_argument(p)) + "}" for p in kernel.params) + "]"
        )
        chosen = kernel.attributes
        exact = chosen["required_workgroup_size"]
        attributes["rocdl.flat_work_group_size"] = self._attr(f'"1,{chosen["max_workgroup_size"]}"')
        if exact is not None:
            total = exact[0] * exact[1] * exact[2]
            attributes["rocdl.flat_work_group_size"] = self._attr(f'"{total},{total}"')
            attributes["known_block_size"] = self._attr(
                f"array<i32: {exact[0]}, {exact[1]}, {exact[2]}>"
            )

    # -- one operation -------------------------------------------------------------------

    def _fail(self, op: str, message: str) -> NoReturn:
        raise IRError(f"{op}: {message} (at {source_place()})")

    def _type(self, type_: Type) -> mlir_ir.Type:
        found = self._types.get(type_)
        if found is None:
            found = self._types[type_] = mlir_ir.Type.parse(type_.mlir, self._context)
        return found

    def _attr(self, text: str) -> mlir_ir.Attribute:
        found = self._attributes_by_text.get(text)
        if found is None:
            found = mlir_ir.Attribute.parse(text, self._context)
            self._attributes_by_text[text] = found
        return found

    def _location(self, hint: str | None = None) -> mlir_ir.Location:
        key = source_location()
        place = self._places.get(key)
        if place is None:
            place = mlir_ir.Location.file(key[0], key[1], 0, context=self._context)
            self._places[key] = place
        return self._named(hint, place)

    def _named(self, hint: str | None, place: mlir_ir.Location) -> mlir_ir.Location:
        """``place`` with a name, which the printer makes the name of the SSA value."""
        return mlir_ir.Location.name(hint, place, context=self._context) if hint else place

    def _use(self, op: str, value: Any) -> mlir_ir.Value:
        """The MLIR value of an operand, checked to belong here and to be in scope."""
        if not isinstance(value, Value):
            self._fail(op, f"expected a Value, got {value!r}")
        if value._owner is not self:
            self._fail(op, "the value belongs to another builder")
        if value._block not in self._blocks:
            self._fail(
                op,
                f"the {value.type} value was made inside a scf_if or scf_for that is closed; "
                "yield it as a result of that operation",
            )
        return value._mlir

    def _emit(
        self,
        op: str,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[Type] = (),
        attributes: Mapping[str, mlir_ir.Attribute] | None = None,
        *,
        hint: str | None = None,
        regions: int = 0,
        verify: bool = True,
        location: mlir_ir.Location | None = None,
    ) -> tuple[mlir_ir.Operation, tuple[Value, ...]]:
        """Creates MLIR operation ``name`` at the insertion point for builder method ``op``."""
        if self._returned is not None:
            self._fail(op, f"the kernel has ended: b.ret() was called at {self._returned}")
        if self._blocks[-1] in self._ended:
            self._fail(op, "this region has ended with its scf_yield or ret")
        try:
            made = mlir_ir.Operation.create(
                name,
                results=[self._type(t) for t in result_types],
                operands=[self._use(op, v) for v in operands],
                attributes=dict(attributes or {}),
                regions=regions,
                loc=location or self._location(hint),
                ip=self._ip,
            )
        except mlir_ir.MLIRError as error:
            self._fail(op, f"{name}: {_first_line(error)}")
        if verify and not regions:
            try:
                made.verify()
            except mlir_ir.MLIRError as error:
                message = _first_line(error)
                made.erase()
                given = ", ".join(str(v.type) for v in operands)
                self._fail(op, f"{message}; operands: ({given})")
        self._operations += 1
        block = self._blocks[-1]
        results = tuple(
            Value(self, r, t, block) for r, t in zip(made.results, result_types, strict=True)
        )
        return made, results

    def _emit1(
        self,
        op: str,
        name: str,
        operands: Sequence[Value],
        result: Type,
        attributes: Mapping[str, mlir_ir.Attribute] | None = None,
        *,
        hint: str | None = None,
    ) -> Value:
        """`_emit` for an operation with one result."""
        return self._emit(op, name, operands, (result,), attributes, hint=hint)[1][0]

    def _call(self, op: str, intrinsic: str, operands: Sequence[Value], result: Type) -> Value:
        """A call of an LLVM intrinsic that MLIR has no operation for."""
        attributes = {
            "intrin": self._attr(f'"{intrinsic}"'),
            "operandSegmentSizes": self._attr(f"array<i32: {len(operands)}, 0>"),
            "op_bundle_sizes": self._attr("array<i32>"),
        }
        return self._emit1(op, "llvm.call_intrinsic", operands, result, attributes)

    def _op(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attrs: Mapping[str, Any] | None = None,
        result_name_hint: str | None = None,
    ) -> OpResult:
        """The open door: emits any registered MLIR operation without regions.

        ``attrs`` takes Python ints, floats, strings, bools, lists and types; each becomes the
        attribute that the operation declares (an enumeration also by its MLIR keyword). An MLIR
        attribute, or its text where the operation declares no plain kind, passes as it is. For
        ``arith.constant`` the result type decides the value's type and ``ity`` only repeats it.
        ``result_types`` are rocke types; `MlirType` gives any other. Raises IRError where the
        operation is unknown, an attribute is none of its own, or the operation does not verify.
        """
        if not self._context.is_registered_operation(name):
            self._fail(name, "there is no such MLIR operation")
        if isinstance(result_types, Type) or isinstance(operands, Value):
            self._fail(
                name, "operands and result_types are lists: put brackets around a single one"
            )
        for type_ in result_types:
            if not isinstance(type_, Type):
                self._fail(name, f"expected a type in result_types, got {type_!r}")
            try:
                self._type(type_)
            except mlir_ir.MLIRError as error:
                self._fail(name, f"{type_} is no MLIR type: {_first_line(error)}")
        cls = operation_class(name)
        if name in _TERMINATORS or (cls is not None and cls._ODS_REGIONS[0]):
            self._fail(name, "control flow goes through scf_if, scf_for, scf_yield and ret")
        made = self._attributes(name, dict(attrs or {}), result_types)
        _, results = self._emit(name, name, operands, result_types, made, hint=result_name_hint)
        return OpResult(name, results)

    def _attributes(
        self, name: str, given: dict[str, Any], result_types: Sequence[Type]
    ) -> dict[str, mlir_ir.Attribute]:
        if name == "arith.constant":
            return self._constant_attributes(given, result_types)
        declared = declared_attributes(name)
        made: dict[str, mlir_ir.Attribute] = {}
        for key, value in given.items():
            if not isinstance(key, str) or not key:
                self._fail(name, f"attribute {key!r}: expected a name")
            if declared and key not in declared and "." not in key:
                known = ", ".join(declared)
                self._fail(name, f"it declares no attribute {key!r}; it has: {known}")
            try:
                attribute = to_attribute(self._context, name, key, declared.get(key), value)
            except AttributeMismatch as error:
                self._fail(name, f"attribute {key!r}: expected {error}")
            if attribute is not None:
                made[key] = attribute
        return made

    def _constant_attributes(
        self, given: dict[str, Any], result_types: Sequence[Type]
    ) -> dict[str, mlir_ir.Attribute]:
        unknown = set(given) - {"value", "ity"}
        if unknown or "value" not in given or len(result_types) != 1:
            self._fail("arith.constant", f"expected one result type and a value, got {given}")
        repeated = given.get("ity", result_types[0].name)
        if str(repeated) != result_types[0].name:
            self._fail("arith.constant", f"ity is {repeated}, the result type is {result_types[0]}")
        value = given["value"]
        if isinstance(value, mlir_ir.Attribute):
            return {"value": value}
        return {"value": self._constant("arith.constant", result_types[0], value)}

    def _constant_value(self, op: str, type_: Type, value: Any) -> Value:
        """A constant. A number's is emitted once and used wherever it is in scope.

        A third of a kernel's operations would be repeated constants.
        """
        key: object = None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            # Equal numbers may differ in the sign of zero, and 1.0 is no integer.
            key = type_, value if isinstance(value, int) else value.hex()
            found = self._constants.get(key)
            if found is not None and found._block in self._blocks:
                return found
        attribute = self._constant(op, type_, value)
        made = self._emit1(op, "arith.constant", (), type_, {"value": attribute})
        if key is not None:
            self._constants[key] = made
        return made

    def _constant(self, op: str, type_: Type, value: Any) -> mlir_ir.Attribute:
        try:
            return constant_attribute(self._context, type_, value)
        except AttributeMismatch as error:
            self._fail(op, f"expected {error}")

    # -- operands ------------------------------------------------------------------------

    def _operand(self, op: str, value: Any, like: Type = I32) -> Value:
        """A Value as it is; a Python number as a constant of type ``like``."""
        if isinstance(value, Value):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._constant_value(op, like, value)
        self._fail(op, f"expected {with_article(like)} Value or number, got {value!r}")

    def _alike(self, op: str, *values: Any) -> list[Value]:
        """Values of one type; Python numbers become constants of the type of the first Value."""
        typed = next((v for v in values if isinstance(v, Value)), None)
        if typed is None:
            self._fail(op, f"expected at least one Value, got {values!r}")
        found = [self._operand(op, v, typed.type) for v in values]
        if any(v.type != found[0].type for v in found):
            self._fail(op, f"expected operands of one type, got {_types(found)}")
        return found

    def _expect(self, op: str, value: Any, accepted: bool, wanted: str) -> None:
        if not accepted:
            given = str(value.type) if isinstance(value, Value) else repr(value)
            self._fail(op, f"expected {wanted}, got {given}")

    @contextmanager
    def _inside(self, block: mlir_ir.Block, number: int) -> Iterator[None]:
        """Emits into ``block`` (scope ``number``) for the duration."""
        before = self._ip
        self._ip = mlir_ir.InsertionPoint(block)
        self._blocks.append(number)
        try:
            yield
        finally:
            self._blocks.pop()
            self._ip = before

    def _new_block(self) -> int:
        self._block_count += 1
        return self._block_count


def _shown(type_: Any) -> str:
    if isinstance(type_, str):
        known = f": use {type_.upper()} of rocke.core.ir" if type_ in SCALAR_TYPES else ""
        return f"{type_!r} (str){known}"
    return str(type_)


def _types(values: Sequence[Value]) -> str:
    return " and ".join(str(v.type) for v in values)


def _first_line(error: mlir_ir.MLIRError) -> str:
    diagnostics = getattr(error, "error_diagnostics", None) or ()
    texts = [str(d.message) for d in diagnostics]
    return "; ".join(texts) if texts else str(error).strip().replace("\n", " ")


def _argument(param: Param) -> list[str]:
    """The attributes of one function argument as MLIR text."""
    found = []
    if param.align is not None:
        found.append(f"llvm.align = {param.align} : i64")
    if param.noalias:
        found.append("llvm.noalias")
    if isinstance(param.type, ScalarType):
        return found
    found.append("llvm.noundef")
    if param.readonly:
        found.append("llvm.readonly")
    if param.writeonly:
        found.append("llvm.writeonly")
    return found
