"""
Names that become parts of paths, the paths built from them, and the two lanes of a stream.

A path in a home is never read from a record; it is rebuilt here from a checked stream name, a
checked query name and numbers.

A lane is a whole stream in the home: deployments, epochs, checkpoints, output and switches of its
own. Lanes that run side by side share no folder, so every guarantee for a stream, above all a
single writer, holds for each lane separately. The first lane has the stream's name and the color
blue; the other one, which exists from the first cutover on, has ``.green`` behind the name. The
stream's live pointer names the lane that consumers read and keep-alive tasks keep alive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from string import Formatter
from typing import TYPE_CHECKING, Final, TypeVar

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.model.codec import shown

if TYPE_CHECKING:
    from airflow_streaming.model.wire import Record

R = TypeVar("R", bound="Record")
_MOST: Final = 100
"""Characters of a folder's name."""
GREEN_SUFFIX: Final = ".green"
STANDBY_SUFFIX: Final = ".standby"
"""Behind the name of a lane: where the records of its standby drivers lie, see ``standby_of``."""
_SUFFIXES: Final = ("", GREEN_SUFFIX, STANDBY_SUFFIX, f"{GREEN_SUFFIX}{STANDBY_SUFFIX}")
"""Suffixes of a stream's name in the names of its folders: of its lanes, and of their standbys."""
MAX_STREAM_NAME: Final = _MOST - max(map(len, _SUFFIXES))
"""Characters of a stream's name: the longest name of a folder that is made from it is a name, too."""
_RULE: Final = (
    "Use 1 to {most} letters, digits, '.', '_' or '-', the first one a letter or a digit, and no two "
    "dots in a row"
)
NAME_RULE: Final = f"{_RULE.format(most=_MOST)}."
STREAM_RULE: Final = (
    f"{_RULE.format(most=MAX_STREAM_NAME)} or a dot at the end: the stream has folders of this name "
    f"with {GREEN_SUFFIX!r} and {STANDBY_SUFFIX!r} behind it, too."
)
MAX_NUMBER: Final = 999_999_999
"""
Largest number of a record. At one a second it takes thirty years: a larger number is not ours.
"""
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_MOST - 1}}}")
_DIGITS_OF_NUMBER: Final = 6
"""Digits to which a number is padded."""
_NUMBERED: Final = re.compile(r"([0-9]{6,12})\.json")
_DIGITS: Final = re.compile(r"([0-9]{1,200})\.json")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")

FLEET: Final = "_fleet"
"""The folder of a home with the records of many streams together; no stream can have this name."""
PLACES: Final[Mapping[str, str]] = {
    "alert": "alerts/{number}.json",
    "alert_sent": "alerts/{number}.sent.json",
    "alert_try": "alerts/{number}.try{attempt:d}.json",
    "barrier": "epochs/{epoch}/barrier.json",
    "batch_pause": "batch_pauses/{number}.json",
    "batch_pause_end": "batch_pauses/{number}.end.json",
    "campaign": "campaigns/{number}.json",
    "campaign_step": "campaigns/{campaign}/steps/{number}.json",
    "change": "changes/{number}.json",
    "change_end": "changes/{number}.end.json",
    "circuit": "circuit/{number}.json",
    "cutover_check": "changes/{change}/checks/{step}-{name}.json",
    "cutover_terms": "changes/{change}/terms-{digest}.json",
    "cutover_transition": "changes/{change}/steps/{number}.json",
    "death": "epochs/{epoch}/death.json",
    "deployment": "deployments/{number}.json",
    "deviation": "deviations/{number}.json",
    "desired": "desired/{number}.json",
    "disaster_drill": "drills/{number}.json",
    "driver_log": "epochs/{epoch}/log.json",
    "epoch": "epochs/{number}.json",
    "event": "events/{file}.json",
    "exit": "epochs/{epoch}/exit.json",
    "freshness": "freshness/{number}.json",
    "launch": "epochs/{epoch}/launch.json",
    "live": "live/{number}.json",
    "maintenance": "maintenances/{number}.json",
    "owner": "owners/{number}.json",
    "query_claim": "queries/{deployment}/{query}.json",
    "query_plan": "epochs/{epoch}/plans/{query}.json",
    "run_report": "run_reports/{number}.json",
    "removal": "removals/{number}.json",
    "removal_end": "removals/{number}.end.json",
    "restart_decision": "epochs/{epoch}/restart.json",
    "sink_repair": "repairs/{number}.json",
    "sink_repair_end": "repairs/{number}.end.json",
    "sink_repair_undo": "repairs/{number}.undo.json",
    "sink_repair_undo_end": "repairs/{number}.undo.end.json",
    "size_change": "sizes/{number}.json",
    "size_change_end": "sizes/{number}.end.json",
    "standby_answer": "epochs/{epoch}/orders/{number}.done.json",
    "standby_order": "epochs/{epoch}/orders/{number}.json",
    "status": "epochs/{epoch}/status.json",
    "stop": "epochs/{epoch}/stop.json",
    "stream_recovery": "drills/{drill}/streams/{name}.json",
    "supervision": "supervision/{number}.json",
    "upgrade_terms": "changes/{change}/terms-{digest}.json",
    "upgrade_transition": "changes/{change}/steps/{number}.json",
    "window_claim": "windows/{series}/{number}.json",
    "window_claim_end": "windows/{series}/{number}.end.json",
    "window_request": "window_requests/{series}/{number}.json",
}
"""
The catalog of a home: the path of each kind of record in its stream's folder.

Names in braces are fields of the record, or separate arguments.
"""
_NAMED: Final = {"query": "Query name", "name": "Name", "series": "Window series"}
"""Fields that are names, for the message about a name that cannot be a file name."""


