"""Catalogues: parsing, expansion, and errors that name file, table, field and value."""

import pytest

from rocke.library.catalogue import Catalogue, shipped
from rocke.library.errors import CatalogueError
from rocke.library.plan import constraints, expand

HEAD = '[library]\nname = "lib"\nversion = "1.0"\ntargets = ["gfx942", "gfx950"]\n'
AXES = """[kernels.axes]
head_size = [64, 128]
num_query_heads = 4
num_kv_heads = 2
dtype = ["f16", "bf16"]
seqlen_q = 128
seqlen_k = 256
block_q = [64, 128]
block_k = [48, 64]
"""
KERNELS = '[[kernels]]\nfamily = "jenga_sparse_attention"\n'


def plan(own="", axes=AXES, **options):
    return expand(Catalogue.parse(HEAD + KERNELS + own + axes, "cat.toml"), **options)


def test_every_combination_is_a_job_or_dropped_with_the_familys_reason():
    made = plan()
    assert len(made.jobs) == 2 * 2 * 2 * 2  # targets, head sizes, types, block_q; block_k 64 alone
    assert {d.reason for d in made.dropped} == {
        "seqlen_k is 256, expected a multiple of block_k (48)"
    }
    assert len(made.dropped) == 16
    assert [j.spec["block_k"] for j in made.jobs] == [64] * 16


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("block_q == block_k", 8),
        ("block_q != 64", 8),
        ("seqlen_k % block_q == 0", 16),
        ("seqlen_q % 100 == 28", 16),
        ("arch == 'gfx950'", 8),
        ("dtype == 'bf16'", 8),
        ("head_size >= 128", 8),
    ],
)
def test_constraints(rule, kept):
    made = plan(f'constraints = ["{rule}"]\n')
    assert len(made.jobs) == kept
    assert sum(d.reason == f"constraint {rule!r} does not hold" for d in made.dropped) > 0 or (
        kept == 16
    )


def test_exclusions_need_all_of_their_fields_to_match():
    made = plan('exclude = [{dtype = "bf16", head_size = [64, 96], reason = "slow"}]\n')
    assert len(made.jobs) == 12
    assert not any(j.spec["dtype"] == "bf16" and j.spec["head_size"] == 64 for j in made.jobs)
    assert sum(d.reason == "slow" for d in made.dropped) == 8


def test_targets_of_an_entry_and_of_the_caller():
    assert {j.arch for j in plan('targets = ["gfx942"]\n').jobs} == {"gfx942"}
    assert {j.arch for j in plan(archs=["gfx950"]).jobs} == {"gfx950"}
    with pytest.raises(CatalogueError, match=r"cat\.toml: target 'gfx90a' is not in it"):
        plan(archs=["gfx90a"])


def test_a_kernel_listed_twice_is_built_once():
    again = Catalogue.parse(HEAD + KERNELS + AXES + KERNELS + AXES, "cat.toml")
    made = expand(again)
    assert len(made.jobs) == 16
    assert sum("listed before, in cat.toml: [[kernels]] 1" in d.reason for d in made.dropped) == 16


