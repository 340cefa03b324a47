"""Cube-map coordinates: ``v_cubeid``, ``v_cubesc``, ``v_cubetc``, ``v_cubema``.

The face is that of the component with the largest magnitude; of equal ones z goes before y before
x. Source: AMD Instinct MI300 ISA guide, *VOP3 instructions*.
"""

from __future__ import annotations

from rocke.emulator.semantics.expr import F32, Emitter, Value
from rocke.emulator.semantics.vector import vop


def _by_axis(e: Emitter, x: Value, y: Value, z: Value, of: tuple[Value, Value, Value]) -> Value:
    """The value for the major axis; ``of`` are those for x, y and z."""
    ax, ay, az = x.fabs(), y.fabs(), z.fabs()
    major_z = (az >= ax) & (az >= ay)
    return e.select(major_z, of[2], e.select(ay >= ax, of[1], of[0]))


def _face(e: Emitter, x: Value, y: Value, z: Value) -> Value:
    faces = [
        e.select(v < 0.0, e.const(F32, 2.0 * axis + 1.0), 2.0 * axis)
        for axis, v in enumerate((x, y, z))
    ]
    return _by_axis(e, x, y, z, (faces[0], faces[1], faces[2]))


def _s(e: Emitter, x: Value, y: Value, z: Value) -> Value:
    return _by_axis(e, x, y, z, (e.select(x < 0.0, z, -z), x, e.select(z < 0.0, -x, x)))


def _t(e: Emitter, x: Value, y: Value, z: Value) -> Value:
    return _by_axis(e, x, y, z, (-y, e.select(y < 0.0, -z, z), -y))


def _major(e: Emitter, x: Value, y: Value, z: Value) -> Value:
    return _by_axis(e, x, y, z, (x, y, z)) * 2.0


for _name, _meaning in (("id", _face), ("sc", _s), ("tc", _t), ("ma", _major)):
    vop(f"v_cube{_name}_f32", F32, (F32,) * 3, _meaning)
