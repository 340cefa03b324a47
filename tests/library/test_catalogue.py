"""Catalogues: parsing, expansion, and errors that name file, table, field and value."""

import importlib
import json
import re
import tracemalloc

import numpy as np
import pytest

from rocke.kernels.registry import FAMILIES
from rocke.library import expressions
from rocke.library.catalogue import Catalogue, shipped
from rocke.library.errors import CatalogueError
from rocke.library.plan import constraints, expand
from rocke.library.problems import samples, sizes_of

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
    assert plan(archs="gfx950") == plan(archs=["gfx950"])
    assert plan(archs="gfx950").left_out == 16
    with pytest.raises(CatalogueError, match=r"cat\.toml: target 'gfx90a' is not in it"):
        plan(archs=["gfx90a"])


def test_a_kernel_listed_twice_is_built_once():
    again = Catalogue.parse(HEAD + KERNELS + AXES + KERNELS + AXES, "cat.toml")
    made = expand(again)
    assert len(made.jobs) == 16
    assert sum("listed before, in cat.toml: [[kernels]] 1" in d.reason for d in made.dropped) == 16


def test_lengths_become_ranges_and_defaults_may_be_left_out():
    made = plan(
        "select = {seqlen_q = {max = 100, multiple_of = 4}, block_q = {default = 64}}\n",
        axes=AXES.replace("block_q = [64, 128]", "block_q = 64"),
    )
    found = {(c.field, c.op): c for c in constraints(made.jobs[0])}
    assert found[("seqlen_q", "max")].value == 100
    assert found[("seqlen_q", "min")].value == 1
    assert found[("seqlen_q", "multiple_of")].value == 4
    assert found[("seqlen_k", "max")].value == 256
    assert found[("head_size", "eq")].value == 64
    assert found[("dtype", "eq")].default == "f16"
    assert (found[("block_q", "eq")].value, found[("block_q", "eq")].default) == (64, 64)
    assert "name" not in {field for field, _ in found}


def test_fields_that_only_tune_may_be_free():
    vsa = KERNELS.replace("jenga", "vsa") + 'free = ["use_wave_ballot_scatter", "name"]\n' + AXES
    made = expand(Catalogue.parse(HEAD + vsa, "cat.toml"))
    assert "use_wave_ballot_scatter" not in {c.field for c in constraints(made.jobs[0])}
    waves = MAP + 'free = ["waves"]\n' + GRID
    made = expand(Catalogue.parse(HEAD + waves, "cat.toml"))
    assert {c.field for c in constraints(made.jobs[0])} == {"rows"}


@pytest.mark.parametrize(
    "field", ["head_size", "num_kv_heads", "dtype", "block_q", "block_k", "mask_mode", "seqlen_q"]
)
def test_a_field_that_decides_results_is_not_free(field):
    with pytest.raises(CatalogueError, match=f"free: '{field}' decides what a launch takes"):
        plan(f'free = ["{field}"]\n', axes=AXES.replace("[48, 64]", "[32, 64]"))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda f: f.name)
def test_every_other_field_of_every_family_is_refused_as_free(family):
    axes = "".join(f"{n} = {v}\n" for n, v in family.demo.items())
    for field in {f.name for f in family.fields} - {"name", *family.tuning}:
        text = f'{HEAD}[[kernels]]\nfamily = "{family.name}"\nfree = ["{field}"]\n'
        with pytest.raises(CatalogueError, match=f"free: '{field}' decides what a launch takes"):
            expand(Catalogue.parse(f"{text}[kernels.axes]\n{axes}", "cat.toml"))


