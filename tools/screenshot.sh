#!/usr/bin/env bash
# Draws an HTML or SVG file with headless Chromium, offline; says so and ends well where there is none.
# Usage: tools/screenshot.sh FILE PICTURE.png [WIDTH HEIGHT]
set -euo pipefail

file=${1:?usage: tools/screenshot.sh FILE PICTURE.png [WIDTH HEIGHT]}
picture=${2:?usage: tools/screenshot.sh FILE PICTURE.png [WIDTH HEIGHT]}
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then browser=$name; break; fi
done
if [[ -z ${browser:-} ]]; then
  echo "[screenshot] no Chromium here, so nothing is drawn"
  exit 0
fi
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
# Root may not use the browser's sandbox; the page is our own and has no script.
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" \
  --proxy-server=127.0.0.1:9 --window-size="${3:-1400},${4:-2000}" \
  --screenshot="$(realpath -m "$picture")" "file://$(realpath "$file")" >/dev/null 2>&1
[[ -s $picture ]] || { echo "[screenshot] $picture was not written" >&2; exit 1; }
