"""Who am I: work-item, workgroup and lane numbers."""

from __future__ import annotations

from rocke.core.addresses import Addresses
from rocke.core.types import I32, ptr
from rocke.core.value import Value


class Ids(Addresses):
    """Numbers of the work-item and the workgroup; all ``i32``."""

    def thread_id_x(self) -> Value:
        """Work-item number in its workgroup along x. Emits ``rocdl.workitem.id.x``."""
        return self._emit1("thread_id_x", "rocdl.workitem.id.x", (), I32, hint="tid")

    def block_id_x(self) -> Value:
        """Workgroup number along x, wave-uniform. Emits ``rocdl.workgroup.id.x``."""
        return self._emit1("block_id_x", "rocdl.workgroup.id.x", (), I32, hint="bid_x")

    def block_id_y(self) -> Value:
        """Workgroup number along y, wave-uniform. Emits ``rocdl.workgroup.id.y``."""
        return self._emit1("block_id_y", "rocdl.workgroup.id.y", (), I32, hint="bid_y")

    def block_id_z(self) -> Value:
        """Workgroup number along z, wave-uniform. Emits ``rocdl.workgroup.id.z``."""
        return self._emit1("block_id_z", "rocdl.workgroup.id.z", (), I32, hint="bid_z")

    def grid_sizes(self) -> tuple[Value, Value, Value]:
        """Workgroups of the launch along x, y and z, wave-uniform.

        Emits loads from ``llvm.amdgcn.implicitarg.ptr``, the hidden arguments that the runtime adds
        (code object version 5: the counts are the first three words).
        """
        op, type_ = "grid_sizes", ptr(I32, "constant")
        kind = {"intrin": "llvm.amdgcn.implicitarg.ptr", "op_bundle_sizes": []}
        first = self._op("llvm.call_intrinsic", result_types=[type_], attrs=kind).result
        places = (self._element_pointer(op, first, I32, axis) for axis in range(3))
        x, y, z = (self._load(op, place, I32, None) for place in places)
        return x, y, z

    def lane_id(self) -> Value:
        """Lane number in the wave, 0 to 63. Emits ``rocdl.mbcnt.lo`` and ``rocdl.mbcnt.hi``."""
        ones, zero = self._operand("lane_id", -1), self._operand("lane_id", 0)
        low = self._emit1("lane_id", "rocdl.mbcnt.lo", (ones, zero), I32)
        return self._emit1("lane_id", "rocdl.mbcnt.hi", (ones, low), I32, hint="lane")
