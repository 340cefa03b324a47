"""``rocke pack``: a built library to a wheel, a zip, or a C header."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from rocke.cli.errors import OK, UserError
from rocke.cli.libraries import library_argument
from rocke.cli.output import json_option, print_json
from rocke.library.header import c_header
from rocke.library.library import KernelLibrary
from rocke.library.pack import pack_wheel, pack_zip, wheel_name, write_file, zip_name


@click.command("pack", short_help="Package a built library as a wheel or zip.")
@library_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("."),
    help="File (.whl or .zip), or folder for a wheel of the usual name.  [default: .]",
)
@click.option("--zip", "as_zip", is_flag=True, help="A zip instead of a wheel.")
@click.option(
    "--c-header",
    "header",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write this C header for the library too.",
)
@json_option
def command(library: str, output: Path, as_zip: bool, header: Path | None, as_json: bool) -> int:
    """Package LIBRARY (a build folder, or another package of it) after checking every object.

    The wheel installs with pip, holds no code, and is found by its name. The same library gives the
    same bytes, anywhere and at any time.

    \b
    Examples:
      rocke pack build/ -o dist/
      rocke pack build/ -o attention.zip --c-header attention.h
    """
    opened = KernelLibrary.open(library)
    if opened.outdated:
        click.echo(
            f"warning: {library}: the last build into it has not ended well: this packages the "
            "library of the build before",
            err=True,
        )
    path = _target(opened, output, as_zip)
    if header is not None and header.resolve() in (path.resolve(), Path(library).resolve()):
        raise UserError(f"--c-header {header}: that is the library's file, expected another")
    data = pack_zip(opened) if path.suffix.lower() == ".zip" else pack_wheel(opened)
    write_file(path, data)
    written = [{"file": str(path), "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}]
    if header is not None:
        text = c_header(opened).encode()
        write_file(header, text)
        digest = hashlib.sha256(text).hexdigest()
        written.append({"file": str(header), "sha256": digest, "size": len(text)})
    if as_json:
        print_json(written)
    else:
        for made in written:
            click.echo(f"{made['sha256']}  {made['file']}")
    return OK


def _target(library: KernelLibrary, output: Path, as_zip: bool) -> Path:
    """The file to write, of ``-o`` and ``--zip``."""
    suffix = output.suffix.lower()
    if suffix in _OTHER_ARCHIVES and not output.is_dir():
        raise UserError(f"-o {output}: expected a file .whl or .zip, or a folder")
    if suffix not in (".whl", ".zip") or output.is_dir():
        return output / (zip_name(library) if as_zip else wheel_name(library))
    if suffix == ".whl" and (as_zip or output.name != wheel_name(library)):
        raise UserError(f"-o {output}: pip takes a wheel only by the name {wheel_name(library)}")
    return output


_OTHER_ARCHIVES = (".gz", ".tgz", ".tar", ".bz2", ".xz", ".zst", ".7z", ".rar", ".egg")
