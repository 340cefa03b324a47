"""Packages: the same bytes every time, and hundreds of damaged or hostile ones refused."""

import base64
import hashlib
import io
import json
import os
import random
import struct
import subprocess
import sys
import zipfile

import pytest

from rocke.compiler import CodeObject
from rocke.library import KernelLibrary, LibraryError, pack_wheel, pack_zip
from rocke.library.container import Archive, write_archive
from rocke.library.layout import wheel_layout, zip_layout
from rocke.library.manifest import Manifest
from rocke.library.pack import wheel_name, zip_name

pytestmark = pytest.mark.normal


@pytest.fixture(scope="module")
def packed(library):
    return {".zip": pack_zip(library), ".whl": pack_wheel(library)}


def load_everything(path):
    """Open a library and read every object, as a device that loads them all would."""
    library = KernelLibrary.open(path)
    return [k.code_object().sha256 for k in library.kernels]


def refusal(path, data):
    """The error of a package; fails if it opens and loads."""
    path.write_bytes(data)
    with pytest.raises(LibraryError) as caught:
        load_everything(path)
    return str(caught.value)


@pytest.mark.parametrize("suffix", [".zip", ".whl"])
def test_packing_gives_the_same_bytes_from_any_form(library, packed, suffix, tmp_path):
    pack = {".zip": pack_zip, ".whl": pack_wheel}[suffix]
    for other, data in packed.items():
        path = tmp_path / f"library{other}"
        path.write_bytes(data)
        assert pack(KernelLibrary.open(path)) == packed[suffix]
        assert load_everything(path) == [k.entry.sha256 for k in library.kernels]


