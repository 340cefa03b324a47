"""Waits, barriers and hints to the instruction scheduler."""

from __future__ import annotations

from rocke.core.base import BuilderBase

VMCNT_MAX, EXPCNT_MAX, LGKMCNT_MAX = 63, 7, 15
"""Largest counts of s_waitcnt on gfx9: such a count waits for nothing."""


def waitcnt_bits(vmcnt: int, expcnt: int, lgkmcnt: int) -> int:
    """The operand of ``s_waitcnt`` on gfx9 (the same on gfx90a, gfx942, gfx950).

    vmcnt in bits 3:0 and 15:14, expcnt in 6:4, lgkmcnt in 11:8. [LLVM SIDefines, AMDGPUBaseInfo]
    """
    return (vmcnt & 15) | (vmcnt >> 4 << 14) | (expcnt << 4) | (lgkmcnt << 8)


class Sync(BuilderBase):
    """Synchronisation within a workgroup, and scheduling."""

    def sync(self) -> None:
        """Completes this wave's outstanding memory operations, then meets the workgroup's other
        waves.

        After it, LDS and global writes of before are seen by the whole workgroup, direct-to-LDS
        copies included. Every wave must reach it. Emits ``rocdl.s.waitcnt`` (vmcnt 0, lgkmcnt 0)
        and ``rocdl.s.barrier`` between workgroup fences (``llvm.fence``), over which LLVM moves no
        access.
        """
        self.s_waitcnt(vmcnt=0, lgkmcnt=0)
        self._fence("sync", "release", "workgroup")
        self._emit("sync", "rocdl.s.barrier", ())
        self._fence("sync", "acquire", "workgroup")

    def s_waitcnt(
        self, vmcnt: int = VMCNT_MAX, expcnt: int = EXPCNT_MAX, lgkmcnt: int = LGKMCNT_MAX
    ) -> None:
        """Waits until at most so many memory operations of each kind are outstanding.

        ``vmcnt`` counts vector memory (0-63), ``lgkmcnt`` LDS and scalar memory (0-15), ``expcnt``
        exports (0-7); a default waits for nothing. LLVM moves no memory access over it. Emits
        ``rocdl.s.waitcnt`` after a single-thread ``llvm.fence``, which is no instruction.
        """
        counts = {
            "vmcnt": (vmcnt, VMCNT_MAX),
            "expcnt": (expcnt, EXPCNT_MAX),
            "lgkmcnt": (lgkmcnt, LGKMCNT_MAX),
        }
        for name, (count, most) in counts.items():
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= most:
                self._fail("s_waitcnt", f"expected {name} from 0 to {most}, got {count!r}")
        bits = waitcnt_bits(vmcnt, expcnt, lgkmcnt)
        self._fence("s_waitcnt", "seq_cst", "singlethread")
        self._emit(
            "s_waitcnt", "rocdl.s.waitcnt", (), (), {"bitfield": self._attr(f"{bits} : i32")}
        )
        self._fence("s_waitcnt", "seq_cst", "singlethread")

    def s_barrier_bare(self) -> None:
        """Meets the workgroup's other waves, and waits for no memory operation.

        LLVM moves no memory access over it, but accesses may still be under way: wait with
        `s_waitcnt` before, for what other waves shall see. Emits ``rocdl.s.barrier`` between
        single-thread fences.
        """
        self._fence("s_barrier_bare", "seq_cst", "singlethread")
        self._emit("s_barrier_bare", "rocdl.s.barrier", ())
        self._fence("s_barrier_bare", "seq_cst", "singlethread")

    def _fence(self, op: str, ordering: str, scope: str) -> None:
        number = {"acquire": 4, "release": 5, "seq_cst": 7}[ordering]
        attributes = {
            "ordering": self._attr(f"{number} : i64"),
            "syncscope": self._attr(f'"{scope}"'),
        }
        self._emit(op, "llvm.fence", (), (), attributes)

    # -- scheduling ----------------------------------------------------------------------

    def _number(self, op: str, name: str, value: int, most: int) -> str:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            self._fail(op, f"expected {name} from 0 to {most}, got {value!r}")
        return f"{value} : i32"

    def sched_barrier(self, mask: int = 0) -> None:
        """No instruction moves over this point, except the kinds in ``mask``.

        Bits: 1 non-memory, 2 VALU, 4 SALU, 8 matrix, 0x10 all VMEM, 0x20 VMEM reads, 0x40 VMEM
        writes, 0x80 all LDS, 0x100 LDS reads, 0x200 LDS writes, 0x400 transcendental. [LLVM AMDGPU
        usage] Emits ``rocdl.sched.barrier``.
        """
        bits = self._attr(self._number("sched_barrier", "mask", mask, 0x7FF))
        self._emit("sched_barrier", "rocdl.sched.barrier", (), (), {"mask": bits})

    def sched_group_barrier(self, mask: int, count: int, group: int = 0) -> None:
        """The next ``count`` instructions of the kinds in ``mask`` come here.

        A row of these (with one ``group``) prescribes an order; bits as in `sched_barrier`. Emits
        ``rocdl.sched.group.barrier``.
        """
        op = "sched_group_barrier"
        attributes = {
            "mask": self._attr(self._number(op, "mask", mask, 0x7FF)),
            "size": self._attr(self._number(op, "count", count, 1 << 16)),
            "groupId": self._attr(self._number(op, "group", group, 1 << 16)),
        }
        self._emit(op, "rocdl.sched.group.barrier", (), (), attributes)

    def s_setprio(self, level: int) -> None:
        """Priority of this wave on its SIMD, 0 to 3. Emits ``rocdl.s.setprio``."""
        bits = self._attr(self._number("s_setprio", "level", level, 3).replace("i32", "i16"))
        self._emit("s_setprio", "rocdl.s.setprio", (), (), {"priority": bits})

    def iglp_opt(self, variant: int) -> None:
        """One of LLVM's ready interleavings for the block (0 to 3). Emits ``rocdl.iglp.opt``."""
        bits = self._attr(self._number("iglp_opt", "variant", variant, 3))
        self._emit("iglp_opt", "rocdl.iglp.opt", (), (), {"variant": bits})
