"""What the compiler says about the tools it found."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from rocke.compiler import CompileError, toolchain
from rocke.compiler.toolchain import Linker, find_linker, fingerprint, llvm_version, tools


def test_every_tool_has_its_version_and_place() -> None:
    found = {tool.name: tool for tool in tools()}
    assert list(found) == [*toolchain.BINDINGS_PACKAGES, "llvmlite", "ziglang"]
    for name, tool in found.items():
        assert tool.version == metadata.version(name)
        assert tool.path
        assert f"-m pip install '{name}" in tool.remedy


def test_a_missing_tool_has_no_version_but_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "LINKER_PACKAGE", "no-such-package")
    tool = tools()[-1]
    assert (tool.name, tool.version, tool.path) == ("no-such-package", None, None)
    assert tool.remedy.endswith("-m pip install no-such-package")


def test_the_linker_answers() -> None:
    assert find_linker().version().startswith("LLD ")
    with pytest.raises(CompileError, match="linker /no/such does not run"):
        Linker(("/no/such",), "none").version()


def test_both_halves_are_the_same_llvm() -> None:
    """IR text passes from the bindings to the code generator, so the major versions must agree."""
    bindings = metadata.version(toolchain.BINDINGS_PACKAGES[0])
    assert llvm_version().split(".")[0] == bindings.split(".")[0]


def test_the_fingerprint_names_each_package() -> None:
    text = " ".join(fingerprint())
    for package in (*toolchain.BINDINGS_PACKAGES, "llvmlite"):
        assert f"{package} {metadata.version(package)}" in text


def test_reading_code_objects_needs_no_compiler() -> None:
    program = (
        "import sys; import rocke.compiler.code_object, rocke.compiler.line_table; "
        "print([m for m in ('mlir', 'llvmlite', 'rocke.core') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