def others(field, value):
    if isinstance(value, bool):
        return [not value]
    return [*field.choices] or [value * 2, value // 2]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda f: f.name)
def test_fields_that_tune_change_neither_arguments_nor_results(family):
    spec = family.make_spec(family.demo)
    flat = family.flatten(spec)
    for field in (f for f in family.fields if f.name in family.tuning):
        tried = [family.make_spec({**flat, field.name: v}) for v in others(field, flat[field.name])]
        valid = [s for s in tried if s != spec and family.validate(s, "gfx942")[0]]
        assert valid, field.name
        for other in valid:
            assert family.signature(other) == family.signature(spec)
            assert family.limits(other) == family.limits(spec)
            drawn = [family.make_problem(s, np.random.default_rng(3)) for s in (spec, other)]
            assert all(
                np.array_equal(drawn[0].arguments[n], drawn[1].arguments[n], equal_nan=True)
                for n in drawn[0].arguments
            )
            one, two = (family.reference(s, drawn[0]) for s in (spec, other))
            assert all(np.array_equal(one[n], two[n], equal_nan=True) for n in one)


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("head_size = {eq = 999}", "select.head_size: {'eq': 999} leaves nothing: no value is 64 "),
        ("head_size = {min = 65}", "no value is 64 and at least 65"),
        ("head_size = {in = [1, 2]}", "no value is 64 and one of 1, 2"),
        ("head_size = {eq = '64'}", "no value is 64 and '64'"),
        ("head_size = {default = 128}", "select.head_size: default is 128, expected 64"),
        ("seqlen_q = {min = 10, max = 3}", "select.seqlen_q: {'min': 10, 'max': 3} leaves nothing"),
        ("seqlen_q = {min = 129}", "leaves nothing: no value is at least 1 and at most 128 and at"),
        ("seqlen_q = {multiple_of = 200}", "leaves nothing"),
        ("seqlen_q = {default = 0}", "default is 0, expected at least 1 and at most 128"),
        ("dtype = {min = 1}", "leaves nothing"),
        ("head_size = {}", "says nothing of the field"),
        ("seqlenq = {max = 3}", "select.seqlenq: unknown field, did you mean 'seqlen_q'?"),
        ("family = {eq = 'x'}", "family is no field of a problem to narrow"),
        ("name = {eq = 'x'}", "name is no field of a problem to narrow"),
        ("seqlen_q = {max = 1" + "0" * 400 + "}", "not an integer of 1329 bits"),
        ("'é' = {eq = 32}", "field is 'é', expected a name"),
    ],
)
def test_a_selection_narrows_and_does_not_contradict(select, message):
    with pytest.raises(CatalogueError) as caught:
        plan(f"select = {{{select}}}\n", axes=AXES.replace("[64, 128]", "64", 1))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("num_k_blocks = {min = 5000000000}", "leaves nothing: no value is at least 1 and at most"),
        ("num_k_blocks = {eq = 'x'}", "leaves nothing"),
        ("width = {max = 0}", "leaves nothing"),
    ],
)
def test_a_selection_of_an_argument_is_within_its_limits(select, message):
    with pytest.raises(CatalogueError) as caught:
        expand(Catalogue.parse(HEAD + MAP + f"select = {{{select}}}\n" + GRID, "cat.toml"))
    assert message in str(caught.value)


def test_a_selection_of_an_argument_keeps_its_limits():
    text = HEAD + MAP + "select = {width = {min = 8}}\n" + GRID
    found = {(c.field, c.op): c.value for c in constraints(expand(Catalogue.parse(text)).jobs[0])}
    family = FAMILIES["map_to_index"]
    high = family.limits(family.make_spec({}))["width"][1]
    assert (found["width", "min"], found["width", "max"]) == (8, high)


def test_a_selection_takes_integer_arguments():
    with pytest.raises(
        CatalogueError, match=r"select\.scale_log2: scale_log2 is f32; select takes"
    ):
        plan("select = {scale_log2 = {min = 1}}\n")


def test_a_selection_never_widens():
    made = plan("select = {seqlen_q = {min = 1, max = 4096}, head_size = {min = 1, max = 128}}\n")
    for job in made.jobs:
        found = {(c.field, c.op): c.value for c in constraints(job)}
        assert found[("seqlen_q", "max")] == 128
        assert found[("head_size", "eq")] == job.spec["head_size"]


def test_a_field_of_the_caller_may_be_added():
    made = plan("select = {model = {in = ['a', 'b'], default = 'a'}}\n")
    (found,) = (c for c in constraints(made.jobs[0]) if c.field == "model")
    assert (found.op, found.value, found.default) == ("in", ("a", "b"), "a")


