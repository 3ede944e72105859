#!/usr/bin/env bash
# Starts N processes of a program by Open MPI's mpirun, with settings that also work as root, in containers and with
# more processes than cores. SIGINT, SIGTERM and SIGHUP go to the processes as SIGUSR1, which Trireme takes as a wish
# to stop: mpirun itself would kill them before a checkpoint is saved. A second one kills them.
# Options of mpirun (--hostfile FILE ...) go into MPIRUN_OPTIONS; settings of Open MPI in the environment win.
# Usage: tools/mpirun.sh N PROGRAM [ARGUMENTS]        for example tools/mpirun.sh 8 build/release/trireme train X.toml
# Exit code: that of the first process that fails; 128 + signal if one came here.
set -euo pipefail

(($# >= 2)) || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
command -v mpirun >/dev/null || { echo "[mpi] no mpirun here; install openmpi-bin (and libopenmpi-dev to build)" >&2; exit 2; }
processes=$1
shift

setting() { export "$1=${!1:-$2}"; }
# Containers often have no other user.
setting OMPI_ALLOW_RUN_AS_ROOT 1
setting OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
# More processes than cores; Trireme gives each its share of the threads.
setting OMPI_MCA_rmaps_base_oversubscribe 1
setting OMPI_MCA_hwloc_base_binding_policy none
setting OMPI_MCA_mpi_yield_when_idle 1
# Containers forbid the system call by which processes copy from each other.
setting OMPI_MCA_btl_vader_single_copy_mechanism none
# Seconds that mpirun waits for all processes to end by themselves after one has failed; it waits the whole of them.
setting OMPI_MCA_odls_base_sigkill_timeout 3

# What the launcher says of itself, between two dashed lines, comes after what the ranks say: the first line names the
# rank that failed and why. Signals that come here do not end it.
launcher_last() {
  trap '' HUP INT TERM
  exec awk '/^-+$/ && length($0) > 60 { held = held $0 "\n"; inside = !inside; next }
            inside { held = held $0 "\n"; next }
            { print; fflush() }
            END { printf "%s", held }'
}
exec {ranks_err}> >(launcher_last >&2)
launcher_last_pid=$!

# A process group of its own, so that Ctrl-C in a terminal comes here alone.
set -m
# shellcheck disable=SC2086 # options are words
mpirun -n "$processes" ${MPIRUN_OPTIONS:-} "$@" </dev/null 2>&"$ranks_err" &
mpirun_pid=$!

signal_number=0
stop() {
  if ((signal_number == 0)); then kill -USR1 "$mpirun_pid"; else kill -TERM "$mpirun_pid"; fi 2>/dev/null || true
  signal_number=$1
}
trap 'stop 1' HUP
trap 'stop 2' INT
trap 'stop 15' TERM

exit_code=0
wait "$mpirun_pid" || exit_code=$?
while kill -0 "$mpirun_pid" 2>/dev/null; do  # a signal has ended the wait
  exit_code=0
  wait "$mpirun_pid" || exit_code=$?
done
exec {ranks_err}>&-
wait "$launcher_last_pid" 2>/dev/null || true
if ((signal_number > 0 && exit_code == 128 + 10)); then exit_code=$((128 + signal_number)); fi
exit "$exit_code"
