"""Build a catalogue into a folder: in parallel, resumable, whole files only.

The folder holds ``manifest.json``, ``objects/`` (named by what is in them) and ``.rocke-build/``
(a lock, and one small file a kernel that says what it was built from). The manifest appears last
and at once, so the folder is at all times the old library or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from rocke.compiler.cache import CacheEntry, default_cache, write_atomically
from rocke.compiler.code_object import CodeObject
from rocke.kernels.registry import family
from rocke.library import rules
from rocke.library.build_job import Compiled, Task, toolchain
from rocke.library.catalogue import Catalogue
from rocke.library.errors import BuildError, LibraryError
from rocke.library.executing import run_tasks
from rocke.library.grids import grid
from rocke.library.layout import MANIFEST
from rocke.library.locking import lock_folder
from rocke.library.manifest import Argument, KernelEntry, Manifest, Resources
from rocke.library.naming import count_of
from rocke.library.plan import Dropped, Job, Plan, constraints, expand
from rocke.library.store import STATE, UNFINISHED
from rocke.runtime.packing import check_signature, parse_signature
from rocke.runtime.promises import check_block

OBJECTS = "objects"
_LONGEST_STEM = 180
_STATE_FILE = re.compile(r"[0-9a-f]{32}\.json")
_OBJECT_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,239}\.hsaco")
_TEMPORARY = re.compile(r"\.rocke-[a-z0-9_]{8}")
_DIGEST_LINE = b'{"digest": "sha256:'


@dataclass(frozen=True)
class Failure:
    """A kernel that was not built, and why."""

    label: str
    reason: str


@dataclass
class Progress:
    """How far a build is. ``cached`` kernels are among the ``done``; ``label`` came last."""

    total: int
    done: int = 0
    cached: int = 0
    failed: int = 0
    label: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """What a build did. ``manifest`` is ``None`` when kernels failed: then none is written.

    ``warnings`` are the compiler's, ``unused`` tells of rules of the catalogue that change nothing,
    ``left_out`` counts kernels that the caller did not choose.
    """

    folder: Path
    manifest: Manifest | None
    compiled: int
    cached: int
    failures: tuple[Failure, ...]
    dropped: tuple[Dropped, ...]
    warnings: tuple[str, ...]
    seconds: float
    left_out: int = 0
    unused: tuple[str, ...] = ()


def build_library(
    catalogue: Catalogue | str | Path,
    folder: str | Path,
    *,
    archs: Iterable[str] = (),
    matches: Callable[[Job], bool] = lambda job: True,
    jobs: int | None = None,
    executor: Executor | None = None,
    linker: str | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Report:
    """Build a catalogue (or the file of one) into ``folder``.

    ``archs`` and ``matches`` choose some kernels; a folder that holds a library with more of the
    catalogue's kernels is refused. Compiles in ``jobs`` processes of this machine
    (default: one a core), or in ``executor``: any ``concurrent.futures.Executor``, of which tasks
    and results are small and plain; a Dask client's ``get_executor()`` is one. Processes are
    spawned, so a script that calls this guards its main part by ``if __name__ == "__main__"``.

    A kernel that fails is in the report, and does not stop the others; the manifest is written only
    when all are there. What is in ``folder`` and still right is kept, so an interrupted build goes
    on where it was; nothing in it is deleted but what an earlier build wrote. Raises
    :class:`CatalogueError`, ``ValueError`` for ``jobs`` below 1, and :class:`BuildError` when the
    folder is in use, foreign or cannot be written, or nothing is to be built.
    """
    start = time.monotonic()
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}, expected at least 1")
    parsed = catalogue if isinstance(catalogue, Catalogue) else Catalogue.load(catalogue)
    plan = expand(parsed, archs=archs, matches=matches)
    if not plan.jobs:
        raise BuildError(f"{parsed.source}: nothing to build ({plan.counts()})")
    base = Path(folder)
    with _writing(base):
        _check_folder(base)
        for name in (OBJECTS, STATE):
            base.joinpath(name).mkdir(parents=True, exist_ok=True)
        with lock_folder(base / STATE / "lock", base):
            build = _Build(base, parsed, plan, linker, Progress(len(plan.jobs)), progress)
            build.begin()
            build.run(jobs, executor)
            manifest = build.finish()
    return Report(
        folder=base,
        manifest=manifest,
        compiled=build.progress.done - build.progress.cached,
        cached=build.progress.cached,
        failures=tuple(build.failures),
        dropped=plan.dropped,
        warnings=tuple(build.warnings),
        seconds=time.monotonic() - start,
        left_out=plan.left_out,
        unused=plan.warnings,
    )


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise BuildError(f"{folder} cannot be written: {error.strerror} ({where})") from None


def _check_folder(folder: Path) -> None:
    """Refuse a folder that is another's; nothing in it has been touched."""
    for name in (OBJECTS, STATE):
        path = folder / name
        if path.is_symlink():
            raise BuildError(f"{path}: a link, expected a folder of the library itself")
    path = folder / MANIFEST
    if not path.exists():
        return
    with path.open("rb") if path.is_file() else contextlib.nullcontext() as file:
        if file is None or file.read(len(_DIGEST_LINE)) != _DIGEST_LINE:
            raise BuildError(
                f"{path}: not the manifest of a kernel library: build into another folder"
            )


