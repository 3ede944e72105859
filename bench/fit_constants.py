#!/usr/bin/env python3
"""Fits the constants of profiles/*.toml and clusters/*.toml that are marked "fitted" (standard library only).

usage: fit_constants.py FIT [--cv] [--write] [--evaluations N]
       FIT is playbook, playbook-memory, vtrain, megatron, fsdp or fsdp-h100; see FITS below for the constants of each.

Every evaluation is one `trireme predict` on files with other values, so what is fitted is the model itself. Prints the
constants before and after and the error; --cv also leaves out one group of rows at a time, fits the rest and prints the
error on what was left out; --write puts the values into the repository's files.
"""
import argparse
import csv
import math
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("TRIREME", str(ROOT / "build/release/trireme"))


def table(name):
    with open(ROOT / "published" / name, newline="") as file:
        return list(csv.DictReader(file))


def playbook_rows():
    return [r for r in table("playbook_dev.csv") if not r["flag"]]


def step_of(row):
    found = re.search(r"step_s=([\d.]+)", row["note"])
    return float(found.group(1)) if found else None


def other_rows(source):
    return [r for r in table("other_tables.csv") if source in r["source"]]


def foundry_rows(device):
    """Every second row: the others show what the fit is worth."""
    return [r for r in other_rows("llm-foundry") if r["gpu_type"] == device][::2]


class Fit:
    """What is fitted on what. `constants`: (file, section.key, least, most)."""

    def __init__(self, cluster, framework, rows, measured, predicted, group, constants):
        self.cluster, self.framework, self.rows = cluster, framework, rows
        self.measured, self.predicted, self.group, self.constants = measured, predicted, group, constants


def cell(row):
    return row["model"], row["nodes"]


def time_of(row):
    return float(row["pred_step_s"])


NANOTRON, PLAYBOOK = "profiles/nanotron.toml", "clusters/h100-playbook.toml"
MEGATRON_2022, A100 = "profiles/megatron-2022.toml", "clusters/a100-dgx.toml"
MEGATRON, H100, FSDP = "profiles/megatron.toml", "clusters/h100-dgx.toml", "profiles/fsdp.toml"
FITS = {
    "playbook": lambda: Fit(
        "h100-playbook", "nanotron", playbook_rows(), lambda r: float(r["tok_s_gpu"]), lambda r: float(r["pred_tok_s_gpu"]),
        cell, [
            (PLAYBOOK, "device.product_efficiency", 0.4, 0.85),
            (NANOTRON, "moved.element_factor", 0.5, 4),
            (NANOTRON, "moved.logit_bytes", 6, 120),
            (NANOTRON, "time.collective_host_seconds", 0, 2e-3),
            (NANOTRON, "time.pipe_stall_seconds", 0, 8e-3),
            (PLAYBOOK, "network.latency", 1e-6, 1e-3),
            (NANOTRON, "time.tp_exposed", 0.1, 1),
            (NANOTRON, "time.replicated_overlap", 0, 1)]),
    "playbook-memory": lambda: Fit(
        "h100-playbook", "nanotron", table("playbook_dev.csv"), lambda r: float(r["mem_gb"]),
        lambda r: float(r["pred_mem_gib"]), cell, [
            (NANOTRON, "memory.kept_sequence_bytes", 2, 20),
            (NANOTRON, "memory.kept_tp_bytes", 0, 10),
            (NANOTRON, "memory.kept_logit_bytes", 4, 20),
            (NANOTRON, "memory.kept_gathered_bytes", 0, 4),
            (NANOTRON, "memory.kept_gathered_logit_bytes", 0, 4),
            (NANOTRON, "memory.bucket_bytes", 0, 2)]),
    "vtrain": lambda: Fit(
        "a100-dgx", "megatron-2022", table("vtrain_a100_single.csv"), lambda r: float(r["iter_ms"]) / 1000, time_of,
        lambda r: int(r["fold"]), [
            (A100, "device.product_efficiency", 0.4, 0.95),
            (A100, "device.misaligned_efficiency", 0.2, 1),
            (MEGATRON_2022, "moved.element_factor", 0.8, 2.5),
            (MEGATRON_2022, "time.layer_host_seconds", 1e-3, 5e-3),
            (MEGATRON_2022, "time.collective_host_seconds", 0, 3e-4),
            (MEGATRON_2022, "time.host_exponent", 1.5, 10),
            (MEGATRON_2022, "time.ends_seconds", 0, 3e-3),
            (MEGATRON_2022, "time.ends_token_seconds", 0, 2e-6),
            (MEGATRON_2022, "time.pipe_bytes_per_second", 5e9, 300e9)]),
    "megatron": lambda: Fit(
        "h100-dgx", "megatron", other_rows("dgxc-benchmarking"), step_of, time_of,
        lambda r: (r["source"], r["model"]), [
            (H100, "device.product_efficiency", 0.5, 0.85),
            (H100, "device.product_efficiency_fp8", 0.4, 0.75),
            (H100, "device.attention_forward_efficiency", 0.4, 0.65),
            (MEGATRON, "time.tp_exposed", 0.05, 1),
            (MEGATRON, "moved.cast_bytes", 0, 30)]),
    "fsdp": lambda: Fit(
        "a100-dgx", "fsdp", foundry_rows("a100_80gb"), lambda r: float(r["tok_s_gpu"]),
        lambda r: float(r["pred_tok_s_gpu"]), lambda r: r["model"], [
            (FSDP, "moved.element_factor", 0.8, 3),
            (FSDP, "moved.logit_bytes", 6, 60),
            (A100, "device.attention_forward_efficiency", 0.2, 0.7)]),
    "fsdp-h100": lambda: Fit(
        "h100-dgx", "fsdp", foundry_rows("h100_80gb"), lambda r: float(r["tok_s_gpu"]),
        lambda r: float(r["pred_tok_s_gpu"]), lambda r: r["model"], [
            (FSDP, "moved.attention_flops_per_second", 100e12, 500e12)]),
}


