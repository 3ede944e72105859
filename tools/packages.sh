#!/usr/bin/env bash
# Installs the distribution packages that a task needs; does nothing when all are present.
# Usage: tools/packages.sh GROUP...     groups: build mpi test bench corpus lint tidy
set -euo pipefail

case "${1:---help}" in
  -h | --help) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
esac

declare -A group_packages=(
  # oneDNN's CMake file looks for OpenCL's headers, which its package does not depend on.
  [build]="g++ cmake ninja-build ccache libdnnl-dev ocl-icd-opencl-dev libfmt-dev libtomlplusplus-dev
           nlohmann-json3-dev libcli11-dev libxxhash-dev"
  [mpi]="libopenmpi-dev openmpi-bin"
  [test]="libgtest-dev"
  [bench]="libbenchmark-dev"
  [corpus]="bible-kjv"
  [lint]="git clang-format-14 python3"
  [tidy]="clang-tidy-14"
)
declare -A group_reason=(
  [build]="compiler, build tools and libraries of the program"
  [mpi]="Open MPI, for ranks that are processes"
  [test]="GoogleTest, for the tests"
  [bench]="Google Benchmark, for the benchmarks"
  [corpus]="a public-domain book, as training text for the demo"
  [lint]="format and layer checks"
  [tidy]="static analysis"
)
# What the build can do without.
readonly optional_packages=" ccache "

wanted=()
for group in "$@"; do
  if [[ -z "${group_packages[$group]:-}" ]]; then
    echo "[packages] unknown group '$group'; groups: ${!group_packages[*]}" >&2
    exit 2
  fi
  for package in ${group_packages[$group]}; do wanted+=("$package"); done
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "[packages] no apt-get here, so nothing is installed; needed are the equivalents of: ${wanted[*]}" >&2
  exit 0
fi

# dpkg-query fails as a whole when one package is unknown, yet still lists the others.
installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package} ' "${wanted[@]}" 2>/dev/null || true)"
missing=()
reasons=()
for group in "$@"; do
  for package in ${group_packages[$group]}; do
    [[ "$installed" != *" installed $package "* ]] || continue
    missing+=("$package")
    reasons+=("$package ($group: ${group_reason[$group]})")
  done
done
# The optional ones alone are not worth an installation: that would ask apt at each build.
for package in "${missing[@]}"; do
  if [[ "$optional_packages" != *" $package "* ]]; then
    needs_apt=true
  fi
done
${needs_apt:-false} || exit 0

as_root=()
if ((EUID != 0)); then
  # Without a terminal sudo cannot ask for a password: -n makes it fail instead of hang.
  if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    as_root=(sudo)
  else
    echo "[packages] missing: ${missing[*]}; this user can neither be root nor use sudo." >&2
    echo "Have an administrator run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

echo "Installing with apt-get:"
printf '  %s\n' "${reasons[@]}"
apt update || echo "[packages] apt-get update failed; trying with the package lists at hand" >&2

available=()
for package in "${missing[@]}"; do
  if [[ "$optional_packages" == *" $package "* ]] && ! apt-cache show "$package" >/dev/null 2>&1; then
    echo "[packages] going on without $package, which this distribution does not have"
  else
    available+=("$package")
  fi
done
apt install -y --no-install-recommends "${available[@]}"
