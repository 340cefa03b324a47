"""What the builder refuses: the operation, what was expected, what was given, the user's line."""

from __future__ import annotations

import re

import pytest

from rocke.compiler import compile_kernel
from rocke.core.ir import F16, F32, I1, I8, I32, I64, IRBuilder, IRError, MlirType, ptr, vec

V4 = vec(F16, 4)

BAD = {
    "mixed widths": (lambda b, p: b.add(p.i, p.wide), "add", "one type", "i32 and i64"),
    "float in integer add": (lambda b, p: b.add(p.x, p.x), "add", "integers", "f32"),
    "integer in float add": (lambda b, p: b.fadd(p.i, p.i), "fadd", "f16, bf16 or f32", "i32"),
    "no value": (lambda b, p: b.add(1, 2), "add", "at least one Value", "(1, 2)"),
    "number that does not fit": (
        lambda b, p: b.add(p.i, 1 << 40),
        "add",
        "fits i32",
        "1099511627776",
    ),
    "float constant for int": (lambda b, p: b.add(p.i, 0.5), "add", "integer for i32", "0.5"),
    "bool constant": (lambda b, p: b.add(p.i, True), "add", "i32 Value or number", "True"),
    "constant too large": (lambda b, p: b.const_i8(256), "const", "fits i8", "256"),
    "vector constant length": (lambda b, p: b.const(V4, [1, 2]), "const", "4 values", "got 2"),
    "comparison of floats": (lambda b, p: b.cmp_lt(p.x, p.x), "cmp_lt", "integers", "f32"),
    "fcmp predicate": (lambda b, p: b.fcmp("lt", p.x, p.x), "fcmp", "olt", "'lt'"),
    "select condition": (lambda b, p: b.select(p.i, p.x, p.x), "select", "i1", "i32"),
    "select sides": (lambda b, p: b.select(p.c, p.x, p.i), "select", "one type", "f32 and i32"),
    "zext to narrower": (lambda b, p: b.zext(p.i, I8), "zext", "wider", "i32 to i8"),
    "trunc to wider": (lambda b, p: b.trunc(p.i, I64), "trunc", "narrower", "i32 to i64"),
    "trunc of float": (lambda b, p: b.trunc(p.x, I8), "trunc", "integer", "f32"),
    "umul_hi of i64": (lambda b, p: b.umul_hi_i32(p.wide, p.wide), "umul_hi_i32", "i32", "i64"),
    "cast from int": (lambda b, p: b.cast_to_f32(p.i), "cast_to_f32", "f16, bf16", "i32"),
    "cast to int": (lambda b, p: b.cast_f32_to(p.x, I32), "cast_f32_to", "float type", "i32"),
    "bitcast width": (lambda b, p: b.bitcast(p.x, I64), "bitcast", "one width", "f32 to i64"),
    "fast math flag": (lambda b, p: b.fadd(p.x, p.x, fastmath="fst"), "fadd", "nnan", "'fst'"),
    "extract from scalar": (lambda b, p: b.vec_extract(p.x, 0), "vec_extract", "vector", "f32"),
    "extract outside": (
        lambda b, p: b.vec_extract(p.v, 4),
        "vec_extract",
        "outside",
        "vec<f16, 4>",
    ),
    "insert other type": (lambda b, p: b.vec_insert(p.v, p.x, 0), "vec_insert", "f16", "f32"),
    "pack mixed": (lambda b, p: b.vec_pack([p.x, p.i]), "vec_pack", "one type", "f32 and i32"),
    "pack other type": (lambda b, p: b.vec_pack([p.x], F16), "vec_pack", "f16", "f32"),
    "concat mixed": (lambda b, p: b.vec_concat(p.v, p.w), "vec_concat", "f16", "vec<f32, 4>"),
    "slice outside": (lambda b, p: b.vec_slice(p.v, 2, 3), "vec_slice", "outside", "vec<f16, 4>"),
    "splat of vector": (lambda b, p: b.vec_splat(p.v, 2), "vec_splat", "scalar", "vec<f16, 4>"),
    "if on i32": (lambda b, p: b.scf_if(p.i), "scf_if", "i1", "i32"),
    "loop bounds": (
        lambda b, p: b.scf_for(p.i, p.wide, 1),
        "scf_for",
        "i32 or i64",
        "(i32, i64, i32)",
    ),
    "loop step": (lambda b, p: b.scf_for(0, p.i, 0), "scf_for", "positive step", "0"),
    "no carried": (lambda b, p: b.scf_for_iter(0, 1, 1, []), "scf_for_iter", "at least one", ""),
    "yield outside": (lambda b, p: b.scf_yield(p.i), "scf_yield", "no open", ""),
    "static_for value": (lambda b, p: b.static_for(0, p.i), "static_for", "Python ints", "i32"),
    "load type": (lambda b, p: b.global_load(p.h, 0, F32), "global_load", "f16", "f32"),
    "load from float": (lambda b, p: b.global_load(p.x, 0), "global_load", "global", "f32"),
    "i32 load of f16": (lambda b, p: b.global_load_i32(p.h, 0), "global_load", "f16", "i32"),
    "offset type": (lambda b, p: b.global_load(p.h, p.x), "global_load", "i32 or i64", "f32"),
    "alignment": (lambda b, p: b.global_load(p.h, 0, align=3), "global_load", "power of two", "3"),
    "store type": (lambda b, p: b.global_store(p.h, 0, p.x), "global_store", "f16", "f32"),
    "store count": (
        *(lambda b, p: b.global_store_vN(p.h, 0, p.v, 8), "global_store_vN"),
        *("vec<f16, 8>", "vec<f16, 4>"),
    ),
    "store to readonly": (
        lambda b, p: b.global_store(p.ro, 0, p.x),
        "global_store",
        "readonly",
        "'ro'",
    ),
    "store through offset": (
        *(lambda b, p: b.global_store(b.ptr_add(p.ro, 4), 0, p.x), "global_store"),
        *("readonly", "'ro'"),
    ),
    "load of writeonly": (lambda b, p: b.global_load(p.wo, 0), "global_load", "writeonly", "'wo'"),
    "buffer store to readonly": (
        *(lambda b, p: b.buffer_store(b.buffer_rsrc(p.ro, 4), 0, p.x), "buffer_store"),
        *("readonly", "'ro'"),
    ),
    "buffer of value": (lambda b, p: b.buffer_load(p.h, 0), "buffer_load", "descriptor", "ptr<f16"),
    "buffer width": (
        *(lambda b, p: b.buffer_load_vN(b.buffer_rsrc(p.h, 4), 0, F16, 3), "buffer_load_vN"),
        *("16 bytes", "6 bytes"),
    ),
    "lds shape": (lambda b, p: b.smem_alloc(F16, [0]), "smem_alloc", "positive", "(0,)"),
    "lds of i1": (lambda b, p: b.smem_alloc(I1, [4]), "smem_alloc", "8 bits", "i1"),
    "lds rank": (
        *(lambda b, p: b.smem_load_vN(p.lds, 0), "smem_load_vN"),
        *("2 indices", "got 1"),
    ),
    "lds dtype": (
        lambda b, p: b.smem_load_vN(p.lds, [0, 0], dtype=F32),
        "smem_load_vN",
        "f16",
        "f32",
    ),
    "lds index": (lambda b, p: b.smem_load_vN(p.lds, [0, p.wide]), "smem_load_vN", "i32", "i64"),
    "lds array": (lambda b, p: b.smem_load_vN(p.h, 0), "smem_load_vN", "LDS array", "ptr<f16"),
    "lds store": (
        *(lambda b, p: b.smem_store_vN(p.lds, [0, 0], p.x, 1), "smem_store_vN"),
        *("f16", "f32"),
    ),
    "copy size": (
        *(lambda b, p: b.buffer_load_lds(b.buffer_rsrc(p.h, 4), 0, p.lds, [0, 0], nbytes=8),),
        *("buffer_load_lds", "4, 12 or 16", "8"),
    ),
    "copy immediate": (
        lambda b, p: b.buffer_load_lds(b.buffer_rsrc(p.h, 4), 0, p.lds, [0, 0], immediate=2048),
        *("buffer_load_lds", "0 to 4095 bytes", "2048 elements"),
    ),
    "transposed element": (
        *(lambda b, p: b.ds_read_tr8_b64(p.lds, 0, 0), "ds_read_tr8_b64"),
        *("8-bit", "lds<f16, 4x8>"),
    ),
    "matrix operand": (
        *(lambda b, p: b.mfma_f32_16x16x16_f16(p.w, p.v, p.w), "mfma_f32_16x16x16_f16"),
        *("vec<f16, 4> for A", "vec<f32, 4>"),
    ),
    "matrix result": (
        *(lambda b, p: b.mfma_f32_32x32x8_f16(p.v, p.v, p.w), "mfma_f32_32x32x8_f16"),
        *("vec<f32, 16> for C", "vec<f32, 4>"),
    ),
    "matrix name": (
        lambda b, p: b.mma("mfma_1", p.v, p.v, p.w),
        "mma",
        "mfma_f32_16x16x16",
        "mfma_1",
    ),
    "matrix format": (
        *(lambda b, p: b.mfma_f32_16x16x128_f8f6f4(p.w, p.w, p.w), "mfma_f32_16x16x128_f8f6f4"),
        *("format of fp8, bf8", "vec<f32, 4>"),
    ),
    "ballot": (lambda b, p: b.wave_ballot(p.i), "wave_ballot", "i1", "i32"),
    "vote": (lambda b, p: b.wave_all(p.x), "wave_all", "i1", "f32"),
    "shuffle mask": (lambda b, p: b.warp_shuffle_xor(p.x, 64), "warp_shuffle_xor", "1 to 63", "64"),
    "bpermute address": (lambda b, p: b.ds_bpermute(p.x, p.x), "ds_bpermute", "i32", "f32"),
    "readfirstlane of pointer": (
        lambda b, p: b.readfirstlane(p.h),
        "readfirstlane",
        "scalar",
        "ptr",
    ),
    "swap width": (
        lambda b, p: b.permlane32_swap(p.v, p.v),
        "permlane32_swap",
        "32 bits",
        "vec<f16",
    ),
    "wait count": (lambda b, p: b.s_waitcnt(vmcnt=64), "s_waitcnt", "0 to 63", "64"),
    "priority": (lambda b, p: b.s_setprio(4), "s_setprio", "0 to 3", "4"),
    "param twice": (lambda b, p: b.param("i", I32), "param", "already", "'i'"),
    "param type": (lambda b, p: b.param("q", V4), "param", "integer", "vec<f16, 4>"),
    "param promise": (lambda b, p: b.param("q", I32, readonly=True), "param", "pointer", "i32"),
    "unknown operation": (lambda b, p: b._op("arith.addq"), "arith.addq", "no such", ""),
    "unknown attribute": (
        *(lambda b, p: b._op("rocdl.s.waitcnt", attrs={"bits": 1}), "rocdl.s.waitcnt"),
        *("bitfield", "'bits'"),
    ),
    "attribute kind": (
        *(lambda b, p: b._op("rocdl.s.waitcnt", attrs={"bitfield": "all"}), "rocdl.s.waitcnt"),
        *("I32Attr", "'all'"),
    ),
    "attribute missing": (lambda b, p: b._op("rocdl.s.waitcnt"), "rocdl.s.waitcnt", "requires", ""),
    "open door types": (
        *(lambda b, p: b._op("arith.addi", [p.i, p.wide], [I32]), "arith.addi"),
        *("same type", "(i32, i64)"),
    ),
    "open door constant": (
        *(lambda b, p: b._op("arith.constant", (), [I8], {"value": 1, "ity": "i16"}),),
        *("arith.constant", "i8", "i16"),
    ),
    "open door integer": (
        *(lambda b, p: b._op("rocdl.s.barrier", attrs={"a.b": 1 << 64}), "rocdl.s.barrier"),
        *("fits i64", "18446744073709551616"),
    ),
    "open door nameless attribute": (
        *(lambda b, p: b._op("rocdl.s.barrier", attrs={"": 1}), "rocdl.s.barrier"),
        *("a name", "''"),
    ),
    "open door single result type": (
        *(lambda b, p: b._op("arith.addi", [p.i, p.i], I32), "arith.addi"),
        *("brackets", ""),
    ),
    "open door single operand": (
        *(lambda b, p: b._op("math.absf", p.x, [F32]), "math.absf"),
        *("brackets", ""),
    ),
    "open door control flow": (lambda b, p: b._op("scf.yield"), "scf.yield", "ret", ""),
    "open door result": (
        *(lambda b, p: b._op("rocdl.s.barrier").result, "rocdl.s.barrier"),
        *("no result", ""),
    ),
    "open door result type": (
        *(lambda b, p: b._op("arith.addi", [p.i, p.i], ["i32"]), "arith.addi"),
        *("type", "'i32'"),
    ),
}


