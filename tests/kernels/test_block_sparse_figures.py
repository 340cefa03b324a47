"""The figures in the docs are those that the command prints."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rocke.arch import TARGETS

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "attention-figures.md"
KINDS = [(arch, dtype) for arch in TARGETS for dtype in ("f16", "bf16")]


def load_command() -> ModuleType:
    path = ROOT / "tools" / "bench" / "attention_figures.py"
    spec = importlib.util.spec_from_file_location("attention_figures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def command() -> ModuleType:
    return load_command()


def lines(command: ModuleType, start: str) -> list[str]:
    """Of the document's tables, those that begin so."""
    text = command.between_markers(DOCUMENT.read_text())
    return [line for line in text.splitlines() if line.startswith(start)]


@pytest.mark.normal
@pytest.mark.parametrize(("arch", "dtype"), KINDS)
def test_rows_in_the_docs_are_what_is_counted(command, arch, dtype):
    parts = zip((command.HEADINGS, command.LSE_HEADINGS), command.kernels(arch, dtype), strict=True)
    printed = [line for part in parts for line in command.table(*part).splitlines()[2:]]
    assert lines(command, f"| {arch}, {dtype},") == printed


def test_the_docs_have_every_row_once_in_the_printed_order(command):
    wide = [f"{arch}, {dtype}" for arch, dtype in command.KINDS]
    sizes = [f"{size}, {block}" for size in command.SIZES for block in command.BLOCKS]
    first = [f"{kind}, {size}" for kind in wide for size in sizes]
    second = [f"{kind}, {block}" for kind in wide for block in command.BLOCKS]
    found = [line.split(" | ")[0].removeprefix("| ") for line in lines(command, "| gfx")]
    assert found == [*first, *second]
    assert sorted(command.KINDS) == sorted(KINDS)


def test_writing_replaces_what_stands_between_the_markers(command, tmp_path, monkeypatch):
    document = tmp_path / "figures.md"
    document.write_text(f"before\n{command.BEGIN}\nold\n{command.END}\nafter old\n")
    monkeypatch.setattr(command, "tables", lambda: "| new |\n")
    monkeypatch.setattr(sys, "argv", ["attention_figures", "--write", str(document)])
    command.main()
    expected = f"before\n{command.BEGIN}\n| new |\n{command.END}\nafter old\n"
    assert document.read_text() == expected
    document.write_text("nothing\n")
    with pytest.raises(ValueError, match="figures begin"):
        command.main()
    assert document.read_text() == "nothing\n"
