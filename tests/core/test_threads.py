"""Builders are independent: many at once, interleaved or in threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from rocke.core.ir import F32, IRBuilder, ptr
from tests.core import programs


def test_threads_build_the_same_text_as_one_after_the_other():
    names = [*programs.PROGRAMS] * 2
    alone = [programs.build(name).mlir for name in names]
    together = Barrier(4)

    def work(part: int) -> list[str]:
        together.wait()
        return [programs.build(name).mlir for name in names[part::4]]

    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(work, range(4)))
    assert [text for part in range(4) for text in parts[part]] == [
        text for part in range(4) for text in alone[part::4]
    ]


def test_interleaved_builders_do_not_meet():
    def steps(name: str, factor: float):
        b = IRBuilder(name)
        x = b.param("x", ptr(F32))
        yield None
        loop = b.scf_for(0, 4)
        with loop as i:
            yield None
            b.global_store(x, i, b.fmul(b.global_load(x, i), factor))
            yield None
        b.ret()
        yield b.kernel.mlir

    def run(*makers):
        return [texts[-1] for texts in zip(*zip(*makers, strict=True), strict=True)]

    mixed = run(steps("k", 2.0), steps("k", 3.0), steps("k", 2.0))
    alone = run(steps("k", 2.0)) + run(steps("k", 3.0))
    assert mixed == [alone[0], alone[1], alone[0]]


def test_a_builder_needs_no_context_and_ignores_the_callers():
    from mlir import ir

    plain = programs.build("control_flow").mlir
    with ir.Context(), ir.Location.unknown():
        assert programs.build("control_flow").mlir == plain
