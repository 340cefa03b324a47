"""The error of the builder."""

from __future__ import annotations


class IRError(ValueError, TypeError):
    """IR that the builder refuses, at the moment it is built.

    The text names the operation, what was expected, what was given, and the user's source line.
    It is a ValueError and a TypeError, since ill-typed IR can be seen as either.
    """
