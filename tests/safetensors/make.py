#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files that the tests of safetensors read, beside itself.

They are put together here from the description of the format alone, with
struct and json, so that they say nothing about kiln's own reader and writer.
"""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent


def bf16(values):
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def packed(code):
    return lambda values: struct.pack("<%d%s" % (len(values), code), *values)


HALVES = [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5]
SIGNED = [-3, -2, -1, 0, 1, 2]
UNSIGNED = [0, 1, 2, 3, 4, 250]

# From wide to narrow elements, as files are laid out.
DTYPES = [
    ("U64", packed("Q"), UNSIGNED), ("I64", packed("q"), SIGNED),
    ("F64", packed("d"), HALVES), ("F32", packed("f"), HALVES),
    ("U32", packed("I"), UNSIGNED), ("I32", packed("i"), SIGNED),
    ("BF16", bf16, HALVES), ("F16", packed("e"), HALVES),
    ("U16", packed("H"), UNSIGNED), ("I16", packed("h"), SIGNED),
    ("I8", packed("b"), SIGNED), ("U8", packed("B"), UNSIGNED),
    ("BOOL", packed("B"), [0, 1, 1, 0, 1, 0]),
]


def write(name, header, data):
    """header is text or bytes; spaces fill it up to a multiple of 8."""
    if isinstance(header, str):
        header = header.encode("utf-8")
    header += b" " * (-len(header) % 8)
    with open(HERE / name, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def make_all():
    header = {"__metadata__": {"format": "pt",
                               "note": "a \"quoted\" \u00e9\n\u0001/"}}
    data = b""
    for dtype, pack, values in DTYPES:
        raw = pack(values)
        header["t." + dtype] = {"dtype": dtype, "shape": [2, 3],
                                "data_offsets": [len(data),
                                                 len(data) + len(raw)]}
        data += raw
    write("all.safetensors", compact(header), data)


def make_odd():
    """Spaces, escapes, and an order of the header that is not the data's."""
    header = r"""{
 "x" : {"data_offsets":[9, 12],"shape":[3],"dtype":"Q3"},
 "\u00fc\ud83d\ude00\/\\" : {"dtype":"F32","shape":[],"data_offsets":[0,4]},
 "empty":{"dtype":"I64","shape":[0,4],"data_offsets":[4,4]},
 "f8"  : {"dtype":"F8_E4M3","shape":[2],"data_offsets":[6,8]},
 "nine": {"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[8,9]},
 "h"   : {"dtype":"F16","shape":[1],"data_offsets":[4,6]},
 "__metadata__":{}
}"""
    data = struct.pack("<f", 7.0) + struct.pack("<e", -2.0) + bytes(range(6))
    write("odd.safetensors", header, data)


def make_empty():
    write("empty.safetensors", "{}", b"")


make_all()
make_odd()
make_empty()
