"""Host functions that the checking code calls: they keep and judge the marks of
:mod:`rocke.emulator.checks.layout`. They are part of the emulator's runtime module.
"""

from __future__ import annotations

from rocke.emulator import state
from rocke.emulator.checks import layout as at
from rocke.emulator.checks.bits import BITS_SYMBOLS, bits_functions, defined_at
from rocke.emulator.checks.code import Code, Num, Var
from rocke.emulator.state import Status

LDS_SIZES = (1, 2, 4, 8, 12, 16)
GLOBAL_READ, GLOBAL_WRITE, GLOBAL_SYNC = 1, 2, 4
UNDEFINED, RACE, PENDING = 1, 2, 4
"""What :func:`_lds_verdict` finds wrong."""
_SEQUENCE = (1 << at.LDS_SEQUENCE_BITS) - 1
_CELL_SEQUENCE = (1 << at.CELL_SEQUENCE_BITS) - 1
_GROUP_MASK = (1 << at.CELL_GROUP_BITS) - 1
_INLINE = "alwaysinline nounwind "
_PLAIN = "nounwind "

CHECK_SYMBOLS = (
    "rk_check_report",
    "rk_check_global",
    *(f"rk_check_lds_{kind}_{size}" for kind in ("read", "write") for size in LDS_SIZES),
    *BITS_SYMBOLS,
)


def _thread(c: Code) -> str:
    return c.pointer(c.get("%w", at.W_THREAD))


def _other_wave(c: Code, thread: str, index: Num) -> str:
    return c.pointer(c.get(thread, at.T_WAVES) + index * state.WAVE_BYTES)


def _report() -> Code:
    """The first time keeps who and where; later times count."""
    parameters = [("i64", n) for n in ("slot", "lanes", "address", "other")]
    c = Code("rk_check_report", [("ptr", "w"), *parameters], attributes="noinline nounwind ")
    thread = _thread(c)
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


def _report_some(c: Code, lanes: Num, slot: Num, address: Num, other: Num | int) -> None:
    with c.when(lanes.differs(0), likely=False):
        arguments = [("i64", v) for v in (slot, lanes, address, other)]
        c.invoke("void", "rk_check_report", ("ptr", "%w"), *arguments)


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
        wave = _other_wave(c, "%t", i)
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
        wave = _other_wave(c, "%t", i)
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
        wave = _other_wave(c, "%t", owner)
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
    thread = _thread(c)
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
    _report_some(c, raced.get(), slot, where.get(), other.get())
    _report_some(c, pending.get(), slot + 1, where.get(), other.get())
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


# Global memory


def _entry() -> Code:
    """Make the directory entry that holds ``address`` the wave's current one; 1 if there is one."""
    c = Code("check_entry", [("ptr", "w"), ("i64", "address")], "i64", "noinline nounwind ")
    address = c.param("address")
    directory = c.pointer(c.get(_thread(c), at.T_DIRECTORY))
    found = c.var(0)
    with c.count(0, c.get(directory)) as i:
        place = c.at(directory, (i * at.DIRECTORY_ENTRY_BYTES + at.DIRECTORY_ENTRIES).name)
        lo, hi = c.get(place), c.get(place, 8)
        with c.when((address - lo).below(hi - lo)):
            for value, field in (
                (lo, at.W_LO),
                (hi, at.W_HI),
                (c.get(place, 16), at.W_WRITES),
                (c.get(place, 24), at.W_READS),
            ):
                c.put(value, "%w", field)
            found.set(1)
    return c.end(found.get())


