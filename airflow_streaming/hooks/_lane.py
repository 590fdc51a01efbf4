"""
A dag's stream, as it is asked for in one of its lanes.

The dag goes on naming one stream, one output and one checkpoint, whichever lane is live. Two lanes
share no folder unless a cutover says so, so a place that the dag names, and that any deployment of
the stream ever had, is history: the lane stays where its newest deployment is. A place that is new
is a wish, and proposed like any other change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.lanes import other_lane
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.home.home import Home, StreamHome


def for_lane(spec: StreamSpec, home: Home, lane: StreamHome) -> StreamSpec:
    """
    Return what the dag asks of a lane.

    Without a second lane it is what the dag says, word for word.

    :param spec: The stream as its dag describes it.
    :param lane: The records of the lane.
    """
    if not spec.output and not spec.checkpoint:
        return replace(spec, name=lane.name)
    other = home.stream(other_lane(lane.name))
    if lane.name == spec.name and other.newest_deployment() is None:
        return spec
    known = [*_deployments(lane), *_deployments(other)]
    return replace(
        spec,
        name=lane.name,
        output=_new(spec.output, {one.output for one in known}),
        checkpoint=_new(spec.checkpoint, {one.checkpoint for one in known}),
    )


def _new(named: str | None, known: set[str]) -> str | None:
    return None if named in known else named


def _deployments(lane: StreamHome) -> Iterator[Deployment]:
    newest = lane.newest_deployment()
    for number in range(newest.number if newest else 0, 0, -1):
        yield lane.deployment(number)
