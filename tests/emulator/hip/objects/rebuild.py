"""Rebuilds the code objects of this folder: ``python tests/emulator/hip/objects/rebuild.py``.

Needs Debian's clang-22 and lld-22. Built with clang 22.1.8.
"""

import lzma
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = "-x cl -cl-std=CL3.0 -target amdgcn-amd-amdhsa -nogpulib -O2 -fvisibility=protected"


def main() -> None:
    for source in sorted(HERE.glob("*.cl")):
        for arch in ("gfx90a", "gfx942", "gfx950"):
            with tempfile.TemporaryDirectory() as folder:
                built = Path(folder, "object")
                command = ["clang-22", *FLAGS.split(), f"-mcpu={arch}", str(source)]
                subprocess.run([*command, "-Wl,-s", "-o", str(built)], check=True)
                packed = lzma.compress(built.read_bytes(), preset=9)
            HERE.joinpath(f"{source.stem}-{arch}.hsaco.xz").write_bytes(packed)


if __name__ == "__main__":
    main()
