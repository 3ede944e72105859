#!/usr/bin/env bash
# Configures build/PRESET. Tests and benchmarks are off in a new release folder, so that building the
# program needs neither GoogleTest nor Google Benchmark; once switched on they stay on.
# Usage: tools/configure.sh PRESET [-DNAME=VALUE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:?usage: tools/configure.sh PRESET [-DNAME=VALUE...]}
defaults=()
if [[ $preset == release && ! -f build/release/CMakeCache.txt ]]; then
  defaults=(-DBUILD_TESTING=OFF -DTRIREME_BENCH=OFF)
fi
# Quiet unless it fails; warnings go to standard error.
report=$(cmake --preset "$preset" "${defaults[@]}" "${@:2}") || { echo "$report"; exit 1; }
