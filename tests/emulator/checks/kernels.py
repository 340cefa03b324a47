"""Right kernels as LLVM IR, for bugs to be planted into."""

from __future__ import annotations

NEIGHBOUR = """
define amdgpu_kernel void @neighbour(ptr addrspace(1) %data, ptr addrspace(1) %out) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %data, i32 %t
  %v = mul i32 %t, 3
  store i32 %v, ptr addrspace(1) %p
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %r = sub i32 255, %t
  %q = getelementptr i32, ptr addrspace(1) %data, i32 %r
  %w = load i32, ptr addrspace(1) %q
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %w, ptr addrspace(1) %o
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
"""
"""Through global memory, across the waves of a workgroup."""

ADD = """
define amdgpu_kernel void @add(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c,
                               i32 %stride) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %m = mul i32 %g, %stride
  %i = add i32 %m, %t
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = load float, ptr addrspace(1) %pa
  %y = load float, ptr addrspace(1) %pb
  %z = fadd float %x, %y
  %gf = sitofp i32 %g to float
  %zg = fadd float %z, %gf
  store float %zg, ptr addrspace(1) %pc
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""
"""A workgroup writes 64 elements from its number times ``stride`` on."""

GATHER = """
define amdgpu_kernel void @gather(ptr addrspace(1) %list, ptr addrspace(1) %x,
                                  ptr addrspace(1) %out, i32 %shift) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %s = add i32 %t, %shift
  %pl = getelementptr i32, ptr addrspace(1) %list, i32 %t
  %k = load i32, ptr addrspace(1) %pl
  %kk = add i32 %k, %shift
  %wide = zext i32 %kk to i64
  %px = getelementptr float, ptr addrspace(1) %x, i64 %wide
  %v = load float, ptr addrspace(1) %px
  %po = getelementptr float, ptr addrspace(1) %out, i32 %t
  store float %v, ptr addrspace(1) %po
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""

MATRIX = """
declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half>, <4 x half>, <4 x float>,
                                                      i32, i32, i32)
define amdgpu_kernel void @matrix(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c,
                                  float %scale) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr <4 x half>, ptr addrspace(1) %a, i32 %t
  %pb = getelementptr <4 x half>, ptr addrspace(1) %b, i32 %t
  %pc = getelementptr <4 x float>, ptr addrspace(1) %c, i32 %t
  %x = load <4 x half>, ptr addrspace(1) %pa
  %y = load <4 x half>, ptr addrspace(1) %pb
  %z = load <4 x float>, ptr addrspace(1) %pc
  %h = insertelement <4 x half> poison, half 0xH4000, i32 0
  %two = shufflevector <4 x half> %h, <4 x half> poison, <4 x i32> zeroinitializer
  %x2 = fmul <4 x half> %x, %two
  %d = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half> %x2, <4 x half> %y,
                                                          <4 x float> %z, i32 0, i32 0, i32 0)
  %s = insertelement <4 x float> poison, float %scale, i32 0
  %ss = shufflevector <4 x float> %s, <4 x float> poison, <4 x i32> zeroinitializer
  %r = fmul <4 x float> %d, %ss
  store <4 x float> %r, ptr addrspace(1) %pc
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""

EXPONENTIAL = """
declare float @llvm.amdgcn.exp2.f32(float)
define amdgpu_kernel void @exponential(ptr addrspace(1) %a, float %bias) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr float, ptr addrspace(1) %a, i32 %t
  %x = load float, ptr addrspace(1) %p
  %e = call float @llvm.amdgcn.exp2.f32(float %x)
  %y = fadd float %e, %bias
  %c = fcmp olt float %y, %bias
  %z = select i1 %c, float %y, float 2.0
  store float %z, ptr addrspace(1) %p
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""

COPY = """
@tile = internal addrspace(3) global [256 x i32] poison, align 16
declare void @llvm.amdgcn.global.load.lds(ptr addrspace(1), ptr addrspace(3), i32, i32, i32)
define amdgpu_kernel void @copy(ptr addrspace(1) %x, ptr addrspace(1) %out) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %w = lshr i32 %t, 6
  %first = shl i32 %w, 6
  %uniform = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %first)
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %t
  %s = getelementptr [256 x i32], ptr addrspace(3) @tile, i32 0, i32 %uniform
  call void @llvm.amdgcn.global.load.lds(ptr addrspace(1) %p, ptr addrspace(3) %s,
                                         i32 4, i32 0, i32 0)
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %r = sub i32 255, %t
  %q = getelementptr [256 x i32], ptr addrspace(3) @tile, i32 0, i32 %r
  %v = load i32, ptr addrspace(3) %q
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %o
  ret void
}
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
"""
"""Direct to LDS, then across waves."""

