#!/usr/bin/env bash
# Checks of tracked files that need no build: C++ format, layer order, no machine's absolute paths.
# Usage: tools/lint.sh [format|layers|paths]      (no argument: all three)
#        tools/lint.sh format-in-place
#        tools/lint.sh tidy                       clang-tidy on all sources but tests and benchmarks, which
#                                                 are left to the compiler's warnings: half an hour on 2 cores
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sources() { git ls-files -z '*.h' '*.cpp' '*.inc' '*.cu'; }

check_format() {
  sources | xargs -0 -r clang-format-14 --dry-run -Werror || { echo "[format] run ./do format" >&2; return 1; }
  echo "format: $(sources | tr -cd '\0' | wc -c) files as in .clang-format"
}

check_layers() { python3 tools/check_layers.py; }

check_paths() {
  local result=0
  git grep -nIE '(^|[^[:alnum:]_.])/(work|root|home)/' || result=$?
  case "$result" in
    0) echo "[paths] the lines above name folders of one machine; use relative paths" >&2; return 1 ;;
    1) echo "paths: no tracked file names a folder of one machine" ;;
    *) return "$result" ;;
  esac
}

check_tidy() {
  tools/configure.sh debug
  git ls-files -z 'src/*.cpp' ':!*_test.cpp' ':!*_bench.cpp' |
    xargs -0 -r -n 1 -P "${JOBS:-$(nproc)}" clang-tidy-14 --quiet -p build/debug
}

case "${1:-all}" in
  format) check_format ;;
  layers) check_layers ;;
  paths) check_paths ;;
  tidy) check_tidy ;;
  format-in-place) sources | xargs -0 -r clang-format-14 -i ;;
  all)
    failed=0
    check_format || failed=1
    check_layers || failed=1
    check_paths || failed=1
    exit "$failed"
    ;;
  *) echo "[lint] unknown check '$1'; use format, layers, paths, tidy or format-in-place" >&2; exit 2 ;;
esac
