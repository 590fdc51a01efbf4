"""
The cutover as a task group: green beside blue, judged, and switched.

Preflight, approve, start green beside blue, let it catch up, watch it, run the author's checks,
compare both outputs, ask again, switch, soak, and keep or go back. Until the switch blue is untouched;
after it a rollback is possible until the end of the soak. The task that settles the cutover runs after
success and failure of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import BaseOperator, TaskGroup

from airflow_streaming.changes.pointers.pointer import Pointer
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.operators.cutover import (
    KEEP,
    PROMOTE,
    CutoverApprovalOperator,
    CutoverCheckOperator,
    CutoverFinishOperator,
    CutoverRetireOperator,
    CutoverStepOperator,
)
from airflow_streaming.operators.cutover_preflight import CutoverPreflightOperator
from airflow_streaming.operators.upgrade import UpgradeApprovalOperator
from airflow_streaming.options import (
    Approval,
    Connections,
    CutoverCheck,
    CutoverOptions,
    plain,
)
from airflow_streaming.orchestration import cutover_form, form
from airflow_streaming.orchestration.cutover_form import pointers_of, some, streams_of
from airflow_streaming.orchestration.upgrade import (
    Chain,
    ChangeSettings,
    Task,
    asked_of,
    chosen,
    group_of,
    habits_of,
    page_of,
)
from airflow_streaming.spec import StreamSpec

__all__ = ["blue_green"]

_NO_PATIENCE: Final = timedelta(0)
"""Tasks that take hours wait deferred from the start."""
_SWITCHING: Final = timedelta(minutes=2)
"""Added to the grace of a stop: the switch keeps its worker until green is live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverRequest(ChangeSettings):
    """
    The author's settings of a cutover, with the templates of its form.

    :param plan: Arguments of the preflight alone.
    """

    streams: tuple[StreamSpec, ...]
    pointers: Sequence[Pointer] | Mapping[str, Sequence[Pointer]] = ()
    checks: Sequence[CutoverCheck] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)

    @property
    def for_all(self) -> dict[str, Any]:
        """Return the arguments of every task on the streams."""
        values = {"stream": self.streams, "pointers": self.pointers, "checks": self.checks}
        return {**values, **self.for_tasks}


class CutoverPath(Chain):
    """
    Strings the tasks together, inside the task group that is open.

    :param wishes: The author's settings.
    """

    def __init__(self, wishes: CutoverRequest) -> None:
        self._wishes = wishes
        self._names = ", ".join(stream.name for stream in wishes.streams)
        self._preflight = CutoverPreflightOperator(
            task_id="preflight",
            dry_run=wishes.dry_run,
            approval={"switch": wishes.approval["switch"], "end": wishes.approval["end"]},
            **wishes.plan,
            **wishes.for_all,
        )
        self._last: BaseOperator = self._preflight

    def build(self) -> None:
        """Add all tasks after the look."""
        approve = self._approve()
        steps = [
            self._then(self._step("start_green", CutoverState.CATCHING_UP)),
            self._then(self._step("catch_up", CutoverState.SHADOWING, patience=_NO_PATIENCE)),
            self._then(self._step("shadow", CutoverState.COMPARING, patience=_NO_PATIENCE)),
        ]
        if self._wishes.checks:
            self._then(self._task(CutoverCheckOperator, "checks"))
        compare = self._then(self._step("compare", CutoverState.READY))
        # Beside the task that waits for its answer, which tends green meanwhile: so the answer may
        # come from the command line too, and no task waits for a question that is settled.
        compare >> self._question("approve_switch", PROMOTE, "Switch", compare)
        patience = self._wishes.streams[0].stop_grace + _SWITCHING
        switch = self._then(self._step("switch", CutoverState.SOAKING, patience=patience))
        soak = self._soak(switch)
        settle = self._then(
            self._task(
                CutoverFinishOperator,
                "settle",
                approve_task_id=approve.task_id,
                step_task_ids=[one.task_id for one in (*steps, compare, switch, soak)],
            )
        )
        settle >> self._task(CutoverRetireOperator, "retire")

    def _soak(self, switch: BaseOperator) -> BaseOperator:
        soak = self._step("soak", CutoverState.FINALIZING, patience=_NO_PATIENCE)
        if self._wishes.approval["end"] != Approval.AUTO:
            switch >> self._question("approve_end", KEEP, "Keep the new version of", switch)
        return self._then(soak)

    def _approve(self) -> UpgradeApprovalOperator:
        wishes = self._wishes
        return self._then(
            UpgradeApprovalOperator(
                task_id="approve",
                preflight_task_id=self._preflight.task_id,
                home=wishes.streams[0].home,
                stream=wishes.streams[0].name,
                home_conn_id=wishes.home_conn_id,
                subject=f"Start a new version beside stream {self._names}?",
                body=page_of(self._preflight.task_id),
                dry_run=wishes.dry_run,
                approval={"begin": wishes.approval["begin"]},
                **wishes.for_questions,
            )
        )

    def _question(
        self, task_id: str, word: str, subject: str, about: BaseOperator
    ) -> CutoverApprovalOperator:
        wishes = self._wishes
        return CutoverApprovalOperator(
            task_id=task_id,
            word=word,
            preflight_task_id=self._preflight.task_id,
            home=wishes.streams[0].home,
            stream=wishes.streams[0].name,
            home_conn_id=wishes.home_conn_id,
            subject=f"{subject} stream {self._names}?",
            body=page_of(about.task_id),
            **wishes.for_questions,
        )

    def _step(self, task_id: str, until: CutoverState, **more: Any) -> CutoverStepOperator:
        return self._task(CutoverStepOperator, task_id, until=until.value, **more)

    def _task(self, kind: type[Task], task_id: str, **more: Any) -> Task:
        return kind(
            task_id=task_id,
            preflight_task_id=self._preflight.task_id,
            **self._wishes.for_all,
            **more,
        )