def _global() -> Code:
    """Judge and mark accesses to the addresses ``at`` (u64[64]) of some lanes.

    ``flags``: read, write, sync (an atomic or an access that other workgroups may look for).
    ``base``: the address that the instruction's scalar pointer holds, 0 where it has none.
    Findings go to ``slot`` (race) and the next one (outside the allocation of ``base``). A write of
    what is there already is no race; ``data`` and ``skip`` are as for LDS.
    """
    parameters = [("ptr", "w"), ("ptr", "at")]
    parameters += [("i64", n) for n in ("lanes", "size", "flags", "slot", "base")]
    parameters += [("ptr", "data"), ("i64", "skip")]
    c = Code("rk_check_global", parameters, attributes=_PLAIN)
    size = c.param("size")
    low, high = c.var(0), c.var(0)
    base = c.param("base")
    with c.when(base.differs(0)):
        found = c.invoke("i64", "check_entry", ("ptr", "%w"), ("i64", base))
        with c.when(found.differs(0)):
            low.set(c.get("%w", at.W_LO))
            high.set(c.get("%w", at.W_HI))
    outside, raced, where, strange, other, cause = (c.var(0) for _ in range(6))
    with c.lanes(c.param("lanes")) as lane:
        address = c.get("%at", lane << 3)
        bit = Num(c, "1") << lane
        known = c.var(1)
        lo = c.get("%w", at.W_LO)
        inside = (address - lo).below(c.get("%w", at.W_HI) - lo)
        with c.when(c.negated(inside), likely=False):
            known.set(c.invoke("i64", "check_entry", ("ptr", "%w"), ("i64", address)))
        with c.when(known.get().differs(0), likely=True):
            far = c.negated((address - low.get()).below(high.get() - low.get()))
            with c.when(c.both(far, high.get().differs(0)), likely=False):
                outside.set(outside.get() | bit)
                strange.set(address)
            start = c.get("%w", at.W_LO) & -4
            marked = c.get("%w", at.W_WRITES).differs(0)  # not kept for read-only memory
            end_ = c.select(marked, (address + size + 3) >> 2, 0)
            with c.count(address >> 2, end_) as dword:
                first = dword << 2
                begin = c.select(first.below(address), address - first, 0)
                rest = address + size - first
                end = c.select(rest.below(4), rest, 4)
                bytes_ = ((Num(c, "1") << end) - 1) & ~((Num(c, "1") << begin) - 1)
                index = (first - start) >> 2
                cell = c.get("%w", at.W_WRITES) + (index << 3)
                reads = c.get("%w", at.W_READS) + index * at.READ_CELL_BYTES
                values = (cell, reads, bytes_, c.param("flags"), c.param("slot"))
                wrong = c.invoke("i64", "check_cell", ("ptr", "%w"), *(("i64", v) for v in values))
                with c.when(wrong.differs(0), likely=False):
                    writing = (c.param("flags") & GLOBAL_WRITE).differs(0)
                    harmless = c.var(0)
                    with c.when(writing):
                        harmless.set(_same(c, c.pointer(address), lane, size))
                    with c.when(harmless.get().equals(0)):
                        raced.set(raced.get() | bit)
                        other.set(wrong)
                        where.set(address)
                        cause.set(c.get("%w", at.W_CAUSE))
    slot = c.param("slot")
    c.put(cause.get(), "%w", at.W_CAUSE)
    _report_some(c, raced.get(), slot, where.get(), other.get())
    _report_some(c, outside.get(), slot + 1, strange.get(), base)
    return c.end()


def _cell() -> Code:
    """One dword: what is wrong (as in ``F_OTHER``) or 0; and its new marks."""
    parameters = [("i64", n) for n in ("cell", "reads", "bytes", "flags", "slot")]
    c = Code("check_cell", [("ptr", "w"), *parameters], "i64", _PLAIN)
    cell, reads = c.pointer(c.param("cell")), c.pointer(c.param("reads"))
    bytes_, flags = c.param("bytes"), c.param("flags")
    thread = _thread(c)
    me = c.get("%w", state.WAVE_IN_GROUP, 32)
    group = c.get(thread, at.T_GROUP)
    short_group = group & _GROUP_MASK
    writing = (flags & GLOBAL_WRITE).differs(0)
    synchronising = (flags & GLOBAL_SYNC).differs(0)
    result = c.var(0)
    accessor = (c.param("slot") << at.WHO_SLOT) | me
    c.put(c.get(reads, at.READ_WRITER, 32) >> at.WHO_SLOT, "%w", at.W_CAUSE)
    old = c.get(cell)
    with c.when((old >> at.CELL_OWNED & bytes_).differs(0)):
        harmless = c.both((old & at.CELL_ATOMIC).differs(0), synchronising)
        owner = old >> at.CELL_WAVE & 15
        their_group = old >> at.CELL_GROUP & _GROUP_MASK
        code = c.select(writing, at.WRITE_AFTER_WRITE, at.READ_AFTER_WRITE)
        here = their_group.equals(short_group)
        # A plain load may be how the source reads atomically: it never races with an atomic.
        atomic_read = c.both((old & at.CELL_ATOMIC).differs(0), c.negated(writing))
        harmless = c.either(harmless, atomic_read)
        with c.when(c.both(here, owner.differs(me), c.negated(harmless))):
            wave = _other_wave(c, thread, owner)
            issued = c.get(wave, at.W_VM_ISSUED)
            age = issued - old & _CELL_SEQUENCE
            with c.when(age.at_most(issued - c.get(wave, at.W_VM_PASSED)), likely=False):
                result.set(code | (owner << at.OTHER_WAVE))
        with c.when(c.negated(c.either(here, harmless)), likely=False):
            _across(c, thread, their_group, code, result)
    plain = c.both(writing, c.negated(synchronising))
    _cell_reads(c, thread, reads, bytes_, result, (writing, plain, me, short_group))
    with c.when(writing):
        sequence = c.get("%w", at.W_VM_ISSUED) & _CELL_SEQUENCE
        owner_bits = (me << at.CELL_WAVE) | (short_group << at.CELL_GROUP)
        same = ((old ^ owner_bits) & (((1 << 28) - 1) << at.CELL_GROUP)).equals(0)
        age = sequence - old & _CELL_SEQUENCE
        recent = age.at_most(c.get("%w", at.W_VM_ISSUED) - c.get("%w", at.W_VM_PASSED))
        joined = c.select(c.both(same, recent), old >> at.CELL_OWNED & 15, 0) | bytes_
        written = (old >> at.CELL_WRITTEN & 15) | bytes_
        mark = c.select(synchronising, at.CELL_ATOMIC | at.CELL_VALID, at.CELL_VALID)
        new = owner_bits | sequence | (joined << at.CELL_OWNED) | (written << at.CELL_WRITTEN)
        c.put(new | mark, cell)
        c.put(accessor, reads, at.READ_WRITER, 32)
    with c.when(c.negated(writing)):
        c.put(accessor, reads, at.READ_READER, 32)
    return c.end(result.get())


