"""Rare ALU forms: SCC, VCCZ and EXECZ as sources, relative scalar moves, sad and cube forms."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.emulator import state
from rocke.emulator.instruction import EXEC, M0, VCC
from rocke.emulator.semantics import FloatMode, UnknownInstruction, lower
from tests.emulator.semantics.alu_cases import F32, Case, check, prepare
from tests.emulator.semantics.alu_harness import FULL, Wave, assemble
from tests.emulator.semantics.memory_harness import Wave as MemoryWave

U32, U64 = np.uint32, np.uint64


# --- Scalar conditions as sources ----------------------------------------------------------------

SOURCES = [
    "s_mov_b32 s0, src_scc",
    "s_add_u32 s0, src_scc, src_vccz",
    "s_mov_b64 s[0:1], src_execz",
    "s_cselect_b64 s[0:1], src_vccz, src_execz",
    "s_lshl_b32 s0, s4, src_scc",
    "v_add_u32 v0, src_execz, v1",
    "v_sub_u32 v0, src_vccz, v1",
    "v_add_f32 v0, -src_scc, v1",
    "v_lshlrev_b64 v[0:1], src_scc, v[2:3]",
]


@pytest.mark.parametrize("vcc", [0, 1 << 40])
@pytest.mark.parametrize("exec_mask", [FULL, 0, 0xFF00])
@pytest.mark.parametrize("scc", [0, 1])
def test_conditions_as_sources(scc, exec_mask, vcc):
    vccz, execz = int(vcc == 0), int(exec_mask == 0)
    scalars = {
        SOURCES[0]: scc,
        SOURCES[1]: scc + vccz,
        SOURCES[2]: execz,
        SOURCES[3]: vccz if scc else execz,
        SOURCES[4]: 7 << scc,
    }
    given = np.arange(64, dtype=U32) + 0x4000_0000
    vectors = {
        SOURCES[5]: given + U32(execz),
        SOURCES[6]: U32(vccz) - given,
        # The integer 1 is a subnormal float.
        SOURCES[7]: given.view(F32) - U32(scc).view(F32),
        SOURCES[8]: given << U32(scc),
    }
    for text in SOURCES:
        wave = MemoryWave()
        wave.v[1] = wave.v[2] = given
        wave.s[4], wave.s[1] = 7, 0
        wave.set32(state.SCC, scc)
        wave.exec = exec_mask
        wave.set64(state.sgpr(VCC), vcc)
        assert wave.run(text) == 0
        if text in scalars:
            assert wave.get64(state.sgpr(0)) == scalars[text], text
        else:
            want = np.where(wave.active, vectors[text].view(U32), 0)
            np.testing.assert_array_equal(wave.v[0], want, text)


def test_a_source_that_is_not_supported_is_named():
    (inst,) = assemble(["s_movrels_b32 s0, src_scc"], "gfx942")
    with pytest.raises(UnknownInstruction, match="src_scc"):
        lower(inst, "gfx942", True)


# --- Relative moves ------------------------------------------------------------------------------


@pytest.mark.parametrize("m0", [0, 2, 6, -4, 86])
def test_relative_moves(m0):
    lines = [
        "s_movrels_b32 s2, s20",
        "s_movrels_b64 s[2:3], s[20:21]",
        "s_movreld_b32 s20, s2",
        "s_movreld_b64 s[20:21], s[2:3]",
        "s_movreld_b32 s20, 0x12345",
    ]
    at = 20 + m0
    for i, inst in enumerate(assemble(lines, "gfx942")):
        wave = Wave()
        wave.s[:] = np.arange(128) + 1000
        wave.s[M0] = m0 & 0xFFFFFFFF
        want = wave.s.copy()
        count = 2 if "b64" in lines[i] else 1
        if "movrels" in lines[i]:
            want[2 : 2 + count] = want[at : at + count]
        elif i == 4:
            want[at] = 0x12345
        else:
            want[at : at + count] = want[2 : 2 + count]
        if count == 1 or at % 2 == 0:
            wave.run(inst, "gfx942")
            np.testing.assert_array_equal(wave.s, want, lines[i])


@pytest.mark.parametrize(
    ("text", "m0", "bad"),
    [
        ("s_movrels_b32 s2, s20", 88, 108),
        ("s_movreld_b32 s20, s2", 106, 126),
        ("s_movreld_b64 s[20:21], s[2:3]", 1, 21),
        ("s_movrels_b64 s[2:3], s[20:21]", 88, 108),
        ("s_movrels_b32 s2, s20", -21, 0xFFFFFFFF),
    ],
)
def test_relative_moves_out_of_range_are_faults(text, m0, bad):
    wave = MemoryWave()
    wave.s[:] = np.arange(128)
    wave.s[M0] = m0 & 0xFFFFFFFF
    before = wave.s.copy()
    assert wave.run(text) == 1
    assert wave.fault[:2] == (state.Fault.UNSUPPORTED, bad)
    np.testing.assert_array_equal(wave.s, before)


def test_a_relative_move_into_exec_ends_the_block():
    plain, into = assemble(["s_movrels_b64 s[2:3], s[4:5]", "s_movrels_b64 exec, s[4:5]"], "gfx942")
    assert into.operands[0].index == EXEC
    for _ in range(2):
        assert lower(into, "gfx942", True).writes_exec
        assert not lower(plain, "gfx942", True).writes_exec


# --- Sums of absolute differences and cube maps --------------------------------------------------


def octets(value: int, count: int = 4) -> list[int]:
    return [value >> 8 * i & 255 for i in range(count)]


def sad(a: int, b: int, masked: bool) -> int:
    pairs = zip(octets(a), octets(b), strict=True)
    return sum(abs(p - q) for p, q in pairs if q or not masked)


def lanewise(dtype, f):
    def meaning(*sources):
        rows = zip(*(s.tolist() for s in sources), strict=True)
        bits = 8 * np.dtype(dtype).itemsize
        return np.array([f(*row) & (1 << bits) - 1 for row in rows], dtype)

    return meaning


def quad(masked: bool):
    def sums(a: int, b: int, c: int) -> int:
        total = 0
        for i in range(4):
            one = sad(a >> 8 * i & 0xFFFFFFFF, b, masked) + (c >> 16 * i & 0xFFFF)
            total |= (one & 0xFFFF) << 16 * i
        return total

    return sums


def cube(part: str):
    def one(x: F32, y: F32, z: F32) -> F32:
        if abs(z) >= abs(x) and abs(z) >= abs(y):
            found = {"id": 5 if z < 0 else 4, "sc": -x if z < 0 else x, "tc": -y, "ma": z * 2}
        elif abs(y) >= abs(x):
            found = {"id": 3 if y < 0 else 2, "sc": x, "tc": -z if y < 0 else z, "ma": y * 2}
        else:
            found = {"id": 1 if x < 0 else 0, "sc": z if x < 0 else -z, "tc": -y, "ma": x * 2}
        return F32(found[part])

    return lambda x, y, z: np.array([one(*row) for row in zip(x, y, z, strict=True)], F32)


def flush(x):
    """Subnormals become zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def mad_legacy(a, b, c):
    a, b, c = flush(a), flush(b), flush(c)
    product = np.where((a == 0) | (b == 0), F32(0), a * b).astype(F32)
    return flush((flush(product) + c).astype(F32))


