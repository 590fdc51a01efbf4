"""
Names that become parts of paths, the paths built from them, and the two lanes of a stream.

A path in a home is never taken from what was read; it is rebuilt here from a checked stream name,
a checked query name and numbers.

A lane is a whole stream in the home: deployments, epochs, checkpoints, output and switches of its
own. What runs side by side shares no folder, so whatever is promised for a stream, one writer above
all, holds for each lane separately. The first lane has the stream's name and the colour blue; the
other one, which exists from the first cutover on, has ``.green`` behind the name. Which of the two
consumers read, and keep-alive tasks keep alive, is what the stream's live pointer says.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from airflow_streaming.exceptions import RecordError, SpecError

NAME_RULE: Final = (
    "Use 1 to 100 letters, digits, '.', '_' or '-', the first one a letter or a digit."
)
MAX_NUMBER: Final = 999_999_999
"""Of a record. One a second would take thirty years to get there: what is larger was not given by us."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NUMBERED: Final = re.compile(r"([0-9]{6,12})\.json")
_DIGITS: Final = re.compile(r"([0-9]{1,200})\.json")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def check_stream_name(name: str) -> str:
    """
    Return the stream's name if it can be a folder.

    :raises SpecError: with the rule a name must follow.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise SpecError(f"Stream name {name!r} cannot be used as a folder name. {NAME_RULE}")
    return name


def is_path_part(name: str) -> bool:
    """Tell whether a name may be one folder of a path."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def check_place(what: str, place: str) -> None:
    """
    Check that a path or URI that was read can be one.

    :param what: Its field, for the message.
    :raises ValueError: it has a NUL character, with which no call of the system can be made.
    """
    if "\0" in place:
        raise ValueError(f"{what} {place!r:.80} has a NUL character in it.")


def is_sha256(text: str) -> bool:
    """Tell whether a text is a SHA-256 digest in hexadecimal digits."""
    return _SHA256.fullmatch(text) is not None


def numbered(number: int) -> str:
    """Return ``17`` as ``000017``, so that names sort as numbers do."""
    if number < 1:
        raise RecordError(f"Numbers of records start at 1, found {number}.")
    if number > MAX_NUMBER:
        raise RecordError(
            f"{number} is too large for the number of a record; the largest is {MAX_NUMBER}. Look "
            "for the record before it, a number that cannot have been reached by counting, and move it out of the "
            "home."
        )
    return f"{number:06d}"


def number_of(file_name: str) -> int | None:
    """Return 17 for ``000017.json`` and None for anything else."""
    match = _NUMBERED.fullmatch(file_name)
    if match is None:
        return None
    # The path is rebuilt from the number, so only the one spelling that leads back to it counts.
    number = int(match[1])
    return number if 0 < number <= MAX_NUMBER and match[1] == numbered(number) else None


def is_absurd(file_name: str) -> bool:
    """Tell whether a name is that of a numbered record, but for a number beyond belief."""
    match = _DIGITS.fullmatch(file_name)
    return match is not None and len(match[1]) > len(str(MAX_NUMBER))


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

    def summary(self, epoch: int) -> str:
        """Return the folder of an epoch's history in buckets of minutes."""
        return f"{self.root}/epochs/{numbered(epoch)}/summary"

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

    def terms(self, change: int, digest: str) -> str:
        """
        Return the terms of a change, named after their digest.

        :raises RecordError: it is no digest, so that the change has no terms.
        """
        if not is_sha256(digest):
            raise RecordError(
                f"Change {change} of stream {self.root!r} names no terms. It has none, or its record "
                "was changed."
            )
        return self.change_file(change, f"terms-{digest[:16]}.json")

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


GREEN_SUFFIX: Final = ".green"
STANDBY_SUFFIX: Final = ".standby"
"""Behind the name of a lane: where the records of its standby drivers lie, see ``standby_of``."""


class Colour(StrEnum):
    """What a lane is called by people."""

    BLUE = "blue"
    GREEN = "green"


def base_of(lane: str) -> str:
    """Return the stream that a lane belongs to."""
    return lane.removesuffix(GREEN_SUFFIX)


def colour_of(lane: str) -> Colour:
    """Return the colour of a lane."""
    return Colour.GREEN if lane.endswith(GREEN_SUFFIX) else Colour.BLUE


def other_lane(lane: str) -> str:
    """Return the lane beside this one, whichever of the two it is."""
    return base_of(lane) if colour_of(lane) is Colour.GREEN else f"{lane}{GREEN_SUFFIX}"


def standby_of(lane: str) -> str:
    """
    Return where the standby drivers of a lane have their records.

    It is laid out as a stream is, with epochs only: a standby driver has the right to wait, counted
    and fenced like the right to write, and no deployment or checkpoint of its own.
    """
    return f"{lane}{STANDBY_SUFFIX}"


def check_is_stream(name: str) -> str:
    """
    Return a name that a dag may give its stream.

    :raises SpecError: it is kept for the other lane of a stream, or for standby drivers.
    """
    if name.endswith(STANDBY_SUFFIX):
        raise SpecError(
            f"Stream name {name!r} ends with {STANDBY_SUFFIX!r}, which is kept for the standby "
            f"drivers of stream {name.removesuffix(STANDBY_SUFFIX)!r}. Choose another name."
        )
    if colour_of(name) is Colour.GREEN:
        raise SpecError(
            f"Stream name {name!r} ends with {GREEN_SUFFIX!r}, which is kept for the other lane of "
            f"stream {base_of(name)!r}. Choose another name; to act on a stream whose green lane is "
            "live, name the stream itself."
        )
    return name
