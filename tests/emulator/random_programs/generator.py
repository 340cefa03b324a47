"""Random programs: one seed, one program, the same on every machine.

Registers: v0-v31, s8-s39, vcc and m0 are anybody's; v32 holds LDS addresses, v33 is 16 times the
lane, v40-v47 get the results of operations that are compared with a tolerance (nobody reads them);
v48-v55 and the accumulation registers hold matrix results, v64-v89 matrix operands: small integers,
so that every sum is exact in any order. s48-s65 are the generator's own.

What a NaN's payload is, no guide says. So each float result is followed by a maximum that replaces
NaN by a number.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .float_ops import COMPARES
from .machine import EXEC, M0, VCC, Mode
from .memory_ops import ATOMICS, ELEMENT_BITS, MATRIX, READS, WRITES, operand_registers
from .packed_ops import PACKED
from .program import Const, Inst, Operand, Reg
from .registers import AGPRS, first_registers
from .scalar_ops import TABLE as SCALAR
from .vector_ops import OPS, Op

ARCHS = ("gfx90a", "gfx942", "gfx950")
LDS_BYTES = 8192
MODES = (Mode(), Mode(keep32=False), Mode(keep32=False, ieee=False, dx10_clamp=False))
LOOSE = slice(40, 48)
"""Vector registers with results that are compared with a tolerance."""

NEWER = {
    "v_mov_b64": ("gfx942", "gfx950"),
    "v_lshl_add_u64": ("gfx942", "gfx950"),
    "v_bitop3_b32": ("gfx950",),
    "v_permlane32_swap_b32": ("gfx950",),
    "v_permlane16_swap_b32": ("gfx950",),
    "v_cvt_pk_bf16_f32": ("gfx950",),
}
"""Instructions that not every target has."""

FLOATS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0)
ADDRESS, SLOT, LANE = Reg("v", 32), Reg("v", 33), Reg("v", 63)
LEAST_F32 = Const(0xFF7FFFFF, True)
LEAST_PACKED, LEAST_F64 = Reg("s", 62), Reg("s", 64, 2)


@dataclass(frozen=True)
class Program:
    """A seed's program: instructions, first values of v, a and s, target and mode."""

    seed: int
    arch: str
    mode: Mode
    body: tuple[Inst, ...]
    v: np.ndarray
    a: np.ndarray
    s: np.ndarray

    @property
    def name(self) -> str:
        return f"program_{self.seed}"


