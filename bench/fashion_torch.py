#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the model of examples/fashion.c with PyTorch, on the CPU or a GPU.

The training loop alone is timed, with the data already in tensors, once for
each way of running it; one JSON object goes to stdout.
"""
import argparse
import gzip
import json
import pathlib
import struct
import sys
import time

import torch
import torch.nn.functional as F

INPUTS, HIDDEN, CLASSES = 784, 128, 10


def idx_bytes(path, magic, dims):
    """The payload and the shape of one gzipped idx file."""
    data = gzip.decompress(path.read_bytes())
    head = struct.unpack(">" + "I" * (dims + 1), data[: 4 * (dims + 1)])
    if head[0] != magic:
        sys.exit(f"{path}: wrong magic number {head[0]}")
    return bytearray(data[4 * (dims + 1):]), head[1:]


def load(folder, name):
    folder = pathlib.Path(folder)
    pixels, shape = idx_bytes(
        folder / f"{name}-images-idx3-ubyte.gz", 0x803, 3)
    labels, _ = idx_bytes(folder / f"{name}-labels-idx1-ubyte.gz", 0x801, 1)
    images = torch.frombuffer(pixels, dtype=torch.uint8)
    images = images.reshape(shape[0], -1).float() / 255
    return images, torch.frombuffer(labels, dtype=torch.uint8).long()


def make_model(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN, CLASSES))


def eager_step(model, optimizer):
    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def compiled_step(model, optimizer, mode):
    @torch.compile(mode=mode, dynamic=False)
    def forward(x, y):
        return F.cross_entropy(model(x), y)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def run_epoch(step, images, labels, batch):
    """One epoch, with its shuffle; returns the seconds and the steps.

    Selecting the rows of each batch is faster than permuting all at once.
    """
    start = time.perf_counter()
    order = torch.randperm(images.shape[0], device=images.device)
    steps = 0
    for at in range(0, images.shape[0], batch):
        rows = order[at:at + batch]
        step(torch.index_select(images, 0, rows),
             torch.index_select(labels, 0, rows))
        steps += 1
    if images.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start, steps


def accuracy(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def train(kind, args, data, test):
    model = make_model(args.seed).to(args.device)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    if kind == "eager":
        step = eager_step(model, adam)
    else:
        mode = None if kind == "compile" else kind
        step = compiled_step(model, adam, mode)
    warm = data[0].shape[0] % args.batch or args.batch
    for size in (args.batch, warm) * 2:
        step(data[0][:size], data[1][:size])
    times = [run_epoch(step, *data, args.batch) for _ in range(args.epochs)]
    seconds, steps = min(times)
    return {"ms_per_step": 1e3 * seconds / steps,
            "images_per_second": data[0].shape[0] / seconds,
            "loop_seconds": sum(t for t, _ in times),
            "accuracy": accuracy(model, *test)}


def matmul_ms(batch, device):
    """The five matrix products of a step alone, milliseconds a step."""
    def rand(*shape):
        return torch.rand(*shape, device=device)
    x, w1 = rand(batch, INPUTS), rand(INPUTS, HIDDEN)
    h, w2 = rand(batch, HIDDEN), rand(HIDDEN, CLASSES)
    dz, dh = rand(batch, CLASSES), rand(batch, HIDDEN)
    best, rounds = float("inf"), 200
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(rounds):
            x @ w1, h @ w2, h.t() @ dz, dz @ w2.t(), x.t() @ dh
        if x.is_cuda:
            torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / rounds)
    return 1e3 * best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--kinds", default="eager,compile,"
                        "max-autotune-no-cudagraphs")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data, test = ([t.to(args.device) for t in load(args.data, name)]
                  for name in ("train", "t10k"))
    result = {"torch": torch.__version__, "threads": args.threads,
              "device": args.device,
              "matmul_ms_per_step": matmul_ms(args.batch, args.device),
              "runs": {}}
    for kind in args.kinds.split(","):
        try:
            result["runs"][kind] = train(kind, args, data, test)
        except Exception as error:  # no C++ compiler, say: the rest counts
            print(f"{kind}: {error}", file=sys.stderr)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
