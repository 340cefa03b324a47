"""The attention body as IR: what it refuses, and where loads and matrix work may be."""

import re

import pytest

from rocke.core.ir import BF16, F16, F32, I8, I32, IRBuilder, ptr
from rocke.helpers.mfma_attention import (
    MFMA_ATTN_BLOCK_K,
    MFMA_ATTN_BLOCK_M,
    check_head_size,
    matrix_instructions_per_tile,
    mfma_attention_fwd_inner_body,
)

TENSORS = ("Q", "K", "V", "O")
STRIDES = tuple(f"stride_{t}_{axis}" for t in "qkvo" for axis in ("token", "head"))


def emit(elem=F16, *, ended=True, **changes):
    """A kernel with nothing but the body; ``changes`` replace arguments of the body."""
    b = IRBuilder("attention")
    arguments = {name: b.param(name, ptr(elem)) for name in TENSORS}
    scalars = ("seqlen_k", "q_tile_base", "head_idx", "kv_head_idx", *STRIDES)
    arguments |= {name: b.param(name, I32) for name in scalars}
    arguments["scale_log2"] = b.param("scale_log2", F32)
    arguments |= {"head_size": 64, "dtype": "f16", **changes}
    mfma_attention_fwd_inner_body(b, **arguments)
    if ended:
        b.ret()
    return b.kernel


def never(b, kt):
    return b.cmp_lt(kt, b.const_i32(0))


def test_tile_sizes_of_the_contract():
    assert MFMA_ATTN_BLOCK_M == MFMA_ATTN_BLOCK_K == 16


@pytest.mark.parametrize("head_size", range(16, 257, 16))
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_every_multiple_of_16_up_to_256_builds(head_size, arch):
    assert check_head_size(head_size) == ""
    kernel = emit(head_size=head_size, arch=arch)
    assert kernel.arch == arch
    count = kernel.mlir.count("rocdl.mfma.f32")
    assert count == matrix_instructions_per_tile(head_size, "f16", arch)


@pytest.mark.parametrize("head_size", [0, 8, 100, 272, -16, 64.0, "64"])
def test_other_head_sizes_are_refused_by_name(head_size):
    with pytest.raises(ValueError, match=re.escape(check_head_size(head_size))):
        emit(head_size=head_size)
    assert "head_size is" in check_head_size(head_size)


def test_fields_that_are_not_honoured_are_refused():
    with pytest.raises(ValueError, match="mask_mode is 'causal', expected 'none'"):
        emit(mask_mode="causal")
    with pytest.raises(ValueError, match="dtype is 'f32', expected 'f16' or 'bf16'"):
        emit(dtype="f32")
    with pytest.raises(ValueError, match="unknown target 'gfx1100'"):
        emit(arch="gfx1100")
    with pytest.raises(ValueError, match=r"expected a pointer to bf16, got ptr<f16, global>"):
        emit(elem=F16, dtype="bf16")


def test_a_skipped_tile_costs_no_load_and_no_matrix_work():
    text = emit(extra_mask_predicate=never).mlir
    loop = text[text.index("scf.for") :]
    before, _, branch = loop.partition("scf.if")
    assert "raw.ptr.buffer.load" not in before
    assert "rocdl.mfma" not in before
    taken = branch[: branch.index("} else {")]
    assert taken.count("rocdl.mfma") == matrix_instructions_per_tile(64, "f16", "gfx950")
    assert "raw.ptr.buffer.load" in taken
    otherwise = branch[branch.index("} else {") :].split("}")[1]
    assert "rocdl.mfma" not in otherwise


def test_the_branch_around_a_tile_is_the_waves():
    text = emit(extra_mask_predicate=never).mlir
    ballot = re.search(r"(%\w+) = rocdl\.ballot", text).group(1)
    condition = re.search(rf"(%\w+) = arith\.cmpi ne, {re.escape(ballot)},", text).group(1)
    assert re.search(rf"scf\.if {re.escape(condition)} ", text)


def test_without_a_predicate_there_is_no_branch():
    assert "scf.if" not in emit().mlir


def test_rows_are_selected_only_where_the_predicate_speaks_for_rows():
    shared = emit(extra_mask_predicate=never).mlir
    by_row = emit(extra_mask_predicate=never, predicate_per_row=True).mlir
    accumulators = 64 // 16
    softmax = 2  # maximum and sum
    assert by_row.count("arith.select") - shared.count("arith.select") == accumulators + softmax


def test_bf16_uses_the_bf16_instruction():
    kernel = emit(elem=BF16, dtype="bf16", arch="gfx90a")
    assert "rocdl.mfma.f32.16x16x16bf16.1k" in kernel.mlir


def test_a_predicate_gets_the_builder_and_an_i32_tile():
    seen = []

    def predicate(b, kt):
        seen.append((type(b), kt.type))
        array = b.smem_alloc(I8, [4], name_hint="mask")
        byte = b.vec_extract(b.smem_load_vN(array, kt, dtype=I8, n=1), 0)
        return b.cmp_ne(byte, b.const_i8(0))

    emit(extra_mask_predicate=predicate)
    assert seen == [(IRBuilder, I32)]
