"""Output for people (tables) and for scripts (JSON)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    click.echo(json.dumps(value, indent=2))


def console() -> Console:
    """Standard output; as wide as the terminal, or 100 columns where there is none."""
    found = Console(highlight=False, emoji=False)
    return found if found.is_terminal else Console(highlight=False, emoji=False, width=100)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> Table:
    """A plain table; a column whose name starts with ``>`` is right-aligned."""
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        made.add_column(name.removeprefix(">"), justify="right" if name[:1] == ">" else "left")
    for row in rows:
        made.add_row(*(cell if hasattr(cell, "__rich__") else str(cell) for cell in row))
    return made
