"""Parts that the host functions of the checks share: who runs, and how a finding is kept."""

from __future__ import annotations

from rocke.emulator import state
from rocke.emulator.checks import layout as at
from rocke.emulator.checks.code import Code, Num


def thread_of(c: Code) -> str:
    """The block of the host thread that runs the wave ``w``."""
    return c.pointer(c.get("%w", at.W_THREAD))


def other_wave(c: Code, thread: str, index: Num) -> str:
    """The state of a wave of the running workgroup."""
    return c.pointer(c.get(thread, at.T_WAVES) + index * state.WAVE_BYTES)


def report_function() -> Code:
    """The first time keeps who and where; later times count."""
    parameters = [("i64", n) for n in ("slot", "lanes", "address", "other")]
    c = Code("rk_check_report", [("ptr", "w"), *parameters], attributes="noinline nounwind ")
    thread = thread_of(c)
    record = c.pointer(c.get(thread, at.T_FINDINGS) + c.param("slot") * at.FINDING_BYTES)
    before = Num(c, c.new(f"atomicrmw add ptr {record}, i64 1 monotonic"))
    with c.when(before.equals(0)):
        clock = c.pointer(c.get(thread, at.T_CLOCK))
        order = Num(c, c.new(f"atomicrmw add ptr {clock}, i64 1 monotonic"))
        c.put(order, record, at.F_ORDER)
        c.put(c.get(thread, at.T_GROUP), record, at.F_GROUP)
        c.put(c.get("%w", state.WAVE_IN_GROUP, 32), record, at.F_WAVE)
        c.put(c.param("lanes"), record, at.F_LANES)
        c.put(c.param("address"), record, at.F_ADDRESS)
        c.put(c.param("other"), record, at.F_OTHER)
        c.put(c.get("%w", at.W_CAUSE), record, at.F_CAUSE)
    return c.end()


def report_some(c: Code, lanes: Num, slot: Num, address: Num, other: Num | int) -> None:
    """Report to ``slot`` if there are ``lanes``."""
    with c.when(lanes.differs(0), likely=False):
        arguments = [("i64", v) for v in (slot, lanes, address, other)]
        c.invoke("void", "rk_check_report", ("ptr", "%w"), *arguments)
