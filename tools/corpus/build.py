"""What the rebuild scripts share: problems made concrete, objects stripped, manifest written."""

from __future__ import annotations

import json
import lzma
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "corpus"
sys.path.insert(0, str(ROOT))

from declare import Declared, concrete_grid  # noqa: E402

from tests.corpus.problems import Problem, make  # noqa: E402
from tests.corpus.problems.problem import argument_type  # noqa: E402


def problem_of(case: Declared) -> Problem:
    """The case's problem with the seed that the tests use."""
    return make(case.problem, dict(case.parameters), zlib.crc32(case.name.encode()))


def grid_of(case: Declared, problem: Problem) -> tuple[int, int, int]:
    integers = {k: int(v) for k, v in problem.arguments.items() if not hasattr(v, "__len__")}
    return concrete_grid(case.grid, {**case.parameters, **case.constexprs, **integers})


def strip(data: bytes, *, keep_lines: bool) -> bytes:
    """The object without sections that no loader reads (and, if not wanted, no debug data)."""
    tool = shutil.which("llvm-objcopy-22")
    if tool is None:
        raise SystemExit("llvm-objcopy-22 not found: install Debian's llvm-22")
    what = ["--remove-section=.comment"]
    if not keep_lines:
        what += ["--strip-debug"]
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "a", Path(folder) / "b"
        before.write_bytes(data)
        subprocess.run([tool, *what, str(before), str(after)], check=True)
        return after.read_bytes()


def store(data: bytes, language: str, case: str, arch: str) -> str:
    """Write one object; returns its path relative to the corpus folder."""
    path = CORPUS / "objects" / language / f"{case}-{arch}.hsaco.xz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
    return str(path.relative_to(CORPUS))


def entry(case: Declared, language: str, problem: Problem, order: list[str],
          block: tuple[int, int, int], objects: Mapping[str, Any]) -> dict[str, Any]:  # fmt: skip
    """The manifest's record of a case. ``order`` is the kernel's argument order."""
    arguments = []
    for name in order:
        value = problem.arguments[name]
        kind, pointer = argument_type(value)
        record: dict[str, Any] = {"name": name, "type": f"*{kind}" if pointer else kind}
        if pointer:
            record["shape"] = list(value.shape)  # type: ignore[union-attr]
        if name in problem.expected:
            record["output"] = True
        arguments.append(record)
    unused = set(problem.arguments) - set(order)
    if unused:
        raise SystemExit(f"{case.name}: the kernel takes no argument {sorted(unused)}")
    return {
        "name": case.name,
        "source": f"{language}_kernels/{case.source}",
        "kernel": case.kernel,
        "constexprs": dict(case.constexprs),
        "options": dict(case.options),
        "problem": case.problem,
        "parameters": dict(case.parameters),
        "arguments": arguments,
        "grid_rule": case.grid,
        "grid": list(grid_of(case, problem)),
        "block": list(block),
        "objects": dict(objects),
    }


def write_manifest(language: str, versions: Mapping[str, str], cases: list[dict[str, Any]]) -> None:
    """One case a line keeps differences readable. Objects that no case names are removed."""
    lines = ",\n".join(json.dumps(c) for c in sorted(cases, key=lambda c: c["name"]))
    head = json.dumps(dict(versions))
    text = f'{{"language": "{language}",\n"versions": {head},\n"cases": [\n{lines}\n]}}\n'
    json.loads(text)
    (CORPUS / f"{language}.json").write_text(text)
    kept = {o["file"] for c in cases for o in c["objects"].values()}
    for path in (CORPUS / "objects" / language).glob("*.xz"):
        if str(path.relative_to(CORPUS)) not in kept:
            path.unlink()
