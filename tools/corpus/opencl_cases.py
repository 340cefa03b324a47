"""The OpenCL C cases. Cases with one source, the same defines and flags share an object."""

from __future__ import annotations

from typing import Any

from declare import ARCHS, Declared

D = Declared
FLAT = "cdiv(n, %d)"
C_TYPES = {"i8": "char", "u8": "uchar", "i16": "short", "u16": "ushort", "i32": "int",
           "u32": "uint", "i64": "long", "u64": "ulong", "f16": "half", "f32": "float",
           "f64": "double"}  # fmt: skip


def _case(name: str, source: str, kernel: str, problem: str, parameters: dict[str, Any], grid: str,
          block: tuple[int, int, int], defines: dict[str, Any] | None = None, flags: str = "-O2",
          archs: tuple[str, ...] = ARCHS, lines: bool = False) -> Declared:  # fmt: skip
    return D(name, source, kernel, problem, parameters, grid, defines or {}, {"flags": flags},
             archs, block, lines=lines)  # fmt: skip


def _flat(name: str, source: str, kernel: str, problem: str, n: int, width: int = 64,
          **more: Any) -> Declared:  # fmt: skip
    parameters = {"n": n, **more.pop("parameters", {})}
    return _case(name, source, kernel, problem, parameters, FLAT % width, (width, 1, 1), **more)


def _basic() -> list[Declared]:
    cases = []
    for label, flags in (("", "-O2"), ("_O0", "-O0"), ("_O1", "-O1")):
        t = {"TYPE": "float"}
        cases += [
            _flat(f"saxpy{label}", "basic.cl", "saxpy", "saxpy", 1000, 128, defines=t,
                  flags=flags, lines=not label),
            _case(f"vector_add_f32_strided{label}", "basic.cl", "vector_add", "vector_add",
                  {"n": 1000, "dtype": "f32"}, "3", (96, 1, 1), t, flags),
            _case(f"transpose_f32{label}", "basic.cl", "transpose", "transpose",
                  {"rows": 50, "columns": 70, "dtype": "f32"},
                  "(cdiv(rows, 32), cdiv(columns, 32))", (32, 8, 1), t, flags),
            _case(f"sgemm_tiled{label}", "basic.cl", "sgemm_tiled", "sgemm_tiled",
                  {"m": 32, "n": 48, "k": 32}, "(m // 16, n // 16)", (16, 16, 1), t, flags),
            _case(f"sgemm_vector{label}", "basic.cl", "sgemm_vector", "sgemm_tiled",
                  {"m": 20, "n": 40, "k": 24}, "(2, 4)", (8, 6, 1), t, flags),
            _flat(f"constant_table{label}", "basic.cl", "constant_table", "constant_table", 200,
                  defines=t, flags=flags),
        ]  # fmt: skip
    for kind in ("i8", "f16", "f64"):
        t = {"TYPE": C_TYPES[kind]}
        cases += [
            _case(f"vector_add_{kind}_strided", "basic.cl", "vector_add", "vector_add",
                  {"n": 700, "dtype": kind}, "2", (256, 1, 1), t),
            _case(f"transpose_{kind}", "basic.cl", "transpose", "transpose",
                  {"rows": 33, "columns": 64, "dtype": kind},
                  "(cdiv(rows, 32), cdiv(columns, 32))", (32, 8, 1), t),
        ]  # fmt: skip
    return cases


def _reduce() -> list[Declared]:
    cases = []
    for label, flags in (("", "-O2"), ("_O0", "-O0")):
        r = {"flags": flags}
        cases += [
            _case(f"sum_all_lds{label}", "reduce.cl", "sum_all", "sum_all",
                  {"n": 3000, "dtype": "f32"}, "4", (256, 1, 1), **r),
            _flat(f"sum_dpp{label}", "reduce.cl", "sum_dpp", "sum_all", 500, 128,
                  parameters={"dtype": "f32"}, **r),
            _flat(f"sum_butterfly{label}", "reduce.cl", "sum_butterfly", "sum_all", 500, 64,
                  parameters={"dtype": "i32"}, **r),
            _case(f"prefix_sum{label}", "reduce.cl", "prefix_sum", "prefix_sum",
                  {"blocks": 2, "block": 512}, "blocks", (256, 1, 1), **r),
            _flat(f"ballot_rank{label}", "reduce.cl", "ballot_rank", "ballot_rank", 200, 64, **r),
        ]  # fmt: skip
    return cases


