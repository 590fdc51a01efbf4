"""
Two topics as sets of records: which records one lane has and the other lacks.

A topic has no order across partitions, and a sink that writes at least once repeats records. Two records are
equal when key, value and, with ``CompareTerms.headers``, headers are equal. Order and repeats are ignored. Both
lanes write during the comparison. A record counts as missing only when the other lane still lacks it in a later
look, which begins where the first look ended.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import (
    MOST_NAMED,
    CompareReport,
    CompareResult,
    GroupDiffers,
    RowsDiffer,
    SideFound,
)

SAMPLE: Final = 10
WINDOW_START: Final = "value.window.start"
"""The time of a record of a window, by the names that Spark gives to the columns of ``window``."""
_MOST_TEXT: Final = 200
_KEY, _VALUE, _HEADERS = "key", "value", "headers"
_ROOTS: Final = {
    "keys": (_KEY, _VALUE, _HEADERS),
    "ignore": (_VALUE,),
    "time": (_KEY, _VALUE, _HEADERS),
}
_EXPECTED: Final = {
    "keys": "key, value.FIELD or headers.NAME",
    "ignore": "value.FIELD",
    "time": "value.FIELD, key or headers.NAME",
}
_MILLISECONDS: Final = 100_000_000_000
"""A number from here on is milliseconds since 1970, a smaller one seconds: until the year 5138."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A record of a topic, as its consumer gets it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(slots=True)
class TopicSide:
    """
    The records that a comparison has read from one lane's topic.

    :param records: Records that must be in the other lane too, repeats included.
    :param seen: Digests of all records that were read.
    :param required: Digest of each record that must be in the other lane too, with its key.
    :param incomplete: Times of the records that were left out, because a lane can lack rows of them; ``left_out``
        is the number of these records.
    :param untimed: Records without a time, where the time decides.
    """

    topic: str
    records: int = 0
    seen: set[bytes] = field(default_factory=set)
    required: dict[bytes, str] = field(default_factory=dict)
    incomplete: set[datetime] = field(default_factory=set)
    left_out: int = 0
    untimed: int = 0

    def take(
        self,
        record: TopicRecord,
        terms: CompareTerms,
        *,
        required: bool,
        complete_from: datetime | None = None,
    ) -> None:
        """
        Add a record.

        :param required: The record must be in the other lane too.
        :param complete_from: A record of an earlier time need not be in the other lane.
        """
        digest = digest_of(record, terms)
        self.seen.add(digest)
        if required and complete_from is not None and self._is_before(record, terms, complete_from):
            return
        if required:
            self.records += 1
            if digest not in self.required:
                self.required[digest] = key_of(record, terms.keys)

    def _is_before(self, record: TopicRecord, terms: CompareTerms, moment: datetime) -> bool:
        at = time_of(record, terms.time or WINDOW_START)
        if at is None:
            self.untimed += 1
        elif at < moment:
            self.incomplete.add(at)
            self.left_out += 1
            return True
        return False

    def lacks(self, other: TopicSide) -> dict[bytes, str]:
        """Return the required records of the other lane that this lane does not have, with their keys."""
        return {digest: key for digest, key in other.required.items() if digest not in self.seen}


def digest_of(record: TopicRecord, terms: CompareTerms) -> bytes:
    """Return 16 bytes that only equal records share."""
    hashed = hashlib.blake2b(digest_size=16)
    parts = [record.key, _without(record.value, terms.ignore)]
    if terms.headers:
        for name, value in sorted(record.headers, key=lambda one: (one[0], one[1] or b"")):
            parts += [name.encode(), value]
    for part in parts:
        # Lengths apart: a key "ab" with a value "c" is not "a" with "bc", and null is not empty.
        hashed.update(b"-" if part is None else b"%d:" % len(part))
        hashed.update(part or b"")
    return hashed.digest()


def key_of(record: TopicRecord, keys: Sequence[str]) -> str:
    """Return a record's key, or the values of the key expressions."""
    if not keys:
        return _text(record.key)
    return ", ".join(f"{path}={_found(record, path)}" for path in keys)


def time_of(record: TopicRecord, path: str) -> datetime | None:
    """Return a record's time: ISO 8601 with a zone, or a number since 1970; ``None`` for anything else."""
    text = _found(record, path).strip('"')
    try:
        if re.fullmatch(r"-?\d{1,16}(\.\d{1,9})?", text):
            number = float(text)
            seconds = number / 1000 if abs(number) >= _MILLISECONDS else number
            return datetime.fromtimestamp(seconds, UTC)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    return found if found.tzinfo is not None else None


def check_keys(terms: CompareTerms) -> str:
    """Return the reason for which a topic has no such key expressions; empty for valid expressions."""
    times = (terms.time,) if terms.time else ()
    for name, paths in (("keys", terms.keys), ("ignore", terms.ignore), ("time", times)):
        odd = [path for path in paths if path.partition(".")[0] not in _ROOTS[name]]
        if odd:
            return (
                f"CompareTerms.{name} has {odd[0]!r:.80}, and a record of a topic has no such part. Give "
                f"{_EXPECTED[name]}."
            )
    return ""


def _found(record: TopicRecord, path: str) -> str:
    root, _, rest = path.partition(".")
    if root == _HEADERS:
        return _text(dict(record.headers).get(rest))
    found: Any = record.key if root == _KEY else record.value
    if rest:
        found = _parsed(found)
        for part in rest.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    return _text(found) if isinstance(found, bytes) or found is None else json.dumps(found)


