"""The kernel launched from its object alone, or from a library: what the arguments must reach."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from rocke.attention import (
    BitmapPattern,
    ListPattern,
    api,
    block_sparse_attention,
    launching,
    longest_first,
    metadata,
    options,
)
from rocke.compiler import compile_kernel
from rocke.kernels.common import block_sparse_attention as block_sparse_attention_kernel
from rocke.kernels.registry import FAMILIES
from rocke.library import KernelLibrary, NoKernel, build_library
from rocke.runtime import ArgumentError, Launcher
from tests.attention.runs import as_list, attended, device, reference, tensors

ARCH = "gfx950"
FAMILY = FAMILIES["block_sparse_attention"]
FIELDS = {"head_size": 64, "dtype": "f16", "need_lse": True}
CATALOGUE = """
[library]
name = "attention-test"
version = "1"
description = "for tests"
targets = ["gfx950"]

[[kernels]]
family = "block_sparse_attention"
problem = {seqlen_q = 130, seqlen_k = 200}

[kernels.axes]
head_size = 64
dtype = "f16"
pattern = "list"
need_lse = true
row_order = [false, true]

[kernels.select]
batch = {min = 1, max = 65535, default = 1}
heads = {min = 1, max = 65535}

[kernels.launch]
grid = [["mul", ["ceil_div", "seqlen_q", "block_q"], "workgroups_per_block"], "heads", "batch"]

[[kernels]]
family = "row_order"
free = ["waves"]

[kernels.select]
matrices = {min = 1, max = 65535}

[kernels.launch]
grid = [["ceil_div", "num_q_blocks", ["mul", 64, "waves"]], "matrices", 1]
"""


def made(**fields):
    """Spec, and the arguments of a problem of it."""
    spec = FAMILY.make_spec({**FIELDS, **fields})
    sizes = {"heads": 4, "kv_heads": 2, "batch": 2, "seqlen_q": 200, "seqlen_k": 300}
    return spec, dict(FAMILY.make_problem(spec, np.random.default_rng(0), **sizes).arguments)


def distant(array):
    """A view in which the tokens are 2**23 elements apart; nothing reads it."""
    _, _, tokens, size = array.shape
    steps = (0, 0, 2**24, 2)
    return as_strided(array, (2, 1, tokens, size), steps)


@pytest.fixture(scope="module")
def launches():
    """A launcher, for the whole module, of each form of the pattern."""
    found = {}
    for pattern in ("list", "bitmap"):
        spec, given = made(pattern=pattern, variable_blocks=True, row_order=True)
        code = compile_kernel(FAMILY.build(spec, ARCH), ARCH)
        found[pattern] = Launcher.of_family(device(ARCH), code, FAMILY, spec), given
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A small library of attention kernels."""
    folder = tmp_path_factory.mktemp("library")
    catalogue = folder / "catalogue.toml"
    catalogue.write_text(CATALOGUE)
    build_library(catalogue, folder / "built", jobs=1)
    return KernelLibrary.open(folder / "built")


