"""Small kernels as LLVM IR, built for a target when a test asks for them."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

import llvmlite.binding as llvm

from rocke.compiler.code_object import CodeObject

TARGETS = ("gfx90a", "gfx942", "gfx950")

HEAD = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workitem.id.z()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
declare void @llvm.amdgcn.s.barrier()
declare void @llvm.trap()
!llvm.module.flags = !{!0, !1}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
!1 = !{i32 2, !"Debug Info Version", i32 3}
"""

ADD = """
define amdgpu_kernel void @add(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c,
                               i32 %n) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %m = mul i32 %g, 256
  %i = add i32 %m, %t
  %ok = icmp slt i32 %i, %n
  br i1 %ok, label %go, label %end
go:
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = load float, ptr addrspace(1) %pa
  %y = load float, ptr addrspace(1) %pb
  %z = fadd float %x, %y
  store float %z, ptr addrspace(1) %pc
  br label %end
end:
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true" }
"""

IDS = """
define amdgpu_kernel void @ids(ptr addrspace(1) %out) #0 {
  %tx = call i32 @llvm.amdgcn.workitem.id.x()
  %ty = call i32 @llvm.amdgcn.workitem.id.y()
  %tz = call i32 @llvm.amdgcn.workitem.id.z()
  %gx = call i32 @llvm.amdgcn.workgroup.id.x()
  %gy = call i32 @llvm.amdgcn.workgroup.id.y()
  %gz = call i32 @llvm.amdgcn.workgroup.id.z()
  ; block (5, 3, 7), grid (2, 3, 4)
  %a = mul i32 %tz, 3
  %b = add i32 %a, %ty
  %c = mul i32 %b, 5
  %flat = add i32 %c, %tx
  %d = mul i32 %gz, 3
  %e = add i32 %d, %gy
  %f = mul i32 %e, 2
  %group = add i32 %f, %gx
  %g = mul i32 %group, 105
  %i = add i32 %g, %flat
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  %t1 = shl i32 %ty, 4
  %t2 = shl i32 %tz, 8
  %t3 = shl i32 %gx, 12
  %t4 = shl i32 %gy, 16
  %t5 = shl i32 %gz, 20
  %o1 = or i32 %tx, %t1
  %o2 = or i32 %o1, %t2
  %o3 = or i32 %o2, %t3
  %o4 = or i32 %o3, %t4
  %o5 = or i32 %o4, %t5
  store i32 %o5, ptr addrspace(1) %p
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
"""

REVERSE = """
@tile = internal addrspace(3) global [256 x i32] poison
define amdgpu_kernel void @reverse(ptr addrspace(1) %data, i32 %rounds) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = shl i32 %g, 8
  %i = add i32 %base, %t
  %p = getelementptr i32, ptr addrspace(1) %data, i32 %i
  %mine = getelementptr [256 x i32], ptr addrspace(3) @tile, i32 0, i32 %t
  %r = sub i32 255, %t
  %other = getelementptr [256 x i32], ptr addrspace(3) @tile, i32 0, i32 %r
  %first = load i32, ptr addrspace(1) %p
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %loop ]
  %v = phi i32 [ %first, %entry ], [ %u, %loop ]
  store i32 %v, ptr addrspace(3) %mine
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %u0 = load i32, ptr addrspace(3) %other
  %u = add i32 %u0, 1
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, %rounds
  br i1 %more, label %loop, label %end
end:
  store i32 %u, ptr addrspace(1) %p
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
"""

SPIN = """
define amdgpu_kernel void @spin(ptr addrspace(1) %flag) {
entry:
  br label %loop
loop:
  %v = load volatile i32, ptr addrspace(1) %flag
  %go = icmp eq i32 %v, 0
  br i1 %go, label %loop, label %end
end:
  ret void
}
"""

STORE_AT = """
define amdgpu_kernel void @store_at(ptr addrspace(1) %p, i64 %offset) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %t64 = zext i32 %t to i64
  %i = add i64 %t64, %offset
  %q = getelementptr i32, ptr addrspace(1) %p, i64 %i
  store i32 %t, ptr addrspace(1) %q
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""

STORE_LINES = """
define amdgpu_kernel void @store_lines(ptr addrspace(1) %p, i64 %offset) #0 !dbg !10 {
  %t = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !11
  %t64 = zext i32 %t to i64, !dbg !11
  %i = add i64 %t64, %offset, !dbg !11
  %q = getelementptr i32, ptr addrspace(1) %p, i64 %i, !dbg !11
  store i32 %t, ptr addrspace(1) %q, !dbg !12
  ret void, !dbg !13
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
!llvm.dbg.cu = !{!5}
!5 = distinct !DICompileUnit(language: DW_LANG_C99, file: !6, emissionKind: LineTablesOnly)
!6 = !DIFile(filename: "kernels/store.py", directory: "")
!10 = distinct !DISubprogram(name: "store_lines", file: !6, line: 1, type: !14, unit: !5,
                             spFlags: DISPFlagDefinition)
