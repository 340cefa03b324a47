"""Host functions that judge and mark accesses to global memory.

A dword's marks are judged and changed under a lock, its write cell's top bit: host threads meet
there, and whoever comes second sees the first. What the launch stored is kept beside the marks,
since the store itself comes later than its check: whether a write changes something is judged by
that, and so does not depend on how far another host thread has come.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke.emulator import state
from rocke.emulator.checks import layout as at
from rocke.emulator.checks.code import Code, Num, Var
from rocke.emulator.checks.reports import other_wave, report_some, thread_of

GLOBAL_READ, GLOBAL_WRITE, GLOBAL_SYNC = 1, 2, 4
_CELL_SEQUENCE = (1 << at.CELL_SEQUENCE_BITS) - 1
_GROUP_MASK = (1 << at.CELL_GROUP_BITS) - 1
_KNOWN = 32
"""The bit of a data dword that says that it is known."""
_PLAIN = "nounwind "


def _entry() -> Code:
    """Make the directory entry that holds ``address`` the wave's current one; 1 if there is one."""
    c = Code("check_entry", [("ptr", "w"), ("i64", "address")], "i64", "noinline nounwind ")
    address = c.param("address")
    directory = c.pointer(c.get(thread_of(c), at.T_DIRECTORY))
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


def _data() -> Code:
    """The bytes of a lane's registers that a store puts into the dword ``delta`` bytes after the
    store's address (before it, if negative), and the mark that they are known; 0 if they are not.

    ``bytes`` are those that are stored, four bits.
    """
    parameters = [("ptr", "data"), *(("i64", n) for n in ("lane", "delta", "bytes", "skip"))]
    c = Code("check_store_data", parameters, "i64", _PLAIN)
    result = c.var(0)
    delta, bytes_, skip = c.param("delta"), c.param("bytes"), c.param("skip")
    with c.when(c.address("%data").differs(0)):
        result.set(1 << _KNOWN)
        lane = c.param("lane") << 2
        whole = c.both(bytes_.equals(15), ((delta | skip) & 3).equals(0))
        with c.when(whole):
            place = ((delta + skip) >> 2) * state.ROW_BYTES + lane
            result.set(result.get() | c.get("%data", place, 32))
        with c.when(c.negated(whole)), c.count(0, 4) as k, c.when((bytes_ >> k & 1).differs(0)):
            at_ = delta + skip + k
            place = (at_ >> 2) * state.ROW_BYTES + lane + (at_ & 3)
            result.set(result.get() | (c.get("%data", place, 8) << (k << 3)))
    return c.end(result.get())


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
    writing = (c.param("flags") & GLOBAL_WRITE).differs(0)
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
            last = c.get("%w", at.W_HI)
            past = address + size
            past = c.select(past.above(last), last, past)
            with c.count(address >> 2, c.select(marked, (past + 3) >> 2, 0)) as dword:
                first = dword << 2
                begin = c.select(first.below(address), address - first, 0)
                rest = past - first
                end = c.select(rest.below(4), rest, 4)
                bytes_ = ((Num(c, "1") << end) - 1) & ~((Num(c, "1") << begin) - 1)
                index = (first - start) >> 2
                value = c.var(0)
                with c.when(writing):
                    numbers = (lane, first - address, bytes_, c.param("skip"))
                    listed = [("i64", v) for v in numbers]
                    data = ("ptr", "%data")
                    value.set(c.invoke("i64", "check_store_data", data, *listed))
                cell = c.get("%w", at.W_WRITES) + (index << 3)
                reads = c.get("%w", at.W_READS) + index * at.READ_CELL_BYTES
                who = (c.param("flags"), c.param("slot"))
                values = (cell, reads, first, bytes_, value.get(), *who)
                wrong = c.invoke("i64", "check_cell", ("ptr", "%w"), *(("i64", v) for v in values))
                with c.when(wrong.differs(0), likely=False):
                    raced.set(raced.get() | bit)
                    other.set(wrong)
                    where.set(address)
                    cause.set(c.get("%w", at.W_CAUSE))
    slot = c.param("slot")
    c.put(cause.get(), "%w", at.W_CAUSE)
    report_some(c, raced.get(), slot, where.get(), other.get())
    report_some(c, outside.get(), slot + 1, strange.get(), base)
    return c.end()


