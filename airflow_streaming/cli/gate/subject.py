"""What a gate is asked about: the home, the queries and their checkpoints."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from airflow_streaming.cli.known_home import open_known
from airflow_streaming.cli.lane import lane_named
from airflow_streaming.core.plan.plan import QueryPlan
from airflow_streaming.exceptions import CheckpointError, SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.upgrade.rehearsal_place import checkpoints_at, checkpoints_of


def home_of(arguments: argparse.Namespace) -> StreamHome | None:
    """
    Return the stream that is asked about, ``None`` for a checkpoint.

    :raises SpecError: no home was named, or there is none.
    :raises CheckpointError: there is no such stream.
    """
    if arguments.stream is None:
        return None
    stream = lane_named(open_known(arguments.home), arguments.stream)
    if stream.newest_deployment() is None:
        raise CheckpointError(f"There is no stream {stream.name!r} in {arguments.home}.")
    return stream


def only(name: str, plans: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
    """
    Return the plan of one query.

    :raises SpecError: there is none.
    """
    found = tuple(plan for plan in plans if plan.query == name)
    if not found:
        known = ", ".join(plan.query for plan in plans) or "none"
        raise SpecError(f"The script starts no query {name!r}. Its queries are: {known}.")
    return found


def checkpoints(
    arguments: argparse.Namespace, home: StreamHome | None, plans: Sequence[QueryPlan]
) -> Mapping[str, str]:
    """
    Return the URIs of the checkpoints that are asked about, by query.

    :raises SpecError: it is not said whose checkpoint it is, or ``--query`` has none.
    :raises CheckpointError: there is none.
    """
    named: str | None = arguments.query
    at = checkpoints_at(arguments.checkpoint) if home is None else checkpoints_of(home)
    found = dict(at.checkpoints)
    if list(found) == [""]:
        return {named or _only_name(plans): found[""]}
    if named is None:
        return found
    if named not in found:
        raise SpecError(f"There is no checkpoint of {named!r}. Those are of: {', '.join(found)}.")
    return {named: found[named]}


def _only_name(plans: Sequence[QueryPlan]) -> str:
    if len(plans) > 1:
        known = ", ".join(plan.query for plan in plans)
        raise SpecError(f"Whose checkpoint is it? Give --query with one of: {known}.")
    return plans[0].query if plans else ""