def pattern(key):
    section, name = key.split(".")
    return re.compile(r"(\n\[%s\]\n(?:[^\[\n][^\n]*\n)*?%s = \{ value = )([-+.\de]+)" % (section, name))


class Model:
    """The program with changed files."""

    def __init__(self, fit, folder):
        self.fit, self.folder = fit, pathlib.Path(folder)
        paths = {f for f, *_ in fit.constants} | {f"clusters/{fit.cluster}.toml", f"profiles/{fit.framework}.toml"}
        self.texts = {path: (ROOT / path).read_text() for path in paths}
        self.rows = fit.rows
        for number, row in enumerate(self.rows):
            row.setdefault("fold", number % 5)
        keys = [k for k in self.rows[0] if k not in ("fold",)]
        with open(self.folder / "cases.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, keys, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)

    def values(self):
        return [float(pattern(key).search(self.texts[path]).group(2)) for path, key, _, _ in self.fit.constants]

    def changed(self, values):
        texts = dict(self.texts)
        for (path, key, _, _), value in zip(self.fit.constants, values):
            texts[path] = pattern(key).sub(lambda m, v=value: m.group(1) + "%.4g" % v, texts[path])
        return texts

    def errors(self, values):
        """log(predicted / measured) by row; 1 where a row has no prediction."""
        paths = {}
        for path, text in self.changed(values).items():
            paths[path] = self.folder / path.replace("/", "_")
            paths[path].write_text(text)
        cluster = paths[f"clusters/{self.fit.cluster}.toml"]
        profile = paths[f"profiles/{self.fit.framework}.toml"]
        subprocess.run([BINARY, "predict", "--cluster", cluster, "--framework", profile,
                        self.folder / "cases.csv", "-o", self.folder / "out.csv"], check=True, stdout=subprocess.DEVNULL)
        errors = []
        with open(self.folder / "out.csv", newline="") as file:
            for row in csv.DictReader(file):
                measured = self.fit.measured(row)
                if measured is None:
                    errors.append(None)
                else:
                    errors.append(math.log(self.fit.predicted(row) / measured) if row["pred_step_s"] else 1.0)
        return errors


def loss(errors):
    """Cauchy's: rows that the model cannot tell apart (two code paths, stalls) count little."""
    width = 0.04
    known = [e for e in errors if e is not None]
    return sum(math.log1p((e / width) ** 2) for e in known) / len(known)


def minimise(function, start, bounds, evaluations):
    """Nelder and Mead 1965 on the unit cube."""
    low, high = [b[0] for b in bounds], [b[1] for b in bounds]
    out = lambda u: [l + min(max(x, 0), 1) * (h - l) for x, l, h in zip(u, low, high)]
    first = [(x - l) / (h - l) for x, l, h in zip(start, low, high)]
    points = [first] + [[x + ((0.1 if x < 0.8 else -0.1) if i == j else 0) for j, x in enumerate(first)]
                        for i in range(len(first))]
    simplex = sorted((function(out(p)), p) for p in points)
    used = len(points)
    while used < evaluations and simplex[-1][0] - simplex[0][0] > 1e-6:
        worst = simplex[-1]
        centre = [statistics.fmean(p[i] for _, p in simplex[:-1]) for i in range(len(first))]
        towards = lambda t: [min(max(c + t * (c - w), 0), 1) for c, w in zip(centre, worst[1])]
        tried = (function(out(towards(1))), towards(1))
        used += 1
        if tried[0] < simplex[0][0]:
            further = (function(out(towards(2))), towards(2))
            used += 1
            tried = min(tried, further)
        elif tried[0] >= simplex[-2][0]:
            tried = (function(out(towards(-0.5))), towards(-0.5))
            used += 1
            if tried[0] >= worst[0]:
                best = simplex[0][1]
                simplex = [simplex[0]] + [(function(out(p)), p) for p in
                                          ([(a + b) / 2 for a, b in zip(best, q)] for _, q in simplex[1:])]
                used += len(first)
                simplex.sort()
                continue
        simplex[-1] = tried
        simplex.sort()
    return out(simplex[0][1]), simplex[0][0]


def report(title, errors):
    known = sorted(abs(math.exp(e) - 1) for e in errors if e is not None)
    print("%-28s rows %4d  median %5.2f %%  mean %5.2f %%  p90 %5.1f %%" % (
        title, len(known), 100 * statistics.median(known), 100 * statistics.fmean(known), 100 * known[len(known) * 9 // 10]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fit", choices=FITS)
    parser.add_argument("--cv", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--evaluations", type=int, default=600)
    arguments = parser.parse_args()
    fit = FITS[arguments.fit]()
    bounds = [(low, high) for _, _, low, high in fit.constants]
    with tempfile.TemporaryDirectory() as folder:
        model = Model(fit, folder)
        before = model.values()
        report("as it is", model.errors(before))
        after, _ = minimise(lambda v: loss(model.errors(v)), before, bounds, arguments.evaluations)
        for (path, key, low, high), old, new in zip(fit.constants, before, after):
            print("  %-34s %-36s %10.4g -> %10.4g   (%g .. %g)" % (path, key, old, new, low, high))
        report("fitted", model.errors(after))
        if arguments.cv:
            left_out = []
            groups = [fit.group(row) for row in model.rows]
            for group in sorted(set(groups)):
                kept = lambda e: [x for x, g in zip(e, groups) if g != group]
                values, _ = minimise(lambda v: loss(kept(model.errors(v))), after, bounds, arguments.evaluations // 3)
                errors = [x for x, g in zip(model.errors(values), groups) if g == group]
                report("left out %s" % (group,), errors)
                left_out += errors
            report("all that was left out", left_out)
        if arguments.write:
            for path, text in model.changed(after).items():
                (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
