"""Kernels that this project did not compile run on the emulated device and give right results."""

from __future__ import annotations

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice
from tests.corpus import cases
from tests.corpus.cases import Case

ALL = cases.load()
LIMIT = 2_000_000
"""Instructions a wave: more than ten times what the longest case takes."""

QUICK = {
    "vector_add_f32",
    "softmax_f32_w4",
    "matmul_f16_64x64x32_w4s2",
    "attention_f16_d64_w4s1",
    "sparse_attention_bf16_d128_64_w4s1",
    "scan_f32",
    "atomic_add_f32",
    "integer_i64",
    "saxpy",
    "sparse_attention_16x16_d64",
    "nested_calls",
    "dpp",
    "sdwa",
}
"""Cases of every kind, for gfx950, that run while one works; the rest take minutes."""


def parameters() -> list[ParameterSet]:
    def marks(case: Case) -> list[pytest.MarkDecorator]:
        quick = case.name in QUICK and case.arch == "gfx950"
        return [] if quick else [pytest.mark.normal]

    return [pytest.param(case, id=case.id, marks=marks(case)) for case in ALL]


@pytest.fixture(scope="module")
def devices() -> dict[str, EmulatedDevice]:
    return {a: EmulatedDevice(a, max_instructions=LIMIT) for a in ("gfx90a", "gfx942", "gfx950")}


def read(case: Case) -> CodeObject:
    """The object, its metadata compared with what the manifest declares."""
    code_object = case.code_object()
    assert (code_object.arch, code_object.version) == (case.arch, 5)
    kernel = code_object.kernel(case.kernel)
    assert kernel.wave_size == 64
    assert int(np.prod(case.block)) <= kernel.max_workgroup_size
    kinds = [slot.kind == "global_buffer" for slot in kernel.explicit_arguments]
    declared = [argument["type"].startswith("*") for argument in case.record["arguments"]]
    assert kinds[: len(declared)] == declared
    return code_object


def outcome(device: EmulatedDevice, case: Case) -> dict[str, str]:
    """Run a case; what is wrong with each wrong output, and the inputs that were written."""
    problem = case.problem()
    kernel = device.load(read(case), case.kernel)
    arrays = {k: v.copy() for k, v in problem.arguments.items() if isinstance(v, np.ndarray)}
    buffers = {name: device.wrap(array) for name, array in arrays.items()}
    try:
        addresses = {name: buffer.address for name, buffer in buffers.items()}
        packed = case.pack(problem, addresses, kernel.info)
        device.launch(kernel, case.grid, case.block, packed, dynamic_lds=case.dynamic_lds)
        device.synchronize()
    finally:
        for buffer in buffers.values():
            device.free(buffer)
    found = {name: e.mismatch(arrays[name]) for name, e in problem.expected.items()}
    changed = [
        name
        for name, array in arrays.items()
        if name not in problem.expected
        and array.tobytes() != np.asarray(problem.arguments[name]).tobytes()
    ]
    wrong = {name: text for name, text in found.items() if text is not None}
    return {**wrong, **{name: "an input was written" for name in changed}}


@pytest.mark.parametrize("case", parameters())
def test_result_is_right(case: Case, devices: dict[str, EmulatedDevice]) -> None:
    assert outcome(devices[case.arch], case) == {}


def test_every_stored_object_is_used() -> None:
    stored = {str(p.relative_to(cases.FOLDER)) for p in cases.FOLDER.glob("objects/**/*.xz")}
    assert stored == {o["file"] for c in ALL for o in c.record["objects"].values()}


@pytest.mark.normal
def test_a_mismatch_is_noticed() -> None:
    """The comparison of every case fails when one element of an output is off."""
    for case in {c.name: c for c in ALL}.values():
        problem = case.problem()
        for name, expected in problem.expected.items():
            output = np.asarray(problem.arguments[name])
            right = expected.value.astype(output.dtype)
            assert right.shape == output.shape, case.name
            assert expected.mismatch(right) is None, case.name
            wrong = right.copy()
            at = wrong.size // 2
            with np.errstate(over="ignore"):
                wrong.flat[at] = wrong.dtype.type(7) - wrong.flat[at] * wrong.dtype.type(2)
            assert expected.mismatch(wrong) is not None, case.name


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_damaged_objects_leave_the_device_usable(
    arch: str, devices: dict[str, EmulatedDevice]
) -> None:
    case = next(c for c in ALL if c.arch == arch and c.name == "vector_add_f32")
    data = case.code_object().data
    for cut in (1, len(data) // 2, 100):
        with pytest.raises(ValueError, match="code object"):
            CodeObject.from_bytes(data[:-cut])
    assert outcome(devices[arch], case) == {}