def _atomics() -> list[Declared]:
    cases = [
        _case("lds_histogram", "atomics.cl", "lds_histogram", "lds_histogram",
              {"n": 2000, "bins": 64}, "3", (128, 1, 1),
              {"TYPE": "int", "OPERATION": "add", "BINS": 64}),
        _flat("cas_sum", "atomics.cl", "cas_sum", "sum_all", 200, 64,
              parameters={"dtype": "f32"},
              defines={"TYPE": "int", "OPERATION": "add", "BINS": 64}),
    ]  # fmt: skip
    pairs = [("i32", "add"), ("u64", "add"), ("f32", "add"), ("f64", "add"), ("i32", "max"),
             ("u32", "min"), ("u64", "max"), ("i32", "xor"), ("u64", "or"), ("u32", "and"),
             ("f64", "max"), ("f32", "min")]  # fmt: skip
    for kind, operation in pairs:
        defines = {"TYPE": C_TYPES[kind], "OPERATION": operation, "BINS": 64}
        if kind.startswith("f"):
            defines["FLOAT"] = 1
        for kernel, grid, block in (
            ("atomic_bins", FLAT % 128, 128),
            ("atomic_bins_lds", "1", 256),
            ("atomic_bins_flat", "1", 256),
        ):
            cases.append(
                _case(f"{kernel}_{operation}_{kind}", "atomics.cl", kernel, "atomic_bins",
                      {"n": 400, "bins": 50, "dtype": kind, "operation": operation}, grid,
                      (block, 1, 1), defines)
            )  # fmt: skip
        if operation == "add" and kind in ("i32", "u64"):
            cases += [
                _flat(f"exchange_{kind}", "atomics.cl", "exchange", "exchange", 150, 64,
                      parameters={"dtype": kind}, defines=defines),
                _flat(f"compare_exchange_{kind}", "atomics.cl", "compare_exchange",
                      "compare_exchange", 150, 64, parameters={"dtype": kind}, defines=defines),
            ]  # fmt: skip
    return cases


def _numbers() -> list[Declared]:
    cases = [
        _flat(f"integer_{kind}", "numbers.cl", "integer_operations", "integer_operations", 150,
              64, parameters={"dtype": kind}, defines={"TYPE": C_TYPES[kind], "INTEGER": 1})
        for kind in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
    ]  # fmt: skip
    for label, flags in (("", "-O2"), ("_O0", "-O0")):
        for kernel, problem in (
            ("integer_hash", "integer_hash"), ("narrow", "narrow"), ("math_double", "math_f64"),
            ("math_float", "math_f32"), ("half_operations", "half_operations"),
        ):  # fmt: skip
            # Without optimisation the mathematical functions are called, all of them.
            if label and kernel.startswith("math"):
                continue
            cases.append(
                _flat(f"{kernel}{label}", "numbers.cl", kernel, problem, 150,
                      defines={"MATH": 0 if label else 1}, flags=flags)
            )  # fmt: skip
    return cases


def _control() -> list[Declared]:
    cases = []
    for label, flags in (("", "-O2 -fwrapv"), ("_O0", "-O0 -fwrapv")):
        c: dict[str, Any] = {"defines": {"LIMIT": 200}, "flags": flags}
        cases += [
            _case(f"sort_private{label}", "control.cl", "sort_rows", "sort_rows",
                  {"rows": 128, "columns": 24, "dtype": "f32"}, "2", (64, 1, 1), **c),
            _flat(f"stack_machine{label}", "control.cl", "stack_machine", "stack_machine", 100,
                  **c),
            _flat(f"collatz_lanes{label}", "control.cl", "collatz", "collatz", 100,
                  parameters={"limit": 200}, **c),
            _flat(f"nested_calls{label}", "control.cl", "nested_calls", "nested_calls", 100, **c),
            _flat(f"indirect_calls{label}", "control.cl", "indirect_calls", "nested_calls", 100,
                  **c),
            _flat(f"generic_pick{label}", "control.cl", "generic_pick", "generic_pick", 100, **c),
        ]  # fmt: skip
    return cases


_FLOAT = {"float": ("float", 4), "half": ("half", 2)}


