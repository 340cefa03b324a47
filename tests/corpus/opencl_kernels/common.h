// Shared by the OpenCL C kernels: names for the hardware's own builtins.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#define LANE ((int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)))
#define WORKITEM ((int)__builtin_amdgcn_workitem_id_x())
#define GROUP ((int)__builtin_amdgcn_workgroup_id_x())
#define FENCE(scope) __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, scope)
#define SYNC()                                                                                     \
    do {                                                                                           \
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");                                     \
        __builtin_amdgcn_s_barrier();                                                              \
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");                                     \
    } while (0)

// Scopes of the atomic builtins (those of clang's HIP mode, which OpenCL C has no names for).
#define WORKGROUP 3
#define AGENT 4
#define SYSTEM 5

// Places in the grid. The library's functions read the implicit arguments of older code objects;
// these read those of version 5 (LLVM's AMDGPU guide, "Code Object V5 ... implicit arguments").
#define IMPLICIT(type, offset)                                                                     \
    (*(constant type *)((constant char *)__builtin_amdgcn_implicitarg_ptr() + (offset)))

static int local_x(void) { return __builtin_amdgcn_workitem_id_x(); }
static int local_y(void) { return __builtin_amdgcn_workitem_id_y(); }
static int group_x(void) { return __builtin_amdgcn_workgroup_id_x(); }
static int group_y(void) { return __builtin_amdgcn_workgroup_id_y(); }
static int groups_x(void) { return IMPLICIT(uint, 0); }
static int global_x(void) {
    return group_x() * __builtin_amdgcn_workgroup_size_x() + local_x() + (int)IMPLICIT(ulong, 40);
}
static int global_y(void) {
    return group_y() * __builtin_amdgcn_workgroup_size_y() + local_y() + (int)IMPLICIT(ulong, 48);
}
static int global_size_x(void) { return __builtin_amdgcn_grid_size_x(); }