def test_lengths_become_ranges_and_defaults_may_be_left_out():
    made = plan('select = {block_q = {min = 1, max = 64}}\nfree = ["mask_mode"]\n')
    found = {(c.field, c.op): c for c in constraints(made.jobs[0])}
    assert found[("seqlen_q", "max")].value == 128
    assert found[("head_size", "eq")].value == 64
    assert found[("dtype", "eq")].default == "f16"
    assert found[("block_q", "max")].value == 64
    assert not {"mask_mode", "name"} & {field for field, _ in found}
    assert ("block_q", "eq") not in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[library", "cat.toml: not valid TOML"),
        (KERNELS + AXES, "cat.toml: [library] name: missing"),
        (HEAD, "cat.toml: [[kernels]]: no kernels"),
        (HEAD.replace('"lib"', '"a b"') + KERNELS, "[library] name: 'a b', expected letters"),
        (HEAD.replace('"1.0"', '"one"') + KERNELS, "[library] version: 'one', expected a version"),
        (HEAD.replace("gfx942", "gfx1100") + KERNELS, "unknown target 'gfx1100', expected gfx90a"),
        (HEAD + "kernel = 1\n" + KERNELS, "[library]: unknown key 'kernel'"),
        (HEAD + KERNELS + "prioritty = 1\n" + AXES, "unknown key 'prioritty', did you mean"),
        (HEAD + KERNELS + 'priority = "high"\n' + AXES, "priority: 'high', expected an integer"),
        (HEAD + KERNELS + 'targets = ["gfx90a"]\n' + AXES, "'gfx90a' is not in [library] targets"),
        (HEAD + KERNELS + 'constraints = ["block_q ~ 1"]\n' + AXES, "constraints: 'block_q ~ 1'"),
        (HEAD + KERNELS + 'constraints = ["blok_q == 1"]\n' + AXES, "did you mean 'block_q'?"),
        (HEAD + KERNELS + 'constraints = ["dtype < 1"]\n' + AXES, "'f16' and 1 do not compare"),
        (HEAD + KERNELS + 'constraints = ["block_q % 0 == 1"]\n' + AXES, "divides by 0"),
        (HEAD + KERNELS + "exclude = [{}]\n" + AXES, "exclude 1: no field"),
        (HEAD + KERNELS + "exclude = [{blockq = 1}]\n" + AXES, "unknown field 'blockq'"),
        (HEAD + KERNELS + 'free = ["scatter"]\n' + AXES, "free: unknown field 'scatter'"),
        (HEAD + KERNELS + AXES.replace("[48, 64]", "[]"), "axes.block_k: an empty list"),
        (HEAD + KERNELS + AXES.replace("[48, 64]", "[64, 64]"), "a value is listed twice"),
        (HEAD + KERNELS + AXES.replace("[48, 64]", "['a']"), "'block_k' is 'a', expected int"),
        (HEAD + KERNELS + AXES.replace("head_size", "heads"), "axes: unknown field 'heads'"),
        (HEAD + KERNELS + "[kernels.axes]\nhead_size = 64\n", "axes: missing num_query_heads"),
        (HEAD + '[[kernels]]\nfamily = "jenga"\n' + AXES, "unknown family"),
        (HEAD + KERNELS + "select = {block_q = {least = 1}}\n" + AXES, "unknown key 'least'"),
        (HEAD + KERNELS + "launch = {grid = [1, 2]}\n" + AXES, "launch grid: [1, 2]"),
        (HEAD + KERNELS + "launch = {grid = [1, 1, ['sub', 1, 2]]}\n" + AXES, "['sub', 1, 2]"),
    ],
)
def test_errors_name_file_table_and_value(text, message):
    with pytest.raises(CatalogueError) as caught:
        expand(Catalogue.parse(text, "cat.toml"))
    assert str(caught.value).startswith("cat.toml: ")
    assert message in str(caught.value)


MAP = '[[kernels]]\nfamily = "map_to_index"\n'


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ("", "launch grid: missing; in words it is (ceil(rows / waves), 1, 1)"),
        ('launch = {grid = ["rows", 1, 1]}', "it is (64, 1, 1) where the family's rule gives (16,"),
        ('launch = {grid = [["ceil_div", "row", "waves"], 1, 1]}', "'row' is no field or property"),
    ],
)
def test_a_grid_is_compared_with_the_familys_before_anything_is_compiled(launch, message):
    with pytest.raises(CatalogueError) as caught:
        expand(Catalogue.parse(HEAD + MAP + launch, "cat.toml"))
    assert str(caught.value).startswith("cat.toml: [[kernels]] 1 (map_to_index) ")
    assert message in str(caught.value)


def test_a_family_with_a_grid_of_its_own_takes_none():
    with pytest.raises(CatalogueError, match="has a grid of its own"):
        plan("launch = {grid = [1, 1, 1]}\n")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(CatalogueError, match="No such file"):
        Catalogue.load(tmp_path / "absent.toml")
    tmp_path.joinpath("binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CatalogueError, match="not a text file"):
        Catalogue.load(tmp_path / "binary.toml")


@pytest.mark.parametrize("name", list(shipped()))
def test_shipped_catalogues_expand_without_losing_anything(name):
    made = expand(Catalogue.load(shipped()[name]))
    assert made.jobs
    assert made.dropped == ()
    assert {j.arch for j in made.jobs} == {"gfx90a", "gfx942", "gfx950"}