def _locked(c: Code, cell: str) -> Num:
    """Take the lock of a cell; what the cell holds."""
    again, after = c.label(), c.label()
    c.branch(again)
    c.place(again)
    old = Num(c, c.new(f"atomicrmw or ptr {cell}, i64 {-(1 << 63)} acquire"))
    c.branch_if((old >> at.CELL_LOCK).equals(0), after, again, likely=True)
    c.place(after)
    return old


@dataclass(frozen=True)
class _Dword:
    """A dword whose cell is locked, and the access to it. ``reads`` is the read cell, ``info`` its
    word about the values that were written; ``same``: a write that changes nothing."""

    thread: str
    reads: str
    old: Num
    info: Num
    bytes: Num
    me: Num
    group: Num
    writing: str
    synchronising: str
    same: str

    @property
    def here(self) -> str:
        """Whether the last writer is of this workgroup."""
        return (self.old >> at.CELL_GROUP & _GROUP_MASK).equals(self.group)

    @property
    def harmless(self) -> str:
        """Whether atomics make the access fine. A plain load may be how the source reads
        atomically: it never races with an atomic."""
        c = self.old.code
        fine = c.either(self.synchronising, c.negated(self.writing))
        return c.both((self.old & at.CELL_ATOMIC).differs(0), fine)


def _cell() -> Code:
    """One dword: what is wrong (as in ``F_OTHER``) or 0; and its new marks.

    ``value`` is what a write puts into the ``bytes`` (see :func:`_data`).
    """
    names = ("cell", "reads", "address", "bytes", "value", "flags", "slot")
    c = Code("check_cell", [("ptr", "w"), *(("i64", n) for n in names)], "i64", _PLAIN)
    cell, reads = c.pointer(c.param("cell")), c.pointer(c.param("reads"))
    bytes_, flags, value = c.param("bytes"), c.param("flags"), c.param("value")
    thread = thread_of(c)
    me = c.get("%w", state.WAVE_IN_GROUP, 32)
    group = c.get(thread, at.T_GROUP) & _GROUP_MASK
    writing = (flags & GLOBAL_WRITE).differs(0)
    synchronising = (flags & GLOBAL_SYNC).differs(0)
    accessor = (c.param("slot") << at.WHO_SLOT) | me
    old = _locked(c, cell)
    c.put(c.get(reads, at.READ_WRITER, 32) >> at.WHO_SLOT, "%w", at.W_CAUSE)
    same, new_value = c.var(0), c.var(0)
    with c.when(writing):
        before = c.var(c.get(reads, at.READ_VALUE, 32))
        written = _spread(old >> at.CELL_WRITTEN & 15)
        with c.when(written.differs(0xFFFF_FFFF)):
            memory = c.get(c.pointer(c.param("address")), 0, 32)
            before.set((before.get() & written) | (memory & ~written))
        mask = _spread(bytes_)
        known = (value >> _KNOWN).differs(0)
        kept = ((value ^ before.get()) & mask).equals(0)
        same.set(c.select(c.both(known, kept), 1, 0))
        new_value.set((value & mask) | (before.get() & ~mask))
    dword = _Dword(
        thread,
        reads,
        old,
        c.get(reads, at.READ_INFO, 32),
        bytes_,
        me,
        group,
        writing,
        synchronising,
        same.get().differs(0),
    )
    result, quiet = c.var(0), c.var(0)
    with c.when((old >> at.CELL_OWNED & bytes_).differs(0)):
        _judge_writer(c, dword, result, quiet)
    _judge_readers(c, dword, result)
    with c.when(writing):
        _note_values(c, dword, (value >> _KNOWN).differs(0), quiet.get().differs(0))
        c.put(new_value.get(), reads, at.READ_VALUE, 32)
        c.put(accessor, reads, at.READ_WRITER, 32)
        _unlock(c, cell, _owned(c, dword))
    with c.when(c.negated(writing)):
        c.put(accessor, reads, at.READ_READER, 32)
        _unlock(c, cell, old)
    return c.end(result.get())