def generate(seed: int, length: int = 60) -> Program:
    """The program of a seed."""
    arch = ARCHS[seed % 3]
    g = _Generator(random.Random(seed), arch)
    exec_ = Reg("s", EXEC, 2)
    g.emit("s_mov_b64", dst=(Reg("s", 50, 2),), src=(exec_,))
    g.emit("s_mov_b64", dst=(exec_,), src=(Const(-1),))
    for i in range(8):
        g.emit("ds_write_b128", src=(SLOT, Reg("v", 4 * i, 4)), offset=1024 * i)
    g.emit("s_mov_b64", dst=(exec_,), src=(Reg("s", 50, 2),))
    while len(g.body) < length:
        g.step()
    g.body.append(Inst("s_nop", src=(Const(0),), label="Lend"))
    rng = np.random.default_rng(seed)
    mode = MODES[g.r.randrange(10) // 8 + (seed % 20 == 0)]
    v, a, s = first_registers(rng)
    return Program(seed, arch, mode, tuple(g.body), v, a, s)


class _Generator:
    def __init__(self, r: random.Random, arch: str) -> None:
        self.r, self.arch = r, arch
        self.body: list[Inst] = []
        self.inside = False
        self.labels = 0
        self.full = False
        self.kinds: list[tuple[int, Callable[[], None]]] = [
            (30, self.vector),
            (12, self.packed),
            (12, self.scalar),
            (10, self.compare),
            (6, self.select),
            (6, self.carry),
            (8, self.lds),
            (6, self.lanes),
            (4, self.loose),
            (6, self.exec_change),
            (3, self.branch),
            (2, self.loop),
            (6, self.matrix),
            (8, self.newer),
        ]

    def emit(
        self,
        op: str,
        form: str = "",
        dst: tuple = (),
        src: tuple = (),
        target: str = "",
        **mods: Any,
    ) -> None:
        self.body.append(Inst(op, form, tuple(dst), tuple(src), mods, target=target))

    def step(self) -> None:
        total = sum(weight for weight, _ in self.kinds)
        pick = self.r.randrange(total)
        for weight, kind in self.kinds:
            pick -= weight
            if pick < 0:
                kind()
                return

    def chance(self, percent: int) -> bool:
        return self.r.randrange(100) < percent

    def choose(self, items: Any) -> Any:
        return items[self.r.randrange(len(items))]

    # Operands

    def vgpr(self, bits: int = 32) -> Reg:
        return (
            Reg("v", 2 * self.r.randrange(16), 2) if bits == 64 else Reg("v", self.r.randrange(32))
        )

    def sgpr(self, bits: int = 32) -> Reg:
        if bits == 64:
            return Reg("s", VCC, 2) if self.chance(8) else Reg("s", 8 + 2 * self.r.randrange(16), 2)
        return Reg("s", 8 + self.r.randrange(32))

    def inline(self, type_: str = "u32") -> Const:
        if type_ in ("f16", "f32", "f64") and self.chance(60):
            return Const(self.choose(FLOATS))
        return Const(self.r.randrange(-16, 65))

    def sources(self, types: tuple[str, ...], form: str) -> tuple[Operand, ...]:
        """At most one scalar register or literal, where the form takes one at all."""
        found: list[Operand] = []
        scalar_used = False
        for i, type_ in enumerate(types):
            bits = int(type_[1:])
            free = form == "e64" or (form == "e32" and i == 0)
            kind = self.r.randrange(100)
            if free and kind < 10:
                found.append(self.inline(type_))
            elif not scalar_used and kind < 22 and (free or form == "sdwa"):
                scalar_used = True
                found.append(self.sgpr(64 if bits == 64 else 32))
            elif form == "e32" and i == 0 and kind < 28 and bits != 64:
                scalar_used = True
                found.append(Const(self.r.getrandbits(bits), True))
            else:
                found.append(self.vgpr(bits))
        return tuple(found)

    def dpp_mods(self) -> dict[str, Any]:
        control = self.choose(
            (
                ("quad_perm", tuple(self.choose(range(4)) for _ in range(4))),
                ("row_shl", self.r.randrange(1, 16)),
                ("row_shr", self.r.randrange(1, 16)),
                ("row_ror", self.r.randrange(1, 16)),
                *((f"wave_{x}", 1) for x in ("shl", "shr", "rol", "ror")),
                ("row_mirror", True),
                ("row_half_mirror", True),
                ("row_bcast", self.choose((15, 31))),
                ("row_newbcast", self.r.randrange(16)),
            )
        )
        masks = {"row_mask": 15, "bank_mask": 15}
        if self.chance(30):
            masks = {"row_mask": self.r.randrange(16), "bank_mask": self.r.randrange(16)}
        bound = {"bound_ctrl": 0} if self.chance(50) else {}
        return {control[0]: control[1], **masks, **bound}

    def sdwa_select(self, type_: str) -> str:
        if type_[0] == "f":
            return self.choose(("DWORD",) if type_ == "f32" else ("WORD_0", "WORD_1", "DWORD"))
        parts = ("DWORD", "WORD_0", "WORD_1", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3")
        return self.choose(parts)

    def sdwa_mods(self, dst: str, types: tuple[str, ...], count: int) -> dict[str, Any]:
        mods: dict[str, Any] = {}
        if dst:
            mods["dst_sel"] = self.sdwa_select(dst)
            unused = ("UNUSED_PAD", "UNUSED_PRESERVE", "UNUSED_SEXT")
            mods["dst_unused"] = self.choose(unused[:2] if dst[0] == "f" else unused)
        for i, type_ in enumerate(types[:count]):
            mods[f"src{i}_sel"] = self.sdwa_select(type_)
        sext = tuple(i for i, t in enumerate(types[:count]) if t[0] != "f" and self.chance(30))
        return {**mods, "sext": sext} if sext else mods

    # Kinds of instructions

    def vector(self) -> None:
        names = [o for o in OPS.values() if not o.loose and self.has(o.name)]
        o: Op = self.choose(names)
        forms = [f for f, letter in (("e32", "2"), ("e64", "2"), ("e64", "3")) if letter in o.forms]
        forms += ["dpp"] * ("d" in o.forms) + ["sdwa"] * ("s" in o.forms)
        form = self.choose(forms)
        if o.accumulates and form == "e64":
            form = "e32"
        types = o.src[: len(o.src) - o.accumulates]
        mods: dict[str, Any] = {}
        if form == "dpp":
            mods = self.dpp_mods()
        elif form == "sdwa":
            mods = self.sdwa_mods(o.dst, types, len(types))
        elif form == "e64" and o.modifiers:
            for name in ("neg", "abs"):
                chosen = tuple(i for i, t in enumerate(types) if t[0] == "f" and self.chance(15))
                mods |= {name: chosen} if chosen else {}
            if o.keeps_high and self.chance(40):
                mods["op_sel"] = tuple(self.r.randrange(2) for _ in (*types, 0))
            if o.dst in ("f32", "f64", "f16") and self.chance(10):
                mods["clamp"] = True
        dst = self.vgpr(int(o.dst[1:]))
        src = self.sources(types, form)
        mods = signs_of_registers(mods, src)
        if o.dst[1:] == "64" or any(t[1:] == "64" for t in types):
            src = tuple(self.vgpr(int(t[1:])) if isinstance(x, Const) and x.literal else x
                        for t, x in zip(types, src, strict=True))  # fmt: skip
        self.emit(o.name, form, (dst,), src, **mods)
        self.number(dst, self.result_type(o))
        if form == "dpp":  # a lane that was not written may hold a signaling NaN
            self.number(dst, self.result_type(o))

    def result_type(self, o: Op) -> str:
        packed = ("v_cvt_pkrtz_f16_f32", "v_cvt_pk_bf16_f32", "v_pack_b32_f16")
        return "pair16" if o.name in packed else o.dst

    def number(self, dst: Reg, type_: str) -> None:
        """Replace what may be NaN in a result."""
        if type_ == "f32":
            self.emit("v_max_f32", "e32", (dst,), (LEAST_F32, dst))
        elif type_ in ("f16", "pair16"):
            for _ in range(2):  # the first makes signaling NaN quiet
                self.emit("v_pk_max_f16", "", (dst,), (dst, LEAST_PACKED))
        elif type_ == "f64":
            self.emit("v_max_f64", "e64", (dst,), (dst, LEAST_F64))

    def has(self, name: str) -> bool:
        return self.arch in NEWER.get(name, ARCHS)

    def packed(self) -> None:
        name = self.choose(list(PACKED))
        kind, count = PACKED[name]
        mods: dict[str, Any] = {}
        if kind == "pair":
            dst = self.vgpr(64)
            src: tuple[Operand, ...] = tuple(self.vgpr(64) for _ in range(count))
        else:
            dst, src = (
                self.vgpr(),
                self.sources(("f16" if kind == "f16" else "u16",) * count, "e64"),
            )
        if kind in ("f16", "u16", "i16", "pair"):
            if self.chance(40):
                for key in ("op_sel", "op_sel_hi"):
                    mods[key] = tuple(self.r.randrange(2) for _ in range(count))
            if kind in ("f16", "pair") and self.chance(25):
                for key in ("neg_lo", "neg_hi"):
                    mods[key] = tuple(self.r.randrange(2) for _ in range(count))
        elif kind == "mix":
            src = tuple(self.vgpr() if isinstance(x, Const) else x for x in src)
            for key in ("op_sel", "op_sel_hi"):
                mods[key] = tuple(self.r.randrange(2) for _ in range(count))
        self.emit(name, "", (dst,), src, **mods)
        if kind == "f16":
            self.number(dst, "pair16")
        elif kind == "mix":
            self.number(dst, "f32")
        elif kind == "pair":
            for i in (0, 1):
                self.number(Reg("v", dst.index + i), "f32")

    def scalar(self) -> None:
        skip = ("branch", "saveexec", "nop", "waitcnt")
        name = self.choose([n for n in SCALAR if not any(s in n for s in skip)])
        wide_dst = (name.endswith("64") and "_i32_" not in name) or "bitreplicate" in name
        if "cmpk" in name:
            low, high = (-32768, 32768) if name.endswith("i32") else (0, 65536)
            self.emit(name, dst=(self.sgpr(),), src=(Const(self.r.randrange(low, high)),))
            return
        if name.endswith("k_i32") and name.startswith("s_"):
            value = Const(self.r.randrange(-32768, 32768))
            self.emit(name, dst=(self.scalar_target(32),), src=(value,))
            return
        if name.startswith(("s_cmp_", "s_bitcmp")):
            bits = 64 if name.endswith("64") else 32
            second = 32 if "bitcmp" in name else bits
            self.emit(name, src=self.one_literal(bits, second))
            return
        self.emit(name, dst=(self.scalar_target(64 if wide_dst else 32),), src=self.widths(name))

    def widths(self, name: str) -> tuple[Operand, ...]:
        """Sources of a scalar operation, in the widths that it takes."""
        wide = name.endswith("64") and not name.startswith(("s_bitset", "s_bfm"))
        if name == "s_bitreplicate_b64_b32":
            return (self.scalar_source(32),)
        one = ("s_not", "s_mov", "s_brev", "s_bcnt", "s_ff", "s_flbit", "s_bitset", "s_cmov")
        if name.startswith((*one, "s_sext", "s_abs_")):
            return (self.scalar_source(64 if wide else 32),)
        second = 32 if name.startswith(("s_lshl_b", "s_lshr", "s_ashr", "s_bfe")) else None
        first = 64 if wide else 32
        sources = list(self.one_literal(first, second or first))
        if name.startswith("s_bfe"):
            field = self.r.randrange(64) | self.r.randrange(64) << 16
            sources[1] = Const(field, True) if not wide else self.scalar_source(32)
            if isinstance(sources[0], Const) and sources[0].literal:
                sources[0] = self.sgpr(first)
        return tuple(sources)

    def one_literal(self, *bits: int) -> tuple[Operand, ...]:
        sources = [self.scalar_source(b) for b in bits]
        if all(isinstance(x, Const) and x.literal for x in sources):
            sources[0] = self.sgpr(bits[0])
        return tuple(sources)

    def scalar_source(self, bits: int) -> Operand:
        kind = self.r.randrange(100)
        if kind < 20:
            return Const(self.r.randrange(-16, 65))
        if kind < 25 and bits == 32:
            return Const(self.r.getrandbits(32), True)
        if kind < 30 and bits == 32:
            return Reg("s", self.choose((VCC, VCC + 1, M0, EXEC, EXEC + 1)))
        return Reg("s", EXEC, 2) if bits == 64 and kind < 30 else self.sgpr(bits)

    def scalar_target(self, bits: int) -> Reg:
        if bits == 32 and self.chance(5):
            return Reg("s", M0)
        return self.sgpr(bits)

    def compare(self) -> None:
        names = [n for n in COMPARES if self.inside <= (not n.startswith("v_cmpx"))]
        name = self.choose(names)
        type_ = COMPARES[name]
        form = self.choose(("e32", "e64") if type_[1:] == "64" else ("e32", "e64", "sdwa"))
        if self.chance(10):
            name, type_ = self.choose((("v_cmp_class_f32", "f32"), ("v_cmp_class_f16", "f16")))
            form = self.choose(("e32", "e64"))
        types = (type_, "u32" if "class" in name else type_)
        mods = self.sdwa_mods("", types, 2) if form == "sdwa" else {}
        dst = Reg("s", VCC, 2) if form == "e32" else self.sgpr(64)
        if form == "e64" and type_[0] == "f" and "class" not in name and self.chance(25):
            mods["neg" if self.chance(50) else "abs"] = (self.r.randrange(2),)
        src = self.sources(types, form)
        self.emit(name, form, (dst,), src, **signs_of_registers(mods, src))
        if name.startswith("v_cmpx"):
            self.full = False

    def select(self) -> None:
        form = self.choose(("e32", "e64", "dpp"))
        mask = Reg("s", VCC, 2) if form != "e64" else self.sgpr(64)
        vectors = (self.vgpr(), self.vgpr())
        mods = self.dpp_mods() if form == "dpp" else {}
        self.emit("v_cndmask_b32", form, (self.vgpr(),), (*vectors, mask), **mods)

    def carry(self) -> None:
        if self.chance(25):
            src = (self.vgpr(), self.vgpr(), self.vgpr(64))
            self.emit("v_mad_u64_u32", "e64", (self.vgpr(64), self.sgpr(64)), src)
            return
        uses = self.chance(50)
        base = ("addc", "subb", "subbrev") if uses else ("add", "sub", "subrev")
        name = f"v_{self.choose(base)}_co_u32"
        form = self.choose(("e32", "e64", "dpp"))
        vcc = Reg("s", VCC, 2)
        out = self.sgpr(64) if form == "e64" else vcc
        src: tuple[Operand, ...] = (self.vgpr(), self.vgpr())
        if uses:
            src = (*src, self.sgpr(64) if form == "e64" else vcc)
        self.emit(name, form, (self.vgpr(), out), src, **(self.dpp_mods() if form == "dpp" else {}))

    def lds(self) -> None:
        kind = self.r.randrange(6)
        if kind == 0:
            name = self.choose(list(WRITES))
            words = -(-WRITES[name] // 4)
            first = self.r.randrange(0, 28, 4)
            offset = 1024 * self.r.randrange(8)
            self.emit(name, src=(SLOT, Reg("v", first, words)), offset=offset)
            return
        if kind == 1:
            name, count, offsets = self.choose(
                (
                    ("ds_write2_b32", 1, (0, 3)),
                    ("ds_write2_b64", 2, (1, 0)),
                    ("ds_write2st64_b32", 1, (2, 9)),
                    ("ds_write2st64_b64", 2, (7, 4)),
                )
            )
            data = tuple(Reg("v", 2 * self.r.randrange(16), count) for _ in range(2))
            self.emit(name, src=(SLOT, *data), offset0=offsets[0], offset1=offsets[1])
            return
        self.emit("v_and_b32", "e32", (ADDRESS,), (Const(0xFF0, True), self.vgpr()))
        if kind in (2, 5):
            name = self.choose(list(ATOMICS))
            self.emit(name, src=(ADDRESS, self.vgpr()), offset=4 * self.r.randrange(1000))
        elif kind == 3:
            name, count = self.choose(
                (("2_b32", 2), ("2_b64", 4), ("2st64_b32", 2), ("2st64_b64", 4))
            )
            limit = 7 if "64_b64" in name else 15 if "st64" in name else 255
            offsets = {f"offset{i}": self.r.randrange(limit + 1) for i in range(2)}
            dst = Reg("v", self.r.randrange(0, 28, 4), count)
            self.emit(f"ds_read{name}", dst=(dst,), src=(ADDRESS,), **offsets)
        else:
            name = self.choose(list(READS))
            size = READS[name][0]
            dst = Reg("v", self.r.randrange(0, 28, 4), -(-size // 4))
            unit = 16 if size == 12 else size
            offset = unit * self.r.randrange(4000 // unit)
            self.emit(name, dst=(dst,), src=(ADDRESS,), offset=offset)

    def lanes(self) -> None:
        kind = self.r.randrange(6)
        if kind == 0:
            self.emit("v_readfirstlane_b32", "", (self.sgpr(),), (self.vgpr(),))
        elif kind == 1:
            lane = self.sgpr() if self.chance(50) else Const(self.r.randrange(64))
            self.emit("v_readlane_b32", "", (self.sgpr(),), (self.vgpr(), lane))
        elif kind == 2:
            pair: tuple[Operand, ...] = (self.sgpr(), Const(self.r.randrange(64)))
            if self.chance(50):
                pair = (Const(self.r.randrange(-16, 65)), self.sgpr())
            self.emit("v_writelane_b32", "", (self.vgpr(),), pair)
        elif kind == 3:
            self.emit("ds_bpermute_b32", dst=(self.vgpr(),), src=(self.vgpr(), self.vgpr()))
        elif kind == 4:
            offset = self.r.getrandbits(15) if self.chance(60) else 0x8000 | self.r.getrandbits(8)
            self.emit("ds_swizzle_b32", dst=(self.vgpr(),), src=(self.vgpr(),), offset=offset)
        else:
            first = self.r.randrange(32)
            second = Reg("v", (first + self.r.randrange(1, 32)) % 32)
            self.emit("v_swap_b32", "", (Reg("v", first),), (second,))

    def loose(self) -> None:
        name = self.choose([o.name for o in OPS.values() if o.loose])
        scratch, result = Reg("v", 40), Reg("v", 41 + self.r.randrange(7))
        limits = (self.vgpr(), Const(0.5), Const(4.0))
        self.emit("v_med3_f32", "e64", (scratch,), limits)
        scale = self.choose((0x3F800000, 0x49800000, 0x35800000, 0x40490FDB))
        if name == "v_exp_f32":
            scale = self.choose((0x3F800000, 0xC1200000, 0x40A00000))
        self.emit("v_mul_f32", "e32", (scratch,), (Const(scale, True), scratch))
        self.emit(name, "e32", (result,), (scratch,))

    def exec_change(self) -> None:
        exec_ = Reg("s", EXEC, 2)
        if self.inside:
            return self.scalar()
        if self.chance(45):
            self.emit("s_mov_b64", dst=(exec_,), src=(Const(-1),))
            self.full = True
            return None
        self.full = False
        if self.chance(50):
            names = [n for n in SCALAR if "saveexec" in n]
            self.emit(self.choose(names), dst=(Reg("s", 48, 2),), src=(self.sgpr(64),))
        else:
            self.emit("s_or_b64", dst=(exec_,), src=(self.sgpr(64), self.sgpr(64)))
        return None

    def within(self, count: int) -> None:
        """Some instructions that keep EXEC and do not branch."""
        outer, self.inside = self.inside, True
        for _ in range(count):
            self.step()
        self.inside = outer

    def branch(self) -> None:
        if self.inside:
            return self.vector()
        conditions = ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")
        label = f"L{self.labels}"
        self.labels += 1
        self.emit(f"s_cbranch_{self.choose(conditions)}", target=label)
        self.within(self.r.randrange(1, 5))
        self.body.append(Inst("s_nop", src=(Const(0),), label=label))
        return None

    def loop(self) -> None:
        if self.inside:
            return self.scalar()
        label, counter = f"L{self.labels}", Reg("s", 60)
        self.labels += 1
        self.emit("s_mov_b32", dst=(counter,), src=(Const(self.r.randrange(1, 5)),))
        self.body.append(Inst("s_nop", src=(Const(0),), label=label))
        self.within(self.r.randrange(1, 5))
        self.emit("s_sub_u32", dst=(counter,), src=(counter, Const(1)))
        self.emit("s_cmp_lg_u32", src=(counter, Const(0)))
        self.emit("s_cbranch_scc1", target=label)
        return None

    def matrix(self) -> None:
        """A matrix instruction; accumulation registers move where every lane is on."""
        if self.full and self.chance(30):
            file = Reg("a", self.r.randrange(AGPRS))
            if self.chance(50):
                self.emit("v_accvgpr_read_b32", "", (self.vgpr(),), (file,))
                return
        name = self.choose([n for n in MATRIX if self.arch in MATRIX[n][4]])
        size, _, blocks, type_, _ = MATRIX[name]
        start = {"f16": 64, "bf16": 72, "i8": 80, "f32": 88}[type_]
        count = operand_registers(name)
        step = 4 if ELEMENT_BITS[type_] < 32 else 1
        operands = tuple(Reg("v", start + step * i, count) for i in range(2))
        results = size * size * blocks // 64
        wide = Reg("a", 16 if type_ == "i8" else 0, results)
        target = wide
        if results == 4 and self.chance(50):
            target = Reg("v", 52 if type_ == "i8" else 48, 4)
        c: Operand = Const(0) if self.chance(15) else target
        self.emit(name, "", (target,), (*operands, c))

    def newer(self) -> None:
        if not self.has("v_bitop3_b32"):
            return self.vector()
        if self.full and not self.inside and self.chance(60):
            name = self.choose(("v_permlane32_swap_b32", "v_permlane16_swap_b32"))
            first = self.r.randrange(32)
            second = Reg("v", (first + self.r.randrange(1, 32)) % 32)
            self.emit(name, "e32", (Reg("v", first),), (second,))
            return None
        src = self.sources(("u32",) * 3, "e64")
        self.emit("v_bitop3_b32", "", (self.vgpr(),), src, bitop3=self.r.getrandbits(8))
        return None


def signs_of_registers(mods: dict[str, Any], src: tuple[Operand, ...]) -> dict[str, Any]:
    """Without |x| and -x of constants: the assembler would fold them."""
    kept = dict(mods)
    for name in ("neg", "abs"):
        if name in kept:
            kept[name] = tuple(i for i in kept[name] if isinstance(src[i], Reg))
            if not kept[name]:
                del kept[name]
    return kept
