"""One act on a disk whose n-th change fails: what has to hold, whichever it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_streaming.exceptions import StreamingError
from tests.unit.faults.acts import ACTS
from tests.unit.faults.disk import NEVER, Fault, FaultyDisk, Killed


class Struck(NamedTuple):
    """
    What came of one fault.

    :param changes: Changes that the act made until then.
    :param is_given_up: It ended in another good order, as an upgrade that cannot be backed up does.
    :param problems: What does not hold, a sentence each.
    """

    has_struck: bool
    changes: int
    outcome: Any
    is_given_up: bool
    problems: list[str]


def strike(name: str, folder: Path, at: int = NEVER, fault: Fault = Fault.EIO) -> Struck:
    """Do an act on a disk that fails at a change, look, and do it again on a sound one."""
    folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        act = ACTS[name](folder, patch)
        disk = FaultyDisk(folder, at=at, fault=fault)
        problems = []
        act.live_on(disk)
        try:
            with disk.inserted():
                act.do()
        except Killed:
            pass
        except Exception as err:  # noqa: BLE001 - whatever it is, it is judged
            problems += _said(err, disk, folder)
        problems += _drivers(act)
        disk.is_dead = False
        try:
            act.do()
        except Exception as err:  # noqa: BLE001
            problems.append(f"doing it again ended with {err!r}")
        problems += _drivers(act)
        secrets = getattr(act, "secrets_left", lambda: 0)()
        if secrets > 0:
            problems.append(f"{secrets} files with secrets are left")
        try:
            outcome = act.outcome()
        except Exception as err:  # noqa: BLE001
            outcome = repr(err)
        is_given_up = getattr(act, "may_end", lambda: False)()
    return Struck(disk.has_struck, len(disk.changes), outcome, is_given_up, problems)


def judge(name: str, folder: Path, at: int, fault: Fault, wanted: Any) -> tuple[bool, list[str]]:
    """Return whether the act came to that change, and what does not hold."""
    struck = strike(name, folder, at, fault)
    problems = list(struck.problems)
    if struck.outcome != wanted and (fault.is_kill or not struck.is_given_up):
        problems.append(f"it came to {struck.outcome}, not {wanted}")
    return struck.has_struck, problems


def _said(err: Exception, disk: FaultyDisk, folder: Path) -> list[str]:
    if not disk.has_struck:
        return [f"without a fault it ended with {err!r}"]
    call, path = disk.struck
    problems = []
    if not isinstance(err, StreamingError | AirflowException):
        problems.append(f"{call} of {path} ended with {type(err).__name__}: {err}")
    if str(folder) not in f"{err} {getattr(err, '__notes__', '')}":
        problems.append(f"{call} of {path}: no file is named by {err!r}")
    return problems


def _drivers(act: Any) -> list[str]:
    return [f"{act.drivers()} drivers live"] if act.drivers() > 1 else []
