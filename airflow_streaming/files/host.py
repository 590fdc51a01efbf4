"""Names the running operating system, and tells whether it was rebooted since."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from airflow_streaming.core.epoch import Host

_INITIAL_PID_SPACE: Final = "pid:[4026531836]"
"""The process-id namespace outside all containers; the kernel fixes its number."""


def this_host() -> Host:
    """Return this host; what the system does not tell (as on macOS) is left empty."""
    return Host(
        name=socket.gethostname(),
        machine=_read("/etc/machine-id"),
        boot=_read("/proc/sys/kernel/random/boot_id"),
        pid_space=_link("/proc/self/ns/pid"),
    )


def is_proved_rebooted(here: Host, earlier: Host) -> bool:
    """
    Tell whether this is certainly the earlier host after a reboot.

    A container's machine id comes with its image and its name may be given twice, so that two
    containers on two machines can look like one machine before and after a reboot. A reboot is
    believed outside containers only.
    """
    if not (here.rebooted_since(earlier) and earlier.machine):
        return False
    return here.pid_space == earlier.pid_space == _INITIAL_PID_SPACE


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115  # the target is no path; pathlib would parse it
    except OSError:
        return ""
