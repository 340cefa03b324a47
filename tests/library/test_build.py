"""Building: failures, resuming, locks, full disks, damaged states."""

import errno
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from rocke.compiler import CompileCache, compile_kernel
from rocke.kernels.registry import family
from rocke.library import (
    BuildError,
    Catalogue,
    KernelLibrary,
    LibraryError,
    build_library,
    executing,
)
from rocke.library import build as build_module
from rocke.library.build_job import Compiled, compile_task
from rocke.library.locking import lock_folder
from rocke.library.pack import write_file

from .conftest import SMALL

pytestmark = pytest.mark.normal


@pytest.fixture(autouse=True)
def unknown_specs(tmp_path_factory, monkeypatch):
    """No kernel is taken from this machine's cache by its spec alone."""
    cache = CompileCache(tmp_path_factory.mktemp("specs"))
    monkeypatch.setattr(build_module, "default_cache", lambda: cache)
    return cache


def whole(folder):
    """Every file but those of the build itself."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and ".rocke-build" not in p.parts
    }


def failing_task(task):
    if task.spec.get("waves") == 2 and task.arch == "gfx950":
        raise RuntimeError("this one never works")
    return compile_task(task)


def dying_task(task):
    if task.spec.get("waves") == 2 and task.arch == "gfx950":
        os._exit(9)
    return compile_task(task)


def unbuildable_task(task):
    return compile_task(type(task)("no_such_family", task.spec, task.arch))


def test_again_nothing_is_compiled_and_nothing_changes(catalogue, built, tmp_path):
    first = build_library(catalogue, tmp_path, jobs=1)
    assert (len(first.manifest.kernels), first.failures) == (8, ())
    assert whole(tmp_path) == whole(built)
    seen = []
    again = build_library(
        catalogue, tmp_path, executor=Refusing(), progress=lambda p: seen.append(p.done)
    )
    assert (again.compiled, again.cached) == (0, 8)
    assert seen == list(range(1, 9))
    assert whole(tmp_path) == whole(built)


class Refusing(ThreadPoolExecutor):
    def submit(self, *arguments, **keywords):
        raise AssertionError("something was compiled")


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (failing_task, "this one never works"),
        (dying_task, "the process that compiled it died"),
    ],
)
def test_a_failure_names_its_spec_and_stops_nothing(
    catalogue, built, tmp_path, monkeypatch, task, message
):
    monkeypatch.setattr(executing, "compile_task", task)
    report = build_library(catalogue, tmp_path, jobs=1)
    assert len(report.failures) == 1, report.failures[:2]
    (failure,) = report.failures
    assert failure.label == "map_to_index (waves=2) for gfx950"
    assert message in failure.reason
    assert report.manifest is None
    assert not (tmp_path / "manifest.json").exists()
    assert len(list(tmp_path.glob("objects/*.hsaco"))) == 7
    monkeypatch.undo()
    repaired = build_library(catalogue, tmp_path, jobs=1)
    assert repaired.cached >= 7
    assert whole(tmp_path) == whole(built)


def test_an_executor_of_the_caller(catalogue, built, tmp_path, monkeypatch, unknown_specs):
    with ThreadPoolExecutor(1) as executor:
        build_library(catalogue, tmp_path / "threads", executor=executor)
        assert whole(tmp_path / "threads") == whole(built)
        monkeypatch.setattr(executing, "compile_task", unbuildable_task)
        unknown_specs.clear()
        report = build_library(catalogue, tmp_path / "failing", executor=executor)
    assert len(report.failures) == 8
    assert all("unknown family 'no_such_family'" in f.reason for f in report.failures)


def test_another_toolchain_is_refused(catalogue, tmp_path, monkeypatch):
    monkeypatch.setattr(build_module, "toolchain", lambda linker: ("another compiler",))
    with ThreadPoolExecutor(1) as executor:
        report = build_library(catalogue, tmp_path, executor=executor)
    assert len(report.failures) == 8
    assert "compiled by another toolchain: another compiler; " in report.failures[0].reason


def test_a_changed_catalogue_replaces_the_library(catalogue, built, tmp_path):
    build_library(catalogue, tmp_path, jobs=1)
    text = SMALL[: SMALL.rindex("[[kernels]]")].replace('["gfx942", "gfx950"]', '["gfx942"]')
    report = build_library(Catalogue.parse(text, "smaller.toml"), tmp_path, jobs=1)
    assert [k.id for k in report.manifest.kernels] == [
        "rocke_map_to_index_W2.gfx942",
        "rocke_map_to_index_W4.gfx942",
    ]
    assert len(list(tmp_path.glob("objects/*"))) == 2
    assert len(list(tmp_path.glob(".rocke-build/*.json"))) == 2
    assert len(KernelLibrary.open(tmp_path).kernels) == 2


def test_a_part_does_not_replace_the_whole(catalogue, built, tmp_path):
    only = {"archs": "gfx942", "matches": lambda job: job.family == "map_to_index"}
    report = build_library(catalogue, tmp_path, jobs=1, **only)
    assert len(report.manifest.kernels) == 2
    assert report.left_out == 6
    build_library(catalogue, tmp_path, jobs=1, **only)
    build_library(catalogue, tmp_path, jobs=1)
    assert whole(tmp_path) == whole(built)
    with pytest.raises(BuildError, match=r"6 kernels not chosen .* would lose what is"):
        build_library(catalogue, tmp_path, jobs=1, **only)
    assert whole(tmp_path) == whole(built)


def test_foreign_files_are_left_alone(catalogue, tmp_path):
    own = {
        name: tmp_path / name
        for name in (
            *("notes.txt", ".rocke-notes", "objects/mine.hsaco", "objects/.rocke-mine0000"),
            *(".rocke-build/mine.json", ".rocke-build/" + "0" * 32 + ".json"),
        )
    }
    for path in own.values():
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    build_library(catalogue, tmp_path, jobs=1)
    changed = Catalogue.parse(SMALL.replace("waves = [2, 4]", "waves = 4"), "small.toml")
    report = build_library(changed, tmp_path, jobs=1)
    assert {path.read_text() for path in own.values()} == {"mine"}
    objects = [p for p in tmp_path.glob("objects/*.hsaco") if p.name != "mine.hsaco"]
    assert len(objects) == len(report.manifest.kernels) == 6


@pytest.mark.parametrize("content", ['{"name": "another program"}', "", None])
def test_a_folder_with_a_foreign_manifest_is_refused(catalogue, tmp_path, content):
    path = tmp_path / "manifest.json"
    path.mkdir() if content is None else path.write_text(content)
    with pytest.raises(BuildError, match=r"manifest\.json: not the manifest of a kernel library"):
        build_library(catalogue, tmp_path, jobs=1)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["objects", ".rocke-build"])
def test_links_out_of_the_folder_are_refused(catalogue, tmp_path, name):
    other = tmp_path / "other"
    other.mkdir()
    folder = tmp_path / "library"
    folder.mkdir()
    folder.joinpath(name).symlink_to(other)
    with pytest.raises(BuildError, match="a link, expected a folder of the library itself"):
        build_library(catalogue, folder, jobs=1)
    assert list(other.iterdir()) == []


def test_a_cut_manifest_is_written_anew(catalogue, built, tmp_path):
    build_library(catalogue, tmp_path, jobs=1)
    os.truncate(tmp_path / "manifest.json", 500)
    build_library(catalogue, tmp_path, executor=Refusing())
    assert whole(tmp_path) == whole(built)


def test_a_folder_whose_build_is_not_finished_says_so(catalogue, tmp_path, monkeypatch):
    monkeypatch.setattr(executing, "compile_task", failing_task)
    build_library(catalogue, tmp_path, jobs=1)
    with pytest.raises(LibraryError, match="the build is not finished, run it again"):
        KernelLibrary.open(tmp_path)
    monkeypatch.undo()
    build_library(catalogue, tmp_path, jobs=1)
    assert not KernelLibrary.open(tmp_path).outdated
    more = Catalogue.parse(SMALL.replace("[2, 4]", "[2, 4, 8]"), "small.toml")
    failing = lambda task: Compiled(b"", error="not today")  # noqa: E731
    monkeypatch.setattr(executing, "compile_task", failing)
    with ThreadPoolExecutor(1) as executor:
        assert build_library(more, tmp_path, executor=executor).manifest is None
    assert KernelLibrary.open(tmp_path).outdated


def test_what_the_cache_knows_by_its_spec_starts_no_process(catalogue, built, tmp_path):
    build_library(catalogue, tmp_path / "one", jobs=1)
    report = build_library(catalogue, tmp_path / "two", executor=Refusing())
    assert (report.compiled, report.cached) == (0, 8)
    assert whole(tmp_path / "two") == whole(built)


def test_a_cached_object_of_another_kernel_is_compiled_again(
    catalogue, built, tmp_path, unknown_specs
):
    build_library(catalogue, tmp_path / "one", jobs=1)
    entries = sorted(unknown_specs.folder.glob("??/*.kernel"))
    assert len(entries) == 8
    first = entries[0].read_bytes()
    for path in entries[1:]:
        path.write_bytes(first)
    report = build_library(catalogue, tmp_path / "two", jobs=1)
    assert report.failures == ()
    assert whole(tmp_path / "two") == whole(built)


class Answering(ThreadPoolExecutor):
    """An executor that gives something else for each task."""

    def __init__(self, answer):
        super().__init__(1)
        self.answer = answer

    def submit(self, function, task):
        return super().submit(self.answer, task)


def other_kernel(task):
    return compile_task(type(task)("map_to_index", {"waves": 8, "name": "other"}, task.arch))


def other_target(task):
    other = {"gfx942": "gfx950", "gfx950": "gfx942"}[task.arch]
    return compile_task(type(task)(task.family, task.spec, other))


def answered(data):
    digest = hashlib.sha256(data).hexdigest()
    return Compiled(data, build_module.toolchain(), sha256=digest)


def cut(task):
    return answered(compile_task(task).hsaco[:-100])


def flipped(task):
    made = compile_task(task)
    data = bytearray(made.hsaco)
    data[len(data) // 3] ^= 1
    return replace(made, hsaco=bytes(data))


def other_block(task):
    """The spec's name and arguments, in a workgroup of half the size."""
    found = family("map_to_index")
    kernel = found.build(found.make_spec(task.spec), task.arch)
    kernel.attributes["required_workgroup_size"] = (64, 1, 1)
    kernel.attributes["max_workgroup_size"] = 64
    return answered(compile_kernel(kernel, task.arch).data)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda task: {"x": 1}, "the executor gave dict, expected what the task returns"),
        (lambda task: None, "the executor gave NoneType"),
        (lambda task: Compiled("text"), "the executor gave Compiled"),
        (lambda task: answered(b""), "not an ELF file"),
        (flipped, "the object was damaged on its way"),
        (cut, "code object"),
        (other_target, "the object is for gfx"),
        (other_kernel, "the object holds kernel other_W8, this spec's is rocke_map_to_index_W"),
        (other_block, "block: (128, 1, 1), kernel rocke_map_to_index_W2 needs (64, 1, 1)"),
    ],
)
def test_what_an_executor_should_not_give(catalogue, tmp_path, answer, message):
    only = {"matches": lambda job: job.spec.get("waves") == 2}
    report = build_library(catalogue, tmp_path, executor=Answering(answer), **only)
    assert [f.label.rpartition(" ")[0] for f in report.failures] == [
        "map_to_index (waves=2) for"
    ] * 2
    for failure in report.failures:
        assert message in failure.reason