def test_rules_that_match_nothing_are_told():
    made = plan('exclude = [{head_size = 96}, {head_size = 64, reason = "x"}, {seqlen_q = 1}]\n')
    assert [w.rpartition("exclude ")[2] for w in made.warnings] == [
        "1: it matches none of the combinations",
        "3: it matches none of the combinations",
    ]


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
        (HEAD + KERNELS + 'constraints = ["dtype < 1"]\n' + AXES, "dtype: 1, expected str"),
        (HEAD + KERNELS + 'constraints = ["dtype < block_q"]\n' + AXES, "do not compare"),
        (HEAD + KERNELS + 'constraints = ["dtype % block_q == 1"]\n' + AXES, "% takes integers"),
        (HEAD + KERNELS + 'constraints = ["block_q % dtype == 1"]\n' + AXES, "% takes integers"),
        (HEAD + KERNELS + """constraints = ["dtype == 'f61'"]\n""" + AXES, "expected f16, bf16"),
        (HEAD + KERNELS + """constraints = ["arch != 'gfx94'"]\n""" + AXES, "expected gfx90a, "),
        (HEAD + KERNELS + 'constraints = ["dtype == f16"]\n' + AXES, "or quote texts: 'f16'"),
        (HEAD + KERNELS + 'constraints = ["block_q % ² == 0"]\n' + AXES, "constraints: "),
        (HEAD + KERNELS + 'constraints = ["block_q % ٣ == 2"]\n' + AXES, "constraints: "),
        (HEAD + KERNELS + f'constraints = ["block_q == {"9" * 5000}"]\n' + AXES, "neither a field"),
        (HEAD + KERNELS + 'exclude = [{dtype = "f61"}]\n' + AXES, "exclude 1.dtype: 'f61', expec"),
        (HEAD + KERNELS + 'exclude = [{arch = "gfx94"}]\n' + AXES, "exclude 1.arch: 'gfx94', exp"),
        (HEAD + KERNELS + 'exclude = [{head_size = "32"}]\n' + AXES, "'32', expected int"),
        (HEAD + KERNELS + "exclude = [{head_size = []}]\n" + AXES, "exclude 1.head_size: an empty"),
        (HEAD + KERNELS + "exclude = [{head_size = {a = 1}}]\n" + AXES, "expected a plain value"),
        (HEAD + KERNELS + f"priority = 1{'0' * 30}\n" + AXES, "expected an integer below 2**53"),
        (HEAD + KERNELS + AXES.replace("[48, 64]", "[inf]"), "axes.block_k: inf, expected a fin"),
        (HEAD + KERNELS + AXES + f'name = "{"n" * 300}"\n', "the kernel's name: "),
        (HEAD + 'description = "a\\u001b[31m"\n' + KERNELS, "without control characters"),
        (HEAD + 'description = "a\\u2028b"\n' + KERNELS, "without control characters"),
        (HEAD + f'description = "{"x" * 5000}"\n' + KERNELS, "5000 characters, expected at most"),
        (HEAD.replace('"lib"', '"rocke"') + KERNELS, "'rocke' is a package of rocke's own"),
        (HEAD.replace('"lib"', '"Test"') + KERNELS, "'Test' is a package of rocke's own"),
        (HEAD.replace('"lib"', '"rocm-bindings-hip"') + KERNELS, "or one that it needs"),
        (HEAD.replace('"lib"', '"PyTest"') + KERNELS, "in the way of the module pytest ("),
        (HEAD.replace('"lib"', '"ML.dtypes"') + KERNELS, "or one that it needs"),
        (HEAD.replace('"lib"', '"json"') + KERNELS, "of Python itself"),
        (HEAD.replace('"1.0"', '"１.٠"') + KERNELS, "expected a version"),
        ("a=" + "[" * 100_000, "cat.toml: not valid TOML"),
        (HEAD + KERNELS + AXES.replace("[64, 128]", str([*range(60_000)]), 1), "in all"),
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


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("row = 3", "problem: row: unknown option, did you mean 'rows'?"),
        ("rows = -3", "problem: rows: -3, expected an integer of 1 to 1048576"),
        ("rows = 0", "problem: rows: 0, expected"),
        ("rows = 100000000000", "problem: rows: 100000000000, expected"),
        ("rows = 'x'", "problem: rows: 'x', expected an integer"),
        ("rows = [1]", "problem: rows: [1], expected an integer"),
        ("rows = true", "problem: rows: True, expected an integer"),
        ("rows = 3.0", "problem: rows: 3.0, expected an integer"),
        ("density = nan", "problem: density: nan, expected a finite number"),
        ("density = inf", "problem: density: inf, expected a finite number"),
        ("density = 5.0", "problem: density: 5.0, expected 0 to 1"),
        ("density = 'x'", "problem: density: 'x', expected a finite number"),
    ],
)
def test_options_of_the_problem_are_checked(problem, message):
    text = HEAD + MAP + f"problem = {{{problem}}}\n" + GRID
    with pytest.raises(CatalogueError) as caught:
        expand(Catalogue.parse(text, "cat.toml"))
    assert f"cat.toml: [[kernels]] 1 (map_to_index) {message}" in str(caught.value)


def problem_text(family, problem):
    (entry,) = [
        e for e in Catalogue.load(shipped()["attention.toml"]).entries if e.family == family
    ]
    axes = "".join(f"{n} = {v}\n" for n, v in FAMILIES[family].demo.items())
    select = "".join(f"{n} = {{min = {t['min']}}}\n" for n, t in entry.select.items())
    grid = ""
    if entry.grid is not None:
        grid = (
            f"[kernels.launch]\ngrid = {json.dumps([expressions.plain(g) for g in entry.grid])}\n"
        )
    head = f'{HEAD}[[kernels]]\nfamily = "{family}"\nproblem = {problem}\n'
    return f"{head}[kernels.axes]\n{axes}[kernels.select]\n{select}{grid}"


