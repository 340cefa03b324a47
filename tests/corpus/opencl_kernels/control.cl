#include "common.h"

// Each lane sorts its own 24 values in a private array with data-dependent indexes (scratch).
kernel void sort_rows(global const float *x, global float *out) {
    int i = global_x();
    float part[24];
    for (int j = 0; j < 24; ++j)
        part[j] = x[i * 24 + j];
    for (int j = 1; j < 24; ++j) {
        float v = part[j];
        int at = j;
        while (at > 0 && part[at - 1] > v) {
            part[at] = part[at - 1];
            --at;
        }
        part[at] = v;
    }
    for (int j = 0; j < 24; ++j)
        out[i * 24 + j] = part[j];
}

// A stack machine a lane: 64 instructions of a byte, a stack of 16 in scratch.
kernel void stack_machine(global const uchar *program, global const int *x, global int *out,
                          int n) {
    int i = global_x();
    if (i >= n)
        return;
    int stack[16];
    int top = 1, pc = 0;
    stack[0] = x[i];
    stack[1] = i;
    for (int fuel = 0; fuel < 200 && pc < 64; ++fuel) {
        uchar code = program[i * 64 + pc++];
        int argument = code >> 4;
        switch (code & 15) {
        case 0: stack[top] += argument; break;
        case 1: stack[top] = -stack[top]; break;
        case 2: stack[top] *= 2 * argument + 1; break;
        case 3: if (top < 15) { stack[top + 1] = argument; ++top; } break;
        case 4: if (top > 0) { stack[top - 1] += stack[top]; --top; } break;
        case 5: if (top > 0) { stack[top - 1] ^= stack[top]; --top; } break;
        case 6: if (top < 15) { stack[top + 1] = stack[argument <= top ? top - argument : 0]; ++top; } break;
        case 7: if (stack[top] & 1) pc += argument; break;
        case 8: if (stack[top] > 1000 && pc > argument) { stack[top] -= 1000; pc -= argument; } break;
        case 9: stack[top] = stack[top] / (argument + 1); break;
        case 10: { int t = stack[top]; stack[top] = stack[0]; stack[0] = t; } break;
        case 11: stack[top] = (int)((uint)stack[top] >> argument); break;
        case 12: stack[argument < top ? argument : top] |= 1 << argument; break;
        default: break;
        }
    }
    int total = 0;
    for (int j = 0; j <= top; ++j)
        total = total * 31 + stack[j];
    out[i] = total;
}

// Steps of 3 n + 1 until 1, a lane each.
kernel void collatz(global const long *x, global int *steps, int n) {
    int i = global_x();
    if (i >= n)
        return;
    long value = x[i];
    int count = 0;
    while (value != 1 && count < LIMIT) {
        value = value & 1 ? 3 * value + 1 : value / 2;
        ++count;
    }
    steps[i] = count;
}

#define CALLED __attribute__((noinline)) static

CALLED int mix(int a, int b) { return (a * 33) ^ (b + (a >> 3)); }

CALLED int level0(int v) { return v; }
CALLED int level1(int v) { int low = level0(mix(v, 1)); return low + level0(low ^ 1); }

#define LEVEL(n, one_below, two_below)                                                             \
    CALLED int level##n(int v) {                                                                   \
        int low = level##one_below(mix(v, n));                                                     \
        return low + level##two_below(low ^ n);                                                    \
    }
LEVEL(2, 1, 0)
LEVEL(3, 2, 1)
LEVEL(4, 3, 2)
LEVEL(5, 4, 3)
LEVEL(6, 5, 4)

// Calls to a depth of 7 that differ from lane to lane: return addresses and frames in scratch.
kernel void nested_calls(global const int *x, global int *out, int n) {
    int i = global_x();
    if (i >= n)
        return;
    switch (i & 3) {
    case 0: out[i] = level3(x[i]); break;
    case 1: out[i] = level4(x[i]); break;
    case 2: out[i] = level5(x[i]); break;
    default: out[i] = level6(x[i]); break;
    }
}

// The same through a function pointer that lanes choose: a loop over the distinct callees.
#pragma OPENCL EXTENSION __cl_clang_function_pointers : enable
kernel void indirect_calls(global const int *x, global int *out, int n) {
    int i = global_x();
    if (i >= n)
        return;
    int (*callee)(int) = (i & 1) ? ((i & 2) ? level6 : level4) : ((i & 2) ? level5 : level3);
    out[i] = callee(x[i]);
}

// A pointer of no address space: chosen a lane at a time among memory, LDS and a private array.
kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
generic_pick(global const int *x, global int *out, int n) {
    local int shared[64];
    int mine[8];
    int t = WORKITEM, i = GROUP * 64 + t;
    shared[t] = t * 3;
    for (int j = 0; j < 8; ++j)
        mine[(j + t) & 7] = j * t;
    SYNC();
    int v = i < n ? x[i] : 0;
    generic int *place = &mine[v & 7];
    if (v % 3 == 1)
        place = &shared[t ^ 21];
    if (v % 3 == 2)
        place = (generic int *)&out[i < n ? i : 0];
    if (i < n)
        out[i] = 1000;
    int got = *place;
    SYNC();
    if (i < n) {
        *place = got + v;
        out[i] = got + *place + (v % 3 == 2 ? 0 : mine[3]);
    }
}
