"""The Triton cases."""

from __future__ import annotations

from declare import Declared

D = Declared
FLAT = "cdiv(n, BLOCK)"


def _elementwise() -> list[Declared]:
    def flat(name: str, kernel: str, block: int = 256, warps: int = 4, problem: str = "",
             options: dict | None = None, buffers: bool = True, lines: bool = False,
             extra: dict | None = None, **parameters: object) -> Declared:  # fmt: skip
        return D(name, "elementwise.py", kernel, problem or kernel, parameters, FLAT,
                 {"BLOCK": block, **(extra or {})}, {"num_warps": warps, **(options or {})},
                 buffers=buffers, lines=lines)  # fmt: skip

    cases = [
        flat("vector_add_f32", "vector_add", 1024, n=2500, lines=True),
        flat("vector_add_f32_global", "vector_add", 1024, n=2048, buffers=False),
        flat("vector_add_f16", "vector_add", 512, 2, n=1500, dtype="f16"),
        flat("vector_add_bf16", "vector_add", 512, 1, n=1024, dtype="bf16"),
        flat("vector_add_f64", "vector_add", 256, n=700, dtype="f64"),
        flat("vector_add_i8", "vector_add", 1024, n=3000, dtype="i8"),
        flat("math_f32", "math_f32", n=300, extra={"rows": 18}),
        flat("math_f32_flush", "math_f32", 128, 2, n=128, extra={"rows": 18},
             options={"allow_flush_denorm": True}),
        flat("libdevice_f32", "libdevice_f32", 64, 1, n=100, extra={"rows": 16}),
        flat("math_f64", "math_f64", 128, 2, n=200, extra={"rows": 8}),
        flat("swiglu_bf16", "swiglu", 512, n=1111, dtype="bf16"),
        flat("gelu_f16", "gelu_tanh", 512, n=1111, dtype="f16"),
        flat("philox", "philox_random", 128, 2, n=200),
    ]  # fmt: skip
    pairs = [
        ("f32", "f16"), ("f32", "bf16"), ("f32", "fp8e4nv"), ("f32", "fp8e5"), ("f32", "fp8e4b8"),
        ("f32", "fp8e5b16"), ("f16", "fp8e5"), ("f16", "f32"), ("bf16", "f32"), ("fp8e4nv", "f32"),
        ("fp8e4b8", "f32"), ("fp8e5", "f16"), ("fp8e4nv", "bf16"), ("f32", "i32"), ("f32", "u8"),
        ("i32", "f32"), ("i8", "f16"), ("i64", "f32"), ("f64", "f32"), ("f32", "f64"),
        ("f32", "i64"), ("u16", "bf16"),
    ]  # fmt: skip
    for a, b in pairs:
        scale = 0.0 if b == "u8" else 4.0
        cases.append(
            D(f"convert_{a}_{b}", "elementwise.py", "convert", "convert",
              {"n": 500, "source": a, "target": b, "scale": scale}, FLAT,
              {"BLOCK": 512, "rounding": 0}, {"num_warps": 2})
        )  # fmt: skip
    return cases


def _normalise() -> list[Declared]:
    def row(name: str, kernel: str, block: int, warps: int, parameters: dict, grid: str = "rows",
            **extra: int) -> Declared:  # fmt: skip
        return D(name, "normalise.py", kernel, kernel, parameters, grid,
                 {"BLOCK": block, **extra}, {"num_warps": warps})  # fmt: skip

    def p(rows: int, columns: int, dtype: str, **extra: int) -> dict:
        return {"rows": rows, "columns": columns, "dtype": dtype, **extra}

    return [
        row("softmax_f32_w1", "softmax", 256, 1, p(5, 200, "f32", padding=8)),
        row("softmax_f32_w4", "softmax", 1024, 4, p(4, 781, "f32", padding=3)),
        row("softmax_f16_w4", "softmax", 1024, 4, p(4, 1000, "f16")),
        row("softmax_bf16_w8", "softmax", 4096, 8, p(2, 3000, "bf16")),
        row("softmax_rows_f32", "softmax_rows", 64, 4, p(37, 50, "f32"), "cdiv(rows, ROWS)",
            ROWS=16),
        row("softmax_rows_f16", "softmax_rows", 32, 2, p(100, 32, "f16"), "cdiv(rows, ROWS)",
            ROWS=64),
        row("softmax_online_f16", "softmax_online", 512, 4, p(3, 1800, "f16")),
        row("layer_norm_f32", "layer_norm", 512, 4, p(4, 1300, "f32")),
        row("layer_norm_f16", "layer_norm", 1024, 8, p(3, 1024, "f16")),
        row("layer_norm_bf16", "layer_norm", 256, 1, p(3, 700, "bf16")),
        row("rms_norm_bf16", "rms_norm", 1024, 4, p(4, 768, "bf16")),
        row("layer_norm_gradient_f16", "layer_norm_weight_gradient", 64, 4, p(50, 100, "f16"),
            "cdiv(columns, BLOCK)", ROWS=16),
    ]  # fmt: skip


