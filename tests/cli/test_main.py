"""The command itself: help, exit codes, errors, start-up."""

import subprocess
import sys

import click
import pytest

from rocke.cli import main as module
from rocke.cli.errors import explain
from rocke.cli.main import COMMANDS, cli
from rocke.runtime import ArgumentError, DeviceError


def test_help_lists_every_command(rocke):
    result = rocke("--help")
    assert result.code == 0
    for name, (_, help_) in COMMANDS.items():
        assert name in result.out
        assert help_ in result.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(rocke, name):
    result = rocke(name, "--help")
    assert result.code == 0
    assert f"  rocke {name}" in result.out
    assert "--json" in result.out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_is_the_command_s_own(name):
    command = cli.get_command(click.Context(cli), name)
    assert command.short_help == COMMANDS[name][1]
    assert command.name == name


def test_without_arguments_the_help_is_shown(rocke):
    result = rocke()
    assert result.code == 2
    assert "Commands:" in result.out


def test_an_unknown_command_is_one_line(rocke):
    result = rocke("biuld")
    assert result.code == 2
    assert "biuld" in result.error


def test_an_unknown_option_is_one_line_with_the_way_to_help(rocke):
    result = rocke("list", "--jsn")
    assert result.code == 2
    assert "--jsn" in result.error
    assert "rocke list --help" in result.error


def test_version(rocke):
    assert rocke("--version").out.startswith("rocke 0.")


def test_errors_are_json_too_when_json_is_asked_for(rocke):
    result = rocke("list", "nothing", "--json")
    assert result.code == 2
    assert result.json == {"error": result.error}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ArgumentError("argument 'x': wrong"), 2),
        (DeviceError("hipMalloc: out\nof memory"), 1),
        (FileNotFoundError(2, "No such file or directory", "a.json"), 2),
        (OSError(28, "No space left on device"), 1),
        (MemoryError("Unable to allocate 2.00 TiB"), 1),
    ],
)
def test_errors_of_rocke_have_exit_codes(error, code):
    report = explain(error)
    assert report.exit_code == code
    assert "\n" not in report.message


def test_a_bug_keeps_its_traceback(rocke, monkeypatch):
    monkeypatch.setattr(module, "cli", type("Broken", (), {"main": lambda *a, **k: 1 / 0})())
    with pytest.raises(ZeroDivisionError):
        module.main(["list"])


def test_python_m_is_the_command(tmp_path):
    command = [sys.executable, "-m", "rocke", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith("rocke 0.")


def test_a_full_disk_is_one_line():
    command = [sys.executable, "-m", "rocke", "list"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: No space left on device\n"


def test_help_loads_no_numerics():
    code = (
        "import sys\nfrom rocke.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'mlir', 'llvmlite', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_warnings_are_lines_without_source_code(rocke, capsys, monkeypatch):
    def warn(*arguments, **keywords):
        import warnings

        warnings.warn("12 registers spilled", stacklevel=1)

    monkeypatch.setattr(module, "cli", type("Warning_", (), {"main": warn})())
    result = rocke("list")
    assert result.err == "warning: 12 registers spilled\n"
