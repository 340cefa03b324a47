"""The compile cache: what is in the key, and what happens to files that go wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import msgpack
import pytest

from rocke.compiler import (
    CacheWarning,
    CompileCache,
    CompileOptions,
    CompileWarning,
    SpillWarning,
    compile_kernel,
    driver,
    toolchain,
)
from rocke.compiler.cache import CacheEntry, cache_key, default_folder, write_atomically
from rocke.compiler.source import KernelText, ParameterText
from rocke.compiler.toolchain import find_linker
from tests.compiler.mlir_sources import lds_kernel, register_hungry_kernel, store_ids


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "cache")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The target of each real compilation, in order."""
    seen: list[str] = []
    build = driver.build

    def counted(kernel, target, options, **rest):  # type: ignore[no-untyped-def]
        seen.append(target.name)
        return build(kernel, target, options, **rest)

    monkeypatch.setattr(driver, "build", counted)
    return seen


def files(cache: CompileCache) -> list[Path]:
    return sorted(p for p in cache.folder.rglob("*") if p.is_file())


def test_the_second_compilation_is_read_from_disk(cache: CompileCache, builds: list[str]) -> None:
    first = compile_kernel(store_ids(), "gfx950", cache=cache)
    second = compile_kernel(store_ids(), "gfx950", cache=CompileCache(cache.folder))
    assert first == second
    assert builds == ["gfx950"]
    compile_kernel(store_ids(), "gfx942", cache=cache)
    assert builds == ["gfx950", "gfx942"]
    assert len(files(cache)) == 2


def test_the_default_cache_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: list[str]
) -> None:
    from rocke.compiler import default_cache

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default_cache.cache_clear()
    try:
        compile_kernel(store_ids(), "gfx950")
        compile_kernel(store_ids(), "gfx950")
        assert default_folder() == tmp_path / "rocke" / "kernels"
        assert default_cache().folder == default_folder()
        assert len(files(default_cache())) == len(builds) == 1
    finally:
        default_cache.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the specification: ignored
    assert default_folder() == Path.home() / ".cache" / "rocke" / "kernels"