def _across(c: Code, thread: str, theirs: Num, code: Num | int, result: Var) -> None:
    """A conflict with another workgroup, unless both have synchronised by atomics."""
    released = c.get(c.pointer(c.get(thread, at.T_RELEASED) + theirs), 0, 8)
    ordered = c.both(released.differs(0), c.get(thread, at.T_ACQUIRED).differs(0))
    with c.when(c.negated(ordered)):
        who = theirs << at.OTHER_GROUP
        result.set(who | (Num(c, str(at.OTHER_IS_GROUP)) | code))


def _cell_reads(
    c: Code, thread: str, reads: str, bytes_: Num, result: Var, who: tuple[str, str, Num, Num]
) -> None:
    """Judge a write against the readers of a dword; note a read."""
    writing, plain, me, group = who
    epoch = c.get(thread, at.T_EPOCH) & ((1 << at.READ_EPOCH_BITS) - 1)
    key = (group << at.READ_GROUP) | epoch
    nibbles, label = c.get(reads), c.get(reads, 8)
    known_key = label & ((1 << (at.READ_GROUP + at.CELL_GROUP_BITS)) - 1)
    current = c.both(label.differs(0), known_key.equals(key))
    theirs = known_key >> at.READ_GROUP
    elsewhere = c.both(label.differs(0), theirs.differs(group))
    with c.when(c.both(plain, label.differs(0))):
        others = nibbles & ~(Num(c, "15") << (me << 2))
        folded = _fold(c, others)
        last = c.get(reads, at.READ_READER, 32)
        with c.when(c.both(current, (folded & bytes_).differs(0)), likely=False):
            lane = c.invoke("i64", "llvm.cttz.i64", ("i64", others), ("i1", "false"))
            known = (last & 15).differs(me)
            wave = c.select(known, last & 15, lane >> 2)
            c.put(c.select(known, last >> at.WHO_SLOT, 0), "%w", at.W_CAUSE)
            result.set((wave << at.OTHER_WAVE) | at.WRITE_AFTER_READ)
        shared = (label >> at.READ_OTHERS & 15) & bytes_
        by_them = c.both(elsewhere, (_fold(c, nibbles) & bytes_).differs(0))
        with c.when(c.either(by_them, shared.differs(0)), likely=False):
            c.put(c.select(elsewhere, last >> at.WHO_SLOT, 0), "%w", at.W_CAUSE)
            _across(c, thread, theirs, at.WRITE_AFTER_READ, result)
    with c.when(c.negated(writing)):
        mine = bytes_ << (me << 2)
        shared = c.select(elsewhere, _fold(c, nibbles) & bytes_, 0) << at.READ_OTHERS
        kept = label & (15 << at.READ_OTHERS)
        c.put(c.select(current, nibbles, 0) | mine, reads)
        c.put(key | kept | shared | at.READ_VALID, reads, 8)


def _fold(c: Code, nibbles: Num) -> Num:
    """The union of the sixteen groups of four bits."""
    for shift in (32, 16, 8, 4):
        nibbles = nibbles | (nibbles >> shift)
    return nibbles & 15


def _functions() -> list[Code]:
    functions = [_report(), _group(), _release(), _order(), _lds_verdict(), _same_data()]
    functions += bits_functions()
    functions += [_lds_access(size, write) for size in LDS_SIZES for write in (False, True)]
    return [*functions, _entry(), _cell(), _global()]


def check_runtime_ir() -> tuple[str, frozenset[str]]:
    """The functions' text, and the declarations of what they call."""
    functions = _functions()
    texts = [f.whole for f in functions]
    declares = frozenset(d for f in functions for d in f.declares)
    defined = {_name(text) for text in texts}
    return "\n".join(texts), frozenset(d for d in declares if _name(d) not in defined)


def _name(line: str) -> str:
    return line.split("@", 1)[1].split("(", 1)[0]
