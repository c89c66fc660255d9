#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of gpu.c: the same operations, a line each."""
import time

import torch

ELEMENTS, SIDE, REPEATS, CALLS, SMALL = 1 << 28, 8192, 9, 32, 100000


def best_of(work, calls):
    work()
    work()
    torch.cuda.synchronize()
    best = 1e9
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def row(name, seconds, worth, unit):
    print(f"{name:22} {seconds * 1e6:10.3f} us  {worth / seconds:10.1f} "
          f"{unit}", flush=True)


def rand(*shape, dtype=torch.float32):
    return (torch.rand(*shape, device="cuda") * 2 - 1).to(dtype)


def vectors():
    gb = 4e-9 * ELEMENTS
    a, b = rand(ELEMENTS), rand(ELEMENTS)
    out = torch.empty_like(a)
    row("copy_f32_1g", best_of(lambda: out.copy_(a), CALLS), 2 * gb, "GB/s")
    row("add_f32_1g", best_of(lambda: torch.add(a, b, out=out), CALLS), 3 * gb,
        "GB/s")
    row("add_f32_1g_and_wait",
        best_of(lambda: torch.add(a, b, out=out), 1), 3 * gb, "GB/s")
    row("exp_f32_1g", best_of(lambda: torch.exp(a, out=out), CALLS), 2 * gb,
        "GB/s")
    row("sum_f32_1g", best_of(a.sum, CALLS), gb, "GB/s")
    half = torch.empty(ELEMENTS, device="cuda", dtype=torch.half)
    row("cast_f32_f16_1g", best_of(lambda: half.copy_(a), CALLS), 1.5 * gb,
        "GB/s")
    mask = a > b
    row("where_f32_1g",
        best_of(lambda: torch.where(mask, b, a, out=out), CALLS), 3.25 * gb,
        "GB/s")
    a, b = a.half(), b.half()
    out = torch.empty_like(a)
    row("add_f16_512m", best_of(lambda: torch.add(a, b, out=out), CALLS),
        1.5 * gb, "GB/s")
    row("clamp_f16_512m",
        best_of(lambda: torch.clamp(a, -0.5, 0.5, out=out), CALLS), gb, "GB/s")
    row("greater_f16_512m", best_of(lambda: torch.gt(a, b, out=mask), CALLS),
        1.25 * gb, "GB/s")
    wide = torch.empty(ELEMENTS, device="cuda")
    row("cast_f16_f32_512m", best_of(lambda: wide.copy_(a), CALLS), 1.5 * gb,
        "GB/s")
    del wide
    row("sum_f16_512m", best_of(a.sum, CALLS), gb / 2, "GB/s")
    a, b = (a * 1000).to(torch.int16), (b * 1000).to(torch.int16)
    out = torch.empty_like(a)
    row("add_i16_512m", best_of(lambda: torch.add(a, b, out=out), CALLS),
        1.5 * gb, "GB/s")
    a, b = (a % 60).to(torch.uint8), (b % 60).to(torch.uint8)
    out = torch.empty_like(a)
    row("add_u8_256m", best_of(lambda: torch.add(a, b, out=out), CALLS),
        0.75 * gb, "GB/s")
    wide = torch.empty(ELEMENTS, device="cuda")
    row("cast_u8_f32_256m", best_of(lambda: wide.copy_(a), CALLS), 1.25 * gb,
        "GB/s")
    row("zeros_u8_256m", best_of(out.zero_, CALLS), 0.25 * gb, "GB/s")


def matrices():
    gb = 4e-9 * SIDE * SIDE
    a, b = rand(SIDE, SIDE), rand(SIDE, SIDE)
    row("transpose_f32_8192", best_of(lambda: b.copy_(a.t()), CALLS), 2 * gb,
        "GB/s")
    row("sum_dim0_f32_8192", best_of(lambda: a.sum(0), CALLS), gb, "GB/s")
    row("sum_dim1_f32_8192", best_of(lambda: a.sum(1), CALLS), gb, "GB/s")
    row("argmax_dim1_f32_8192", best_of(lambda: a.argmax(1), CALLS), gb,
        "GB/s")
    row("softmax_f32_8192", best_of(lambda: a.softmax(1), CALLS), 2 * gb,
        "GB/s")
    index = torch.randint(0, SIDE, (SIDE,), device="cuda", dtype=torch.int32)
    row("select_f32_8192", best_of(lambda: a.index_select(0, index), CALLS),
        2 * gb, "GB/s")


def product(name, dtype, m, n, k):
    a, b = rand(m, k, dtype=dtype), rand(k, n, dtype=dtype)
    worth = 2e-12 * m * n * k
    row(name, best_of(lambda: a @ b, 1 if worth > 0.1 else 20), worth,
        "TFLOP/s")


def small():
    a, b = torch.ones(256, device="cuda"), torch.ones(256, device="cuda")
    for _ in range(2):
        start = time.perf_counter()
        for _ in range(SMALL):
            a + b
        queued = time.perf_counter()
        torch.cuda.synchronize()
        done = time.perf_counter()
    print(f"small_add              {(queued - start) / SMALL * 1e6:10.3f} us "
          f"queued, {(done - start) / SMALL * 1e6:.3f} us with sync")


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    small()
    vectors()
    matrices()
    for name, dtype in (("f32", torch.float32), ("f16", torch.float16),
                        ("bf16", torch.bfloat16), ("f64", torch.float64)):
        product(f"matmul_{name}_8192", dtype, SIDE, SIDE, SIDE)
    product("matmul_f32_512", torch.float32, 512, 512, 512)
    product("matmul_f32_64x784x128", torch.float32, 64, 128, 784)
    product("matmul_f32_784x64x128", torch.float32, 784, 128, 64)


if __name__ == "__main__":
    main()