def _unlock(c: Code, cell: str, value: Num) -> None:
    c.do(f"store atomic i64 {value.name}, ptr {cell} release, align 8")


def _spread(nibble: Num) -> Num:
    """Four bits as four bytes of ones or zeros."""
    return (nibble * 0x00204081 & 0x01010101) * 0xFF


def _judge_writer(c: Code, d: _Dword, result: Var, quiet: Var) -> None:
    """An access to bytes that somebody wrote. ``quiet``: another workgroup did, the same value."""
    owner = d.old >> at.CELL_WAVE & 15
    theirs = d.old >> at.CELL_GROUP & _GROUP_MASK
    code = c.select(d.writing, at.WRITE_AFTER_WRITE, at.READ_AFTER_WRITE)
    counts = c.negated(d.harmless)
    with c.when(c.both(d.here, owner.differs(d.me), counts, c.negated(d.same))):
        wave = other_wave(c, d.thread, owner)
        issued = c.get(wave, at.W_VM_ISSUED)
        age = issued - d.old & _CELL_SEQUENCE
        with c.when(age.at_most(issued - c.get(wave, at.W_VM_PASSED)), likely=False):
            result.set(code | (owner << at.OTHER_WAVE))
    with c.when(c.both(c.negated(d.here), counts), likely=False):
        unordered = c.var(0)
        _across(c, d.thread, theirs, code, unordered)
        changed = (c.get(d.reads, 8) >> at.READ_CHANGED & d.bytes).differs(0)
        several = (d.info >> at.INFO_VALUES & d.bytes).differs(0)
        differs = c.either(c.negated(d.same), several)
        wrong = Num(c, c.new(f"select i1 {d.writing}, i1 {differs}, i1 {changed}")).name
        with c.when(unordered.get().differs(0)):
            result.set(c.select(wrong, unordered.get(), result.get()))
            quiet.set(1)
    # The own workgroup wrote last, but another one did before: the same value, until now.
    shared = (d.info >> at.INFO_SHARED & d.bytes).differs(0)
    with c.when(c.both(d.here, d.writing, counts, shared, c.negated(d.same)), likely=False):
        _across(c, d.thread, d.info >> at.INFO_GROUP, at.WRITE_AFTER_WRITE, result)


def _note_values(c: Code, d: _Dword, known: str, quiet: str) -> None:
    """What later writers have to know of the values: see ``INFO_*`` and ``READ_CHANGED``."""
    again = c.both(d.here, (d.old >> at.CELL_OWNED & d.bytes).differs(0), c.negated(d.same))
    values = c.select(d.here, d.info >> at.INFO_VALUES & 15, 0)
    values = values | c.select(c.either(again, c.negated(known)), d.bytes, 0)
    shared = c.select(c.either(d.here, quiet), d.info >> at.INFO_SHARED & 15, 0)
    shared = shared | c.select(quiet, d.bytes, 0)
    theirs = d.old >> at.CELL_GROUP & _GROUP_MASK
    group = c.select(quiet, theirs, d.info >> at.INFO_GROUP)
    info = (group << at.INFO_GROUP) | (shared << at.INFO_SHARED) | (values << at.INFO_VALUES)
    c.put(info, d.reads, at.READ_INFO, 32)
    with c.when(c.negated(d.same)):
        c.put(c.get(d.reads, 8) | (d.bytes << at.READ_CHANGED), d.reads, 8)


