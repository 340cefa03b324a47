"""What memory an instruction accesses, told from its mnemonic: level, direction, bytes a lane."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """A kind of memory, as an instruction names it."""

    GLOBAL = "global"
    """Global, flat and buffer instructions."""
    LDS = "lds"
    SCALAR = "scalar"
    """Scalar loads: kernel arguments and constants."""
    SCRATCH = "scratch"


@dataclass(frozen=True)
class Access:
    """One access: ``bytes`` for each active lane (for the wave, where ``level`` is scalar).

    An atomic both reads and writes. ``pair`` tells the two-address LDS instructions: each address
    of a lane has ``bytes``. ``formatted``: a descriptor or the instruction names the data format,
    and ``bytes`` is what there is when its components are as wide as the registers'. ``by_m0``: the
    LDS address comes from M0 (add-thread-id, append, consume).
    """

    level: Level
    bytes: int
    read: bool
    write: bool
    atomic: bool = False
    pair: bool = False
    formatted: bool = False
    by_m0: bool = False


_NARROW = {"byte": 1, "ubyte": 1, "sbyte": 1, "short": 2, "ushort": 2, "sshort": 2, "dword": 4}
_VMEM = re.compile(r"(global|flat|buffer|tbuffer|scratch)_(load|store|atomic)_(lds_)?(\w+)")
_SMEM = re.compile(r"s_(?:scratch_|buffer_)?(load|store)_dword(?:x(\d+))?$")
_DS = re.compile(r"ds_(read|write)(2st64|2)?_(?:addtid_)?[biu](\d+)(?:_|$)")
_DS_ATOMIC = re.compile(
    r"ds_(?:pk_)?(?:add|sub|rsub|inc|dec|min|max|and|or|xor|mskor|wrxchg|cmpst|wrap|condxchg32)"
    r"(2st64|2)?_(?:rtn_)?(\w+?)$"
)
_DS_COUNTERS = ("ds_append", "ds_consume")


@functools.cache
def access_of(mnemonic: str) -> Access | None:
    """What ``mnemonic`` (without encoding suffix) accesses; ``None``: no memory.

    A direct-to-LDS load is a load.
    """
    if found := _VMEM.match(mnemonic):
        level = Level.SCRATCH if found[1] == "scratch" else Level.GLOBAL
        size = _atomic_bytes(found[4]) if found[2] == "atomic" else _vmem_bytes(found[4])
        return Access(
            level,
            size,
            found[2] != "store",
            found[2] != "load",
            atomic=found[2] == "atomic",
            formatted=found[4].startswith("format_"),
        )
    if found := _SMEM.match(mnemonic):
        load = found[1] == "load"
        return Access(Level.SCALAR, 4 * int(found[2] or 1), load, not load)
    if found := _DS.match(mnemonic):
        size, read = int(found[3]) // 8, found[1] == "read"
        pair, by_m0 = found[2] is not None, "_addtid_" in mnemonic
        return Access(Level.LDS, size, read, not read, pair=pair, by_m0=by_m0)
    if mnemonic in _DS_COUNTERS:
        return Access(Level.LDS, 4, True, True, atomic=True, by_m0=True)
    if found := _DS_ATOMIC.match(mnemonic):
        size = 8 if found[2].endswith("64") else 4
        return Access(Level.LDS, size, True, True, atomic=True, pair=found[1] is not None)
    return None


def _vmem_bytes(what: str) -> int:
    name, _, count = what.partition("x")
    if what.startswith("format_"):
        return len(what.rpartition("_")[2]) * (2 if "d16" in what else 4)
    name = name.split("_")[0]
    return _NARROW[name] * (int(count.split("_")[0]) if count else 1)


def _atomic_bytes(what: str) -> int:
    return 8 if what.endswith(("_x2", "f64")) else 4
