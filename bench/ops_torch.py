#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times single operations of PyTorch on the CPU: the peer of kiln bench.

Names are those of kiln bench. Large operations are timed with and without
preallocated results and the better one counts.
"""
import argparse
import json
import time

import torch

ELEMENTS = 16 * 1024 * 1024  # 64 MiB of f32


def best_seconds(work, rounds=1, repeats=9):
    """The best of some repeats, fewer where one takes long."""
    work()
    best, begin = float("inf"), time.perf_counter()
    for _ in range(repeats):
        if time.perf_counter() - begin > 2 and best < float("inf"):
            break
        start = time.perf_counter()
        for _ in range(rounds):
            work()
        best = min(best, (time.perf_counter() - start) / rounds)
    return best


def both(function, out, *operands):
    """Best of writing into out and of allocating the result."""
    return min(best_seconds(lambda: function(*operands, out=out)),
               best_seconds(lambda: function(*operands)))


def elementwise(rows):
    a, b = torch.rand(ELEMENTS) - 0.5, torch.rand(ELEMENTS) - 0.5
    out = torch.empty_like(a)
    rows["copy_f32_64m"] = best_seconds(lambda: out.copy_(a))
    rows["add_f32_64m"] = both(torch.add, out, a, b)
    for name in ("exp", "tanh", "erf"):
        rows[f"{name}_f32_64m"] = both(getattr(torch, name), out, a)


def reductions(rows):
    x = torch.rand(4096, 4096)
    rows["sum_f32_64m"] = best_seconds(lambda: torch.sum(x))
    rows["sum_dim0_f32_64m"] = best_seconds(lambda: torch.sum(x, 0))
    rows["sum_dim1_f32_64m"] = best_seconds(lambda: torch.sum(x, 1))


def products(rows):
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        a = torch.rand(1024, 1024).to(dtype)
        b = torch.rand(1024, 1024).to(dtype)
        out = torch.empty_like(a)
        rows[f"matmul_{name}_1024"] = best_seconds(
            lambda: torch.matmul(a, b, out=out), rounds=3)


def overhead(rows):
    a, b = torch.rand(16), torch.rand(16)
    rows["add_f32_16"] = best_seconds(lambda: torch.add(a, b), 20000)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = {}
    with torch.inference_mode():
        for part in (elementwise, reductions, products, overhead):
            part(rows)
    print(json.dumps({"torch": torch.__version__, "threads": args.threads,
                      "seconds": rows}, indent=1))


if __name__ == "__main__":
    main()
