"""The manifest: what it says is what the objects say, its schema, and damaged ones."""

import copy
import hashlib
import json

import jsonschema
import pytest

from rocke.compiler import CodeObject
from rocke.library.constraints import Constraint
from rocke.library.errors import LibraryError
from rocke.library.manifest import Manifest, schema


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
    "a limit of another kind": (
        lambda m: m["kernels"][0]["limits"].update(bitmap={"code": 1}),
        "limits.bitmap: unknown key 'code'",
    ),
    "a control character": (lambda m: m.update(name="a\nb"), "expected a text of one line"),
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


def seal(body):
    return b'{"digest": "sha256:%s",\n' % hashlib.sha256(body).hexdigest().encode() + body


@pytest.mark.parametrize(
    "body",
    [
        b'"schema": 1, "schema": 1}',
        b'"schema": NaN}',
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
        ({"op": "eq", "value": 4}, [4], [5, "4", True, None]),
        ({"op": "eq", "value": True}, [True], [1, False, "True"]),
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
        assert constraint.reason({"n": value}).startswith(f"n is {value!r}, expected ")
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
    ],
)
def test_constraints_that_are_none(raw):
    with pytest.raises(ValueError, match=r"^here: "):
        Constraint.parse(raw, "here")
