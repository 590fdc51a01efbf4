"""
What a cutover is to move: pairs made of proposals, with what the gates say and both ways looked at.

Everything here reads. Plan mode is asked once a stream, with green's own arguments, so that it is
seen whether the script writes where it is told to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from airflow_streaming.checkpoint.progress import Progress, no_progress
from airflow_streaming.core.compatibility.finding import GateReport
from airflow_streaming.core.cutover.planning.preflight import PairPreflight, start_by_gate
from airflow_streaming.core.cutover.terms import Pair, StartWay, SwitchWay
from airflow_streaming.core.cutover.ways.judge import switch_ways
from airflow_streaming.core.cutover.ways.replay import ReplayStart, replay_start
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.plan.plan import QueryPlan, ScriptPlan
from airflow_streaming.core.upgrade.preflight import differences
from airflow_streaming.core.upgrade.rollback_sinks import SinkHabit
from airflow_streaming.cutover.pairs import BY_PLACE, Candidate, Facts, pair_of
from airflow_streaming.exceptions import SpecError
from airflow_streaming.upgrade.change_gate import look_at
from airflow_streaming.upgrade.plan_mode import plan_script
from airflow_streaming.upgrade.preflight import judge_plan
from airflow_streaming.upgrade.rehearsal_place import checkpoints_of
from airflow_streaming.upgrade.way_back import Both, sinks_of

_CHOSEN: Final = "It was asked for."
_BY_GATE: Final = {
    StartWay.CLONED: "The gates let the new version go on from blue's checkpoint, so green gets a "
    "copy of it.",
    StartWay.CARRIED: "Blue's checkpoint cannot be gone on from and holds no state worth keeping, so "
    "green takes over its position in the sources.",
    StartWay.FRESH: "The gates do not let the new version go on from blue's checkpoint, so green "
    "makes its state anew.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """
    What is asked of a cutover before it is planned.

    :param start: What green begins with; ``None`` to let the gates say.
    :param replay_from: From when a fresh green reads, in ISO 8601; empty for what is computed.
    :param habits: What a sink does with a batch id that it has seen, by the query's name.
    """

    way: SwitchWay
    start: StartWay | None = None
    replay_from: str = ""
    habits: Mapping[str, SinkHabit] = field(default_factory=dict)


def plan_pair(
    candidate: Candidate,
    wish: Wish,
    *,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> PairPreflight:
    """
    Look at everything that can be known of one stream's cutover.

    :raises CutoverRefused: the stream has never run.
    :raises SpecError: a habit is declared of a query that there is not, or a time that is none.
    :raises LaunchError: plan mode's Spark could not be started.
    :raises CheckpointError: a checkpoint cannot be read.
    :raises HomeUnavailable: a store cannot be reached.
    """
    current = candidate.current()
    proposed, source = candidate.propose(None)
    new = plan_script(candidate.program(proposed, source), candidate.runtime, progress=progress)
    old = candidate.blue.newest_plans(current.number)
    gates = judge_plan(candidate.blue, current, proposed, new, storage_options)
    start = wish.start or start_by_gate(gates)
    replay = _replay(candidate, new, start, storage_options)
    facts = Facts(
        start=start,
        replay_from=_replay_from(wish, replay),
        queries=tuple(plan.query for plan in new.queries),
        stateful=_stateful([*old, *new.queries]),
        sinks=sinks_of(Both(current=current, proposed=proposed, old=old, new=new), wish.habits),
    )
    pair, _ = pair_of(candidate, wish.way, facts)
    return _found(pair, current, gates, old, new, wish, replay)


def _found(
    pair: Pair,
    current: Deployment,
    gates: GateReport,
    old: Sequence[QueryPlan],
    new: ScriptPlan,
    wish: Wish,
    replay: ReplayStart | None,
) -> PairPreflight:
    changed = differences(current, pair.shadow)
    return PairPreflight(
        pair=pair,
        differences=tuple(one for one in changed if one.what not in BY_PLACE),
        gates=gates,
        ways=switch_ways(
            *(old, new.queries, pair.sinks, pair.start),
            output=current.output,
            shadow_output=pair.shadow.output,
        ),
        why=_CHOSEN if wish.start else _BY_GATE[pair.start],
        replay=replay,
    )


def _replay(
    candidate: Candidate,
    new: ScriptPlan,
    start: StartWay,
    storage_options: Mapping[str, Any] | None,
) -> ReplayStart | None:
    if start is not StartWay.FRESH:
        return None
    checkpoints = checkpoints_of(candidate.blue, storage_options).checkpoints
    looked = {query: look_at(uri, storage_options) for query, uri in checkpoints.items()}
    watermarks = {
        query: found.checkpoint.watermark_ms
        for query, found in looked.items()
        if found.checkpoint is not None and found.checkpoint.watermark_ms
    }
    return replay_start(new.queries, watermarks)


def _replay_from(wish: Wish, replay: ReplayStart | None) -> str:
    if replay is None:
        return ""
    if wish.replay_from:
        return iso_time(wish.replay_from)
    return "" if replay.at is None else replay.at.isoformat()


def iso_time(text: str) -> str:
    """
    Return a time as a person types it, in full.

    :param text: ISO 8601; a time without a zone is UTC.
    :raises SpecError: it is none.
    """
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as err:
        raise SpecError(
            f"replay_from is {text!r}; give a time such as 2026-03-01T00:00:00+00:00, or leave it "
            "empty."
        ) from err
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()


def _stateful(plans: Sequence[QueryPlan]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(plan.query for plan in plans if plan.is_stateful))
