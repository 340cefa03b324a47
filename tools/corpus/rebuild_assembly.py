"""Assemble the hand-written kernels of tests/corpus and write their manifest.

Needs Debian's clang-22, lld-22 and llvm-22, and a Python with this project's requirements:
``python tools/corpus/rebuild_assembly.py``.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
from pathlib import Path

import build
from declare import ARCHS, Declared

NAMES = ("buffers", "dpp", "lanes", "lds", "salu", "sdwa", "vop3")
CASES = [Declared(name, f"{name}.s", "test_kernel", name, {}, "1") for name in NAMES]
CASES.append(Declared("waves", "waves.s", "test_kernel", "waves", {}, "1", block=(128, 1, 1)))


def assemble(case: Declared, arch: str) -> bytes:
    """In the metadata, ``@PROCESSOR@`` becomes the target, ``@WORK_ITEMS@`` the block's size."""
    words = {"@PROCESSOR@": arch, "@WORK_ITEMS@": str(math.prod(case.block))}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for path in (build.CORPUS / "assembly_kernels").iterdir():
            text = path.read_text()
            for word, value in words.items():
                text = text.replace(word, value)
            (folder / path.name).write_text(text)
        out = folder / "out.hsaco"
        command = ["clang-22", "-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}",
                   "-mcode-object-version=5", "-I.", case.source, "-o", str(out)]  # fmt: skip
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{case.source} {arch}:\n{done.stderr}")
        return out.read_bytes()


def main() -> int:
    done = []
    for case in CASES:
        objects = {}
        for arch in ARCHS:
            data = build.strip(assemble(case, arch), keep_lines=False)
            path = build.store(data, "assembly", case.name, arch)
            objects[arch] = {"file": path, "bytes": len(data), "dynamic_lds": 0}
        problem = build.problem_of(case)
        done.append(build.entry(case, "assembly", problem, ["x", "out"], case.block, objects))
    text = subprocess.run(["clang-22", "--version"], capture_output=True, text=True).stdout
    build.write_manifest("assembly", {"clang": text.splitlines()[0]}, done)
    print(f"{len(done)} cases")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