def check_stream_name(name: str) -> str:
    """
    Return the name of a stream, or of one of its lanes, if all folders of the stream can be made.

    :raises SpecError: with the rule a stream's name must follow.
    """
    stream = base_of(name.removesuffix(STANDBY_SUFFIX))
    if not all(map(is_path_part, folders_of(stream))):
        raise SpecError(f"Stream name {name!r:.200} cannot be used for folders. {STREAM_RULE}")
    return name


def check_folder_name(name: str) -> str:
    """
    Return a name if it can be one folder of a path.

    :raises SpecError: with the rule a name must follow.
    """
    if not is_path_part(name):
        raise SpecError(f"{name!r:.200} cannot be used as a folder name. {NAME_RULE}")
    return name


def is_path_part(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and ".." not in name


def check_names(what: str, names: Sequence[str]) -> None:
    """
    Check the names in a list.

    :param what: The list, for the message.
    :raises SpecError: one is empty, or there twice.
    """
    if "" in names:
        raise SpecError(f"{what} has an empty name, which nothing is called; take it out.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"{what} has {twice!r:.80} twice; name it once.")


def check_place(what: str, place: str) -> None:
    """
    Check that a path or URI that was read can be one.

    :param what: Its field, for the message.
    :raises ValueError: it has a NUL character, or half a surrogate pair that stands for no byte of a
        name: no call of the system can be made with it.
    """
    if "\0" in place:
        raise ValueError(f"{what} {place!r:.80} has a NUL character in it.")
    try:
        # As Python names files whose names are not UTF-8.
        place.encode(errors="surrogateescape")
    except UnicodeEncodeError as err:
        raise ValueError(f"{what} {place!r:.80} has half a character in it.") from err


def is_sha256(text: str) -> bool:
    """Tell whether a text is a SHA-256 digest in hexadecimal digits."""
    return _SHA256.fullmatch(text) is not None


def older_part(log: str) -> str:
    """Return the name of the file that a full log of a driver was copied to: ``000017.log.1``."""
    return f"{log}.1"


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
    number, digits = int(match[1]), match[1]
    is_padded = len(digits) == _DIGITS_OF_NUMBER or digits[0] != "0"
    return number if 0 < number <= MAX_NUMBER and is_padded else None


def is_absurd(file_name: str) -> bool:
    """Tell whether a name is a numbered record's, but with an impossible number."""
    match = _DIGITS.fullmatch(file_name)
    return match is not None and len(match[1]) > len(str(MAX_NUMBER))


@cache
def place_fields(kind: str) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in Formatter().parse(PLACES[kind]) if name)


class _Number(int):
    """A number in a place: padded, or plain where the place asks for ``:d``."""

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else numbered(int(self))


class Layout:
    """
    Where each record of one stream lies, relative to the home.

    :raises SpecError: when the name cannot be a folder.
    """

    def __init__(self, stream: str) -> None:
        self.root = check_folder_name(stream)

    def place(self, record: type[Record], **fields: int | str) -> str:
        """
        Return the file of a record, e.g. ``orders/epochs/000017.json``.

        :param record: Its class.
        :param fields: The fields of its place, see ``PLACES``.
        :raises RecordError: an impossible number, or a name that cannot be a file name.
        """
        parts = {name: self._part(name, value) for name, value in fields.items()}
        return f"{self.root}/{PLACES[record.KIND].format_map(parts)}"

    def parse(self, record: type[R], data: bytes, **fields: int | str) -> R:
        """
        Read the record of a place.

        :param fields: As for ``place``.
        :raises RecordError: malformed, or of another stream, number or name.
        """
        found, beside = record.stored(data)
        self.check(found, beside, **fields)
        return found

    def bytes_of(self, record: Record, **beside: int | str) -> bytes:
        """
        Return a record as it is stored in this stream's folder.

        :param beside: Fields of its place that its class does not have, so that a reader can compare them.
        :raises RecordError: no reader would take it.
        """
        return record.to_bytes(self.root, **beside)

    def check(self, record: Record, beside: Mapping[str, object], **fields: int | str) -> None:
        """
        Check that a record belongs to this stream and to the place it was read from.

        A record is created once, so a copied, renamed or forged file is the only reason to differ.

        :param beside: Values of its bytes beside the fields of its class, the stream among them. Earlier
            releases wrote no other of them.
        :param fields: As for ``place``.
        :raises RecordError: naming the field.
        """
        found: dict[str, tuple[object, object]] = {"stream": (beside.get("stream"), self.root)}
        for name, wanted in fields.items():
            found[name] = (getattr(record, name, beside.get(name, wanted)), wanted)
        for name, (seen, value) in found.items():
            if seen != value:
                raise _misplaced(name, seen, value, "home")

    def folder(self, kind: str | type[Record], **fields: int) -> str:
        """Return a folder, e.g. ``epochs``, or the folder of a kind of numbered record."""
        if isinstance(kind, str):
            return f"{self.root}/{kind}"
        place = PLACES[kind.KIND].rpartition("/")[0]
        return f"{self.root}/{place.format_map({k: _Number(v) for k, v in fields.items()})}"

    def _part(self, name: str, value: int | str) -> int | str:
        if isinstance(value, int):
            return _Number(value)
        if name == "digest":
            if not is_sha256(value):
                raise RecordError(
                    f"A change of stream {self.root!r} names no terms. It has none, or its record was "
                    "changed."
                )
            return value[:16]
        if not is_path_part(value):
            raise RecordError(
                f"{_NAMED.get(name, name)} {value!r} cannot be used as a file name. {NAME_RULE}"
            )
        return value

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
        """Return a path in an epoch's folder, e.g. ``orders/epochs/000017/orders``."""
        return f"{self.root}/epochs/{numbered(epoch)}/{name}"

    def progress(self, epoch: int) -> str:
        return self.epoch(epoch, "progress")

    def summary(self, epoch: int) -> str:
        """Return the folder of an epoch's history in buckets of minutes."""
        return self.epoch(epoch, "summary")

    def checkpoint(self, deployment: int) -> str:
        """Return the folder under which a deployment's queries have their checkpoints."""
        return f"{self.root}/checkpoints/{numbered(deployment)}"

    def output(self, deployment: int) -> str:
        return f"{self.root}/output/{numbered(deployment)}"


class FleetLayout(Layout):
    """Where the records of many streams together lie."""

    def __init__(self) -> None:
        self.root = FLEET


def check_named(record: Record, field: str, value: str) -> None:
    """
    Check that a record of a backup store belongs under the name that it was read from.

    :raises RecordError: naming the field.
    """
    if getattr(record, field) != value:
        raise _misplaced(field, getattr(record, field), value, "store")


def _misplaced(field: str, seen: object, value: object, root: str) -> RecordError:
    return RecordError(
        f"its {field} is {shown(seen)}, not {shown(value)}. Move the file out of the {root}."
    )


class Color(StrEnum):
    """The name of a lane for people."""

    BLUE = "blue"
    GREEN = "green"


def folders_of(stream: str) -> tuple[str, ...]:
    """Return the names of all folders that a home may have for a stream, its own first."""
    return tuple(f"{stream}{suffix}" for suffix in _SUFFIXES)


def is_lane(name: str) -> bool:
    """Tell whether a name is a stream's or its green lane's, as a folder of a home is."""
    try:
        check_is_stream(check_stream_name(base_of(name)))
    except SpecError:
        return False
    return True


def base_of(lane: str) -> str:
    """Return the stream that a lane belongs to."""
    return lane.removesuffix(GREEN_SUFFIX)


def color_of(lane: str) -> Color:
    return Color.GREEN if lane.endswith(GREEN_SUFFIX) else Color.BLUE


def other_lane(lane: str) -> str:
    """Return the lane beside this one, whichever of the two it is."""
    return base_of(lane) if color_of(lane) is Color.GREEN else f"{lane}{GREEN_SUFFIX}"


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
    if color_of(name) is Color.GREEN:
        raise SpecError(
            f"Stream name {name!r} ends with {GREEN_SUFFIX!r}, which is kept for the other lane of "
            f"stream {base_of(name)!r}. Choose another name; to act on a stream whose green lane is "
            "live, name the stream itself."
        )
    return name
