"""The manifest: what it says is what the objects say, its schema, and damaged ones."""

import copy
import hashlib
import json
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from packaging.requirements import Requirement

from rocke.compiler import CodeObject
from rocke.library.constraints import Constraint
from rocke.library.errors import LibraryError
from rocke.library.manifest import Manifest, schema
from rocke.library.naming import check_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture(scope="module")
def raw(built):
    return json.loads((built / "manifest.json").read_bytes())


def sealed(raw):
    """The file of changed data, with a digest that fits: a hostile manifest, not a damaged one."""
    body = (
        b"\n".join(
            [
                b"%s: %s," % (json.dumps(k).encode(), json.dumps(v).encode())
                for k, v in raw.items()
                if k != "digest"
            ]
        )[:-1]
        + b"}\n"
    )
    return b'{"digest": "sha256:%s",\n' % hashlib.sha256(body).hexdigest().encode() + body


def test_the_schema_is_valid_and_the_manifest_follows_it(raw):
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(raw, schema())
    assert schema()["properties"]["schema"] == {"const": raw["schema"]}


def test_facts_are_those_of_the_objects(built, raw):
    for kernel in raw["kernels"]:
        data = (built / kernel["file"]).read_bytes()
        info = CodeObject.from_bytes(data).kernel(kernel["symbol"])
        assert (kernel["size"], kernel["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        found = [(a["offset"], a["size"], a["access"]) for a in kernel["arguments"]]
        assert found == [(a.offset, a.size, a.access) for a in info.explicit_arguments]
        for name, value in kernel["resources"].items():
            assert getattr(info, name) == value


def test_reading_gives_the_manifest_that_was_written(built):
    data = (built / "manifest.json").read_bytes()
    manifest = Manifest.from_bytes(data)
    assert manifest.to_bytes() == data
    assert manifest.name == "small-kernels"
    assert len(manifest.kernels) == 8


CHANGES = {
    "another schema version": (
        lambda m: m.update(schema=2),
        "schema version 2, this rocke reads 1",
    ),
    "no version": (lambda m: m.pop("version"), "missing key 'version'"),
    "a key too many": (lambda m: m.update(extra=1), "unknown key 'extra'"),
    "no kernels": (lambda m: m.update(kernels=[]), "kernels: expected a list"),
    "a kernel that is no table": (lambda m: m["kernels"].insert(0, 3), "kernels[0]: 3, expected"),
    "a path outside": (
        lambda m: m["kernels"][0].update(file="../../etc/passwd"),
        "kernels[0].file: '../../etc/passwd' is not allowed",
    ),
    "an absolute path": (
        lambda m: m["kernels"][0].update(file="/objects/a.hsaco"),
        "is not allowed",
    ),
    "dots in a path": (
        lambda m: m["kernels"][0].update(file="objects/a..b.hsaco"),
        "is not allowed",
    ),
    "two of one id": (
        lambda m: m["kernels"][1].update(id=m["kernels"][0]["id"]),
        "stands twice",
    ),
    "two of one file": (
        lambda m: m["kernels"][1].update(file=m["kernels"][0]["file"]),
        "stands twice",
    ),
    "a huge count": (
        lambda m: m["kernels"][0].update(size=10**30),
        "kernels[0].size",
    ),
    "a negative size": (lambda m: m["kernels"][0].update(size=-1), "kernels[0].size: -1"),
    "a boolean count": (lambda m: m["kernels"][0].update(size=True), "kernels[0].size: True"),
    "a workgroup too large": (
        lambda m: m["kernels"][0].update(block=[1024, 2, 1]),
        "expected 1 to 1024 work-items",
    ),
    "a grid of code": (
        lambda m: m["kernels"][0].update(grid=["__import__('os')", 1, 1]),
        "kernels[0].grid",
    ),
    "an unknown operation": (
        lambda m: m["kernels"][0].update(grid=[["pow", 2, 99], 1, 1]),
        "kernels[0].grid",
    ),
    "an unknown constraint": (
        lambda m: m["kernels"][0]["constraints"].append({"field": "x", "op": "eval", "value": 1}),
        "op is 'eval', expected one of eq",
    ),
    "a limit by an unknown operation": (
        lambda m: m["kernels"][0]["limits"].update(bitmap={"access": [[["sub", 1, 2], 1]]}),
        "limits.bitmap.access: ['sub', 1, 2], expected an integer",
    ),
    "a limit by no axis of the grid": (
        lambda m: m["kernels"][0]["limits"].update(bitmap={"shape": ["grid.w"]}),
        "limits.bitmap.shape: 'grid.w'",
    ),
    "a limit that is no truth": (
        lambda m: m["kernels"][0]["limits"].update(bitmap={"apart": 1}),
        "limits.bitmap.apart: 1, expected true or false",
    ),
    "half a span": (
        lambda m: m["kernels"][0]["limits"].update(bitmap={"span": [2]}),
        "limits.bitmap.span: [2], expected a list of 2",
    ),
    "a limit of another kind": (
        lambda m: m["kernels"][0]["limits"].update(bitmap={"code": 1}),
        "limits.bitmap: unknown key 'code'",
    ),
    "a control character": (lambda m: m.update(description="a\nb"), "expected a text of one line"),
    "a name that is a path": (lambda m: m.update(name="../../evil"), "name: '../../evil'"),
    "a name of rocke's": (lambda m: m.update(name="Rocke"), "a package of rocke's own"),
    "a name of what rocke needs": (lambda m: m.update(name="ml-dtypes"), "one that it needs"),
    "a module of Python": (lambda m: m.update(name="json"), "of Python itself"),
    "a word of Python": (lambda m: m.update(name="class"), "of Python itself"),
    "a version that is a path": (lambda m: m.update(version="1/../x"), "version: '1/../x'"),
    "a version in other digits": (lambda m: m.update(version="１.٠"), "expected a version"),
    "a line of Unicode": (lambda m: m.update(description="a\u2028b"), "'\\u2028'"),
    "an escape": (lambda m: m.update(description="a\x9b31m"), "'\\x9b'"),
    "another direction": (lambda m: m.update(description="a\u202eb"), "'\\u202e'"),
    "half a character": (lambda m: m.update(description="a\udcffb"), "'\\udcff'"),
    "half a character in a key": (
        lambda m: m["kernels"][0]["spec"].update({"a\ud800": 1}),
        "kernels[0].spec: 'a\\ud800'",
    ),
    "half a character in a limit": (
        lambda m: m["kernels"][0]["limits"].update({"a\ud800": [1, 2]}),
        "kernels[0].limits: 'a\\ud800'",
    ),
    "the end of a comment": (
        lambda m: m["kernels"][0].update(family="x */ #error /*"),
        "kernels[0].family",
    ),
    "an id of another kind": (lambda m: m["kernels"][0].update(id="[bold]"), "kernels[0].id"),
    "a type that is none": (
        lambda m: m["kernels"][0]["arguments"][0].update(type="i32 */"),
        "kernels[0].arguments[0].type: type 'i32 */'",
    ),
    "a bound of 400 digits": (
        lambda m: m["kernels"][0]["constraints"].append(
            {"field": "x", "op": "max", "value": 10**400}
        ),
        "not an integer of 1329 bits",
    ),
    "too many constraints": (
        lambda m: m["kernels"][0].update(constraints=m["kernels"][0]["constraints"] * 501),
        "expected at most 500",
    ),
    "a spec of 400 digits": (
        lambda m: m["kernels"][0]["spec"].update(waves=10**400),
        "expected an integer of 64 bits",
    ),
    "a range turned round": (
        lambda m: m["kernels"][0]["limits"].update(rows=[5, 1]),
        "expected low <= high",
    ),
    "a name that is code": (
        lambda m: m["kernels"][0]["arguments"][0].update(name="a; system(1)"),
        "expected a name",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_hostile_manifests_are_refused_by_reader_and_schema(raw, change):
    alter, message = CHANGES[change]
    changed = copy.deepcopy(raw)
    alter(changed)
    with pytest.raises(LibraryError) as caught:
        Manifest.from_bytes(sealed(changed))
    assert message in str(caught.value)
    beyond = {
        *("two of one id", "two of one file", "dots in a path", "a workgroup too large"),
        *("a name of rocke's", "a name of what rocke needs", "a module of Python"),
        *("a word of Python", "a type that is none", "a range turned round"),
    }  # what a schema cannot say
    if change not in beyond:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(changed, schema())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a manifest"),
        (b"{}", "not a manifest"),
        (b'{"digest": "sha256:' + b"0" * 64 + b'",\n}', "damaged"),
    ],
)
def test_files_that_are_no_manifest(data, message):
    with pytest.raises(LibraryError, match=message):
        Manifest.from_bytes(data)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
@pytest.mark.parametrize("where", ["spec", "problem", "limits"])
def test_numbers_that_are_not_finite(raw, number, where):
    changed = copy.deepcopy(raw)
    value = [1, "NUMBER"] if where == "limits" else "NUMBER"
    changed["kernels"][0][where]["waves"] = value
    body = sealed(changed).split(b"\n", 1)[1].replace(b'"NUMBER"', number.encode())
    with pytest.raises(LibraryError, match=r"finite|no number that|expected low"):
        Manifest.from_bytes(seal(body))


@pytest.mark.parametrize(
    ("limit", "good"),
    [
        ({"access": [["grid.y", 4], [["ceil_div", "rows", 64], 1]], "apart": True}, True),
        ({"shape": [["mul", "rows", ["ceil_div", "grid.x", 2]]]}, True),
        ({"shape": ["grid.w"]}, False),
        ({"shape": [["sub", "rows", 1]]}, False),
        ({"shape": [["mul", "rows"]]}, False),
        ({"shape": [["mul", 1, ["mul", 1, ["mul", 1, ["mul", 1, ["mul", 1, 1]]]]]]}, False),
        ({"shape": [], "apart": 1}, False),
    ],
)
def test_sizes_in_limits(raw, limit, good):
    changed = copy.deepcopy(raw)
    changed["kernels"][0]["limits"]["bitmap"] = limit
    if good:
        read = Manifest.from_bytes(sealed(changed))
        assert json.loads(json.dumps(read.kernels[0].limits["bitmap"])) == limit
        assert Manifest.from_bytes(read.to_bytes()) == read
        jsonschema.validate(changed, schema())
    else:
        with pytest.raises(LibraryError, match=r"kernels\[0\]\.limits\.bitmap"):
            Manifest.from_bytes(sealed(changed))


def test_reserved_names_are_all_that_rocke_needs():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = {Requirement(r).name for r in (*project["dependencies"], *extras["compiler"])}
    needed |= {Requirement(r).name for r in extras["emulator"]} | {"rocke"}
    for name in needed:
        with pytest.raises(ValueError, match=r"here: .* is a package of rocke's own"):
            check_name(name, "here")


def seal(body):
    return b'{"digest": "sha256:%s",\n' % hashlib.sha256(body).hexdigest().encode() + body


@pytest.mark.parametrize(
    "body",
    [
        b'"schema": 1, "schema": 1}',
        b'"schema": NaN}',
        b'"schema": Infinity}',
        b'"schema": ' + b"[" * 100_000 + b"}",
        b'"schema": ' + b"9" * 10_000 + b"}",
        b'"schema": "\xff"}',
        b'"schema": 1',
    ],
)
def test_json_that_is_hostile_in_itself(body):
    with pytest.raises(LibraryError):
        Manifest.from_bytes(seal(body))


@pytest.mark.parametrize(
    ("raw", "good", "bad"),
    [
        ({"op": "eq", "value": 4}, [4, np.int64(4)], [5, "4", True, None, 4.0, np.array(4)]),
        ({"op": "eq", "value": True}, [True, np.True_], [1, False, "True"]),
        ({"op": "in", "value": [1, "a"]}, [1, "a"], [True, "b", 2]),
        ({"op": "min", "value": 3}, [3, 4], [2, "3", True, 3.5]),
        ({"op": "max", "value": 3}, [3, -1], [4, "3", True]),
        ({"op": "multiple_of", "value": 16}, [0, 32], [8, "16"]),
    ],
)
def test_constraints_hold_or_say_why_not(raw, good, bad):
    constraint = Constraint.parse({"field": "n", **raw}, "here")
    assert Constraint.parse(constraint.plain(), "here") == constraint
    for value in good:
        assert constraint.reason({"n": value}) == ""
    for value in bad:
        kind = "" if isinstance(value, (int, str)) else f" ({type(value).__name__})"
        assert constraint.reason({"n": value}).startswith(f"n is {value!r}{kind}, expected ")
    assert constraint.reason({}).startswith("n is not given, expected ")
    with_default = Constraint.parse({"field": "n", **raw, "default": good[0]}, "here")
    assert with_default.reason({}) == ""


@pytest.mark.parametrize(
    "raw",
    [
        7,
        {"field": "n", "op": "eq"},
        {"field": "a b", "op": "eq", "value": 1},
        {"field": "n", "op": "eq", "value": [1]},
        {"field": "n", "op": "eq", "value": None},
        {"field": "n", "op": "in", "value": []},
        {"field": "n", "op": "in", "value": "abc"},
        {"field": "n", "op": "min", "value": "3"},
        {"field": "n", "op": "multiple_of", "value": 0},
        {"field": "n", "op": "eq", "value": 1, "else": 2},
        {"field": "n", "op": "eq", "value": 1, "default": [1]},
        {"field": "n", "op": "max", "value": 2**63},
        {"field": "n", "op": "eq", "value": "a\u2028"},
        {"field": "é", "op": "eq", "value": 1},
    ],
)
def test_constraints_that_are_none(raw):
    with pytest.raises(ValueError, match=r"^here: "):
        Constraint.parse(raw, "here")
