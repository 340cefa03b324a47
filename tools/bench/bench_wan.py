"""Attention of one Wan 2.1 480p layer on the emulated device, checked against a reference.

    python tools/bench/bench_wan.py [--kernel fast] [--arch gfx950] [--threads 2] [--tokens 32760]

32,760 tokens, 12 heads, head size 128, bf16, blocks of 64 tokens of which the last is partial, 10 %
of the key blocks kept: through the fast kernel, or with ``--kernel seed`` through the seed VSA
kernel, which takes whole blocks only (32,768 tokens). The reference is float32 attention in numpy,
one query block at a time. Prints seconds by the clock and of CPU, peak memory, instruction and
matrix rates, the error; exit code 1 on a wrong result.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# The products of the reference are too small to be worth a team of threads each.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import ml_dtypes
import numpy as np

from rocke.compiler import compile_kernel
from rocke.emulator import EmulatedDevice
from rocke.kernels.registry import family
from rocke.runtime import Launcher

Arguments = dict[str, Any]
HEAD_SIZE, BLOCK = 128, 64
KERNELS = {"fast": ("block_sparse_attention", 32760), "seed": ("vsa_sparse_attention", 32768)}
"""Family and tokens of each choice."""


def arguments(tokens: int, heads: int, keep: float, rng: np.random.Generator) -> Arguments:
    """Tensors [tokens, heads, 128] and the list form of a random pattern."""
    arrays: Arguments = {}
    for name in "QKVO":
        arrays[name] = np.empty((tokens, heads, HEAD_SIZE), ml_dtypes.bfloat16)
        for start in range(0, tokens, 1024):
            part = arrays[name][start : start + 1024]
            part[:] = np.nan if name == "O" else rng.standard_normal(part.shape, np.float32)
    blocks = -(-tokens // BLOCK)
    counts = np.floor(keep * blocks + rng.random(blocks)).astype(np.int32)
    lut = np.full((blocks, counts.max()), -1, np.int32)
    for row, count in zip(lut, counts, strict=True):
        row[:count] = np.sort(rng.permutation(blocks)[:count])
    token, head = heads * HEAD_SIZE, HEAD_SIZE
    strides = {f"stride_{n}_{a}": s for n in "qkvo" for a, s in (("token", token), ("head", head))}
    scalars: Arguments = {"scale_log2": np.log2(np.e) / np.sqrt(HEAD_SIZE)}
    scalars |= {"seqlen_q": tokens, "seqlen_k": tokens}
    return {**arrays, "block_lut": lut, "block_count": counts, **strides, **scalars}


def fast_arguments(given: Arguments) -> Arguments:
    """The same for the fast kernel: views with batch and heads first, one pattern for all heads."""
    found: Arguments = {name: given[name].swapaxes(0, 1)[None] for name in "QKVO"}
    for name in "qkvo":
        found |= {f"stride_{name}_{a}": given[f"stride_{name}_{a}"] for a in ("token", "head")}
        found[f"stride_{name}_batch"] = given["Q"].size
    lists = given["block_lut"]
    found |= {"indices": lists[None, None], "counts": given["block_count"][None, None]}
    found |= {"list_width": lists.shape[1], "stride_indices_row": lists.shape[1]}
    found |= {f"stride_{n}_{a}": 0 for n in ("indices", "counts") for a in ("batch", "head")}
    scalars = ("scale_log2", "seqlen_q", "seqlen_k")
    return {**found, **{name: given[name] for name in scalars}, "heads_per_kv": 1}


def spec_fields(kernel: str, given: Arguments) -> dict[str, Any]:
    """The spec of the kernel that takes these arguments."""
    fields: dict[str, Any] = {
        "head_size": HEAD_SIZE,
        "dtype": "bf16",
        "block_q": BLOCK,
        "block_k": BLOCK,
    }
    if kernel == "fast":
        return fields
    tokens, heads = given["Q"].shape[:2]
    fields |= {"num_query_heads": heads, "num_kv_heads": heads}
    fields |= {"seqlen_q": tokens, "seqlen_k": tokens}
    return {**fields, "max_blocks_per_q": given["block_lut"].shape[1]}


def squares(given: Arguments, scale: float, head: int) -> tuple[float, float]:
    """Sums of squares of O - reference and of the reference, for one head."""
    off = whole = 0.0
    q, k, v, o = (given[name][:, head].astype(np.float32) for name in "QKVO")
    padding = (0, -len(k) % BLOCK), (0, 0)
    k, v = (np.pad(x, padding).reshape(-1, BLOCK, HEAD_SIZE) for x in (k, v))
    real = (np.arange(k.shape[0] * BLOCK) < len(q)).reshape(-1, BLOCK)
    q *= np.float32(scale)
    for i, (row, count) in enumerate(zip(given["block_lut"], given["block_count"], strict=True)):
        rows, kept = slice(i * BLOCK, (i + 1) * BLOCK), row[:count]
        weights = q[rows] @ k[kept].reshape(-1, HEAD_SIZE).T
        weights[:, ~real[kept].reshape(-1)] = -np.inf
        weights -= weights.max(axis=1, keepdims=True)
        np.exp2(weights, out=weights)
        expected = weights @ v[kept].reshape(-1, HEAD_SIZE)
        expected /= weights.sum(axis=1, keepdims=True)
        off += float(np.square(o[rows] - expected).sum())
        whole += float(np.square(expected).sum())
    return off, whole


def relative_error(given: Arguments, scale: float, threads: int) -> float:
    """norm(O - reference) / norm(reference); the heads share the threads."""
    with ThreadPoolExecutor(threads) as pool:
        heads = range(given["Q"].shape[1])
        sums = list(pool.map(lambda head: squares(given, scale, head), heads))
    off, whole = np.sum(sums, axis=0)
    return float(np.sqrt(off / whole))


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", choices=list(KERNELS), default="fast")
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, help="default: 32760, of the seed kernel 32768")
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--keep", type=float, default=0.1)
    options = parser.parse_args()
    began, start = time.perf_counter(), time.process_time()
    name, default = KERNELS[options.kernel]
    chosen, tokens = family(name), options.tokens or default
    given = arguments(tokens, options.heads, options.keep, np.random.default_rng(0))
    spec = chosen.make_spec(spec_fields(options.kernel, given))
    code_object = compile_kernel(chosen.build(spec, options.arch), options.arch)
    device = EmulatedDevice(options.arch, threads=options.threads)
    passed = fast_arguments(given) if options.kernel == "fast" else given
    launch = Launcher.of_family(device, code_object, chosen, spec, passed)
    ready, before = time.perf_counter(), time.process_time()
    launch(**passed)
    ran, cpu = time.perf_counter(), time.process_time() - before
    error = relative_error(given, given["scale_log2"], options.threads)
    done = time.perf_counter()
    c = device.counters
    kept = int(given["block_count"].sum()) / len(given["block_count"]) ** 2
    print(f"{name}: {tokens} tokens, {options.heads} heads, D 128, bf16, {kept:.1%} kept")
    print(f"{code_object.arch}, {options.threads} threads, {os.cpu_count()} cores")
    print(
        f"prepare {ready - began:.1f} s, execute {ran - ready:.1f} s ({cpu:.1f} s of CPU), "
        f"check {done - ran:.1f} s, in all {done - began:.1f} s "
        f"({time.process_time() - start:.1f} s of CPU), peak memory {peak_gib():.2f} GiB"
    )
    print(
        f"{c.instructions} instructions, {c.matrix_operations / 1e9:.0f} G matrix operations: "
        f"{c.instructions / c.seconds / 1e6:.1f} M instructions/s, "
        f"{c.matrix_operations / c.seconds / 1e9:.1f} GFLOP/s; a core (by CPU time) "
        f"{c.instructions / cpu / 1e6:.1f} M/s, {c.matrix_operations / cpu / 1e9:.1f} GFLOP/s"
    )
    wrong = not error <= chosen.tolerance(spec)
    print(
        f"error {error:.2e}, tolerance {chosen.tolerance(spec):.0e}: {'WRONG' if wrong else 'ok'}"
    )
    raise SystemExit(wrong)


if __name__ == "__main__":
    main()
