"""Shared by the tasks of one upgrade: the engine, the approval."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from airflow_streaming.changes.answers import Answer, Settled
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.model.arguments.calls import NamedParameters
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.arguments.rewinding import AuthorsRewind
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from airflow_streaming.operators.common.base import ProgressLogger, run_key
from airflow_streaming.operators.common.change import ChangeTask
from airflow_streaming.operators.common.form_edits import ADVISED, ENDED_XCOM_KEY, pulled
from airflow_streaming.operators.common.gate import REPORT_XCOM_KEY
from airflow_streaming.operators.common.run_report import records_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.changes.upgrade.engine import UpgradeInPlace
    from airflow_streaming.changes.upgrade.engine import UpgradeProgress as Progress
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.launch.runtime import Runtime
    from airflow_streaming.model.records.control import Change
    from airflow_streaming.supervision.observer import Observer
    from airflow_streaming.triggers.question import QuestionTrigger


class StreamApprovalOperator(NamedParameters, ApprovalOperator):
    """
    Ask a user yes or no; silence until ``response_timeout`` is a no.

    Airflow itself ensures that only the assigned users may answer. The task waits deferred, because
    the question may be settled elsewhere: by a command from a terminal or a page, by another run,
    or by the end of the change. Then the task ends with that outcome.

    An answer within a few seconds of the question is too fast for Airflow: its scheduler sees the
    task queued again before the end of the first worker process is reported, treats the task as
    killed, and fails the try. The next try reads this answer instead of asking again (an Airflow
    operator would drop it). The triggerer reads it, because only the triggerer can, and only in a
    retry: a task that a user cleared asks again.

    :param home: URI of the home. (templated)
    :param stream: Name of the stream; of several, the leading stream. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param approvers: Users who may answer, as ids of Airflow's users, a list or a text with commas;
        empty for every user who may edit the dag. (templated)
    :param allowed_approvers: The permitted values of ``approvers``, so that users cannot add
        themselves as approvers in a form.
    """

    template_fields: Sequence[str] = (
        *ApprovalOperator.template_fields,
        *("approvers", "home", "stream", "home_conn_id"),
    )

    @checked
    def __init__(
        self,
        *,
        home: str,
        stream: str,
        home_conn_id: str | None = None,
        approvers: Sequence[str] | str = (),
        allowed_approvers: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        if kwargs.get("response_timeout") is not None:
            # Silence is a no: the task then ends like one instead of failing.
            kwargs.setdefault("defaults", self.REJECT)
        super().__init__(**kwargs)
        self.home, self.stream, self.home_conn_id = home, stream, home_conn_id
        self.approvers = approvers
        self.allowed_approvers = tuple(allowed_approvers)

    def records(self) -> StreamHome:
        """Return the home of the stream."""
        return records_of(self.home, self.home_conn_id, self.stream)

    @abstractmethod
    def question(self, context: Context, **waiting: Any) -> QuestionTrigger:
        """
        Return the trigger that waits for the answer.

        :param waiting: Arguments that every such trigger takes.
        """

    @abstractmethod
    def answered(self, context: Context, event: dict[str, Any]) -> Any:
        """Act on a user's answer, or on silence."""

    @abstractmethod
    def settled(self, context: Context, settled: Settled) -> Any:
        """End the task: its question was settled elsewhere."""

    def ask(self, context: Context) -> Any:
        """Ask, or read the answer to an earlier try."""
        from airflow_streaming.triggers.question import AnswerTrigger  # not at dag parse

        if is_retry(context["ti"], self.retries):
            now = datetime.now(UTC).isoformat()
            trigger = AnswerTrigger(ti_id=str(context["ti"].id), deferred_at=now)
            self.defer(trigger=trigger, method_name="on_answer")
        return self.ask_anew(context)

    def on_answer(self, context: Context, event: dict[str, Any]) -> Any:
        """Use the answer to an earlier try; ask again without one."""
        if event.get("chosen_options"):
            self.log.info("Using the approval recorded by an earlier attempt.")
            return self.execute_complete(context, event)
        return self.ask_anew(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Handle the event of the trigger, or of Airflow, about the question."""
        from airflow_streaming.triggers.question import SETTLED  # not at dag parse

        if SETTLED in event:
            told = event[SETTLED]
            return self.settled(context, Settled(Answer(told["answer"]), told["reason"]))
        return self.answered(context, event if "chosen_options" in event else self._silence())

    def said_no(self, event: dict[str, Any]) -> str:
        """Return who refused, in a sentence; empty for an approval, and without an answer."""
        if self.REJECT not in event.get("chosen_options", ()):
            return ""
        name = answered_by(event)
        return f"{name} rejected it." if name else "The approval timed out."

    def end(self, context: Context, reason: str) -> None:
        """Tell the tasks after this one not to begin."""
        self.log.info("%s", reason)
        context["ti"].xcom_push(key=ENDED_XCOM_KEY, value=reason)

    def ask_anew(self, context: Context) -> Any:
        """Ask again, independent of earlier answers."""
        self.assigned_users = [{"id": name, "name": name} for name in self._who_may_answer()]
        try:
            return super().execute(context)
        except TaskAwaitingInput as parked:
            # Airflow parks the task in a state that no trigger can end.
            return self._wait(context, parked.timeout)

    def _wait(self, context: Context, timeout: timedelta | None) -> NoReturn:
        now = datetime.now(UTC)
        trigger = self.question(
            context,
            home=self.home,
            stream=self.stream,
            home_conn_id=self.home_conn_id,
            ti_id=str(context["ti"].id),
            deferred_at=now.isoformat(),
            until=None if timeout is None else (now + timeout).isoformat(),
        )
        self.defer(trigger=trigger, method_name="execute_complete")

    def _silence(self) -> dict[str, Any]:
        return {
            "chosen_options": [self.REJECT],
            "params_input": {},
            "responded_at": datetime.now(UTC),
            "responded_by_user": None,
            "timedout": True,
        }

    def _who_may_answer(self) -> list[str]:
        asked = self.approvers.split(",") if isinstance(self.approvers, str) else self.approvers
        named = [name.strip() for name in asked if name.strip()]
        strangers = sorted(set(named) - set(self.allowed_approvers))
        if self.allowed_approvers and strangers:
            raise AirflowFailException(
                f"{', '.join(strangers)} may not approve this; {', '.join(self.allowed_approvers)} "
                "may. Start the run again, or have the dag's author add them to approvers."
            )
        return named or list(self.allowed_approvers)


def answered_by(event: dict[str, Any]) -> str:
    """Return who has answered; empty without an answer in time."""
    user = event.get("responded_by_user") or {}
    return str(user.get("name") or user.get("id") or "")


def is_retry(ti: Any, retries: int | None) -> bool:
    """
    Tell whether this try follows a failed try without a clear by a user.

    Airflow allows a cleared task more tries than it has retries.
    """
    return bool(ti.try_number > 1 and ti.max_tries == retries)


def _spark_of(hook: SparkStreamHook) -> tuple[Runtime, Mapping[str, Any]]:
    candidate, _ = hook.candidate()
    return candidate.runtime, candidate.program.conf


class UpgradeTask(ChangeTask):
    """
    A task of an upgrade.

    :param rewind_with: Removes batches from a sink other than a file sink; see ``Rewinding``.
    """

    ui_color = "#cfe8cf"
    preflight_task_id: str = ""
    """The task of the same run that has made the report; empty for that task itself."""

    @checked
    def __init__(self, *, rewind_with: AuthorsRewind | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rewind_with = rewind_with
        self._run_key = ""

    def hook(self, context: Context) -> SparkStreamHook:
        """
        Return the hook of the stream as it is to become; a size that is advised is the report's.

        :raises AirflowFailException: the edits, or the spec, cannot run.
        """
        self._run_key = run_key(context)
        if self.takes_advice:
            # Before there is a report it is left as it is, and nothing is begun with that.
            self.size = {**self.sizes(), "executors": self._advised(context)}
        return super().hook(context)

    @property
    def takes_advice(self) -> bool:
        """Tell whether the number of executors follows the advice."""
        return str(self.sizes().get("executors")) == ADVISED

    def _advised(self, context: Context) -> str:
        if not self.preflight_task_id:
            return ""
        report = pulled(context, self.preflight_task_id, REPORT_XCOM_KEY) or {}
        sizes = report.get("sizes", ())
        return next((str(one["value"]) for one in sizes if one["size"] == "executors"), "")

    def engine(self, hook: SparkStreamHook, observer: Observer) -> UpgradeInPlace:
        """Return who upgrades the stream."""
        from airflow_streaming.changes.restore.migrated_copy import SparkMigrator
        from airflow_streaming.changes.upgrade.engine import EXCHANGE_PACE, UpgradeInPlace
        from airflow_streaming.changes.upgrade.repartition import SparkRepartitioner
        from airflow_streaming.checkpoints.restore.sink_rewind import SinkRewind  # not at dag parse
        from airflow_streaming.hooks.home import access_options

        options = access_options(self.stream.home, self.home_conn_id)
        patience = self.patience.total_seconds()
        return UpgradeInPlace(
            *(hook.home, hook.controller, observer, self.open_store()),
            by=hook.by,
            rewind=SinkRewind(self.rewind_with, storage_options=options),
            open_folders=self.open_folders,
            storage_options=options,
            repartitioner=SparkRepartitioner(
                hook.home, lambda: _spark_of(hook), storage_options=options
            ),
            migrator=SparkMigrator(
                home=hook.home,
                of=lambda: _spark_of(hook),
                owner=self._run_key,
                storage_options=options,
                progress=ProgressLogger(self.log),
            ),
            progress=ProgressLogger(self.log),
            pace=replace(EXCHANGE_PACE, at_most=min(EXCHANGE_PACE.at_most, patience)),
        )

    def command(
        self, hook: SparkStreamHook, change: Change, command: UpgradeCommand, reason: str
    ) -> None:
        """
        Give a command to the stream's upgrade.

        :raises UpgradeRefused: it comes too late, or too early.
        """
        from airflow_streaming.services.changes import command_upgrade  # not at dag parse

        command_upgrade(
            *(hook.home, change, command),
            by=hook.by,
            reason=reason,
            open_folders=self.open_folders,
        )

    def go_on(
        self, context: Context, until: Stage, memory: dict[str, Any] | None, change: int
    ) -> Progress:
        """
        Take an upgrade on to a stage or its end; wait in the worker first, then deferred.

        :param change: The upgrade; no other one is touched.
        :raises AirflowFailException: it cannot continue, and another try does not help.
        """
        with self.patient(memory), self.working():
            hook = self.hook(context)
            observer = hook.observer(memory)
            progress = self.wait_here(self.engine(hook, observer), until, change)
        if progress is None or not progress.is_there:
            self.wait_deferred(
                observer.memory(), needs_person=progress is not None and progress.needs_person
            )
        self.log.info("Stage %s: %s", progress.state.value, progress.reason)
        return progress

    @contextlib.contextmanager
    def patient(self, memory: dict[str, Any] | None) -> Iterator[None]:
        """
        Wait deferred when a store is away in this block, which is done again from its begin then.

        A task that failed for that would have a good upgrade rolled back.
        """
        try:
            yield
        except HomeUnavailable as err:
            self.log.warning("%s The task retries when the store answers.", err)
            self.wait_deferred(memory)

    def wait_here(self, engine: UpgradeInPlace, until: Stage, change: int) -> Progress | None:
        return self.waiting_here(lambda: engine.advance(until, change))

    def wait_deferred(
        self, memory: dict[str, Any] | None, *, needs_person: bool = False
    ) -> NoReturn:
        """Leave the worker until something happens to the stream, or some time has passed."""
        from airflow_streaming.triggers.change import UpgradeTrigger  # not at dag parse

        self.defer(
            trigger=UpgradeTrigger(memory=memory, **self.woken_by(needs_person=needs_person)),
            method_name="execute_complete",
        )
