#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times single operations of PyTorch on the CPU: the peer of kiln bench.

Names are those of kiln bench. Large operations are timed with and without
preallocated results and the better one counts.
"""
import argparse
import json
import statistics
import time

import torch

ELEMENTS = 16 * 1024 * 1024  # 64 MiB of f32


class Rows:
    """Times what is asked for, all by default."""

    def __init__(self, only):
        self.only, self.best, self.median = only, {}, {}

    def time(self, name, *ways, rounds=1, repeats=9):
        """The best of some ways to do it, fewer repeats where one is slow."""
        if self.only and name != self.only:
            return
        for work in ways:
            seconds = repeat(work, rounds, 9 * repeats if self.only
                             else repeats)
            best = min(seconds)
            if best < self.best.get(name, float("inf")):
                self.best[name] = best
                self.median[name] = statistics.median(seconds)


def repeat(work, rounds, repeats):
    work()
    seconds, begin = [], time.perf_counter()
    for _ in range(repeats):
        if time.perf_counter() - begin > 2 and seconds:
            break
        start = time.perf_counter()
        for _ in range(rounds):
            work()
        seconds.append((time.perf_counter() - start) / rounds)
    return seconds


def elementwise(rows):
    a, b = torch.rand(ELEMENTS) - 0.5, torch.rand(ELEMENTS) - 0.5
    out = torch.empty_like(a)
    rows.time("copy_f32_64m", lambda: out.copy_(a))
    rows.time("add_f32_64m", lambda: torch.add(a, b, out=out),
              lambda: torch.add(a, b))
    for name in ("exp", "tanh", "erf"):
        function = getattr(torch, name)
        rows.time(f"{name}_f32_64m", lambda: function(a, out=out),
                  lambda: function(a))


def reductions(rows):
    x = torch.rand(4096, 4096)
    rows.time("sum_f32_64m", lambda: torch.sum(x))
    rows.time("sum_dim0_f32_64m", lambda: torch.sum(x, 0))
    rows.time("sum_dim1_f32_64m", lambda: torch.sum(x, 1))


def products(rows):
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        a = torch.rand(1024, 1024).to(dtype)
        b = torch.rand(1024, 1024).to(dtype)
        out = torch.empty_like(a)
        rows.time(f"matmul_{name}_1024",
                  lambda: torch.matmul(a, b, out=out), rounds=3)


def overhead(rows):
    a, b = torch.rand(16), torch.rand(16)
    rows.time("add_f32_16", lambda: torch.add(a, b), rounds=20000)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", metavar="NAME", help="one row alone")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = Rows(args.only)
    with torch.inference_mode():
        for part in (elementwise, reductions, products, overhead):
            part(rows)
    print(json.dumps({"torch": torch.__version__, "threads": args.threads,
                      "seconds": rows.best, "median_seconds": rows.median},
                     indent=1))


if __name__ == "__main__":
    main()
