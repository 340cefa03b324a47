"""The host function on a GPU, which the emulated device stands in for behind HIP."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import numpy as np
from rocke.attention import BitmapPattern, block_sparse_attention, longest_first
from tests.attention.runs import as_list, attended, compare, device, reference, tensors

given, blocks = tensors(1, batch=2, layout="bshd"), attended(1, 2, 2, 4)
options = {"layout": "bshd", "need_lse": True}
expected = reference(given, blocks, block_q=64, block_k=64, layout="bshd")
for pattern in (as_list(blocks), BitmapPattern(blocks)):
    results = []
    for on in ("hip", device("ARCH")):
        results.append(block_sparse_attention(**given, pattern=pattern, device=on, **options))
        compare(*results[-1], expected)
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)
order = longest_first(BitmapPattern(blocks), device="hip")
np.testing.assert_array_equal(order[0], np.argsort(-blocks.sum(-1), axis=-1, kind="stable"))
packed = np.random.default_rng(2).standard_normal((1, 256, 3, 2, 64)).astype(np.float16)
q, k, v = (packed[:, :, i] for i in range(3))
given = {"q": q[:, :128], "k": k, "v": v}
o = block_sparse_attention(**given, pattern=as_list(blocks), device="hip", layout="bshd")
compare(o, None, reference(given, blocks, block_q=64, block_k=64, layout="bshd"))
print("done")
"""


@pytest.mark.normal
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_both_devices_give_the_same_bits(arch):
    rocke = Path(sys.executable).with_name("rocke")
    done = subprocess.run(
        [
            rocke,
            "hip-env",
            "--arch",
            arch,
            "--",
            sys.executable,
            "-c",
            SCRIPT.replace("ARCH", arch),
        ],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "done"