@dataclass
class _Build:
    folder: Path
    catalogue: Catalogue
    plan: Plan
    linker: str | None
    progress: Progress
    tell: Callable[[Progress], None]
    entries: dict[int, KernelEntry] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    keys: dict[int, str] = field(default_factory=dict)
    earlier: dict[int, list[str]] = field(default_factory=dict)
    before: Manifest | None = None
    toolchain: tuple[str, ...] = ()

    def begin(self) -> None:
        """Say that the folder is being built, and remove what a killed build left of itself."""
        self.before = self._manifest_before()
        self._refuse_to_shrink()
        for path in self._state.iterdir():
            if _TEMPORARY.fullmatch(path.name) and path.is_file():
                path.unlink()
        self._state.joinpath(UNFINISHED).touch()

    def run(self, jobs: int | None, executor: Executor | None) -> None:
        """Take what is there, and compile the rest."""
        self.toolchain = toolchain(self.linker)
        sources = source_digest()
        open_jobs: dict[int, Task] = {}
        for number, job in enumerate(self.plan.jobs):
            self.keys[number] = _key(job, sources, self.toolchain)
            if not self._kept(number, job) and not self._known(number, job):
                open_jobs[number] = Task(job.family, dict(job.spec), job.arch, self.linker)
        for number, answer in run_tasks(open_jobs, jobs, executor):
            self._take(number, self.plan.jobs[number], answer)

    def finish(self) -> Manifest | None:
        """Write the manifest and drop objects that it does not name, if every kernel is there."""
        if self.failures:
            return None
        kernels = tuple(self.entries[n] for n in sorted(self.entries))
        manifest = Manifest(
            name=self.catalogue.name,
            version=self.catalogue.version,
            description=self.catalogue.description,
            rocke=metadata.version("rocke"),
            toolchain=self.toolchain,
            kernels=kernels,
        )
        data = manifest.to_bytes()
        Manifest.from_bytes(data)  # what cannot be read back is not written
        self._write(self.folder / MANIFEST, data)
        self._remove_old(kernels)
        self._state.joinpath(UNFINISHED).unlink(missing_ok=True)
        return manifest

    @property
    def _state(self) -> Path:
        return self.folder / STATE

    def _write(self, path: Path, data: bytes) -> None:
        write_atomically(path, data, unfinished=self._state)

    def _manifest_before(self) -> Manifest | None:
        try:
            return Manifest.from_bytes(self.folder.joinpath(MANIFEST).read_bytes())
        except (FileNotFoundError, LibraryError):
            return None  # none yet, or a damaged one: it is written anew

    def _refuse_to_shrink(self) -> None:
        """A part of a catalogue is not built over more than it, finished or not."""
        if not self.plan.left_out:
            return
        other = "choose all, or build into another folder"
        if self.before is None and self.folder.joinpath(MANIFEST).exists():
            raise BuildError(
                f"{self.folder}: its manifest cannot be read, so nobody knows which kernels a part "
                f"would lose: {other}"
            )
        made = {f"{_name(job)}.{job.arch}" for job in self.plan.jobs}
        lost = [k.id for k in self.before.kernels if k.id not in made] if self.before else []
        if lost:
            raise BuildError(
                f"{self.folder}: its library has {count_of(lost, 'kernel')} not chosen "
                f"({lost[0]}{', ...' * (len(lost) > 1)}) and would lose what is not chosen: {other}"
            )
        kept = {_state_name(job) for job in self.plan.jobs}
        unfinished = [
            p.name
            for p in self._state.iterdir()
            if _STATE_FILE.fullmatch(p.name) and p.name not in kept
        ]
        if unfinished:
            raise BuildError(
                f"{self.folder}: a build that has not ended left {count_of(unfinished, 'kernel')} "
                f"not chosen and would lose what is not chosen: {other}"
            )

    def _remove_old(self, kernels: tuple[KernelEntry, ...]) -> None:
        """Remove objects and states of earlier builds, and no file that they did not write."""
        named = {k.file for k in kernels}
        kept = {_state_name(job) for job in self.plan.jobs}
        ours = {k.file for k in self.before.kernels} if self.before else set()
        for path in self._state.iterdir():
            if _STATE_FILE.fullmatch(path.name) and path.name not in kept:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    ours |= {f"{OBJECTS}/{name}" for name in _objects(path)}
                    path.unlink()
        ours |= {f"{OBJECTS}/{name}" for names in self.earlier.values() for name in names}
        for name in ours - named:
            if self.folder.joinpath(name).is_file():
                self.folder.joinpath(name).unlink()

    def _kept(self, number: int, job: Job) -> bool:
        """Whether the folder has the kernel, built from the same sources by the same tools."""
        try:
            path = self._state / _state_name(job)
            self.earlier[number] = _objects(path)
            state = json.loads(path.read_bytes())
            if state["key"] != self.keys[number]:
                return False
            data = self.folder.joinpath(OBJECTS, state["file"]).read_bytes()
            if hashlib.sha256(data).hexdigest() != state["sha256"]:
                return False
            said = tuple(str(line) for line in state["warnings"])
        except (OSError, ValueError, KeyError, TypeError):
            return False  # absent or damaged: it is built again
        return self._taken(number, job, data, said, store=False)

    def _known(self, number: int, job: Job) -> bool:
        """Whether this machine's cache has the kernel: then no process begins for it."""
        found = default_cache().get(_cache_key(self.keys[number]))
        if found is None:
            return False
        return self._taken(number, job, found.hsaco, found.warnings, store=True)

    def _taken(
        self, number: int, job: Job, data: bytes, said: tuple[str, ...], *, store: bool
    ) -> bool:
        try:
            entry = describe(job, data)
        except ValueError:
            return False  # not this kernel's: it is built again
        self._add(number, job, entry, data, said, cached=True, store=store)
        return True

    def _take(self, number: int, job: Job, answer: Compiled) -> None:
        if answer.error:
            self._fail(job, answer.error)
        elif tuple(answer.toolchain) != self.toolchain:
            other = sorted(set(answer.toolchain) ^ set(self.toolchain))
            self._fail(job, f"compiled by another toolchain: {'; '.join(other)}")
        elif hashlib.sha256(answer.hsaco).hexdigest() != answer.sha256:
            self._fail(job, "the object was damaged on its way from the process that compiled it")
        else:
            said = tuple(str(line) for line in answer.said)
            try:
                entry = describe(job, answer.hsaco)
            except ValueError as error:
                self._fail(job, str(error))
                return
            self._add(number, job, entry, answer.hsaco, said, cached=answer.cached, store=True)
            default_cache().put(_cache_key(self.keys[number]), CacheEntry(answer.hsaco, said))

    def _add(
        self,
        number: int,
        job: Job,
        entry: KernelEntry,
        data: bytes,
        said: tuple[str, ...],
        *,
        cached: bool,
        store: bool,
    ) -> None:
        if entry.id in self.ids:
            self._fail(job, f"another spec gives a kernel of the same name ({entry.id})")
            return
        if store:
            path = self.folder / entry.file
            state = {
                "key": self.keys[number],
                "file": path.name,
                "sha256": entry.sha256,
                "warnings": list(said),
                "replaces": [n for n in self.earlier.get(number, []) if n != path.name],
            }
            # First, so that every object has a state that names it, whenever the build is killed.
            self._write(self._state / _state_name(job), json.dumps(state).encode())
            self._write(path, data)
        self.entries[number] = entry
        self.ids.add(entry.id)
        self.warnings += said
        self.progress.done += 1
        self.progress.cached += cached
        self.progress.label, self.progress.reason = job.label, ""
        self.progress.warnings = said
        self.tell(self.progress)

    def _fail(self, job: Job, reason: str) -> None:
        self.failures.append(Failure(job.label, reason))
        self.progress.failed += 1
        self.progress.label, self.progress.reason = job.label, reason
        self.progress.warnings = ()
        self.tell(self.progress)


