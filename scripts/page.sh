#!/bin/sh
# Fetch the libraries of the Streams page, check them against vendor/SOURCES.txt and put them where
# they are served. `--check FOLDER` writes to that folder instead, so that a test can compare.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=$root/airflow_streaming/plugins/static/vendor
lock=$target/SOURCES.txt
[ "${1:-}" = "--check" ] && target=$2
package=$(sed -n 's/^npm package \([^ ]*\) .*/\1/p' "$lock")
wanted=$(sed -n 's/^npm package [^ ]* sha512-//p' "$lock")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm pack --silent "$package" > /dev/null
found=$(openssl dgst -sha512 -binary ./*.tgz | base64 | tr -d '\n')
if [ "$found" != "$wanted" ]; then
  echo "Package $package has the hash sha512-$found, and SOURCES.txt has sha512-$wanted." >&2
  echo "Nothing was changed. If the version is a new one, put its hash into SOURCES.txt." >&2
  exit 1
fi
tar xzf ./*.tgz
mkdir -p "$target"
grep -E ' [0-9a-f]{64}$' "$lock" | while read -r name path hash; do
  echo "$hash  package/$path" | sha256sum --check --quiet
  cp "package/$path" "$target/$name"
done