@checked
def blue_green(
    stream: StreamSpec | Sequence[StreamSpec],
    options: CutoverOptions = CutoverOptions(),
    *,
    connections: Connections = Connections(),
    group_id: str = "blue_green",
) -> TaskGroup:
    """
    Run another version of a stream beside the live one, judge it, and make it live.

    In a dag with ``params=cutover_params(stream)`` the user who starts a run chooses; a dag without
    them gives the options. By default it is a dry run.

    :param stream: The stream as its keep-alive dag has it, or several that switch in one moment; the
        first one leads. All of them are in one home.
    :param options: Without them the form decides.
    :param connections: How its tasks reach Spark, the home and the backups.
    :param group_id: Prefix of the tasks.
    :raises SpecError: a stream, comparison, check, pointer, time or deadline is wrong; the tasks check templates.
    """
    wishes = CutoverRequest(
        streams=streams_of(stream),
        **asked_of(options, connections, cutover_form.APPROVAL_FROM_FORM),
        pointers=pointers_of(options.pointers),
        checks=some(options.checks),
        plan=_plan(options),
        edits=dict(form.FROM_FORM if options.edits is None else options.edits),
    )
    tooltip = "Runs another version beside the live one, compares them, and switches over; can be rolled back."
    with group_of(group_id, tooltip) as group:
        CutoverPath(wishes).build()
    return group


def _plan(options: CutoverOptions) -> dict[str, Any]:
    """Return the arguments of the preflight alone."""
    return {
        "way": plain(chosen(options.way, cutover_form.WAY_FROM_FORM)),
        "start": plain(chosen(options.start, cutover_form.START_FROM_FORM)),
        "replay_from": chosen(options.replay_from, cutover_form.REPLAY_FROM_FORM),
        "ready": options.ready,
        "compare": some(options.compare),
        "soak": options.soak,
        "soak_minutes": form.SOAK_FROM_FORM,
        "retain_blue": options.retain_blue,
        "retain_hours": cutover_form.RETAIN_FROM_FORM,
        "keeps_blue_running": options.keeps_blue_running,
        "deadlines": dict(options.deadlines),
        "sink_habits": habits_of(options),
        "accept": chosen(options.accept, form.ACCEPT_FROM_FORM),
    }
