"""``rocke build``: a spec to a code object, the texts of the stages, and a manifest.

A catalogue instead of a family is handed to :mod:`rocke.cli.build_catalogue`.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from rocke.cli.errors import OK, UserError
from rocke.cli.execute import compile_spec
from rocke.cli.output import console, json_option, print_json, table
from rocke.cli.specs import (
    check_spec,
    find_family,
    find_targets,
    linker_option,
    make_spec,
    spec_options,
)
from rocke.compiler import CodeObject, CompileOptions
from rocke.compiler.cache import write_atomically
from rocke.compiler.toolchain import find_linker, fingerprint
from rocke.compiler.worker import stages_in_worker
from rocke.kernels.registry import Family

TEXTS = {"mlir": "mlir", "ll": "optimized_ir", "s": "assembly"}
"""File suffix -> the stage that it holds."""


@click.command("build", short_help="Compile a kernel, or a library of kernels.")
@spec_options
@click.option(
    "--arch",
    "archs",
    multiple=True,
    help="Target(s), or all.  [default: gfx950; of a catalogue all of its targets]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("."),
    help="Folder to write to; it is made if needed.  [default: .]",
)
@click.option("--emit", default="", help="Texts to write beside it: mlir, ll, s, or several.")
@linker_option
@click.option("-j", "--jobs", type=click.IntRange(1), help="Catalogue: processes.  [default: all]")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="FIELD=PATTERN",
    help="Catalogue: only kernels that match (dtype=f16, 'family=vsa*', 'head_size=64|128').",
)
@click.option("--dry-run", is_flag=True, help="Catalogue: show what would be built, and what not.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    family: str,
    settings: tuple[str, ...],
    spec_file: Path | None,
    demo: bool,
    archs: tuple[str, ...],
    output: Path,
    emit: str,
    linker: str | None,
    jobs: int | None,
    filters: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Compile one kernel of FAMILY and write the code object (.hsaco) and a manifest (.json).

    Instead of FAMILY a catalogue (a name that ends in .toml, of a file or of one that comes with
    rocke) builds a library of kernels; an interrupted build goes on where it was.

    The manifest names the symbol, the arguments with their offsets, registers and LDS as the code
    object itself states them, the launch rule and the toolchain. Files appear whole or not at all.

    \b
    Examples:
      rocke build vsa --demo -o build/
      rocke build jenga -s head_size=64 -s num_query_heads=8 -s num_kv_heads=2 \\
          -s seqlen_q=1024 -s seqlen_k=1024 --arch gfx942,gfx950 -o build/
      rocke build vsa --spec spec.toml --emit mlir,ll,s
      rocke build attention.toml --filter dtype=f16 -o build/
    """
    from rocke.cli.build_catalogue import build_catalogue, is_catalogue

    of_family = ("settings", "spec_file", "demo", "emit")
    of_catalogue = ("jobs", "filters", "dry_run")
    if is_catalogue(family):
        _refuse(context, of_family, f"{family} is a catalogue")
        return build_catalogue(
            family,
            output,
            archs=find_targets(archs) if archs else [],
            filters=filters,
            jobs=jobs,
            dry_run=dry_run,
            linker=linker,
            as_json=as_json,
        )
    _refuse(context, of_catalogue, f"{family} is a family; a catalogue's name ends in .toml")
    chosen = find_family(family)
    targets = find_targets(archs or ("gfx950",))
    texts = _texts(emit)
    spec = make_spec(chosen, settings, spec_file, demo=demo)
    for arch in targets:
        check_spec(chosen, spec, arch)
    output.mkdir(parents=True, exist_ok=True)
    built = [_build(chosen, spec, arch, output, texts, linker) for arch in targets]
    if as_json:
        print_json(built)
        return OK
    out = console()
    columns = ["target", ">VGPR", ">SGPR", ">LDS bytes", ">spills", ">object bytes"]
    out.print(f"[bold]{built[0]['kernel']}[/]", soft_wrap=True)
    out.print(table(columns, [[m["arch"], *(m[k] for k in _SHOWN)] for m in built]))
    for made in built:
        for name in made["files"]:
            out.print(str(output / name), markup=False, soft_wrap=True)
    return OK


def _refuse(context: click.Context, names: tuple[str, ...], why: str) -> None:
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and given is ParameterSource.COMMANDLINE:
            raise UserError(f"{parameter.opts[-1]} does not apply: {why}")


_SHOWN = ("vgpr", "sgpr", "lds", "spills", "size")


def _texts(emit: str) -> list[str]:
    wanted = [part.strip() for part in emit.split(",") if part.strip()]
    for part in wanted:
        if part not in TEXTS:
            raise UserError(f"--emit {part!r}: expected one or more of {', '.join(TEXTS)}")
    return wanted


def _build(
    family: Family, spec: Any, arch: str, folder: Path, texts: list[str], linker: str | None
) -> dict[str, Any]:
    if texts:
        options = CompileOptions(linker=linker)
        stages = stages_in_worker(family.build(spec, arch), arch, options=options)
        code_object = stages.code_object
    else:
        code_object, _ = compile_spec(family, spec, arch, linker=linker)
    stem = f"{code_object.kernel().name}.{arch}"
    for suffix in texts:
        text = getattr(stages, TEXTS[suffix])
        write_atomically(folder / f"{stem}.{suffix}", text.encode())
    write_atomically(folder / f"{stem}.hsaco", code_object.data)
    files = [f"{stem}.{suffix}" for suffix in ("hsaco", "json", *texts)]
    made = manifest(family, spec, code_object, files, find_linker(linker).identity)
    # Last, so that a manifest always has its object beside it.
    write_atomically(folder / f"{stem}.json", (json.dumps(made, indent=2) + "\n").encode())
    return made


def manifest(
    family: Family, spec: Any, code_object: CodeObject, files: list[str], linker: str
) -> dict[str, Any]:
    """The facts of a built kernel, as plain values; ``files`` begin with the code object."""
    info, arch = code_object.kernel(), code_object.arch
    declared = zip(family.signature(spec), info.explicit_arguments, strict=True)
    return {
        "schema": 1,
        "family": family.name,
        "spec": family.flatten(spec),
        "kernel": info.name,
        "symbol": info.symbol,
        "arch": arch,
        "target": code_object.target,
        "code_object_version": code_object.version,
        "file": files[0],
        "files": files,
        "size": len(code_object.data),
        "sha256": code_object.sha256,
        "arguments": [
            {
                "name": s["name"],
                "type": s["type"],
                "offset": a.offset,
                "size": a.size,
                "access": a.access or ("read_write" if a.kind == "global_buffer" else "value"),
            }
            for s, a in declared
        ],
        "kernarg_size": info.kernarg_size,
        "grid": family.launch.text if family.launch else list(family.grid_of(spec, arch, {})),
        "block": list(family.block_of(spec, arch)),
        "wave_size": info.wave_size,
        "max_workgroup_size": info.max_workgroup_size,
        "vgpr": info.vgpr,
        "agpr": info.agpr,
        "sgpr": info.sgpr,
        "spills": info.spills,
        "lds": info.lds,
        "scratch": info.scratch,
        "units": {
            "size": "bytes",
            "offset": "bytes",
            "kernarg_size": "bytes",
            "lds": "bytes a workgroup",
            "scratch": "bytes a work-item",
            "grid": "workgroups",
            "block": "work-items",
        },
        "rocke": metadata.version("rocke"),
        "toolchain": [*fingerprint(), linker],
    }
