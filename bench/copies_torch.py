#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of copies.c: the same transfers, a row each."""
import sys
import time

import torch

ROUNDS, ROUNDS_SMALL, KERNELS, KERNEL_BYTES, MIB = 9, 101, 100, 1 << 29, 1 << 20

COMPUTE = torch.cuda.Stream()
X = torch.zeros(KERNEL_BYTES // 4, device="cuda")
Y = torch.empty_like(X)


def start_kernels(kernels):
    with torch.cuda.stream(COMPUTE):
        for _ in range(kernels):
            torch.add(X, 1, out=Y)


def measure(copy, rounds, kernels):
    took, whole = [], []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        start_kernels(kernels)
        start = time.perf_counter()
        kept = copy()
        torch.cuda.current_stream().synchronize()
        took.append(time.perf_counter() - start)
        COMPUTE.synchronize()
        whole.append(time.perf_counter() - begin)
        del kept
    took, whole = sorted(took[1:]), sorted(whole[1:])
    return took[rounds // 2], took[-1], whole[rounds // 2]


def tell(seconds, size):
    if size < MIB:
        return f"{seconds * 1e6:.1f}"
    return f"{size / seconds * 1e-9:.1f}"


def kernels_alone(kernels):
    whole = []
    for _ in range(ROUNDS + 1):
        begin = time.perf_counter()
        start_kernels(kernels)
        COMPUTE.synchronize()
        whole.append(time.perf_counter() - begin)
    return sorted(whole[1:])[ROUNDS // 2]


def rows(size, what, host, device):
    """Up into a new tensor, down into memory that is there, as copies.c."""
    rounds = ROUNDS if size >= MIB else ROUNDS_SMALL
    unit = "GB/s" if size >= MIB else "us"
    many = KERNELS + size // MIB // 2
    without = kernels_alone(many)
    for name, copy in (("up", lambda: host.to("cuda", non_blocking=True)),
                       ("down", lambda: host.copy_(device,
                                                   non_blocking=True))):
        cells = []
        for kernels in (0, many):
            median, worst, whole = measure(copy, rounds, kernels)
            cells.append(f"{tell(median, size)} {unit} ({tell(worst, size)})")
        print(f"| {size} bytes{what} {name} | {' | '.join(cells)} | "
              f"{whole * 1e3:.1f} ms ({without * 1e3:.1f}) |", flush=True)


def main():
    print(f"| PyTorch {torch.__version__}; median (worst) | alone | "
          "beside kernels | all of that (the kernels alone) |\n"
          "|---|---|---|---|")
    for size in [4] + [int(mib) * MIB for mib in sys.argv[1:]]:
        host = torch.ones(size, dtype=torch.uint8)
        device = torch.zeros(size, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        rows(size, "", host, device)
        if size >= MIB:
            rows(size, ", marked,", host.pin_memory(), device)


main()
