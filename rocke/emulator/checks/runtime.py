"""Host functions that the checking code calls: they keep and judge the marks of
:mod:`rocke.emulator.checks.layout`. They are part of the emulator's runtime module.
"""

from __future__ import annotations

from rocke.emulator import state
from rocke.emulator.checks import layout as at
from rocke.emulator.checks.bits import BITS_SYMBOLS, bits_functions, defined_at
from rocke.emulator.checks.code import Code, Num
from rocke.emulator.checks.global_memory import global_functions
from rocke.emulator.checks.reports import other_wave, report_function, report_some, thread_of
from rocke.emulator.state import Status

LDS_SIZES = (1, 2, 4, 8, 12, 16)
UNDEFINED, RACE, PENDING = 1, 2, 4
"""What :func:`_lds_verdict` finds wrong."""
_SEQUENCE = (1 << at.LDS_SEQUENCE_BITS) - 1
_INLINE = "alwaysinline nounwind "
_PLAIN = "nounwind "

CHECK_SYMBOLS = (
    "rk_check_report",
    "rk_check_global",
    *(f"rk_check_lds_{kind}_{size}" for kind in ("read", "write") for size in LDS_SIZES),
    *BITS_SYMBOLS,
)


# Workgroups, barriers, the order of waves


def _group() -> Code:
    """At the start of a workgroup, after its waves have been set up."""
    c = Code("rk_check_group", [("ptr", "t"), ("i64", "g"), ("i64", "n")], attributes=_PLAIN)
    g = c.param("g")
    c.put(g, "%t", at.T_GROUP)
    c.put(0, "%t", at.T_ACQUIRED)
    c.put(c.get("%t", at.T_EPOCH) + 1, "%t", at.T_EPOCH)
    mixed = (g + 1) * 0x9E3779B97F4A7C15 + c.get("%t", at.T_SEED) * 0xD1342543DE82EF95
    c.put(mixed | 1, "%t", at.T_RANDOM)
    size = c.get("%t", at.T_LDS_BYTES) << 2
    for marks in (at.T_LDS_WRITES, at.T_LDS_READS):
        pointer = c.pointer(c.get("%t", marks))
        arguments = (("ptr", pointer), ("i8", "0"), ("i64", size), ("i1", "false"))
        c.invoke("void", "llvm.memset.p0.i64", *arguments)
    initial = c.pointer(c.get("%t", at.T_INITIAL))
    with c.count(0, c.param("n")) as i:
        wave = other_wave(c, "%t", i)
        c.put(c.address("%t"), wave, at.W_THREAD)
        target = c.at(wave, state.DEFINED)
        size_ = str(8 * state.DEFINED_REGISTERS)
        copy = (("ptr", target), ("ptr", initial), ("i64", size_), ("i1", "false"))
        c.invoke("void", "llvm.memcpy.p0.p0.i64", *copy)
        for first, field in ((0, at.T_VGPR_BYTES), (256, at.T_AGPR_BYTES)):
            rows = c.at(wave, state.UNDEFINED + first * state.ROW_BYTES)
            fill = (("ptr", rows), ("i8", "-1"), ("i64", c.get("%t", field)), ("i1", "false"))
            c.invoke("void", "llvm.memset.p0.i64", *fill)
    return c.end()


def _release() -> Code:
    """When a barrier opens: what waves have waited for is seen by the others from here on."""
    c = Code("rk_check_release", [("ptr", "t"), ("i64", "n")], attributes=_PLAIN)
    c.put(c.get("%t", at.T_EPOCH) + 1, "%t", at.T_EPOCH)
    waiting, ended = c.var(0), c.var(0)
    with c.count(0, c.param("n")) as i:
        wave = other_wave(c, "%t", i)
        over = c.get(wave, state.WAVE_STATUS, 32).equals(int(Status.END))
        for done, issued, visible in (
            (at.W_LDS_DONE, at.W_LDS_ISSUED, at.W_LDS_VISIBLE),
            (at.W_VM_DONE, at.W_VM_ISSUED, at.W_VM_VISIBLE),
        ):
            c.put(c.select(over, c.get(wave, issued), c.get(wave, done)), wave, visible)
        c.put(c.get(wave, at.W_VM_ISSUED), wave, at.W_VM_PASSED)
        waiting.set(c.select(over, waiting.get(), c.address(wave)))
        ended.set(c.select(over, i + 1, ended.get()))
    late = ended.get()
    with c.when(c.both(late.differs(0), waiting.get().differs(0)), likely=False):
        wave = c.pointer(waiting.get())
        values = (c.get(wave, at.W_BARRIER), 0, 0, late - 1)
        c.invoke("void", "rk_check_report", ("ptr", wave), *(("i64", v) for v in values))
    return c.end()


