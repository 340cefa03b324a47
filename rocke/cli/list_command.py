"""``rocke list``: kernel families, their fields, and targets; or what a library holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocke.arch import TARGETS
from rocke.cli.errors import UserError, missing_extra
from rocke.cli.output import console, json_option, print_json, table

if TYPE_CHECKING:
    from rocke.kernels.registry import Family


@click.command("list", short_help="Show kernel families and targets, or a library.")
@click.argument("family", metavar="[FAMILY | LIBRARY]", required=False)
@json_option
def command(family: str | None, as_json: bool) -> None:
    """Show kernel families, their fields with defaults, and targets; or the kernels of LIBRARY (a
    build folder, a zip, a wheel, or the name of an installed library).

    \b
    Examples:
      rocke list
      rocke list vsa
      rocke list build/ --json
    """
    from rocke.cli.list_library import is_library, list_library

    if family is not None and is_library(family):
        list_library(family, as_json)
        return
    # The families need the compiler's packages; a library is listed without them.
    try:
        from rocke.cli.specs import find_family
        from rocke.kernels.registry import FAMILIES
    except ModuleNotFoundError as error:
        if family is None or not (advice := missing_extra(error)):
            raise
        from rocke.library.store import not_found

        raise UserError(f"{not_found(family)}. If it is a kernel family: {advice}") from None

    shown = list(FAMILIES.values()) if family is None else [find_family(family)]
    if as_json:
        print_json({"families": [_family(f) for f in shown], "targets": _targets()})
        return
    out = console()
    for f in shown:
        out.print(f"[bold]{f.name}[/]: {f.summary}")
        rows = [(field.name, _default(field), _help(field)) for field in f.fields]
        out.print(table(["  field", "default", "meaning"], [(f"  {n}", d, h) for n, d, h in rows]))
        shown_options = ", ".join(f"{n} ({_option(d)})" for n, d in f.problem_options.items())
        out.print(f"  problem options (rocke run -p): {shown_options}", markup=False)
        out.print()
    out.print("[bold]targets[/]")
    facts = [(f"  {t['name']}", t["compute_units"], t["lds_bytes"]) for t in _targets()]
    out.print(table(["  name", ">compute units", ">LDS bytes a workgroup"], facts))


def _family(family: Family) -> dict[str, Any]:
    return {
        "name": family.name,
        "summary": family.summary,
        "fields": [
            {
                "name": f.name,
                "type": f.type.__name__,
                "required": f.required,
                "default": None if f.required else f.default,
                "choices": list(f.choices),
                "help": f.help,
            }
            for f in family.fields
        ],
    }


def _option(default: Any) -> str:
    return "chosen by default" if default is None else str(default)


def _targets() -> list[dict[str, Any]]:
    return [
        {
            "name": t.name,
            "compute_units": t.compute_units,
            "wave_size": t.wave_size,
            "lds_bytes": t.lds_bytes,
        }
        for t in TARGETS.values()
    ]


def _default(field: Any) -> str:
    return "required" if field.required else str(field.default)


def _help(field: Any) -> str:
    choices = f" ({', '.join(map(str, field.choices))})" if field.choices else ""
    return f"{field.help}{choices}"
