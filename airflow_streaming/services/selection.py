"""
Streams of a home that a selector selects.

Rows that triggers left answer for labels, runtime and state without a look; plans are read only for a selector that
asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.arguments.selector import Operator, Selector, Term
from airflow_streaming.model.names import base_of
from airflow_streaming.model.products.datasets import StreamDatasets, stream_datasets
from airflow_streaming.model.products.stream_graph import StreamGraph
from airflow_streaming.model.records.owner import Owner
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.services.fleet_rows import FleetRow
from airflow_streaming.storage.one_look import look_at_each
from airflow_streaming.supervision.stream_status import StreamStanding

LookAt = Callable[[StreamHome], StreamStanding]
"""Looks at a stream, for a selector that asks for its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """
    Facts of a lane.

    :param facts: Values by fact and label; see ``model.arguments.selector``.
    :param datasets: Inputs and outputs by its plans; empty where they were not read.
    """

    facts: Mapping[str, tuple[str, ...]]
    labels: frozenset[str]
    datasets: StreamDatasets = field(default_factory=StreamDatasets)


def selected(
    home: Home,
    lanes: Sequence[str],
    selector: Selector,
    look: LookAt,
    rows: Mapping[str, FleetRow] | None = None,
) -> list[str]:
    """
    Return the lanes that a selector selects, each after those whose output it reads.

    :param lanes: Lanes that are streams.
    :param look: Called only for a selector with ``state`` or ``level``, and not for a lane with a row.
    :param rows: Rows that a reader believes, by lane.
    :raises SpecError: the selector has a key that no stream has.
    :raises RecordError: a record of a stream that the selector needs is damaged.
    """
    seen = rows or {}
    look_if_asked = look if selector.keys & {"state", "level"} else None
    lanes = [lane for lane in lanes if selector.may_be(base_of(lane))]

    def know(lane: str) -> Known:
        row, stream = seen.get(lane), home.stream(lane)
        if row is not None:
            found = _of_row(row)
        else:
            labels = stream.labels() if selector.needs_labels else {}
            tags = stream.tags() if selector.needs_tags else ()
            found = _of_records(stream, selector, labels, tags, look_if_asked)
        return _with_plans(found, stream) if selector.needs_plans else found

    known = dict(zip(lanes, look_at_each(home.store, know, lanes), strict=True))
    selector.check_labels({label for one in known.values() for label in one.labels})
    graph = StreamGraph.of({lane: one.datasets for lane, one in known.items()})
    found = frozenset(lanes)
    for term in selector.terms:
        found &= _of_term(term, known, graph)
    return [lane for lane in graph.in_order() if lane in found]


def live_lanes(home: Home, selector: Selector) -> list[str]:
    """
    Return the live lanes of the streams of a home that a selector may select.

    :raises RecordError: it is not recorded, or not readable, which lane of a stream is live.
    """
    bases = sorted(filter(selector.may_be, {base_of(name) for name in home.streams()}))

    def look(base: str) -> str:
        try:
            return live_lane(home, base)
        except RecordError as err:
            raise _damaged(selector, base, err) from err

    return [*look_at_each(home.store, look, bases)]


def no_look(stream: StreamHome) -> StreamStanding:
    """
    Refuse to look at a stream, for a task that has no launcher of all streams.

    :raises SpecError: always.
    """
    raise SpecError("select of a task has no state and no level; leave them out.")


def _damaged(selector: Selector, lane: str, err: RecordError) -> RecordError:
    base = base_of(lane)
    return RecordError(
        f"Selector {selector.text!r} needs a record of stream {base!r}. {err} Repair that stream, or leave it out with "
        f"name!={base}."
    )


def _of_term(term: Term, known: Mapping[str, Known], graph: StreamGraph) -> frozenset[str]:
    """Return the lanes that meet a condition; one walk answers for all lanes where it is about other streams."""
    walk = {"downstream_of": graph.downstream_of, "upstream_of": graph.upstream_of}.get(term.key)
    if walk is None or not term.values:
        return frozenset(lane for lane, one in known.items() if term.holds(one.facts))
    found = walk(term.is_like)
    return found if term.operator is Operator.IN else frozenset(known) - found


def _of_row(row: FleetRow) -> Known:
    return _known(
        row.lane,
        row.owner,
        row.labels,
        row.tags,
        {
            "runtime": row.runtime,
            "spark": row.spark,
            "launcher": row.launcher,
            "state": row.word,
            "level": row.level.value,
        },
    )


def _of_records(
    stream: StreamHome,
    selector: Selector,
    labels: Mapping[str, str],
    tags: Sequence[str],
    look: LookAt | None,
) -> Known:
    """Return the facts that the selector asks for: a damaged record of another fact does no harm."""
    told, asked = {}, selector.keys
    try:
        owner = stream.owner() if asked & {"dag", "dag_team"} else None
        epoch = stream.newest_epoch() if "launcher" in asked else None
        told["launcher"] = epoch.launcher if epoch else ""
        if asked & {"runtime", "spark"} and (deployment := stream.newest_deployment()):
            told |= {"runtime": deployment.runtime, "spark": deployment.spark_version}
    except RecordError as err:
        raise _damaged(selector, stream.name, err) from err
    if look is not None:
        standing = look(stream)
        told |= {"state": standing.word, "level": standing.level.value}
    return _known(stream.name, owner, labels, tags, told)


def _known(
    lane: str,
    owner: Owner | None,
    labels: Mapping[str, str],
    tags: Sequence[str],
    told: Mapping[str, str],
) -> Known:
    told = {**told, "name": base_of(lane)}
    if owner is not None:
        told |= {"dag": owner.dag_id, "dag_team": owner.team}
    # A fact wins over a label of its name, which only a forged record can have.
    facts = {key: (value,) for key, value in {**labels, **told}.items() if value}
    return Known(facts={**facts, "tag": tuple(tags)}, labels=frozenset(labels))


def _with_plans(known: Known, stream: StreamHome) -> Known:
    try:
        plans = stream.newest_plans()
    except RecordError as err:
        raise RecordError(f"The selector needs the plans of stream {stream.name!r}. {err}") from err
    datasets = stream_datasets(plans)
    told = {
        "source": (*_systems(plans), *(one.uri for one in datasets.inputs)),
        "sink": (*_sinks(plans), *(one.uri for one in datasets.outputs)),
        "downstream_of": tuple(one.uri for one in datasets.inputs),
        "upstream_of": tuple(one.uri for one in datasets.outputs),
        "stateful": ("yes" if any(plan.is_stateful for plan in plans) else "no",) if plans else (),
    }
    return Known(facts={**known.facts, **told}, labels=known.labels, datasets=datasets)


def _systems(plans: Sequence[QueryPlan]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source.source for plan in plans for source in plan.sources))


def _sinks(plans: Sequence[QueryPlan]) -> tuple[str, ...]:
    sinks = [sink for plan in plans for sink in (plan.sink, *plan.writes)]
    return tuple(dict.fromkeys(sink.sink for sink in sinks))
