"""Sizes that people run, with a sample of the query blocks compared."""

import ml_dtypes
import numpy as np
import pytest

from rocke.attention import block_sparse_attention
from rocke.kernels.common.block_sparse_reference import block_sparse_attention_reference
from tests.attention.runs import as_list, compare, device

ROWS, HEADS, HEAD_SIZE, BLOCK = 32760, 12, 128, 64


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_wan_480p_at_a_tenth(arch):
    rng = np.random.default_rng(0)
    shape = (1, HEADS, ROWS, HEAD_SIZE)
    q, k, v = (rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16) for _ in range(3))
    blocks = -(-ROWS // BLOCK)
    attended = rng.random((1, HEADS, blocks, blocks)) < 0.1
    attended[..., 0, :], attended[..., -1] = False, True
    o, lse = block_sparse_attention(q, k, v, as_list(attended), device=device(arch), need_lse=True)
    sample = [0, 1, 100, 257, blocks - 1]
    expected = block_sparse_attention_reference(
        q, k, v, attended, block_q=BLOCK, block_k=BLOCK, q_blocks=sample, dtype=np.float32
    )
    for i in sample:
        rows = slice(i * BLOCK, min((i + 1) * BLOCK, ROWS))
        part = type(expected)(expected.o[:, :, rows], expected.lse[:, :, rows])
        compare(o[:, :, rows], lse[:, :, rows], part)
    assert np.isfinite(o.astype(np.float32)).all()