class Values:
    """A value of each kind."""

    def __init__(self, b: IRBuilder) -> None:
        self.i, self.wide = b.param("i", I32), b.param("wide", I64)
        self.x, self.h = b.param("x", F32), b.param("h", ptr(F16))
        self.ro = b.param("ro", ptr(F32), readonly=True)
        self.wo = b.param("wo", ptr(F32), writeonly=True)
        self.v, self.w = b.zero_vec(F16, 4), b.zero_vec(F32, 4)
        self.c = b.const_i1(True)
        self.lds = b.smem_alloc(F16, [4, 8])


@pytest.mark.parametrize("name", BAD)
def test_bad_calls_are_refused_with_operation_expectation_and_line(name):
    call, operation, expected, given = BAD[name]
    b = IRBuilder("k")
    values = Values(b)
    with pytest.raises(IRError) as caught:
        call(b, values)
    message = str(caught.value)
    assert message.startswith(f"{operation}: ") or message.startswith(f"{operation} ")
    assert expected in message
    assert given in message
    assert re.search(r"test_errors\.py:\d+\)$", message)


@pytest.mark.parametrize("name", BAD)
def test_a_refused_call_leaves_a_kernel_that_still_verifies(name):
    b = IRBuilder("k")
    values = Values(b)
    with pytest.raises(IRError):
        BAD[name][0](b, values)
    b.ret()
    assert "gpu.return" in b.kernel.mlir


