"""A comparison as Markdown, for the person who says whether green becomes live."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from airflow_streaming.core.compatibility.markdown import shortened, visible
from airflow_streaming.core.cutover.comparing.report import (
    CompareReport,
    CompareResult,
    GroupDiffers,
    SideFound,
)

_WORDS: Final = {
    CompareResult.SAME: "The outputs are the same",
    CompareResult.DIFFERS: "The outputs differ",
    CompareResult.INCONCLUSIVE: "The comparison proves nothing",
}
_SPECIAL: Final = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>#|"})


def as_markdown(report: CompareReport, *, level: int = 2) -> str:
    """
    Return a comparison as Markdown: the result, both sides, and every difference that is named.

    :param level: Level of its heading.
    """
    lines = [f"{'#' * level} {_WORDS[report.result]}: {_text(report.stream)}", ""]
    lines += [_text(report.reason), "", *_sides(report)]
    if report.columns:
        lines += ["", "| column | blue | green |", "| --- | --- | --- |"]
        lines += [_row(c.column, c.blue or "missing", c.green or "missing") for c in report.columns]
    if report.differences:
        lines += ["", *_differences(report)]
    if report.full is not None and report.full.sample:
        lines += ["", "Rows that one side has more often:", ""]
        lines += [f"- `{shortened(row).replace('`', chr(39))}`" for row in report.full.sample]
    if report.notes:
        lines += ["", *(f"- {_text(note)}" for note in report.notes)]
    return "\n".join(lines) + "\n"


def _sides(report: CompareReport) -> Iterator[str]:
    yield "| | rows | compared | earlier | later | first | last | output |"
    yield "| --- | ---: | ---: | ---: | ---: | --- | --- | --- |"
    for name, side in (("blue", report.blue), ("green", report.green)):
        yield _side(name, side)


def _side(name: str, side: SideFound) -> str:
    counts = (side.rows, side.compared, side.before, side.after)
    times = (_moment(side.first), _moment(side.last))
    place = side.uri if side.exists else f"{side.uri} (nothing there)"
    return _row(name, *(f"{count:,}" for count in counts), *times, place)


def _differences(report: CompareReport) -> Iterator[str]:
    keys = list(dict.fromkeys(name for found in report.differences for name in found.key))
    yield f"{report.differing:,} of {report.groups:,} buckets and keys differ:"
    yield ""
    yield _row("bucket", *keys, "figure", "blue", "green")
    yield _row(*["---"] * (len(keys) + 2), "---:", "---:")
    for found in report.differences:
        yield _difference(found, keys)


def _difference(found: GroupDiffers, keys: list[str]) -> str:
    values = (found.key.get(name, "") for name in keys)
    return _row(found.bucket, *values, found.what, found.blue or "none", found.green or "none")


def _row(*cells: str) -> str:
    return f"| {' | '.join(_text(cell) for cell in cells)} |"


def _moment(at: datetime | None) -> str:
    return "" if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _text(text: str) -> str:
    # What comes out of an output must not become markup or a link.
    return " ".join(visible(text).split()).translate(_SPECIAL)