TILES = "cdiv(m, BM) * cdiv(n, BN)"


def _matmul() -> list[Declared]:
    cases = []

    def mm(name: str, tile: tuple[int, int, int], dtype: str, out: str, size: tuple[int, int, int],
           warps: int = 4, stages: int = 2, acc: str = "f32", precision: str = "ieee",
           archs: tuple[str, ...] = ("gfx90a", "gfx942", "gfx950"), group: int = 4,
           options: dict | None = None, even: bool | None = None, buffers: bool = True,
           **parameters: object) -> None:  # fmt: skip
        bm, bn, bk = tile
        m, n, k = size
        even = k % bk == 0 if even is None else even
        cases.append(
            D(f"matmul_{name}", "matmul.py", "matmul", "matmul",
              {"m": m, "n": n, "k": k, "dtype": dtype, "out": out, **parameters}, TILES,
              {"BM": bm, "BN": bn, "BK": bk, "GROUP": group, "ACC": f"tl.{acc}",
               "PRECISION": precision, "EVEN_K": even},
              {"num_warps": warps, "num_stages": stages, **(options or {})}, archs,
              buffers=buffers)
        )  # fmt: skip

    mm("f16_64x64x32_w4s1", (64, 64, 32), "f16", "f16", (100, 130, 70), stages=1)
    mm("f16_64x64x32_w4s2", (64, 64, 32), "f16", "f16", (128, 64, 128))
    mm("f16_128x128x32_w4s2", (128, 128, 32), "f16", "f16", (128, 256, 96))
    mm("f16_128x128x64_w8s2", (128, 128, 64), "f16", "f16", (256, 128, 256), warps=8)
    mm("f16_256x256x64_w8s2", (256, 256, 64), "f16", "f16", (256, 256, 384), warps=8)
    mm("f16_32x32x64_w1s1", (32, 32, 64), "f16", "f32", (64, 32, 64), warps=1, stages=1)
    mm("f16_bt_64x128x64_w4s2", (64, 128, 64), "f16", "f16", (64, 128, 192), transpose_b=True)
    mm("f16_at_64x64x64_w4s2", (64, 64, 64), "f16", "f16", (64, 128, 128), transpose_a=True)
    mm(
        "f16_nonkdim16",
        (64, 64, 32),
        "f16",
        "f32",
        (64, 64, 64),
        options={"matrix_instr_nonkdim": 16},
    )
    mm(
        "f16_nonkdim32_kpack2",
        (64, 64, 64),
        "f16",
        "f32",
        (64, 64, 128),
        options={"matrix_instr_nonkdim": 32, "kpack": 2},
    )
    mm(
        "bf16_nonkdim16",
        (64, 64, 32),
        "bf16",
        "f32",
        (64, 64, 64),
        options={"matrix_instr_nonkdim": 16},
    )
    mm(
        "fp8e4b8_nonkdim16",
        (64, 64, 64),
        "fp8e4b8",
        "f32",
        (64, 64, 64),
        archs=("gfx942",),
        options={"matrix_instr_nonkdim": 16},
    )
    mm(
        "fp8e4nv_nonkdim16",
        (64, 64, 128),
        "fp8e4nv",
        "f32",
        (64, 64, 128),
        archs=("gfx950",),
        options={"matrix_instr_nonkdim": 16},
    )
    mm(
        "i8_nonkdim16",
        (64, 64, 64),
        "i8",
        "i32",
        (64, 64, 64),
        acc="i32",
        options={"matrix_instr_nonkdim": 16},
    )
    mm(
        "f32_nonkdim16",
        (64, 64, 32),
        "f32",
        "f32",
        (64, 64, 64),
        options={"matrix_instr_nonkdim": 16},
    )
    mm("f16_global_64x64x32", (64, 64, 32), "f16", "f16", (70, 64, 64), buffers=False)
    mm("f16_16x64x64_w2", (16, 64, 64), "f16", "f16", (16, 64, 128), warps=2)
    mm(
        "f16_4x64",
        (4, 64, 64),
        "f16",
        "f32",
        (4, 64, 64),
        warps=1,
        options={"matrix_instr_nonkdim": 4},
    )
    mm("bf16_64x64x32_w4s2", (64, 64, 32), "bf16", "bf16", (64, 128, 96))
    mm("bf16_128x128x64_w8s2", (128, 128, 64), "bf16", "bf16", (128, 128, 192), warps=8)
    mm(
        "bf16_bt_128x64x64_w4s3",
        (128, 64, 64),
        "bf16",
        "f32",
        (128, 64, 256),
        stages=3,
        transpose_b=True,
    )
    mm(
        "bf16_32x32_kpack2",
        (128, 128, 32),
        "bf16",
        "bf16",
        (128, 128, 64),
        options={"matrix_instr_nonkdim": 32, "kpack": 2},
    )
    mm(
        "fp8e4b8_64x64x64_w4s2",
        (64, 64, 64),
        "fp8e4b8",
        "f32",
        (64, 64, 128),
        archs=("gfx90a", "gfx942"),
    )
    mm("fp8e4nv_64x64x64_w4s2", (64, 64, 64), "fp8e4nv", "f32", (64, 64, 128))
    mm(
        "fp8e4nv_128x128x128_w4s2",
        (128, 128, 128),
        "fp8e4nv",
        "bf16",
        (128, 128, 256),
        archs=("gfx950",),
    )
    mm("fp8e5_64x64x64_w4s2", (64, 64, 64), "fp8e5", "f32", (64, 64, 128))
    mm("fp8e5b16_32x32x64", (32, 32, 64), "fp8e5b16", "f32", (32, 32, 128), archs=("gfx942",))
    mm(
        "fp8_mixed_32x32x64",
        (32, 32, 64),
        "fp8e4b8",
        "f32",
        (32, 32, 128),
        archs=("gfx942",),
        dtype_b="fp8e5b16",
    )
    mm(
        "fp8_mixed_64x64x128",
        (64, 64, 128),
        "fp8e4nv",
        "f32",
        (64, 64, 128),
        archs=("gfx950",),
        dtype_b="fp8e5",
    )
    mm("i8_64x64x64_w4s2", (64, 64, 64), "i8", "i32", (64, 64, 128), acc="i32")
    mm(
        "i8_32x32_w4",
        (64, 64, 64),
        "i8",
        "i32",
        (64, 64, 64),
        acc="i32",
        options={"matrix_instr_nonkdim": 32},
    )
    mm("f32_64x64x32_w4s2", (64, 64, 32), "f32", "f32", (64, 70, 50))
    mm(
        "f32_32x32_w4",
        (64, 64, 16),
        "f32",
        "f32",
        (64, 64, 32),
        options={"matrix_instr_nonkdim": 32},
    )
    mm("f32_bf16x3", (32, 32, 32), "f32", "f32", (32, 32, 32), precision="bf16x3", unit=3e-5)
    mm(
        "tf32_64x64x32",
        (64, 64, 32),
        "f32",
        "f32",
        (64, 64, 64),
        precision="tf32",
        archs=("gfx942",),
        unit=4e-4,
    )
    mm("f64_32x32x16", (32, 32, 16), "f64", "f64", (32, 32, 32), acc="f64", warps=1, unit=1e-14)

    two = "(cdiv(m, BM), cdiv(n, BN))"
    for a, b in (("e4m3", "e4m3"), ("e5m2", "e2m1"), ("e2m1", "e2m1")):
        cases.append(
            D(f"matmul_scaled_{a}_{b}", "matmul.py", "matmul_scaled", "matmul_scaled",
              {"m": 64, "n": 64, "k": 256, "form_a": a, "form_b": b}, two,
              {"A_FORMAT": a, "B_FORMAT": b, "A_PACK": 2 if a == "e2m1" else 1,
               "B_PACK": 2 if b == "e2m1" else 1, "BM": 64, "BN": 64, "BK": 128},
              {"num_warps": 4})
        )  # fmt: skip
    cases += [
        D("matmul_split_k_f16", "matmul.py", "matmul_split_k", "matmul_split_k",
          {"m": 60, "n": 64, "k": 256, "dtype": "f16"}, f"({TILES}, SPLIT)",
          {"BM": 32, "BN": 64, "BK": 32, "SPLIT": 3}, {"num_warps": 4}),
        D("matmul_batched_bias_bf16", "matmul.py", "matmul_batched_bias", "matmul_batched_bias",
          {"batch": 3, "m": 50, "n": 40, "k": 64, "dtype": "bf16"},
          "(cdiv(m, BM), cdiv(n, BN), batch)", {"BM": 32, "BN": 32, "BK": 32}, {"num_warps": 2}),
    ]  # fmt: skip
    return cases


