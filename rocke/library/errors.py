"""What goes wrong with kernel libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable


class CatalogueError(ValueError):
    """A catalogue is wrong; the text names file, table, field and value."""


class BuildError(RuntimeError):
    """A library could not be built; the text names the folder or the kernel."""


class LibraryError(ValueError):
    """A library is damaged, foreign or not one; the text names the file and what is wrong."""


class NoKernel(LookupError):
    """No kernel of a library serves a problem; the text, made when it is asked for, says why."""

    def __init__(self, explain: Callable[[], str]) -> None:
        super().__init__()
        self._explain = explain

    def __str__(self) -> str:
        return self._explain()

    def __reduce__(self) -> tuple[type[NoKernel], tuple[Callable[[], str]]]:
        return NoKernel, (functools.partial(str, str(self)),)