def _objects(state: Path) -> list[str]:
    """The objects that a state names: the kernel's, and earlier ones that may be left.

    Raises what reading raises for a file that is no state.
    """
    raw = json.loads(state.read_bytes())
    names = [raw["file"], *raw["replaces"]]
    if not raw["key"] or not all(_OBJECT_FILE.fullmatch(name) for name in names):
        raise ValueError("no state of a build")
    return names


def describe(job: Job, data: bytes) -> KernelEntry:
    """The manifest's entry for an object: what it states itself, and what the family adds.

    Raises ``ValueError`` when the two contradict each other.
    """
    found = family(job.family)
    spec = found.make_spec(job.spec)
    code_object = CodeObject.from_bytes(data)
    info = code_object.kernel()
    signature = found.signature(spec)
    check_signature(parse_signature(signature), info)
    if code_object.arch != job.arch:
        raise ValueError(f"the object is for {code_object.arch}, expected {job.arch}")
    if info.name != _name(job):
        raise ValueError(f"the object holds kernel {info.name}, this spec's is {_name(job)}")
    block = found.block_of(spec, job.arch)
    check_block(info, block)
    digest = hashlib.sha256(data).hexdigest()
    ident = f"{info.name}.{job.arch}"
    needed = constraints(job)
    stem = ident if len(ident) <= _LONGEST_STEM else ident[:_LONGEST_STEM]
    return KernelEntry(
        id=ident,
        family=job.family,
        spec=dict(job.spec),
        arch=code_object.arch,
        target=code_object.target,
        code_object_version=code_object.version,
        symbol=info.symbol,
        file=f"{OBJECTS}/{stem}.{digest[:16]}.hsaco",
        size=len(data),
        sha256=digest,
        arguments=tuple(
            Argument(s["name"], s["type"], a.offset, a.size, a.kind, a.access)
            for s, a in zip(signature, info.explicit_arguments, strict=True)
        ),
        grid=grid(found, spec, job.arch, job.entry, needed),
        block=block,
        required_workgroup_size=info.required_workgroup_size,
        resources=Resources.of(info),
        limits=rules.plain_limits(found.limits(spec)),
        constraints=needed,
        priority=job.entry.priority,
        problem=job.entry.problem,
    )


