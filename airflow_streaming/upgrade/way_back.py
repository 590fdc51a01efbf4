"""
The way back of one upgrade: what its gates and the recorded plans say of it, from a stream's home.

It is looked for before anything is done, and only among what the running deployment's own drivers
have recorded: what another version writes, or would write, says nothing of what has to be put back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.core.compatibility.finding import (
    GateDecision,
    GateFinding,
    GateReport,
    report_of,
)
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.plan.plan import QueryPlan, ScriptPlan
from airflow_streaming.core.upgrade.rollback import plan_rollback
from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts, SinkHabit, sink_facts_of
from airflow_streaming.core.upgrade.terms import RollbackPlan
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.upgrade.change_gate import gate_change
from airflow_streaming.upgrade.rehearsal_place import checkpoints_of
from airflow_streaming.upgrade.version_gate import gate_way_back

_CODE: Final = ("application_sha256", "application_args", "py_files", "jars", "packages", "files")
"""Fields of a deployment that are the user's code."""

_OLD_UNKNOWN: Final = GateFinding(
    rule="plan.old",
    severity=GateDecision.UNKNOWN,
    message="What the running version does was not recorded, so nobody can tell whether it goes on "
    "from what the new code leaves.",
    evidence="the home has no plan of the running deployment",
    remedy="Start the running version once under this release.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """
    What the author says of going back.

    :param habits: What a sink does with a batch id it has seen, by the query's name.
    :param has_rewinder: There is a function that takes batches back out of the sinks.
    :param accept_replay: Rows that come twice are accepted.
    :param needs_way_back: An upgrade without a way back is refused.
    """

    habits: Mapping[str, SinkHabit] = field(default_factory=dict)
    has_rewinder: bool = False
    accept_replay: bool = False
    needs_way_back: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """
    Both deployments, and what their queries are.

    :param old: Plans that the drivers of the current one recorded.
    """

    current: Deployment
    proposed: Deployment
    old: Sequence[QueryPlan]
    new: ScriptPlan


def sinks_of(both: Both, habits: Mapping[str, SinkHabit]) -> tuple[SinkFacts, ...]:
    """
    Return what has to be put in step on the way back: the sinks of the running deployment.

    :param habits: What the author has declared, by query.
    :return: None when it is not known what they are.
    :raises SpecError: a habit is declared of a query that there is not.
    """
    # A query that only the new version starts has nothing to go back to.
    old, new = ({plan.query for plan in plans} for plans in (both.old, both.new.queries))
    if not old:
        return ()
    told = {query: habit for query, habit in habits.items() if query in old or query not in new}
    try:
        return sink_facts_of(both.old, told, checkpoint=both.current.checkpoint)
    except ValueError as err:
        raise SpecError(str(err)) from err


def way_back_of(
    home: StreamHome,
    both: Both,
    sinks: Sequence[SinkFacts],
    ways: Ways,
    storage_options: Mapping[str, Any] | None,
) -> RollbackPlan:
    """
    Return how to go back once the new deployment has committed batches.

    :param sinks: See ``sinks_of``.
    :param storage_options: Of the checkpoints' store.
    :raises CheckpointError: a checkpoint cannot be read.
    :raises HomeUnavailable: a store cannot be reached.
    """
    checkpoints = checkpoints_of(home, storage_options).checkpoints
    back = GateReport()
    if both.current.spark_version != both.proposed.spark_version:
        back = gate_way_back(
            checkpoints,
            both.current.spark_version,
            both.proposed.spark_version,
            conf=both.proposed.conf,
            plans=both.old,
            storage_options=storage_options,
        )
    return plan_rollback(
        sinks,
        back=back,
        code_back=_code_back(checkpoints, both, storage_options),
        queries=checkpoints,
        has_rewinder=ways.has_rewinder,
        accept_replay=ways.accept_replay,
    )


def is_same_code(current: Deployment, proposed: Deployment) -> bool:
    """Tell whether two deployments run the same code, whatever their configuration is."""
    return all(getattr(current, name) == getattr(proposed, name) for name in _CODE)


def _code_back(
    checkpoints: Mapping[str, str], both: Both, storage_options: Mapping[str, Any] | None
) -> GateReport | None:
    if is_same_code(both.current, both.proposed):
        return None
    if not both.old:
        return report_of([_OLD_UNKNOWN])
    deployed = ScriptPlan(
        application=both.current.application,
        spark=both.current.spark_version,
        queries=tuple(both.old),
    )
    return gate_change(
        checkpoints, both.new.queries, deployed, storage_options=storage_options, versions=None
    )
