#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of bench/bench.sh from the JSON files of its run."""
import glob
import json
import os
import platform
import sys

OPS = [  # name, what it is, peers, target as kiln's speed over the peer's
    ("matmul_f32_1024", "f32 matmul 1024^3", ("torch", "openblas"), 0.9),
    ("matmul_bf16_1024", "bf16 matmul 1024^3", ("torch",), 0.8),
    ("add_f32_16", "add, 16 elements", ("torch",), 4),
    ("exp_f32_64m", "exp, 64 MiB f32", ("torch",), 1),
    ("tanh_f32_64m", "tanh, 64 MiB f32", ("torch",), 1),
    ("erf_f32_64m", "erf, 64 MiB f32", ("torch",), 1),
    ("add_f32_64m", "add, 64 MiB f32", ("torch",), None),
    ("copy_f32_64m", "copy, 64 MiB f32", ("torch",), None),
    ("sum_f32_64m", "sum, 64 MiB f32", ("torch",), None),
    ("sum_dim0_f32_64m", "sum of dim 0, 64 MiB f32", ("torch",), None),
    ("sum_dim1_f32_64m", "sum of dim 1, 64 MiB f32", ("torch",), None),
]


def load(folder, pattern):
    files = sorted(glob.glob(os.path.join(folder, pattern)))
    result = []
    for path in files:
        with open(path) as file:
            text = file.read()
        if text.strip():
            result.append(json.loads(text))
    return result


def best(values):
    values = [v for v in values if v]
    return min(values) if values else None


def kiln_seconds(folder, threads):
    rows = {}
    for run in load(folder, f"kiln-ops-{threads}-*.json"):
        for row in run["results"]:
            if "best_seconds" in row:
                rows.setdefault(row["name"], []).append(row["best_seconds"])
    return {name: best(values) for name, values in rows.items()}


def peer_seconds(folder, peer, threads):
    rows = {}
    for run in load(folder, f"{peer}-ops-{threads}-*.json"):
        for name, seconds in run["seconds"].items():
            rows.setdefault(name, []).append(seconds)
    return {name: best(values) for name, values in rows.items()}


def duration(seconds):
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def row(what, kiln, peer, peer_name, target):
    ratio = peer / kiln if kiln and peer else None
    cells = [what, duration(kiln), duration(peer), peer_name,
             f"{ratio:.2f}" if ratio else "-"]
    if target is None:
        cells += ["", ""]
    else:
        met = "" if ratio is None else "yes" if ratio >= target else "no"
        cells += [f"{target:g}", met]
    print("| " + " | ".join(cells) + " |")


def op_rows(folder, threads):
    kiln = kiln_seconds(folder, threads)
    for name, what, peers, target in OPS:
        times = {p: peer_seconds(folder, p, threads).get(name)
                 for p in peers}
        times = {p: t for p, t in times.items() if t}
        peer = min(times, key=times.get) if times else ""
        row(f"{what}, {threads} thread{'s' * (threads > 1)}",
            kiln.get(name), times.get(peer), peer, target)
    add, copy = kiln.get("add_f32_64m"), kiln.get("copy_f32_64m")
    peer_copy = peer_seconds(folder, "torch", threads).get("copy_f32_64m")
    copy = best([copy, peer_copy])
    if add and copy:
        # A copy moves two thirds of an addition's bytes.
        row(f"add beside a plain copy's bytes, {threads} "
            f"thread{'s' * (threads > 1)}", add, 1.5 * copy, "best copy", 0.9)


def training_rows(folder):
    kiln = best(r["best_epoch_seconds"] / (r["steps"] / r["epochs"])
                for r in load(folder, "kiln-fashion-2-*.json"))
    runs = load(folder, "torch-fashion-2-*.json")
    times = [(run["ms_per_step"] / 1e3, kind)
             for r in runs for kind, run in r["runs"].items()]
    peer, kind = min(times) if times else (None, "")
    row("training step, 2 threads", kiln, peer, f"torch {kind}", 3)
    products = best(r["matmul_ms_per_step"] / 1e3
                    for r in load(folder, "kiln-products-2-*.json"))
    peer = best(r["matmul_ms_per_step"] / 1e3 for r in runs)
    row("its matrix products alone, 2 threads", products, peer, "torch", None)


def first_op_row(folder):
    seconds = best(r["first_op_seconds"]
                   for r in load(folder, "kiln-ops-2-*.json"))
    row("first operation of a process", seconds, 0.030, "limit", 1)


def processor():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    folder = sys.argv[1]
    torch = load(folder, "torch-ops-2-*.json")
    kiln = load(folder, "kiln-ops-2-*.json")
    print(f"{processor()}, {os.cpu_count()} CPUs; kiln "
          f"{kiln[0]['version'] if kiln else '?'} ({kiln[0]['setup']}); "
          f"PyTorch {torch[0]['torch'] if torch else '?'}. Best of "
          f"{len(kiln)} runs; speed is the peer's time over kiln's.\n")
    print("| what | kiln | peer | which | speed | target | met |")
    print("|---|---|---|---|---|---|---|")
    training_rows(folder)
    for threads in (2, 1):
        op_rows(folder, threads)
    first_op_row(folder)


if __name__ == "__main__":
    main()
