"""``v_mov_b32``, plain and with indexed registers (``s_set_gpr_idx_on``).

Source: AMD Instinct MI300 ISA guide, *VGPR indexing*: M0[7:0] is added to the register number of
the chosen operands; a source out of range reads v0, a result out of range is not written.
"""

from __future__ import annotations

from rocke.emulator import state
from rocke.emulator.instruction import EXEC, M0, Instruction, OperandKind
from rocke.emulator.semantics.expr import U32
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Helper,
    HelperCall,
    Imm,
    Lowered,
    LoweringContext,
    ScalarReg,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.lanes import LaneLoop
from rocke.emulator.semantics.operands import scalar_arg
from rocke.emulator.semantics.vector import VectorOp, lower_vector

_MOVE = VectorOp("v_mov_b32", (U32,), (U32,), lambda e, a: a)
_SOURCE, _RESULT = 1, 8


def _lower(inst: Instruction, ctx: LoweringContext) -> Lowered:
    if not ctx.mode.vgpr_index:
        return lower_vector(_MOVE, inst, ctx)
    if len(inst.operands) != 2 or inst.encoding not in ("e32", "e64") or inst.modifiers:
        raise UnknownInstruction(inst, "this form is not supported with indexed registers")
    result, source = inst.operands
    vector = source.kind is OperandKind.VGPR
    masked = not ctx.exec_full
    args: list[Arg] = [ScalarReg(EXEC, 64)] if masked else []
    args += [WAVE, ScalarReg(M0), Imm(result.index)]
    args.append(Imm(source.index) if vector else scalar_arg(inst, source, U32))
    helper = _HELPERS[ctx.mode.vgpr_index & _RESULT != 0, vector, masked][
        int(ctx.mode.vgpr_index & _SOURCE != 0)
    ]
    return Lowered((HelperCall(helper, tuple(args)),))


def _build(result: bool, source: bool, vector: bool, masked: bool) -> Helper:
    which = ("d" if result else "") + ("s" if source else "") or "none"
    name = f"v_mov_b32_indexed.{which}.{'v' if vector else 's'}.{'masked' if masked else 'full'}"
    loop = LaneLoop(masked)
    wave, m0, to = loop.param("ptr"), loop.param("i32"), loop.param("i32")
    start = loop.param("i32")
    loop.entry.append(f"%index = and i32 {m0}, 255")
    target = _row(loop, wave, "to", to, result, out_of_range=state.SCRATCH_ROWS)
    if vector:
        value = loop.load(_row(loop, wave, "from", start, source, out_of_range=state.VGPR))
    else:
        value = loop.broadcast(start, U32)
    loop.store(target, value)
    text, declares = loop.finish(name)
    return Helper(name, lambda: text, declares)


def _row(
    loop: LaneLoop, wave: str, name: str, register_: str, indexed: bool, out_of_range: int
) -> str:
    """The address of the register; the scratch rows take what is not written."""
    loop.entry += [
        f"%{name}.n = add i32 {register_}, {'%index' if indexed else 0}",
        f"%{name}.good = icmp ult i32 %{name}.n, 256",
        f"%{name}.w = zext i32 %{name}.n to i64",
        f"%{name}.o = mul i64 %{name}.w, {state.ROW_BYTES}",
        f"%{name}.a = add i64 %{name}.o, {state.VGPR}",
        f"%{name}.c = select i1 %{name}.good, i64 %{name}.a, i64 {out_of_range}",
        f"%{name} = getelementptr i8, ptr {wave}, i64 %{name}.c",
    ]
    return f"%{name}"


_HELPERS = {
    (result, vector, masked): [_build(result, s, vector, masked) for s in (False, True)]
    for result in (False, True)
    for vector in (False, True)
    for masked in (False, True)
}

register("v_mov_b32", _lower)