!11 = !DILocation(line: 7, column: 1, scope: !10)
!12 = !DILocation(line: 8, column: 1, scope: !10)
!13 = !DILocation(line: 9, column: 1, scope: !10)
!14 = !DISubroutineType(types: !15)
!15 = !{null}
"""

LDS_AT = """
@dynamic = external addrspace(3) global [0 x i32]
define amdgpu_kernel void @lds_at(ptr addrspace(1) %p, i32 %index) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %i = add i32 %t, %index
  %s = getelementptr [0 x i32], ptr addrspace(3) @dynamic, i32 0, i32 %i
  store volatile i32 %t, ptr addrspace(3) %s
  %v = load volatile i32, ptr addrspace(3) %s
  %q = getelementptr i32, ptr addrspace(1) %p, i32 %t
  store i32 %v, ptr addrspace(1) %q
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""

HIDDEN = """
define amdgpu_kernel void @hidden(ptr addrspace(1) %out) #0 {
  %h = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %d = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %blocks = load <3 x i32>, ptr addrspace(4) %h
  %p12 = getelementptr i8, ptr addrspace(4) %h, i64 12
  %sizes = load <3 x i16>, ptr addrspace(4) %p12
  %wide = zext <3 x i16> %sizes to <3 x i32>
  %p12d = getelementptr i8, ptr addrspace(4) %d, i64 12
  %grid = load <3 x i32>, ptr addrspace(4) %p12d
  store <3 x i32> %blocks, ptr addrspace(1) %out
  %o1 = getelementptr i8, ptr addrspace(1) %out, i64 16
  store <3 x i32> %wide, ptr addrspace(1) %o1
  %o2 = getelementptr i8, ptr addrspace(1) %out, i64 32
  store <3 x i32> %grid, ptr addrspace(1) %o2
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
"""

CALL = """
define internal i32 @callee(i32 %x, i32 %y) noinline {
  %m = mul i32 %x, %y
  %r = add i32 %m, 7
  ret i32 %r
}
define amdgpu_kernel void @call(ptr addrspace(1) %out, i32 %n) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %r = call i32 @callee(i32 %t, i32 %n)
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %q
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""


PRIVATE = """
define amdgpu_kernel void @private(ptr addrspace(1) %out, i32 %n) #0 {
entry:
  %a = alloca [40 x i32], addrspace(5)
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  br label %fill
fill:
  %k = phi i32 [ 0, %entry ], [ %k1, %fill ]
  %p = getelementptr [40 x i32], ptr addrspace(5) %a, i32 0, i32 %k
  %v = mul i32 %k, %t
  store volatile i32 %v, ptr addrspace(5) %p
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, %n
  br i1 %more, label %fill, label %read
read:
  %i = urem i32 %t, %n
  %q = getelementptr [40 x i32], ptr addrspace(5) %a, i32 0, i32 %i
  %r = load volatile i32, ptr addrspace(5) %q
  %b = shl i32 %g, 7
  %o = add i32 %b, %t
  %po = getelementptr i32, ptr addrspace(1) %out, i32 %o
  store i32 %r, ptr addrspace(1) %po
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="128,128" }
"""

GENERIC = """
@tile = internal addrspace(3) global [64 x i32] poison
define amdgpu_kernel void @generic(ptr addrspace(1) %out, i32 %which) #0 {
  %a = alloca [64 x i32], addrspace(5)
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %l = getelementptr [64 x i32], ptr addrspace(3) @tile, i32 0, i32 %t
  %p = getelementptr [64 x i32], ptr addrspace(5) %a, i32 0, i32 %t
  %lf = addrspacecast ptr addrspace(3) %l to ptr
  %pf = addrspacecast ptr addrspace(5) %p to ptr
  %g = getelementptr i32, ptr addrspace(1) %out, i32 %t
  %gf = addrspacecast ptr addrspace(1) %g to ptr
  store volatile i32 1, ptr addrspace(3) %l
  store volatile i32 2, ptr addrspace(5) %p
  %s = add i32 %t, %which
  %m = urem i32 %s, 3
  %is0 = icmp eq i32 %m, 0
  %is1 = icmp eq i32 %m, 1
  %c = select i1 %is1, ptr %lf, ptr %pf
  %d = select i1 %is0, ptr %gf, ptr %c
  %v = load volatile i32, ptr %d
  %w = add i32 %v, 10
  store volatile i32 %w, ptr %gf
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""


@functools.cache
def build(ir: str, arch: str) -> CodeObject:
    """Compile and link a kernel for ``arch``."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(HEAD + ir)
    module.verify()
    target = llvm.Target.from_triple("amdgcn-amd-amdhsa")
    machine = target.create_target_machine(cpu=arch, opt=3)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.o")
        path.write_bytes(machine.emit_object(module))
        linked = path.with_suffix(".hsaco")
        command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-o"]
        subprocess.run([*command, str(linked), str(path)], check=True, capture_output=True)
        return CodeObject.from_bytes(linked.read_bytes())


def patched(code_object: CodeObject, old: bytes, new: bytes) -> CodeObject:
    """The code object with the first occurrence of ``old`` in the kernel's text replaced."""
    info = code_object.kernels[0]
    start, size = info.text
    at = code_object.data.index(old, info.entry, start + size)
    assert len(old) == len(new)
    assert (at - start) % 4 == 0
    data = bytearray(code_object.data)
    data[at : at + len(new)] = new
    return CodeObject.from_bytes(bytes(data))
