"""Which host this process runs on, as records name it."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from airflow_streaming.core.epoch import Host


def this_host() -> Host:
    """Return this host; what the operating system does not tell stays empty."""
    return Host(
        name=socket.gethostname(),
        machine=_line("/etc/machine-id"),
        boot=_line("/proc/sys/kernel/random/boot_id"),
        pid_space=_link("/proc/self/ns/pid"),
    )


def _line(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    return ""


def _link(path: str) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(path)  # noqa: PTH115  # the target is no path
    return ""
