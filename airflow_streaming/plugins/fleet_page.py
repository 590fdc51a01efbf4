"""
A page of the fleet: search, filter and order of the rows of all streams that a user may see.

The server selects the rows, so that a browser gets 50 rows of a home with thousands of streams.
This module does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from airflow_streaming.supervision.stream_status import Level

ROWS: Final = 50
"""Rows of one page."""
MOST_GROUPS: Final = 40
"""Groups, and keys of labels, of one page."""
READING: Final = "reading"
"""State of a row of which nothing fresh has been seen yet."""
LEVEL_NAMES: Final[Mapping[Level, str]] = {
    Level.DOWN: "down",
    Level.BAD: "not working",
    Level.WARN: "attention",
    Level.BUSY: "in transition",
    Level.WELL: "well",
    Level.OFF: "off",
}
"""Levels as the page shows them, and as a search finds them."""
_URGENT: Final = frozenset({Level.DOWN.value, Level.BAD.value, Level.WARN.value})
_WAITS: Final = 2.5
"""Rank of a change that waits for a user: behind bad streams, before transitions."""
Row = Mapping[str, Any]
Column = Literal[
    "state",
    "stream",
    "flow",
    "backlog",
    "watermark",
    "batch",
    "restarts",
    "backup",
    "version",
    "change",
]

_SEARCHED: Final = (
    "stream",
    "title",
    "dag",
    "state",
    "reason",
    "spark",
    "launcher",
    "lane",
    "color",
    "home",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """
    The selection of one page.

    :param text: Words that a row must have, in any of its texts.
    :param level: The only level to include; empty for all.
    :param dag: The only DAG to include; empty for all.
    :param label: The only label to include, such as ``team=payments``; empty for all.
    :param group: Key of the labels by which streams are counted; empty for none.
    :param is_reversed: The last row comes first.
    :param page: Number of the page, from 1. A number beyond the last page means the last page.
    """

    text: str = ""
    level: Level | None = None
    dag: str = ""
    label: str = ""
    group: str = ""
    column: Column = "state"
    is_reversed: bool = False
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelGroup:
    """
    The streams with one label.

    :param urgent: Streams that are down, not working or in need of attention.
    """

    label: str
    streams: int
    urgent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPage:
    """
    The rows of one page, and the figures of all rows.

    :param total: Rows that the user may see.
    :param found: Rows that match the search and the filters.
    :param counts: Rows of all streams, by level.
    :param keys: Keys of labels, with the number of their streams.
    :param groups: Streams by label of the key that the view names, the worst group first.
    :param reading: Streams without a recent look.
    :param oldest: Seconds since the oldest look at a stream.
    :param away: Why homes do not answer.
    """

    rows: Sequence[Row]
    page: int
    pages: int
    total: int
    found: int
    counts: Mapping[str, int]
    reading: int
    oldest: float | None
    away: Sequence[str]
    keys: Mapping[str, int] = field(default_factory=dict)
    groups: Sequence[LabelGroup] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the page as the browser gets it."""
        return {
            "streams": [*self.rows],
            "page": self.page,
            "pages": self.pages,
            "total": self.total,
            "found": self.found,
            "counts": dict(self.counts),
            "reading": self.reading,
            "oldest": self.oldest,
            "away": [*self.away],
            "keys": dict(self.keys),
            "groups": [asdict(group) for group in self.groups],
        }


def page_of(rows: Sequence[Row], view: FleetView) -> FleetPage:
    """Return the rows that a page shows, the most urgent first by default."""
    terms = view.text.lower().split()
    found = [row for row in rows if _is_wanted(row, view, terms)]
    found.sort(key=lambda row: row["stream"])
    found.sort(key=_ORDERS[view.column])
    if view.is_reversed:
        found.reverse()
    pages = max(1, -(-len(found) // ROWS))
    page = min(view.page, pages)
    ages = [row["age"] for row in rows if row["age"] is not None]
    return FleetPage(
        rows=found[(page - 1) * ROWS : page * ROWS],
        page=page,
        pages=pages,
        total=len(rows),
        found=len(found),
        counts=Counter(row["level"] for row in rows),
        reading=sum(row["state"] == READING for row in rows),
        oldest=max(ages, default=None),
        away=sorted({row["away"] for row in rows if row["away"]}),
        keys=_keys_of(rows),
        groups=groups_of(rows, view.group) if view.group else (),
    )


def groups_of(rows: Sequence[Row], key: str) -> list[LabelGroup]:
    """Return the labels of a key with their streams; a group with bad streams comes first."""
    streams, urgent = Counter[str](), Counter[str]()
    for row in rows:
        for label in row.get("labels") or ():
            if label.partition("=")[0] == key:
                streams[label] += 1
                urgent[label] += row["level"] in _URGENT
    groups = [
        LabelGroup(label=label, streams=count, urgent=urgent[label])
        for label, count in streams.items()
    ]
    groups.sort(key=lambda one: (-one.urgent, -one.streams, one.label))
    return groups[:MOST_GROUPS]


def _keys_of(rows: Sequence[Row]) -> dict[str, int]:
    keys = Counter(label.partition("=")[0] for row in rows for label in row.get("labels") or ())
    return dict(sorted(keys.most_common(MOST_GROUPS)))


def _is_wanted(row: Row, view: FleetView, terms: Sequence[str]) -> bool:
    if view.level is not None and row["level"] != view.level:
        return False
    if view.dag and row["dag"] != view.dag:
        return False
    if view.label and view.label not in (row.get("labels") or ()):
        return False
    if not terms:
        return True
    text = _text_of(row)
    return all(term in text for term in terms)


def _text_of(row: Row) -> str:
    texts = [row.get(name) for name in _SEARCHED]
    change = row.get("change") or {}
    level = LEVEL_NAMES[Level(row["level"])]
    more = [row["state"].replace("_", " "), level, change.get("kind")]
    more += row.get("labels") or []
    more += ["external"] if row.get("external") else []
    return "\n".join(text for text in (*texts, *more) if text).lower()


def _moment(text: Any) -> float:
    return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else 0.0


def _figure(name: str) -> Callable[[Row], float]:
    def order(row: Row) -> float:
        value = row.get(name)
        return 1.0 if value is None else -float(value)

    return order


def _of(name: str, part: str, row: Row) -> Any:
    return (row.get(name) or {}).get(part)


def _backlog(row: Row) -> float:
    records = _of("backlog", "records", row)
    return 1.0 if records is None else -float(records)


def _place(row: Row) -> float:
    change = row.get("change") or {}
    is_due, rank = change.get("waits") or change.get("overdue"), float(row["rank"])
    return min(rank, _WAITS) if is_due else rank


_ORDERS: Final[Mapping[Column, Callable[[Row], Any]]] = {
    "state": lambda row: (_place(row), -_moment(row.get("since"))),
    "stream": lambda row: row["stream"],
    "flow": _figure("input_rate"),
    "backlog": _backlog,
    "watermark": _figure("watermark_delay_s"),
    "batch": _figure("batch_ms"),
    "restarts": _figure("restarts_24h"),
    "backup": lambda row: _moment(_of("backup", "at", row)),
    "version": lambda row: (row.get("spark") or "", row.get("deployment") or 0),
    "change": lambda row: -_moment(_of("event", "at", row)),
}
