"""Random programs on the emulated device against an independent interpreter.

A seed makes a program (:mod:`.generator`), the assembler inside librocmllvm its code object
(:mod:`.kernel`, :mod:`.assembler`), and :mod:`.machine` with the ``*_ops`` modules interprets it in
numpy. ``python -m tests.emulator.random_programs.find SEED`` names the first instruction after
which the two differ.
"""
