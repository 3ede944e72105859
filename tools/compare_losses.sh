#!/usr/bin/env bash
# Prints the training losses of two runs side by side, step by step, and fails if they differ by more
# than rounding explains or have no step in common.
# Usage: tools/compare_losses.sh RUN RUN [TOLERANCE]    a share of the loss; 1e-3, for fp32, if not given
set -euo pipefail

first=${1:?usage: tools/compare_losses.sh RUN RUN [TOLERANCE]}
second=${2:?usage: tools/compare_losses.sh RUN RUN [TOLERANCE]}
tolerance=${3:-1e-3}
for run in "$first" "$second"; do
  [[ -r $run/metrics.jsonl ]] || { echo "[compare] $run has no metrics.jsonl; give two run folders" >&2; exit 2; }
done

awk -v first="$first" -v second="$second" -v tolerance="$tolerance" '
  function field(line, key) {
    if (!match(line, "\"" key "\":[-+0-9.eE]+")) return "";
    return substr(line, RSTART + length(key) + 3, RLENGTH - length(key) - 3);
  }
  !/"kind":"train"/ { next }
  FNR == NR { loss[field($0, "step")] = field($0, "loss"); next }
  {
    step = field($0, "step");
    if (!(step in loss)) next;
    if (field($0, "loss") == "" || loss[step] == "") {
      printf "[compare] step %s has no finite loss\n", step > "/dev/stderr";
      exit failed = 1;
    }
    difference = field($0, "loss") - loss[step];
    if (difference < 0) difference = -difference;
    if (difference > most) most = difference;
    if (difference > tolerance * loss[step]) bad = 1;
    if (count++ == 0) printf "step  loss of %-24s loss of %s\n", first, second;
    printf "%4d  %-32.6f %.6f\n", step, loss[step], field($0, "loss");
  }
  END {
    if (failed) exit 1;
    if (count == 0) { print "[compare] no step in common" > "/dev/stderr"; exit 1 }
    printf "largest difference of %d steps: %.2g\n", count, most;
    if (bad) { print "[compare] the losses differ by more than " tolerance " of the loss" > "/dev/stderr"; exit 1 }
  }
' "$first/metrics.jsonl" "$second/metrics.jsonl"
