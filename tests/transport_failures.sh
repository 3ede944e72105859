#!/usr/bin/env bash
# What ends one process of a run ends all, within a stated time, non-zero, with one line that names rank, step and cause;
# nothing is left. A signal to any process or to the launcher stops all after the same step, with one checkpoint.
# Usage: tests/transport_failures.sh TRIREME
set -euo pipefail
trireme=$(realpath "${1:?usage: tests/transport_failures.sh TRIREME}")
source "$(dirname "${BASH_SOURCE[0]}")/transport_setup.sh"
readonly limit_s=60  # far more than the times that are stated
readonly layout=(--layout.pp 2 --layout.dp 2 --layout.zero 1)

left_behind() {
  find /dev/shm "${TMPDIR:-/tmp}" -maxdepth 2 \( -name 'vader*' -o -name 'ompi.*' -o -name 'osc_*' \) 2>/dev/null | sort
}

# Starts 4 ranks in the background; returns when the run is in its steps. Sets launcher_pid and ranks: pids by rank.
start_run() {  # NAME [OPTIONS]
  name=$1
  before=$(left_behind)
  set -m  # without it what runs in the background ignores SIGINT
  "$mpirun" 4 "$trireme" train "$folder/config.toml" "${layout[@]}" --run.dir "$folder" --run.name "$name" \
    --run.steps 1000000 --run.log_every 1 "${@:2}" >"$folder/$name.log" 2>"$folder/$name.err" &
  launcher_pid=$!
  set +m
  local waited=0
  until grep -qs "^step *5/" "$folder/$name.log"; do
    kill -0 $launcher_pid 2>/dev/null || { cat "$folder/$name.err" >&2; fail "$name: the run ended by itself"; }
    ((waited++ < limit_s * 10)) || fail "$name: no fifth step within $limit_s s"
    sleep 0.1
  done
  ranks=()
  local pid
  for pid in $(pgrep -f "$trireme train $folder/config.toml .*--run.name $name"); do
    local rank
    rank=$(tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
    [[ -z $rank ]] || ranks[rank]=$pid
  done
  ((${#ranks[@]} == 4)) || fail "$name: ${#ranks[@]} processes are ranks, not 4"
}

# Waits for the launcher; sets exit_code. Nothing of the run may be left.
end_run() {
  local start=$SECONDS
  (sleep $limit_s; kill -9 $launcher_pid "${ranks[@]}") 2>/dev/null &
  local guard=$!
  exit_code=0
  wait $launcher_pid || exit_code=$?
  kill $guard 2>/dev/null || true
  seconds=$((SECONDS - start))
  ((seconds < limit_s)) || fail "$name: did not end within $limit_s s"
  local pid waited=0
  for pid in "${ranks[@]}"; do  # a zombie is one that nobody has asked for its exit code
    while grep -q '^State:[[:space:]]*[^Z]' "/proc/$pid/status" 2>/dev/null; do
      ((waited++ < 100)) || fail "$name: process $pid is left"
      sleep 0.1
    done
  done
  [[ $(left_behind) == "$before" ]] || fail "$name: left $(diff <(echo "$before") <(left_behind))"
  [[ -z $(compgen -G "$folder/$name/checkpoints/*.incomplete") ]] || fail "$name: left part of a checkpoint"
}

expect_failure() {  # PATTERN of the first line of errors
  ((exit_code != 0)) || fail "$name: exit code 0"
  local first
  first=$(head -n 1 "$folder/$name.err")
  [[ $first =~ $1 ]] || { cat "$folder/$name.err" >&2; fail "$name: the first line is '$first', not like '$1'"; }
  (($(grep -c '^trireme: ' "$folder/$name.err") == 1)) || { cat "$folder/$name.err" >&2; fail "$name: more than one line"; }
  echo "$name: ended after $seconds s with exit code $exit_code: $first"
}

for rank in 0 1 3; do
  start_run "killed-$rank"
  kill -9 "${ranks[rank]}"
  end_run
  expect_failure "^trireme: rank $rank, step [0-9]+: its process has ended"
done

for rank in 0 2; do
  start_run "stopped-$rank" --layout.timeout_s 3
  kill -STOP "${ranks[rank]}"
  end_run
  expect_failure "^trireme: rank $rank, step [0-9]+: its process has been silent for 3 s"
done

# A file where the folder was; the run may make the folder anew in between.
block_checkpoints() {  # FOLDER
  until rm -rf "$1" && (: >"$1") 2>/dev/null; do :; done
}

# A rank that throws: a checkpoint cannot be written.
start_run "throws" --checkpoint.every 20 --checkpoint.keep_last 1
block_checkpoints "$folder/throws/checkpoints"
end_run
expect_failure "^trireme: rank 0, step [0-9]+: \[checkpoint\]"

# As a thread it says the same.
name=throws-thread
code=0
(
  until grep -qs "^step *5/" "$folder/$name.log"; do sleep 0.1; done
  block_checkpoints "$folder/$name/checkpoints"
) &
timeout -k 10 $limit_s "$trireme" train "$folder/config.toml" "${layout[@]}" --run.dir "$folder" --run.name $name \
  --run.steps 1000000 --run.log_every 1 --checkpoint.every 500 --checkpoint.keep_last 1 \
  >"$folder/$name.log" 2>"$folder/$name.err" || code=$?
exit_code=$code seconds=0
expect_failure "^trireme: rank 0, step [0-9]+: \[checkpoint\]"

for target in 0 3 launcher; do
  for signal in TERM INT; do
    start_run "signal-$signal-$target"
    if [[ $target == launcher ]]; then kill -$signal $launcher_pid; else kill -$signal "${ranks[target]}"; fi
    end_run
    due=$((128 + $(kill -l $signal)))
    ((exit_code == due)) || { cat "$folder/$name.err" >&2; fail "$name: exit code $exit_code, not $due"; }
    step=$(sed -n 's/^stopped by signal .* after step \([0-9]*\);.*/\1/p' "$folder/$name.log")
    [[ -d $(checkpoint "$name" "$step") ]] || fail "$name: no checkpoint of step $step"
    (($(find "$folder/$name/checkpoints" -mindepth 1 -maxdepth 1 -name 'step_*' | wc -l) == 1)) ||
      fail "$name: more than one checkpoint"
    echo "$name: stopped after step $step within $seconds s, exit code $exit_code"
  done
done

refuse() {  # PROCESSES PATTERN ARGUMENTS
  local code=0
  timeout -k 10 60 "$mpirun" "$1" "$trireme" "${@:3}" >"$folder/refused.log" 2>"$folder/refused.err" || code=$?
  ((code == 2)) || { cat "$folder/refused.err" >&2; fail "exit code $code, not 2, for: ${*:3}"; }
  [[ $(head -n 1 "$folder/refused.err") =~ $2 ]] || { cat "$folder/refused.err" >&2; fail "not like '$2'"; }
  (($(grep -c '^trireme: ' "$folder/refused.err") == 1)) || fail "more than one line for: ${*:3}"
}
refuse 3 "mpirun has started 3 processes" train "$folder/config.toml" --layout dp=2 --run.dir "$folder"
refuse 2 'transport = "threads", but mpirun has started 2' train "$folder/config.toml" --layout.dp 2 --layout.transport threads
refuse 2 "only train runs on several" eval "$folder"
refuse 2 "only train runs on several" generate "$folder"
refuse 2 "no such file|cannot be|not found|No such file" train "$folder/nowhere.toml"
echo "refused: another number of processes, threads under mpirun, eval, generate, a missing file"
