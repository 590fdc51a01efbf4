"""
Whether green writes a place that its own stream's blue lane, or another stream, writes.

The module compares every sink of green with every sink of blue, because a renamed query still writes its
old topic. A sink without a named place yields a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import rule_named
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.spark.sink_place import (
    Shared,
    SinkPlace,
    keeps_nothing,
    place_of,
    shared,
)
from airflow_streaming.model.uris import lies_in, overlap

OUTPUT_SHARED: Final = rule_named("cutover.output_shared")
OUTPUT_OF_OTHER: Final = rule_named("cutover.output_of_other")
OUTPUT_UNSEEN: Final = rule_named("cutover.output_unseen")
_NAMED: Final = 5
"""Streams that one finding names."""
_ANY_TOPIC: Final = "Each row names its own topic in the column topic, so the plan does not show which topics green writes."
OUTPUT_USED: Final = rule_named("cutover.output_used")
OUTPUT_RULES: Final = (OUTPUT_SHARED, OUTPUT_OF_OTHER, OUTPUT_UNSEEN, OUTPUT_USED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFolders:
    """
    The folders that ``{output}`` stands for in both lanes.

    :param blue: Of the live deployment; ``green`` of green's first one. Empty where unknown.
    :param real_blue: Where the folder leads through symbolic links; ``real_green`` likewise. Empty where
        the folder is what its spelling says.
    """

    blue: str = ""
    green: str = ""
    real_blue: str = ""
    real_green: str = ""

    def is_greens(self, place: SinkPlace) -> bool:
        """Tell whether a place is inside green's own folder; no other stream writes there."""
        blue, green = self.real_blue or self.blue, self.real_green or self.green
        lies_apart = not (green and blue and overlap(green, blue))
        return lies_apart and _lies_in(place, green if place.system == "path" else self.green)

    def is_blues(self, place: SinkPlace) -> bool:
        """Tell whether a place is inside blue's folder, or above it."""
        return any(_is_made_of(place, folder) for folder in (self.blue, self.real_blue))


def judge_outputs(
    new: Sequence[QueryPlan],
    blue: Sequence[QueryPlan],
    others: Mapping[str, Sequence[QueryPlan] | None],
    folders: OutputFolders,
) -> Iterator[GateFinding]:
    """
    Judge what green's queries write while blue and all other streams run on.

    :param others: Plans of the other streams by name; ``None`` for a stream whose plans cannot be read.
    """
    for plan in new:
        if not keeps_nothing(plan.sink):
            found = _judge(plan, blue, others, folders)
            yield from (replace(one, query=plan.query) for one in found)


def judge_used(new: Sequence[QueryPlan], earlier: Sequence[QueryPlan]) -> Iterator[GateFinding]:
    """
    Judge whether green's places hold rows of an earlier green.

    :param earlier: Plans of the earlier deployments of green's lane.
    """
    for plan in new:
        place = place_of(plan.sink)
        writers = [] if place is None else [w for w in earlier if _with(place, w) is Shared.SAME]
        if writers:
            yield OUTPUT_USED.found(query=plan.query, old=_text(writers[-1]), new=str(place))


def _judge(
    plan: QueryPlan,
    blue: Sequence[QueryPlan],
    others: Mapping[str, Sequence[QueryPlan] | None],
    folders: OutputFolders,
) -> Iterator[GateFinding]:
    place = place_of(plan.sink)
    if place is None:
        functions = "; ".join(_text(writer) for writer in blue if writer.writes)
        yield OUTPUT_UNSEEN.found(old=functions, new=plan.sink.sink)
        return
    if folders.is_greens(place):
        return
    if not place.is_named:
        yield OUTPUT_UNSEEN.found(
            _ANY_TOPIC, old="; ".join(_unseen(place, blue, others)), new=str(place)
        )
        return
    yield from _against_blue(place, blue, folders)
    unknown: list[str] = []
    for stream, plans in others.items():
        yield from _against_other(place, stream, plans)
        if any(_with(place, writer) is Shared.UNKNOWN for writer in plans or ()):
            unknown.append(stream)
    if unknown:
        yield OUTPUT_UNSEEN.found(old=_streams(unknown), new=str(place))


def _unseen(
    place: SinkPlace, blue: Sequence[QueryPlan], others: Mapping[str, Sequence[QueryPlan] | None]
) -> Iterator[str]:
    """Yield the writers that can write a place that no plan names."""
    yield from (_text(writer) for writer in blue if _with(place, writer) is not Shared.APART)
    may = [
        stream
        for stream, plans in others.items()
        if plans is None or any(_with(place, one) is not Shared.APART for one in plans)
    ]
    if may:
        yield _streams(may)


def _streams(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
    return f"streams whose sinks can be the same place: {', '.join(names[:_NAMED])}{more}"


def _against_blue(
    place: SinkPlace, blue: Sequence[QueryPlan], folders: OutputFolders
) -> Iterator[GateFinding]:
    if folders.is_blues(place):
        yield OUTPUT_SHARED.found(old=f"{{output}} of blue: {folders.blue}", new=str(place))
        return
    for writer in blue:
        match _with(place, writer):
            case Shared.SAME:
                yield OUTPUT_SHARED.found(old=_text(writer), new=str(place))
            case Shared.UNKNOWN:
                yield OUTPUT_UNSEEN.found(old=_text(writer), new=str(place))


def _against_other(
    place: SinkPlace, stream: str, plans: Sequence[QueryPlan] | None
) -> Iterator[GateFinding]:
    if plans is None:
        yield OUTPUT_UNSEEN.found(old=f"stream {stream}: its plans are unreadable", new=str(place))
    for writer in plans or ():
        if _with(place, writer) is Shared.SAME:
            yield OUTPUT_OF_OTHER.found(old=f"stream {stream}, {_text(writer)}", new=str(place))


def _with(place: SinkPlace, writer: QueryPlan) -> Shared:
    if keeps_nothing(writer.sink):
        return Shared.APART
    theirs = place_of(writer.sink)
    if theirs is not None:
        return shared(place, theirs)
    is_written = any(shared(place, one) is Shared.SAME for one in _written(writer))
    return Shared.SAME if is_written else Shared.UNKNOWN


def _written(writer: QueryPlan) -> list[SinkPlace]:
    """Return the places that a query's function was seen to write."""
    return [place for place in map(place_of, writer.writes) if place is not None]


def _text(writer: QueryPlan) -> str:
    seen = ", ".join(map(str, _written(writer)))
    where = place_of(writer.sink) or f"{writer.sink.sink}{f', which writes {seen}' if seen else ''}"
    return f"query {writer.query}: {where}"


def _is_made_of(place: SinkPlace, folder: str) -> bool:
    """Tell whether a place is inside a folder or above it, or contains the folder's name."""
    is_above = place.system == "path" and bool(folder) and overlap(place.name, folder)
    return is_above or _lies_in(place, folder)


def _lies_in(place: SinkPlace, folder: str) -> bool:
    """Tell whether a place is inside a folder, or a name was made of the folder."""
    if not folder or place.system != "path":
        return bool(folder) and folder in place.name
    return lies_in(place.name, folder)