def test_an_executor_that_refuses(catalogue, tmp_path):
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    report = build_library(catalogue, tmp_path, executor=executor)
    assert len(report.failures) == 8
    assert "the executor refused it: RuntimeError: cannot schedule" in report.failures[0].reason


@pytest.mark.parametrize("jobs", [0, -1])
def test_numbers_of_processes_that_are_none(catalogue, tmp_path, jobs):
    with pytest.raises(ValueError, match=rf"jobs is {jobs}, expected at least 1"):
        build_library(catalogue, tmp_path / "out", jobs=jobs)


def start_build(tmp_path, folder):
    (tmp_path / "small.toml").write_text(SMALL)
    program = (
        "from rocke.cli.main import main\n"
        "if __name__ == '__main__':\n"
        f"    main(['build', {str(tmp_path / 'small.toml')!r}, '-o', {str(folder)!r}, '-j', '1'])\n"
    )
    script = tmp_path / "build.py"
    script.write_text(program)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return subprocess.Popen([sys.executable, str(script)], env=environment)


def test_a_killed_build_leaves_whole_entries_and_goes_on(catalogue, built, tmp_path):
    folder = tmp_path / "library"
    process = start_build(tmp_path, folder)
    while process.poll() is None and len(list(folder.glob("objects/*.hsaco"))) < 2:
        time.sleep(0.01)
    with pytest.raises(BuildError, match=rf"a build by process {process.pid} on "):
        build_library(catalogue, folder, jobs=1)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    left = {p.name for p in folder.glob("objects/*.hsaco")}
    assert 2 <= len(left) < 8
    assert not (folder / "manifest.json").exists()
    half = folder / ".rocke-build" / ".rocke-half_f1l"
    half.write_bytes(b"half of a file")
    report = build_library(catalogue, folder, jobs=1)
    assert report.cached >= len(left)
    assert whole(folder) == whole(built)
    assert not half.exists()


