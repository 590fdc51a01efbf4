"""
Play the pod of a worker: run a command, then kill everything that it has started and remove its temporary folder.

    python -m tests.deployment.pod COMMAND...

Processes that left the session stay children of this one, because it adopts orphans (Linux).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

import psutil

_PR_SET_CHILD_SUBREAPER: Final = 36
WAIT_SECONDS: Final = 10.0


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command in a pod; return its exit code."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "This process cannot adopt orphans.")
    with tempfile.TemporaryDirectory(prefix="pod-", ignore_cleanup_errors=True) as folder:
        inside = {**environment, "TMPDIR": folder, "AIRFLOW_IS_K8S_EXECUTOR_POD": "True"}
        try:
            return subprocess.run(command, env=inside, check=False).returncode
        finally:
            end_all()


def end_all() -> None:
    """Kill all processes below this one, until none is left."""
    while found := psutil.Process().children(recursive=True):
        for process in found:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(found, timeout=WAIT_SECONDS)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], os.environ))