def test_the_error_is_a_value_error_and_a_type_error():
    assert issubclass(IRError, ValueError)
    assert issubclass(IRError, TypeError)


def test_the_line_is_that_of_the_call():
    b = IRBuilder("k")
    x = b.param("x", F32)
    with pytest.raises(IRError) as caught:
        b.add(x, x)
    line = caught.traceback[0].lineno + 1
    assert str(caught.value).endswith(f"{__file__}:{line})")


def test_an_error_inside_a_helper_names_its_line_and_the_callers():
    source = "def helper(b, x):\n    return b.add(x, x)\n"
    space = {"__name__": "rocke.helpers.made_up"}
    exec(compile(source, "/somewhere/helpers/made_up.py", "exec"), space)
    b = IRBuilder("k")
    x = b.param("x", F32)
    with pytest.raises(IRError, match=r"made_up\.py:2, called from .*test_errors\.py:\d+\)$"):
        space["helper"](b, x)


def test_a_value_is_no_python_condition():
    b = IRBuilder("k")
    below = b.cmp_lt(b.param("i", I32), 4)
    with pytest.raises(TypeError, match=r"scf_if.*select.*test_errors\.py"):
        bool(below)


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (lambda x: x + 1, r"no \+ .*b.add or b.fadd"),
        (lambda x: 1 - x, "no - .*b.sub or b.fsub"),
        (lambda x: x * x, "b.mul or b.fmul"),
        (lambda x: x // 2, "b.div"),
        (lambda x: x % 2, "b.mod"),
        (lambda x: x << 2, "b.shl"),
        (lambda x: -x, "b.fneg"),
        (lambda x: x < 1, "no order .*b.cmp_lt"),
        (lambda x: x >= 1, "no order .*b.cmp_lt"),
        (lambda x: x == 1, "cannot be compared with 1 .*b.cmp_eq"),
        (lambda x: x != 1, "cannot be compared with 1 .*b.cmp_eq"),
        (lambda x: range(x), "no Python number .*b.scf_for"),
        (lambda x: float(x), "no Python number"),
        (lambda x: x[0], r"no \[...\] .*b.vec_extract, b.global_load or b.smem_load"),
        (lambda x: list(x), "b.vec_extract"),
        (lambda x: len(x), "b.vec_extract"),
    ],
)
def test_python_operators_say_what_to_use(use, advice):
    x = IRBuilder("k").param("x", I32)
    with pytest.raises(IRError, match=rf"^an i32 value of the kernel .*{advice}.*test_errors.py:"):
        use(x)


