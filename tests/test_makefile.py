"""The Makefile: what it says when Python is not as needed, and what it installs."""

import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(folder, *arguments):
    # A make that runs these tests must not lend its flags and its directory messages.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def python_that(folder, *, fails_on):
    (folder / "a b").mkdir()
    script = folder / "a b" / "python"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *"{fails_on}"*) exit 1;; esac\nexec "{sys.executable}" "$@"\n'
    )
    script.chmod(0o755)
    return f"PYTHON={script}"


@pytest.mark.parametrize(
    ("fails_on", "message"),
    [
        (
            "import venv",
            "has no venv module: install it (Debian, Ubuntu: apt install python3-venv)",
        ),
        ("version_info", "Python 3.10 or newer is needed; run make PYTHON=python3.12"),
    ],
)
def test_an_unfit_python_gives_one_line_that_says_what_to_do(folder, fails_on, message):
    done = make(folder, "demo", python_that(folder, fails_on=fails_on))
    assert done.returncode != 0
    assert len(done.stdout.splitlines()) == 1
    assert message in done.stdout
    assert not (folder / ".venv").exists()


def test_a_missing_python_gives_one_line(folder):
    done = make(folder, "test", "PYTHON=/nowhere/python")
    assert done.returncode != 0
    assert done.stdout.startswith("/nowhere/python was not found: install Python 3.10")


def test_the_second_time_installs_nothing(folder):
    (folder / ".venv").mkdir()
    (folder / ".venv" / ".installed").touch()
    for target in ("demo", "test", "check"):
        assert "pip install" not in make(folder, "-n", target).stdout
    (folder / "pyproject.toml").touch()
    assert "pip install" in make(folder, "-n", "demo").stdout


def test_every_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1] != "#"]
    assert all(re.match(r"[\w.-]+==[\w.]+(; |$)", pin) for pin in pins)
    pinned = {pin.split("==")[0].lower() for pin in pins}
    others = [r for r in wanted if not r.startswith("rocke[")]
    assert {re.match(r"[\w.-]+", r).group().lower() for r in others} <= pinned


def test_continuous_integration_runs_the_tests():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line for line in lines if line and not line.startswith("#")]
    assert commands[-1] == "exec make test"


@pytest.mark.parametrize("target", ["demo", "test", "test-quick", "test-slow", "check", "bench"])
def test_every_target_is_in_the_help(target):
    shown = make(ROOT, "help").stdout
    assert re.search(rf"^make {target} ", shown, re.MULTILINE)
