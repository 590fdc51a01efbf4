#!/bin/sh
# Fetch the libraries of the Streams page and put them where they are
# served. `--check FOLDER` writes to that folder instead, so that a test can compare.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=$root/airflow_streaming/plugins/static/vendor
[ "${1:-}" = "--check" ] && target=$2
version=1.6.32
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm pack --silent "uplot@$version" > /dev/null
tar xzf "uplot-$version.tgz"
mkdir -p "$target"
cp package/dist/uPlot.esm.js "$target/uPlot.esm.js"
cp package/dist/uPlot.min.css "$target/uPlot.css"
cp package/LICENSE "$target/uPlot.LICENSE.txt"
