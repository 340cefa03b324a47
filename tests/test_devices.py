"""Devices by name."""

import pytest

import rocke
from rocke.runtime import DeviceError
from rocke.runtime import open_device as open_gpu
from rocke.runtime.hip_device import HipDevice, HipUnavailable


@pytest.fixture
def no_gpu(monkeypatch):
    def refuse(self, index=0):
        raise HipUnavailable("no GPU here")

    monkeypatch.setattr(HipDevice, "__init__", refuse)


@pytest.mark.parametrize(
    ("name", "arch"),
    [("emulated", "gfx950"), ("emulated:gfx942", "gfx942"), ("auto", "gfx950"), (None, "gfx950")],
)
def test_the_emulated_device_by_name(no_gpu, name, arch):
    device = rocke.open_device() if name is None else rocke.open_device(name)
    assert (device.emulated, device.arch) == (True, arch)


def test_a_gpu_wins_where_there_is_one(monkeypatch):
    indices = []
    monkeypatch.setattr(HipDevice, "__init__", lambda self, index=0: indices.append(index))
    for name in ("auto", "hip", "hip:1"):
        assert isinstance(rocke.open_device(name), HipDevice)
    assert indices == [0, 0, 1]


def test_a_gpu_that_is_not_there_is_refused(no_gpu):
    with pytest.raises(HipUnavailable, match="no GPU here"):
        rocke.open_device("hip")


@pytest.mark.parametrize("name", ["gfx942", "cuda", "emulated:", "", 5, "hip:x", "hip:", "hip:²"])
def test_other_names_are_refused_with_those_there_are(name):
    with pytest.raises(DeviceError, match=r"expected .*hip or hip:INDEX"):
        rocke.open_device(name)
    with pytest.raises(DeviceError, match="unknown target 'gfx1100'"):
        rocke.open_device("emulated:gfx1100")


def test_the_runtime_alone_says_who_opens_the_emulated_device():
    with pytest.raises(DeviceError, match=r"hip or hip:INDEX .*rocke.open_device\('emulated'\)"):
        open_gpu("emulated")