def test_a_folder_in_use_is_refused(catalogue, tmp_path):
    (tmp_path / ".rocke-build").mkdir()
    with (
        lock_folder(tmp_path / ".rocke-build" / "lock", tmp_path),
        pytest.raises(BuildError, match=rf"a build by process {os.getpid()} on .* is using"),
    ):
        build_library(catalogue, tmp_path, jobs=1)
    assert not (tmp_path / "manifest.json").exists()


@pytest.mark.parametrize("victim", ["state", "object", "lost object", "compile cache"])
def test_damage_is_built_again(catalogue, built, tmp_path, victim, monkeypatch):
    build_library(catalogue, tmp_path, jobs=1)
    path = {
        "state": next(tmp_path.glob(".rocke-build/*.json")),
        "object": next(tmp_path.glob("objects/*.hsaco")),
        "lost object": next(tmp_path.glob("objects/*.hsaco")),
        "compile cache": next(tmp_path.glob("objects/*.hsaco")),
    }[victim]
    if victim == "lost object":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:50])
    if victim == "compile cache":
        from rocke.compiler import CompileCache
        from rocke.compiler import cache as cache_module

        cache = CompileCache(tmp_path / "cache")
        monkeypatch.setattr(cache_module, "default_cache", lambda: cache)
        real = cache.path

        def damaged(key):
            where = real(key)
            if not where.exists():
                where.parent.mkdir(parents=True, exist_ok=True)
                where.write_bytes(b"x" * 100)
            return where

        monkeypatch.setattr(cache, "path", damaged)
        monkeypatch.setattr("rocke.compiler.default_cache", lambda: cache, raising=False)
    with ThreadPoolExecutor(1) as executor:
        report = build_library(catalogue, tmp_path, executor=executor)
    assert report.failures == ()
    assert {n: d for n, d in whole(tmp_path).items() if not n.startswith("cache")} == whole(built)


