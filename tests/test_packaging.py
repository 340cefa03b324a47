"""The wheel: a normal installation holds every module, and ``rocke.kernels``."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("rocke", "kernels", "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, source)
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*build, "-w", str(folder), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("rocke-*.whl")
    return built


@pytest.mark.normal
def test_the_wheel_holds_every_module(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    expected = {p.relative_to(ROOT).as_posix() for p in ROOT.glob("rocke/**/*.py")}
    expected |= {f"rocke/{p.relative_to(ROOT).as_posix()}" for p in ROOT.glob("kernels/**/*.py")}
    assert expected <= packed, f"missing: {sorted(expected - packed)}"
    assert "rocke/py.typed" in packed
    assert "rocke/library/manifest.schema.json" in packed
    assert "rocke/library/catalogues/attention.toml" in packed
    assert not any(name.startswith(("kernels/", "tests/")) for name in packed)


@pytest.mark.normal
def test_kernels_are_imported_from_the_wheel(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import rocke.kernels.common.sparse_attention as s; print(s.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    where = tmp_path / "rocke" / "kernels" / "common" / "sparse_attention.py"
    assert done.stdout.strip() == str(where), done.stderr


def test_the_installed_command_starts():
    rocke = Path(sys.executable).parent / "rocke"
    done = subprocess.run([rocke, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("rocke ")
