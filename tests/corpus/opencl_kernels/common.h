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
