"""The orders that attention gives its operands, computed on the catalogue's layouts."""

import numpy as np
import pytest

from rocke.arch import TARGETS, UnknownTarget, target
from rocke.helpers.matrix import (
    ACCUMULATORS,
    LANE_GROUPS,
    ROWS,
    AttentionAtoms,
    contraction_chunks,
    row_groups,
)

HEAD_SIZES = range(16, 257, 16)


def multiply(op, a, b):
    """D of one instruction from what the 64 lanes hold of A and B."""
    left, right = np.zeros((op.m, op.k)), np.zeros((op.k, op.n))
    for lane in range(64):
        for j in range(op.a_elements):
            left[op.a_position(lane, j)] = a[lane][j]
            right[op.b_position(lane, j)] = b[lane][j]
    product = left @ right
    return np.array(
        [[product[op.c_position(lane, r)] for r in range(op.c_elements)] for lane in range(64)]
    )


@pytest.mark.parametrize("head_size", HEAD_SIZES)
def test_contraction_reads_each_dimension_once(head_size):
    read = [
        first + group * width + j
        for first, width in contraction_chunks(head_size)
        for group in range(LANE_GROUPS)
        for j in range(width)
    ]
    assert sorted(read) == list(range(head_size))


@pytest.mark.parametrize("head_size", HEAD_SIZES)
def test_row_groups_hold_each_dimension_once(head_size):
    groups = row_groups(head_size)
    held = [
        first + width * row + c
        for first, width in groups
        for row in range(16)
        for c in range(width)
    ]
    assert sorted(held) == list(range(head_size))
    assert sum(width for _, width in groups) == head_size // 16
    assert all(first % width == 0 for first, width in groups)


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("head_size", [16, 48, 64])
def test_scores_and_output_by_hand(arch, head_size):
    """S^T = K Q^T, then O^T = V^T S, lane by lane in the chosen orders."""
    rng = np.random.default_rng(head_size)
    q, k, v = (rng.standard_normal((16, head_size)) for _ in range(3))
    atoms = AttentionAtoms.of(arch, "f16")
    scores = np.zeros((64, ACCUMULATORS))
    for first, width in contraction_chunks(head_size):
        starts = [first + lane // 16 * width for lane in range(64)]
        left = [k[lane % 16, s : s + width] for lane, s in enumerate(starts)]
        right = [q[lane % 16, s : s + width] for lane, s in enumerate(starts)]
        if width == 8 and atoms.wide is not None:
            scores += multiply(atoms.wide, left, right)
            continue
        for half in range(0, width, 4):
            part = slice(half, half + 4)
            scores += multiply(atoms.narrow, [x[part] for x in left], [x[part] for x in right])
    expected = q @ k.T
    for lane in range(64):
        for r in range(ACCUMULATORS):
            assert scores[lane][r] == pytest.approx(expected[lane % 16, 4 * (lane // 16) + r])

    out = np.zeros((16, head_size))
    for first, width in row_groups(head_size):
        for c in range(width):
            column = [first + width * (lane % ROWS) + c for lane in range(64)]
            left = [[v[4 * (lane // 16) + r, column[lane]] for r in range(4)] for lane in range(64)]
            result = multiply(atoms.narrow, left, scores)
            for lane in range(64):
                for r in range(ACCUMULATORS):
                    dimension = first + (4 * (lane // 16) + r) * width + c
                    out[lane % 16, dimension] = result[lane][r]
    assert np.allclose(out, expected @ v)


@pytest.mark.parametrize(("arch", "instructions"), [("gfx90a", 2), ("gfx942", 2), ("gfx950", 1)])
def test_the_wide_atom_is_used_where_there_is_one(arch, instructions):
    for dtype in ("f16", "bf16"):
        atoms = AttentionAtoms.of(arch, dtype)
        assert atoms.instructions(8) == instructions
        assert atoms.instructions(4) == 1
        assert atoms.narrow is target(arch).find_matrix_op(16, 16, 16, dtype)


def test_unknown_targets_are_refused():
    with pytest.raises(UnknownTarget, match="gfx1100"):
        AttentionAtoms.of("gfx1100", "f16")