def test_values_are_equal_to_themselves_and_can_be_keys():
    b = IRBuilder("k")
    x, y = b.param("x", I32), b.param("y", I32)
    assert x == x
    assert x != y
    assert x in [y, x]
    assert {x: 1, y: 2}[x] == 1


def test_a_missing_end_names_the_users_line_only():
    b = IRBuilder("k")
    with pytest.raises(IRError) as raised:
        compile_kernel(b.kernel, "gfx942")
    expected = r"kernel k: it has no end: call b.ret\(\) .* \(at (\S*test_errors.py:\d+)\)"
    assert re.fullmatch(expected, str(raised.value))


def test_results_without_an_else_region_say_so():
    b = IRBuilder("k")
    with b.scf_if(b.cmp_lt(b.param("i", I32), 4), [F32]) as branch:
        b.scf_yield(1.0)
    with pytest.raises(IRError, match=r"needs 'with branch.orelse\(\):' too .*its results"):
        _ = branch.results


def test_an_operation_shows_its_results():
    b = IRBuilder("k")
    made = b._op("arith.addi", [b.param("i", I32)] * 2, [I32])
    assert repr(made) == "OpResult(arith.addi -> (i32))"


def test_a_type_by_its_name_says_which_object_to_use():
    with pytest.raises(IRError, match=r"for 'x', got 'f32' \(str\): use F32 of rocke.core.ir"):
        IRBuilder("k").param("x", "f32")
    with pytest.raises(IRError, match=r"for 'x', got 'float' \(str\) \(at"):
        IRBuilder("k").param("x", "float")


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (
            lambda b, a: b.smem_load(a, 64),
            r"smem_load: element 64 of lds<f32, 64>.*its 64 elements",
        ),
        (lambda b, a: b.smem_store(a, -1, 0.0), "smem_store: element -1 of"),
        (lambda b, a: b.smem_ptr(a, 64), "smem_ptr: element 64"),
        (lambda b, a: b.smem_load_vN(a, 61, n=4), "smem_load_vN: 4 elements from 61"),
        (lambda b, a: b.smem_store_vN(a, 64, 0.0, 1), "smem_store_vN: element 64"),
    ],
)
def test_a_constant_place_outside_an_lds_array_is_refused(access, message):
    b = IRBuilder("k")
    array = b.smem_alloc(F32, 64)
    assert array.type.shape == (64,)
    with pytest.raises(IRError, match=message):
        access(b, array)
    b.smem_store_vN(array, 60, b.smem_load_vN(array, 60, n=4), 4)
    with pytest.raises(IRError, match="smem_alloc: expected a size or a list of sizes, got '64'"):
        b.smem_alloc(F32, "64")


