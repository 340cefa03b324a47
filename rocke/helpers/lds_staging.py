"""Filling LDS together: the lanes of one workgroup share a range of slots."""

from __future__ import annotations

from collections.abc import Callable

from rocke.core.ir import IRBuilder, Value


def cooperative_for(
    b: IRBuilder, *, lane: Value, lanes: int, total: int, body: Callable[[Value], None]
) -> None:
    """Emit ``body(slot)`` once for each slot in ``[0, total)``, spread over ``lanes`` lanes.

    Slot ``i`` goes to lane ``i mod lanes``. Whole rounds run in a loop without a test; only the
    last, partial round is guarded. ``body`` is emitted at most twice, whatever ``total`` is.
    """
    rounds, rest = divmod(total, lanes)
    if rounds == 1:
        body(lane)
    elif rounds > 1:
        with b.scf_for(0, rounds, 1) as i:
            body(b.add(b.mul(i, lanes), lane))
    if rest:
        slot = b.add(lane, rounds * lanes) if rounds else lane
        with b.scf_if(b.cmp_lt(lane, rest)):
            body(slot)
