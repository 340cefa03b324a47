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
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from rocke.compiler.cache import write_atomically
from rocke.compiler.code_object import CodeObject
from rocke.kernels.registry import family
from rocke.library import rules
from rocke.library.build_job import Compiled, Task, toolchain
from rocke.library.catalogue import Catalogue
from rocke.library.errors import BuildError
from rocke.library.executing import run_tasks
from rocke.library.locking import lock_folder
from rocke.library.manifest import Argument, KernelEntry, Manifest, Resources
from rocke.library.plan import Dropped, Job, Plan, constraints, expand
from rocke.runtime.packing import check_signature, parse_signature

MANIFEST = "manifest.json"
OBJECTS = "objects"
STATE = ".rocke-build"
_LONGEST_STEM = 180


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
    """What a build did. ``manifest`` is ``None`` when kernels failed: then none is written."""

    folder: Path
    manifest: Manifest | None
    compiled: int
    cached: int
    failures: tuple[Failure, ...]
    dropped: tuple[Dropped, ...]
    warnings: tuple[str, ...]
    seconds: float


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

    ``archs`` and ``matches`` choose some kernels. Compiles in ``jobs`` processes of this machine
    (default: one a core), or in ``executor``: any ``concurrent.futures.Executor``, of which tasks
    and results are small and plain; a Dask client's ``get_executor()`` is one. Processes are
    spawned, so a script that calls this guards its main part by ``if __name__ == "__main__"``.

    A kernel that fails is in the report, and does not stop the others; the manifest is written only
    when all are there. What is in ``folder`` and still right is kept, so an interrupted build goes
    on where it was. Raises :class:`CatalogueError`, and :class:`BuildError` when the folder is in
    use or cannot be written, or nothing is to be built.
    """
    start = time.monotonic()
    parsed = catalogue if isinstance(catalogue, Catalogue) else Catalogue.load(catalogue)
    plan = expand(parsed, archs=archs, matches=matches)
    if not plan.jobs:
        raise BuildError(f"{parsed.source}: nothing to build ({len(plan.dropped)} dropped)")
    base = Path(folder)
    with _writing(base):
        for name in (OBJECTS, STATE):
            base.joinpath(name).mkdir(parents=True, exist_ok=True)
        with lock_folder(base / STATE / "lock", base):
            build = _Build(base, parsed, plan, linker, Progress(len(plan.jobs)), progress)
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
    )


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise BuildError(f"{folder} cannot be written: {error.strerror} ({where})") from None


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
    toolchain: tuple[str, ...] = ()

    def run(self, jobs: int | None, executor: Executor | None) -> None:
        self._sweep()
        self.toolchain = toolchain(self.linker)
        sources = source_digest()
        open_jobs: dict[int, Task] = {}
        for number, job in enumerate(self.plan.jobs):
            self.keys[number] = _key(job, sources, self.toolchain)
            if not self._kept(number, job):
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
        write_atomically(self.folder / MANIFEST, data)
        named = {Path(k.file).name for k in kernels}
        kept = {_state_name(job) for job in self.plan.jobs}
        for path in self.folder.joinpath(OBJECTS).iterdir():
            if path.suffix == ".hsaco" and path.name not in named:
                path.unlink()
        for path in self.folder.joinpath(STATE).glob("*.json"):
            if path.name not in kept:
                path.unlink()
        return manifest

    def _sweep(self) -> None:
        """Remove temporary files that a killed build left."""
        for name in (".", OBJECTS, STATE):
            for path in self.folder.joinpath(name).glob(".rocke-*"):
                if path.is_file():
                    path.unlink()

    def _kept(self, number: int, job: Job) -> bool:
        """Whether the folder has the kernel, built from the same sources by the same tools."""
        try:
            state = json.loads(self.folder.joinpath(STATE, _state_name(job)).read_bytes())
            if state["key"] != self.keys[number]:
                return False
            data = self.folder.joinpath(OBJECTS, str(state["file"])).read_bytes()
            if hashlib.sha256(data).hexdigest() != state["sha256"]:
                return False
            said = tuple(str(line) for line in state["warnings"])
        except (OSError, ValueError, KeyError, TypeError):
            return False  # absent or damaged: it is built again
        return self._add(number, job, data, said, cached=True)

    def _take(self, number: int, job: Job, answer: Compiled) -> None:
        if answer.error:
            self._fail(job, answer.error)
        elif answer.toolchain != self.toolchain:
            other = sorted(set(answer.toolchain) ^ set(self.toolchain))
            self._fail(job, f"compiled by another toolchain: {'; '.join(other)}")
        else:
            self._add(number, job, answer.hsaco, answer.said, cached=answer.cached, store=True)

    def _add(
        self,
        number: int,
        job: Job,
        data: bytes,
        said: tuple[str, ...],
        *,
        cached: bool,
        store: bool = False,
    ) -> bool:
        try:
            entry = describe(job, data, check_grid=store)
            if entry.id in self.ids:
                raise ValueError(f"another spec gives a kernel of the same name ({entry.id})")
        except ValueError as error:
            self._fail(job, str(error))
            return True
        if store:
            path = self.folder / entry.file
            write_atomically(path, data)
            state = {
                "key": self.keys[number],
                "file": path.name,
                "sha256": entry.sha256,
                "warnings": list(said),
            }
            name = self.folder / STATE / _state_name(job)
            write_atomically(name, json.dumps(state).encode())
        self.entries[number] = entry
        self.ids.add(entry.id)
        self.warnings += said
        self.progress.done += 1
        self.progress.cached += cached
        self.progress.label, self.progress.reason = job.label, ""
        self.progress.warnings = said
        self.tell(self.progress)
        return True

    def _fail(self, job: Job, reason: str) -> None:
        self.failures.append(Failure(job.label, reason))
        self.progress.failed += 1
        self.progress.label, self.progress.reason = job.label, reason
        self.progress.warnings = ()
        self.tell(self.progress)


def describe(job: Job, data: bytes, *, check_grid: bool = True) -> KernelEntry:
    """The manifest's entry for an object: what it states itself, and what the family adds.

    ``check_grid`` compares the catalogue's grid with the family's own rule on a problem. Raises
    ``ValueError`` when the two contradict each other.
    """
    found = family(job.family)
    spec = found.make_spec(job.spec)
    code_object = CodeObject.from_bytes(data)
    info = code_object.kernel()
    signature = found.signature(spec)
    check_signature(parse_signature(signature), info)
    if code_object.arch != job.arch:
        raise ValueError(f"the object is for {code_object.arch}, expected {job.arch}")
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
        grid=rules.grid(found, spec, job.arch, job.entry, needed, check=check_grid),
        block=found.block_of(spec, job.arch),
        required_workgroup_size=info.required_workgroup_size,
        resources=Resources.of(info),
        limits=rules.plain_limits(found.limits(spec)),
        constraints=needed,
        priority=job.entry.priority,
        problem=job.entry.problem,
    )


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
        "grid": job.entry.grid,  # a kept kernel's grid was checked when it was built
        "problem": dict(job.entry.problem),
        "sources": sources,
        "toolchain": tools,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


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
        "seconds": round(report.seconds, 3),
    }


def default_jobs() -> int:
    """Processes for a build: the cores that this process may use."""
    return len(os.sched_getaffinity(0))
