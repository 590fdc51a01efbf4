#!/usr/bin/env bash
# Install packages into a virtual environment: scripts/install.sh VENV PIP-INSTALL-ARGUMENTS...
#
# The environment is created when it is missing. uv is used where it can be had, because it is many
# times faster. uv does not read pip's configuration, so where packages come from a place that only
# pip knows of, uv fails and pip does the work. Both read the user's own environment variables.
set -euo pipefail

venv=$1
shift
uv=.venv/bin/uv

if [ ! -x "$venv/bin/python" ]; then
  # Measured on an empty machine: 5.6 GB for all environments, half of it the cache of uv, and at most 3 for one.
  for place in . "$HOME"; do
    free=$(df -k --output=avail "$place" 2>/dev/null | tail -n 1)
    [ "${free:-3000000}" -ge 3000000 ] || {
      echo "$venv needs 3 GB of disk and $((free / 1000)) MB are free in $(cd "$place" && pwd). Free some, and run this again." >&2
      exit 1
    }
  done
  "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed. Install it, or name it: make setup PYTHON=python3.12" >&2
    exit 1
  }
  "${PYTHON:-python3}" -m venv "$venv" || {
    echo "Python cannot make virtual environments. On Debian: apt-get install python3-venv" >&2
    exit 1
  }
  # With hashes, both are among the files that have one.
  case " $* " in
    *" --require-hashes "*) ;;
    *)
      "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade \
        --requirement "$(dirname "$0")/seed.txt" ||
        echo "pip and setuptools of $venv stay as old as its Python: scripts/seed.txt cannot be installed here."
      ;;
  esac
fi

# Where every file has to have a known hash, pip does the work: nothing vouches for uv itself yet.
case " $* " in *" --require-hashes "*) verified=yes ;; *) verified= ;; esac

if [ ! -x "$uv" ] && [ -x .venv/bin/python ] && [ -z "$verified" ]; then
  .venv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9 ||
    echo "uv cannot be installed here; going on with pip, which takes longer."
fi

if [ -x "$uv" ] && "$uv" pip install --quiet --python "$venv/bin/python" "$@"; then
  exit 0
fi
[ ! -x "$uv" ] || echo "uv did not succeed; pip tries the same, which takes longer."
exec "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
