#!/usr/bin/env python3
"""Error bands of predicted steps: the 10th and 90th percentile of measured by predicted seconds, by framework.

usage: error_bands.py [--write]      TRIREME=path of the program (build/release/trireme)

Prints each band with the share of the rows that it covers, and the share of the other half that a band of half of the
rows covers (rows by the parity of their group: model and nodes, or source). --write puts the bands into
profiles/*.toml. Run it after bench/fit_constants.py.
"""
import argparse
import re
import statistics
import sys

import score_predictions as scores

LOW, HIGH = 10, 90


def playbook():
    rows = [r for r in scores.table("playbook_dev.csv") if not r["flag"]]
    return [((r["model"], r["nodes"]), float(r["pred_tok_s_gpu"]) / float(r["tok_s_gpu"]))
            for r in scores.predict(rows, "h100-playbook", "nanotron")]


def vtrain():
    rows = scores.predict(scores.table("vtrain_a100_single.csv"), "a100-dgx", "megatron")
    return [(r["tp"] + "/" + r["pp"] + "/" + r["hidden"], float(r["iter_ms"]) / 1000 / float(r["pred_step_s"])) for r in rows]


def tables(framework, clusters):
    """Rows of other_tables.csv whose layout and step are known."""
    ratios = []
    for source in scores.SOURCES:
        if source.framework != framework or source.cluster not in clusters:
            continue
        cases = []
        for row in scores.table("other_tables.csv"):
            change = source.change(row) if source.key in row["source"] else None
            if change is not None:
                cases.append(dict(row, _measured=source.measured(row), **change))
        if not cases:
            continue
        ratios += [((source.name, r["model"]), r["_measured"] / float(r["pred_step_s"]))
                   for r in scores.predict(cases, source.cluster, source.framework) if r["pred_step_s"] and r["_measured"]]
    return ratios


def band(ratios):
    cuts = statistics.quantiles([ratio for _, ratio in ratios], n=100, method="inclusive")
    return cuts[LOW - 1], cuts[HIGH - 1]


def covered(ratios, low, high):
    return statistics.fmean(low <= ratio <= high for _, ratio in ratios)


def halves(ratios):
    """Share of each half that the other half's band covers."""
    number = {group: i for i, group in enumerate(sorted({str(group) for group, _ in ratios}))}
    even = [r for r in ratios if number[str(r[0])] % 2 == 0]
    odd = [r for r in ratios if number[str(r[0])] % 2 == 1]
    return statistics.fmean([covered(odd, *band(even)), covered(even, *band(odd))])


def write(profile, low, high, source):
    path = scores.ROOT / "profiles" / (profile + ".toml")
    text = re.sub(r"\n\[band\]\n(.*\n)*", "", path.read_text())
    line = '%s = { value = %.3f, unit = "1", kind = "fitted", source = "bench/error_bands.py: %s percentile of measured by predicted steps, %s" }\n'
    path.write_text(text + "\n[band]\n" + line % ("low", low, "10th", source) + line % ("high", high, "90th", source))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    nanotron = playbook()
    megatron = tables("megatron", {"h100-dgx"})
    fsdp = tables("fsdp", {"h100-dgx", "a100-dgx", "a100-40gb"})
    older = vtrain() + tables("megatron", {"a100-dgx"})
    others = "runs of others: none of its own is published; "
    print("%-14s %5s  %-15s %8s %11s" % ("profile", "rows", "band", "covered", "other half"))
    for profile, ratios, source in [
            ("nanotron", nanotron, "published/playbook_dev.csv without flagged rows"),
            ("megatron", megatron, "H100 rows of published/other_tables.csv"),
            ("megatron-2022", older, "published/vtrain_a100_single.csv and A100 rows of published/other_tables.csv"),
            ("fsdp", fsdp, "llm-foundry's rows of published/other_tables.csv"),
            ("torchtitan", megatron + fsdp, others + "those of megatron and fsdp"),
            ("trireme", nanotron + megatron + fsdp, others + "those of nanotron, megatron and fsdp")]:
        low, high = band(ratios)
        print("%-14s %5d  %.3f .. %.3f %8.3f %11.3f" % (profile, len(ratios), low, high, covered(ratios, low, high), halves(ratios)))
        if arguments.write:
            write(profile, low, high, source)


if __name__ == "__main__":
    sys.exit(main())
