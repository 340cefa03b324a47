"""Errors and warnings of the compiler."""

from __future__ import annotations


class CompileError(Exception):
    """A kernel cannot be compiled; the text names the kernel, the stage and what would be right."""


class CompileWarning(UserWarning):
    """The kernel was compiled, but not as asked; the text is the code generator's own."""


class SpillWarning(CompileWarning):
    """The kernel spills registers or uses scratch memory; the text gives the counts."""


class CacheWarning(UserWarning):
    """The compile cache cannot be used; kernels are compiled without it."""
