"""Names the running operating system, and tells whether it was rebooted since."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from airflow_streaming.model.records.epoch import Host

CLOCK_TOLERANCE: Final = timedelta(seconds=2)
"""By how much the clocks of two machines may differ that look like one; no reboot is as short."""
_INITIAL_PID_SPACE: Final = "pid:[4026531836]"
"""The process-id namespace outside all containers; the kernel fixes its number."""
INTERFACES: Final = Path("/sys/class/net")
_DIGITS: Final = 16
"""Of a digest: enough to tell cards apart; the address itself is not written to a home."""


def this_host() -> Host:
    """Return this host; unavailable fields (as on macOS) are empty."""
    return Host(
        name=socket.gethostname(),
        machine=_read("/etc/machine-id"),
        boot=_read("/proc/sys/kernel/random/boot_id"),
        pid_space=_link("/proc/self/ns/pid"),
        cards=tuple(sorted(_cards())),
    )


def booted_at() -> datetime | None:
    """Return when this host was booted, by its clock as it is set now; ``None`` where unknown."""
    lines = _read("/proc/stat").splitlines()
    told = next((line.split()[1:] for line in lines if line.startswith("btime ")), [])
    try:
        return datetime.fromtimestamp(int(told[0]), UTC)
    except (IndexError, ValueError, OverflowError, OSError):
        return None


def is_proved_rebooted(
    here: Host, earlier: Host, *, booted: datetime | None, alive: Iterable[datetime | None]
) -> bool:
    """
    Tell whether this is certainly the earlier host after a reboot.

    A container's machine id comes with its image and its name may be used twice, so that two
    containers on two machines can look like one machine before and after a reboot. A reboot is
    believed outside containers only. A cloned machine has the name and the id of its original, and
    differs by its network cards. If all machines share one card address, only the times decide: a
    boot proves nothing about a driver that was alive after it.

    :param booted: When this host was booted.
    :param alive: Every moment at which the driver is known to have been alive.
    """
    if not (here.rebooted_since(earlier) and earlier.machine and booted is not None):
        return False
    if not here.pid_space == earlier.pid_space == _INITIAL_PID_SPACE:
        return False
    return all(moment < booted - CLOCK_TOLERANCE for moment in alive if moment is not None)


def _cards() -> Iterator[str]:
    """Yield digests of the network cards' addresses, without bridges, tunnels and loopback."""
    try:
        found = sorted(one for one in INTERFACES.iterdir() if (one / "device").exists())
    except OSError:
        return
    for card in found:
        address = _read(str(card / "address"))
        if address.strip("0:"):
            yield hashlib.sha256(address.encode()).hexdigest()[:_DIGITS]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115  # the target is not a path; pathlib would parse it
    except OSError:
        return ""
