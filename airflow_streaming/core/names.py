"""
Names that become parts of paths, and the paths built from them.

A path in a home is never taken from what was read; it is rebuilt here from a checked stream name,
a checked query name and numbers.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_streaming.exceptions import RecordError, SpecError

NAME_RULE: Final = (
    "Use 1 to 100 letters, digits, '.', '_' or '-', the first one a letter or a digit."
)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NUMBERED: Final = re.compile(r"([0-9]{6,12})\.json")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def check_stream_name(name: str) -> str:
    """
    Return the stream's name if it can be a folder.

    :raises SpecError: with the rule a name has to follow.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise SpecError(f"Stream name {name!r} cannot be used as a folder name. {NAME_RULE}")
    return name


def is_path_part(name: str) -> bool:
    """Tell whether a name may be one folder of a path."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def is_sha256(text: str) -> bool:
    """Tell whether a text is a SHA-256 digest in hexadecimal digits."""
    return _SHA256.fullmatch(text) is not None


def numbered(number: int) -> str:
    """Return ``17`` as ``000017``, so that names sort as numbers do."""
    if number < 1:
        raise RecordError(f"Numbers of records start at 1, found {number}.")
    return f"{number:06d}"


def number_of(file_name: str) -> int | None:
    """Return 17 for ``000017.json`` and None for anything else."""
    match = _NUMBERED.fullmatch(file_name)
    if match is None:
        return None
    # The path is rebuilt from the number, so only the one spelling that leads back to it counts.
    number = int(match[1])
    return number if number > 0 and match[1] == numbered(number) else None


class Layout:
    """
    Where each record of one stream lies, relative to the home.

    :param stream: The stream's name.
    :raises SpecError: when the name cannot be a folder.
    """

    def __init__(self, stream: str) -> None:
        self.root = check_stream_name(stream)

    def folder(self, kind: str) -> str:
        """Return the folder of a numbered kind of record, e.g. ``epochs``."""
        return f"{self.root}/{kind}"

    def record(self, kind: str, number: int) -> str:
        """Return the file of one numbered record, e.g. ``orders/epochs/000017.json``."""
        return f"{self.root}/{kind}/{numbered(number)}.json"

    def application(self, deployment: int, sha256: str) -> str:
        """
        Return the copy of the script that a deployment runs.

        Its digest is in the name: two tasks that race for one deployment number with different
        scripts, or one that died between copy and record, never meet in one file.

        :raises RecordError: not the digest of a script.
        """
        if not is_sha256(sha256):
            raise RecordError(f"{sha256!r} is not a SHA-256 digest in hexadecimal digits.")
        return f"{self.root}/deployments/{numbered(deployment)}/application-{sha256[:16]}.py"

    def epoch(self, epoch: int, name: str) -> str:
        """Return a file of an epoch, e.g. ``orders/epochs/000017/status.json``."""
        return f"{self.root}/epochs/{numbered(epoch)}/{name}"

    def barrier(self, epoch: int) -> str:
        """Return what waits at the barrier, e.g. ``orders/epochs/000017/barrier.json``."""
        return self.epoch(epoch, "barrier.json")

    def standby_order(self, epoch: int, number: int) -> str:
        """Return one order to a standby driver: ``orders/epochs/000017/orders/000001.json``."""
        return self.epoch(epoch, f"orders/{numbered(number)}.json")

    def standby_answer(self, epoch: int, number: int) -> str:
        """Return the answer to an order: ``orders/epochs/000017/orders/000001.done.json``."""
        return self.epoch(epoch, f"orders/{numbered(number)}.done.json")

    def progress(self, epoch: int) -> str:
        """Return the folder of an epoch's progress history."""
        return f"{self.root}/epochs/{numbered(epoch)}/progress"

    def events(self) -> str:
        """Return the folder of the stream's timeline."""
        return f"{self.root}/events"

    def alert_sent(self, number: int) -> str:
        """Return the mark of a delivered alert, e.g. ``orders/alerts/000001.sent.json``."""
        return f"{self.root}/alerts/{numbered(number)}.sent.json"

    def alert_try(self, number: int, attempt: int) -> str:
        """Return one try to deliver an alert, e.g. ``orders/alerts/000001.try1.json``."""
        return f"{self.root}/alerts/{numbered(number)}.try{attempt}.json"

    def checkpoint(self, deployment: int) -> str:
        """Return the folder under which a deployment's queries have their checkpoints."""
        return f"{self.root}/checkpoints/{numbered(deployment)}"

    def output(self, deployment: int) -> str:
        """Return the default output folder of a deployment."""
        return f"{self.root}/output/{numbered(deployment)}"

    def change_end(self, number: int) -> str:
        """Return the end of a change of the checkpoint, e.g. ``orders/changes/000002.end.json``."""
        return f"{self.root}/changes/{numbered(number)}.end.json"

    def change_file(self, number: int, name: str) -> str:
        """Return a record beside a change, e.g. ``orders/changes/000002/stopped.json``."""
        return f"{self.root}/changes/{numbered(number)}/{name}"

    def plan(self, epoch: int, query: str) -> str:
        """
        Return the plan of one query of an epoch, e.g. ``orders/epochs/000017/plans/revenue.json``.

        :raises RecordError: when the query's name cannot be a file name.
        """
        if not is_path_part(query):
            raise RecordError(f"Query name {query!r} cannot be used as a file name. {NAME_RULE}")
        return f"{self.root}/epochs/{numbered(epoch)}/plans/{query}.json"

    def claim(self, deployment: int, query: str) -> str:
        """
        Return the record of which Spark query owns a deployment's checkpoint.

        :raises RecordError: when the query's name cannot be a file name.
        """
        if not is_path_part(query):
            raise RecordError(f"Query name {query!r} cannot be used as a file name. {NAME_RULE}")
        return f"{self.root}/queries/{numbered(deployment)}/{query}.json"
