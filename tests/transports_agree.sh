#!/usr/bin/env bash
# Trains each layout of transport_layouts.txt three steps over threads and over MPI: checkpoints must be the same, byte by
# byte. Then a run that is stopped over one transport goes on over the other, to the bytes of the straight run.
# Usage: tests/transports_agree.sh TRIREME [PATTERN]        PATTERN: only the lines that match it
set -euo pipefail
trireme=$(realpath "${1:?usage: tests/transports_agree.sh TRIREME [PATTERN]}")
pattern=${2:-.}
source "$(dirname "${BASH_SOURCE[0]}")/transport_setup.sh"

number=0
while IFS='|' read -r layout options; do
  [[ -n $layout && $layout != \#* ]] || continue
  [[ "$layout|$options" =~ $pattern ]] || continue
  number=$((number + 1))
  for transport in threads mpi; do
    # shellcheck disable=SC2086 # options are words
    train "$transport$number" $transport "$layout" $options || {
      cat "$folder/$transport$number.err" >&2
      fail "$layout|$options does not train over $transport"
    }
  done
  expect_same_checkpoints 3 "threads$number" "mpi$number"
  diff <(grep -A99 "^predicted and real" "$folder/threads$number.log" | grep -B99 -m1 "^checkpoint" | grep -v "^checkpoint") \
    <(grep -A99 "^predicted and real" "$folder/mpi$number.log" | grep -B99 -m1 "^checkpoint" | grep -v "^checkpoint") >&2 ||
    fail "$layout|$options: bytes of memory or messages differ between the transports"
  rm -rf "$folder/threads$number" "$folder/mpi$number"
done <"$here/transport_layouts.txt"
((number > 0)) || fail "no line of transport_layouts.txt matches '$pattern'"
echo "$number layouts: the same checkpoints over threads and over MPI"

layout="dp=2 tp=2 sp=1 zero=1"
train straight threads "$layout" --run.steps 6 --checkpoint.every 3 --checkpoint.keep_last 0
for order in "threads mpi" "mpi threads"; do
  read -r first second <<<"$order"
  train "$first-$second" "$first" "$layout" --run.steps 6 --checkpoint.every 3
  rm -r "$(checkpoint "$first-$second" 6)"
  train "$first-$second" "$second" "$layout" --run.steps 6 --checkpoint.every 3
  grep -q "resumed .*step_00000003" "$folder/$first-$second.log" || fail "$first-$second did not resume"
  expect_same_checkpoints 6 straight "$first-$second"
done
echo "stopped over one transport and resumed over the other: the bytes of the straight run"
