"""The tasks of a cutover, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import BaseOperator

from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.cutover.pointers.port import Pointer
from airflow_streaming.operators._cutover.asked import ASK
from airflow_streaming.operators._cutover.question import KEEP, PROMOTE
from airflow_streaming.operators.cutover import (
    CutoverCheck,
    CutoverCheckOperator,
    CutoverPlanOperator,
    CutoverQuestionOperator,
    CutoverRetireOperator,
    CutoverSettleOperator,
    CutoverStepOperator,
)
from airflow_streaming.operators.upgrade import UpgradeApprovalOperator
from airflow_streaming.orchestration._path import Asked, Chain, Task, page_of

_NO_PATIENCE: Final = timedelta(0)
"""What takes hours waits deferred from the start."""

_SWITCHING: Final = timedelta(minutes=2)
"""Added to the grace of a stop: the switch keeps its worker until green is live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverWishes(Asked):
    """
    What an author wants of a cutover; the fields are the parameters of ``blue_green``.

    :param plan: Arguments of the preflight alone.
    """

    streams: tuple[StreamSpec, ...]
    finalise: str = "auto"
    pointers: Sequence[Pointer] | Mapping[str, Sequence[Pointer]] = ()
    checks: Sequence[CutoverCheck] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)

    @property
    def for_all(self) -> dict[str, Any]:
        """Return the arguments of every task on the streams."""
        told = {"stream": self.streams, "pointers": self.pointers, "checks": self.checks}
        return {**told, **self.for_tasks}


class CutoverPath(Chain):
    """
    Strings the tasks together, inside the task group that is open.

    :param wishes: What the author wants.
    """

    def __init__(self, wishes: CutoverWishes) -> None:
        self._wishes = wishes
        self._names = ", ".join(stream.name for stream in wishes.streams)
        self._preflight = CutoverPlanOperator(
            task_id="preflight", is_dry_run=wishes.dry_run, **wishes.plan, **wishes.for_all
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
        # Beside the task that waits for its answer, which tends green meanwhile: so the word may
        # come from the command line too, and nothing waits for a question nobody needs any more.
        compare >> self._question("approve_switch", PROMOTE, "Switch", compare)
        patience = self._wishes.streams[0].stop_grace + _SWITCHING
        switch = self._then(self._step("switch", CutoverState.SOAKING, patience=patience))
        soak = self._soak(switch)
        settle = self._then(
            self._task(
                CutoverSettleOperator,
                "settle",
                approve_task_id=approve.task_id,
                step_task_ids=[one.task_id for one in (*steps, compare, switch, soak)],
            )
        )
        settle >> self._task(CutoverRetireOperator, "retire")

    def _soak(self, switch: BaseOperator) -> BaseOperator:
        soak = self._step("soak", CutoverState.FINALISING, patience=_NO_PATIENCE)
        if self._wishes.finalise == ASK:
            switch >> self._question("approve_end", KEEP, "Keep the new version of", switch)
        return self._then(soak)

    def _approve(self) -> UpgradeApprovalOperator:
        wishes = self._wishes
        return self._then(
            UpgradeApprovalOperator(
                task_id="approve",
                preflight_task_id=self._preflight.task_id,
                subject=f"Start a new version beside stream {self._names}?",
                body=page_of(self._preflight.task_id),
                is_dry_run=wishes.dry_run,
                need_approval=wishes.need_approval,
                **wishes.for_questions,
            )
        )

    def _question(
        self, task_id: str, word: str, subject: str, about: BaseOperator
    ) -> CutoverQuestionOperator:
        wishes = self._wishes
        return CutoverQuestionOperator(
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
