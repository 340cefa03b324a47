from __future__ import annotations

import pytest

from rocke.core.ir import (
    BF8E5M2,
    F16,
    F32,
    FP8E4M3,
    I1,
    I8,
    I32,
    SCALAR_TYPES,
    IRBuilder,
    MlirType,
    PtrType,
    SmemType,
    VectorType,
    ptr,
    scalar_type,
    smem,
    vec,
)


@pytest.mark.parametrize(
    ("type_", "name", "mlir"),
    [
        (I1, "i1", "i1"),
        (FP8E4M3, "fp8e4m3", "i8"),
        (BF8E5M2, "bf8e5m2", "i8"),
        (vec(F16, 4), "vec<f16, 4>", "vector<4xf16>"),
        (ptr(F16), "ptr<f16, global>", "!llvm.ptr<1>"),
        (ptr(I8, "lds"), "ptr<i8, lds>", "!llvm.ptr<3>"),
        (ptr(I32, "constant"), "ptr<i32, constant>", "!llvm.ptr<4>"),
        (smem(F32, [4, 8]), "lds<f32, 4x8>", "!llvm.ptr<3>"),
        (MlirType("index"), "index", "index"),
    ],
)
def test_names(type_, name, mlir):
    assert type_.name == str(type_) == name
    assert type_.mlir == mlir


def test_types_compare_by_value():
    assert vec(F16, 4) == VectorType(F16, 4) != vec(F16, 8)
    assert ptr(F16) == PtrType(F16, "global") != ptr(F16, "lds")
    assert {smem(F16, [4, 2]), SmemType(F16, (4, 2))} == {smem(F16, (4, 2))}
    assert FP8E4M3 != I8
    assert len({t.name for t in SCALAR_TYPES.values()}) == 10


def test_sizes():
    assert [t.bytes for t in (I1, I8, F16, F32)] == [1, 1, 2, 4]
    assert (vec(F16, 8).bits, vec(F16, 8).bytes) == (128, 16)
    assert (smem(F16, [4, 8]).bytes, smem(F16, [4, 8]).strides) == (64, (8, 1))


def test_scalar_type_by_name():
    assert all(scalar_type(name) is t for name, t in SCALAR_TYPES.items())
    with pytest.raises(ValueError, match=r"unknown type 'f64'; known: i1, .*bf8e5m2"):
        scalar_type("f64")


@pytest.mark.parametrize(
    "make",
    [
        lambda: vec(F16, 0),
        lambda: vec(vec(F16, 2), 2),
        lambda: ptr(F16, "private"),
        lambda: ptr(vec(F16, 2)),
        lambda: smem(F16, []),
        lambda: smem(F16, [4, -1]),
        lambda: smem(F16, [True]),
    ],
)
def test_types_that_do_not_exist(make):
    with pytest.raises((ValueError, TypeError)):
        make()


def test_every_scalar_type_has_a_constant():
    b = IRBuilder("k")
    for type_ in SCALAR_TYPES.values():
        assert getattr(b, f"const_{type_.name}")(1).type == type_