def _attention() -> list[Declared]:
    cases = []

    def dense(name: str, dtype: str, d: int, sq: int, sk: int, bm: int, bn: int, warps: int,
              stages: int, options: dict | None = None, **parameters: object) -> None:  # fmt: skip
        causal = bool(parameters.get("causal", False))
        cases.append(
            D(f"attention_{name}", "attention.py", "flash_attention", "flash_attention",
              {"sq": sq, "sk": sk, "d": d, "dtype": dtype, **parameters},
              f"(cdiv(sq, BM), heads, {parameters.get('batch', 1)})",
              {"D": d, "BM": bm, "BN": bn, "CAUSAL": causal},
              {"num_warps": warps, "num_stages": stages, **(options or {})})
        )  # fmt: skip

    dense("f16_d64_w4s1", "f16", 64, 100, 130, 64, 64, 4, 1)
    dense("f16_d64_w4s2", "f16", 64, 128, 192, 128, 64, 4, 2)
    dense("f16_d128_w4s1", "f16", 128, 128, 128, 128, 64, 4, 1, heads=2, kv_heads=1)
    dense("f16_d128_w4s2", "f16", 128, 128, 200, 128, 64, 4, 2)
    dense("bf16_d64_w4s1_causal", "bf16", 64, 130, 130, 64, 32, 4, 1, causal=True)
    dense("bf16_d128_w4s2_causal", "bf16", 128, 128, 160, 64, 64, 4, 2, causal=True)
    dense("bf16_d128_w8s2", "bf16", 128, 256, 256, 256, 64, 8, 2)
    dense("bf16_d64_w8s2", "bf16", 64, 128, 128, 128, 64, 8, 2, batch=2, heads=2, kv_heads=2)
    dense("f16_d64_w4s2_nonkdim16", "f16", 64, 64, 128, 64, 64, 4, 2, {"matrix_instr_nonkdim": 16})
    dense(
        "bf16_d128_w2s1_nonkdim32", "bf16", 128, 64, 128, 64, 32, 2, 1, {"matrix_instr_nonkdim": 32}
    )
    dense("f16_d32_w1s1", "f16", 32, 32, 64, 32, 32, 1, 1)

    def sparse(name: str, dtype: str, d: int, s: int, bm: int, bn: int, warps: int, stages: int,
               **parameters: object) -> None:  # fmt: skip
        cases.append(
            D(f"sparse_attention_{name}", "attention.py", "sparse_attention", "sparse_attention",
              {"sq": s, "sk": s, "d": d, "block_q": bm, "block_k": bn, "dtype": dtype,
               **parameters},
              f"(blocks_q, heads, {parameters.get('batch', 1)})",
              {"D": d, "BM": bm, "BN": bn}, {"num_warps": warps, "num_stages": stages})
        )  # fmt: skip

    sparse("bf16_d128_64_w4s1", "bf16", 128, 256, 64, 64, 4, 1, heads=2)
    sparse("bf16_d128_64_w4s2", "bf16", 128, 250, 64, 64, 4, 2)
    sparse("f16_d64_64_w4s1", "f16", 64, 256, 64, 64, 4, 1, partial=True, batch=2)
    sparse("f16_d64_128x64_w8s2", "f16", 64, 384, 128, 64, 8, 2, partial=True)
    sparse("f16_d128_32_w2s1", "f16", 128, 160, 32, 32, 2, 1)
    cases += [
        D("bitmap_attention_f16_d64", "attention.py", "bitmap_attention", "bitmap_attention",
          {"sq": 192, "sk": 256, "d": 64, "block_q": 64, "block_k": 64, "dtype": "f16",
           "heads": 2}, "(blocks_q, heads)", {"D": 64, "BM": 64, "BN": 64},
          {"num_warps": 4, "num_stages": 2}),
        D("bitmap_attention_bf16_d128", "attention.py", "bitmap_attention", "bitmap_attention",
          {"sq": 128, "sk": 256, "d": 128, "block_q": 128, "block_k": 64, "dtype": "bf16"},
          "(blocks_q, heads)", {"D": 128, "BM": 128, "BN": 64},
          {"num_warps": 4, "num_stages": 1}),
        D("attention_backward_dkv_f16", "attention.py", "flash_attention_backward_dkv",
          "flash_attention_backward_dkv", {"s": 128, "d": 64, "dtype": "f16"}, "(s // BN, 1)",
          {"D": 64, "BM": 32, "BN": 64}, {"num_warps": 4, "num_stages": 1}),
    ]  # fmt: skip
    return cases


