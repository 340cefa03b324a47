import os
import subprocess
import sys

import pytest

from rocke.emulator.jit import Jit, JitError, prune
from rocke.emulator.semantics import Helper

PROGRAM = """
import numpy as np
from rocke.emulator import EmulatedDevice
from rocke.emulator.jit import jit
from tests.emulator.small_kernels import ADD, build
from tests.emulator.test_device import assert_usable
assert_usable(EmulatedDevice("gfx942"))
print(jit().compiled)
"""


def helper(name, value):
    text = f"define i32 @{name}() {{ ret i32 {value} }}"
    return Helper(name, lambda: text, can_fault=True)


def compiled_in_a_process(folder):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"XDG_CACHE_HOME": str(folder), "PATH": "/usr/bin:/bin", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_the_cache_serves_later_processes_and_survives_damage(tmp_path):
    assert compiled_in_a_process(tmp_path) > 5
    assert compiled_in_a_process(tmp_path) == 0
    files = sorted(tmp_path.rglob("*.obj"))
    assert len(files) >= 3
    for i, file in enumerate(files):
        raw = file.read_bytes()
        file.write_bytes([raw[: len(raw) // 2], b"", raw[:-100] + bytes(100)][i % 3])
    assert compiled_in_a_process(tmp_path) > 5


def test_helpers_are_compiled_once():
    compiler = Jit(None)
    helpers = [helper("one", 1), helper("two", 2)]
    addresses = compiler.helpers(helpers)
    assert compiler.compiled == 2
    assert compiler.helpers([*helpers, helper("three", 3)]).items() >= addresses.items()
    assert compiler.compiled == 3


def test_batches_of_the_folder_are_shared(tmp_path, monkeypatch):
    monkeypatch.setattr("rocke.emulator.jit._source_digest", lambda: tmp_path.name)
    Jit(tmp_path).helpers([helper("one", 1), helper("two", 2)])
    other = Jit(tmp_path)
    other.helpers([helper("two", 2)])
    assert other.compiled == 0


def test_nothing_is_written_when_the_sources_have_changed(tmp_path):
    Jit(tmp_path).helpers([helper("one", 1)])
    assert list(tmp_path.iterdir()) == []


def test_bad_generated_code_is_an_error():
    broken = Helper("broken", lambda: "define i32 @broken() { ret i32 %x }", can_fault=True)
    with pytest.raises(JitError, match="broken"):
        Jit(None).helpers([broken])


def test_old_folders_and_surplus_kernels_are_removed(tmp_path):
    current, old, recent = (tmp_path / name for name in ("current", "old", "recent"))
    for folder in (current, old, recent):
        folder.mkdir()
        (folder / "batch-1.obj").write_bytes(bytes(10))
    for i in range(5):
        (current / f"kernel-{i}.obj").write_bytes(bytes(100))
        os.utime(current / f"kernel-{i}.obj", (1000 + i, 1000 + i))
    os.utime(old, (1000, 1000))
    prune(current, unused_seconds=3600, max_bytes=250)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["current", "recent"]
    names = sorted(p.name for p in current.iterdir())
    assert names == ["batch-1.obj", "kernel-3.obj", "kernel-4.obj"]
