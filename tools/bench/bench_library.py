"""How long a catalogue takes to build, and whether every way to build it gives the same bytes.

    python tools/bench/bench_library.py [CATALOGUE] [--filter FIELD=PATTERN] [--kill-at 0.4]

Builds with ``rocke build``: once from an empty cache, again with everything cached into an empty
folder, once more from an empty cache, and last a build that is killed (SIGKILL, with all of its
processes) when a share of the kernels is there, and then resumed. Each is packed as wheel and zip.
Prints seconds by the clock and the sha256 of each package; exit code 1 when they differ. The
shipped catalogue takes about three times a build from empty. Caches and folders are temporary.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROCKE = (sys.executable, "-m", "rocke")


def start(arguments: Sequence[str], cache: Path) -> subprocess.Popen[str]:
    """``rocke`` with a cache folder of its own, in a process group of its own."""
    return subprocess.Popen(
        (*ROCKE, *arguments),
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(arguments: Sequence[str], cache: Path) -> str:
    """The output of a ``rocke`` command that has to succeed."""
    process = start(arguments, cache)
    out, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"rocke {' '.join(arguments)} failed: {errors or out}")
    return out


def timed_build(what: str, build: Sequence[str], folder: Path, cache: Path) -> None:
    """Build into ``folder`` and print how long it took and what the command said of it."""
    began = time.perf_counter()
    lines = run([*build, "-o", str(folder)], cache).strip().splitlines()
    print(f"{what}: {time.perf_counter() - began:.1f} s ({lines[-2]})", flush=True)


def killed_build(build: Sequence[str], folder: Path, cache: Path, objects: int) -> None:
    """Start a build and kill it once it has written ``objects`` code objects."""
    process = start([*build, "-o", str(folder)], cache)
    while process.poll() is None:
        written = sum(1 for _ in folder.rglob("*.hsaco"))
        if written >= objects:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            print(f"killed with {written} objects written", flush=True)
            return
        time.sleep(0.2)
    raise SystemExit(f"the build ended before it had written {objects} objects")


def digests(folder: Path, cache: Path) -> dict[str, str]:
    """sha256 of wheel and zip of a built library."""
    found = {}
    for kind, option in (("wheel", []), ("zip", ["--zip"])):
        to = folder.with_name(f"{folder.name}-{kind}")
        to.mkdir()
        run(["pack", *option, str(folder), "-o", str(to)], cache)
        (package,) = to.iterdir()
        found[kind] = hashlib.sha256(package.read_bytes()).hexdigest()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("catalogue", nargs="?", default="attention.toml")
    parser.add_argument("--filter", action="append", default=[], metavar="FIELD=PATTERN")
    parser.add_argument("--kill-at", type=float, default=0.4, help="share of the kernels")
    options = parser.parse_args()
    build = ["build", options.catalogue]
    for pattern in options.filter:
        build += ["--filter", pattern]
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        first, second, third = (base / f"cache{n}" for n in range(3))
        timed_build("from empty", build, base / "one", first)
        timed_build("all cached", build, base / "cached", first)
        timed_build("from empty again", build, base / "two", second)
        objects = sum(1 for _ in (base / "one").rglob("*.hsaco"))
        killed_build(build, base / "resumed", third, max(1, int(options.kill_at * objects)))
        timed_build("resumed", build, base / "resumed", third)
        found = {f: digests(base / f, first) for f in ("one", "cached", "two", "resumed")}
    for kind, expected in found["one"].items():
        same = all(found[folder][kind] == expected for folder in found)
        print(f"{kind}: sha256 {expected}, {'the same for all' if same else 'DIFFERENT'}")
        if not same:
            raise SystemExit(f"{kind}: " + ", ".join(f"{f} {d[kind]}" for f, d in found.items()))


if __name__ == "__main__":
    main()
