#!/usr/bin/env python3
"""Predicted against measured step times of layouts on this machine, and predicted against planned memory.

    bench/predict_this_machine.py [--cluster FILE.toml | --minutes 1] [--rounds 3] [--steps 4] [--json FILE]

Calibrates (or takes a cluster file), prices each layout with `trireme simulate`, trains it for a few
steps, and prints both. A measured step is the least of the rounds' medians, without each run's first
step; rounds go through all layouts, so that what else runs on the machine disturbs all alike.
Exits with 1 if memory differs by a byte.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A llama-like model of 7 million parameters: none of its widths is one that calibration measures.
BASE = """
[run]
name = "x"
steps = 4
[model]
family = "llama"
layers = 6
hidden = 320
heads = 8
kv_heads = 4
ffn = 864
vocab = 512
max_seq = 256
[data]
text = ["{text}"]
[batch]
seq = 256
micro_batch = 1
global_batch = 4
[lr]
warmup_steps = 2
"""
LAYOUTS = [
    ("one rank", ""),
    ("one rank, 1 thread", "layout.threads_per_rank=1"),
    ("one rank, bf16", "precision.compute=bf16"),
    ("one rank, 8 micro-batches", "batch.global_batch=8"),
    ("one rank, recompute full", "layout.recompute=full batch.micro_batch=2"),
    ("dp 2", "layout.dp=2 batch.micro_batch=2"),
    ("dp 2, zero 1, bf16", "layout.dp=2 layout.zero=1 precision.compute=bf16 batch.global_batch=6"),
    ("dp 2, zero 2", "layout.dp=2 layout.zero=2 batch.global_batch=8"),
    ("dp 2, zero 3", "layout.dp=2 layout.zero=3 batch.global_batch=2"),
    ("tp 2", "layout.tp=2 batch.global_batch=3"),
    ("tp 2, sp, selective", "layout.tp=2 layout.sp=true layout.recompute=selective batch.micro_batch=2"),
    ("cp 2", "layout.cp=2 batch.global_batch=2"),
    ("pp 2, 1f1b", "layout.pp=2 batch.global_batch=8"),
    ("pp 2, gpipe", "layout.pp=2 layout.schedule=gpipe"),
    ("pp 2, zb-h1", "layout.pp=2 layout.schedule=zb-h1 batch.global_batch=6"),
    ("pp 2, interleaved", "layout.pp=2 layout.schedule=interleaved layout.chunks=3 batch.global_batch=12"),
    ("dp 4", "layout.dp=4 batch.global_batch=8"),
    ("pp 4, 1f1b", "layout.pp=4 batch.global_batch=10"),
    ("pp 2, tp 2, bf16", "layout.pp=2 layout.tp=2 precision.compute=bf16 batch.global_batch=6"),
    ("dp 2, pp 2, zero 1", "layout.dp=2 layout.pp=2 layout.zero=1"),
]


def arguments_of(text):
    return [word for pair in text.split() for word in ("--" + pair.split("=")[0], pair.split("=")[1])]


class Trireme:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        text = folder / "text.txt"
        text.write_text((ROOT / "README.md").read_text() * 20)
        self.config = folder / "config.toml"
        self.config.write_text(BASE.format(text=text))

    def run(self, *arguments):
        done = subprocess.run([self.binary, *map(str, arguments)], stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            sys.exit(f"trireme {' '.join(map(str, arguments))}: exit code {done.returncode}")
        return done.stdout.decode()

    def predicted(self, layout, cluster):
        return json.loads(self.run("simulate", self.config, "--cluster", cluster, "--json", *arguments_of(layout)))

    def planned_bytes(self, layout):
        plan = json.loads(self.run("train", self.config, "--dry-run", "--json", *arguments_of(layout)))
        return [rank["arena_bytes"] for rank in plan["ranks"]]

    def median_step(self, layout, steps):
        self.run("train", self.config, "--run.dir", self.folder, "--run.name", "x", "--run.steps", steps,
                 *arguments_of(layout))
        lines = (self.folder / "x" / "metrics.jsonl").read_text().splitlines()
        shutil.rmtree(self.folder / "x")
        seconds = [json.loads(line)["step_seconds"] for line in lines if '"train"' in line]
        return statistics.median(seconds[1:])


def ranks_of(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(i) for i in range(len(values))]


def spearman(a, b):
    ranks_a, ranks_b, n = ranks_of(a), ranks_of(b), len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ranks_a, ranks_b)) / (n * (n * n - 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cluster", help="file of trireme calibrate; without one, it is made")
    parser.add_argument("--minutes", default="1", help="of the calibration")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="of a run; the first is not counted")
    parser.add_argument("--binary", default=ROOT / "build" / "release" / "trireme")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trireme = Trireme(options.binary, pathlib.Path(folder))
        cluster = options.cluster
        if cluster is None:
            cluster = pathlib.Path(folder) / "this-machine.toml"
            trireme.run("calibrate", "-o", cluster, "--minutes", options.minutes)
        prices = [trireme.predicted(layout, cluster) for _, layout in LAYOUTS]
        measured = [[] for _ in LAYOUTS]
        for _ in range(options.rounds):
            for number, (_, layout) in enumerate(LAYOUTS):
                measured[number].append(trireme.median_step(layout, options.steps))
        rows = []
        for (name, layout), price, steps in zip(LAYOUTS, prices, measured):
            rows.append({"layout": name, "predicted": price["makespan_seconds"], "measured": min(steps),
                         "rounds": steps,
                         "bytes_apart": sum(abs(a - b) for a, b in zip(price["arena_bytes"],
                                                                      trireme.planned_bytes(layout)))})
    print(f"{'layout':<28}{'predicted s':>12}{'measured s':>12}{'ratio':>8}{'bytes apart':>13}")
    for row in rows:
        row["ratio"] = row["predicted"] / row["measured"]
        print(f"{row['layout']:<28}{row['predicted']:>12.4f}{row['measured']:>12.4f}{row['ratio']:>8.3f}"
              f"{row['bytes_apart']:>13}")
    error = statistics.median(abs(row["ratio"] - 1) for row in rows)
    order = spearman([row["predicted"] for row in rows], [row["measured"] for row in rows])
    print(f"{len(rows)} layouts: median error {100 * error:.1f} %, Spearman {order:.3f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(row["bytes_apart"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
