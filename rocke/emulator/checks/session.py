"""The checks of one kernel, and of one launch of it: what the device holds and asks."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rocke.compiler.code_object import KernelArgument
from rocke.emulator import state
from rocke.emulator.blocks import Program
from rocke.emulator.checks import layout as at
from rocke.emulator.checks.effects import REGISTERS, SGPRS
from rocke.emulator.checks.findings import Finding, joined_races
from rocke.emulator.checks.flow import control_flow
from rocke.emulator.checks.hazards import find_hazards
from rocke.emulator.checks.instrument import COPIED, GLOBAL, LDS, Instrumentation, Slot
from rocke.emulator.checks.kinds import Check
from rocke.emulator.checks.probes import FULL
from rocke.emulator.checks.provenance import initial_state, pointer_arguments
from rocke.emulator.checks.waits import find_missing_waits
from rocke.emulator.descriptor import Descriptor
from rocke.emulator.instruction import FLAT_SCRATCH, M0, VCC
from rocke.emulator.memory import Range
from rocke.emulator.runtime_ir import T_CHECKS, T_WAVES
from rocke.runtime.device import DeviceError

_FIELDS = at.FINDING_BYTES // 8
_ALL_LANES = 0xFFFF_FFFF_FFFF_FFFF


def instrument(
    program: Program,
    arch: str,
    checks: frozenset[Check],
    descriptor: Descriptor,
    arguments: Sequence[KernelArgument],
) -> Instrumentation:
    """Look at the code of a kernel and prepare the calls that its checked translation makes."""
    flow = control_flow(program, arch)
    found = []
    if Check.WAIT in checks:
        found += find_missing_waits(flow)
    if Check.HAZARD in checks:
        found += find_hazards(flow)
    pointers: dict[int, int] = {}
    if Check.BOUNDS in checks:
        offsets = [a.offset for a in arguments if a.kind == "global_buffer"]
        start = initial_state(descriptor, arch != "gfx90a")
        pointers = pointer_arguments(flow, start, offsets)
    names = {a.offset: a.name for a in arguments}
    return Instrumentation(flow, checks, found, pointers, names)


@dataclass(frozen=True)
class Place:
    """How a report shows an instruction, by its text offset, and an address.

    ``explain`` says where an address lies, ``allocation`` what the allocation there is.
    """

    text: Callable[[int], str]
    source: Callable[[int], str]
    grid: tuple[int, int, int]
    explain: Callable[[int], str]
    allocation: Callable[[int], str]

    def shown(self, address: int, what: str = "") -> str:
        """An instruction with its text offset and source, ``what`` after its text."""
        source = self.source(address)
        end = f"  ({source})" if source else ""
        return f"{address:#x}: {self.text(address)}{what}{end}"

    def workgroup(self, number: int) -> tuple[int, int, int]:
        """The coordinates of a workgroup."""
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)


@dataclass(frozen=True, eq=False)
class Expected:
    """An output of a launch; ``where`` says which elements must be written (None: all)."""

    array: np.ndarray
    name: str
    where: np.ndarray | None

    @classmethod
    def of(cls, array: np.ndarray, name: str, where: np.ndarray | None) -> Expected:
        """As given to ``expect_written``. Raises :class:`DeviceError` for a wrong ``where``."""
        if where is not None:
            kind = where.dtype if isinstance(where, np.ndarray) else type(where).__name__
            if kind != np.bool_:
                raise DeviceError(f"expect_written: where is {kind}, expected an array of bool")
            if where.shape != array.shape:
                raise DeviceError(
                    f"expect_written: where has shape {where.shape}, {name} has {array.shape}"
                )
        return cls(array, name, where)


class LaunchChecks:
    """Memory of the checks for one launch.

    ``scalars`` are the SGPRs that have a value at the start, ``arguments`` the kernel argument
    segment, ``registers`` the numbers of VGPRs and AGPRs. ``buffers`` are the allocations; those
    that may be written get marks (ten bytes a byte, of which only touched pages cost memory).
    """

    def __init__(
        self,
        code: Instrumentation,
        *,
        workgroups: int,
        lds: int,
        seed: int,
        scalars: Iterable[int],
        arguments: np.ndarray,
        buffers: Sequence[Range],
        registers: tuple[int, int],
    ) -> None:
        self._registers = registers if Check.UNINITIALISED in code.checks else (0, 0)
        self.code, self.lds, self.seed = code, lds, seed
        self._arguments = arguments
        self._findings = np.zeros((len(code.slots), _FIELDS), dtype=np.uint64)
        self._clock = np.zeros(1, dtype=np.uint64)
        self._released = np.zeros(min(workgroups, 1 << at.CELL_GROUP_BITS), dtype=np.uint8)
        self._descriptions = code.descriptions
        self._initial = initial_registers(scalars)
        self._marks: list[tuple[Range, np.ndarray]] = []
        self._directory = self._make_directory(merged(buffers))
        self._threads: list[np.ndarray] = []
        self._lds: list[np.ndarray] = []

    def _make_directory(self, ranges: Sequence[Range]) -> np.ndarray:
        table = np.zeros((len(ranges) + 1, 4), dtype=np.uint64)
        first = np.zeros(at.DIRECTORY_ENTRIES // 8, dtype=np.uint64)
        first[0] = len(ranges)
        for row, range_ in zip(table, ranges, strict=False):
            writes = reads = 0
            if range_.writable:
                cells = (range_.hi + 3) // 4 - range_.lo // 4
                for size in (8 * cells, at.READ_CELL_BYTES * cells):
                    marks = np.frombuffer(mmap.mmap(-1, size), dtype=np.uint64)
                    self._marks.append((range_, marks))
                writes, reads = (m.ctypes.data for _, m in self._marks[-2:])
            row[:] = (range_.lo, range_.hi, writes, reads)
        return np.concatenate([first, table.reshape(-1)])

    def attach(self, thread: np.ndarray) -> None:
        """Prepare the record of a host thread (see :mod:`rocke.emulator.runtime_ir`)."""
        marks = np.zeros((4, max(1, self.lds) + 16), dtype=np.uint32)
        block = np.zeros(at.THREAD_BYTES // 8, dtype=np.uint64)
        for field, value in {
            at.T_INITIAL: self._initial.ctypes.data,
            at.T_FINDINGS: self._findings.ctypes.data,
            at.T_DESCRIPTIONS: self._descriptions.ctypes.data,
            at.T_LDS_WRITES: marks[0].ctypes.data,
            at.T_LDS_READS: marks[1].ctypes.data,
            at.T_LDS_WRITERS: marks[2].ctypes.data,
            at.T_LDS_READERS: marks[3].ctypes.data,
            at.T_LDS_BYTES: self.lds,
            at.T_SEED: self.seed,
            at.T_DIRECTORY: self._directory.ctypes.data,
            at.T_CLOCK: self._clock.ctypes.data,
            at.T_RELEASED: self._released.ctypes.data,
            at.T_WAVES: int(thread[T_WAVES // 8]),
            at.T_ARGUMENTS: self._arguments.ctypes.data,
            at.T_VGPR_BYTES: self._registers[0] * state.ROW_BYTES,
            at.T_AGPR_BYTES: self._registers[1] * state.ROW_BYTES,
        }.items():
            block[field // 8] = value
        self._threads.append(block)
        self._lds.append(marks)
        thread[T_CHECKS // 8] = block.ctypes.data

    def _written(self, low: int, high: int) -> np.ndarray:
        """Whether each byte of ``[low, high)`` was written in this launch."""
        found = np.zeros(high - low, dtype=bool)
        for range_, marks in self._marks[::2]:
            begin, end = max(low, range_.lo), min(high, range_.hi)
            if begin < end:
                base = range_.lo // 4 * 4
                cells = marks[(begin - base) // 4 : (end - base + 3) // 4]
                nibbles = (cells >> np.uint64(at.CELL_WRITTEN)) & np.uint64(15)
                bits = (nibbles[:, None] >> np.arange(4, dtype=np.uint64)) & np.uint64(1)
                start = (begin - base) % 4
                found[begin - low : end - low] = bits.reshape(-1)[start : start + end - begin] != 0
        return found

    def unwritten(self, kernel: str, expected: Iterable[Expected]) -> list[Finding]:
        """A finding for each output with elements that the launch did not write."""
        found = []
        for output in expected:
            array = output.array
            if array.size:
                low, high = _extent(array)
                bytes_ = self._written(low, high)[array.ctypes.data - low :]
                each = np.lib.stride_tricks.as_strided(
                    bytes_, (*array.shape, array.itemsize), (*array.strides, 1)
                )
                missing = np.logical_not(np.all(each, axis=-1))
                if output.where is not None:
                    missing &= output.where
                if missing.any():
                    found.append(_unwritten(kernel, output, missing))
        return found

    def findings(self, kernel: str, place: Place) -> list[Finding]:
        """What the launch found, in the order in which it happened first."""
        hits = np.flatnonzero(self._findings[:, at.F_COUNT // 8])
        rows = sorted(hits.tolist(), key=lambda i: int(self._findings[i, at.F_ORDER // 8]))
        notes = [i for i in rows if self.code.slots[i].check is None and self.code.slots[i].what]
        found = []
        for number in rows:
            slot = self.code.slots[number]
            if slot.check is not None:
                found.append(self._finding(kernel, slot, self._findings[number], place, notes))
        return joined_races(found)

    def _finding(
        self,
        kernel: str,
        slot: Slot,
        record: np.ndarray,
        place: Place,
        notes: Sequence[int],
    ) -> Finding:
        assert slot.check is not None
        lanes = int(record[at.F_LANES // 8])
        text = "" if slot.cause is None else place.shown(slot.cause)
        source = "" if slot.cause is None else place.source(slot.cause)
        other = self.code.slots[int(record[at.F_CAUSE // 8])]
        if slot.check is Check.UNINITIALISED:
            text, source = self._origin(record, slot, place, notes)
        elif text == "" and slot.what in (LDS, GLOBAL, COPIED) and other.address >= 0:
            text, source = place.shown(other.address), place.source(other.address)
        return Finding(
            check=slot.check,
            kernel=kernel,
            detail=self._detail(slot, record, place),
            instruction=place.text(slot.address),
            address=slot.address,
            source=place.source(slot.address),
            workgroup=place.workgroup(int(record[at.F_GROUP // 8])),
            wave=int(record[at.F_WAVE // 8]),
            lanes=tuple(i for i in range(state.LANES) if lanes >> i & 1),
            count=int(record[at.F_COUNT // 8]),
            cause=text,
            memory_address=_memory_address(slot, record),
            argument=slot.argument,
            cause_source=source,
        )

    def _origin(
        self, record: np.ndarray, slot: Slot, place: Place, notes: Sequence[int]
    ) -> tuple[str, str]:
        """The first instruction of the same wave that read something undefined, and its source."""
        same = (at.F_GROUP // 8, at.F_WAVE // 8)
        for number in notes:
            note, row = self.code.slots[number], self._findings[number]
            earlier = row[at.F_ORDER // 8] < record[at.F_ORDER // 8]
            if earlier and all(row[i] == record[i] for i in same) and note.address != slot.address:
                return place.shown(note.address, f" {note.what}"), place.source(note.address)
        return "", ""

    def _detail(self, slot: Slot, record: np.ndarray, place: Place) -> str:
        address, other = int(record[at.F_ADDRESS // 8]), int(record[at.F_OTHER // 8])
        if slot.check is Check.RACE:
            return _race_text(slot.what, address, other, place)
        if slot.check is Check.WAIT and slot.cause is None:
            return f"{slot.what}: byte {address:#x} is used before the copy was waited for"
        if slot.check is Check.BOUNDS:
            base = f"argument {slot.argument!r}" if slot.argument else f"the base {other:#x}"
            return (
                f"{slot.what}, which is {base} ({place.allocation(other)}): {address:#x} is "
                f"{place.explain(address)}"
            )
        if slot.check is Check.CONVERGENCE and slot.what.startswith("not"):
            return f"{slot.what}: wave {other} has ended"
        return slot.what


def _memory_address(slot: Slot, record: np.ndarray) -> int | None:
    """The LDS byte or global address that a finding is about."""
    if slot.check is Check.BOUNDS or slot.what in (LDS, GLOBAL, COPIED):
        return int(record[at.F_ADDRESS // 8])
    return None


def _extent(array: np.ndarray) -> tuple[int, int]:
    """Addresses of the first byte and after the last byte of the elements."""
    reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    start = int(array.ctypes.data)
    return start + sum(min(0, r) for r in reach), start + sum(
        max(0, r) for r in reach
    ) + array.itemsize


def _unwritten(kernel: str, output: Expected, missing: np.ndarray) -> Finding:
    first = tuple(int(i) for i in np.argwhere(missing)[0])
    detail = (
        f"{np.count_nonzero(missing)} of the {missing.size} elements of {output.name} were never "
        f"written, the first one is {first}"
    )
    return Finding(Check.UNINITIALISED, kernel, detail)


def _race_text(what: str, address: int, other: int, place: Place) -> str:
    verb = {
        at.READ_AFTER_WRITE: "reads what {} wrote",
        at.WRITE_AFTER_WRITE: "writes what {} wrote",
        at.WRITE_AFTER_READ: "writes what {} read",
    }[other & 3]
    if other & at.OTHER_IS_GROUP:
        who = f"workgroup {place.workgroup(other >> at.OTHER_GROUP)}"
        reason = "without atomics between"
    else:
        who = f"wave {other >> at.OTHER_WAVE & 255}"
        reason = "with no barrier between"
        if what == LDS:
            reason = "with no barrier, or no wait before it, between"
    where = (
        f"LDS byte {address:#x}"
        if what == LDS
        else f"global address {address:#x}, {place.explain(address)}"
    )
    return f"{verb.format(who)}, {reason}: {where}"


def initial_registers(scalars: Iterable[int]) -> np.ndarray:
    """Definedness of a wave's registers at its start: v0, the given and the special SGPRs."""
    found = np.zeros(REGISTERS, dtype=np.uint64)
    found[0] = _ALL_LANES
    # VCC and M0 have no value at the start; trap registers, EXEC, FLAT_SCRATCH and others have.
    special = [n for n in range(FLAT_SCRATCH, 128) if n not in (VCC, VCC + 1, M0)]
    for number in (*scalars, *special):
        found[SGPRS + number] = FULL
    return found


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The ranges, those that overlap joined, by address."""
    found: list[Range] = []
    for range_ in sorted(r for r in ranges if r.hi > r.lo):
        if found and range_.lo < found[-1].hi:
            last = found[-1]
            writable = last.writable or range_.writable
            found[-1] = Range(last.lo, max(last.hi, range_.hi), writable, last.what)
        else:
            found.append(range_)
    return found
