"""
Two topics as sets of records: which records one lane has and the other lacks.

A topic has no order across partitions, and a sink that writes at least once repeats records. So a record is
what it says: its key, its value and, where asked, its headers; how often it comes does not matter. Both lanes
write on while they are read. A record counts as missing only when the other lane still lacks it in a later
look, which begins where the first one ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from airflow_streaming.model.jobs.comparison import (
    MOST_NAMED,
    CompareReport,
    CompareResult,
    GroupDiffers,
    RowsDiffer,
    SideFound,
)
from airflow_streaming.model.records.cutover import CompareTerms

SAMPLE: Final = 10
_MOST_TEXT: Final = 200
_KEY, _VALUE, _HEADERS = "key", "value", "headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A record of a topic, as its consumer gets it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(slots=True)
class TopicSide:
    """
    What was read of one lane's topic.

    :param topic: Its name.
    :param records: Records that must be in the other lane too, repeats included.
    :param seen: Digests of all records that were read.
    :param required: Digest of each record that must be in the other lane too, with its key.
    """

    topic: str
    records: int = 0
    seen: set[bytes] = field(default_factory=set)
    required: dict[bytes, str] = field(default_factory=dict)

    def take(self, record: TopicRecord, terms: CompareTerms, *, required: bool) -> None:
        """Take a record in."""
        digest = digest_of(record, terms)
        self.seen.add(digest)
        if required:
            self.records += 1
            if digest not in self.required:
                self.required[digest] = key_of(record, terms.keys)

    def lacks(self, other: TopicSide) -> dict[bytes, str]:
        """Return the records of the other lane that this one does not have, with their keys."""
        return {digest: key for digest, key in other.required.items() if digest not in self.seen}


def digest_of(record: TopicRecord, terms: CompareTerms) -> bytes:
    """Return 16 bytes that two records share only when they say the same."""
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
    """Return what a record is called by: its key, or what the key expressions find in it."""
    if not keys:
        return _text(record.key)
    return ", ".join(f"{path}={_found(record, path)}" for path in keys)


def check_keys(terms: CompareTerms) -> str:
    """Return what is wrong with the key expressions of a topic; empty where nothing is."""
    for name, paths in (("keys", terms.keys), ("ignore", terms.ignore)):
        roots = (_KEY, _VALUE, _HEADERS) if name == "keys" else (_VALUE,)
        odd = [path for path in paths if path.partition(".")[0] not in roots]
        if odd:
            return (
                f"CompareTerms.{name} has {odd[0]!r:.80}, and a record of a topic has no such part. Give "
                f"{'key, value.FIELD or headers.NAME' if name == 'keys' else 'value.FIELD'}."
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
    What a comparison of two topics has found.

    :param lacks_blue: Records of green that blue lacks, by digest, with their keys; ``lacks_green`` likewise.
    :param looks: How often the newest records were looked for.
    :param offsets: The ranges that were compared, a sentence each.
    """

    blue: TopicSide
    green: TopicSide
    lacks_blue: Mapping[bytes, str]
    lacks_green: Mapping[bytes, str]
    looks: int
    offsets: tuple[str, ...]


def judge_topics(found: TopicFindings, terms: CompareTerms, at: datetime) -> CompareReport:
    """Return the report of a comparison of two topics."""
    blue, green = found.blue, found.green
    keys = {*blue.required.values(), *green.required.values()}
    differing = {*found.lacks_green.values(), *found.lacks_blue.values()}
    report = CompareReport(
        stream=terms.stream,
        result=CompareResult.INCONCLUSIVE,
        reason="",
        at=at,
        blue=_side(blue),
        green=_side(green),
        groups=len(keys),
        differing=len(differing),
        differences=tuple(_differences(found)),
        full=RowsDiffer(
            blue=len(found.lacks_green), green=len(found.lacks_blue), sample=tuple(_sample(found))
        ),
        notes=(
            *found.offsets,
            (
                "Order and repeats are ignored; records that were in flight were looked for "
                f"{found.looks} times."
            ),
        ),
    )
    result, reason = _result(report, terms)
    return replace(report, result=result, reason=reason)


def _result(report: CompareReport, terms: CompareTerms) -> tuple[CompareResult, str]:
    blue, green, full = report.blue, report.green, report.full or RowsDiffer()
    if not blue.rows and not green.rows:
        return (
            CompareResult.INCONCLUSIVE,
            "Neither topic has a record, so there is nothing to compare.",
        )
    if full.blue or full.green:
        sample = f": {full.sample[0]}" if full.sample else ""
        return CompareResult.DIFFERS, (
            f"{full.blue:,} records are only in blue's topic and {full.green:,} only in green's, of "
            f"{report.differing:,} keys{sample}."
        )
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
    return SideFound(uri=side.topic, rows=side.records, compared=len(side.required))


def _differences(found: TopicFindings) -> Iterator[GroupDiffers]:
    blue, green = _counts(found.lacks_green.values()), _counts(found.lacks_blue.values())
    for key in sorted({*blue, *green})[:MOST_NAMED]:
        yield GroupDiffers(
            bucket="",
            key={"key": key},
            what="records of one lane only",
            blue=str(blue.get(key, 0)),
            green=str(green.get(key, 0)),
        )


def _counts(keys: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return counts


def _sample(found: TopicFindings) -> Iterator[str]:
    for lane, missing in (("blue", found.lacks_green), ("green", found.lacks_blue)):
        for key in sorted(missing.values())[: SAMPLE // 2]:
            yield f"{lane}: {key}"