def _owned(c: Code, d: _Dword) -> Num:
    """The write cell after a write."""
    sequence = c.get("%w", at.W_VM_ISSUED) & _CELL_SEQUENCE
    owner_bits = (d.me << at.CELL_WAVE) | (d.group << at.CELL_GROUP)
    own = ((d.old ^ owner_bits) & (((1 << 28) - 1) << at.CELL_GROUP)).equals(0)
    age = sequence - d.old & _CELL_SEQUENCE
    recent = age.at_most(c.get("%w", at.W_VM_ISSUED) - c.get("%w", at.W_VM_PASSED))
    joined = c.select(c.both(own, recent), d.old >> at.CELL_OWNED & 15, 0) | d.bytes
    written = (d.old >> at.CELL_WRITTEN & 15) | d.bytes
    mark = c.select(d.synchronising, at.CELL_ATOMIC, 0)
    return owner_bits | sequence | (joined << at.CELL_OWNED) | (written << at.CELL_WRITTEN) | mark


def _across(c: Code, thread: str, theirs: Num, code: Num | int, result: Var) -> None:
    """A conflict with another workgroup, unless both have synchronised by atomics."""
    released = c.get(c.pointer(c.get(thread, at.T_RELEASED) + theirs), 0, 8)
    ordered = c.both(released.differs(0), c.get(thread, at.T_ACQUIRED).differs(0))
    with c.when(c.negated(ordered)):
        who = theirs << at.OTHER_GROUP
        result.set(who | (Num(c, str(at.OTHER_IS_GROUP)) | code))


def _judge_readers(c: Code, d: _Dword, result: Var) -> None:
    """Judge a write against the readers of a dword; note a read."""
    epoch = c.get(d.thread, at.T_EPOCH) & ((1 << at.READ_EPOCH_BITS) - 1)
    key = (d.group << at.READ_GROUP) | epoch
    nibbles, label = c.get(d.reads), c.get(d.reads, 8)
    known_key = label & ((1 << (at.READ_GROUP + at.CELL_GROUP_BITS)) - 1)
    was_read = (label & at.READ_VALID).differs(0)
    current = c.both(was_read, known_key.equals(key))
    theirs = known_key >> at.READ_GROUP
    elsewhere = c.both(was_read, theirs.differs(d.group))
    plain = c.both(d.writing, c.negated(d.synchronising), c.negated(d.same))
    with c.when(c.both(plain, was_read)):
        others = nibbles & ~(Num(c, "15") << (d.me << 2))
        folded = _fold(c, others)
        last = c.get(d.reads, at.READ_READER, 32)
        with c.when(c.both(current, (folded & d.bytes).differs(0)), likely=False):
            lane = c.invoke("i64", "llvm.cttz.i64", ("i64", others), ("i1", "false"))
            known = (last & 15).differs(d.me)
            wave = c.select(known, last & 15, lane >> 2)
            c.put(c.select(known, last >> at.WHO_SLOT, 0), "%w", at.W_CAUSE)
            result.set((wave << at.OTHER_WAVE) | at.WRITE_AFTER_READ)
        shared = (label >> at.READ_OTHERS & 15) & d.bytes
        by_them = c.both(elsewhere, (_fold(c, nibbles) & d.bytes).differs(0))
        with c.when(c.either(by_them, shared.differs(0)), likely=False):
            c.put(c.select(elsewhere, last >> at.WHO_SLOT, 0), "%w", at.W_CAUSE)
            _across(c, d.thread, theirs, at.WRITE_AFTER_READ, result)
    with c.when(c.negated(d.writing)):
        mine = d.bytes << (d.me << 2)
        shared = c.select(elsewhere, _fold(c, nibbles) & d.bytes, 0) << at.READ_OTHERS
        kept = label & (15 << at.READ_OTHERS | 15 << at.READ_CHANGED)
        c.put(c.select(current, nibbles, 0) | mine, d.reads)
        c.put(key | kept | shared | at.READ_VALID, d.reads, 8)


def _fold(c: Code, nibbles: Num) -> Num:
    """The union of the sixteen groups of four bits."""
    for shift in (32, 16, 8, 4):
        nibbles = nibbles | (nibbles >> shift)
    return nibbles & 15


def global_functions() -> list[Code]:
    """The functions, those that are called first."""
    return [_entry(), _data(), _cell(), _global()]