def _name(job: Job) -> str:
    found = family(job.family)
    return found.name_of(found.make_spec(job.spec), job.arch)


def source_digest() -> str:
    """SHA-256 over the sources that turn a spec into kernel text, and text into bytes."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for room in ("arch", "compiler", "core", "helpers", "kernels"):
        for file in sorted(root.joinpath(room).rglob("*.py")):
            digest.update(f"{file.relative_to(root).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _key(job: Job, sources: str, tools: tuple[str, ...]) -> str:
    parts: Mapping[str, Any] = {
        "family": job.family,
        "spec": dict(job.spec),
        "arch": job.arch,
        "sources": sources,
        "toolchain": tools,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _cache_key(key: str) -> str:
    """The compile cache's key of a kernel that is known by its spec, not by its text."""
    return hashlib.sha256(f"library {key}".encode()).hexdigest()


def _state_name(job: Job) -> str:
    parts = json.dumps([job.family, dict(job.spec), job.arch], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()[:32] + ".json"


def report_as_json(report: Report) -> dict[str, Any]:
    """A report as plain data."""
    return {
        "folder": str(report.folder),
        "kernels": 0 if report.manifest is None else len(report.manifest.kernels),
        "compiled": report.compiled,
        "cached": report.cached,
        "failures": [asdict(f) for f in report.failures],
        "dropped": [asdict(d) for d in report.dropped],
        "warnings": list(report.warnings),
        "left_out": report.left_out,
        "unused": list(report.unused),
        "seconds": round(report.seconds, 3),
    }


def default_jobs() -> int:
    """Processes for a build: the cores that this process may use."""
    return len(os.sched_getaffinity(0))
