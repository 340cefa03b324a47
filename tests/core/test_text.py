"""The MLIR text of small programs, as mlir-opt prints it."""

from __future__ import annotations

from rocke.core.ir import F16, F32, I8, I32, IRBuilder, ptr


def body(text: str) -> list[str]:
    """The lines between the function's head and its return, stripped."""
    lines = [line.strip() for line in text.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("gpu.func"))
    return lines[start + 1 : lines.index("gpu.return")]


def test_module_frame(mlir_opt):
    b = IRBuilder("frame")
    b.param("n", I32)
    b.ret()
    attributes = 'kernel attributes {rocdl.flat_work_group_size = "1,256"}'
    assert mlir_opt(b.kernel.mlir).split("\n") == [
        "module attributes {gpu.container_module} {",
        "  gpu.module @kernels {",
        f"    gpu.func @frame(%arg0: i32) {attributes} {{",
        "      gpu.return",
        "    }",
        "  }",
        "}",
        "",
        "",
    ]


def test_load_compute_store(mlir_opt):
    b = IRBuilder("k")
    x, n = b.param("x", ptr(F32)), b.param("n", I32)
    tid = b.thread_id_x()
    with b.scf_if(b.cmp_lt(tid, n)):
        b.global_store(x, tid, b.fmul(b.global_load(x, tid), 2.0))
    b.ret()
    gep = "llvm.getelementptr %arg0[%0] {noWrapFlags = 3 : i32} : (!llvm.ptr<1>, i32)"
    assert body(mlir_opt(b.kernel.mlir)) == [
        "%0 = rocdl.workitem.id.x : i32",
        "%1 = arith.cmpi slt, %0, %arg1 : i32",
        "scf.if %1 {",
        f"%2 = {gep} -> !llvm.ptr<1>, f32",
        "%3 = llvm.load %2 {alignment = 4 : i64} : !llvm.ptr<1> -> f32",
        "%cst = arith.constant 2.000000e+00 : f32",
        "%4 = arith.mulf %3, %cst : f32",
        f"%5 = {gep} -> !llvm.ptr<1>, f32",
        "llvm.store %4, %5 {alignment = 4 : i64} : f32, !llvm.ptr<1>",
        "}",
    ]


def test_lds_array_and_sync(mlir_opt):
    b = IRBuilder("k")
    array = b.smem_alloc(F16, [4, 8], name_hint="tile")
    b.smem_store_vN(array, [1, b.thread_id_x()], b.const_f16(1), 1)
    b.sync()
    b.ret()
    text = mlir_opt(b.kernel.mlir)
    assert (
        "llvm.mlir.global internal @k.tile.1() {addr_space = 3 : i32, alignment = 16 : i64} "
        ": !llvm.array<32 x f16>" in text
    )
    assert body(text) == [
        "%0 = llvm.mlir.addressof @k.tile.1 : !llvm.ptr<3>",
        "%1 = rocdl.workitem.id.x : i32",
        "%cst = arith.constant 1.000000e+00 : f16",
        "%2 = llvm.getelementptr %0[%1] {noWrapFlags = 3 : i32} "
        ": (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f16",
        "%3 = llvm.getelementptr %2[8] {noWrapFlags = 3 : i32} "
        ": (!llvm.ptr<3>) -> !llvm.ptr<3>, f16",
        "llvm.store %cst, %3 {alignment = 2 : i64} : f16, !llvm.ptr<3>",
        'llvm.fence syncscope("singlethread") seq_cst',
        "rocdl.s.waitcnt 112",
        'llvm.fence syncscope("singlethread") seq_cst',
        'llvm.fence syncscope("workgroup") release',
        "rocdl.s.barrier",
        'llvm.fence syncscope("workgroup") acquire',
    ]


