"""
Two sights → Readiness: whether one stream has read as far as another.

A query is compared with the one of its name in the other stream; where both have a single query,
these two are meant whatever they are called.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_streaming.core.gating import Condition, asked, gate
from airflow_streaming.core.readiness import Readiness, ReadinessState
from airflow_streaming.core.sight import QuerySight, Sight


def catch_up(sight: Sight, other: Sight, condition: Condition) -> Readiness:
    """
    Say whether a stream meets a condition and has read at least as far as another one.

    :param other: The one to catch up with; where it stands now, whatever its health.
    :param condition: What else has to hold, and which query is asked.
    """
    answer = gate(sight, condition)
    if answer.state is not ReadinessState.READY:
        return answer
    for mine in asked(sight, condition.query):
        theirs = _counterpart(mine, sight, other)
        if theirs is None or not theirs.offsets:
            return Readiness(state=ReadinessState.WAITING, reason=_unknown(mine, theirs, other))
        one = Condition(query=mine.name, caught_up_with=theirs.offsets)
        behind = gate(sight, one)
        if behind.state is not ReadinessState.READY:
            return behind
    return replace(answer, reason=f"{answer.reason} It has caught up with {other.who}.")


def _counterpart(mine: QuerySight, sight: Sight, other: Sight) -> QuerySight | None:
    for theirs in other.queries:
        if theirs.name == mine.name:
            return theirs
    both_have_one = len(sight.queries) == len(other.queries) == 1
    return other.queries[0] if both_have_one else None


def _unknown(mine: QuerySight, theirs: QuerySight | None, other: Sight) -> str:
    if theirs is not None:
        return (
            f"How far query {theirs.name!r} of {other.who} has read is not known, or too long for "
            "a status."
        )
    known = ", ".join(query.name for query in other.queries) or "none"
    return f"No query {mine.name!r} in {other.who} to compare with; known queries: {known}."