def test_packing_does_not_depend_on_the_process(built, packed, tmp_path):
    program = (
        "import sys; from rocke.library import KernelLibrary, pack_wheel\n"
        f"sys.stdout.buffer.write(pack_wheel(KernelLibrary.open({str(built)!r})))"
    )
    environment = {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1234567890"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment)
    assert done.stdout == packed[".whl"], done.stderr.decode()


def test_the_wheel_is_one(library, packed):
    archive = zipfile.ZipFile(io.BytesIO(packed[".whl"]))
    assert archive.testzip() is None
    assert wheel_name(library) == "small_kernels-1.2.0-py3-none-any.whl"
    assert zip_name(library) == "small-kernels-1.2.0.zip"
    info = "small_kernels-1.2.0.dist-info"
    assert b"Name: small-kernels\nVersion: 1.2.0\n" in archive.read(f"{info}/METADATA")
    assert b"Requires-Dist: rocke>=" in archive.read(f"{info}/METADATA")
    rows = archive.read(f"{info}/RECORD").decode().splitlines()
    assert rows[-1] == f"{info}/RECORD,,"
    for row in rows[:-1]:
        name, digest, size = row.split(",")
        data = archive.read(name)
        made = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == (f"sha256={made}", len(data))
    assert sorted(r.split(",")[0] for r in rows) == sorted(archive.namelist())


@pytest.mark.parametrize("suffix", [".zip", ".whl"])
@pytest.mark.parametrize("part", range(4))
def test_truncated_packages(packed, suffix, part, tmp_path):
    data = packed[suffix]
    rng = random.Random(f"{suffix}{part}")
    for length in (part, *(rng.randrange(len(data)) for _ in range(9))):
        message = refusal(tmp_path / f"cut{suffix}", data[:length])
        assert f"cut{suffix}" in message


@pytest.mark.parametrize("suffix", [".zip", ".whl"])
@pytest.mark.parametrize("part", range(8))
def test_a_changed_bit_anywhere(packed, suffix, part, tmp_path):
    """Half of the bits are drawn from the container's own structures, which are small."""
    data = packed[suffix]
    start = data.rfind(b"PK\5\6")
    directory = struct.unpack_from("<L", data, start + 16)[0]
    rng = random.Random(f"{suffix}{part}")
    for number in range(16):
        low = directory if number % 2 else 0
        bit = rng.randrange(8 * low, 8 * len(data))
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        message = refusal(tmp_path / f"bit{suffix}", bytes(changed))
        assert f"bit{suffix}" in message


def entries(data):
    archive = zipfile.ZipFile(io.BytesIO(data))
    return {name: archive.read(name) for name in archive.namelist()}


def hostile(data, rng):
    """Well-made zip archives with contents that do not belong together."""
    files = entries(data)
    objects = [n for n in files if n.endswith(".hsaco")]
    manifest = next(n for n in files if n.endswith("manifest.json"))
    first, second = rng.sample(objects, 2)
    yield "swapped", write_archive({**files, first: files[second], second: files[first]})
    yield "renamed", write_archive({n: d for n, d in files.items() if n != first} | {"x": b""})
    yield "missing", write_archive({n: d for n, d in files.items() if n != second})
    yield "too many", write_archive({**files, "objects/extra.hsaco": files[first]})
    yield "no manifest", write_archive({n: d for n, d in files.items() if n != manifest})
    yield "two manifests", write_archive({**files, "other/manifest.json": files[manifest]})
    yield "empty object", write_archive({**files, first: b""})
    yield "other object", write_archive({**files, first: rng.randbytes(len(files[first]))})
    yield "empty", write_archive({})
    yield "code", write_archive({**files, f"{manifest[:-13]}evil.py": b"print('x')"})
    for name in ("../evil", "/evil", "a/../../evil", "..\\evil", "C:evil", "a//b", "", "ä", "a b"):
        yield f"name {name!r}", zipped([*files.items(), (name, b"")])
    yield "duplicate", zipped([*files.items(), (first, files[first])])
    yield "deflated", zipped(list(files.items()), method=zipfile.ZIP_DEFLATED)
    yield "comment", zipped(list(files.items()), comment=b"hello")
    yield "link", zipped([*files.items(), ("link", b"/etc/passwd")], mode=0o120777)
    yield "prefix", b"#!/bin/sh\n" + data
    yield "suffix", data + b"\0"
    for kind, changed in lying(files[manifest], rng):
        yield kind, write_archive({**files, manifest: changed})
        yield f"{kind}, packed", repacked(files, changed, manifest)
    for name in files:
        if name not in objects:
            altered = {**files, name: files[name] + b" "}
            yield f"{name} changed", write_archive(altered)
    spaced = loosely_sealed(json.loads(files[manifest]))
    yield "other spaces", write_archive({**files, manifest: spaced})
    yield "another order", write_archive(dict(sorted(files.items(), reverse=True)))
    yield "a folder before it", write_archive({f"a/{n}": d for n, d in files.items()})


def repacked(files, manifest, name):
    """The archive that packing would write for a manifest that lies, where it can be read."""
    try:
        read = Manifest.from_bytes(manifest)
    except LibraryError:
        return b""
    layout = wheel_layout(read) if "/" in name else zip_layout(read)
    by_name = {n.rpartition("/")[2]: d for n, d in files.items()}
    made = {
        n: item if isinstance(item, bytes) else by_name[item.file.rpartition("/")[2]]
        for n, item in layout.items()
    }
    return write_archive(made)


def zipped(items, *, method=zipfile.ZIP_STORED, comment=b"", mode=0o100644):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        archive.comment = comment
        for name, data in items:
            info = zipfile.ZipInfo("x", (1980, 1, 1, 0, 0, 0))
            info.filename, info.create_system, info.compress_type = name, 3, method
            info.external_attr = mode << 16
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("warnings.warn", lambda *a, **k: None)  # about duplicate names
                archive.writestr(info, data)
    return made.getvalue()


def lying(data, rng):
    """Manifests that are whole and valid, but say other things than the objects do."""
    raw = json.loads(data)
    kernels = raw["kernels"]
    number = rng.randrange(len(kernels))

    def changed(**fields):
        made = [dict(k) for k in kernels]
        made[number] |= fields
        return sealed({**raw, "kernels": made})

    kernel = kernels[number]
    resources, arguments = kernel["resources"], kernel["arguments"]
    other = "gfx950" if kernel["arch"] == "gfx942" else "gfx942"
    target = kernel["target"].replace(kernel["arch"], other)
    yield "other target", changed(arch=other, target=target)
    yield "other arch", changed(arch=other)
    yield "unknown arch", changed(arch="gfx1100")
    yield "other symbol", changed(symbol="another.kd")
    yield "code object v4", changed(code_object_version=4)
    for name in resources:
        yield f"other {name}", changed(resources={**resources, name: resources[name] + 1})
    yield "argument missing", changed(arguments=arguments[:-1])
    moved = [{**arguments[0], "offset": 4096}, *arguments[1:]]
    yield "argument moved", changed(arguments=moved)
    grown = [{**arguments[0], "size": 16}, *arguments[1:]]
    yield "argument grown", changed(arguments=grown)
    retyped = [{**arguments[0], "type": "i64"}, *arguments[1:]]
    yield "argument retyped", changed(arguments=retyped)
    renamed = [{**arguments[0], "name": "other"}, *arguments[1:]]
    yield "argument renamed", changed(arguments=renamed)
    yield "another size", changed(size=kernel["size"] + 1)
    yield "another sha256", changed(sha256="0" * 64)
    yield "other required size", changed(required_workgroup_size=[1, 2, 3])
    yield "other block", changed(block=[1024, 1, 1])
    yield "schema 99", sealed({**raw, "schema": 99})


def sealed(raw):
    """A manifest's file; the one of the writer, where the data is what it could write."""
    raw = {k: v for k, v in raw.items() if k != "digest"}
    data = loosely_sealed(raw)
    try:
        return Manifest.from_bytes(data).to_bytes()
    except LibraryError:
        return data


def loosely_sealed(raw):
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in raw.items() if k != "digest"]
    body = (",\n".join(lines) + "}\n").encode()
    return b'{"digest": "sha256:%s",\n' % hashlib.sha256(body).hexdigest().encode() + body


