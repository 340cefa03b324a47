"""A wheel of kernels in a fresh environment, beside rocke without its compiler.

The run-time dependencies are those of the project's own environment, linked file by file: nothing
is downloaded, and nothing else is there.
"""

import re
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "ship-a-library.md"


def requirements(name, extra=""):
    """The distributions that one needs; of rocke by pyproject.toml, of others as installed."""
    texts = metadata.requires(name) or () if name != "rocke" else project_requirements(extra)
    for requirement in map(Requirement, texts):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name


def project_requirements(extra):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["optional-dependencies"][extra] if extra else project["dependencies"]


def closure(names):
    found = {}
    left = list(names)
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name not in found:
            found[name] = metadata.distribution(name)
            left += requirements(name)
    return found.values()


class Environment:
    def __init__(self, folder):
        venv.create(folder, with_pip=False)
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")

    def link(self, names):
        for distribution in closure(names):
            for file in distribution.files or ():
                if ".." in file.parts or "__pycache__" in file.parts:
                    continue
                target = self.site / file
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists():
                    target.symlink_to(distribution.locate_file(file))

    def install(self, *wheels):
        command = [sys.executable, "-m", "pip", "--python", self.python, "install"]
        done = subprocess.run(
            [*map(str, command), "--no-index", "--disable-pip-version-check", *map(str, wheels)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, *arguments, cwd):
        return subprocess.run(
            [str(self.python), "-I", *map(str, arguments)], capture_output=True, text=True, cwd=cwd
        )


@pytest.fixture(scope="module")
def rocke_wheel(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("rocke", "kernels"):
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    done = subprocess.run(
        [*build, "-w", str(folder), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("rocke-*.whl"))


def guide_file(name):
    """The text of a file that the guide writes."""
    match = re.search(rf"cat > {name} <<'END'\n(.*?)\nEND\n", GUIDE.read_text(), re.DOTALL)
    assert match, f"the guide writes no {name}"
    return match[1]


@pytest.mark.normal
def test_the_guides_wheel_is_selected_and_launched_without_a_compiler(rocke_wheel, tmp_path):
    from rocke.library import Catalogue, KernelLibrary, build_library, pack_wheel
    from rocke.library.pack import wheel_name

    catalogue = Catalogue.parse(guide_file("catalogue.toml"), "catalogue.toml")
    report = build_library(catalogue, tmp_path / "build", archs=["gfx942"], jobs=1)
    assert report.failures == ()
    library = KernelLibrary.open(tmp_path / "build")
    wheel = tmp_path / wheel_name(library)
    wheel.write_bytes(pack_wheel(library))
    (tmp_path / "use.py").write_text(guide_file("use.py"))

    clean = Environment(tmp_path / "clean")
    clean.link(requirements("rocke"))
    clean.install(rocke_wheel, wheel)
    for absent in ("mlir", "llvmlite", "ziglang", "rocm.llvm"):
        assert clean.run("-c", f"import {absent}", cwd=tmp_path).returncode != 0, absent

    chosen = clean.run("use.py", "my-kernels", cwd=tmp_path)
    assert chosen.returncode == 0, chosen.stderr
    assert "is chosen" in chosen.stdout
    assert "seqlen_q is 100, expected at most 64" in chosen.stdout

    rocke = clean.python.with_name("rocke")
    shown = clean.run(rocke, "list", "my-kernels", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "map_to_index for gfx942" in shown.stdout
    for arguments in (("pack", "my-kernels", "-o", "again"), ("diff", "my-kernels", wheel)):
        done = clean.run(rocke, *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "again" / wheel.name).read_bytes() == wheel.read_bytes()
    slip = clean.run(rocke, "list", "my-kernel", cwd=tmp_path)
    assert slip.returncode == 2
    assert "my-kernel: no such file or folder, and no installed library of that" in slip.stderr
    assert "(installed: my-kernels). If it is a kernel family: this needs mlir" in slip.stderr
    refused = clean.run(rocke, "build", "vsa", "--demo", cwd=tmp_path)
    assert refused.returncode == 1
    assert "pip install 'rocke[compiler]'" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1

    for program, extra in (
        ("from rocke.emulator import EmulatedDevice", "emulator"),
        ("import rocke; rocke.open_device('emulated')", "emulator"),
        ("from rocke.core.ir import IRBuilder", "compiler"),
        ("from rocke.kernels.registry import FAMILIES", "compiler"),
        ("from rocke.library import build_library", "compiler"),
    ):
        missing = clean.run("-c", program, cwd=tmp_path)
        assert missing.returncode == 1
        last = missing.stderr.splitlines()[-1]
        assert "which is not installed" in last, last
        assert f"pip install 'rocke[{extra}]'" in last, last

    clean.link(requirements("rocke", "emulator"))
    launched = clean.run("use.py", "my-kernels", "emulated", cwd=tmp_path)
    assert launched.returncode == 0, launched.stderr
    assert "launched:" in launched.stdout
