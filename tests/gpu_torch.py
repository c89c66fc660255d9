#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_torch.py LIBKILN: a PyTorch tensor on a CUDA device and kiln share its
memory, and a stream. Exit status 1: a value is not what it should be."""
import ctypes
import sys

import torch

F32, WRITABLE, COUNT = 1, 1, 1 << 20


class Kiln:
    """The functions used here; a status that is not 0 ends the program."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.kiln_error_message.restype = ctypes.c_char_p

    def __getattr__(self, name):
        function = getattr(self.library, "kiln_" + name)

        def call(*arguments):
            if function(*arguments):
                message = self.library.kiln_error_message().decode()
                sys.exit(f"kiln_{name}: {message}")
        return call


def place():
    return ctypes.c_void_p(None)


def wrap(kiln, device, tensor):
    """A kiln tensor over the memory of a PyTorch one."""
    out, shape = place(), (ctypes.c_int64 * 1)(tensor.numel())
    kiln.tensor_from_foreign(
        ctypes.byref(out), device, F32, 1, shape,
        ctypes.c_void_p(tensor.data_ptr()), WRITABLE, None, None)
    return out


def expect(tensor, values, what):
    if not torch.equal(tensor, values):
        sys.exit(f"{what}: {tensor[:4]}, not {values[:4]}")


def main():
    kiln = Kiln(sys.argv[1])
    device, stream, total = place(), place(), place()
    numbers = torch.arange(COUNT, dtype=torch.float32, device="cuda")
    x, y = numbers.clone(), numbers + 1
    torch.cuda.synchronize()
    kiln.device_open(ctypes.byref(device), b"cuda")
    kx, ky = wrap(kiln, device, x), wrap(kiln, device, y)
    # y = x + y, written where PyTorch's tensor lies
    kiln.add(ctypes.byref(total), kx, ky)
    kiln.copy_into(ky, total)
    kiln.device_sync(device)
    expect(x, numbers, "an operand")
    expect(y, 2 * numbers + 1, "the sum")
    # the same in a stream of PyTorch's, between two of its own kernels
    own = torch.cuda.Stream()
    kiln.stream_wrap(ctypes.byref(stream), device,
                     ctypes.c_void_p(own.cuda_stream))
    kiln.stream_set_current(device, stream)
    with torch.cuda.stream(own):
        x.mul_(3)
        kiln.add(ctypes.byref(total), kx, kx)
        kiln.copy_into(ky, total)
        kiln.stream_flush(stream)
        y.add_(1)
    own.synchronize()
    expect(y, 6 * numbers + 1, "what a shared stream computed")
    for tensor in (kx, ky, total):
        kiln.library.kiln_tensor_release(tensor)
    kiln.stream_set_current(device, None)
    kiln.library.kiln_stream_release(stream)
    kiln.library.kiln_device_release(device)
    print("memory and a stream shared: as it should be")


if __name__ == "__main__":
    main()
