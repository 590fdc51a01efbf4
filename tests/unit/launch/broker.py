"""
Starts, finds and kills drivers on behalf of another process, as a command behind ``ssh`` would.

A request comes as JSON on the standard input and the answer goes to the standard output. It knows
the kernel's files only, so that it needs nothing but Python where it runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")


def start(order: dict[str, Any]) -> dict[str, Any]:
    log = Path(order["log"])
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        driver = subprocess.Popen(
            order["command"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=order["environment"],
            start_new_session=True,
        )
    return {"leader": driver.pid}


def look(order: dict[str, Any]) -> dict[str, Any]:
    found, mark = {}, f"\0--token\0{order['token']}\0".encode()
    for name in (folder.name for folder in Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(OSError):
            facts = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            if facts[0] == "Z" or int(name) == os.getpid():
                continue
            carries = mark in Path(f"/proc/{name}/cmdline").read_bytes()
            seconds = sum(map(int, facts[11:15])) / TICKS
            found[int(name)] = (carries, int(facts[1]), facts[0], seconds)
    members = {pid for pid, facts in found.items() if facts[0]}
    while more := {pid for pid, facts in found.items() if facts[1] in members} - members:
        members |= more
    return {
        "members": sorted(members),
        "stopped": any(found[pid][2] in "Tt" for pid in members),
        "cpu_seconds": sum(found[pid][3] for pid in members),
    }


def kill(order: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + 10
    while (seen := look(order))["members"] and time.monotonic() < deadline:
        for pid in seen["members"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return seen


def tail(order: dict[str, Any]) -> dict[str, Any]:
    return {"text": Path(order["log"]).read_bytes()[-order["most"] :].decode()}


if __name__ == "__main__":
    acts = {"start": start, "look": look, "kill": kill, "tail": tail}
    json.dump(acts[sys.argv[1]](json.load(sys.stdin)), sys.stdout)
