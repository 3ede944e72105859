# Sourced by tests of transports: a folder with a config that trains in a moment, and functions. Needs $trireme.
# Without mpirun, or a program that was built without MPI, the test is skipped (exit code 77).
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mpirun=$here/../tools/mpirun.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for i in {1..400}; do echo "line $((i * i)) of a small text that repeats"; done >"$folder/text.txt"
cat >"$folder/config.toml" <<END
[run]
steps = 3
seed = 3
peak_gflops = 100
[model]
family = "llama"
layers = 4
hidden = 32
heads = 4
kv_heads = 4
ffn = 48
vocab = 256
max_seq = 16
tied = true
[data]
text = ["text.txt"]
[batch]
seq = 16
micro_batch = 1
global_batch = 8
[layout]
threads_per_rank = 1
bucket_mib = 0.05
timeout_s = 10
[optimizer]
lr = 1e-2
clip = 0.5
END

skip() { echo "[test] skipped: $*"; exit 77; }
fail() { echo "[test] FAILED: $*" >&2; exit 1; }

command -v mpirun >/dev/null || skip "no mpirun here; install openmpi-bin and libopenmpi-dev"
if "$mpirun" 2 "$trireme" train "$folder/config.toml" --layout dp=2 --dry-run 2>&1 | grep -q "built without MPI"; then
  skip "this program was built without MPI"
fi

# Trains NAME over TRANSPORT (threads, mpi) with the layout text and options; what it prints goes to NAME.log and its
# errors to NAME.err.
train() {  # NAME TRANSPORT LAYOUT [OPTIONS]
  local -a launcher=()
  if [[ $2 == mpi ]]; then launcher=(timeout -k 10 120 "$mpirun" "$(ranks_of "$3")"); fi
  "${launcher[@]}" "$trireme" train "$folder/config.toml" --layout "$3" --run.dir "$folder" --run.name "$1" "${@:4}" \
    >>"$folder/$1.log" 2>"$folder/$1.err"
}
ranks_of() {  # LAYOUT
  local product=1 word
  for word in $1; do
    case "$word" in pp=* | dp=* | cp=* | tp=*) product=$((product * ${word#*=})) ;; esac
  done
  echo "$product"
}
checkpoint() { printf '%s/%s/checkpoints/step_%08d' "$folder" "$1" "$2"; }  # NAME STEP
expect_same_checkpoints() {  # STEP NAME NAME
  diff -r "$(checkpoint "$2" "$1")" "$(checkpoint "$3" "$1")" >&2 || fail "$2 and $3 differ after step $1"
}
