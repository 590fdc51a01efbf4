"""The task that takes an upgrade to one of its stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts
from airflow_streaming.core.upgrade.soak import SoakResult
from airflow_streaming.core.upgrade.stage import Stage
from airflow_streaming.core.upgrade.terms import RollbackPlan, SoakTerms
from airflow_streaming.core.wire import decode
from airflow_streaming.exceptions import SpecError, UpgradeRefused
from airflow_streaming.operators._gate.common import REPORT_XCOM_KEY
from airflow_streaming.operators._upgrade.edits import positive_minutes
from airflow_streaming.operators._upgrade.run import found_change, pulled
from airflow_streaming.operators._upgrade.task import UpgradeTask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.core.change import Change
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.upgrade.asked import Asked, Progress

_GIVEN_UP: Final = (Stage.ABORTED, Stage.ROLLING_BACK, Stage.RESTORED, Stage.ROLLED_BACK)


class UpgradeStepOperator(UpgradeTask):
    """
    Take an upgrade to a stage, whatever is missing until then.

    The first step of a run opens the change, by the preflight's report: what was approved there,
    and nothing else, is deployed. While the change is open the keep-alive task looks on.

    ``until="judged"`` is the soak; it fails when the new deployment is not good.

    :param until: The stage, by name: ``backed_up``, ``stopped``, ``deployed``, ``launched`` or
        ``judged``.
    :param preflight_task_id: The task of the same run that made the report.
    :param soak: What the new deployment has to show.
    :param soak_minutes: The most that the soak may take; that of ``soak`` when empty. (templated)
    """

    template_fields: Sequence[str] = (*UpgradeTask.template_fields, "soak_minutes")

    def __init__(
        self,
        *,
        until: str,
        preflight_task_id: str,
        soak: SoakTerms | None = None,
        soak_minutes: float | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.until = stage_of(until)
        self.preflight_task_id = preflight_task_id
        self.soak = soak or SoakTerms()
        self.soak_minutes = soak_minutes

    def execute(self, context: Context) -> dict[str, Any]:
        self.link_to_stream(context)
        with self.telling(context):
            return self._go(context, None)

    def on_event(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again, and go on."""
        with self.telling(context):
            return self._go(context, event.get("memory"))

    def _go(self, context: Context, memory: dict[str, Any] | None) -> dict[str, Any]:
        with self.patient(memory), self.working():
            change = self._open(context)
        progress = self.go_on(context, self.until, memory, change)
        self._check(progress)
        return {
            "change": change,
            "stage": progress.stage.value,
            "reason": progress.reason,
            "facts": dict(progress.facts),
        }

    def _check(self, progress: Progress) -> None:
        stream = self.stream.name
        if progress.stage in _GIVEN_UP:
            raise AirflowFailException(
                f"The upgrade of stream {stream!r} is over ({progress.stage}): {progress.reason}"
            )
        is_judged = self.until is Stage.JUDGED and progress.stage is Stage.JUDGED
        if is_judged and progress.facts.get("verdict") != SoakResult.GOOD:
            raise AirflowFailException(
                f"The new deployment of stream {stream!r} is not good: {progress.reason}"
            )

    def _open(self, context: Context) -> int:
        report = pulled(context, self.preflight_task_id, REPORT_XCOM_KEY)
        if report is None:
            raise AirflowFailException(
                f"Task {self.preflight_task_id!r} has left no report in this run, and nothing is "
                "begun without one. Run the whole dag again."
            )
        hook = self.hook(context)
        found = found_change(hook.home, report)
        if found is None:
            found = self._begin(hook, report)
            self.log.info("Change %d is open: %s", found.number, found.reason)
        return found.number

    def _begin(self, hook: SparkStreamHook, report: Mapping[str, Any]) -> Change:
        proposed, source = hook.proposal()
        current = hook.home.newest_deployment()
        if proposed.fingerprint != report["fingerprint"]:
            raise UpgradeRefused(
                f"What the dag proposes for stream {hook.home.name!r} has changed since the report "
                "was made, so it was not approved. Run the whole dag again."
            )
        if current is None or current.number != report["replaced"]:
            raise UpgradeRefused(
                f"Stream {hook.home.name!r} runs another deployment than the report was made for. "
                "Run the whole dag again."
            )
        return self.engine(hook, hook.observer()).begin(proposed, source, self._asked(report))

    def _asked(self, report: Mapping[str, Any]) -> Asked:
        from airflow_streaming.upgrade.asked import Asked  # not at dag parse

        return Asked(
            rollback=decode(RollbackPlan, report["rollback"], "rollback"),
            soak=self._soak_terms(report),
            keeps_by_itself=False,  # the checks, and the task that settles it, come first
            stop_grace=self.stream.stop_grace,
            sinks=tuple(decode(SinkFacts, sink, "sink") for sink in report["sinks"]),
            accepts_no_way_back=True,  # or the preflight had refused it
            key=report["key"],
            reason=f"Asked by a run of a dag: {report['key']}.",
        )

    def _soak_terms(self, report: Mapping[str, Any]) -> SoakTerms:
        # A script that starts one of its queries, and not the other, must not soak well.
        soak = replace(self.soak, queries=self.soak.queries or tuple(report.get("queries", ())))
        minutes = positive_minutes(self.soak_minutes, "soak_minutes")
        if minutes is None:
            return soak
        return replace(soak, at_most=minutes, at_least=min(soak.at_least, minutes))


def stage_of(name: str) -> Stage:
    """
    Return a stage that a step can lead to, by its name.

    :raises SpecError: there is none of that name.
    """
    allowed = (Stage.BACKED_UP, Stage.STOPPED, Stage.DEPLOYED, Stage.LAUNCHED, Stage.JUDGED)
    if name not in allowed:
        raise SpecError(f"until is {name!r}; give {', '.join(allowed)}.")
    return Stage(name)
