"""The stand-in's tables against the unmodified ``hip-python``: its source and its enumerations."""

import ctypes
import random
import re
from pathlib import Path

import pytest
import rocm.bindings
from hip import hip

from rocke.arch import TARGETS
from rocke.emulator.hip import device_calls, memory_calls, module_calls, queue_calls
from rocke.emulator.hip.errors import ERRORS, HipCode, error_name, error_text
from rocke.emulator.hip.memory import CopyKind, MemoryKind
from rocke.emulator.hip.properties import ATTRIBUTES, DeviceProperties, device_properties
from rocke.emulator.hip.signatures import PER_THREAD, SIGNATURES, UNSUPPORTED

SOURCE = (Path(rocm.bindings.__path__[0]) / "cyhip.pyx").read_text()
DECLARATION = re.compile(
    r"^cdef (?P<result>[\w *]+?) ?(?<=[ *])hip\w+\((?P<parameters>.*?)\).*?\n"
    r"(?:.*\n)*?    if __init_symbol\(&\w+,\"(?P<name>\w+)\"",
    re.MULTILINE,
)
LETTERS = {
    **{"int": "i", "unsigned int": "u", "uint32_t": "u", "size_t": "z"},
    **{"unsigned char": "b", "unsigned short": "h"},
}
HANDLES = re.compile(
    r"hip(Stream|Event|Function|Module|Ctx|Kernel|Library|HostFn|StreamCallback)_t"
)


def declared():
    found = {}
    for match in DECLARATION.finditer(SOURCE):
        kinds = [p.strip() for p in match["parameters"].split(",") if p.strip()]
        found[match["name"]] = (match["result"].strip(), "".join(letter(k) for k in kinds))
    return found


def letter(parameter):
    kind = parameter.rpartition(" ")[0].removeprefix("const ")
    if "*" in parameter or HANDLES.fullmatch(kind):
        return "p"
    return LETTERS.get(kind, "i")  # what is left are enumerations


def test_every_name_of_the_bindings_is_served():
    looked_up = set(re.findall(r'__init_symbol\(&\w+,"(\w+)"', SOURCE))
    assert len(looked_up) > 500
    assert looked_up == {*SIGNATURES, *PER_THREAD, *UNSUPPORTED}
    assert not set(SIGNATURES) & set(UNSUPPORTED)


def test_parameters_are_those_of_the_bindings():
    expected = declared()
    wrong = {
        name: (given, expected[name][1])
        for name, given in SIGNATURES.items()
        if name != "hipCreateChannelDesc" and expected[name][1] != given
    }
    assert not wrong
    assert expected["hipCreateChannelDesc"] == (
        "hipChannelFormatDesc",
        SIGNATURES["hipCreateChannelDesc"].removeprefix("p"),
    )
    for name in PER_THREAD:
        assert expected[name][1] == SIGNATURES[name.removesuffix("_spt")]


def test_what_returns_no_error_code_is_never_refused_with_one():
    for name in UNSUPPORTED:
        assert declared()[name][0] == "hipError_t", name


def test_each_function_is_implemented_once():
    groups = (
        device_calls.DeviceCalls,
        memory_calls.MemoryCalls,
        queue_calls.QueueCalls,
        module_calls.ModuleCalls,
    )
    defined = [name for group in groups for name in vars(group) if name.startswith("hip")]
    assert sorted(defined) == sorted(SIGNATURES)


def test_error_codes_and_names():
    assert {code: name for code, (name, _) in ERRORS.items()} == {
        e.value: e.name for e in hip.hipError_t
    }
    assert all(text and text == text.strip() for _, text in ERRORS.values())
    for code in HipCode:
        assert hip.hipError_t(code).name.upper().removeprefix("HIPERROR") in (
            code.name.replace("_", ""),
            "HIPSUCCESS",
        )
    assert error_name(12345) == "hipErrorUnknown"
    assert error_text(12345) == ERRORS[999][1]


def test_memory_enumerations():
    assert {k.value for k in CopyKind} == {k.value for k in hip.hipMemcpyKind}
    for kind in MemoryKind:
        assert hip.hipMemoryType[f"hipMemoryType{kind.name.title()}"] == kind.value


def test_property_layout():
    raw = bytes(random.Random(3).choices(range(1, 128), k=ctypes.sizeof(DeviceProperties)))
    own = DeviceProperties.from_buffer_copy(raw)
    memory = ctypes.create_string_buffer(raw)
    theirs = hip.hipDeviceProp_t.fromObj(ctypes.addressof(memory))
    compared = 0
    for name, kind in DeviceProperties._fields_:
        if name in ("uuid", "arch", "reserved", "hipReserved", "luid", "name", "gcnArchName"):
            continue
        if name.startswith("hdp"):
            continue
        mine, read = getattr(own, name), getattr(theirs, name)
        if issubclass(kind, ctypes.Array):
            mine, read = list(mine), list(read)
        assert mine == read, name
        compared += 1
    assert compared > 85
    assert theirs.gcnArchName[:50].encode() == own.gcnArchName[:50]
    assert theirs.name[:50].encode() == own.name[:50]


@pytest.mark.parametrize("name", TARGETS)
def test_property_values(name):
    target = TARGETS[name]
    found = device_properties(target, "name", f"{name}:xnack-", 1 << 35)
    assert found.multiProcessorCount == target.compute_units
    assert found.sharedMemPerBlock == target.lds_bytes
    assert found.totalGlobalMem == 1 << 35
    assert found.clockRate == target.peak_clock_mhz * 1000
    assert found.maxThreadsPerMultiProcessor == 2048
    assert (found.major, found.minor) == {"gfx90a": (9, 0), "gfx942": (9, 4), "gfx950": (9, 5)}[
        name
    ]
    assert found.gcnArchName == f"{name}:xnack-".encode()


def test_attributes_read_the_field_of_their_name():
    # The enumerator's name ends like the field's, for all but those with historical names.
    renamed = {
        "MultiprocessorCount": "multiProcessorCount",
        "PhysicalMultiProcessorCount": "multiProcessorCount",
        "MaxRegistersPerBlock": "regsPerBlock",
        "MaxRegistersPerMultiprocessor": "regsPerMultiprocessor",
        "MaxSharedMemoryPerBlock": "sharedMemPerBlock",
        "ComputeCapabilityMajor": "major",
        "ComputeCapabilityMinor": "minor",
        "TotalConstantMemory": "totalConstMem",
        "EccEnabled": "ECCEnabled",
        "KernelExecTimeout": "kernelExecTimeoutEnabled",
        "MaxPitch": "memPitch",
        "MaxBlockDim": "maxThreadsDim",
        "MaxGridDim": "maxGridSize",
    }
    axes = {"X": "0", "Y": "1", "Z": "2", "Width": "0", "Height": "1", "Depth": "2"}
    for number, (field, *index) in ATTRIBUTES.items():
        name = hip.hipDeviceAttribute_t(number).name.removeprefix("hipDeviceAttribute")
        axis = next((a for a in axes if name.endswith(a) and index), "")
        plain = name.removesuffix(axis) if axis else name
        assert renamed.get(plain, plain).lower() in (field.lower(), f"{field}width".lower()), name
        if axis:
            assert index == [axes[axis]], name
