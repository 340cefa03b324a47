"""The names of the emulated device's options, for those who pass them on."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from rocke.emulator.device import EmulatedDevice


def unknown_options(given: Iterable[str], others: tuple[str, ...] = ()) -> str:
    """Which of the names are no options, and what there is; empty when all are known.

    The options are the keywords of :class:`EmulatedDevice`, and ``others`` of the caller's own.
    """
    parameters = inspect.signature(EmulatedDevice).parameters.values()
    known = [*others, *(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)]
    wrong = [name for name in given if name not in known]
    if not wrong:
        return ""
    return f"no option is called {' or '.join(wrong)}, expected some of {', '.join(known)}"