def test_a_value_of_another_builder_is_refused():
    x = IRBuilder("one").param("x", F32)
    with pytest.raises(IRError, match="another builder"):
        IRBuilder("two").fadd(x, x)


def test_a_value_of_a_closed_region_is_refused():
    b = IRBuilder("k")
    with b.scf_if(b.cmp_lt(b.param("i", I32), 4)):
        inner = b.const_i32(1)
    with pytest.raises(IRError, match=r"add: the i32 value was made inside a scf_if"):
        b.add(inner, inner)


def test_yields_are_checked_against_the_result_types():
    b = IRBuilder("k")
    i = b.param("i", I32)

    def wrong_type():
        with b.scf_if(b.cmp_lt(i, 4), [F32]):
            b.scf_yield(i)

    def no_yield():
        with b.scf_if(b.cmp_lt(i, 4), [F32]):
            b.add(i, i)

    with pytest.raises(IRError, match=r"scf_yield: expected \(f32\), got \(i32\)"):
        wrong_type()
    with pytest.raises(IRError, match=r"scf_if: expected b.scf_yield of \(f32\)"):
        no_yield()


def test_nothing_follows_a_yield_or_the_end():
    b = IRBuilder("k")
    i = b.param("i", I32)

    def after_the_yield():
        with b.scf_for_iter(0, 4, 1, [i]) as (_, (x,)):
            b.scf_yield(x)
            b.add(x, x)

    with pytest.raises(IRError, match="region has ended"):
        after_the_yield()
    b = IRBuilder("k")
    b.ret()
    with pytest.raises(
        IRError, match=r"const: the kernel has ended: b.ret\(\) was called at .*:\d+"
    ):
        b.const_i32(1)


