"""All rules in random combination."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attention.runs import ARCHS, TARGETS, as_pattern, check, tensors

QUICK = [
    {"form": "list", "dtype": "f16", "head_size": 64, "block_q": 64, "block_k": 64},
    {"form": "bitmap", "dtype": "bf16", "head_size": 64, "block_q": 64, "block_k": 64},
]
RULES = [
    {"variable": True, "banded": True, "need_lse": True, "ordered": True},
    {"variable": False, "banded": False, "need_lse": False, "ordered": False},
]
"""Kernels of the quick set: every combination of the two lists."""


@st.composite
def kernels(draw):
    """Any kernel."""
    blocks = st.sampled_from([16, 32, 48, 64, 128])
    rules = {name: draw(st.booleans()) for name in RULES[0]}
    return {
        "form": draw(st.sampled_from(["list", "bitmap"])),
        "dtype": draw(st.sampled_from(["f16", "bf16"])),
        "head_size": 16 * draw(st.integers(2, 16)),
        "block_q": draw(blocks),
        "block_k": draw(blocks),
        **rules,
    }


def random_problem(data, kernel, arch):
    """Draw shapes, pattern and masks for a kernel; run and compare."""
    draw = data.draw
    seed = draw(st.integers(0, 2**32 - 1), "seed")
    rng = np.random.default_rng(seed)
    batch, kv_heads, group = (draw(st.integers(1, 2)) for _ in range(3))
    rows = draw(st.integers(1, 3 * kernel["block_q"]), "seqlen_q")
    keys = draw(st.integers(1, 7 * kernel["block_k"]), "seqlen_k")
    layout = draw(st.sampled_from(["bhsd", "bshd"]), "layout")
    heads = kv_heads * group
    blocks = (-(-rows // kernel["block_q"]), -(-keys // kernel["block_k"]))
    lead = draw(st.sampled_from([(), (heads,), (1, heads), (batch, 1), (batch, heads)]), "lead")
    density = draw(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), "density")
    attended = rng.random((*lead, *blocks)) < density
    options = {"layout": layout, "need_lse": kernel["need_lse"]}
    if kernel["variable"]:
        sizes = rng.integers(-1, kernel["block_k"] + 2, blocks[1])
        options["variable_block_sizes"] = np.clip(sizes, 0, kernel["block_k"])
    if kernel["banded"]:
        bound = st.one_of(st.none(), st.integers(0, 150))
        options["causal"] = draw(st.booleans(), "causal")
        options["window"] = draw(st.tuples(bound, bound), "window")
    if kernel["ordered"]:
        options["row_order"] = rng.permuted(np.tile(np.arange(blocks[0]), (heads, 1)), axis=1)
    given_ = tensors(
        seed,
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        seqlen_q=rows,
        seqlen_k=keys,
        head_size=kernel["head_size"],
        dtype=kernel["dtype"],
        layout=layout,
    )
    sizes = {"block_q": kernel["block_q"], "block_k": kernel["block_k"]}
    pattern = as_pattern(kernel["form"], attended, seed=seed, **sizes)
    check(given_, attended, arch, pattern=pattern, **sizes, **options)


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("rules", RULES, ids=["all-rules", "plain"])
@pytest.mark.parametrize("kernel", QUICK, ids=["list", "bitmap"])
@settings(max_examples=12)
@given(data=st.data())
def test_random_problems_of_one_kernel(arch, kernel, rules, data):
    random_problem(data, {**kernel, **rules}, arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@settings(max_examples=60)
@given(kernel=kernels(), data=st.data())
def test_random_problems_of_any_kernel(arch, kernel, data):
    random_problem(data, kernel, arch)
