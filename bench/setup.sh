#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes the folder that bench/bench.sh takes its peers from: a Python
# environment with PyTorch for the CPU. The folder is $BENCH_PEER, or
# build/peer beside the sources. Quick the second time.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
peer=${BENCH_PEER:-$top/build/peer}

if [ -x "$peer/bin/python" ] && "$peer/bin/python" -c 'import torch' \
	2>/dev/null; then
	echo "bench: PyTorch is in $peer"
	exit
fi
command -v python3 >/dev/null || {
	echo "bench: python3 is missing (Debian: python3 python3-venv)" >&2
	exit 1
}
echo "bench: putting PyTorch into $peer; this takes a few minutes"
python3 -m venv "$peer" || {
	echo "bench: no Python environment (Debian: python3-venv)" >&2
	exit 1
}
"$peer/bin/pip" install --quiet torch || {
	echo "bench: PyTorch does not install" >&2
	exit 1
}
echo "bench: ready"