def test_results_exist_only_after_the_regions():
    b = IRBuilder("k")
    loop = b.scf_for_iter(0, 4, 1, [b.const_i32(0)])
    with pytest.raises(IRError, match="only after"):
        _ = loop.results


@pytest.mark.parametrize("forget", ["with", "else", "ret"])
def test_an_unfinished_kernel_is_refused_when_it_is_printed(forget):
    b = IRBuilder("k")
    below = b.cmp_lt(b.param("i", I32), 4)
    if forget == "with":
        b.scf_if(below)
    if forget == "else":
        with b.scf_if(below, [I32]):
            b.scf_yield(b.const_i32(1))
    if forget != "ret":
        b.ret()
    wanted = {"with": "never opened by 'with'", "else": "orelse", "ret": r"call b\.ret\(\)"}
    with pytest.raises(IRError, match=wanted[forget]):
        _ = b.kernel.mlir


def test_a_region_opens_only_once():
    b = IRBuilder("k")
    branch = b.scf_if(b.cmp_lt(b.param("i", I32), 4))
    with branch:
        pass
    with pytest.raises(IRError, match="only once"), branch:
        pass
    with branch.orelse():
        pass
    with pytest.raises(IRError, match="orelse"):
        branch.orelse()


@pytest.mark.parametrize("place", ["loop", "nested", "results", "else"])
def test_an_early_return_is_refused_where_it_cannot_work(place):
    b = IRBuilder("k")
    below = b.cmp_lt(b.param("i", I32), 4)

    def in_loop():
        with b.scf_for(0, 4), b.scf_if(below):
            b.ret()

    def in_nested():
        with b.scf_if(below), b.scf_if(below):
            b.ret()

    def with_results():
        with b.scf_if(below, [I32]):
            b.ret()

    def in_else():
        with b.scf_if(below) as branch:
            b.add(1, b.const_i32(2))
        with branch.orelse():
            b.ret()

    call = {"loop": in_loop, "nested": in_nested, "results": with_results, "else": in_else}[place]
    with pytest.raises(IRError, match="ret: it can"):
        call()


def test_an_exception_in_a_region_leaves_the_builder_usable():
    b = IRBuilder("k")
    i = b.param("i", I32)

    def failing():
        with b.scf_for(0, i):
            raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        failing()
    b.add(i, 1)
    assert len(b._blocks) == 1


def test_an_unregistered_result_type_is_named():
    b = IRBuilder("k")
    with pytest.raises(IRError, match="no_such_type< is no MLIR type"):
        b._op("arith.constant", (), [MlirType("no_such_type<")], {"value": 1})


@pytest.mark.parametrize("name", ["", "1st", "a b", None, "llvm.memcpy"])
def test_kernel_names_are_identifiers(name):
    with pytest.raises(IRError, match="kernel name"):
        IRBuilder(name)
