"""Which lane gets which slot, and how much code it takes."""

import pytest

from rocke.core.ir import I8, IRBuilder
from rocke.helpers.lds_staging import cooperative_for


def emit(total, lanes=64):
    b = IRBuilder("staging")
    array = b.smem_alloc(I8, [max(total, 1)])
    lane = b.thread_id_x()
    bodies = []

    def body(slot):
        bodies.append(slot)
        b.smem_store_vN(array, [slot], b.const_i8(1), 1)

    cooperative_for(b, lane=lane, lanes=lanes, total=total, body=body)
    b.ret()
    return b.kernel.mlir, len(bodies)


@pytest.mark.parametrize(
    ("total", "bodies", "loops", "guards"),
    [(1, 1, 0, 1), (63, 1, 0, 1), (64, 1, 0, 0), (65, 2, 0, 1), (128, 1, 1, 0), (6401, 2, 1, 1)],
)
def test_code_does_not_grow_with_the_total(total, bodies, loops, guards):
    text, emitted = emit(total)
    assert emitted == bodies
    assert text.count("scf.for") == loops
    assert text.count("scf.if") == guards


def test_nothing_to_do_emits_nothing():
    text, emitted = emit(0)
    assert emitted == 0
    assert "llvm.store" not in text
