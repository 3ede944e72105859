#!/usr/bin/env python3
"""Trireme's GPT-2 124M training step beside that of other frameworks, interleaved in one run; prints ratios.

    ./do build && cmake --build build/release --target trireme_bench_step
    python3 bench/peers/run.py [--python PYTHON_WITH_TORCH ...] [--dtypes fp32,bf16] [--rounds 3] [--compile]

What is not installed is left out. Each round starts every program once, one after the other, so that all meet the same
noise; the figures are medians over the rounds. Never part of the tests.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "build" / "release" / "trireme_bench_step"


def trireme(dtype, args):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([BENCH, "--models", "gpt2", "--types", dtype, "--threads", str(args.threads), "--repetitions", "1",
                        "--micro-batch", str(args.micro_batch), "--seq", str(args.seq), "--json", file.name],
                       check=True, stdout=subprocess.DEVNULL)
        return "Trireme", json.load(open(file.name, encoding="utf-8"))[0]["step_s"]


def pytorch(python, dtype, args, compiled):
    # Freed memory stays with the process: the allocator's default maps and clears it anew in every step.
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "-1", "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
                   "OMP_NUM_THREADS": str(args.threads)}
    command = [python, ROOT / "bench" / "peers" / "pytorch_step.py", "--dtype", dtype, "--threads", str(args.threads),
               "--micro-batch", str(args.micro_batch), "--seq", str(args.seq)] + (["--compile"] if compiled else [])
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    line = json.loads(result.stdout.splitlines()[-1])
    return line["peer"], statistics.median(line["seconds"])


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", nargs="*", default=[sys.executable, "/usr/bin/python3"])
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="compiled PyTorch too")
    args = parser.parse_args()
    pythons = [python for python in dict.fromkeys(args.python) if has_torch(python)]
    if not pythons:
        print("PyTorch is not installed; Trireme alone", file=sys.stderr)
    tokens = args.micro_batch * args.seq
    print(f"GPT-2 124M, batch {args.micro_batch} x {args.seq}, {args.threads} threads; medians of {args.rounds} rounds")
    for dtype in args.dtypes.split(","):
        seconds = {}
        for _ in range(args.rounds):
            runs = [trireme(dtype, args)]
            for python in pythons:
                runs += [pytorch(python, dtype, args, compiled) for compiled in ([False, True] if args.compile else [False])]
            for name, step in runs:
                seconds.setdefault(name, []).append(step)
        ours = statistics.median(seconds["Trireme"])
        for name, values in seconds.items():
            step = statistics.median(values)
            print(f"{dtype}  {name:<32} {tokens / step:10.1f} tokens/s   Trireme is {step / ours:6.2f} times as fast",
                  flush=True)


if __name__ == "__main__":
    main()