@pytest.mark.parametrize(
    ("pattern", "change", "message"),
    [
        (
            "list",
            {"Q": lambda a: np.concatenate([a, a], 1)},
            "'K': .*ceil_div.grid.y, heads_per_kv. at most 2",
        ),
        ("list", {"Q": lambda a: np.concatenate([a, a])}, "'K': .* grid.z = 4.* at most 2"),
        ("list", {"heads_per_kv": 1}, "'K': .*ceil_div.grid.y, heads_per_kv. = 4.* at most 2"),
        ("list", {"seqlen_q": 201}, "'Q': .*expected .*seqlen_q at most 200"),
        ("list", {"seqlen_k": 301}, "'K': .*expected .*seqlen_k at most 300"),
        ("list", {"stride_v_batch": 10**6}, "'V': .*expected stride_v_batch = 38400"),
        ("list", {"stride_lse_head": 208}, "'LSE': .*expected stride_lse_head = 200"),
        ("list", {"stride_indices_row": 100}, "'indices': .*expected stride_indices_row = 3"),
        ("list", {"stride_counts_head": 1000}, "'counts': .*expected stride_counts_head = 4"),
        ("list", {"stride_order_batch": 17}, "'order': .*expected stride_order_batch = 16"),
        ("list", {"list_width": 6}, "'indices': .* list_width"),
        ("list", {"list_width": 2**27}, "'list_width': 134217728 is outside .*1 to 134217216"),
        ("bitmap", {"bitmap": lambda a: a[:, :, :3]}, "'bitmap': .*ceil_div.seqlen_q, 64. = 4"),
        ("bitmap", {"stride_bitmap_row": 6}, "'bitmap': .*expected stride_bitmap_row = 5"),
        ("bitmap", {"block_sizes": lambda a: a[:4]}, "'block_sizes': .*ceil_div.seqlen_k, 64. = 5"),
        ("list", {"order": lambda a: a[:1]}, "'order': .*grid.z = 2"),
        ("list", {"stride_o_head": 0}, "'stride_o_head': 0, expected at least .*grid.y = 4"),
        ("list", {"stride_o_batch": 8}, "'stride_o_batch': 8, expected at least .*grid.z = 2"),
        ("list", {"stride_lse_head": 0}, "'stride_lse_head': 0, expected at least .*grid.y = 4"),
        ("list", {"stride_lse_batch": 0}, "'stride_lse_batch': 0, expected at least"),
        ("list", {"stride_k_token": 3 * 2**23}, "'stride_k_token': 25165824 is outside .*0 to 22"),
        ("list", {"stride_o_token": 56}, "'stride_o_token': 56 is outside .*64 to 2147483647"),
        ("list", {"stride_v_token": 3 * 2**23}, "'stride_v_token': 25165824 is outside .*0 to 22"),
        ("list", {"scale_log2": 2e19}, "'scale_log2': 2e.19 is outside .*0 to 1.8446744"),
        (
            "list",
            {
                "K": distant,
                "heads_per_kv": 4,
                **{"stride_k_batch": 0, "stride_k_head": 0, "stride_k_token": 2**23},
            },
            "'K': seqlen_k = 300, stride_k_token = 8388608 span 5016387712 bytes, expected less",
        ),
        (
            "list",
            {
                "Q": lambda a: a[:1, :, :2],
                "O": lambda a: as_strided(a, (1, 4, 2, 64), (0, 128, 2**32 - 1152, 2)),
                "seqlen_q": 2,
                "stride_o_head": 64,
                "stride_o_token": 2**31 - 576,
            },
            "'O': seqlen_q = 2, stride_o_token = 2147483072 span 4294966272 bytes, expected less",
        ),
        ("list", {"Q": lambda a: a[0]}, r"the grid follows from Q, an array \[batch, heads"),
    ],
)
def test_what_reaches_beyond_an_array_is_refused(launches, monkeypatch, pattern, change, message):
    launch, given = launches[pattern]

    def never(*arguments):
        raise AssertionError("launched")

    monkeypatch.setattr(launch.device, "launch", never)
    wrong = {n: c(given[n]) if callable(c) else c for n, c in change.items()}
    if isinstance(wrong.get("bitmap"), np.ndarray):
        wrong["bitmap"] = np.ascontiguousarray(wrong["bitmap"])
    with pytest.raises(ArgumentError, match=message):
        launch(**{**given, **wrong})


@pytest.mark.parametrize("pattern", ["list", "bitmap"])
def test_each_launch_has_the_grid_of_its_arguments(launches, pattern):
    launch, _ = launches[pattern]
    spec = FAMILY.make_spec(
        {**FIELDS, "pattern": pattern, "variable_blocks": True, "row_order": True}
    )
    for heads, rows, keys in ((1, 64, 70), (3, 129, 100)):
        sizes = {"heads": heads, "kv_heads": 1, "seqlen_q": rows, "seqlen_k": keys}
        problem = FAMILY.make_problem(spec, np.random.default_rng(1), **sizes)
        launch(**problem.arguments)
        expected = FAMILY.reference(spec, problem)["O"]
        error = np.linalg.norm(problem.arguments["O"] - expected) / np.linalg.norm(expected)
        assert error <= FAMILY.tolerance(spec)


def test_the_grid_s_arguments_are_named():
    spec = FAMILIES["row_order"].make_spec({})
    with pytest.raises(ValueError, match=r"grid of row_order is .*: give 'matrices'"):
        FAMILIES["row_order"].grid_of(spec, ARCH, {"num_q_blocks": 3})


@pytest.mark.normal
def test_a_library_serves_the_host_function(library, monkeypatch):
    def compiled(*arguments):
        raise AssertionError("compiled")

    monkeypatch.setattr(launching, "_family", compiled)
    given = tensors(3, batch=2, heads=4, kv_heads=2, seqlen_q=130, seqlen_k=200)
    blocks = attended(3, 3, 4)
    pattern, on = as_list(blocks), {"device": device(ARCH), "library": library}
    o, lse = block_sparse_attention(**given, pattern=pattern, need_lse=True, **on)
    expected = reference(given, blocks, block_q=64, block_k=64)
    assert np.linalg.norm(o - expected.o) <= 1e-3 * np.linalg.norm(expected.o)
    ordered = block_sparse_attention(
        **given, pattern=pattern, need_lse=True, row_order="longest_first", **on
    )
    for found, plain in zip(ordered, (o, lse), strict=True):
        np.testing.assert_array_equal(found, plain)
    order = longest_first(pattern, **on)
    counts = blocks.sum(axis=-1)
    np.testing.assert_array_equal(order[0, 0], np.argsort(-counts, kind="stable"))
    with pytest.raises(NoKernel, match="need_lse is False, expected True"):
        block_sparse_attention(**given, pattern=pattern, **on)
    with pytest.raises(NoKernel, match="pattern is 'bitmap', expected 'list'"):
        block_sparse_attention(**given, pattern=BitmapPattern(blocks), need_lse=True, **on)