@pytest.mark.parametrize("suffix", [".zip", ".whl"])
@pytest.mark.parametrize("seed", range(3))
def test_hostile_packages(packed, suffix, seed, tmp_path):
    seen = []
    for kind, data in hostile(packed[suffix], random.Random(seed)):
        message = refusal(tmp_path / f"hostile{suffix}", data)
        assert f"hostile{suffix}" in message, kind
        seen.append(kind)
    assert len(seen) > 80


def test_sealing_changes_nothing_by_itself(packed):
    """The tests above would prove nothing if their own manifests were never accepted."""
    data = next(d for n, d in entries(packed[".zip"]).items() if n == "manifest.json")
    assert Manifest.from_bytes(sealed(json.loads(data))) == Manifest.from_bytes(data)
    assert write_archive(entries(packed[".zip"])) == packed[".zip"]


@pytest.mark.parametrize("where", ["manifest.json", "object"])
def test_damaged_folders(built, where, tmp_path):
    for path in built.rglob("*"):
        if path.is_file() and ".rocke-build" not in path.parts:
            copy = tmp_path / path.relative_to(built)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(path.read_bytes())
    assert load_everything(tmp_path)
    victim = tmp_path / where if where != "object" else next(tmp_path.glob("objects/*.hsaco"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 4
    victim.write_bytes(data)
    with pytest.raises(LibraryError, match="sha256"):
        load_everything(tmp_path)
    victim.write_bytes(data[:100])
    with pytest.raises(LibraryError, match=r"100 bytes|damaged"):
        load_everything(tmp_path)
    victim.unlink()
    with pytest.raises(LibraryError, match="No such file"):
        load_everything(tmp_path)


def test_an_object_is_not_read_through_a_link(built, tmp_path):
    objects = tmp_path / "objects"
    objects.symlink_to(built / "objects")
    tmp_path.joinpath("manifest.json").write_bytes((built / "manifest.json").read_bytes())
    with pytest.raises(LibraryError, match="a link, expected a file of the library itself"):
        KernelLibrary.open(tmp_path)


@pytest.mark.parametrize(
    "entry", ["__init__.py", "METADATA", "WHEEL", "entry_points.txt", "RECORD"]
)
def test_a_changed_text_of_a_wheel_is_named(packed, entry, tmp_path):
    files = entries(packed[".whl"])
    name = next(n for n in files if n.endswith(entry))
    same_size = files[name].replace(b"e", b"E", 1)
    assert same_size != files[name]
    message = refusal(tmp_path / "changed.whl", write_archive({**files, name: same_size}))
    assert f"{name}: not what rocke pack writes for this manifest" in message


def test_names_decide_nothing_about_where_a_package_is_written(packed, tmp_path):
    """Each would have led outside, or into a file of rocke or pip."""
    files = entries(packed[".zip"])
    for field, value in (
        ("name", "../../evil"),
        ("name", "/tmp/evil"),
        ("name", "ok\u2028evil = os"),
        ("name", "rocke"),
        ("version", "1/../../evil"),
        ("version", "1.0\x85Requires-Dist: evil"),
        ("rocke", "0.1; extra == 'x'"),
    ):
        raw = {**json.loads(files["manifest.json"]), field: value}
        changed = write_archive({**files, "manifest.json": sealed(raw)})
        message = refusal(tmp_path / "hostile.zip", changed)
        assert f"manifest.json: {field}: " in message


@pytest.mark.parametrize("suffix", [".zip", ".whl"])
@pytest.mark.parametrize("length", [0, 1000])
def test_an_archive_that_is_cut_while_it_is_open(packed, suffix, length, tmp_path):
    path = tmp_path / f"cut{suffix}"
    path.write_bytes(packed[suffix])
    library = KernelLibrary.open(path)
    with path.open("r+b") as file:
        file.truncate(length)
    with pytest.raises(LibraryError, match=f"cut short while it was open.*now {length}"):
        library.kernels[-1].code_object()


def test_an_archive_that_is_replaced_while_it_is_open_serves_as_it_was(packed, tmp_path):
    path = tmp_path / "library.zip"
    path.write_bytes(packed[".zip"])
    library = KernelLibrary.open(path)
    tmp_path.joinpath("other").write_bytes(b"another file")
    tmp_path.joinpath("other").replace(path)
    assert len({k.code_object().sha256 for k in library.kernels}) == 8


def test_each_object_is_read_once_and_late(packed, tmp_path, monkeypatch):
    path = tmp_path / "library.zip"
    path.write_bytes(packed[".zip"])
    library = KernelLibrary.open(path)
    read = []
    real = Archive.read
    monkeypatch.setattr(Archive, "read", lambda self, name: read.append(name) or real(self, name))
    for _ in range(3):
        library.kernels[2].code_object()
    assert read == [library.kernels[2].entry.file]


def test_a_pipe_is_no_library(tmp_path):
    os.mkfifo(tmp_path / "pipe.zip")
    with pytest.raises(LibraryError, match=r"pipe\.zip: not a regular file"):
        KernelLibrary.open(tmp_path / "pipe.zip")
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(LibraryError, match=r"manifest\.json: not a regular file"):
        KernelLibrary.open(tmp_path)


def test_nothing_is_parsed_before_its_sha256_matches(built, library, monkeypatch):
    entry = library.kernels[0].entry
    data = bytearray((built / entry.file).read_bytes())
    data[200] ^= 1
    monkeypatch.setattr(CodeObject, "from_bytes", lambda *a, **k: pytest.fail("it was parsed"))
    with pytest.raises(LibraryError, match="sha256 is"):
        entry.check(bytes(data), "damaged")
