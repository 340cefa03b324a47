"""What memory instructions access, from their mnemonics."""

from __future__ import annotations

import pytest

from rocke.emulator.access import Access, Level, access_of

LDS, GLOBAL = Level.LDS, Level.GLOBAL


@pytest.mark.parametrize(
    ("mnemonic", "expected"),
    [
        ("ds_read_b96", Access(LDS, 12, True, False)),
        ("ds_write2st64_b64", Access(LDS, 8, False, True, pair=True)),
        ("ds_add_rtn_u32", Access(LDS, 4, True, True, atomic=True)),
        ("ds_pk_add_rtn_bf16", Access(LDS, 4, True, True, atomic=True)),
        ("ds_wrxchg_rtn_b64", Access(LDS, 8, True, True, atomic=True)),
        ("ds_wrxchg2_rtn_b32", Access(LDS, 4, True, True, atomic=True, pair=True)),
        ("ds_wrxchg2st64_rtn_b64", Access(LDS, 8, True, True, atomic=True, pair=True)),
        ("ds_append", Access(LDS, 4, True, True, atomic=True, by_m0=True)),
        ("ds_consume", Access(LDS, 4, True, True, atomic=True, by_m0=True)),
        ("ds_read_addtid_b32", Access(LDS, 4, True, False, by_m0=True)),
        ("ds_write_addtid_b32", Access(LDS, 4, False, True, by_m0=True)),
        ("global_atomic_add_x2", Access(GLOBAL, 8, True, True, atomic=True)),
        ("buffer_load_format_xyz", Access(GLOBAL, 12, True, False, formatted=True)),
        ("tbuffer_store_format_d16_xy", Access(GLOBAL, 4, False, True, formatted=True)),
        ("buffer_load_format_d16_hi_x", Access(GLOBAL, 2, True, False, formatted=True)),
        ("ds_bpermute_b32", None),
        ("s_barrier", None),
    ],
)
def test_access(mnemonic: str, expected: Access | None) -> None:
    assert access_of(mnemonic) == expected
