"""The kernels around a pattern as the registry lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..family import Family, Field, LaunchRule
from .block_means import BLOCK_MEANS
from .companion import Companion
from .deltas import DELTAS_TO_INDEX, INDEX_TO_DELTAS
from .inversion import INVERT_INDEX
from .lists import INDEX_TO_MAP, MAP_TO_INDEX
from .row_order import ROW_ORDER
from .top_k import TOP_K

COMPANIONS = (
    *(MAP_TO_INDEX, INDEX_TO_MAP, INVERT_INDEX, INDEX_TO_DELTAS),
    *(DELTAS_TO_INDEX, ROW_ORDER, TOP_K, BLOCK_MEANS),
)

_ELEMENT_BYTES = 20
"""Of one element of a problem: as float64 or int64, the mask beside it, and what is kept."""


def _elements(spec: Any, n: Mapping[str, Any]) -> int:
    """About as many elements as the arrays of a problem have, by its options."""
    if "tokens" in n:
        return int(n["batch"] * n["heads"] * n["tokens"] * spec.head_size)
    rows = int(n["rows"] if "rows" in n else n["matrices"] * n["num_q_blocks"])
    if "num_k_blocks" not in n:
        return rows
    inverse = n["matrices"] * n["num_k_blocks"] * n["inverse_width"] if "inverse_width" in n else 0
    return int(rows * (n["num_k_blocks"] + n["width"]) + inverse)


_COMMON_HELP = {
    "waves": "wavefronts of a workgroup, 1 to 16",
    "name": "start of the kernel's name",
}


def _family(companion: Companion) -> Family:
    spec_type = companion.spec_type
    texts = {**_COMMON_HELP, **companion.field_help}

    def assemble(values: Mapping[str, Any]) -> Any:
        return spec_type(**values)

    return Family(
        name=companion.name,
        summary=companion.summary,
        spec_type=spec_type,
        fields=tuple(
            Field(f.name, type(f.default), f.default, texts[f.name]) for f in fields(spec_type)
        ),
        flatten=lambda spec: dict(vars(spec)),
        assemble=assemble,
        validate=companion.validate,
        build=companion.build,
        signature=companion.signature,
        limits=companion.limits,
        make_problem=companion.make_problem,
        reference=companion.reference,
        tolerance=lambda spec: 0.0,
        problem_bytes=lambda spec, options: _ELEMENT_BYTES * _elements(spec, options),
        kernel_name=lambda spec, arch: spec.kernel_name(),
        launch=LaunchRule(
            grid=lambda spec, arch, arguments: companion.grid(spec, arguments),
            block=lambda spec, arch: spec.block,
            matrix_instructions=lambda spec, arch, arguments: 0,
            text=companion.grid_text,
        ),
        tuning=("waves",),
    )


COMPANION_FAMILIES = tuple(_family(c) for c in COMPANIONS)
"""One family for each kernel."""