def _order() -> Code:
    """Which wave runs as number ``i`` of a round."""
    c = Code("rk_check_order", [("ptr", "t"), ("i64", "i"), ("i64", "n")], "i64", _PLAIN)
    i, n = c.param("i"), c.param("n")
    with c.when(i.equals(0)):
        x = c.get("%t", at.T_RANDOM)
        x = x ^ (x << 13)
        x = x ^ (x >> 7)
        x = x ^ (x << 17)
        c.put(x, "%t", at.T_RANDOM)
        c.put((x >> 8 & 0xFFFFFF) % n, "%t", at.T_ROTATION)
        c.put(x >> 40 & 1, "%t", at.T_BACKWARDS)
    step = c.select(c.get("%t", at.T_BACKWARDS).equals(0), i, n - i)
    return c.end((c.get("%t", at.T_ROTATION) + step) % n)


# LDS


def _lds_verdict() -> Code:
    """What is wrong with touching a byte whose write word is ``word``."""
    parameters = [("ptr", "w"), ("ptr", "t"), ("i64", "word"), ("i64", "atomic")]
    c = Code("check_lds_verdict", parameters, "i64", _INLINE)
    word = c.param("word")
    result = c.var(c.select((word & at.LDS_UNDEFINED).differs(0), UNDEFINED, 0))
    result.set(c.select(word.equals(0), UNDEFINED, result.get()))
    copy = (word & at.LDS_COPY).differs(0)
    owner = word >> at.LDS_WAVE & 15
    mine = owner.equals(c.get("%w", state.WAVE_IN_GROUP, 32))
    relevant = c.both(word.differs(0), c.either(copy, c.negated(mine)))
    with c.when(relevant):
        wave = other_wave(c, "%t", owner)
        issued = c.select(copy, c.get(wave, at.W_VM_ISSUED), c.get(wave, at.W_LDS_ISSUED))
        visible = c.select(copy, c.get(wave, at.W_VM_VISIBLE), c.get(wave, at.W_LDS_VISIBLE))
        proved = c.select(mine, c.get(wave, at.W_VM_DONE), visible)
        age = issued - word & _SEQUENCE
        early = age.at_most(issued - proved)
        both_atomic = c.both((word & at.LDS_ATOMIC).differs(0), c.param("atomic").differs(0))
        wrong = c.select(mine, PENDING, RACE)
        bad = c.both(early, c.negated(both_atomic))
        result.set(result.get() | c.select(bad, wrong, 0))
    return c.end(result.get())


def _all_equal(c: Code, vector: str, size: int) -> str:
    if size == 1:
        return "true"
    first = c.new(f"extractelement <{size} x i32> {vector}, i32 0")
    same = c.new(f"icmp eq <{size} x i32> {vector}, {c.splat('i32', first, size)}")
    bits = c.new(f"bitcast <{size} x i1> {same} to i{size}")
    return c.new(f"icmp eq i{size} {bits}, -1")


