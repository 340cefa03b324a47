"""``--check`` of ``rocke run``: the option and its report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rocke.runtime.device import Device, DeviceError

F = TypeVar("F", bound=Callable[..., Any])


def check_option(function: F) -> F:
    """Add ``--check[=NAMES]`` as the parameter ``check`` (None where it is not given)."""
    option = click.option(
        "--check",
        is_flag=False,
        flag_value="all",
        metavar="[NAMES]",
        help="Run in checked mode: races, undefined values, missing waits, hazards, barriers that "
        "not all waves reach, accesses outside the argument's memory. --check=race,wait for some.",
    )
    return option(function)


def has_findings(error: DeviceError) -> bool:
    """Whether a launch failed because of what the checks found."""
    return "findings" in getattr(error, "report", {})


def report_text(device: Device) -> str:
    """What the checks of the last launch found."""
    return str(getattr(device, "check_report", ""))


def report_facts(device: Device) -> dict[str, Any]:
    """The same under plain keys: for each check a list of findings."""
    report = getattr(device, "check_report", None)
    if report is None:
        return {}
    return {
        check.value: [finding.facts() for finding in found]
        for check, found in report.by_check.items()
    }