@pytest.mark.parametrize(
    ("family", "problem"),
    [
        ("map_to_index", "{rows = 20000, num_k_blocks = 20000}"),
        ("block_sparse_attention", "{seqlen_q = 1000000, seqlen_k = 1000000}"),
        ("invert_index", "{num_k_blocks = 100000, inverse_width = 100000}"),
        ("row_order", "{matrices = 60000, num_q_blocks = 100000}"),
        ("block_means", "{batch = 4000, tokens = 100000}"),
        ("top_k", "{rows = 1000000, num_k_blocks = 2000}"),
    ],
)
def test_a_problem_beyond_memory_is_refused_before_it_is_drawn(family, problem):
    tracemalloc.start()
    try:
        with pytest.raises(CatalogueError, match=r"problem: about .* GiB at once for .* = "):
            expand(Catalogue.parse(problem_text(family, problem), "cat.toml"))
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_a_spec_whose_own_sizes_are_beyond_memory_needs_a_problem():
    large = AXES.replace("seqlen_k = 256", "seqlen_k = 1048576")
    with pytest.raises(CatalogueError, match=r"problem: about .* seqlen_k = 1048576"):
        plan(axes=large)
    assert plan("problem = {seqlen_k = 256}\n", axes=large).jobs


def test_a_large_problem_is_checked_without_being_drawn():
    tracemalloc.start()
    try:
        text = problem_text("map_to_index", "{rows = 6000, num_k_blocks = 6000}")
        assert expand(Catalogue.parse(text, "cat.toml")).jobs
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    text = problem_text("block_sparse_attention", "{heads = 3, kv_heads = 2, seqlen_k = 100000}")
    with pytest.raises(CatalogueError, match="heads is 3, expected a multiple of kv_heads"):
        expand(Catalogue.parse(text, "cat.toml"))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda f: f.name)
def test_the_estimate_of_a_problems_memory_is_one(family):
    spec = family.make_spec(family.demo)
    options = {n: 2 * d for n, d in family.problem_options.items() if type(d) is int}
    tracemalloc.start()
    try:
        problem = family.make_problem(spec, np.random.default_rng(0), **options)
        family.reference(spec, problem)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    estimate = family.problem_bytes(spec, {**family.problem_options, **options})
    assert held / 3 < estimate + (1 << 20)
    assert estimate < 15 * held


def test_a_problem_must_go_with_every_kernel_of_its_entry():
    with pytest.raises(CatalogueError, match=r"problem: seqlen_q is 200, expected 1 to the spec's"):
        plan("problem = {seqlen_q = 200}\n", axes=AXES.replace("= 128", "= [256, 128]"))


MAP = '[[kernels]]\nfamily = "map_to_index"\n'
GRID = 'launch = {grid = [["ceil_div", "rows", "waves"], 1, 1]}\n'
MEANS = '[[kernels]]\nfamily = "block_means"\n'
PASTE = 'write grid = [["ceil_div", "rows", "waves"], 1, 1] in [kernels.launch]'


@pytest.mark.parametrize(
    ("family", "launch", "message"),
    [
        (MAP, "", "launch grid: missing; in words it is (ceil(rows / waves), 1, 1); " + PASTE),
        (MAP, '["rows", 1, 1]', "it is (6, 1, 1) where the family's rule gives (2, 1, 1), for "),
        (MAP, "[16, 1, 1]", PASTE),
        (MAP, '[["ceil_div", "rows", 4], 1, 1]', "where the family's rule gives"),
        (MAP, '[["ceil_div", ["add", "rows", 3], "waves"], 1, 1]', PASTE),
        (MAP, '[["ceil_div", "row", "waves"], 1, 1]', "'row' is no field or property of the spec"),
        (MAP, '[["ceil_div", "row", "waves"], 1, 1]', "did you mean 'rows'?"),
        (MEANS, '[["ceil_div", "num_blocks", "waves"], "heads", 2]', "batch = 1"),
        (MEANS, '[["ceil_div", "num_blocks", "waves"], 3, "batch"]', "heads = 1"),
        (MEANS, '[["ceil_div", "num_blocks", "waves"], "batch", "heads"]', "rule gives (1, 3, 2)"),
    ],
)
def test_a_grid_is_compared_with_the_familys_before_anything_is_compiled(family, launch, message):
    axes = "[kernels.axes]\nwaves = [4, 2]\n" if family == MAP else ""
    if family == MEANS:
        axes = "[kernels.axes]\nhead_size = 64\n"
    written = f"[kernels.launch]\ngrid = {launch}\n" if launch else ""
    with pytest.raises(CatalogueError) as caught:
        expand(Catalogue.parse(HEAD + family + axes + written, "cat.toml"))
    assert str(caught.value).startswith("cat.toml: [[kernels]] 1 (")
    assert message in str(caught.value)


