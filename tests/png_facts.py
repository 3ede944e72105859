#!/usr/bin/env python3
"""Reads a PNG file (8 bits a channel, not interlaced) and checks that it shows something.

Usage: tests/png_facts.py PICTURE.png WIDTH HEIGHT COLOUR...
Exit code 1, and a line that says why, unless the picture has this size and each colour (#rrggbb) somewhere.
PNG specification, third edition: chunks in section 5, filters in section 9.
"""
import struct
import sys
import zlib


def chunks(content):
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        sys.exit("not a PNG file")
    at = 8
    while at + 8 <= len(content):
        size, kind = struct.unpack(">I4s", content[at : at + 8])
        yield kind, content[at + 8 : at + 8 + size]
        at += size + 12


def paeth(left, up, corner):
    near = left + up - corner
    distances = abs(near - left), abs(near - up), abs(near - corner)
    return (left, up, corner)[distances.index(min(distances))]


def rows(pixels, row_bytes, step):
    """The lines of a picture without their filters; `step` bytes a pixel."""
    above = bytearray(row_bytes)
    for at in range(0, len(pixels), row_bytes + 1):
        kind, row = pixels[at], bytearray(pixels[at + 1 : at + 1 + row_bytes])
        if kind == 1:
            for i in range(step, row_bytes):
                row[i] = (row[i] + row[i - step]) & 255
        elif kind == 2:
            row = bytearray((a + b) & 255 for a, b in zip(row, above))
        elif kind == 3:
            for i in range(row_bytes):
                row[i] = (row[i] + ((row[i - step] if i >= step else 0) + above[i]) // 2) & 255
        elif kind == 4:
            for i in range(row_bytes):
                has_left = i >= step
                left, corner = (row[i - step], above[i - step]) if has_left else (0, 0)
                row[i] = (row[i] + paeth(left, above[i], corner)) & 255
        yield row
        above = row


def main():
    path, width, height = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    wanted = {bytes.fromhex(colour[1:]) for colour in sys.argv[4:]}
    with open(path, "rb") as file:
        found = list(chunks(file.read()))
    size = struct.unpack(">IIBBBBB", found[0][1])
    step = {2: 3, 6: 4}.get(size[3])
    if size[:2] != (width, height):
        sys.exit(f"{path}: {size[0]} x {size[1]} pixels, not {width} x {height}")
    if size[2] != 8 or step is None or size[6] != 0:
        sys.exit(f"{path}: not 8 bits of red, green and blue, line by line")
    pixels = zlib.decompress(b"".join(part for kind, part in found if kind == b"IDAT"))
    for row in rows(pixels, width * step, step):
        wanted -= {bytes(row[i : i + 3]) for i in range(0, len(row), step)}
        if not wanted:
            return
    sys.exit(f"{path}: nothing is " + ", ".join("#" + colour.hex() for colour in sorted(wanted)))


main()
