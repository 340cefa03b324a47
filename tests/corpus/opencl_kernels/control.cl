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

__attribute__((noinline)) static int mix(int a, int b) { return (a * 33) ^ (b + (a >> 3)); }

__attribute__((noinline)) static int depth(int v, int left) {
    if (left == 0)
        return v;
    int low = depth(mix(v, left), left - 1);
    return low + depth(low ^ left, left - 2 > 0 ? left - 2 : 0);
}

// Real calls and recursion on the scratch stack.
kernel void recursive_mix(global const int *x, global int *out, int n) {
    int i = global_x();
    if (i < n)
        out[i] = depth(x[i], 3 + (i & 3));
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
