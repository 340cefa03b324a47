"""Every command and every code block of the README and the guides runs.

Blocks marked ``bash`` and ``python`` run in order in one folder a document, with the project's
environment on PATH; each must succeed. Blocks marked ``text`` are output, and are not compared.
``make TARGET`` lines are checked to be targets of the Makefile instead of run: they would install
and test from within a test.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
RUN = ("bash", "python")
KNOWN = (*RUN, "text", "json", "toml")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(document: Path) -> list[Block]:
    source = document.read_text()
    return [
        Block(m.group(1), m.group(2), source.count("\n", 0, m.start()) + 2)
        for m in FENCE.finditer(source)
    ]


def make_targets(script: str) -> list[str]:
    return re.findall(r"^make ([\w-]+)$", script, re.MULTILINE)


def without_make(script: str) -> str:
    skip = ("make ", "git clone ", "cd rocke")
    return "\n".join(line for line in script.splitlines() if not line.startswith(skip))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_every_block_says_what_it_is(document):
    for block in blocks(document):
        assert block.language in KNOWN, f"{document.name}:{block.line}: mark the block"


def test_the_readme_has_commands_to_run():
    assert {b.language for b in blocks(ROOT / "README.md")} >= {"bash", "python"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_make_targets_exist(document):
    for block in blocks(document):
        for target in make_targets(block.text):
            done = subprocess.run(
                ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{document.name}:{block.line}: {done.stderr}"


@pytest.mark.normal
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_every_block_runs(document, tmp_path):
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    for block in blocks(document):
        if block.language not in RUN:
            continue
        command = {
            "bash": ["bash", "-euo", "pipefail", "-c", without_make(block.text)],
            "python": [sys.executable, "-c", block.text],
        }[block.language]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (
            f"{document.name}:{block.line} failed:\n{block.text}\n{done.stdout}\n{done.stderr}"
        )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_to_files_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name}: {target}"
