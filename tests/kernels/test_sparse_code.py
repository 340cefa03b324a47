"""The compiled kernels: registers, LDS and the access that the code object declares."""

import warnings

import pytest

from rocke.arch import target
from rocke.compiler import compile_kernel
from rocke.kernels.common.sparse_attention import (
    build_jenga_sparse_attention,
    build_vsa_sparse_attention,
)
from tests.kernels.sparse_specs import ARCHS, DTYPES, jenga, vsa


@pytest.mark.normal
@pytest.mark.parametrize("block_q", [1, 64])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
def test_the_largest_head_does_not_spill(arch, dtype, block_q):
    spec = jenga(dtype=dtype, block_q=block_q, shape={"head_size": 256})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        info = compile_kernel(build_jenga_sparse_attention(spec, arch), arch, cache=None).kernel()
    assert info.spills == 0
    assert info.scratch == 0
    # 512 registers a lane would leave one wave a SIMD: nothing to run while it waits.
    assert target(arch).waves_per_simd(info.vgpr) >= 2


@pytest.mark.normal
@pytest.mark.parametrize("arch", ARCHS)
def test_the_object_is_what_the_spec_says(arch):
    spec = vsa(64, 1024, block_q=1, max_blocks_per_q=100)
    kernel = build_vsa_sparse_attention(spec, arch)
    code_object = compile_kernel(kernel, arch, cache=None)
    info = code_object.kernel()
    assert code_object.arch == arch
    assert info.name == spec.kernel_name()
    assert info.lds == spec.lds_bytes == 16 * 16 + 1
    assert info.wave_size == info.max_workgroup_size == 64
    assert info.required_workgroup_size == (64, 1, 1)
    assert [a.name for a in info.explicit_arguments] == [p["name"] for p in kernel.signature()]
    assert all(not a.hidden for a in info.arguments)
    access = {a.name: a.access for a in info.explicit_arguments if a.kind == "global_buffer"}
    assert access.pop("O") == "write_only"
    assert set(access.values()) == {"read_only"}


@pytest.mark.normal
def test_lds_up_to_the_targets_end_compiles():
    available = target("gfx950").lds_bytes
    spec = jenga(16, available * 16, block_q=16, block_k=16, shape={"head_size": 32})
    info = compile_kernel(build_jenga_sparse_attention(spec), "gfx950", cache=None).kernel()
    assert info.lds == available