def test_everything_that_changes_the_bytes_is_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, options, linker = store_ids(), CompileOptions(), find_linker()

    def key(
        kernel: KernelText = kernel, arch: str = "gfx950", options=options, linker=linker
    ) -> str:  # type: ignore[no-untyped-def]
        return cache_key(kernel, arch, options, linker)

    change = dataclasses.replace
    keys = [
        key(),
        key(change(kernel, name="other")),
        key(change(kernel, mlir=kernel.mlir + "\n")),
        key(change(kernel, attributes={"max_workgroup_size": 128})),
        key(change(kernel, attributes={"max_workgroup_size": 64, "waves_per_eu": 2})),
        key(change(kernel, params=(ParameterText("a"), ParameterText("b")))),
        key(change(kernel, params=(ParameterText("a", readonly=True), ParameterText("b")))),
        key(arch="gfx942"),
        key(options=CompileOptions(opt_level=2)),
        key(linker=change(linker, identity="another linker")),
    ]
    for package in (*toolchain.BINDINGS_PACKAGES, "llvmlite"):
        version = toolchain.package_version
        with monkeypatch.context() as patch:
            patch.setattr(
                toolchain,
                "package_version",
                lambda p, package=package, version=version: "99" if p == package else version(p),
            )
            toolchain.fingerprint.cache_clear()
            keys.append(key())
    toolchain.fingerprint.cache_clear()
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_another_linker_has_another_identity(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path, text in ((one, "#!/bin/sh\nexit 1\n"), (two, "#!/bin/sh\nexit 2\n")):
        path.write_text(text)
        path.chmod(0o755)
    identities = {find_linker(p).identity for p in (None, str(one), str(two))}
    assert len(identities) == 3
    two.write_text(one.read_text())
    assert find_linker(str(one)).identity == find_linker(str(two)).identity


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_entry_is_rebuilt(cache: CompileCache, builds: list[str], damage: str) -> None:
    expected = compile_kernel(store_ids(), "gfx950", cache=cache)
    (path,) = files(cache)
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    path.write_bytes(data[: {"truncated": len(data) // 2, "flipped": None, "empty": 0}[damage]])
    assert compile_kernel(store_ids(), "gfx950", cache=cache) == expected
    assert builds == ["gfx950"] * 2
    assert compile_kernel(store_ids(), "gfx950", cache=cache) == expected
    assert builds == ["gfx950"] * 2


@pytest.mark.parametrize(
    "content", [5, [b"no object", []], ["text", []], [b"x", [1]], [b"x"], None, [b"x", 7]]
)
def test_a_whole_entry_that_is_none_is_rebuilt(
    cache: CompileCache, builds: list[str], content: object
) -> None:
    expected = compile_kernel(store_ids(), "gfx950", cache=cache)
    (path,) = files(cache)
    payload = msgpack.packb(content)
    path.write_bytes(hashlib.sha256(payload).digest() + payload)
    assert compile_kernel(store_ids(), "gfx950", cache=cache) == expected
    assert builds == ["gfx950"] * 2
    assert compile_kernel(store_ids(), "gfx950", cache=cache) == expected
    assert builds == ["gfx950"] * 2


def test_an_unfinished_file_lies_in_the_folder_that_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_atomically(tmp_path / "file", b"x", unfinished=tmp_path / "absent")
    tmp_path.joinpath("unfinished").mkdir()
    write_atomically(tmp_path / "file", b"x", unfinished=tmp_path / "unfinished")
    assert tmp_path.joinpath("file").read_bytes() == b"x"
    assert not list(tmp_path.joinpath("unfinished").iterdir())


def test_warnings_are_repeated_from_the_cache(cache: CompileCache, builds: list[str]) -> None:
    attributes = {"max_workgroup_size": 64, "waves_per_eu": 8}
    for _ in range(2):
        with pytest.warns(CompileWarning, match="failed to meet occupancy target"):
            compile_kernel(lds_kernel(60000, attributes=attributes), "gfx942", cache=cache)
        kernel = register_hungry_kernel(40, attributes=attributes)
        with pytest.warns(SpillWarning, match="vector registers spilled"):
            compile_kernel(kernel, "gfx942", cache=cache)
    assert builds == ["gfx942"] * 2


def test_a_folder_that_cannot_be_made_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = CompileCache(tmp_path / "file" / "cache")
    with pytest.warns(CacheWarning, match=r"cannot be .*: kernels are compiled without it"):
        first = compile_kernel(store_ids(), "gfx950", cache=cache)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_kernel(store_ids(), "gfx950", cache=cache) == first


def test_a_full_disk_is_a_warning_and_leaves_nothing_behind(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, target: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.warns(CacheWarning, match=r"cannot be written \(No space left on device\)"):
            compile_kernel(store_ids(), "gfx950", cache=cache)
    assert files(cache) == []


def test_a_cache_without_permission_to_read(cache: CompileCache) -> None:
    compile_kernel(store_ids(), "gfx950", cache=cache)
    (path,) = files(cache)
    path.unlink()
    path.mkdir()  # reading it fails for every user, the administrator included
    with pytest.warns(CacheWarning, match="cannot be read"):
        compile_kernel(store_ids(), "gfx950", cache=cache)


def test_a_user_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    cache = CompileCache(default_folder())
    with pytest.warns(CacheWarning, match="no-home-folder.* cannot be read"):
        compile_kernel(store_ids(), "gfx950", cache=cache)


def test_clear_and_size(cache: CompileCache) -> None:
    assert cache.clear() == cache.size() == 0
    for arch in ("gfx90a", "gfx942"):
        compile_kernel(store_ids(), arch, cache=cache)
    assert cache.size() == sum(p.stat().st_size for p in files(cache)) > 0
    assert cache.clear() == 2
    assert cache.size() == 0


def test_the_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, max_bytes=10_000)
    keys = [f"000{i}".ljust(64, "0") for i in (1, 2, 3, 0)]  # the last one makes room
    for age, key in enumerate(keys[:3]):
        cache.put(key, CacheEntry(bytes(4000), ()))
        os.utime(cache.path(key), (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None  # now the most recently used
    cache.put(keys[3], CacheEntry(bytes(1000), ()))
    kept = [key for key in keys if cache.path(key).exists()]
    assert kept == [keys[0], keys[2], keys[3]]
    with pytest.raises(ValueError, match="max_bytes is 0"):
        CompileCache(tmp_path, max_bytes=0)


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    (tmp_path / "00").mkdir()
    old, young = tmp_path / "00" / ".rocke-old", tmp_path / "00" / ".rocke-young"
    for path in (old, young):
        path.write_bytes(b"half an entry")
    os.utime(old, (1000, 1000))
    cache.put("0".ljust(64, "0"), CacheEntry(b"", ()))  # a key whose entry makes room
    assert not old.exists()
    assert young.exists()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_atomically(tmp_path / "taken", b"x")
    assert caught.value.filename == str(tmp_path / "taken")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


MANY = """
import sys
from rocke.compiler import CompileCache, compile_kernel
from tests.compiler.mlir_sources import store_ids
cache = CompileCache(sys.argv[1])
for _ in range(3):
    for arch in ("gfx90a", "gfx942", "gfx950"):
        print(compile_kernel(store_ids(), arch, cache=cache).sha256)
        if sys.argv[2] == "clear":
            cache.clear()
"""


@pytest.mark.normal
def test_many_processes_share_a_folder(cache: CompileCache) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", MANY, str(cache.folder), how],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for how in ("keep", "clear", "keep")
    ]
    answers = [p.communicate() for p in processes]
    assert [p.returncode for p in processes] == [0, 0, 0], answers
    assert len({out for out, _ in answers}) == 1
    assert [p for p in files(cache) if p.name.startswith(".")] == []
