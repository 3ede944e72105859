#!/usr/bin/env bash
# Kills training with signal 9 at random moments and resumes it: each time the checkpoint at the end must be that of
# the straight run, file by file and byte by byte.
# Usage: tests/kill_and_resume.sh TRIREME TRANSPORT [ROUNDS] [SEED]      TRANSPORT: threads, mpi
# Moments are drawn over as long as the straight run takes; what must come out does not depend on them.
set -euo pipefail

trireme=${1:?usage: tests/kill_and_resume.sh TRIREME TRANSPORT [ROUNDS] [SEED]}
transport=${2:?usage: tests/kill_and_resume.sh TRIREME TRANSPORT [ROUNDS] [SEED]}
rounds=${3:-20}
RANDOM=${4:-1}
steps=30
mpirun=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/tools/mpirun.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for i in {1..400}; do echo "line $((i * i)) of a small text that repeats"; done >"$folder/text.txt"
cat >"$folder/config.toml" <<END
[run]
steps = $steps
peak_gflops = 100
[model]
family = "llama"
layers = 2
hidden = 64
heads = 4
kv_heads = 2
ffn = 128
vocab = 256
max_seq = 32
[data]
text = ["text.txt"]
[batch]
seq = 32
micro_batch = 1
global_batch = 8
[layout]
dp = 2
zero = 1
bucket_mib = 0.05
threads_per_rank = 1
[precision]
compute = "bf16"
[checkpoint]
every = 1
keep_last = 2
END

# Trains in $folder/NAME, whatever is there already; leaves what it prints in $folder/NAME.log.
train() {  # NAME
  local -a launcher
  case "$transport" in
    threads) launcher=() ;;
    mpi) launcher=("$mpirun" 2) ;;
    *) echo "[test] unknown transport '$transport'; use threads or mpi" >&2; exit 2 ;;
  esac
  exec "${launcher[@]}" "$trireme" train "$folder/config.toml" --run.dir "$folder" --run.name "$1" \
    >>"$folder/$1.log" 2>&1
}
train_to_the_end() {  # NAME
  (train "$1") && return
  echo "[test] $1: training failed:" >&2
  tail -n 20 "$folder/$1.log" >&2
  exit 1
}

# The process that dies: with ranks as threads there is but one, else any of those that mpirun has started. Nothing if
# there is none yet.
victim_of() {  # PID
  if [[ $transport == threads ]]; then echo "$1"; return; fi
  local launcher_pid
  launcher_pid=$(pgrep -P "$1" -x mpirun) || return 0
  pgrep -P "$launcher_pid" | shuf -n 1 --random-source=<(yes $RANDOM)
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }
newest() { echo "$folder/$1/checkpoints/$(printf 'step_%08d' $steps)"; }

start=$(now_ms)
train_to_the_end straight
straight_ms=$(($(now_ms) - start))

kills=0 without_checkpoint=0 during_save=0
while ((kills < rounds)); do
  name=killed$kills
  rm -rf "${folder:?}/$name"
  delay_ms=$((RANDOM * straight_ms / 32768))
  (train "$name") &
  pid=$!
  sleep "$((delay_ms / 1000)).$(printf %03d $((delay_ms % 1000)))"
  victim=$(victim_of $pid) || true
  [[ -z $victim ]] || kill -9 "$victim" 2>/dev/null || true
  if wait $pid 2>/dev/null; then continue; fi  # it was not there, or done already: draw again
  kills=$((kills + 1))
  checkpoints=$folder/$name/checkpoints
  compgen -G "$checkpoints/step_????????" >/dev/null || without_checkpoint=$((without_checkpoint + 1))
  if compgen -G "$checkpoints/*.incomplete" >/dev/null; then during_save=$((during_save + 1)); fi

  train_to_the_end "$name"
  diff -r "$(newest straight)" "$(newest "$name")" || {
    echo "[test] kill $kills after $delay_ms ms: the resumed run ends with another checkpoint" >&2
    exit 1
  }
  if compgen -G "$checkpoints/*.incomplete"; then
    echo "[test] kill $kills after $delay_ms ms: the resumed run left the files above" >&2
    exit 1
  fi
  rm -rf "${folder:?}/$name"
done
echo "$kills kills within $straight_ms ms ($without_checkpoint before the first checkpoint, $during_save during a" \
  "save): every resumed run ended as the straight one"
