#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times one row of kiln bench and of a peer in turn, on the same CPUs.

A machine that is shared changes its speed from second to second and from CPU
to CPU: then only runs that alternate on the same CPUs can be compared, and
their medians say more than the best.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run(command, environment):
    names = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "KILN_DEVICE")
    clean = {k: v for k, v in os.environ.items() if k not in names}
    done = subprocess.run(command, env={**clean, **environment}, check=True,
                          stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def kiln_row(args, name):
    result = run(args.pin + [args.kiln, "bench", "--json", "--device", "cpu",
                             name], {"KILN_CPU_WORKERS": str(args.threads)})
    row = result["results"][0]
    return row["median_seconds"], row["best_seconds"]


def torch_row(args, name):
    result = run(args.pin + [args.python, "-W", "ignore",
                             os.path.join(HERE, "ops_torch.py"), "--threads",
                             str(args.threads), "--only", name],
                 {"OMP_NUM_THREADS": str(args.threads)})
    return result["median_seconds"][name], result["seconds"][name]


def report(what, times, scale):
    medians = [median for median, _ in times]
    median, best = statistics.median(medians), min(t for _, t in times)
    spread = " ".join(f"{m * scale * 1e3:.3g}" for m in medians)
    print(f"{what}: median {median * scale * 1e3:.4g} ms, best "
          f"{best * scale * 1e3:.4g} ms; medians {spread}", flush=True)
    return median * scale, best * scale


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kiln", help="the kiln command")
    parser.add_argument("row", help="a row of kiln bench")
    parser.add_argument("--beside", metavar="ROW[*FACTOR]",
                        help="another row of kiln bench, its time multiplied")
    parser.add_argument("--python", default=sys.executable,
                        help="an interpreter that has PyTorch")
    parser.add_argument("--cpus", help="a list for taskset")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.pin = ["taskset", "-c", args.cpus] if args.cpus else []
    other, _, factor = (args.beside or args.row).partition("*")
    ours, theirs = [], []
    for _ in range(args.rounds):
        ours.append(kiln_row(args, args.row))
        theirs.append(kiln_row(args, other) if args.beside
                      else torch_row(args, other))
    peer = f"kiln {args.beside}" if args.beside else f"PyTorch {other}"
    a = report(f"kiln {args.row}", ours, 1)
    b = report(peer, theirs, float(factor or 1))
    print(f"speed: {b[0] / a[0]:.2f} by medians, {b[1] / a[1]:.2f} by best")


if __name__ == "__main__":
    main()