def test_a_full_disk_is_one_clear_error_and_leaves_no_half_file(catalogue, tmp_path, monkeypatch):
    real = build_module.write_atomically
    written = []

    def full(path, data, **options):
        if len(written) == 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written.append(path)
        real(path, data, **options)

    monkeypatch.setattr(build_module, "write_atomically", full)
    with pytest.raises(BuildError, match="cannot be written: No space left on device"):
        build_library(catalogue, tmp_path, jobs=1)
    monkeypatch.undo()
    assert not (tmp_path / "manifest.json").exists()
    assert not list(tmp_path.rglob(".rocke-*[!d]")) or all(
        p.name == ".rocke-build" for p in tmp_path.rglob(".rocke-*")
    )
    assert build_library(catalogue, tmp_path, jobs=1).cached >= 2


def test_a_file_that_the_system_refuses_to_write(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(LibraryError, match="cannot be written: File too large"):
            write_file(tmp_path / "library.zip", b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["/proc/library", "{file}/library"])
def test_a_folder_that_cannot_be_made(catalogue, tmp_path, folder):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(BuildError, match="cannot be written"):
        build_library(catalogue, Path(folder.format(file=file)), jobs=1)


def test_a_part_does_not_replace_a_whole_that_has_not_ended(catalogue, tmp_path):
    """Neither where there is no manifest, nor over the one of a smaller library."""
    only = {"archs": "gfx942", "matches": lambda job: job.family == "map_to_index"}
    for before in (tmp_path / "none", tmp_path / "part"):
        if before.name == "part":
            build_library(catalogue, before, jobs=1, **only)
        count = 0

        def stop(progress):
            nonlocal count
            count += 1
            if count == 7:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            build_library(catalogue, before, jobs=1, progress=stop)
        objects = sorted(before.glob("objects/*"))
        with pytest.raises(BuildError, match=r"has not ended left \d kernels not chosen"):
            build_library(catalogue, before, jobs=1, **only)
        assert sorted(before.glob("objects/*")) == objects
        assert len(build_library(catalogue, before, jobs=1).manifest.kernels) == 8


def test_a_part_is_not_built_over_a_manifest_that_cannot_be_read(catalogue, built, tmp_path):
    folder = tmp_path / "library"
    shutil.copytree(built, folder)
    with (folder / "manifest.json").open("ab") as manifest:
        manifest.write(b" ")
    with pytest.raises(BuildError, match="its manifest cannot be read"):
        build_library(catalogue, folder, jobs=1, archs="gfx942")
    assert len(list(folder.glob("objects/*"))) == 8
    assert len(build_library(catalogue, folder, jobs=1).manifest.kernels) == 8


def test_nothing_to_build(catalogue, tmp_path):
    with pytest.raises(BuildError, match=r"nothing to build \(0 dropped, 8 not chosen by filter"):
        build_library(catalogue, tmp_path / "out", matches=lambda job: False)
    assert not (tmp_path / "out").exists()