def _without(value: bytes | None, ignored: Sequence[str]) -> bytes | None:
    """Return a JSON value without some of its fields, in one spelling; any other value as it is."""
    parsed = _parsed(value) if ignored else None
    if not isinstance(parsed, dict):
        return value
    for path in ignored:
        *above, last = path.split(".")[1:] or [""]
        inner: Any = parsed
        for part in above:
            inner = inner.get(part) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner.pop(last, None)
    return json.dumps(parsed, sort_keys=True).encode()


def _parsed(value: bytes | None) -> Any:
    try:
        return json.loads(value or b"null")
    except (ValueError, RecursionError):
        return None


def _text(value: bytes | None) -> str:
    return "null" if value is None else value.decode(errors="replace")[:_MOST_TEXT]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFindings:
    """
    The records of two topics after the last look.

    :param looks: Number of later looks for records in flight.
    :param offsets: The compared ranges, a sentence each.
    :param complete_from: Records of earlier times were left out.
    :param blue_lacks_history: Blue's topic can begin later than green's results.
    """

    blue: TopicSide
    green: TopicSide
    looks: int
    offsets: tuple[str, ...]
    complete_from: datetime | None = None
    blue_lacks_history: bool = False

    @property
    def untimed(self) -> int:
        return self.blue.untimed + self.green.untimed

    @property
    def incomparable(self) -> str:
        """Return a sentence about the records that were left out; empty without such records."""
        windows = len(self.blue.incomplete | self.green.incomplete)
        if not windows or self.complete_from is None:
            return ""
        records = self.blue.left_out + self.green.left_out
        return (
            f" Not comparable: {windows:,} windows that began before green's replay at "
            f"{self.complete_from.isoformat(timespec='seconds')} ({records:,} records)."
        )


def judge_topics(found: TopicFindings, terms: CompareTerms, at: datetime) -> CompareReport:
    """Return the report of a comparison of two topics."""
    blue, green = found.blue, found.green
    keys = {*blue.required.values(), *green.required.values()}
    only_blue, only_green = [*green.lacks(blue).values()], [*blue.lacks(green).values()]
    report = CompareReport(
        stream=terms.stream,
        result=CompareResult.INCONCLUSIVE,
        reason="",
        at=at,
        blue=_side(blue),
        green=_side(green),
        groups=len(keys),
        differing=len({*only_blue, *only_green}),
        differences=tuple(_differences(only_blue, only_green)),
        full=RowsDiffer(
            blue=len(only_blue),
            green=len(only_green),
            sample=tuple(_sample(only_blue, only_green)),
        ),
        notes=(
            *found.offsets,
            (
                "Order and repeats are ignored; records that were in flight were looked for "
                f"{found.looks} times."
            ),
        ),
    )
    result, reason = _result(report, terms, found)
    return replace(report, result=result, reason=reason + found.incomparable)


def _result(
    report: CompareReport, terms: CompareTerms, found: TopicFindings
) -> tuple[CompareResult, str]:
    blue, green, full = report.blue, report.green, report.full or RowsDiffer()
    if not blue.rows and not green.rows:
        return (
            CompareResult.INCONCLUSIVE,
            f"Neither topic has a {'comparable ' if found.incomparable else ''}record, so there is nothing to compare.",
        )
    if full.blue or full.green:
        sample = f": {full.sample[0]}" if full.sample else ""
        said = (
            f"{full.blue:,} records are only in blue's topic and {full.green:,} only in green's, of "
            f"{report.differing:,} keys{sample}."
        )
        if found.untimed:
            return CompareResult.INCONCLUSIVE, (
                f"{said} Green's replay lacks rows of earlier windows, and {found.untimed:,} records have no time at "
                f"{terms.time or WINDOW_START}, so these can be the difference. Give CompareTerms time='value.FIELD' "
                "with the start of the window."
            )
        if found.blue_lacks_history and not full.blue:
            return CompareResult.INCONCLUSIVE, (
                f"{said} Blue's deployment continued the position of an earlier one, so its topic can lack the earlier "
                "results that green has computed again. Start green from a clone of blue's checkpoint."
            )
        return CompareResult.DIFFERS, said
    if min(blue.compared, green.compared) < max(1, terms.least_rows):
        return CompareResult.INCONCLUSIVE, (
            f"Too few records to compare: {blue.compared:,} in blue's topic, {green.compared:,} in "
            f"green's, and {max(1, terms.least_rows):,} are asked for."
        )
    return CompareResult.SAME, (
        f"{green.compared:,} records of {report.groups:,} keys are the same in topics {blue.uri} and "
        f"{green.uri}; repeats: {blue.rows - blue.compared:,} in blue's, "
        f"{green.rows - green.compared:,} in green's."
    )


def _side(side: TopicSide) -> SideFound:
    return SideFound(
        uri=side.topic,
        rows=side.records,
        before=side.left_out,
        timeless=side.untimed,
        compared=len(side.required),
    )


def _differences(only_blue: Sequence[str], only_green: Sequence[str]) -> Iterator[GroupDiffers]:
    blue, green = Counter(only_blue), Counter(only_green)
    for key in sorted({*blue, *green})[:MOST_NAMED]:
        yield GroupDiffers(
            bucket="",
            key={"key": key},
            what="records of one lane only",
            blue=str(blue[key]),
            green=str(green[key]),
        )


def _sample(only_blue: Sequence[str], only_green: Sequence[str]) -> Iterator[str]:
    for lane, keys in (("blue", only_blue), ("green", only_green)):
        for key in sorted(keys)[: SAMPLE // 2]:
            yield f"{lane}: {key}"