@pytest.mark.normal
@pytest.mark.parametrize("empty", ["batch", "rows", "keys", "width"])
def test_a_library_is_asked_when_there_is_nothing_to_run(library, empty):
    given = tensors(3, seqlen_q=64, seqlen_k=64)
    pattern = ListPattern(np.zeros((1, 1), int), np.ones(1, int))
    if empty == "batch":
        given = {name: array[:0] for name, array in given.items()}
    elif empty == "rows":
        given["q"] = given["q"][:, :, :0]
        pattern = ListPattern(np.zeros((0, 1), int), np.zeros(0, int))
    elif empty == "keys":
        given |= {name: given[name][:, :, :0] for name in "kv"}
    else:
        pattern = ListPattern(np.zeros((1, 0), int), np.ones(1, int))
    on = {"device": device(ARCH), "library": library}
    o, lse = block_sparse_attention(**given, pattern=pattern, need_lse=True, **on)
    assert o.shape == given["q"].shape
    assert (o == 0).all()
    assert (lse == api.EMPTY_LSE).all()
    with pytest.raises(NoKernel, match="need_lse is False, expected True"):
        block_sparse_attention(**given, pattern=pattern, **on)
    with pytest.raises(NoKernel):
        block_sparse_attention(**given, pattern=pattern, need_lse=True, causal=True, **on)


@pytest.mark.normal
def test_a_library_s_kernels_refuse_what_reaches_beyond_an_array(library):
    _, given = made()
    problem = {"family": FAMILY.name, **FIELDS, "seqlen_q": 200, "seqlen_k": 300}
    kernel = library.select({**problem, "heads": 4, "batch": 2}, ARCH)
    kernel.launcher(device(ARCH), {**problem, "heads": 4, "batch": 2})(**given)
    for name, wrong in (("heads", 5), ("batch", 3)):
        asked = {**problem, "heads": 4, "batch": 2, name: wrong}
        with pytest.raises(ArgumentError, match=f"'Q': .*grid.. = {wrong}"):
            kernel.launcher(device(ARCH), asked)(**given)


def test_a_library_needs_no_compiler_and_no_kernel_source():
    """Modules that a call with ``library=`` loads; the library stands in for a real one."""
    code = """if True:
        import sys
        import numpy as np
        from rocke.attention import ListPattern, block_sparse_attention
        from tests.runtime.fakes import FakeDevice

        class Library:
            def select(self, problem, arch):
                self.problem = problem
                return self
            def launcher(self, device, problem):
                return lambda **arguments: arguments["O"].fill(2)

        library, x = Library(), np.ones((1, 2, 64, 64), np.float16)
        pattern = ListPattern(np.zeros((1, 1), int), np.ones(1, int))
        o = block_sparse_attention(x, x, x, pattern, device=FakeDevice(), library=library)
        assert (o == 2).all() and library.problem["heads"] == 2, library.problem
        print([m for m in ("mlir", "llvmlite", "rocke.core", "rocke.kernels") if m in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_an_order_that_leaves_blocks_out_leaves_them_empty():
    given = tensors(4, seqlen_q=192)
    pattern = ListPattern(np.zeros((3, 1), int), np.ones(3, int))
    garbage = [np.full((1, 2, 192, 64), 7, np.float16) for _ in range(4)]
    del garbage  # so that new arrays of the size are likely to hold it
    order = np.array([1, 1, 7])
    o, lse = block_sparse_attention(
        **given, pattern=pattern, device=device(ARCH), need_lse=True, row_order=order
    )
    whole, _ = block_sparse_attention(**given, pattern=pattern, device=device(ARCH), need_lse=True)
    np.testing.assert_array_equal(o[:, :, 64:128], whole[:, :, 64:128])
    for rows in (slice(0, 64), slice(128, 192)):
        assert (o[:, :, rows] == 0).all()
        assert (lse[:, :, rows] == np.finfo(np.float32).min).all()


def test_what_the_host_function_assumes_is_what_the_kernels_have():
    assert api.EMPTY_LSE == block_sparse_attention_kernel.EMPTY_LSE
    assert options.NO_WINDOW == block_sparse_attention_kernel.NO_WINDOW
    assert FAMILIES["top_k"].make_spec({}).max_blocks == metadata.MAX_BLOCKS
    low, high = FAMILY.limits(FAMILY.make_spec(FIELDS))["scale_log2"]
    assert low == 0
    assert high / 2 < options.MAX_SCALE * api.LOG2_E <= high
