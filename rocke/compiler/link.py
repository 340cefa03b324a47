"""Object file to HSACO: a shared object without undefined symbols."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from rocke.compiler.errors import CompileError
from rocke.compiler.toolchain import Linker

_FLAGS = ("-shared", "--no-undefined")


def link(name: str, data: bytes, linker: Linker) -> bytes:
    """Link one relocatable object.

    Raises :class:`CompileError` with the linker's own lines, naming the symbols that nothing
    defines, for a linker that does not run, and for a temporary folder that cannot be written.
    """
    try:
        return _link(name, data, linker)
    except OSError as error:
        where = f"the temporary folder {tempfile.gettempdir()}"
        raise CompileError(f"{name}: linking failed in {where}: {error}") from None


def _link(name: str, data: bytes, linker: Linker) -> bytes:
    with tempfile.TemporaryDirectory(prefix="rocke-link-") as folder:
        source, result = Path(folder, "kernel.o"), Path(folder, "kernel.hsaco")
        source.write_bytes(data)
        # Names without a folder keep the folder out of messages and bytes.
        command = [*linker.command, *_FLAGS, source.name, "-o", result.name]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        except OSError as error:
            raise CompileError(
                f"{name}: linker {linker.command[0]} does not run: {error}"
            ) from None
        if done.returncode != 0:
            lines = [line.strip() for line in (done.stderr + done.stdout).splitlines()]
            said = " | ".join(line for line in lines if line) or f"exit code {done.returncode}"
            raise CompileError(f"{name}: linking failed: {said}")
        return result.read_bytes()
