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
        copy()
        torch.cuda.current_stream().synchronize()
        took.append(time.perf_counter() - start)
        COMPUTE.synchronize()
        whole.append(time.perf_counter() - begin)
    took, whole = sorted(took[1:]), sorted(whole[1:])
    return took[rounds // 2], took[-1], whole[rounds // 2]


def tell(seconds, size):
    if size < MIB:
        return f"{seconds * 1e6:.1f}"
    return f"{size / seconds * 1e-9:.1f}"


def rows(size, what, host, device):
    rounds = ROUNDS if size >= MIB else ROUNDS_SMALL
    unit = "GB/s" if size >= MIB else "us"
    for name, copy in (("up", lambda: device.copy_(host, non_blocking=True)),
                       ("down", lambda: host.copy_(device,
                                                   non_blocking=True))):
        cells = []
        for kernels in (0, KERNELS):
            median, worst, whole = measure(copy, rounds, kernels)
            cells.append(f"{tell(median, size)} {unit} ({tell(worst, size)})")
        print(f"| {size} bytes{what} {name} | {' | '.join(cells)} | "
              f"{whole * 1e3:.1f} ms |", flush=True)


def main():
    print(f"| PyTorch {torch.__version__}; median (worst) | alone | "
          "beside kernels | those |\n|---|---|---|---|")
    for size in [4] + [int(mib) * MIB for mib in sys.argv[1:]]:
        host = torch.ones(size, dtype=torch.uint8)
        device = torch.zeros(size, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        rows(size, "", host, device)
        if size >= MIB:
            rows(size, ", marked,", host.pin_memory(), device)


main()