def _lds_access(size: int, write: bool) -> Code:
    """Judge ``size`` bytes at the LDS bytes ``at`` (u32[64]) of some lanes, and mark them.

    ``flags`` are the marks of a write word that the access sets (atomic, copy); for a write
    ``defined`` has the lanes whose data is defined. Gives the lanes that read undefined bytes.
    Findings go to ``slot`` (race) and the next one (a direct copy that was not waited for).
    A write of what is there already changes nothing: it is no race. ``data`` are the registers,
    null where they are not known; ``skip`` bytes of them come before the data.
    """
    kind = "write" if write else "read"
    parameters = [("ptr", "w"), ("ptr", "at")]
    parameters += [("i64", n) for n in ("lanes", "slot", "flags", "defined")]
    parameters += [("ptr", "data"), ("i64", "skip")]
    c = Code(f"rk_check_lds_{kind}_{size}", parameters, "i64", _PLAIN)
    thread = thread_of(c)
    writes, reads = (c.get(thread, f) for f in (at.T_LDS_WRITES, at.T_LDS_READS))
    owned = c.get("%w", state.LDS_SIZE, 32)
    me = c.get("%w", state.WAVE_IN_GROUP, 32)
    epoch = c.get(thread, at.T_EPOCH) & 0xFFFF
    flags = c.param("flags")
    # A plain load may be how the source reads atomically: it never races with an atomic.
    atomic = flags & at.LDS_ATOMIC if write else Num(c, "1") + 0
    copy = (flags & at.LDS_COPY).differs(0)
    sequence = c.select(copy, c.get("%w", at.W_VM_ISSUED), c.get("%w", at.W_LDS_ISSUED))
    mark = (sequence & _SEQUENCE) | (me << at.LDS_WAVE) | flags | at.LDS_WRITTEN
    undefined, raced, pending, other, where, cause = (c.var(0) for _ in range(6))
    writers, readers_ = (c.get(thread, f) for f in (at.T_LDS_WRITERS, at.T_LDS_READERS))
    accessor = c.new(f"trunc i64 {((c.param('slot') << at.WHO_SLOT) | me).name} to i32")
    with c.lanes(c.param("lanes")) as lane:
        byte = c.get("%at", lane << 2, 32)
        with c.when((byte + size).at_most(owned), likely=True):
            place = c.pointer(writes + (byte << 2))
            vector = c.load(f"<{size} x i32>", place, align=4)
            first = c.get(place, 0, 32)
            verdict = c.var(_judge(c, thread, first, atomic))
            culprit, bad_byte = c.var(first), c.var(byte)
            if size > 1:
                with (
                    c.when(c.negated(_all_equal(c, vector, size)), likely=False),
                    c.count(1, size) as i,
                ):
                    word = c.get(place, i << 2, 32)
                    more = _judge(c, thread, word, atomic)
                    worse = (more & (RACE | PENDING)).differs(0)
                    culprit.set(c.select(worse, word, culprit.get()))
                    bad_byte.set(c.select(worse, byte + i, bad_byte.get()))
                    verdict.set(verdict.get() | more)
            bit = Num(c, "1") << lane
            read_place = c.pointer(reads + (byte << 2))
            if write:
                race = _read_by_others(c, read_place, size, epoch, me)
                with c.when(c.both(race, atomic.equals(0)), likely=False):
                    verdict.set(verdict.get() | RACE << 4)
                    culprit.set(c.get(read_place, 0, 32))
                    bad_byte.set(byte)
                word32 = c.new(f"trunc i64 {mark.name} to i32")
                c.store(f"<{size} x i32>", c.splat("i32", word32, size), place, align=4)
                known = c.param("defined") >> lane & 1
                with c.when(known.equals(0), likely=False), c.count(0, size) as k:
                    new = mark | c.select(_undefined_byte(c, lane, k), at.LDS_UNDEFINED, 0)
                    c.put(new, place, k << 2, 32)
            else:
                with c.when((flags & at.LDS_ATOMIC).equals(0)):
                    _mark_read(c, read_place, size, epoch, me)
            with c.when((verdict.get() & (RACE | RACE << 4)).differs(0), likely=False):
                memory = c.pointer(c.get("%w", state.LDS_BASE) + byte)
                same = _same(c, memory, lane, Num(c, str(size)))
                kept = c.select(same.equals(0), -1, ~(Num(c, str(RACE | RACE << 4))))
                verdict.set(verdict.get() & kept)
            bad = verdict.get()
            with c.when(bad.differs(0), likely=False):
                undefined.set(undefined.get() | c.select((bad & UNDEFINED).differs(0), bit, 0))
                wrong = (bad & (RACE | RACE << 4)).differs(0)
                raced.set(raced.get() | c.select(wrong, bit, 0))
                pending.set(pending.get() | c.select((bad & PENDING).differs(0), bit, 0))
                after_read = (bad & RACE << 4).differs(0)
                code = at.WRITE_AFTER_WRITE if write else at.READ_AFTER_WRITE
                owner = culprit.get() >> at.LDS_WAVE & 15
                readers = culprit.get() & 0xFFFF & ~(Num(c, "1") << me)
                reader = c.invoke("i64", "llvm.cttz.i64", ("i64", readers), ("i1", "false"))
                listed = c.select(after_read, readers_, writers)
                last = c.get(c.pointer(listed + (bad_byte.get() << 2)), 0, 32)
                # The last reader may be this wave itself: then only its number is known.
                theirs = c.either(c.negated(after_read), (last & 15).differs(me))
                reader = c.select(theirs, last & 15, reader)
                cause.set(c.select(theirs, last >> at.WHO_SLOT, 0))
                who = c.select(after_read, reader, owner)
                what = c.select(after_read, at.WRITE_AFTER_READ, code)
                other.set((who << at.OTHER_WAVE) | what)
                where.set(bad_byte.get())
            own = c.pointer((writers if write else readers_) + (byte << 2))
            c.store(f"<{size} x i32>", c.splat("i32", accessor, size), own, align=4)
    slot = c.param("slot")
    c.put(cause.get(), "%w", at.W_CAUSE)
    report_some(c, raced.get(), slot, where.get(), other.get())
    report_some(c, pending.get(), slot + 1, where.get(), other.get())
    return c.end(undefined.get())


