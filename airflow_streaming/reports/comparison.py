"""The report of a comparison of two outputs: the result, both sides, and every difference found."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from airflow_streaming.model.jobs.comparison import (
    CompareReport,
    CompareResult,
    GroupDiffers,
    SideFound,
)
from airflow_streaming.reports.escape import shortened
from airflow_streaming.reports.report import (
    Block,
    Heading,
    Items,
    Paragraph,
    Report,
    Tone,
    Verdict,
    Words,
    code,
    report_of,
    table,
    value,
)

_WORDS: Final = {
    CompareResult.SAME: ("same", Tone.GOOD),
    CompareResult.DIFFERS: ("differs", Tone.BAD),
    CompareResult.INCONCLUSIVE: ("inconclusive", Tone.UNKNOWN),
}


def comparison_report(found: CompareReport) -> Report:
    return report_of(_blocks(found))


def _blocks(found: CompareReport) -> Iterator[Block]:
    word, tone = _WORDS[found.result]
    yield Heading(("Comparison of ", value(found.stream)), 2)
    yield Verdict(subject="Result", word=word, tone=tone, reason=found.reason)
    yield table(
        ("side", "rows", "compared", "earlier", "later", "first", "last", "output"),
        (_side(name, side) for name, side in (("blue", found.blue), ("green", found.green))),
        "rows, compared, earlier, later",
    )
    if found.columns:
        yield table(
            ("column", "blue", "green"),
            (_values(c.column, c.blue or "missing", c.green or "missing") for c in found.columns),
        )
    if found.differences:
        yield from _differences(found)
    if found.full is not None and found.full.sample:
        yield Paragraph("Rows that one side has more often:")
        yield Items(items=tuple(code(shortened(row)) for row in found.full.sample))
    if found.notes:
        yield Items(items=found.notes)


def _side(name: str, side: SideFound) -> tuple[Words, ...]:
    counts = (side.rows, side.compared, side.before, side.after)
    times = (_moment(side.first), _moment(side.last))
    place = side.uri if side.exists else f"{side.uri} (nothing there)"
    return name, *(f"{count:,}" for count in counts), *times, value(place)


def _differences(found: CompareReport) -> Iterator[Block]:
    keys = list(dict.fromkeys(name for one in found.differences for name in one.key))
    yield Paragraph(f"{found.differing:,} of {found.groups:,} buckets and keys differ:")
    yield table(
        ("bucket", *keys, "figure", "blue", "green"),
        (_difference(one, keys) for one in found.differences),
        "blue, green",
    )


def _difference(found: GroupDiffers, keys: list[str]) -> tuple[Words, ...]:
    of_keys = (found.key.get(name, "") for name in keys)
    return _values(found.bucket, *of_keys, found.what, found.blue or "none", found.green or "none")


def _values(*text: str) -> tuple[Words, ...]:
    return tuple(map(value, text))


def _moment(at: datetime | None) -> str:
    return "" if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")
