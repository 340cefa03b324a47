"""Checks on the lowered module: what would end the process, or not load, is an error here."""

from __future__ import annotations

import functools
import re

import llvmlite.binding as llvm
from mlir import ir

from rocke.arch import TARGETS, Target
from rocke.compiler.errors import CompileError
from rocke.compiler.source import KernelText

_LOWERED_PREFIXES = ("llvm.", "rocdl.")
_CHECKED_PREFIXES = ("rocdl.", "llvm.call", "llvm.inline_asm")
_CAST = "builtin.unrealized_conversion_cast"
_INTRINSIC_PREFIX = "llvm.amdgcn."
_INTRINSIC_NAME = re.compile(r"llvm\.[A-Za-z0-9_.]+")
_UNKNOWN = "; Unknown intrinsic"  # LLVM's own comment above such a declaration
_MATRIX_INTRINSICS = frozenset(op.intrinsic for t in TARGETS.values() for op in t.matrix_ops)
_DIRECT_COPY_SIZE_OPERAND = 2  # of raw.ptr.buffer.load.lds: resource, LDS pointer, size


def location_text(location: ir.Location) -> str:
    """``file:line`` of the innermost file location in ``location``, else MLIR's own text."""
    if location.is_a_file():
        return f"{location.filename}:{location.start_line}"
    if location.is_a_name():
        return location_text(location.child_loc)
    if location.is_a_callsite():
        return location_text(location.callee)
    if location.is_a_fused():
        for inner in location.locations:
            text = location_text(inner)
            if text != "?":
                return text
    return "?" if str(location) == "loc(unknown)" else str(location)


def check_lowered(kernel: KernelText, target: Target, device: ir.Operation) -> None:
    """Raise :class:`CompileError` for an operation that cannot become code for ``target``.

    Covered are operations that no pass converted (the translation would crash), inline assembly,
    operations that the target or LLVM does not have (the code generator would abort), and calls of
    functions that nothing defines (the code object would not load). The error names the operation
    and its source location.
    """
    suspects: list[ir.Operation] = []
    defined: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name.startswith(_LOWERED_PREFIXES):
            if name == "llvm.func" and op.regions[0].blocks:
                defined.add(ir.StringAttr(op.attributes["sym_name"]).value)
            elif name.startswith(_CHECKED_PREFIXES):
                suspects.append(op)
        elif name != "gpu.module":
            suspects.append(op)
        return ir.WalkResult.ADVANCE

    device.walk(visit, ir.WalkOrder.PRE_ORDER)
    # A cast is only left beside the operation that needed it: the operation is the better name.
    for op in sorted(suspects, key=lambda op: op.name == _CAST):
        problem = (
            _unconverted(op)
            or _inline_assembly(op)
            or _undefined_call(op, defined)
            or _unknown_intrinsic(op)
            or _absent_operation(op, target)
        )
        if problem:
            where = location_text(op.location)
            raise CompileError(f"{kernel.name}: {where}: {problem} (compiling for {target.name})")


def _unconverted(op: ir.Operation) -> str:
    if op.name.startswith(_LOWERED_PREFIXES):
        return ""
    return f"{op.name} cannot be lowered: no pass converts it to LLVM"


def _inline_assembly(op: ir.Operation) -> str:
    if op.name != "llvm.inline_asm" or not ir.StringAttr(op.attributes["asm_string"]).value:
        return ""
    return "inline assembly cannot be assembled here: use the rocdl operation of the instruction"


def _undefined_call(op: ir.Operation, defined: set[str]) -> str:
    if op.name != "llvm.call" or "callee" not in op.attributes:
        return ""
    name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
    if name in defined or name.startswith("llvm."):
        return ""
    advice = "use the hardware's operation, for example rocdl.exp2 for math.exp2"
    return f"calls {name}, which no library linked here defines: {advice}"


def _unknown_intrinsic(op: ir.Operation) -> str:
    if op.name != "llvm.call_intrinsic":
        return ""
    name = ir.StringAttr(op.attributes["intrin"]).value
    return "" if is_intrinsic(name) else f"LLVM has no intrinsic {name}"


@functools.cache
def is_intrinsic(name: str) -> bool:
    """Whether LLVM knows an intrinsic of that name, the types in the name aside."""
    if not _INTRINSIC_NAME.fullmatch(name):
        return False
    declaration = f"declare void @{name}()"
    with (
        llvm.create_context() as context,
        llvm.parse_assembly(declaration, context) as module,
    ):
        return _UNKNOWN not in str(module)


def _absent_operation(op: ir.Operation, target: Target) -> str:
    intrinsic = _intrinsic(op)
    if not intrinsic:
        return ""
    if intrinsic.startswith(("permlane32.swap", "permlane16.swap")):
        return "" if target.has_permlane32_swap else f"the target has no {intrinsic}"
    if intrinsic.startswith("ds.read.tr"):
        return "" if target.has_transposed_lds_read else f"the target has no {intrinsic}"
    if intrinsic in _MATRIX_INTRINSICS:
        own = any(op.intrinsic == intrinsic for op in target.matrix_ops)
        return "" if own else f"the target has no matrix instruction {intrinsic}"
    if intrinsic.startswith("raw.ptr.buffer.load.lds"):
        return _direct_copy_size(op, target)
    return ""


def _intrinsic(op: ir.Operation) -> str:
    """The LLVM intrinsic of an operation, without its prefix; empty for other operations."""
    if op.name.startswith("rocdl."):
        return op.name.removeprefix("rocdl.")
    if op.name == "llvm.call_intrinsic":
        name: str = ir.StringAttr(op.attributes["intrin"]).value
        if name.startswith(_INTRINSIC_PREFIX):
            return name.removeprefix(_INTRINSIC_PREFIX)
    return ""


def _direct_copy_size(op: ir.Operation, target: Target) -> str:
    owner = op.operands[_DIRECT_COPY_SIZE_OPERAND].owner
    if not isinstance(owner, ir.Operation | ir.OpView) or owner.operation.name != (
        "llvm.mlir.constant"
    ):
        return "the size of a direct copy to LDS must be a constant"
    size = ir.IntegerAttr(owner.operation.attributes["value"]).value
    if size in (1, 2, *target.direct_lds_bytes):
        return ""
    there = ", ".join(str(s) for s in target.direct_lds_bytes)
    return f"a direct copy to LDS of {size} bytes a lane: the target copies {there}"
