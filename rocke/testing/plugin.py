"""pytest fixtures that run kernels on the emulated device, and on the GPU where there is one.

``rocke_device`` is a device; ``rocke_run`` runs a kernel on it (:func:`rocke.testing.run_kernel`);
``rocke_hip`` is the module ``hip`` of ``hip-python``, ready to be called. A test that fails in the
device shows the device's report. Options: ``--rocke-arch``, ``--rocke-device``, ``--rocke-check``;
the marker ``rocke`` sets the same, and options of the emulated device, for a test.

pytest imports this module at every start: only pytest and the standard library load with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

DEVICES = ("auto", "emulated", "hip")
MARKER_OPTIONS = ("arch", "device")
"""What the marker takes besides the emulated device's own options."""
DEFAULT_ARCH = "gfx950"
MAX_INSTRUCTIONS = 20_000_000
"""Instructions of one wave after which a test's kernel counts as looping."""

_FAILED = pytest.StashKey[bool]()
"""Whether a test did not come to its end."""


@dataclass(frozen=True)
class Choice:
    """One device to run a test on. ``options`` goes to the emulated device."""

    kind: str
    arch: str | None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}-{self.arch}" if self.arch else self.kind


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("rocke", "AMD GPU kernels")
    group.addoption(
        "--rocke-arch",
        action="append",
        default=[],
        metavar="ARCH",
        help=f"Target to test on, as gfx942; may be repeated (default: {DEFAULT_ARCH}).",
    )
    group.addoption(
        "--rocke-device",
        choices=DEVICES,
        default="auto",
        help="emulated, hip (a GPU), or auto: emulated, and a GPU where there is one.",
    )
    group.addoption(
        "--rocke-check",
        action="store_true",
        help="Run emulated kernels in checked mode: races, waits, hazards and more.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line(
        "markers",
        "rocke(arch=..., device=..., **options): targets and device for the rocke fixtures; "
        "options such as check or max_instructions go to the emulated device",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each device."""
    config = metafunc.config
    for name, find in (("rocke_device", device_choices), ("rocke_hip", hip_choices)):
        if name in metafunc.fixturenames:
            settings = _settings(config, metafunc.definition)
            metafunc.parametrize(name, find(*settings), indirect=True, ids=str)


def _settings(
    config: pytest.Config, definition: Any
) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """Device, targets and options of the emulated device; the test's own marker comes first."""
    options: dict[str, Any] = {"max_instructions": MAX_INSTRUCTIONS}
    if config.getoption("--rocke-check"):
        options["check"] = True
    for marker in reversed(list(definition.iter_markers("rocke"))):
        if marker.args:
            given = ", ".join(map(repr, marker.args))
            raise pytest.Collector.CollectError(
                f"marker rocke of {definition.nodeid}: {given} without a name, expected arch=..., "
                "device=... or an option of the emulated device"
            )
        options |= marker.kwargs
    arch = options.pop("arch", None) or config.getoption("--rocke-arch")
    device = options.pop("device", None) or config.getoption("--rocke-device")
    if device not in DEVICES:
        raise pytest.Collector.CollectError(
            f"marker rocke: device is {device!r}, expected one of {DEVICES}"
        )
    return device, (arch,) if isinstance(arch, str) else tuple(arch), options


def device_choices(device: str, archs: tuple[str, ...], options: Mapping[str, Any]) -> list[Choice]:
    """The devices of ``rocke_device``: emulated ones, and a GPU of a wanted target."""
    emulated = [Choice("emulated", arch, options) for arch in archs or (DEFAULT_ARCH,)]
    if device == "emulated":
        return emulated
    if device == "hip":
        return [Choice("hip", None, {"archs": archs})]
    found = gpu()
    return [*emulated, Choice("hip", found)] if found and found in (archs or (found,)) else emulated


def hip_choices(device: str, archs: tuple[str, ...], options: Mapping[str, Any]) -> list[Choice]:
    """What is behind ``rocke_hip``: a GPU, else the stand-in; a process can have only one."""
    if device == "hip" or (device == "auto" and gpu()):
        return [Choice("hip", None, {"archs": archs})]
    return [Choice("emulated", arch, options) for arch in archs or (DEFAULT_ARCH,)]


@functools.cache
def gpu() -> str | None:
    """The target of the first GPU of this machine."""
    from rocke.runtime.hip_device import HipDevice, HipUnavailable

    try:
        found = HipDevice()
    except HipUnavailable:
        return None
    return None if found.emulated else found.arch


@pytest.fixture
def rocke_device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device (:class:`rocke.runtime.Device`), emulated or real."""
    choice: Choice = request.param
    if choice.kind == "emulated":
        emulated = _emulated(choice)
        yield emulated
        left = ", ".join(emulated.never_launched)
        if left and not request.node.stash.get(_FAILED, False):
            pytest.fail(f"expect_written: no launch followed for {left}", pytrace=False)
        return
    from rocke.runtime import open_device

    device: Any = open_device("hip")
    try:
        _skip_other_gpu(device.arch, choice)
        yield device
    finally:
        device.close()


@pytest.fixture
def rocke_run(rocke_device: Any) -> Callable[..., None]:
    """Run a kernel once: :func:`rocke.testing.run_kernel` with the device filled in."""
    from rocke.runtime import ArgumentError, DeviceError
    from rocke.testing.running import run_kernel

    def run(*arguments: Any, **named: Any) -> None:
        __tracebackhide__ = True
        try:
            run_kernel(rocke_device, *arguments, **named)
            return
        except (ArgumentError, DeviceError) as error:
            # What a kernel or a call did wrong is in the text, not in the frames of the emulator.
            failed = error.with_traceback(None)
        raise failed

    return run


@pytest.fixture
def rocke_hip(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The module ``hip`` of ``hip-python``, with a GPU behind it or a fresh emulated one."""
    choice: Choice = request.param
    if choice.kind == "emulated":
        from rocke.emulator import hip as stand_in

        _switch_on(choice)
    from hip import hip

    if choice.kind == "emulated":
        try:
            yield hip
        finally:
            stand_in.disable()
        return
    from rocke.runtime import open_device

    found: Any = open_device("hip")
    _skip_other_gpu(found.arch, choice)
    yield hip


def _emulated(choice: Choice) -> Any:
    from rocke.emulator import EmulatedDevice
    from rocke.emulator.checks.kinds import UnknownCheck
    from rocke.emulator.options import unknown_options
    from rocke.runtime import DeviceError

    refused = unknown_options(choice.options, MARKER_OPTIONS)
    try:
        if not refused:
            return EmulatedDevice(choice.arch or DEFAULT_ARCH, **choice.options)
    except (DeviceError, TypeError, UnknownCheck) as error:
        refused = str(error)
    # Outside the handler, so that the report is this line alone.
    pytest.fail(f"emulated device {choice.arch}: {refused}", pytrace=False)


def _switch_on(choice: Choice) -> None:
    from rocke.emulator import hip as stand_in
    from rocke.emulator.checks.kinds import UnknownCheck
    from rocke.emulator.options import unknown_options
    from rocke.runtime import DeviceError

    refused = unknown_options(choice.options, (*MARKER_OPTIONS, "memory", "linker"))
    try:
        if not refused:
            stand_in.enable(choice.arch or DEFAULT_ARCH, **choice.options)
            return
    except (DeviceError, TypeError, UnknownCheck) as error:
        refused = str(error)
    pytest.fail(f"HIP on the emulated device {choice.arch}: {refused}", pytrace=False)


def _skip_other_gpu(arch: str, choice: Choice) -> None:
    archs = choice.options.get("archs", ())
    if archs and arch not in archs:
        pytest.skip(f"the GPU is {arch}, the test is for {', '.join(archs)}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Show the device's report below a failure that came from a device."""
    outcome = yield
    if call.excinfo is None or call.when != "call":
        return
    item.stash[_FAILED] = True
    result = outcome.get_result()
    if not result.failed:
        return
    text = fault_text(call.excinfo.value) or _stand_in_text(item)
    if text:
        result.sections.append(("rocke device report", text))


def fault_text(error: BaseException | None) -> str:
    """The facts of a kernel's fault, one a line; empty for other exceptions."""
    names = {c.__name__ for c in type(error).__mro__ if c.__module__.startswith("rocke.")}
    report = getattr(error, "report", None)
    if "DeviceError" not in names or not isinstance(report, Mapping):
        return ""
    # The text of a checked launch has the facts of each finding.
    facts = {} if "findings" in report else report
    return "\n".join(
        [str(error), *(f"  {key}: {_shown(key, value)}" for key, value in facts.items())]
    )


def _shown(key: str, value: Any) -> str:
    if key == "lanes" and isinstance(value, (list, tuple)):
        return _ranges(value)
    hexadecimal = key in ("pc", "address", "exec") and isinstance(value, int)
    return hex(value) if hexadecimal else str(value)


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers with runs drawn together: ``0-3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)


def _stand_in_text(item: pytest.Item) -> str:
    fixtures = getattr(item, "fixturenames", ())
    choice = getattr(getattr(item, "callspec", None), "params", {}).get("rocke_hip")
    if "rocke_hip" not in fixtures or choice is None or choice.kind != "emulated":
        return ""
    from rocke.emulator import hip as stand_in

    return fault_text(stand_in.last_fault()) or stand_in.last_failure() or ""
