"""The C header: compiled by the machine's C and C++ compilers, its struct filled and compared."""

import ctypes
import shutil
import subprocess
from dataclasses import replace

import pytest

from rocke.library import KernelLibrary, c_header
from rocke.library.header import c_name, c_prefix
from rocke.runtime.packing import pack, parse_signature

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
CXX = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


@pytest.fixture(scope="module")
def header(library, tmp_path_factory):
    path = tmp_path_factory.mktemp("header") / "kernels.h"
    path.write_text(c_header(library))
    return path


def test_there_is_a_c_compiler():
    assert CC is not None, "these tests need a C compiler (cc)"


def values_of(entry):
    """A value of each argument that fills all of its bytes, and how C writes it."""
    found = {}
    for number, argument in enumerate(entry.arguments, 1):
        if argument.type.startswith("ptr<"):
            value = 0x1122334455660000 + number
            found[argument.name] = (value, f"(void *){value:#x}ull")
        elif argument.type == "f32":
            found[argument.name] = (0.5 + number, f"{0.5 + number}f")
        else:
            value = -number * 0x01020304 % 2**31 * (-1) ** number
            found[argument.name] = (value, str(value))
    return found


@pytest.mark.parametrize("standard", ["c11", "c17"])
def test_the_struct_holds_the_bytes_that_the_launcher_packs(library, header, standard, tmp_path):
    for kernel in library.kernels:
        entry, prefix = kernel.entry, c_prefix(kernel.entry)
        values = values_of(entry)
        sets = "".join(f"args.{c_name(n)} = {c}; " for n, (_, c) in values.items())
        names = [n for n in ("rows", "batch") if f"uint32_t {n}" in _grid_line(header, prefix)]
        grid = "".join(f", {10 + i}" for i, _ in enumerate(names))
        source = f"""
#include <stdio.h>
#include <string.h>
#include "kernels.h"
int main(void) {{
    {prefix}_args args;
    unsigned int grid[3];
    memset(&args, 0, sizeof args);
    {sets}
    {prefix}_grid(grid{grid});
    fwrite(&args, 1, {prefix}_ARGS_SIZE, stdout);
    fprintf(stderr, "%s %s %u %u %u %u", {prefix}_SYMBOL, {prefix}_SHA256, grid[0], grid[1],
            grid[2], {prefix}_BLOCK_X);
    return 0;
}}
"""
        path = tmp_path / "program.c"
        path.write_text(source)
        program = compiled([CC, f"-std={standard}", "-x", "c"], path, header)
        done = subprocess.run([program], capture_output=True, check=True)
        info = kernel.code_object().kernel()
        packed = pack(
            parse_signature(entry.signature), info, {n: v for n, (v, _) in values.items()}
        )
        assert done.stdout == packed
        expected = kernel.grid({n: 10 + i for i, n in enumerate(names)})
        said = f"{info.name} {entry.sha256} {' '.join(map(str, expected))} {entry.block[0]}"
        assert done.stderr.decode() == said


def _grid_line(header, prefix):
    return next(x for x in header.read_text().splitlines() if f"void {prefix}_grid(" in x)


def compiled(command, source, header):
    program = source.with_suffix(".out")
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{header.parent}"]
    done = subprocess.run(
        [*command, *flags, str(source), "-o", str(program)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.skipif(CXX is None, reason="no C++ compiler on this machine")
def test_the_header_is_cxx_too(header, tmp_path):
    source = tmp_path / "program.cpp"
    source.write_text('#include "kernels.h"\n#include "kernels.h"\nint main() { return 0; }\n')
    strict = ("-Wold-style-cast", "-Wconversion", "-Wzero-as-null-pointer-constant")
    compiled([CXX, "-std=c++11", "-Wno-unused-function", *strict], source, header)


@pytest.mark.parametrize("compiler", ["c11", "c++11"])
def test_headers_of_libraries_that_share_kernels_go_together(library, header, compiler, tmp_path):
    """As long as they are the same kernels."""
    manifest = library.manifest
    first, *others = manifest.kernels
    changed = replace(first, sha256="0" * 64)
    for name, kernels in (("same", manifest.kernels), ("other", (changed, *others))):
        made = KernelLibrary(library._store, replace(manifest, name=name, kernels=kernels))
        (tmp_path / f"{name}.h").write_text(c_header(made))
    command = [CC, "-std=c11", "-Werror"] if compiler == "c11" else [CXX, "-std=c++11", "-Werror"]
    suffix = "c" if compiler == "c11" else "cpp"
    for name in ("same", "other"):
        text = f'#include "{header}"\n#include "{name}.h"\nint main(void) {{ return 0; }}\n'
        source = tmp_path / f"{name}.{suffix}"
        source.write_text(text)
        done = subprocess.run(
            [*command, source, "-o", tmp_path / name], capture_output=True, text=True
        )
        assert (done.returncode == 0) == (name == "same"), done.stderr
        if name == "other":
            assert f"{c_prefix(first)}: another library has another kernel" in done.stderr


def test_a_wrong_offset_does_not_compile(library, header, tmp_path):
    text = header.read_text()
    prefix = c_prefix(library.kernels[0].entry)
    changed = text.replace(
        f"typedef struct {prefix}_args {{", f"typedef struct {prefix}_args {{ char x;"
    )
    assert changed != text
    tmp_path.joinpath("kernels.h").write_text(changed)
    source = tmp_path / "program.c"
    source.write_text('#include "kernels.h"\nint main(void) { return 0; }\n')
    done = subprocess.run(
        [CC, "-std=c11", "-c", str(source), "-o", "/dev/null"], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "static assertion failed" in done.stderr.replace("_Static_assert", "static assertion")


def test_pointers_are_as_wide_as_the_devices():
    assert ctypes.sizeof(ctypes.c_void_p) == 8