def _mfma() -> list[Declared]:
    cases = []

    def add(name: str, m: int, k: int, blocks: int, kv: int, element: str, operand: str,
            dtype: str, archs: tuple[str, ...], out: str = "f32", builtin: str = "",
            more: str = ",0,0,0", **extra: float) -> None:  # fmt: skip
        r = m * m * blocks // 64
        vector = {"f32": "f", "f64": "d", "i32": "i"}[out] + str(r)
        result = C_TYPES[out]
        if out == "f64" and r == 1:
            vector = "double"
        defines = {
            "M": m,
            "K": k,
            "BLOCKS": blocks,
            "KV": kv,
            "R": r,
            "ELEMENT": element,
            "OPERAND": operand,
            "RESULT": result,
            "ACCUMULATOR": vector,
            "INSTRUCTION": f"__builtin_amdgcn_mfma_{builtin or name}",
            "MORE": more,
        }
        if out == "f64":
            defines["DOUBLE"] = 1
        cases.append(
            _case(f"mfma_{name}", "mfma.cl", "mfma_tile", "mfma_tile",
                  {"m": m, "n": m, "k": k, "dtype": dtype, "out": out, "blocks": blocks,
                   **extra}, "1", (64, 1, 1), defines, archs=archs)
        )  # fmt: skip

    late, new = ("gfx942", "gfx950"), ("gfx950",)
    for m, k, blocks in ((32, 1, 2), (16, 1, 4), (4, 1, 16), (32, 2, 1), (16, 4, 1)):
        add(f"f32_{m}x{m}x{k}f32", m, k, blocks, 1, "float", "float", "f32", ARCHS)
    for m, k, blocks in ((32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 8, 1), (16, 16, 1)):
        add(f"f32_{m}x{m}x{k}f16", m, k, blocks, 4, "half", "h4", "f16", ARCHS)
        add(f"f32_{m}x{m}x{k}bf16_1k", m, k, blocks, 4, "short", "s4", "bf16", ARCHS)
    for m, k, blocks in ((32, 2, 2), (16, 2, 4), (4, 2, 16), (32, 4, 1), (16, 8, 1)):
        add(f"f32_{m}x{m}x{k}bf16", m, k, blocks, 2, "short", "s2", "bf16", ("gfx90a",))
    for m, k, blocks in ((32, 4, 2), (16, 4, 4), (4, 4, 16)):
        add(f"i32_{m}x{m}x{k}i8", m, k, blocks, 4, "char", "int", "i8", ARCHS, "i32")
    for m, k in ((32, 8), (16, 16)):
        add(f"i32_{m}x{m}x{k}i8", m, k, 1, 4, "char", "int", "i8", ("gfx90a",), "i32")
    for m, k in ((32, 16), (16, 32)):
        add(f"i32_{m}x{m}x{k}_i8", m, k, 1, 8, "char", "long", "i8", late, "i32")
        for a in ("fp8", "bf8"):
            for b in ("fp8", "bf8"):
                # One element type for both operands: only the equal pairs have a problem.
                if a != b:
                    continue
                for arch, fp8, bf8 in (("gfx942", "fp8e4b8", "fp8e5b16"),
                                       ("gfx950", "fp8e4nv", "fp8e5")):  # fmt: skip
                    add(f"f32_{m}x{m}x{k}_{a}_{b}_{arch}", m, k, 1, 8, "char", "long",
                        fp8 if a == "fp8" else bf8, (arch,),
                        builtin=f"f32_{m}x{m}x{k}_{a}_{b}")  # fmt: skip
    for m, k in ((32, 4), (16, 8)):
        add(f"f32_{m}x{m}x{k}_xf32", m, k, 1, 2, "float", "f2", "f32", ("gfx942",), unit=4e-4)
    add("f64_16x16x4f64", 16, 4, 1, 1, "double", "double", "f64", ARCHS, "f64")
    add("f64_4x4x4f64", 4, 4, 4, 1, "double", "double", "f64", ARCHS, "f64")
    for m, k in ((32, 16), (16, 32)):
        add(f"f32_{m}x{m}x{k}_f16", m, k, 1, 8, "half", "h8", "f16", new)
        add(f"f32_{m}x{m}x{k}_bf16", m, k, 1, 8, "__bf16", "bf8", "bf16", new)
    for m, k in ((32, 32), (16, 64)):
        add(f"i32_{m}x{m}x{k}_i8", m, k, 1, 16, "char", "i4", "i8", new, "i32")
    for m, k in ((32, 64), (16, 128)):
        for code, kind in ((0, "fp8e4nv"), (1, "fp8e5")):
            add(f"scale_f32_{m}x{m}x{k}_{kind}", m, k, 1, 32, "char", "i8", kind, new,
                builtin=f"scale_f32_{m}x{m}x{k}_f8f6f4",
                more=f",{code},{code},0,0x7f7f7f7f,0,0x7f7f7f7f")  # fmt: skip
    return cases


def _attention() -> list[Declared]:
    def sparse(name: str, source: str, d: int, s: int, block_q: int, block_k: int,
               archs: tuple[str, ...], **more: Any) -> Declared:  # fmt: skip
        return _case(
            f"sparse_attention_{name}", source, "sparse_attention", "sparse_attention",
            {"sq": s, "sk": s, "d": d, "block_q": block_q, "block_k": block_k, "dtype": "f16",
             **more},
            f"(blocks_q, heads, {more.get('batch', 1)})", (256, 1, 1), {"D": d}, archs=archs,
        )  # fmt: skip

    return [
        sparse("16x16_d64", "attention.cl", 64, 200, 64, 64, ARCHS, heads=2),
        sparse("16x16_d128", "attention.cl", 128, 256, 64, 64, ARCHS, partial=True),
        sparse("32x32_direct_d64", "gfx950.cl", 64, 192, 128, 32, ("gfx950",), batch=2),
        sparse("32x32_direct_d128", "gfx950.cl", 128, 256, 128, 32, ("gfx950",), partial=True),
        _case("tile_transpose", "gfx950.cl", "tile_transpose", "tile_transpose", {"n": 8}, "2",
              (64, 1, 1), {"D": 64}, archs=("gfx950",)),
    ]  # fmt: skip


CASES = [*_basic(), *_reduce(), *_atomics(), *_numbers(), *_control(), *_mfma(), *_attention()]
