#!/usr/bin/env python3
"""Refuses an #include "trireme/<layer>/..." that the including layer's CMake DEPS do not allow.

A layer may include itself and whatever its DEPS reach. Tests and benches may include the same.
Prints each violation as file:line and exits with 1 when there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "src" / "trireme"
ORDER = [line.split("(")[1].rstrip(")\n") for line in open(ROOT / "CMakeLists.txt")
         if line.startswith("add_subdirectory")]


def direct_deps(layer):
    text = (ROOT / layer / "CMakeLists.txt").read_text()
    return set(re.findall(r"trireme::(\w+)", text)) - {"warnings", layer}


def main():
    reach, bad = {}, []
    for position, layer in enumerate(ORDER):
        deps = {dep.split("_")[0] if dep not in ORDER else dep for dep in direct_deps(layer)}
        for dep in sorted(deps - set(ORDER[:position]) - {layer}):
            bad.append(f"src/trireme/{layer}/CMakeLists.txt: depends upwards on '{dep}'")
        reach[layer] = {layer} | deps
        for dep in deps & set(reach):
            reach[layer] |= reach[dep]
    for folder in sorted(p.name for p in ROOT.iterdir() if p.is_dir()):
        if folder not in ORDER:
            bad.append(f"src/trireme/{folder}: not listed in src/trireme/CMakeLists.txt")
            continue
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".inc"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = re.match(r'\s*#include "trireme/(\w+)/', line)
                if found and found.group(1) not in reach[folder]:
                    bad.append(f"{path.relative_to(ROOT.parent.parent)}:{number}: layer '{folder}' "
                               f"may not include '{found.group(1)}'")
    print("\n".join(bad) if bad else f"layers: {len(ORDER)} layers, every include allowed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
