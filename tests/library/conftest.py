"""A small library, built once."""

from __future__ import annotations

import pytest

from rocke.library import Catalogue, KernelLibrary, build_library

SMALL = """
[library]
name = "small-kernels"
version = "1.2.0"
description = "A few small kernels"
targets = ["gfx942", "gfx950"]

[[kernels]]
family = "map_to_index"
problem = {rows = 9, num_k_blocks = 70, width = 12}
[kernels.axes]
waves = [2, 4]
[kernels.launch]
grid = [["ceil_div", "rows", "waves"], 1, 1]

[[kernels]]
family = "jenga_sparse_attention"
problem = {seqlen_q = 16, seqlen_k = 32}
[kernels.axes]
head_size = 32
num_query_heads = 2
num_kv_heads = 1
seqlen_q = [32, 64]
seqlen_k = 64
block_q = 32
block_k = 32
"""


@pytest.fixture(scope="session")
def catalogue():
    return Catalogue.parse(SMALL, "small.toml")


@pytest.fixture(scope="session")
def built(catalogue, tmp_path_factory):
    """The folder of the built library; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("library")
    report = build_library(catalogue, folder, jobs=1)
    assert report.failures == ()
    return folder


@pytest.fixture(scope="session")
def library(built):
    return KernelLibrary.open(built)
