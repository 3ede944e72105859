#!/usr/bin/env bash
# Builds one CMake preset with tests and runs them. The last line of output is the count, e.g.
# "12 passed, 0 failed, 1 skipped", with "PRESET: " before it unless the preset is release.
# Usage: tools/run_tests.sh PRESET [fast|slow|all]
# Environment: JOBS (default: number of cores). Exit code: 0 only if tests ran and none failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:?usage: tools/run_tests.sh PRESET [fast|slow|all]}
selection=${2:-all}
jobs=${JOBS:-$(nproc)}
build_dir=build/$preset
case "$selection" in
  fast | slow | all) ;;
  *) echo "[test] unknown selection '$selection'; use fast, slow or all" >&2; exit 2 ;;
esac

tools/configure.sh "$preset" -DBUILD_TESTING=ON
cmake --build "$build_dir" -j "$jobs"

reports=()
exit_code=0
run_label() {  # NAME CTEST_ARGUMENTS...
  local report=$PWD/$build_dir/tests_$1.xml
  rm -f "$report"
  ctest --preset "$preset" -j "$jobs" --no-tests=ignore --output-junit "$report" "${@:2}" || exit_code=1
  reports+=("$report")
}
# Fast ones first: most faults show within the first minute.
[[ $selection == slow ]] || run_label fast -L '^fast$'
[[ $selection == fast ]] || run_label slow -LE '^fast$'

# In ctest's JUnit file a skipped and an unrunnable test are both "notrun"; the message tells them apart.
count=$(awk -F'"' '
  /<testcase / { ++num_tests; failed = ($0 ~ /status="fail"/); unrun = ($0 ~ /status="(notrun|disabled)"/)
                 num_failed += failed; open = unrun; num_unrun += unrun }
  open && /SKIP_(REGULAR_EXPRESSION_MATCHED|RETURN_CODE)/ { ++num_skipped; open = 0 }
  END {
    num_failed += num_unrun - num_skipped
    printf "%d passed, %d failed", num_tests - num_failed - num_skipped, num_failed
    if (num_skipped) printf ", %d skipped", num_skipped
    print ""
    if (num_tests == num_skipped) exit 1
  }' "${reports[@]}") || { echo "[test] no test ran in $build_dir ($selection)" >&2; exit_code=1; }
[[ $preset == release ]] || count="$preset: $count"
echo "$count"
exit "$exit_code"
