"""Rebuild the OpenCL C objects of tests/corpus and their manifest.

Needs Debian's clang-22, lld-22, llvm-22 and libclc-22, and a Python with this project's
requirements: ``python tools/corpus/rebuild_opencl.py [name part ...]``. With name parts only the
cases whose names hold one of them are compiled, and the manifest is left alone.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import build
from declare import Declared
from opencl_cases import CASES

from rocke.compiler.code_object import CodeObject

LIBRARY = "/usr/lib/clc/amdgcn-amd-amdhsa.bc"
BASE = ["-target", "amdgcn-amd-amdhsa", "-x", "cl", "-cl-std=CL2.0", "-nogpulib",
        "-cl-kernel-arg-info",
        "-mcode-object-version=5",
        "-Xclang", "-mlink-builtin-bitcode", "-Xclang", LIBRARY,
        "-Wno-implicit-function-declaration"]  # fmt: skip


def compile_source(case: Declared, arch: str) -> bytes:
    source = build.CORPUS / "opencl_kernels" / case.source
    defines = [f"-D{name}={value}" for name, value in case.constexprs.items()]
    lines = ["-gline-tables-only", "-ffile-compilation-dir=tests/corpus/opencl_kernels"]
    lines = lines if case.lines else []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.hsaco"
        command = ["clang-22", *BASE, f"-mcpu={arch}", *str(case.options["flags"]).split(), *lines,
                   *defines, source.name, "-o", str(out)]  # fmt: skip
        done = subprocess.run(command, cwd=source.parent, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{case.name} {arch}: {' '.join(command)}\n{done.stderr}")
        return out.read_bytes()


def object_name(case: Declared) -> str:
    """One name for the same source, defines and flags."""
    what = repr((sorted(case.constexprs.items()), case.options["flags"]))
    stem = case.source.removesuffix(".cl")
    return f"{stem}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"


def main(parts: list[str]) -> int:
    built: dict[tuple[str, str], dict[str, Any]] = {}
    orders: dict[tuple[str, str], CodeObject] = {}
    done = []
    for case in CASES:
        if parts and not any(part in case.name for part in parts):
            continue
        problem = build.problem_of(case)
        objects = {}
        for arch in case.archs:
            key = (object_name(case), arch)
            if key not in built:
                data = build.strip(compile_source(case, arch), keep_lines=case.lines)
                path = build.store(data, "opencl", key[0], arch)
                built[key] = {"file": path, "bytes": len(data), "dynamic_lds": 0}
                orders[key] = CodeObject.from_bytes(data)
            objects[arch] = built[key]
        kernel = orders[key].kernel(case.kernel)
        order = [a.name for a in kernel.explicit_arguments]
        done.append(build.entry(case, "opencl", problem, order, case.block, objects))
    print(f"{len(done)} cases, {len(built)} objects")
    if not parts:
        text = subprocess.run(["clang-22", "--version"], capture_output=True, text=True).stdout
        versions = {"clang": text.splitlines()[0], "libclc": "22"}
        build.write_manifest("opencl", versions, done)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
