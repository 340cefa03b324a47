"""The emulated device: the :class:`rocke.runtime.device.Device` protocol on the CPU."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NoReturn
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from rocke.arch import Target, UnknownTarget, target
from rocke.compiler.code_object import CodeObject, CodeObjectError, KernelInfo
from rocke.emulator import state
from rocke.emulator.blocks import find_blocks
from rocke.emulator.checks.findings import CheckError, CheckReport
from rocke.emulator.checks.instrument import Instrumentation
from rocke.emulator.checks.kinds import Check, parse_checks
from rocke.emulator.checks.session import Expected, LaunchChecks, Place, instrument
from rocke.emulator.counters import Counters, Resources
from rocke.emulator.counting import counting, detail, table_size
from rocke.emulator.decoder import CodeReader
from rocke.emulator.descriptor import (
    PRELOAD_SKIP,
    Descriptor,
    UserValues,
    system_sgprs,
    user_sgprs,
)
from rocke.emulator.disassembler import DisassemblerError
from rocke.emulator.executor import (
    FAST_SLICE,
    Arena,
    CompiledKernel,
    Executor,
    Outcome,
    Work,
    compile_kernel_code,
)
from rocke.emulator.fault import FaultReporter
from rocke.emulator.instruction import Instruction
from rocke.emulator.launch import (
    Geometry,
    LaunchArguments,
    scratch_descriptor,
    wave_templates,
)
from rocke.emulator.loader import Image, Segments, load_image, load_segments
from rocke.emulator.memory import EmulatedBuffer, Memory, Range, allocation, memory_map
from rocke.emulator.semantics import FloatMode
from rocke.emulator.source_lines import SourceLines, block_around
from rocke.emulator.translator import Instrument, combined
from rocke.runtime.device import Buffer, DeviceError, KernelFault, LoadedKernel, is_count

_MEMORY_LIMIT = 1 << 40
_GRID_LIMIT = (1 << 31) - 1
_COUNT_LIMIT = (1 << 63) - 1
"""The native loop counts workgroups and instructions in signed 64-bit numbers."""
_SEED_LIMIT = (1 << 64) - 1
_POISON_WORD = 0xFFFF_FFFF
_DYNAMIC_STACK = 16384
"""Scratch bytes a lane for a kernel whose stack has no static size (recursion, for example)."""
_LOADED_KEPT = 256
_SCRATCH_LIMIT = (1 << 32) - 1
"""The dispatch packet has 32 bits for it."""


@dataclass(frozen=True, eq=False)
class _Handle:
    """What :attr:`LoadedKernel.handle` holds."""

    info: KernelInfo
    descriptor: Descriptor
    image: Image
    compiled: CompiledKernel
    lines: SourceLines
    checking: Instrumentation | None = None


class EmulatedDevice:
    """A GPU of target ``arch``, emulated on the CPU.

    Device addresses are host addresses. ``threads`` is how many host threads run workgroups (all
    cores unless given); ``max_instructions`` is how many instructions one wave may execute before
    the launch is stopped as making no progress (no limit unless given). ``counters="full"`` also
    counts lanes, bytes and LDS bank conflicts of every instruction, which costs time. Launches are
    synchronous: what a kernel does wrong is raised by :meth:`launch`, and the device stays usable.
    Calls are safe from several threads; launches on one device follow one another.

    ``check`` turns on the checked mode: True for all checks, or names with commas between
    (``"race,wait"``, see :class:`~rocke.emulator.checks.kinds.Check`). A launch with findings then
    raises :class:`~rocke.emulator.checks.findings.CheckError`. Waves interleave in an order that
    ``seed`` chooses; a correct kernel gives the same results in all of them.

    Raises :class:`DeviceError` for an unknown target or bad options.
    """

    emulated = True

    def __init__(
        self,
        arch: str = "gfx950",
        *,
        threads: int | None = None,
        max_instructions: int | None = None,
        counters: Literal["basic", "full"] = "basic",
        check: bool | str | Iterable[Check | str] = False,
        seed: int = 0,
    ) -> None:
        if counters not in ("basic", "full"):
            raise DeviceError(f"counters is {counters!r}, expected 'basic' or 'full'")
        try:
            self.target: Target = target(arch)
        except UnknownTarget as error:
            raise DeviceError(str(error)) from error
        for what, value in (("threads", threads), ("max_instructions", max_instructions)):
            if value is not None and not is_count(value, most=_COUNT_LIMIT):
                raise DeviceError(
                    f"{what} is {value!r}, expected an integer from 1 to {_COUNT_LIMIT}"
                )
        self.arch = self.target.name
        self.name = f"emulated {self.arch} ({self.target.product})"
        self.max_instructions = max_instructions
        self._count_all = counters == "full"
        self.checks = parse_checks(check)
        if not is_count(seed, 0, _SEED_LIMIT):
            raise DeviceError(f"seed is {seed!r}, expected an integer from 0 to {_SEED_LIMIT}")
        self.seed = int(seed)
        self._report: CheckReport | None = None
        self._expected: WeakKeyDictionary[threading.Thread, list[Expected]] = WeakKeyDictionary()
        self.memory = Memory(_MEMORY_LIMIT)
        self._executor = Executor(threads or len(os.sched_getaffinity(0)))
        self._loaded: dict[tuple[str, str], _Handle] = {}
        self._segments: WeakValueDictionary[str, Segments] = WeakValueDictionary()
        self._load_lock = threading.Lock()
        self._last: _Launch | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an EmulatedDevice cannot be pickled: it belongs to its process, as do its kernels and "
            "buffers; open one in each process"
        )

    def allocate(self, nbytes: int) -> EmulatedBuffer:
        """Allocate device memory; see :meth:`Device.allocate`. It is zero-filled."""
        return self.memory.allocate(nbytes)

    def wrap(self, array: np.ndarray) -> EmulatedBuffer:
        """Make a C-contiguous host array device memory in place, without a copy.

        A read-only array may only be read by kernels. :meth:`free` ends its use; the array itself
        is kept alive until then.
        """
        return self.memory.wrap(array)

    def free(self, buffer: Buffer) -> None:
        """Release a buffer; see :meth:`Device.free`."""
        self.memory.free(self.memory.check(buffer, "free"))

    def copy_in(self, buffer: Buffer, array: np.ndarray) -> None:
        """Copy a C-contiguous host array to the start of ``buffer``."""
        target_ = self.memory.check(buffer, "copy_in")
        source = _bytes_of(array, "copy_in")
        if source.size > target_.nbytes:
            raise DeviceError(
                f"copy_in: the array has {source.size} bytes, the buffer {target_.nbytes}"
            )
        if not target_.writable:
            raise DeviceError("copy_in: the buffer wraps a read-only array")
        target_.array[: source.size] = source

    def copy_out(self, array: np.ndarray, buffer: Buffer) -> None:
        """Copy the start of ``buffer`` into a C-contiguous, writable host array."""
        source = self.memory.check(buffer, "copy_out")
        target_ = _bytes_of(array, "copy_out")
        if not array.flags.writeable:
            raise DeviceError("copy_out: the array is read-only")
        if target_.size > source.nbytes:
            raise DeviceError(
                f"copy_out: the array has {target_.size} bytes, the buffer {source.nbytes}"
            )
        target_[:] = source.array[: target_.size]

    def load(
        self,
        code_object: CodeObject,
        kernel: str | None = None,
        *,
        segments: Segments | None = None,
    ) -> LoadedKernel:
        """Load and translate one kernel; see :meth:`Device.load`.

        Kernels of one code object share its variables. ``segments`` is a copy of the object in
        memory to use instead of the device's own: one that has its own variables.
        """
        if not isinstance(code_object, CodeObject):
            raise DeviceError(
                f"load: {type(code_object).__name__}, expected a CodeObject: CodeObject.from_bytes "
                "reads the bytes of a file"
            )
        if code_object.arch != self.arch:
            raise DeviceError(
                f"the code object is for {code_object.target}, this device is {self.arch}"
            )
        try:
            info = code_object.kernel(kernel)
        except CodeObjectError as error:
            raise DeviceError(str(error)) from error
        key = (code_object.sha256, info.symbol)
        with self._load_lock:
            if key not in self._loaded:
                self._loaded[key] = self._load(code_object, info)
                if len(self._loaded) > _LOADED_KEPT:
                    del self._loaded[next(iter(self._loaded))]
            handle = self._loaded[key]
        if segments is not None:
            handle = replace(handle, image=load_image(code_object, info, segments))
        return LoadedKernel(self, code_object, info, handle)

    def _load(self, code_object: CodeObject, info: KernelInfo) -> _Handle:
        try:
            descriptor = Descriptor.parse(info.descriptor)
            segments = self._segments.get(code_object.sha256)
            if segments is None:
                segments = load_segments(code_object)
                self._segments[code_object.sha256] = segments
            image = load_image(code_object, info, segments)
            if not 0 <= info.scratch <= _SCRATCH_LIMIT:
                raise DeviceError(
                    f"kernel {info.name} wants {info.scratch} bytes of scratch a lane, at most "
                    f"{_SCRATCH_LIMIT} can be given"
                )
            if descriptor.wave32:
                raise DeviceError(f"kernel {info.name} uses wavefronts of 32, {self.arch} has 64")
            entry = image.entry + (PRELOAD_SKIP if descriptor.preload else 0)
            reader = CodeReader(image.text, self.arch)
            entries = [entry, *(f for f in image.functions if f != image.entry)]
            instruments: list[Instrument] = [counting(self.target)] if self._count_all else []
            checking = None
            if self.checks:
                mode = FloatMode.from_register(descriptor.mode)
                program = find_blocks(reader, entries, mode, self.arch)
                checking = instrument(program, self.arch, self.checks, descriptor, info.arguments)
                instruments.append(checking)
            compiled = compile_kernel_code(
                reader, entries, descriptor.mode, self.arch, instrument=combined(instruments)
            )
        except (CodeObjectError, DisassemblerError, ValueError, OSError) as error:
            raise DeviceError(f"kernel {info.name}: {error}") from error
        return _Handle(info, descriptor, image, compiled, SourceLines(code_object), checking)

    def launch(
        self,
        kernel: LoadedKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        kernargs: bytes,
        *,
        dynamic_lds: int = 0,
    ) -> None:
        """Execute a kernel; see :meth:`Device.launch`.

        Returns when the kernel has ended. Raises :class:`DeviceError` for sizes that the kernel
        or the target does not allow and :class:`KernelFault` for what the kernel does wrong.
        """
        expected = self._expected.pop(threading.current_thread(), [])
        if not isinstance(kernel, LoadedKernel):
            raise DeviceError(f"launch: {type(kernel).__name__}, expected what load() gave")
        handle = kernel.handle
        if kernel.device is not self or not isinstance(handle, _Handle):
            raise DeviceError("launch: the kernel was loaded by another device")
        if not isinstance(kernargs, (bytes, bytearray, memoryview, np.ndarray)):
            raise DeviceError(
                f"launch of {handle.info.name}: kernargs is {kernargs!r}, expected bytes"
            )
        geometry = self._geometry(handle, grid, block, dynamic_lds)
        with self._executor.lock:
            self._launch(handle, geometry, bytes(kernargs), expected)

    def synchronize(self) -> None:
        """Wait for all launches: they have ended when :meth:`launch` returns."""

    @property
    def counters(self) -> Counters:
        """What the last launch executed. Raises :class:`DeviceError` before the first launch."""
        if self._last is None:
            raise DeviceError("counters: nothing was launched on this device yet")
        return self._last.counters(self.target)

    def _geometry(
        self,
        handle: _Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_lds: int,
    ) -> Geometry:
        info = handle.info
        for what, sizes in (("grid", grid), ("block", block)):
            good = isinstance(sizes, (Sequence, np.ndarray)) and len(sizes) == 3
            if not good or not all(is_count(s, most=_GRID_LIMIT) for s in sizes):
                raise DeviceError(
                    f"launch of {info.name}: {what} is {sizes!r}, expected three integers from 1 "
                    f"to {_GRID_LIMIT}"
                )
        if dynamic_lds != 0 and not is_count(dynamic_lds, most=_GRID_LIMIT):
            raise DeviceError(
                f"launch of {info.name}: dynamic_lds is {dynamic_lds!r}, expected bytes from 0 on"
            )
        x, y, z = (int(s) for s in block)
        geometry = Geometry((int(grid[0]), int(grid[1]), int(grid[2])), (x, y, z), int(dynamic_lds))
        if geometry.workgroups > _COUNT_LIMIT:
            raise DeviceError(
                f"launch of {info.name}: a grid of {grid} has {geometry.workgroups} workgroups, "
                f"expected at most {_COUNT_LIMIT}"
            )
        limit = min(info.max_workgroup_size, self.target.max_workgroup_size)
        if geometry.items > limit:
            raise DeviceError(
                f"launch of {info.name}: a block of {block} has {geometry.items} work-items, at "
                f"most {limit} are allowed"
            )
        required = info.required_workgroup_size
        if required is not None and geometry.block != required:
            raise DeviceError(
                f"launch of {info.name}: block is {block}, the kernel needs {required}"
            )
        if info.lds + dynamic_lds > self.target.lds_bytes:
            raise DeviceError(
                f"launch of {info.name}: {info.lds} bytes of LDS and {dynamic_lds} dynamic, "
                f"{self.arch} has {self.target.lds_bytes}"
            )
        return geometry

    def launch_refused(self) -> None:
        """A launch that this thread prepared will not come: forget what it should have written.

        For those who check arguments before they call :meth:`launch`, which forgets by itself.
        """
        self._expected.pop(threading.current_thread(), None)

    def _launch(
        self, handle: _Handle, geometry: Geometry, kernargs: bytes, expected: Sequence[Expected]
    ) -> None:
        info, image = handle.info, handle.image
        lds = info.lds + geometry.dynamic_lds
        work = self._work(handle, geometry, lds)
        arguments = LaunchArguments(info, kernargs, geometry, lds)
        try:
            arenas = self._executor.arenas(work)
            scratch = work.scratch_lane_bytes * state.LANES * work.waves
            for arena in arenas:
                self._initial_sgprs(handle, arena, arguments, scratch)
        except (ValueError, OSError) as error:
            raise DeviceError(f"launch of {info.name}: {error}") from error
        holders = self.memory.holders()
        ranges = [b.range for b in holders if b.nbytes]
        ranges += [*image.segments.ranges, *arguments.ranges()]
        if scratch:
            ranges += [Range(a.scratch, a.scratch + scratch, True, "scratch") for a in arenas]
        checks = self._start_checks(
            handle, geometry, work, arguments.segment, [b.range for b in holders]
        )
        begin = time.perf_counter()
        outcome = self._executor.run(handle.compiled, work, arenas, memory_map(ranges), checks)
        self._last = _Launch(info.name, handle, geometry, time.perf_counter() - begin, outcome)
        fault = None
        if outcome.fault is not None:
            reporter = FaultReporter(
                info.name,
                handle.lines,
                image,
                handle.compiled,
                geometry,
                lds,
                self.max_instructions,
            )
            fault = reporter.fault(outcome.fault, outcome.counts, self.memory, ranges)
        self._finish_checks(handle, geometry, checks, fault, ranges, expected)
        del holders

    def _start_checks(
        self,
        handle: _Handle,
        geometry: Geometry,
        work: Work,
        arguments: np.ndarray,
        buffers: Sequence[Range],
    ) -> LaunchChecks | None:
        if handle.checking is None:
            return None
        words = handle.descriptor.user_sgprs
        return LaunchChecks(
            handle.checking,
            workgroups=geometry.workgroups,
            lds=work.lds,
            seed=self.seed,
            scalars=[*range(words), *(s for s in work.system if s >= 0)],
            arguments=arguments,
            buffers=buffers,
            registers=(work.vgprs, work.agprs),
        )

    def _finish_checks(
        self,
        handle: _Handle,
        geometry: Geometry,
        checks: LaunchChecks | None,
        fault: KernelFault | None,
        ranges: Sequence[Range],
        expected: Sequence[Expected],
    ) -> None:
        """Raise what the launch did wrong."""
        if checks is None:
            if fault is not None:
                raise fault
            return
        name, virtual = handle.info.name, handle.image.text_virtual
        place = Place(
            lambda a: handle.compiled.reader.at(a).text,
            lambda a: handle.lines.near(virtual, a, block_around(handle.compiled.program, a)),
            geometry.grid,
            lambda address: self.memory.explain(address, ranges),
            lambda address: allocation(address, ranges),
        )
        found = checks.findings(name, place)
        if fault is None and Check.UNINITIALISED in self.checks:
            found += checks.unwritten(name, expected)
        stopped = "" if fault is None else str(fault)
        self._report = CheckReport(name, self.checks, tuple(found), stopped)
        if found:
            raise CheckError(name, found, fault)
        if fault is not None:
            raise fault

    def expect_written(
        self, output: np.ndarray | Buffer, name: str = "output", *, where: np.ndarray | None = None
    ) -> None:
        """In checked mode: the next launch of this thread must write every element of an output.

        An array is host memory that the launch uses in place (:meth:`wrap`), with any strides;
        ``where``, booleans of the same shape, leaves elements out. A buffer counts byte by byte.
        What is not written becomes a finding of the uninitialised check. A launch that is refused
        ends the expectation too. Raises :class:`DeviceError` on a device without the check, and
        for another ``where``.
        """
        if Check.UNINITIALISED not in self.checks:
            raise DeviceError(
                "expect_written: this device does not check it: open it with check=True, or with "
                f"{Check.UNINITIALISED.value!r} among the names"
            )
        array = output
        if not isinstance(array, np.ndarray):
            array = self.memory.check(output, "expect_written").array
        expected = Expected.of(array, name, where)
        self._expected.setdefault(threading.current_thread(), []).append(expected)

    @property
    def never_launched(self) -> tuple[str, ...]:
        """Names of the outputs that :meth:`expect_written` was told and no launch came for."""
        return tuple(e.name for each in list(self._expected.values()) for e in each)

    @property
    def check_report(self) -> CheckReport:
        """What the checks found in the last launch. Raises :class:`DeviceError` without one."""
        if self._report is None:
            raise DeviceError("check_report: nothing was launched with checks on this device yet")
        return self._report

    @property
    def _architected_scratch(self) -> bool:
        return self.arch != "gfx90a"

    def _work(self, handle: _Handle, geometry: Geometry, lds: int) -> Work:
        d = handle.descriptor
        system = system_sgprs(d, self._architected_scratch)
        return Work(
            grid=geometry.grid,
            waves=geometry.waves,
            templates=wave_templates(d, geometry),
            system=(
                *(system.group_x, system.group_y, system.group_z),
                *(system.group_info, system.scratch_offset),
            ),
            mode=d.mode,
            lds=lds,
            scratch_lane_bytes=_scratch_lane_bytes(handle),
            flat_scratch=self._architected_scratch,
            image=handle.image.text_address,
            vgprs=d.vgprs,
            agprs=d.agprs,
            max_instructions=self.max_instructions,
            probes=table_size(handle.compiled.reader.size) if self._count_all else 0,
            slice=_checked_slice(self.seed) if self.checks else FAST_SLICE,
        )

    def _initial_sgprs(
        self, handle: _Handle, arena: Arena, arguments: LaunchArguments, scratch: int
    ) -> None:
        words = user_sgprs(
            handle.descriptor,
            UserValues(
                private_buffer=scratch_descriptor(arena.scratch, scratch),
                dispatch_packet=arguments.packet.ctypes.data,
                queue=arguments.queue.ctypes.data,
                kernarg=arguments.segment.ctypes.data,
                flat_scratch=arena.scratch,
                scratch_bytes=handle.info.scratch,
                kernarg_words=arguments.words,
            ),
            self._architected_scratch,
        )
        arena.sgprs[:] = _POISON_WORD
        arena.sgprs[: len(words)] = words


def _checked_slice(seed: int) -> int:
    """Instructions between changes of the wave, other ones for every seed."""
    return 64 + int(np.random.default_rng(seed).integers(0, 2000))


def _scratch_lane_bytes(handle: _Handle) -> int:
    fixed = max(handle.info.scratch, handle.descriptor.scratch)
    if handle.info.uses_dynamic_stack:
        fixed += _DYNAMIC_STACK
    return -(-fixed // 16) * 16


@dataclass(frozen=True)
class _Launch:
    """What is kept of a launch, for the counters."""

    kernel: str
    handle: _Handle
    geometry: Geometry
    seconds: float
    outcome: Outcome

    def counters(self, target_: Target) -> Counters:
        by_address: Counter[int] = Counter()
        by_mnemonic: Counter[str] = Counter()
        instructions: dict[int, Instruction] = {}
        for block, count in zip(
            self.handle.compiled.program.blocks, self.outcome.counts.tolist(), strict=True
        ):
            if count:
                for inst in block.instructions:
                    by_address[inst.address] += count
                    by_mnemonic[inst.mnemonic] += count
                    instructions[inst.address] = inst
        by_line: Counter[str] = Counter()
        lines = {a: self.handle.lines.at(self.handle.image.text_virtual + a) for a in by_address}
        for address, count in by_address.items():
            by_line[lines[address]] += count
        groups = self.geometry.workgroups
        found: Mapping[int, int] = dict(sorted(by_address.items()))
        rows = [(inst, by_address[a], lines[a]) for a, inst in instructions.items()]
        probes = self.outcome.probes
        return Counters(
            kernel=self.kernel,
            arch=target_.name,
            workgroups=groups,
            waves=groups * self.geometry.waves,
            seconds=self.seconds,
            by_address=found,
            by_mnemonic=dict(sorted(by_mnemonic.items())),
            by_line=dict(sorted(by_line.items())),
            resources=self.resources(target_),
            detail=detail(rows, probes) if probes.size else None,
        )

    def resources(self, target_: Target) -> Resources:
        info = self.handle.info
        return Resources.of(
            target_,
            self.geometry.waves,
            vgprs=info.vgpr,
            agprs=info.agpr,
            sgprs=info.sgpr,
            lds=info.lds + self.geometry.dynamic_lds,
            scratch=info.scratch,
        )


def _bytes_of(array: np.ndarray, call: str) -> np.ndarray:
    if not isinstance(array, np.ndarray):
        raise DeviceError(f"{call}: expected a numpy array, got {type(array).__name__}")
    if not array.flags.c_contiguous or array.dtype.hasobject:
        raise DeviceError(f"{call}: the array must be C-contiguous and hold numbers")
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
