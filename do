#!/usr/bin/env bash
# The one entry to everything: ./do lists the commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly binary=build/release/trireme
jobs=${JOBS:-$(nproc)}

usage() {
  cat <<'END'
Usage: ./do COMMAND [ARGUMENTS]          (JOBS=4 ./do build: number of parallel jobs)

  build            the program; prints its path                  ./do build
  demo             build, fetch the text, train a small model    ./do demo
                   on 2 ranks, then for 50 steps on 8, and
                   compare the losses; with KEYS the first       ./do demo --run.steps 60
                   run alone
  mpirun N ARGS    the program as N processes, one per rank, under ./do mpirun 4 train
                   Open MPI, as root and with fewer cores too      configs/demo.toml --layout.dp 4
  test [SELECTION] build and run the tests: fast, slow or all    ./do test fast
  bench [ARGS]     build and run the benchmarks                  ./do bench
  format           rewrite C++ files in the house format         ./do format
  lint             check format, layers and paths                ./do lint
  corpus           write the training text data/kjv.txt          ./do corpus
  clean            remove build/ (keeps runs/ and data/)         ./do clean

Commands that need a missing Debian or Ubuntu package say so and install it (as root or by sudo).
END
}

build_program() {
  tools/packages.sh build
  tools/configure.sh release
  cmake --build build/release -j "$jobs" --target trireme
}

demo() {
  "$binary" train configs/demo.toml
  echo
  echo "The same training again, its first 50 steps, cut three ways at once: 2 stages of a pipeline, each on"
  echo "2 data-parallel and 2 tensor-parallel ranks. 8 ranks on the cores of this machine, so it is no faster."
  "$binary" train configs/demo.toml --run.name demo-8-ranks --run.steps 50 --run.eval_every 0 --run.sample "" \
    --checkpoint.every 0 --layout.pp 2 --layout.dp 2 --layout.tp 2 --layout.sp true
  echo
  tools/compare_losses.sh runs/demo runs/demo-8-ranks 3e-2  # 50 steps of bf16, the last of which drift apart
}

bench() {
  tools/packages.sh build bench
  tools/configure.sh release -DTRIREME_BENCH=ON
  cmake --build build/release -j "$jobs"
  exec bench/run "$@"
}

command=${1:-help}
shift || true
case "$command" in
  build) build_program; echo "$binary" ;;
  demo)
    tools/packages.sh build corpus
    build_program
    tools/make_corpus.sh
    (($# == 0)) || exec "$binary" train configs/demo.toml "$@"
    demo
    ;;
  mpirun) tools/packages.sh build mpi; build_program; exec tools/mpirun.sh "${1:?how many processes? see ./do}" "$binary" "${@:2}" ;;
  test) tools/packages.sh build mpi test; exec tools/run_tests.sh release "$@" ;;
  bench) bench "$@" ;;
  format) tools/packages.sh lint; exec tools/lint.sh format-in-place ;;
  lint) tools/packages.sh lint; exec tools/lint.sh ;;
  corpus) tools/packages.sh corpus; exec tools/make_corpus.sh ;;
  clean) rm -rf build ;;
  help | -h | --help) usage ;;
  *) echo "[do] unknown command '$command'" >&2; usage >&2; exit 2 ;;
esac
