"""
Keeping a short Spark job from the memory and the environment of other processes.

Preflight, rehearsal and drill run a script in the worker. Linux shows the environment of each process of
a user to that user's other processes, and Airflow's processes have its keys in theirs. Two walls:

- The job gets a namespace of processes of its own, by ``unshare`` of util-linux, where the system allows
  it to this user. It sees no other process then, and is gone with its first process. Most containers and
  some distributions do not allow it.
- The process that runs the job cannot be read meanwhile, not even by its own user. This holds everywhere
  on Linux and covers that process alone: a scheduler or supervisor of the same user stays readable.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.launch.java import OPTIONS_VARIABLE

log: Final = logging.getLogger(__name__)
OFF_VARIABLE: Final = "AIRFLOW_STREAMING_JOB_ISOLATION"
"""``off`` in the worker's environment leaves a job among the processes of its user."""
_PROCESSES: Final = ("--pid", "--fork", "--kill-child", "--mount-proc")
_FIRST: Final = ("sh", "-c", '"$@"; exit $?', "job")
"""The first process of a namespace, which no signal from inside ends; a JVM there could not kill itself."""
_PR_GET_DUMPABLE: Final = 3
_PR_SET_DUMPABLE: Final = 4
_PROBE_SECONDS: Final = 10.0
_NO_SHARED_FIGURES: Final = "-XX:-UsePerfData"
"""JVMs of two namespaces have the same process id, which names their files of figures in /tmp."""
_lock: Final = threading.Lock()
_blocks = 0
_before = 1
"""Whether the process could be read before the first block: Airflow's own tasks cannot."""


def isolated(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """
    Return a command and its environment so that it sees no other process, where that is possible.

    :raises FileNotFoundError: the program is missing. Inside the namespace only an exit code would tell.
    """
    prefix = namespace_command()
    if not prefix:
        return list(command), dict(environment)
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    options = f"{environment.get(OPTIONS_VARIABLE, '')} {_NO_SHARED_FIGURES}".strip()
    return [*prefix, *_FIRST, *command], {**environment, OPTIONS_VARIABLE: options}


def namespace_command() -> tuple[str, ...]:
    """Return the front of a command that starts a namespace of processes; empty where none is allowed."""
    if os.environ.get(OFF_VARIABLE, "").lower() == "off":
        return ()
    return _tried(os.geteuid() == 0)


@functools.cache
def _tried(is_root: bool) -> tuple[str, ...]:
    program = shutil.which("unshare")
    if program is None:
        return ()
    # A namespace of users would take the right to read others' files from root, who needs none.
    users = () if is_root else ("--user", "--map-current-user")
    prefix = (program, *users, *_PROCESSES, "--")
    try:
        subprocess.run([*prefix, "true"], check=True, capture_output=True, timeout=_PROBE_SECONDS)
    except (OSError, subprocess.SubprocessError) as err:
        log.info(
            "Spark jobs of this worker see the other processes of their user: %s. Run tasks as a user of "
            "their own (run_as_user) to keep scripts from Airflow's environment.",
            err,
        )
        return ()
    return prefix


@contextlib.contextmanager
def unreadable_memory() -> Iterator[None]:
    """Keep other processes of this user from the memory and environment of this one, in this block."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _blocks, _before
    with _lock:
        if _blocks == 0:
            _before = _prctl(_PR_GET_DUMPABLE, 0)
            _prctl(_PR_SET_DUMPABLE, 0)
        _blocks += 1


def _leave() -> None:
    global _blocks
    with _lock:
        _blocks -= 1
        # Linux lets a process set 0 and 1 only.
        if _blocks == 0 and _before == 1:
            _prctl(_PR_SET_DUMPABLE, 1)


def _prctl(option: int, value: int) -> int:
    if sys.platform != "linux":
        return 1
    return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0))
