"""Runs translated kernels: host threads over workgroups, each in the native loop.

A :class:`CompiledKernel` is a kernel's host code with its tables. :class:`Executor` owns the host
threads and their memory (wave states, LDS, scratch) and runs one launch at a time.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np

from rocke.emulator import runtime_ir as rt
from rocke.emulator import state
from rocke.emulator.blocks import Program, find_blocks
from rocke.emulator.checks.session import LaunchChecks
from rocke.emulator.decoder import CodeReader
from rocke.emulator.jit import Jit, Library, jit
from rocke.emulator.semantics import FloatMode
from rocke.emulator.translator import Instrument, translate

_LDS_GUARD = 4096
_UNLIMITED = (1 << 63) - 1
FAST_SLICE = 1 << 20
"""Instructions that a wave executes before the next wave of the workgroup gets its turn."""


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """Host code of a kernel. ``blocks`` and ``jumps`` are the tables of the native loop."""

    program: Program
    reader: CodeReader
    library: Library
    unknown: dict[int, str]
    blocks: np.ndarray
    jumps: np.ndarray


def compile_kernel_code(
    reader: CodeReader,
    entries: Sequence[int],
    mode: int,
    arch: str,
    compiler: Jit | None = None,
    *,
    instrument: Instrument | None = None,
) -> CompiledKernel:
    """Translate and compile the code reachable from ``entries`` (the kernel's own comes first).

    ``compiler`` is the process's own unless given; ``instrument`` adds counting code.
    """
    program = find_blocks(reader, entries, FloatMode.from_register(mode), arch)
    translation = translate(program, arch, instrument)
    compiler = compiler or jit()
    names = [f"b{i}" for i in range(len(program.blocks))]
    library = compiler.blocks(translation.ir, names, compiler.helpers(translation.helpers))
    blocks = np.zeros((len(names), 2), dtype=np.uint64)
    jumps = np.full(max(1, reader.size // 4), rt.NO_BLOCK, dtype=np.uint32)
    for i, block in enumerate(program.blocks):
        blocks[i] = (library.addresses[names[i]], len(block.instructions))
        if block.mode == program.blocks[0].mode and block.start < reader.size:
            jumps[block.start // 4] = i
    return CompiledKernel(program, reader, library, translation.unknown, blocks, jumps)


@dataclass(frozen=True)
class Work:
    """One launch in the executor's terms.

    ``templates`` holds a wave's v0 and EXEC (``runtime_ir.TEMPLATE_BYTES`` bytes each), ``sgprs``
    the 128 scalar registers that every wave starts with; ``system`` the SGPR numbers of the
    workgroup id x, y, z, the group info word and the scratch offset; ``probes`` how many numbers
    (u64) the counting code of the kernel adds to; ``slice`` how many instructions a wave executes
    before the next one gets its turn.
    """

    grid: tuple[int, int, int]
    waves: int
    templates: np.ndarray
    system: tuple[int, int, int, int, int]
    mode: int
    lds: int
    scratch_lane_bytes: int
    flat_scratch: bool
    image: int
    vgprs: int
    agprs: int
    max_instructions: int | None
    probes: int = 0
    slice: int = FAST_SLICE


@dataclass(frozen=True)
class FaultRecord:
    """What a faulting wave left behind. ``instruction`` is a text offset or -1, ``block`` the
    block that the wave was in when the native loop noticed."""

    kind: state.Fault
    address: int
    lanes: int
    size: int
    instruction: int
    block: int
    group: int
    wave: int
    exec: int


@dataclass(frozen=True)
class Outcome:
    """Execution counts by block, the fault that ended the launch, if one did, and the sums of
    the counting code."""

    counts: np.ndarray
    fault: FaultRecord | None
    probes: np.ndarray


class Arena:
    """The memory of one host thread."""

    def __init__(self) -> None:
        self.record = np.zeros(rt.THREAD_BYTES // 8, dtype=np.uint64)
        self.sgprs = np.zeros(128, dtype=np.uint32)
        self._waves, self._lds, self._scratch = _Region(), _Region(), _Region()

    def prepare(self, waves: int, lds: int, scratch: int) -> None:
        """Make room for the waves of one workgroup, its LDS and its scratch (bytes)."""
        self._waves.reserve(waves * rt.WAVE_STRIDE)
        self._lds.reserve(lds + 2 * _LDS_GUARD)
        self._scratch.reserve(scratch)
        self.record[rt.T_WAVES // 8] = self._waves.address
        self.record[rt.T_LDS // 8] = self._lds.address + _LDS_GUARD
        self.record[rt.T_SCRATCH // 8] = self._scratch.address
        self.record[rt.T_SGPRS // 8] = self.sgprs.ctypes.data

    @property
    def scratch(self) -> int:
        """The address of the scratch memory."""
        return self._scratch.address

    def wave(self, index: int) -> np.ndarray:
        """The state of a wave of the workgroup that ran last, as bytes."""
        start = index * rt.WAVE_STRIDE
        return self._waves.array[start : start + rt.WAVE_STRIDE]


class _Region:
    """Anonymous memory that grows when asked; pages that are not touched cost nothing."""

    def __init__(self) -> None:
        self.array = np.zeros(0, dtype=np.uint8)
        self.address = 0

    def reserve(self, size: int) -> None:
        if size > self.array.size:
            self.array = np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8)
            self.address = self.array.ctypes.data


class Executor:
    """Host threads for one device. One launch at a time; the caller holds the lock."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.lock = threading.Lock()
        self._arenas: list[Arena] = []
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0

    def arenas(self, work: Work) -> list[Arena]:
        """The arenas that a launch will use, prepared."""
        total = work.grid[0] * work.grid[1] * work.grid[2]
        count = min(self.threads, total)
        while len(self._arenas) < count:
            self._arenas.append(Arena())
        used = self._arenas[:count]
        for arena in used:
            scratch = work.scratch_lane_bytes * state.LANES * work.waves
            arena.prepare(work.waves, work.lds, scratch)
        return used

    def run(
        self,
        kernel: CompiledKernel,
        work: Work,
        arenas: Sequence[Arena],
        memory: np.ndarray,
        checks: LaunchChecks | None = None,
    ) -> Outcome:
        """Execute a launch. ``memory`` is the map; ``arenas`` come from :meth:`arenas` and hold
        the initial SGPRs; ``checks`` those of a kernel that was translated with them."""
        counts = np.zeros((len(arenas), len(kernel.program.blocks)), dtype=np.uint64)
        probes = np.zeros((len(arenas), work.probes), dtype=np.uint64)
        for i, arena in enumerate(arenas):
            arena.record[rt.T_COUNTS // 8] = counts[i].ctypes.data
            arena.record[rt.T_PROBES // 8] = probes[i].ctypes.data
            arena.record[rt.T_CHECKS // 8] = 0
            if checks is not None:
                checks.attach(arena.record)
        launch = self._record(kernel, work, memory)
        run = _entry_point()
        pointers = [(launch.ctypes.data, a.record.ctypes.data) for a in arenas]
        tasks = self._execute(run, pointers, launch)
        fault = None
        for task, arena in zip(tasks, arenas, strict=True):
            if task.result() and fault is None:
                fault = _read_fault(arena)
        return Outcome(counts.sum(axis=0), fault, probes.sum(axis=0))

    def _record(self, kernel: CompiledKernel, work: Work, memory: np.ndarray) -> np.ndarray:
        limit = _UNLIMITED if work.max_instructions is None else work.max_instructions
        fields = {
            rt.L_BLOCKS: kernel.blocks.ctypes.data,
            rt.L_JUMPS: kernel.jumps.ctypes.data,
            rt.L_TEXT_BYTES: kernel.reader.size,
            rt.L_GROUPS_X: work.grid[0],
            rt.L_GROUPS_Y: work.grid[1],
            rt.L_TOTAL: work.grid[0] * work.grid[1] * work.grid[2],
            rt.L_WAVES: work.waves,
            rt.L_TEMPLATE: work.templates.ctypes.data,
            rt.L_GROUP_ID_X: work.system[0],
            rt.L_GROUP_ID_Y: work.system[1],
            rt.L_GROUP_ID_Z: work.system[2],
            rt.L_GROUP_INFO: work.system[3],
            rt.L_SCRATCH_OFFSET: work.system[4],
            rt.L_MODE: work.mode,
            rt.L_LDS_SIZE: work.lds,
            rt.L_SCRATCH_LANE_BYTES: work.scratch_lane_bytes,
            rt.L_MAP: memory.ctypes.data,
            rt.L_IMAGE: work.image,
            rt.L_VGPR_BYTES: work.vgprs * state.ROW_BYTES,
            rt.L_AGPR_BYTES: work.agprs * state.ROW_BYTES,
            rt.L_BUDGET: limit,
            rt.L_SLICE: work.slice,
            rt.L_FLAT_SCRATCH: int(work.flat_scratch),
        }
        record = np.zeros(rt.LAUNCH_BYTES // 8, dtype=np.int64)
        for offset, value in fields.items():
            record[offset // 8] = value
        return record

    def _execute(
        self,
        run: Callable[[int, int], int],
        pointers: Sequence[tuple[int, int]],
        launch: np.ndarray,
    ) -> list[Future[int]]:
        """Run on the host threads; an interrupt stops them first, since they use our memory."""
        tasks: list[Future[int]] = []
        pool = self._threads()
        try:
            for pointer in pointers:
                tasks.append(pool.submit(run, *pointer))
            wait(tasks, return_when=FIRST_EXCEPTION)
        except BaseException:
            launch[rt.L_STOP // 8] = 1
            self._pool = None
            while not all(task.done() for task in tasks):
                with contextlib.suppress(KeyboardInterrupt):
                    wait(tasks)
            while not _ended(pool):  # it may have a task that was submitted but not yet listed
                pass
            raise
        return tasks

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None or self._pool_process != os.getpid():  # threads do not survive a fork
            pool = ThreadPoolExecutor(self.threads, thread_name_prefix="rocke-emulator")
            # All threads start now: the pool forgets one that an interrupt catches as it starts.
            begun = threading.Event()
            try:
                for _ in range(self.threads):
                    pool.submit(begun.wait)
            finally:
                begun.set()
            self._pool, self._pool_process = pool, os.getpid()
        return self._pool


def _ended(pool: ThreadPoolExecutor) -> bool:
    """End a pool's threads after the tasks they have; false when another interrupt came."""
    try:
        pool.shutdown()
    except KeyboardInterrupt:
        return False
    return True


def _entry_point() -> Callable[[int, int], int]:
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    return prototype(jit().runtime["rk_run"])


def _read_fault(arena: Arena) -> FaultRecord:
    wave = int(arena.record[rt.T_FAULT_WAVE // 8])
    raw = arena.wave(wave)

    def number(offset: int, size: int) -> int:
        return int.from_bytes(raw[offset : offset + size].tobytes(), "little")

    instruction = number(state.FAULT_INSTRUCTION, 8)
    return FaultRecord(
        kind=state.Fault(number(state.FAULT_KIND, 4)),
        address=number(state.FAULT_ADDRESS, 8),
        lanes=number(state.FAULT_LANES, 8),
        size=number(state.FAULT_SIZE, 4),
        instruction=-1 if instruction == (1 << 64) - 1 else instruction,
        block=number(state.RESUME, 4),
        group=int(arena.record[rt.T_FAULT_GROUP // 8]),
        wave=wave,
        exec=number(state.sgpr(126), 8),
    )