def _undefined_byte(c: Code, lane: Num, k: Num) -> str:
    """Whether byte ``k`` of a lane's data, which is not wholly defined, is undefined."""
    at_ = k + c.param("skip")
    place = at_ >> 2 << 8
    register = (c.address("%data") - c.address("%w") + place) >> 8
    is_known = c.address("%data").differs(0)
    register = c.select(is_known, register, 0)
    offset = place + (lane << 2) + (at_ & 3) + (c.address("%data") - c.address("%w"))
    offset = c.select(is_known, offset, 0)
    bits = c.get(c.at("%w", (offset + state.UNDEFINED).name), 0, 8)
    lacking = (c.get(defined_at(c, register)) >> lane & 1).equals(0)
    return c.either(c.negated(is_known), c.both(lacking, bits.differs(0)))


def _same_data() -> Code:
    """1 if ``size`` bytes of memory are what the lane's registers hold from byte ``skip`` on."""
    parameters = [("ptr", "memory"), ("ptr", "data")]
    parameters += [("i64", n) for n in ("lane", "size", "skip")]
    c = Code("check_same_data", parameters, "i64", "noinline nounwind ")
    result = c.var(0)
    with c.when(c.address("%data").differs(0)):
        result.set(1)
        with c.count(0, c.param("size")) as k:
            at_ = k + c.param("skip")
            place = (at_ >> 2) * state.ROW_BYTES + (c.param("lane") << 2) + (at_ & 3)
            equal = c.get("%memory", k, 8).equals(c.get("%data", place, 8))
            result.set(c.select(equal, result.get(), 0))
    return c.end(result.get())


def _same(c: Code, memory: str, lane: Num, size: Num) -> Num:
    values = (("i64", lane), ("i64", size), ("i64", c.param("skip")))
    return c.invoke("i64", "check_same_data", ("ptr", memory), ("ptr", "%data"), *values)


def _judge(c: Code, thread: str, word: Num, atomic: Num) -> Num:
    arguments = (("ptr", "%w"), ("ptr", thread), ("i64", word), ("i64", atomic))
    return c.invoke("i64", "check_lds_verdict", *arguments)


def _narrow(c: Code, value: Num, size: int) -> str:
    return c.splat("i32", c.new(f"trunc i64 {value.name} to i32"), size)


def _in_epoch(c: Code, words: str, size: int, epoch: Num) -> str:
    vector = f"<{size} x i32>"
    when = c.new(f"lshr {vector} {words}, splat (i32 16)")
    return c.new(f"icmp eq {vector} {when}, {_narrow(c, epoch, size)}")


def _read_by_others(c: Code, place: str, size: int, epoch: Num, me: Num) -> str:
    vector = f"<{size} x i32>"
    words = c.load(vector, place, align=4)
    current = _in_epoch(c, words, size, epoch)
    others = ~(Num(c, "1") << me) & 0xFFFF
    theirs = c.new(f"and {vector} {words}, {_narrow(c, others, size)}")
    some = c.new(f"icmp ne {vector} {theirs}, zeroinitializer")
    both = c.new(f"and <{size} x i1> {current}, {some}")
    bits = c.new(f"bitcast <{size} x i1> {both} to i{size}")
    return c.new(f"icmp ne i{size} {bits}, 0")


def _mark_read(c: Code, place: str, size: int, epoch: Num, me: Num) -> None:
    vector = f"<{size} x i32>"
    words = c.load(vector, place, align=4)
    current = _in_epoch(c, words, size, epoch)
    mine = (epoch << 16) | (Num(c, "1") << me)
    fresh = _narrow(c, mine, size)
    joined = c.new(f"or {vector} {words}, {fresh}")
    new = c.new(f"select <{size} x i1> {current}, {vector} {joined}, {vector} {fresh}")
    c.store(vector, new, place, align=4)


def _functions() -> list[Code]:
    functions = [report_function(), _group(), _release(), _order(), _lds_verdict(), _same_data()]
    functions += bits_functions()
    functions += [_lds_access(size, write) for size in LDS_SIZES for write in (False, True)]
    return [*functions, *global_functions()]


def check_runtime_ir() -> tuple[str, frozenset[str]]:
    """The functions' text, and the declarations of what they call."""
    functions = _functions()
    texts = [f.whole for f in functions]
    declares = frozenset(d for f in functions for d in f.declares)
    defined = {_name(text) for text in texts}
    return "\n".join(texts), frozenset(d for d in declares if _name(d) not in defined)


def _name(line: str) -> str:
    return line.split("@", 1)[1].split("(", 1)[0]
