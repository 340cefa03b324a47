"""Kernels of one wave written in assembly, between the corpus's begin.inc and end.inc."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from rocke.compiler.code_object import CodeObject
from tests.corpus import cases


def assembled(body: str, arch: str) -> CodeObject:
    """A kernel with the arguments ``x`` and ``out``; what begin.inc says of registers holds.

    Assembled and linked by zig, which the project's tests have anyway.
    """
    parts = [(cases.FOLDER / "assembly_kernels" / f"{n}.inc").read_text() for n in ("begin", "end")]
    text = "\n".join([parts[0], body, parts[1]])
    text = text.replace("@PROCESSOR@", arch).replace("@WORK_ITEMS@", "64")
    zig = [sys.executable, "-m", "ziglang"]
    with tempfile.TemporaryDirectory() as folder:
        source, made, linked = (Path(folder, f"kernel.{e}") for e in ("s", "o", "hsaco"))
        source.write_text(text)
        compile_ = [*zig, "cc", "-target", "amdgcn-amdhsa", f"-mcpu={arch}", "-c"]
        for command in (
            [*compile_, "-mcode-object-version=5", str(source), "-o", str(made)],
            [*zig, "ld.lld", "-shared", "-o", str(linked), str(made)],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise AssertionError(done.stderr)
        return CodeObject.from_bytes(linked.read_bytes())
