"""Problems of the hand-written assembly objects."""

from __future__ import annotations

from collections.abc import Callable

from .problem import Problem

PROBLEMS: tuple[Callable[..., Problem], ...] = ()
