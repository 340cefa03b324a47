"""``rocke inspect``: what a code object says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from rocke.cli.errors import UserError
from rocke.cli.output import console, json_option, print_json, table
from rocke.compiler.code_object import CodeObject, CodeObjectError, KernelInfo

_PADDING = ("s_nop", "s_code_end")
"""Instructions that fill the end of a section."""


@click.command("inspect", short_help="Show what a code object says of itself.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--kernel", metavar="NAME", help="Only this kernel.")
@click.option(
    "-d", "--disassemble", is_flag=True, help="Show the instructions, with their source lines."
)
@json_option
def command(file: Path, kernel: str | None, disassemble: bool, as_json: bool) -> None:
    """Show what the code object FILE says of itself: resources, arguments, instructions.

    Everything is read from the bytes, whichever compiler wrote them.

    \b
    Examples:
      rocke inspect build/KERNEL.gfx950.hsaco
      rocke inspect build/KERNEL.gfx950.hsaco -d
    """
    code_object = CodeObject.from_bytes(file.read_bytes(), source=str(file))
    try:
        shown = code_object.kernels if kernel is None else (code_object.kernel(kernel),)
    except CodeObjectError as error:
        raise UserError(f"{file}: {error}") from None
    found = [_facts(code_object, info, disassemble) for info in shown]
    if as_json:
        head = {"target": code_object.target, "code_object_version": code_object.version}
        print_json({**head, "size": len(code_object.data), "kernels": found})
        return
    out = console()
    version = f"code object version {code_object.version}, {len(code_object.data):,} bytes"
    out.print(f"{file}: {code_object.target}, {version}", markup=False, soft_wrap=True)
    for facts in found:
        _show(facts)


def _facts(code_object: CodeObject, info: KernelInfo, disassemble: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": info.name,
        "symbol": info.symbol,
        "resources": {
            "VGPRs": info.vgpr,
            "of these AGPRs": info.agpr,
            "SGPRs": info.sgpr,
            "spills": info.spills,
            "bytes of LDS a workgroup": info.lds,
            "bytes of scratch a work-item": info.scratch,
        },
        "wave_size": info.wave_size,
        "max_workgroup_size": info.max_workgroup_size,
        "required_workgroup_size": info.required_workgroup_size,
        "work_item_dimensions": info.work_item_dimensions,
        "arguments": [
            {
                "name": a.name,
                "offset": a.offset,
                "size": a.size,
                "kind": a.kind,
                "type": a.type_name,
                "access": a.access,
                "restrict": a.restrict,
            }
            for a in info.arguments
        ],
    }
    if disassemble:
        facts["instructions"] = list(_instructions(code_object, info))
    return facts


def _instructions(code_object: CodeObject, info: KernelInfo) -> Iterator[dict[str, Any]]:
    """The kernel's instructions, up to the next kernel or the padding at the section's end."""
    from rocke.emulator.disassembler import disassemble
    from rocke.emulator.source_lines import SourceLines

    start, size = info.text
    ends = [k.entry for k in code_object.kernels if k.entry > info.entry and k.text == info.text]
    code = code_object.data[info.entry : min(ends, default=start + size)]
    lines = disassemble(code, code_object.arch)
    while lines and lines[-1].text.startswith(_PADDING):
        lines.pop()
    sources = SourceLines(code_object)
    for line in lines:
        yield {
            "offset": line.offset,
            "text": line.text or "(no instruction)",
            "source": sources.at(info.entry_address + line.offset),
        }


def _show(facts: dict[str, Any]) -> None:
    out = console()
    out.print(f"\n[bold]{facts['name']}[/]", soft_wrap=True)
    out.print(", ".join(f"{n} {what}" for what, n in facts["resources"].items()), soft_wrap=True)
    required, axes = facts["required_workgroup_size"], "xyz"[: facts["work_item_dimensions"]]
    size = f"exactly {required}" if required else f"at most {facts['max_workgroup_size']}"
    out.print(
        f"workgroup: {size} work-items, numbered along {', '.join(axes)}; waves of "
        f"{facts['wave_size']}",
        markup=False,
        soft_wrap=True,
    )
    columns = ["  argument", ">offset", ">size", "kind", "type", "access"]
    rows = [
        (f"  {a['name'] or '-'}", a["offset"], a["size"], a["kind"], a["type"], _access(a))
        for a in facts["arguments"]
    ]
    out.print(table(columns, rows))
    source = None
    for line in facts.get("instructions", ()):
        if line["source"] != source:
            source = line["source"]
            click.echo(f"; {source or 'no source line'}")
        click.echo(f"{line['offset']:6x}:  {line['text']}")


def _access(argument: dict[str, Any]) -> str:
    words = (argument["access"], "restrict" if argument["restrict"] else "")
    return ", ".join(word for word in words if word)
