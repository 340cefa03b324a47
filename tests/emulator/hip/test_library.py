"""The shared library as a file: built once, kept, checked, never half there."""

import io
import subprocess
import sys

import pytest
from elftools.elf.elffile import ELFFile

from rocke.emulator.hip import library, stand_in
from rocke.emulator.hip.entry_points import PYTHON_TABLE, TABLE
from rocke.emulator.hip.signatures import PER_THREAD, SIGNATURES, UNSUPPORTED
from rocke.runtime.device import DeviceError

pytestmark = pytest.mark.normal


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_exports_every_function_and_the_tables(cache):
    elf = ELFFile(io.BytesIO(library.ensure_library().read_bytes()))
    symbols = {s.name for s in elf.get_section_by_name(".dynsym").iter_symbols() if s.name}
    assert symbols == {*SIGNATURES, *PER_THREAD, *UNSUPPORTED, TABLE, PYTHON_TABLE}
    tags = {t.entry.d_tag: t for t in elf.get_section_by_name(".dynamic").iter_tags()}
    assert tags["DT_SONAME"].soname == "libamdhip64.so"
    assert "DT_NEEDED" not in tags


def test_is_built_once(cache, monkeypatch):
    path = library.ensure_library()
    assert path.is_relative_to(cache / "rocke" / "hip")
    monkeypatch.setattr(library, "_build", lambda linker: pytest.fail("built again"))
    assert library.ensure_library() == path


@pytest.mark.parametrize("size", [0, 1000, -1])
def test_a_damaged_file_is_built_again(cache, size):
    path = library.ensure_library()
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    assert library.ensure_library() == path
    assert path.read_bytes() == whole


def test_without_a_cache_a_temporary_file_serves(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr(library.tempfile, "tempdir", str(tmp_path))
    path = library.ensure_library()
    assert path.is_relative_to(tmp_path)
    assert path.read_bytes()[:4] == b"\x7fELF"


def test_without_a_linker_says_what_to_install(cache, monkeypatch):
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match="pip install ziglang"):
        library.ensure_library()


def test_a_linker_that_fails_or_does_not_run_is_quoted(cache):
    with pytest.raises(DeviceError, match="was not linked: no such luck"):
        library.ensure_library([sys.executable, "-c", "import sys; sys.exit('no such luck')"])
    with pytest.raises(DeviceError, match=r"/absent/ld\.lld does not run"):
        library.ensure_library(["/absent/ld.lld"])


def test_another_hip_library_in_the_process_is_noticed(tmp_path, monkeypatch):
    own = tmp_path / "own" / "libamdhip64.so"
    maps = tmp_path / "maps"
    monkeypatch.setattr(stand_in, "Path", lambda *parts: maps)
    maps.write_text(f"7f00-7f01 r-xp 0 0 1 {own}\n7f02-7f03 rw-p 0 0 0 [heap]\n")
    assert stand_in.other_library(own) is None
    maps.write_text("7f00-7f01 r-xp 0 0 1 /opt/rocm/lib/libamdhip64.so.7.2 (deleted)\n")
    assert stand_in.other_library(own) == "/opt/rocm/lib/libamdhip64.so.7.2"


def test_an_open_rocm_library_is_an_error():
    script = """
import ctypes, shutil, tempfile, os
from rocke.emulator import hip
from rocke.emulator.hip.library import ensure_library
from rocke.runtime.device import DeviceError
folder = tempfile.mkdtemp()
copy = shutil.copy(ensure_library(), os.path.join(folder, "libamdhip64.so.7"))
ctypes.CDLL(copy)
try:
    hip.enable("gfx942")
except DeviceError as error:
    assert copy in str(error) and "rocke hip-env" in str(error), error
else:
    raise AssertionError("enabled beside another library")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_emulation_is_preferred_to_an_installed_rocm_when_asked_for(tmp_path, monkeypatch):
    rocm = tmp_path / "lib" / "libamdhip64.so"
    rocm.parent.mkdir()
    rocm.write_text("not a library: it must not be opened")
    script = """
from rocke.emulator import hip as stand_in
stand_in.enable("gfx90a")
from hip import hip
error, properties = hip.hipGetDeviceProperties(0)
print(properties.gcnArchName)
"""
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("gfx90a:sramecc+:xnack-\n", "")


def test_without_asking_an_installed_rocm_is_used(tmp_path, monkeypatch):
    rocm = tmp_path / "lib" / "libamdhip64.so"
    rocm.parent.mkdir()
    rocm.write_text("not a library")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    script = "import rocke.emulator.hip; from hip import hip; hip.hipGetDeviceCount()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert str(rocm) in done.stderr