def _atomics() -> list[Declared]:
    cases = []
    kinds = [
        ("f32", "add"), ("f16", "add"), ("bf16", "add"), ("f64", "add"), ("i32", "add"),
        ("i64", "add"), ("f32", "add_relaxed"), ("i32", "max"), ("u32", "max"), ("i32", "min"),
        ("f32", "max"), ("f32", "min"), ("i64", "max"), ("i32", "and"), ("i32", "or"),
        ("u32", "xor"), ("i64", "xor"),
    ]  # fmt: skip
    for dtype, operation in kinds:
        cases.append(
            D(f"atomic_{operation}_{dtype}", "atomics.py", "atomic_bins", "atomic_bins",
              {"n": 700, "bins": 50, "dtype": dtype, "operation": operation}, FLAT,
              {"OPERATION": operation, "BLOCK": 256}, {"num_warps": 4})
        )  # fmt: skip
    cases.append(
        D("atomic_add_f32_global", "atomics.py", "atomic_bins", "atomic_bins",
          {"n": 300, "bins": 20, "dtype": "f32", "operation": "add"}, FLAT,
          {"OPERATION": "add", "BLOCK": 128}, {"num_warps": 2}, buffers=False)
    )  # fmt: skip
    cases.append(
        D("atomic_ticket", "atomics.py", "atomic_ticket", "atomic_ticket",
          {"n": 1000, "block": 128}, FLAT, {"BLOCK": 128}, {"num_warps": 2})
    )  # fmt: skip
    cases.append(
        D("locked_sum", "atomics.py", "locked_sum", "locked_sum", {"n": 1024, "block": 256},
          FLAT, {"BLOCK": 256}, {"num_warps": 4})
    )  # fmt: skip
    for dtype in ("i32", "f32", "i64"):
        cases.append(
            D(f"exchange_{dtype}", "atomics.py", "exchange", "exchange",
              {"n": 200, "dtype": dtype}, FLAT, {"BLOCK": 128}, {"num_warps": 2})
        )  # fmt: skip
    for dtype in ("i32", "i64"):
        cases.append(
            D(f"compare_exchange_{dtype}", "atomics.py", "compare_exchange", "compare_exchange",
              {"n": 256, "dtype": dtype}, FLAT, {"BLOCK": 128}, {"num_warps": 2})
        )  # fmt: skip
    return cases