BY_LAUNCH = [f for f in FAMILIES.values() if f.launch is not None]


@pytest.mark.parametrize("family", BY_LAUNCH, ids=lambda f: f.name)
def test_every_size_of_a_familys_problems_is_varied(family):
    spec = family.make_spec(family.demo)
    tried = [options for options, _ in samples(family, spec)]
    for name in sizes_of(family):
        assert len({options[name] for options in tried}) >= 2, name
    grids = {family.grid_of(spec, "gfx942", p.arguments) for _, p in samples(family, spec)}
    assert len(grids) >= 2


@pytest.mark.parametrize("family", BY_LAUNCH, ids=lambda f: f.name)
def test_the_line_to_paste_is_right(family):
    axes = "".join(f"{n} = {v}\n" for n, v in family.demo.items())
    text = f'{HEAD}[[kernels]]\nfamily = "{family.name}"\n[kernels.axes]\n{axes}'
    with pytest.raises(CatalogueError) as caught:
        expand(Catalogue.parse(text, "cat.toml"))
    advice = re.search(
        r"; write (.*) in \[kernels.launch\](?:, and in \[kernels.select\] (.*))?$",
        str(caught.value),
    )
    pasted = f"[kernels.launch]\n{advice[1]}\n"
    if advice[2]:
        pasted += "[kernels.select]\n" + advice[2].replace("; ", "\n")
    assert expand(Catalogue.parse(text + pasted, "cat.toml")).jobs


BLOCKS = '["mul", ["ceil_div", "seqlen_q", "block_q"], "workgroups_per_block"]'


@pytest.mark.parametrize(
    "grid",
    [
        f'[{BLOCKS}, ["mul", "heads", ["ceil_div", "heads", 600]], "batch"]',
        f'[["mul", {BLOCKS}, ["ceil_div", "seqlen_q", 601]], "heads", "batch"]',
        # About the smaller of heads and batch, halved: one where either of them is small.
        f'[{BLOCKS}, "heads", ["mul", "batch", ["ceil_div", ["ceil_div", ["mul", "heads", "batch"],'
        ' ["add", "heads", "batch"]], 2]]]',
    ],
)
def test_a_grid_that_is_right_for_small_sizes_alone_is_refused(grid):
    text = problem_text("block_sparse_attention", "{seqlen_q = 64, seqlen_k = 64}")
    text = f"{text[: text.rindex('grid = ')]}grid = {grid}\n"
    with pytest.raises(CatalogueError, match="where the family's rule gives"):
        expand(Catalogue.parse(text, "cat.toml"))


def test_a_family_with_a_grid_of_its_own_takes_none():
    with pytest.raises(CatalogueError, match="has a grid of its own"):
        plan("launch = {grid = [1, 1, 1]}\n")


def test_a_library_may_be_called_like_its_earlier_version(tmp_path, monkeypatch):
    folder = tmp_path / "my_own_kernels"
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    text = HEAD.replace('"lib"', '"my-own.kernels"') + KERNELS + AXES
    assert Catalogue.parse(text).name == "my-own.kernels"  # a folder alone, such as a build's
    folder.joinpath("__init__.py").touch()
    importlib.invalidate_caches()
    with pytest.raises(CatalogueError, match="in the way of the module my_own_kernels"):
        Catalogue.parse(text)
    folder.joinpath("manifest.json").touch()
    assert Catalogue.parse(text).name == "my-own.kernels"


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(CatalogueError, match="No such file"):
        Catalogue.load(tmp_path / "absent.toml")
    tmp_path.joinpath("binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CatalogueError, match="not a text file"):
        Catalogue.load(tmp_path / "binary.toml")
    tmp_path.joinpath("mark.toml").write_text(HEAD + KERNELS + AXES, encoding="utf-8-sig")
    assert Catalogue.load(tmp_path / "mark.toml").name == "lib"


@pytest.mark.parametrize("name", list(shipped()))
def test_shipped_catalogues_expand_without_losing_anything(name):
    made = expand(Catalogue.load(shipped()[name]))
    assert made.jobs
    assert made.dropped == ()
    assert {j.arch for j in made.jobs} == {"gfx90a", "gfx942", "gfx950"}
