#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of graphs.c: small adds, eagerly and as a CUDA graph."""
import statistics
import time

import torch

OPS, OPS_MANY, ROUNDS = 1000, 100000, 51


def burst(ops, work):
    start = time.perf_counter()
    for _ in range(ops):
        work()
    queued = time.perf_counter()
    torch.cuda.synchronize()
    done = time.perf_counter()
    return (queued - start) / ops * 1e6, (done - start) / ops * 1e6


def row(name, ops, work, rounds):
    burst(ops, work)
    times = [burst(ops, work) for _ in range(rounds)]
    queued, done = (statistics.median(column) for column in zip(*times))
    print(f"| torch, {name} | {queued:.3f}, {done:.3f} us |", flush=True)


def main():
    for elements in (16, 64, 256, 1024):
        a = torch.ones(elements, device="cuda")
        b = torch.ones(elements, device="cuda")
        out = torch.empty_like(a)
        row(f"a + b, {elements} elements", OPS, lambda: a + b, ROUNDS)
        row(f"add(a, b, out=out), {elements} elements", OPS,
            lambda: torch.add(a, b, out=out), ROUNDS)
    a, b = torch.ones(256, device="cuda"), torch.ones(256, device="cuda")
    row(f"a + b, {OPS_MANY} in a row", OPS_MANY, lambda: a + b, 3)
    x, y = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(OPS):
            x.add_(y)
    row(f"graph of {OPS} adds, once", 1, graph.replay, ROUNDS)
    row(f"graph of {OPS} adds, 20 times", 20, graph.replay, 11)


if __name__ == "__main__":
    main()