def set_byte(x, index, old):
    byte = np.clip(np.nan_to_num(np.trunc(x), nan=0.0), 0, 255).astype(np.uint8).astype(U32)
    shift = (index & U32(3)) * U32(8)
    return old & ~(U32(255) << shift) | byte << shift


CASES = [
    Case("v_mad_legacy_f32 v0, {0}, {1}, {2}", (F32,), (F32,) * 3, mad_legacy, arch="gfx90a"),
    Case(
        "v_cvt_pkaccum_u8_f32 v0, {0}, {1}", (U32,), (F32, U32), set_byte, reads_result=True,
    ),
    Case(
        "v_msad_u8 v0, {0}, {1}, {2}", (U32,), (U32,) * 3,
        lanewise(U32, lambda a, b, c: sad(a, b, True) + c),
    ),
    Case(
        "v_qsad_pk_u16_u8 v[0:1], {0}, {1}, {2}", (U64,), (U64, U32, U64),
        lanewise(U64, quad(False)),
    ),
    Case(
        "v_mqsad_pk_u16_u8 v[0:1], {0}, {1}, {2}", (U64,), (U64, U32, U64),
        lanewise(U64, quad(True)),
    ),
    *(
        Case(f"v_cube{part}_f32 v0, {{0}}, {{1}}, {{2}}", (F32,), (F32,) * 3, cube(part))
        for part in ("id", "sc", "tc", "ma")
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def prepared():
    return prepare(CASES)


@pytest.mark.normal
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_instruction(case, prepared):
    check(case, prepared[case.name])


@pytest.mark.parametrize("mask", [FULL, 0x8000_F0F0_1234_ABCD])
@pytest.mark.parametrize("window", ["v[10:11]", "s[10:11]"])
def test_wide_quad_sad(window, mask):
    rng = np.random.default_rng(1)
    wave = MemoryWave()
    wave.v[:] = rng.integers(0, 1 << 32, wave.v.shape, dtype=U32)
    wave.v[12, ::3] &= U32(0xFF00FF00)
    wave.s[10:12] = rng.integers(0, 1 << 32, 2, dtype=U32)
    wave.exec = mask
    want = wave.v.copy()
    for lane in np.flatnonzero(wave.active):
        source = wave.s[10:12] if window[0] == "s" else wave.v[10:12, lane]
        a, b = int(source[0]) | int(source[1]) << 32, int(wave.v[12, lane])
        for i in range(4):
            total = sad(a >> 8 * i & 0xFFFFFFFF, b, True) + int(wave.v[16 + i, lane])
            want[20 + i, lane] = total & 0xFFFFFFFF
    assert wave.run(f"v_mqsad_u32_u8 v[20:23], {window}, v12, v[16:19]") == 0
    np.testing.assert_array_equal(wave.v, want)


@pytest.mark.parametrize("name", ["v_mad_legacy_f16", "v_fma_legacy_f16"])
def test_older_half_forms_clear_the_high_half(name):
    (inst,) = assemble([f"{name} v0, v1, v2, v3"], "gfx942")
    rng = np.random.default_rng(2)
    wave = Wave()
    wave.v[0] = 0xDEADBEEF
    x = rng.integers(-32, 32, (3, 64)).astype(np.float16)
    wave.v[1:4] = x.view(np.uint16)
    wave.run(inst, "gfx942")
    expected = (x[0] * x[1] + x[2]).view(np.uint16)
    np.testing.assert_array_equal(wave.v[0], expected)


@pytest.mark.parametrize(("name", "operation"), [("minimum", np.minimum), ("maximum", np.maximum)])
def test_packed_ieee_extremes(name, operation):
    (inst,) = assemble([f"v_pk_{name}3_f16 v0, v1, v2, v3"], "gfx950")
    rng = np.random.default_rng(3)
    wave = Wave()
    x = rng.standard_normal((3, 128)).astype(np.float16)
    x[rng.random((3, 128)) < 0.1] = np.nan
    # Zeros of all combinations of signs.
    signs = np.arange(8) >> np.arange(3)[:, None] & 1
    x[:, :8] = np.where(signs, -0.0, 0.0)
    wave.v[1:4] = x.view(U32)
    wave.run(inst, "gfx950")
    got = np.ascontiguousarray(wave.v[0]).view(np.float16)
    expected = operation(operation(x[0], x[1]), x[2])
    np.testing.assert_array_equal(got, expected)
    sign = signs.any(axis=0) if name == "minimum" else signs.all(axis=0)
    np.testing.assert_array_equal(np.signbit(got[:8]), sign)


def test_a_new_index_for_indexed_registers():
    (inst,) = assemble(["s_set_gpr_idx_idx s5"], "gfx942")
    wave = Wave()
    wave.s[M0], wave.s[5] = 0x1234_5678, 0xABCD_EF99
    before = wave.s.copy()
    wave.run(inst, "gfx942")
    before[M0] = 0x1234_5699
    np.testing.assert_array_equal(wave.s, before)


def test_a_new_choice_of_indexed_operands():
    on, change, move = assemble(
        [
            "s_set_gpr_idx_on s5, gpr_idx(SRC0)",
            "s_set_gpr_idx_mode gpr_idx(DST)",
            "v_mov_b32 v1, v2",
        ],
        "gfx942",
    )
    wave = Wave()
    wave.s[5] = 7
    wave.v[2], wave.v[9] = np.arange(64), 99
    mode = lower(on, "gfx942", True).mode
    wave.run(on, "gfx942")
    assert wave.s[M0] == 7 | 1 << 12
    mode = lower(change, "gfx942", True, mode).mode
    wave.run(change, "gfx942", mode)
    assert wave.s[M0] == 7 | 8 << 12
    wave.run(move, "gfx942", mode)
    np.testing.assert_array_equal(wave.v[8], np.arange(64))
    assert (wave.v[1] == 0).all()


def test_the_choice_does_not_turn_indexing_on():
    change, both = assemble(
        ["s_set_gpr_idx_mode gpr_idx(DST)", "s_set_gpr_idx_mode gpr_idx(SRC1)"], "gfx942"
    )
    assert lower(change, "gfx942", True).mode is None
    wave = Wave()
    wave.s[M0] = 0xFFFF_1234
    wave.run(change, "gfx942")
    assert wave.s[M0] == 0xFFFF_8234
    lower(both, "gfx942", True)
    with pytest.raises(UnknownInstruction, match="source 0 and the result"):
        lower(both, "gfx942", True, FloatMode(vgpr_index=1))


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_messages(arch):
    lines = ["s_sendmsg sendmsg(MSG_INTERRUPT)", "s_sendmsg sendmsg(MSG_GS_ALLOC_REQ)"]
    lines += ["s_sethalt 0", "s_sethalt 1", "s_wakeup", "ds_nop"]
    interrupt, request, go, halt, wake, nothing = assemble(lines, arch)
    for inst in (interrupt, go, wake, nothing):
        assert lower(inst, arch, True).calls == ()
    with pytest.raises(UnknownInstruction, match="message 9 is not for compute"):
        lower(request, arch, True)
    with pytest.raises(UnknownInstruction, match="a halted wave never goes on"):
        lower(halt, arch, True)