def _reduce() -> list[Declared]:
    def r(name: str, kernel: str, parameters: dict, grid: str, warps: int = 4,
          **constexprs: object) -> Declared:  # fmt: skip
        return D(name, "reduce.py", kernel, kernel, parameters, grid, constexprs,
                 {"num_warps": warps})  # fmt: skip

    return [
        r("reduce_f32", "reduce_all", {"rows": 3, "columns": 1024, "dtype": "f32"}, "rows",
          COLUMNS=1024),
        r("reduce_i32", "reduce_all", {"rows": 3, "columns": 512, "dtype": "i32"}, "rows", 2,
          COLUMNS=512),
        r("reduce_i64", "reduce_all", {"rows": 2, "columns": 256, "dtype": "i64"}, "rows", 1,
          COLUMNS=256),
        r("reduce_f64", "reduce_all", {"rows": 2, "columns": 256, "dtype": "f64"}, "rows", 4,
          COLUMNS=256),
        r("reduce_i16", "reduce_all", {"rows": 2, "columns": 128, "dtype": "i16"}, "rows", 1,
          COLUMNS=128),
        r("xor_rows", "xor_rows", {"rows": 64, "columns": 32}, "1", ROWS=64, COLUMNS=32),
        r("moments", "moments", {"rows": 16, "columns": 256}, "rows // ROWS", ROWS=8,
          COLUMNS=256),
        r("scan_f32", "scan_sum", {"rows": 8, "columns": 256, "dtype": "f32", "axis": 1,
          "block": 4}, "rows // ROWS", ROWS=4, COLUMNS=256, AXIS=1, REVERSE=False),
        r("scan_i32_columns", "scan_sum", {"rows": 128, "columns": 16, "dtype": "i32", "axis": 0,
          "block": 64}, "rows // ROWS", 2, ROWS=64, COLUMNS=16, AXIS=0, REVERSE=False),
        r("scan_f32_reverse", "scan_sum", {"rows": 4, "columns": 64, "dtype": "f32", "axis": 1,
          "block": 2, "reverse": True}, "rows // ROWS", 1, ROWS=2, COLUMNS=64, AXIS=1,
          REVERSE=True),
        r("scan_i64", "scan_sum", {"rows": 4, "columns": 512, "dtype": "i64", "axis": 1,
          "block": 2}, "rows // ROWS", ROWS=2, COLUMNS=512, AXIS=1, REVERSE=False),
        r("scan_recurrence", "scan_recurrence", {"rows": 4, "columns": 512}, "rows",
          COLUMNS=512),
        r("sort_f32", "sort_rows", {"rows": 4, "columns": 128, "dtype": "f32"}, "rows // ROWS",
          ROWS=2, COLUMNS=128, DESCENDING=False),
        r("sort_i16_descending", "sort_rows", {"rows": 4, "columns": 64, "dtype": "i16",
          "descending": True}, "rows // ROWS", 1, ROWS=4, COLUMNS=64, DESCENDING=True),
        r("top_f32", "top_rows", {"rows": 8, "columns": 128, "k": 8}, "rows // ROWS", ROWS=4,
          COLUMNS=128, K=8),
        r("histogram", "bins", {"n": 1000, "bins": 64}, FLAT, BLOCK=512, BINS=64),
        r("gather", "pick", {"rows": 64, "columns": 32}, "1", ROWS=64, COLUMNS=32),
        r("transpose_f32", "transpose", {"rows": 70, "columns": 100, "dtype": "f32"},
          "(cdiv(rows, BM), cdiv(columns, BN))", BM=64, BN=32),
        r("transpose_i8", "transpose", {"rows": 64, "columns": 128, "dtype": "i8"},
          "(cdiv(rows, BM), cdiv(columns, BN))", BM=64, BN=64),
        r("shuffle", "shuffle", {"half": 256}, "1", 2, HALF=256),
    ]  # fmt: skip


def _integer() -> list[Declared]:
    cases = [
        D(f"integer_{dtype}", "integer.py", "integer_operations", "integer_operations",
          {"n": 200, "dtype": dtype}, FLAT, {"BLOCK": 128, "rows": 15}, {"num_warps": 2})
        for dtype in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
    ]  # fmt: skip
    return [
        *cases,
        D("bits_u32", "integer.py", "bits_u32", "bits_u32", {"n": 200}, FLAT,
          {"BLOCK": 128, "rows": 8}, {"num_warps": 2}),
        D("collatz", "integer.py", "collatz", "collatz", {"n": 12, "limit": 200}, "n",
          {"LIMIT": 200}, {"num_warps": 1}),
        D("unpack_int4", "integer.py", "unpack_int4", "unpack_int4", {"n": 600, "group": 32},
          FLAT, {"GROUP": 32, "BLOCK": 256}, {"num_warps": 4}),
    ]  # fmt: skip


CASES = [*_elementwise(), *_normalise(), *_matmul(), *_attention(), *_atomics(), *_reduce(),
         *_integer()]  # fmt: skip
