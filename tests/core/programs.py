"""Small kernels that together call every method of the builder.

Each is a function of a builder and a name space of parameters; `TARGETS` says which targets have it
where not all do, and `EXPECTED` which MLIR operations it must contain.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from rocke.core.ir import (
    BF8E5M2,
    BF16,
    F16,
    F32,
    FP8E4M3,
    I8,
    I32,
    I64,
    IRBuilder,
    KernelDef,
    Type,
    Value,
    VectorType,
    ptr,
    vec,
)
from rocke.core.matrix import ATOMS

ALL = ("gfx90a", "gfx942", "gfx950")
FP8 = ("gfx942", "gfx950")
GFX950 = ("gfx950",)

PARAMS: tuple[tuple[str, Type], ...] = (
    ("f", ptr(F32)),
    ("h", ptr(F16)),
    ("bf", ptr(BF16)),
    ("w", ptr(I32)),
    ("y", ptr(I8)),
    ("fp8", ptr(FP8E4M3)),
    ("bf8", ptr(BF8E5M2)),
    ("n", I32),
    ("s", F32),
)

Program = Callable[[IRBuilder, SimpleNamespace], None]
PROGRAMS: dict[str, Program] = {}
TARGETS: dict[str, tuple[str, ...]] = {}
EXPECTED: dict[str, tuple[str, ...]] = {}


def program(*expected: str, targets: tuple[str, ...] = ALL) -> Callable[[Program], Program]:
    def add(function: Program) -> Program:
        name = function.__name__
        PROGRAMS[name], TARGETS[name], EXPECTED[name] = function, targets, expected
        return function

    return add


def build(name: str, builder: type[IRBuilder] = IRBuilder) -> KernelDef:
    b = builder(name)
    p = SimpleNamespace(**{n: b.param(n, t) for n, t in PARAMS})
    PROGRAMS[name](b, p)
    b.ret()
    return b.kernel


def keep(b: IRBuilder, pointer: Value, value: Value) -> None:
    """Stores a value where no other store goes, so that nothing is optimised away."""
    count = value.type.count if isinstance(value.type, VectorType) else 1
    place = b.add(b.mul(b.thread_id_x(), count), b._operations * 4096)
    b.global_store_vN(pointer, place, value, count)


@program("arith.constant true", "arith.constant -56 : i8", "0x7FC00000", "dense<[1.0")
def constants(b: IRBuilder, p: SimpleNamespace) -> None:
    keep(b, p.y, b.select(b.const_i1(True), b.const_i8(200), b.const_i8(-1)))
    keep(b, p.w, b.zext(b.const_i16(0xFFFF), I32))
    keep(b, p.w, b.trunc(b.const_i64(1 << 40), I32))
    keep(b, p.w, b.const_i32(-5))
    keep(b, p.h, b.const_f16(0.1))
    keep(b, p.bf, b.const_bf16(3))
    keep(b, p.f, b.fadd(b.const_f32(float("nan")), b.const(F32, float("inf"))))
    keep(b, p.fp8, b.const_fp8e4m3(0x7F))
    keep(b, p.bf8, b.const_bf8e5m2(0x80))
    keep(b, p.f, b.fadd(b.const(vec(F32, 2), [1, 2.5]), b.zero_vec(F32, 2)))


@program(
    *("arith.addi", "arith.subi", "arith.muli", "arith.divsi", "arith.remsi", "arith.maxsi"),
    *("arith.minsi", "arith.andi", "arith.ori", "arith.xori", "arith.shli", "arith.shrui"),
    *("arith.shrsi", "arith.mului_extended", "arith.extui", "arith.extsi", "arith.trunci"),
    *(f"arith.cmpi {c}" for c in ("eq", "ne", "slt", "sle", "sgt", "sge", "ult")),
    "arith.select",
)
def integers(b: IRBuilder, p: SimpleNamespace) -> None:
    x = b.global_load_i32(p.w, b.thread_id_x())
    for method in (b.add, b.sub, b.mul, b.div, b.mod, b.smax, b.smin, b.land, b.lor, b.xor):
        x = method(x, p.n)
    x = b.umul_hi_i32(x, 0xCCCCCCCD)
    x = b.byte_permute(x, b.bit_mask(x, 5), b.const_i32(0x07060302))
    x = b.lnot(b.ashr(b.lshr(b.shl(x, 3), 1), 1))
    wide = b.mul(b.sext(x, I64), b.zext(p.n, I64))
    truth = b.cmp_eq(x, b.trunc(wide, I32))
    for compare in (b.cmp_ne, b.cmp_lt, b.cmp_le, b.cmp_gt, b.cmp_ge, b.cmp_ult):
        truth = b.xor(truth, compare(x, p.n))
    keep(b, p.w, b.select(b.lnot(truth), x, p.n))


@program(
    *("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.negf", "arith.maxnumf"),
    *("arith.minnumf", "llvm.intr.fma", '"llvm.fabs"', '"llvm.exp2"', "rocdl.exp2", '"llvm.log2"'),
    *("rocdl.log", '"llvm.sqrt"', "rocdl.rcp", "fastmath<nnan>", "arith.cmpf olt"),
)
def floats(b: IRBuilder, p: SimpleNamespace) -> None:
    x = b.global_load(p.f, b.thread_id_x(), F32)
    for method in (b.fadd, b.fsub, b.fmul, b.fdiv, b.fmax, b.fmin):
        x = method(x, p.s)
    x = b.fmax3(b.fma(x, p.s, 2.0), p.s, 0.5, fastmath="nnan")
    for unary in (b.fneg, b.fabs, b.exp2, b.exp2_fast, b.log2, b.log2_fast):
        x = unary(x)
    for unary in (b.sqrt, b.rcp, b.rcp_fast):
        x = unary(x)
    keep(b, p.f, b.select(b.fcmp("olt", x, 1), x, p.s))


@program("vector<4xf16>", "rocdl.exp2", "vector.from_elements")
def half_vectors(b: IRBuilder, p: SimpleNamespace) -> None:
    x = b.global_load_vN(p.h, b.thread_id_x(), F16, 4)
    x = b.fma(b.fadd(x, x), x, 0.5)
    for unary in (b.exp2_fast, b.exp2, b.log2, b.sqrt, b.fabs, b.rcp_fast):
        x = unary(x)
    keep(b, p.h, b.fmax(x, 0.0))


@program("arith.extf", "arith.truncf", '"llvm.amdgcn.perm"', "rocdl.cvt.pkrtz", "arith.sitofp")
def casts(b: IRBuilder, p: SimpleNamespace) -> None:
    wide = b.cast_to_f32(b.global_load_vN(p.bf, b.thread_id_x(), BF16, 4))
    keep(b, p.bf, b.cast_f32_to(b.fadd(wide, 1.0), BF16))
    x, y = b.vec_extract(wide, 0), b.vec_extract(wide, 1)
    keep(b, p.bf, b.cvt_pk_bf16_f32_fast(x, y))
    keep(b, p.bf, b.cvt_pk_bf16_f32(x, y))
    keep(b, p.h, b.cvt_pkrtz_f16_f32(x, y))
    keep(b, p.f, b.dot2(b.cvt_pkrtz_f16_f32(x, y), b.const(vec(F16, 2), 1.0), x))
    keep(b, p.h, b.cast_f32_to(x, F16))
    keep(b, p.f, b.sitofp_f32(b.fptosi_i32(y)))
    keep(b, p.w, b.bitcast(x, I32))


@program(
    *("rocdl.cvt.pk.f32.fp8", "rocdl.cvt.pk.bf8.f32", "rocdl.cvt.f32.fp8", "rocdl.cvt.f32.bf8"),
    "rocdl.cvt.pk.fp8.f32",
    targets=FP8,
)
def byte_floats(b: IRBuilder, p: SimpleNamespace) -> None:
    tid = b.thread_id_x()
    pair = b.cvt_pk_f32_fp8(b.global_load_vN(p.fp8, tid, FP8E4M3, 2))
    packed = b.cvt_pk_fp8_f32(b.vec_extract(pair, 0), b.vec_extract(pair, 1), BF8E5M2)
    keep(b, p.bf8, packed)
    one = b.cast_to_f32(b.global_load(p.fp8, tid))
    total = b.fadd(one, b.cast_to_f32(b.global_load(p.bf8, tid, BF8E5M2)))
    keep(b, p.fp8, b.cast_f32_to(total, FP8E4M3))


@program(
    *("vector.extract", "vector.insert", "vector.shuffle", "vector.broadcast"),
    *("vector.from_elements", "llvm.extractelement", "llvm.insertelement", "llvm.bitcast"),
)
def vectors(b: IRBuilder, p: SimpleNamespace) -> None:
    x = b.global_load_vN(p.h, b.thread_id_x(), F16, 4)
    z = b.vec_slice(b.vec_concat(x, b.zero_vec(F16, 4), x), 2, 4)
    z = b.vec_insert(z, 1.5, 3)
    z = b.vec_insert(z, b.vec_extract(x, p.n), p.n)
    z = b.fadd(z, b.vec_splat(b.vec_extract(x, 0), 4))
    z = b.vec_pack([b.vec_extract(z, i) for i in range(4)], F16)
    keep(b, p.h, b.bitcast(b.bitcast(b.bitcast(z, vec(I32, 2)), I64), vec(F16, 4)))


@program(
    *("rocdl.workitem.id.x", "rocdl.workgroup.id.x", "rocdl.workgroup.id.y"),
    *("rocdl.workgroup.id.z", "rocdl.mbcnt.lo", "rocdl.mbcnt.hi", "llvm.amdgcn.implicitarg.ptr"),
)
def ids(b: IRBuilder, p: SimpleNamespace) -> None:
    total = b.add(b.thread_id_x(), b.lane_id())
    for block in (b.block_id_x(), b.block_id_y(), b.block_id_z(), *b.grid_sizes()):
        total = b.add(total, block)
    keep(b, p.w, total)


@program("scf.if", "} else {", "-> (i32, f32)", "scf.for", "iter_args(%", "scf.yield")
def control_flow(b: IRBuilder, p: SimpleNamespace) -> None:
    tid = b.thread_id_x()
    below = b.cmp_lt(tid, p.n)
    with b.scf_if(below), b.scf_if(b.cmp_gt(tid, 3)):
        keep(b, p.w, tid)
    with b.scf_if(below) as branch:
        keep(b, p.w, p.n)
    with branch.orelse():
        keep(b, p.w, tid)
    with b.scf_if(below, [I32, F32]) as branch:
        b.scf_yield(tid, b.const_f32(1))
    with branch.orelse():
        b.scf_yield(p.n, p.s)
    x, y = branch.results
    with b.scf_for(0, p.n, 1) as i:
        for j in b.static_for(0, 3):
            b.global_store(p.w, i, b.add(x, j))
    loop = b.scf_for_iter(b.zext(p.n, I64), b.const_i64(100), 2, [y, ("count", x)])
    with loop as (index, (total, count)):
        b.scf_yield(b.fadd(total, 1.0), b.add(count, b.trunc(index, I32)))
    keep(b, p.f, loop.results[0])
    keep(b, p.w, loop.results[1])


@program("} else {")
def early_return(b: IRBuilder, p: SimpleNamespace) -> None:
    tid = b.thread_id_x()
    with b.scf_if(b.cmp_ge(tid, p.n)):
        b.ret()
    later = b.add(tid, 1)
    with b.scf_if(b.cmp_ge(tid, 5)):
        keep(b, p.w, p.n)
        b.ret()
    keep(b, p.w, later)


@program("llvm.getelementptr", "llvm.load", "llvm.store", "llvm.addrspacecast", "!llvm.ptr<4>")
def global_memory(b: IRBuilder, p: SimpleNamespace) -> None:
    tid = b.thread_id_x()
    far = b.ptr_add(p.f, b.mul(b.sext(p.n, I64), 1 << 33))
    keep(b, p.f, b.global_load(far, tid))
    words = b.ptr_cast(p.h, I32)
    b.global_store_vN(p.w, tid, b.global_load_vN(words, tid, I32, 4, align=16), 4, align=16)
    b.global_store(p.f, 7, b.global_load(b.constant_ptr(p.f), p.n), align=4)


@program("rocdl.make.buffer.rsrc", "rocdl.raw.ptr.buffer.load", "rocdl.raw.ptr.buffer.store")
def buffers(b: IRBuilder, p: SimpleNamespace) -> None:
    tid = b.thread_id_x()
    halves, floats_, bytes_ = (
        b.buffer_rsrc(p.h, b.mul(p.n, 2)),
        b.buffer_rsrc(p.f, 4096),
        b.buffer_rsrc(p.y, p.n),
    )
    b.buffer_store_vN(halves, tid, b.buffer_load_vN(halves, tid, F16, 8, soffset=p.n), 8)
    b.buffer_store(floats_, tid, b.buffer_load(floats_, b.add(tid, 1), F32), soffset=4)
    b.buffer_store(bytes_, tid, b.buffer_load(bytes_, tid))
    b.buffer_store_vN(bytes_, tid, b.buffer_load_vN(bytes_, tid, I8, 16), 16)
    b.buffer_store_vN(halves, tid, b.buffer_load_vN(halves, tid, F16, 1), 1)


@program("llvm.mlir.global internal", "llvm.mlir.addressof", "rocdl.s.barrier", "llvm.fence")
def lds(b: IRBuilder, p: SimpleNamespace) -> None:
    tid = b.thread_id_x()
    tile = b.smem_alloc(F16, [64, 72], name_hint="tile")
    mask = b.smem_alloc(I8, [100])
    b.smem_store_vN(tile, [tid, 8], b.global_load_vN(p.h, tid, F16, 8), 8, align=16)
    b.smem_store_vN(mask, [p.n], b.global_load(p.y, tid), 1)
    b.smem_store_vN(mask, tid, 3, 1)
    b.sync()
    keep(b, p.h, b.smem_load_vN(tile, [p.n, tid], dtype=F16, n=8))
    keep(b, p.h, b.smem_load_vN(tile, tid, p.n, n=4))
    keep(b, p.y, b.smem_load_vN(mask, index=tid, dtype=I8, n=1))
    b.smem_store(tile, [tid, 70], 0.5)
    b.smem_store(mask, 99, b.smem_load(mask, tid))
    keep(b, p.h, b.smem_load(tile, tid, p.n))


@program("rocdl.raw.ptr.buffer.load.lds", "rocdl.s.waitcnt", "rocdl.s.barrier")
def direct_copy(b: IRBuilder, p: SimpleNamespace) -> None:
    tid = b.thread_id_x()
    array = b.smem_alloc(F32, [64])
    b.buffer_load_lds(b.buffer_rsrc(p.f, p.n), tid, array, 0)
    b.s_waitcnt(vmcnt=0)
    b.s_barrier_bare()
    keep(b, p.f, b.smem_load_vN(array, tid, dtype=F32))


@program("rocdl.global.load.lds", targets=FP8)
def direct_copy_global(b: IRBuilder, p: SimpleNamespace) -> None:
    tid = b.thread_id_x()
    array = b.smem_alloc(F32, [64])
    b.global_load_lds(p.f, tid, array)
    b.sync()
    keep(b, p.f, b.smem_load_vN(array, tid))


@program("rocdl.ds.read.tr16.b64", "rocdl.ds.read.tr8.b64", targets=GFX950)
def wide_copy_and_transpose(b: IRBuilder, p: SimpleNamespace) -> None:
    tid = b.thread_id_x()
    array, halves, bytes_ = (
        b.smem_alloc(F32, [1024]),
        b.smem_alloc(F16, [64, 16]),
        b.smem_alloc(FP8E4M3, [64, 16]),
    )
    with b.incoming_scope():
        b.buffer_load_lds(b.buffer_rsrc(p.f, p.n), tid, b.smem_ptr(array, p.n), 8, nbytes=16)
        b.global_load_lds(p.f, tid, array, 256, nbytes=12)
        keep(b, p.f, b.smem_load_vN(array, tid))
    b.sync()
    keep(b, p.f, b.smem_load_vN(array, tid))
    keep(b, p.w, b.smem_load_vN(b.smem_view(array, I32, [8, 4]), tid, 0))
    keep(b, p.h, b.ds_read_tr16_b64(halves, tid, 0))
    keep(b, p.fp8, b.ds_read_tr8_b64(bytes_, [tid, 0]))


@program(
    *("rocdl.readfirstlane", "rocdl.readlane", "rocdl.ballot", "rocdl.ds_bpermute"),
    *("rocdl.update.dpp", "rocdl.ds_swizzle"),
)
def cross_lane(b: IRBuilder, p: SimpleNamespace) -> None:
    tid = b.thread_id_x()
    x = b.global_load(p.f, tid)
    x = b.fadd(b.readfirstlane(x), b.readlane(x, p.n))
    for mask in (1, 2, 3, 7, 15, 4, 16, 32):
        x = b.fadd(x, b.warp_shuffle_xor(x, mask))
    below = b.cmp_lt(tid, p.n)
    keep(b, p.w, b.trunc(b.wave_ballot(below), I32))
    with b.scf_if(b.wave_any(below)):
        keep(b, p.f, x)
    with b.scf_if(b.wave_all(b.readfirstlane(below))):
        keep(b, p.f, b.ds_bpermute(b.shl(tid, 2), x))
    halves = b.global_load_vN(p.h, tid, F16, 8)
    keep(b, p.h, b.fadd(b.readfirstlane(halves), b.warp_shuffle_xor(halves, 16)))
    keep(b, p.bf, b.warp_shuffle_xor(b.global_load(p.bf, tid), 8))
    keep(b, p.w, b.trunc(b.readfirstlane(b.sext(tid, I64)), I32))
    keep(b, p.w, b.ds_permute(b.shl(b.lanes_below(b.const_i64(-1)), 2), tid))


@program("rocdl.permlane32.swap", "llvm.extractvalue", targets=GFX950)
def permlane(b: IRBuilder, p: SimpleNamespace) -> None:
    x = b.global_load(p.f, b.thread_id_x())
    low, high = b.permlane32_swap(x, x)
    keep(b, p.f, b.fadd(low, high))


@program(
    *("rocdl.s.waitcnt 112", "rocdl.s.waitcnt 627", "rocdl.s.barrier", "rocdl.sched.barrier 0"),
    *("rocdl.sched.group.barrier 8, 2, 1", "rocdl.s.setprio 2", "rocdl.iglp.opt 0"),
)
def synchronisation(b: IRBuilder, p: SimpleNamespace) -> None:
    b.sync()
    b.s_waitcnt(vmcnt=3, lgkmcnt=2)
    b.s_barrier_bare()
    b.sched_barrier()
    b.sched_group_barrier(8, 2, 1)
    b.s_setprio(2)
    b.iglp_opt(0)


def _operand(b: IRBuilder, p: SimpleNamespace, type_: Type) -> Value:
    tid = b.thread_id_x()
    if isinstance(type_, VectorType):
        return b.global_load_vN(b.ptr_cast(p.f, type_.elem), tid, type_.elem, type_.count)
    return b.global_load(p.f, tid)


def _matrix_program(name: str) -> Program:
    def matrix(b: IRBuilder, p: SimpleNamespace) -> None:
        atom = ATOMS[name]
        operands = [_operand(b, p, t) for t in (atom.a_type, atom.b_type, atom.c_type)]
        keep(b, p.f, getattr(b, name)(*operands))

    matrix.__name__ = name
    return matrix


for _name, _atom in ATOMS.items():
    program(_atom.mlir_name + " ", targets=_atom.targets)(_matrix_program(_name))


@program(
    *("rocdl.mfma.scale.f32.16x16x128.f8f6f4", "rocdl.mfma.scale.f32.32x32x64.f8f6f4"),
    targets=GFX950,
)
def matrix_f8f6f4(b: IRBuilder, p: SimpleNamespace) -> None:
    four, six = _operand(b, p, vec(I32, 4)), _operand(b, p, vec(I32, 6))
    small = _operand(b, p, vec(F32, 4))
    keep(b, p.f, b.mfma_f32_16x16x128_f8f6f4(four, six, small, a_format="fp4", b_format="bf6"))
    e4m3, e5m2 = _operand(b, p, vec(FP8E4M3, 32)), _operand(b, p, vec(BF8E5M2, 32))
    keep(b, p.f, b.mfma_f32_32x32x64_f8f6f4(e4m3, e5m2, _operand(b, p, vec(F32, 16))))
    keep(b, p.f, b.mma("mfma_f32_16x16x128_f8f6f4", e5m2, e5m2, small))


@program("arith.constant 1 : i8", "llvm.mlir.undef", "arith.addi", "arith.cmpi ult")
def open_door(b: IRBuilder, p: SimpleNamespace) -> None:
    one = b._op("arith.constant", result_types=[I8], attrs={"value": 1, "ity": "i8"}).result
    undef = b._op("llvm.mlir.undef", result_types=[I8]).result
    two = b._op("arith.addi", [one, undef], [I8], result_name_hint="two").result
    below = b._op("arith.cmpi", [one, two], [b.const_i1(0).type], {"predicate": "ult"}).result
    keep(b, p.y, b.select(below, one, two))


@program(targets=GFX950)
def bound_to_one_target(b: IRBuilder, p: SimpleNamespace) -> None:
    b.bind_arch("gfx950")
    keep(b, p.w, p.n)
