#!/usr/bin/env bash
# Wheel, sdist and software bill of materials in dist/. The same commit gives the same bytes. The bill lists a
# clean environment with the wheel and the versions of constraints.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$PWD/.venv/bin/uv
rm -rf dist
"$uv" build --quiet --out-dir dist .
clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT
"$uv" venv --quiet --python "${PYTHON:-python3}" "$clean/venv"
"$uv" pip install --quiet --python "$clean/venv/bin/python" --constraint constraints.txt dist/*.whl
"$uv" tool run --from cyclonedx-bom==7.3.1 cyclonedx-py environment --pyproject pyproject.toml \
  --output-reproducible --output-format JSON --output-file dist/sbom.cdx.json "$clean/venv/bin/python"
(cd dist && sha256sum ./*.whl ./*.tar.gz ./*.json | tee SHA256SUMS)
