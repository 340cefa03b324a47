// Variables of a module: initialised (.data), zero (.bss), constant (.rodata), and two kernels that
// share them. Built for each target by rebuild.py.

global int counter = 5;
global float table[64];
constant float weights[4] = {1.0f, 0.5f, 0.25f, 0.125f};
global float *global current;

kernel __attribute__((reqd_work_group_size(64, 1, 1))) void fill(global const float *x) {
    int i = (int)__builtin_amdgcn_workitem_id_x();
    table[i] = x[i] * weights[i & 3];
    if (i == 0)
        counter += 1;
}

kernel __attribute__((reqd_work_group_size(64, 1, 1))) void fetch(global float *out) {
    int i = (int)__builtin_amdgcn_workitem_id_x();
    out[i] = table[i] + (float)counter;
}

// Writes past the end of the table by `beyond` elements of 64.
kernel __attribute__((reqd_work_group_size(64, 1, 1))) void through_pointer(int beyond) {
    int i = (int)__builtin_amdgcn_workitem_id_x();
    current[i + 64 * beyond] = (float)i;
}
