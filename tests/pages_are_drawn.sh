#!/usr/bin/env bash
# Draws the pages of trireme plan and trireme simulate with headless Chromium and looks whether pictures and tables are
# there. Exit code 77 (skipped) where there is no Chromium.
# Usage: tests/pages_are_drawn.sh TRIREME
set -euo pipefail

trireme=$(realpath "${1:?usage: tests/pages_are_drawn.sh TRIREME}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

"$trireme" simulate --model qwen2.5-0.5b --cluster h100-dgx --layout "pp=4 dp=2 zero=1 mbs=1" --global-batch 16 \
  --seq 2048 --html simulate.html >simulate.txt
"$trireme" plan --model qwen2.5-0.5b --cluster h100-dgx --gpus 8 --global-batch 64 --seq 2048 --pp 4 --top 5 \
  --html plan.html >plan.txt

# Fills of forward and backward passes, the mark of a peak, the device's memory; of a plan also the marked row.
forward="#8ab8e6" backward="#f6b26b" peak="#b3261e" marked="#e3f1e7"
draw() {  # PAGE WIDTH HEIGHT COLOUR...
  "$here/../tools/screenshot.sh" "$1.html" "$1.png" "$2" "$3"
  [[ -e $1.png ]] || { echo "no picture of $1.html: skipped"; exit 77; }
  python3 "$here/png_facts.py" "$1.png" "${@:2}"
  echo "$1.html: $2 x $3 pixels with all of ${*:4}"
}
draw simulate 1000 1400 "$forward" "$backward" "$peak"
draw plan 1000 2600 "$forward" "$backward" "$peak" "$marked"
