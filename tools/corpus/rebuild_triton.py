"""Rebuild the Triton objects of tests/corpus and their manifest.

Run it with a Python that has triton, numpy and ml_dtypes (no torch, no GPU):
``python tools/corpus/rebuild_triton.py [name part ...]``. With name parts only the cases whose
names hold one of them are compiled, and nothing is written but their objects.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import build
import numpy as np
import triton
import triton.language as tl
from declare import Declared
from triton.backends.amd.compiler import get_amd_codegen_revision
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton_cases import CASES

sys.path.insert(0, str(build.CORPUS / "triton_kernels"))
TRITON_TYPES = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "bf16": "bf16"}


def _constexpr(value: object) -> object:
    if isinstance(value, str) and value.startswith("tl."):
        names = {"f32": "float32", "f64": "float64", "i32": "int32"}
        return getattr(tl, names[value[3:]])
    return value


def _source(case: Declared, problem: build.Problem) -> tuple[ASTSource, list[str]]:
    kernel = getattr(importlib.import_module(case.source.removesuffix(".py")), case.kernel)
    # The line table names the file below the project's root, whatever folder this runs in.
    kernel.file_name = f"tests/corpus/triton_kernels/{case.source}"
    signature, attributes, order = {}, {}, []
    for i, name in enumerate(kernel.arg_names):
        if name in case.constexprs:
            signature[name] = "constexpr"
            continue
        if name not in problem.arguments:
            raise SystemExit(f"{case.name}: no value for the kernel's argument {name!r}")
        value = problem.arguments[name]
        kind, pointer = build.argument_type(value)
        kind = TRITON_TYPES.get(kind, kind)
        signature[name] = f"*{kind}" if pointer else kind
        order.append(name)
        if pointer:
            attributes[(i,)] = [["tt.divisibility", 16]]
            if case.buffers:
                attributes[(i,)].append(["tt.pointer_range", 32])
        elif isinstance(value, (int, np.integer)) and value % 16 == 0:
            attributes[(i,)] = [["tt.divisibility", 16]]
    constants = {k: _constexpr(v) for k, v in case.constexprs.items()}
    return ASTSource(kernel, signature, constants, attributes), order


def compile_case(case: Declared) -> dict[str, Any]:
    problem = build.problem_of(case)
    source, order = _source(case, problem)
    objects = {}
    for arch in case.archs:
        compiled = triton.compile(source, target=GPUTarget("hip", arch, 64),
                                  options=dict(case.options))  # fmt: skip
        meta = compiled.metadata
        if meta.global_scratch_size or meta.profile_scratch_size:
            raise SystemExit(f"{case.name} {arch}: needs scratch memory that tests do not give")
        data = build.strip(compiled.asm["hsaco"], keep_lines=case.lines)
        path = build.store(data, "triton", case.name, arch)
        objects[arch] = {"file": path, "bytes": len(data), "dynamic_lds": meta.shared}
    block = (64 * int(case.options["num_warps"]), 1, 1)
    return build.entry(case, "triton", problem, order, block, objects)


def main(parts: list[str]) -> int:
    done, failed = [], []
    for case in CASES:
        if parts and not any(part in case.name for part in parts):
            continue
        try:
            done.append(compile_case(case))
        except Exception:
            traceback.print_exc()
            failed.append(case.name)
    print(f"{len(done)} cases compiled, {len(failed)} failed: {', '.join(failed) or 'none'}")
    if failed:
        return 1
    if not parts:
        versions = {"triton": triton.__version__, "llvm": get_amd_codegen_revision()}
        build.write_manifest("triton", versions, done)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