def test_an_array_made_inside_a_region_lives_in_the_whole_kernel(mlir_opt):
    b = IRBuilder("k")
    tid = b.thread_id_x()
    with b.scf_if(b.cmp_lt(tid, 4)):
        array = b.smem_alloc(I8, [4])
    b.smem_store_vN(array, tid, 1, 1)
    b.ret()
    assert body(mlir_opt(b.kernel.mlir))[0] == "%0 = llvm.mlir.addressof @k.smem.1 : !llvm.ptr<3>"


def test_carried_values_and_results(mlir_opt):
    b = IRBuilder("k")
    n = b.param("n", I32)
    loop = b.scf_for_iter(0, n, 1, [("sum", b.const_i32(7))])
    with loop as (i, (total,)):
        with b.scf_if(b.cmp_eq(i, 3), [I32]) as branch:
            b.scf_yield(total)
        with branch.orelse():
            b.scf_yield(b.add(total, i))
        b.scf_yield(branch.results[0])
    b.add(loop.results[0], n)
    b.ret()
    assert body(mlir_opt(b.kernel.mlir))[3:] == [
        "%0 = scf.for %arg1 = %c0_i32 to %arg0 step %c1_i32 iter_args(%arg2 = %c7_i32) "
        "-> (i32)  : i32 {",
        "%c3_i32 = arith.constant 3 : i32",
        "%2 = arith.cmpi eq, %arg1, %c3_i32 : i32",
        "%3 = scf.if %2 -> (i32) {",
        "scf.yield %arg2 : i32",
        "} else {",
        "%4 = arith.addi %arg2, %arg1 : i32",
        "scf.yield %4 : i32",
        "}",
        "scf.yield %3 : i32",
        "}",
        "%1 = arith.addi %0, %arg0 : i32",
    ]


def test_an_early_return_puts_the_rest_into_the_else_region(mlir_opt):
    b = IRBuilder("k")
    n = b.param("n", I32)
    with b.scf_if(b.cmp_lt(n, 0)) as branch:
        b.ret()
    with branch.orelse():
        b.add(n, n)
    b.mul(n, n)
    b.ret()
    assert body(mlir_opt(b.kernel.mlir))[2:] == [
        "scf.if %0 {",
        "} else {",
        "%1 = arith.addi %arg0, %arg0 : i32",
        "%2 = arith.muli %arg0, %arg0 : i32",
        "}",
    ]


def test_python_numbers_become_constants_of_the_other_operands_type(mlir_opt):
    b = IRBuilder("k")
    b.fadd(b.zero_vec(F16, 2), 0.5)
    b.add(b.const_i8(1), 255)
    b.ret()
    lines = body(mlir_opt(b.kernel.mlir))
    assert "%cst_0 = arith.constant dense<5.000000e-01> : vector<2xf16>" in lines
    assert "%c-1_i8 = arith.constant -1 : i8" in lines


def test_static_for_leaves_no_loop(mlir_opt):
    b = IRBuilder("k")
    seen = []
    b.static_for(0, 6, 2, body=seen.append)
    assert seen == [0, 2, 4]
    assert list(b.static_for(3, 0, -1)) == [3, 2, 1]
    b.ret()
    assert body(mlir_opt(b.kernel.mlir)) == []


def test_any_text_is_a_name_hint_or_a_note(mlir_opt):
    b = IRBuilder("k")
    array = b.smem_alloc(F32, [4], name_hint='my "tile" = é\0')
    b.smem_store_vN(array, [b.thread_id_x()], b.const_f32(1.0), 1)
    notes = {"a.text": 'say "é"\n', "a.list": [1, 2.5, "x", [True, F32]], "a.whole": (1 << 64) - 1}
    b._op("rocdl.s.barrier", attrs=notes)
    b.ret()
    text = mlir_opt(b.kernel.mlir)
    assert "@k.my__tile______.1(" in text
    assert r"a.list = [1, 2.500000e+00, " in text
    assert r'a.text = "say \22\C3\A9\22\0A"' in text
    assert "a.whole = -1 : i64" in text
