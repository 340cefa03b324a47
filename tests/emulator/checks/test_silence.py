"""The checks are silent on right kernels: the project's own, those of other compilers, and the
hand-written assembly of the corpus.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from rocke.compiler import compile_kernel
from rocke.emulator import EmulatedDevice
from rocke.kernels.registry import FAMILIES
from rocke.runtime import Launcher
from tests.corpus import cases
from tests.corpus.cases import Case

ARCHS = ("gfx90a", "gfx942", "gfx950")
COMPILED = cases.load(("triton", "opencl"))
ASSEMBLY = cases.load(("assembly",))
SOME = [c for c in COMPILED if c.arch == "gfx950"][::60] + COMPILED[7::180]


@functools.cache
def device(arch: str, seed: int = 0) -> EmulatedDevice:
    return EmulatedDevice(arch, check=True, seed=seed, max_instructions=2_000_000)


def run_case(case: Case, seed: int) -> None:
    """Launch in checked mode; raises what the checks find. The results must be right."""
    checked = device(case.arch, seed)
    problem = case.problem()
    kernel = checked.load(case.code_object(), case.kernel)
    arrays = {k: v.copy() for k, v in problem.arguments.items() if isinstance(v, np.ndarray)}
    buffers = {name: checked.wrap(array) for name, array in arrays.items()}
    try:
        addresses = {name: buffer.address for name, buffer in buffers.items()}
        packed = case.pack(problem, addresses, kernel.info)
        checked.launch(kernel, case.grid, case.block, packed, dynamic_lds=case.dynamic_lds)
    finally:
        for buffer in buffers.values():
            checked.free(buffer)
    wrong = {n: e.mismatch(arrays[n]) for n, e in problem.expected.items()}
    assert {n: text for n, text in wrong.items() if text is not None} == {}


@pytest.mark.normal
@pytest.mark.parametrize("case", SOME, ids=lambda case: case.id)
def test_some_kernels_of_other_compilers(case: Case) -> None:
    run_case(case, seed=1)


@pytest.mark.normal
@pytest.mark.parametrize("case", ASSEMBLY, ids=lambda case: case.id)
def test_all_kernels_in_assembly(case: Case) -> None:
    run_case(case, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("case", COMPILED, ids=lambda case: case.id)
def test_all_kernels_of_other_compilers(case: Case) -> None:
    run_case(case, seed=0)


@pytest.mark.normal
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_families_of_this_project(name: str, arch: str) -> None:
    family = FAMILIES[name]
    spec = family.make_spec(dict(family.demo))
    code_object = compile_kernel(family.build(spec, arch), arch)
    outputs = []
    for seed in (0, 1):
        checked = device(arch, seed)
        problem = family.make_problem(spec, np.random.default_rng(0))
        launch = Launcher.of_family(checked, code_object, family, spec, problem.arguments)
        reference = family.reference(spec, problem)
        for output in problem.outputs:
            where = ~np.isnan(reference[output])
            checked.expect_written(problem.arguments[output], output, where=where)
        launch(**problem.arguments)
        assert checked.check_report.findings == ()
        outputs.append([problem.arguments[output].tobytes() for output in problem.outputs])
    assert outputs[0] == outputs[1]