EARLY = """
define amdgpu_kernel void @early(ptr addrspace(1) %out, i32 %n) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %t, ptr addrspace(1) %p
  %in = icmp slt i32 %t, %n
  br i1 %in, label %wait, label %end
wait:
  call void @llvm.amdgcn.s.barrier()
  br label %end
end:
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
"""
"""Only work-items below ``n`` reach the barrier."""

SHIFTED = """
@tile = internal addrspace(3) global [64 x i32] poison
define amdgpu_kernel void @shifted(ptr addrspace(1) %out, i32 %shift) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %mine = getelementptr [64 x i32], ptr addrspace(3) @tile, i32 0, i32 %t
  store i32 %t, ptr addrspace(3) %mine
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %i = add i32 %t, %shift
  %other = getelementptr [64 x i32], ptr addrspace(3) @tile, i32 0, i32 %i
  %v = load i32, ptr addrspace(3) %other
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %o
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="32,64" }
"""
"""Reads the LDS element ``shift`` further on."""

LOOPS = """
define amdgpu_kernel void @loops(ptr addrspace(1) %out, i32 %more, i32 %least) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %w = lshr i32 %t, 6
  %wave = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %w)
  %extra = mul i32 %wave, %more
  %n = add i32 %least, %extra
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %loop ]
  call void @llvm.amdgcn.s.barrier()
  %k1 = add i32 %k, 1
  %go = icmp slt i32 %k1, %n
  br i1 %go, label %loop, label %end
end:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %k, ptr addrspace(1) %p
  ret void
}
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
"""
"""Wave w passes ``least + w * more`` barriers."""

TRANSPOSED = """
@tile = internal addrspace(3) global [64 x i64] poison, align 16
declare <4 x i16> @llvm.amdgcn.ds.read.tr16.b64.v4i16(ptr addrspace(3))
define amdgpu_kernel void @transposed(ptr addrspace(1) %out) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %s = getelementptr [64 x i64], ptr addrspace(3) @tile, i32 0, i32 %t
  %t64 = zext i32 %t to i64
  store i64 %t64, ptr addrspace(3) %s
  %v = call <4 x i16> @llvm.amdgcn.ds.read.tr16.b64.v4i16(ptr addrspace(3) %s)
  %o = getelementptr <4 x i16>, ptr addrspace(1) %out, i32 %t
  store <4 x i16> %v, ptr addrspace(1) %o
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""

FORMATTED = """
declare <2 x half> @llvm.amdgcn.raw.buffer.load.format.v2f16(<4 x i32>, i32, i32, i32)
declare void @llvm.amdgcn.raw.buffer.store.format.v2f16(<2 x half>, <4 x i32>, i32, i32, i32)
define amdgpu_kernel void @formatted(ptr addrspace(1) %x, ptr addrspace(1) %out, i32 %shift) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %m = mul i32 %g, %shift
  %i = add i32 %m, %t
  %o = shl i32 %i, 2
  %xi = ptrtoint ptr addrspace(1) %x to i64
  %xv = bitcast i64 %xi to <2 x i32>
  %xr = shufflevector <2 x i32> %xv, <2 x i32> <i32 1000, i32 FORMAT>,
                      <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %oi = ptrtoint ptr addrspace(1) %out to i64
  %ov = bitcast i64 %oi to <2 x i32>
  %or = shufflevector <2 x i32> %ov, <2 x i32> <i32 1000, i32 FORMAT>,
                      <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v = call <2 x half> @llvm.amdgcn.raw.buffer.load.format.v2f16(<4 x i32> %xr, i32 %o,
                                                                 i32 0, i32 0)
  %gh = sitofp i32 %g to half
  %w = insertelement <2 x half> poison, half %gh, i32 0
  %h = shufflevector <2 x half> %w, <2 x half> poison, <2 x i32> zeroinitializer
  %two = fadd <2 x half> %v, %h
  call void @llvm.amdgcn.raw.buffer.store.format.v2f16(<2 x half> %two, <4 x i32> %or, i32 %o,
                                                       i32 0, i32 0)
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
""".replace("FORMAT", str(4 | 5 << 3 | 6 << 6 | 7 << 9 | 7 << 12 | 5 << 15))
"""Two halves a work-item through buffers of format 16_16 FLOAT, 1000 bytes long."""
