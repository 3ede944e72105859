#!/usr/bin/env python3
"""Scores `trireme predict` against published/*.csv and prints every table (standard library only).

usage: score_predictions.py [--markdown FILE]      TRIREME=path of the program (build/release/trireme)

Tokens/s errors are |predicted / measured - 1|. Definitions of the Playbook's figures:
  mdape      median error of tokens/s/GPU over rows without a flag
  spearman   median over cells (model, nodes) with at least 5 rows of the rank correlation, predicted and measured
  regret     mean over cells of measured(best predicted) / measured(best measured); 1 = always picks the best
  mem_mdape  median error of the first stage's GiB, all rows
  oom_auc    chance that a run that failed for an unknown reason is predicted to need more memory than a successful one
"""
import argparse
import collections
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
HEADER = """# How predictions compare with published measurements

Written by `python3 bench/score_predictions.py --markdown FILE`; definitions are in the script's first lines.

"""
LINES = []


def say(text=""):
    LINES.append(text)
    print(text)


def table(name):
    with open(ROOT / "published" / name, newline="") as file:
        return list(csv.DictReader(file))


def predict(rows, cluster, framework, *options):
    """The rows with their pred_ columns; keys that start with "_" are not passed on."""
    keys = list(dict.fromkeys(key for row in rows for key in row if not key.startswith("_")))
    with tempfile.TemporaryDirectory() as folder:
        cases, out = pathlib.Path(folder, "cases.csv"), pathlib.Path(folder, "out.csv")
        with open(cases, "w", newline="") as file:
            writer = csv.DictWriter(file, keys, restval="", extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        subprocess.run([BINARY, "predict", "--cluster", cluster, "--framework", framework, cases, "-o", out, *options], check=True,
                       stdout=subprocess.DEVNULL)
        with open(out, newline="") as file:
            return [dict(row, **{k: v for k, v in priced.items() if k.startswith("pred_")})
                    for row, priced in zip(rows, csv.DictReader(file))]


def number(row, key):
    return float(row[key]) if row.get(key) else None


def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    result = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for i in order[begin:end]:
            result[i] = (begin + end - 1) / 2
        begin = end
    return result


def spearman(x, y):
    a, b = ranks(x), ranks(y)
    if len(a) < 3 or len(set(a)) == 1 or len(set(b)) == 1:
        return None
    return statistics.correlation(a, b)


def error(predicted, measured):
    return abs(predicted / measured - 1) if predicted else 1.0


def percent(value):
    return "%.1f %%" % (100 * value)


def regrets_of(rows):
    """Of each (model, nodes): measured(best predicted) / measured(best measured)."""
    cells = collections.defaultdict(list)
    for r in rows:
        cells[r["model"], int(r["nodes"])].append((number(r, "pred_tok_s_gpu") or 0, number(r, "tok_s_gpu")))
    return [max(c)[1] / max(m for _, m in c) for c in cells.values()]


def playbook():
    rows = predict(table("playbook_dev.csv"), "h100-playbook", "nanotron")
    closed = predict(table("playbook_dev.csv"), "h100-playbook", "nanotron", "--closed-form")
    failed = predict(table("playbook_failed_dev.csv"), "h100-playbook", "nanotron")
    clean = [r for r in rows if not r["flag"]]
    errors = lambda some: [error(number(r, "pred_tok_s_gpu"), number(r, "tok_s_gpu")) for r in some]
    cells = collections.defaultdict(list)
    for r in clean:
        cells[r["model"], int(r["nodes"])].append((number(r, "pred_tok_s_gpu") or 0, number(r, "tok_s_gpu")))
    rhos = [spearman(*zip(*c)) for c in cells.values() if len(c) >= 5]
    regrets = regrets_of(clean)
    memory = [error(number(r, "pred_mem_gib"), number(r, "mem_gb")) for r in rows]
    peaks = [number(r, "pred_peak_mem_gib") or 0 for r in rows]
    bad = [number(r, "pred_peak_mem_gib") or 0 for r in failed if r["caveat"] == "unknown(oom_or_crash_or_timeout)"]
    rank = ranks(peaks + bad)[len(peaks):]
    auc = (sum(rank) + len(bad) - len(bad) * (len(bad) + 1) / 2) / (len(bad) * len(peaks))
    simple = [r for r in clean if r["pp"] == "1" and int(r["tp"]) <= 8]
    say("## Ultra-Scale Playbook (nanotron, 8 to 128 H100)")
    say("| figure | value |")
    say("|---|---|")
    say("| rows, without flag | %d, %d |" % (len(rows), len(clean)))
    say("| mdape | %.4f |" % statistics.median(errors(clean)))
    say("| mdape, pp = 1 and tp <= 8 (%d rows) | %.4f |" % (len(simple), statistics.median(errors(simple))))
    say("| mdape, all rows with the stalled ones | %.4f |" % statistics.median(errors(rows)))
    say("| within 25 %% | %.3f |" % statistics.fmean(e <= 0.25 for e in errors(clean)))
    say("| spearman | %.4f |" % statistics.median(rhos))
    say("| regret (worst cell) | %.4f (%.3f) |" % (statistics.fmean(regrets), min(regrets)))
    say("| regret with pipelines in closed form | %.4f |" % statistics.fmean(regrets_of(r for r in closed if not r["flag"])))
    say("| mem_mdape | %.4f |" % statistics.median(memory))
    say("| oom_auc | %.4f |" % auc)
    say()


def curve_row(row):
    degree = int(row["degree"])
    case = {"_row": row, "seq": "4096"}
    if row["curve"] == "dp":
        mbs = {8: 2, 256: 1}.get(degree, 1) if degree != 128 else 2
        case.update(model="1B", dp=str(degree), mbs=str(mbs), gbs="256", zero="0")
    elif row["curve"].startswith("tp"):
        case.update(model="3B", tp=str(degree), sp="1" if row["curve"] == "tp_sp" else "0", mbs=row["max_mbs"], grad_acc="1")
    else:
        micro_batches = degree - 1 if row["curve"] == "pp_m=p-1" else 32
        case.update(model="3B", pp=str(degree), mbs="1", grad_acc=str(micro_batches))
    return case


def scaling_curves():
    cases = [curve_row(row) for row in table("scaling_curves.csv")]
    # Stages without a layer: the measured model had more layers than the 3B.
    priced = predict(cases, "h100-playbook", "nanotron")
    say("## Scaling curves of the Playbook (tokens/s/GPU; nothing is fitted on them)")
    say("| curve | predicted / measured by degree | median error | span predicted | span measured |")
    say("|---|---|---|---|---|")
    curves = collections.defaultdict(list)
    for row in priced:
        curves[row["_row"]["curve"]].append(row)
    for curve, rows in curves.items():
        points = [(r["_row"]["degree"], number(r, "pred_tok_s_gpu"), float(r["_row"]["tok_s_gpu"])) for r in rows]
        known = [p for p in points if p[1]]
        span = lambda k: "%+.0f %%, last step %+.0f %%" % (100 * (known[-1][k] / known[0][k] - 1),
                                                          100 * (known[-1][k] / known[-2][k] - 1))
        say("| %s | %s | %s | %s | %s |" % (
            curve, ", ".join("%s: %s" % (d, "%.2f" % (p / m) if p else "-") for d, p, m in points),
            percent(statistics.median(error(p, m) for _, p, m in known)), span(1), span(2)))
    say()


def vtrain():
    rows = predict(table("vtrain_a100_single.csv"), "a100-dgx", "megatron")
    errors = [error(number(r, "pred_step_s"), float(r["iter_ms"]) / 1000) for r in rows]
    say("## vTrain (Megatron, one node of A100; times are exactly linear in micro-batches and layers, as a simulator's are)")
    say("| rows | mean error | median | p90 | spearman |")
    say("|---|---|---|---|---|")
    say("| %d | %s | %s | %s | %.3f |" % (
        len(rows), percent(statistics.fmean(errors)), percent(statistics.median(errors)),
        percent(sorted(errors)[len(errors) * 9 // 10]),
        spearman([number(r, "pred_step_s") for r in rows], [float(r["iter_ms"]) for r in rows])))
    say()


PAPER_LAYOUT = {"GPT 22B": (1, 1, 4), "GPT 175B": (8, 3, 1), "GPT 530B": (35, 3, 1), "GPT 1T": (64, 1, 1)}


def paper_case(row, shapes):
    """A row of figure 1 or 7 with the layout of table 5. The paper counts the layers alone, so the tables are left out."""
    pp, vpp, mbs = PAPER_LAYOUT[row["model"]]
    shape = shapes[row["model"]]
    return {"_row": row, "layers": shape["layers"], "hidden": shape["hidden"], "heads": shape["heads"], "vocab": "8",
            "seq": "2048", "tp": "8", "pp": str(pp), "vpp": str(vpp), "mbs": str(mbs), "grad_acc": str(8 * pp),
            "recompute": row["recompute"], "precision": "fp16", "zero": "0"}


def paper():
    rows = [r for r in table("other_tables.csv") if "2205.05198" in r["source"]]
    shapes = {r["model"]: r for r in rows if "Figure 1" in r["source"]}
    figures = predict([paper_case(r, shapes) for r in rows if "Figure" in r["source"]], "a100-dgx", "megatron")
    say("## arXiv:2205.05198, figures 1 and 7 (memory of the layers of the first stage)")
    say("| model | recompute | activations GiB, paper | difference | state GiB, paper | difference |")
    say("|---|---|---|---|---|---|")
    worst = 0
    baseline = {}
    for r in figures:
        row, activations = r["_row"], number(r, "pred_activation_gib")
        if row["recompute"] == "none":
            baseline[row["model"]] = activations
        if "Figure 7" in row["source"]:
            share = float(row["note"].split("=")[1])
            worst = max(worst, abs(100 * activations / baseline[row["model"]] - share))
            continue
        state, kept = (float(x.split()[-2]) for x in row["note"].split(","))
        predicted = number(r, "pred_state_gib")
        say("| %s | %s | %.3f, %.3f | %+.2f %% | %.3f, %.3f | %+.2f %% |" % (
            row["model"], row["recompute"], activations, kept, 100 * (activations / kept - 1), predicted, state,
            100 * (predicted / state - 1)))
    say()
    say("Figure 7, shares of the baseline: largest difference %.2f points over %d rows." % (
        worst, sum("Figure 7" in r["_row"]["source"] for r in figures)))
    say()
    times = predict([dict(r, zero="0") for r in rows if "Table 5" in r["source"]], "a100-dgx", "megatron")
    say("## arXiv:2205.05198, table 5 (seconds of a step)")
    say("| model | recompute | predicted | measured | difference |")
    say("|---|---|---|---|---|")
    errors = []
    for r in times:
        measured = float(re.search(r"step_s=([\d.]+)", r["note"]).group(1))
        errors.append(error(number(r, "pred_step_s"), measured))
        say("| %s | %s | %.2f | %.2f | %+.1f %% |" % (r["model"], r["recompute"], number(r, "pred_step_s"), measured,
                                                     100 * (number(r, "pred_step_s") / measured - 1)))
    say("| median | | | | %s |" % percent(statistics.median(errors)))
    say()


def step_of(row):
    """Measured seconds of a step, by whichever figure the source gives."""
    found = re.search(r"step_s=([\d.]+)", row["note"])
    if found:
        return float(found.group(1))
    tokens = number(row, "gbs") and float(row["gbs"]) * float(row["seq"] or 2048) / float(row["gpus"])
    if row["tok_s_gpu"] and tokens:
        return tokens / float(row["tok_s_gpu"])
    return None


def megatron_flops(row, passes):
    """FLOPs of a step as arXiv:2104.04473, equation 3, counts them: 4 passes with full recomputation, else 3."""
    batch, seq, layers, hidden, vocab = (float(row[k]) for k in ("gbs", "seq", "layers", "hidden", "vocab"))
    return 24 * passes * batch * seq * layers * hidden ** 2 * (1 + seq / (6 * hidden)) + 6 * batch * seq * hidden * vocab


class Source:
    """How a source's rows become cases: framework, cluster, what is assumed for blank columns."""

    def __init__(self, name, key, framework, cluster, assumed="", change=lambda r: {}, measured=step_of):
        self.name, self.key, self.framework, self.cluster = name, key, framework, cluster
        self.assumed, self.change, self.measured = assumed, change, measured


def assume(**values):
    return lambda row: {k: v for k, v in values.items() if not row.get(k)}


def llama_405b(row):
    seq = "8192" if row["cp"] == "1" else "131072"
    return {"seq": seq, "gbs": str(max(16 * 2 ** 20 // int(seq), int(row["dp"]))), "mbs": "1", "vpp": "7"}


def llama_405b_seconds(row):
    """From TFLOP/s a device: 6 per parameter and 12 L H S of attention for each token."""
    flops = float(row["gbs"]) * float(row["seq"]) * (6 * 405.9e9 + 12 * 126 * 16384 * float(row["seq"]))
    return flops / (float(row["tflops_gpu"]) * 1e12 * float(row["gpus"]))


SOURCES = [
    Source("Megatron-LM weak scaling, A100", "cases_april2021", "megatron", "a100-dgx", "full recomputation, mbs 1, vpp 1",
           assume(recompute="full", mbs="1"), lambda r: megatron_flops(r, 4) / (float(r["tflops_gpu"]) * 1e12 * float(r["gpus"]))),
    Source("arXiv:2104.04473 table 2, PTD-P", "2104.04473 Table 2", "megatron", "a100-dgx", "full recomputation, vpp 1",
           lambda r: {"recompute": "full"} if r["zero"] != "3" else None,
           lambda r: megatron_flops(r, 4) / (float(r["tflops_gpu"]) * 1e12 * float(r["gpus"]))),
    Source("arXiv:2104.04473 table 2, ZeRO-3", "2104.04473 Table 2", "fsdp", "a100-dgx",
           "full recomputation; that version's collectives reached about one NIC of a node, which is not modelled",
           lambda r: {"recompute": "full"} if r["zero"] == "3" else None,
           lambda r: megatron_flops(r, 4) / (float(r["tflops_gpu"]) * 1e12 * float(r["gpus"]))),
    Source("Megatron-Core model table, H100", "model_table.png", "megatron", "h100-dgx", "mbs 1, no recomputation, vpp 1",
           assume(mbs="1", zero="1"), lambda r: megatron_flops(r, 3) / (float(r["tflops_gpu"]) * 1e12 * float(r["gpus"]))),
    Source("Megatron-Core README text", "Megatron-LM README text", "megatron", "h100-dgx", "no layout is given", lambda r: None),
    Source("arXiv:2205.05198 table 5", "2205.05198 Table 5", "megatron", "a100-dgx", "", lambda r: {"zero": "0"}),
    Source("arXiv:2205.05198 figures 1, 7", "2205.05198 Figure", "megatron", "a100-dgx", "memory, see above", lambda r: None),
    Source("Llama 3.1 405B, arXiv:2407.21783", "Balaji", "megatron", "h100-dgx", "mbs 1, vpp 7, seq 8192 or 131072, 16 M tokens",
           llama_405b, lambda r: llama_405b_seconds(dict(r, **llama_405b(r)))),
    Source("MegaScale 175B, A100", "2402.15627", "megatron", "a100-dgx", "mbs 1, vpp 6, vocabulary 51200, no recomputation",
           assume(mbs="1", vpp="6", vocab="51200", gpu_type="", sp="1")),
    Source("PaLM 540B, TPU", "PaLM", "megatron", "h100-dgx", "another device; no layout", lambda r: None),
    Source("MLPerf GPT-3 175B, H100 fp8", "MLPerf", "megatron", "h100-dgx", "mbs 1, vpp 6, vocabulary 51200",
           assume(mbs="1", vpp="6", vocab="51200")),
    Source("NeMo performance summary, H100 fp8", "performance_summary", "megatron", "h100-dgx", "public shapes of the models"),
    Source("DGX Cloud Llama 3.1 8B", "v25.02 llama3.1/README_8b", "megatron", "h100-dgx"),
    Source("DGX Cloud Llama 3.1 70B", "v25.02 llama3.1/README_70b", "megatron", "h100-dgx"),
    Source("DGX Cloud Llama 3.1, 25.04", "v25.04.02 llama3.1", "megatron", "h100-dgx"),
    Source("DGX Cloud Nemotron 15B", "README_15b", "megatron", "h100-dgx"),
    Source("DGX Cloud Nemotron 340B", "README_340b", "megatron", "h100-dgx"),
    Source("DGX Cloud GPT-3 175B", "README_175b", "megatron", "h100-dgx"),
    Source("llm-foundry, A100 40GB", "llm-foundry", "fsdp", "a100-40gb", "", lambda r: {} if r["gpu_type"] == "a100_40gb" else None),
    Source("llm-foundry, A100 80GB", "llm-foundry", "fsdp", "a100-dgx", "", lambda r: {} if r["gpu_type"] == "a100_80gb" else None),
    Source("llm-foundry, H100", "llm-foundry", "fsdp", "h100-dgx", "", lambda r: {} if r["gpu_type"] == "h100_80gb" else None),
    Source("LLM.Q, H100", "llmq", "trireme", "h100-dgx", "one device; C++ as Trireme; gbs is of one device",
           lambda r: {"gpus": "1", "dp": "1"} if r["gpu_type"] == "H100" and r["gpus"] == "1" else None),
    Source("LLM.Q, workstation cards", "llmq", "trireme", "h100-dgx", "no cluster files of these devices",
           lambda r: None if r["gpu_type"] == "H100" else {"_measured": None}),
]


def other_tables():
    rows = table("other_tables.csv")
    say("## Every source of published/other_tables.csv")
    say("| source | rows | priced | median error | bias | spearman | assumed for blank columns |")
    say("|---|---|---|---|---|---|---|")
    for source in SOURCES:
        cases = []
        for row in rows:
            if source.key not in row["source"]:
                continue
            change = source.change(row)
            if change is not None:
                cases.append({**row, "_measured": source.measured(row), **change})
        all_rows = sum(source.key in r["source"] for r in rows)
        priced = [r for r in predict(cases, source.cluster, source.framework)
                  if r["pred_step_s"] and r["_measured"]] if cases else []
        if not priced:
            say("| %s | %d | 0 | - | - | - | %s |" % (source.name, len(cases) or all_rows, source.assumed))
            continue
        ratios = [number(r, "pred_step_s") / r["_measured"] for r in priced]
        rho = spearman([number(r, "pred_tok_s_gpu") for r in priced],
                       [number(r, "pred_tok_s_gpu") * q for r, q in zip(priced, ratios)])
        say("| %s | %d | %d | %s | %+.1f %% | %s | %s |" % (
            source.name, len(cases), len(priced), percent(statistics.median(abs(q - 1) for q in ratios)),
            100 * (statistics.median(ratios) - 1), "-" if rho is None else "%.2f" % rho, source.assumed))
    say()


def schedules():
    say("## Schedules on 8 H800 (a user's four runs of the zero-bubble fork; sizes of arXiv:2401.10241, nothing is fitted on them)")
    say("| schedule | samples/s, measured | predicted | GB, measured | predicted, fullest rank |")
    say("|---|---|---|---|---|")
    for r in predict(table("zero_bubble_h800.csv"), "h800-hgx", "zero-bubble"):
        say("| %s | %s | %.1f | %s | %.0f |" % (
            r["layout"].split()[0].removeprefix("schedule="), r["samples_s"], int(r["gbs"]) / number(r, "pred_step_s"), r["mem_gb"],
            number(r, "pred_peak_mem_gib") * 2**30 / 1e9))
    say()
    say("The user names neither batch nor sizes. What does not come out is zb-v, measured 3 % behind interleaved.")
    say()


def pair():
    best = dict(model="3B", nodes="32", dp="128", tp="2", pp="1", mbs="1", grad_acc="2", zero="1")
    worst = dict(model="3B", nodes="32", dp="2", tp="32", pp="4", mbs="16", grad_acc="8", zero="1")
    fast, slow = (number(r, "pred_tok_s_gpu") for r in predict([best, worst], "h100-playbook", "nanotron"))
    measured = 1.72e6 / 60e3
    say("## The pair of the 3.57 B model on 32 nodes")
    say("Measured 1.72 M against 60 K tokens/s, %.1f-fold. Predicted %.2f M against %.0f K: the layouts alone make %.1f of it; "
        "the other factor of %.1f is the measured trainer's stall in polling its pipeline messages."
        % (measured, fast * 256 / 1e6, slow * 256 / 1e3, fast / slow, measured / (fast / slow)))
    say()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", help="also write what is printed to this file")
    arguments = parser.parse_args()
    for section in (playbook, scaling_curves, vtrain, paper, other_tables, schedules, pair):
        section()
    if arguments.markdown:
        pathlib.Path(arguments.markdown).write_text(HEADER + "\n".join(LINES))


if __name__ == "__main__":
    main()
