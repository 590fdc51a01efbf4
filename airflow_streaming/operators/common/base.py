"""Shared by operators: the acting user, progress in the log, the stream's spec."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import StreamFailed
from airflow_streaming.model.arguments.calls import NamedParameters
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.arguments.form_policy import FormPolicy
from airflow_streaming.spec import StreamSpec
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_streaming.checkpoints.progress import ProgressNow
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.model.arguments.form_refusals import Refusal, RunValue
    from airflow_streaming.model.records.owner import Actor
    from airflow_streaming.model.records.restart_decision import RestartDecision
    from airflow_streaming.operators.common.templates import Templates
    from airflow_streaming.supervision.decide import Step

PAUSE_SECONDS: Final = 10.0
"""A user who watches wants to see that it continues; a log of an hour should still be read."""
_MEGABYTE: Final = 1e6


def who(context: Context) -> str:
    """Return who acts, for the records: the task, its run and its try."""
    ti = context["ti"]
    return f"{ti.dag_id}.{ti.task_id} run {ti.run_id} try {ti.try_number}"


def run_key(context: Context) -> str:
    """Return the key of a run: all its tasks, and their tries, mean one request."""
    ti = context["ti"]
    return f"{ti.dag_id} {ti.run_id}"


def task_key(context: Context) -> str:
    """Return the key of a task in a run, the same for all its tries."""
    ti = context["ti"]
    return f"{ti.dag_id} {ti.task_id} {ti.run_id} {ti.map_index}"


def actor_of(task: BaseOperator, context: Context) -> Actor:
    """Return the dag on whose behalf a task acts, as Airflow has started it."""
    from airflow_streaming.model.records.owner import Actor  # not at dag parse

    ti = context["ti"]
    # The bundle is not there in a task that is run without Airflow's supervisor; teams are optional.
    bundle = getattr(ti, "bundle_instance", None)
    team = getattr(context.get("dag_run"), "team_name", None)
    dag = task.dag if task.has_dag() else None
    return Actor(
        dag_id=ti.dag_id,
        bundle=str(getattr(bundle, "name", "") or ""),
        file=str((dag and (dag.relative_fileloc or dag.fileloc)) or ""),
        team=str(team or ""),
    )


def blocked_message(stream: str, step: Step) -> str:
    """Return the error of a stream whose old driver is not proved dead, and what to do."""
    return (
        f"Stream {stream!r} is not restarted: {step.reason} Two drivers on one checkpoint would write "
        "batches twice. Check the old driver's host; when you know that the driver is dead, confirm it "
        f"with 'airflow-streaming declare-dead {stream} --epoch N --by NAME --reason TEXT'."
    )


def gave_up(stream: str, decision: RestartDecision) -> AirflowFailException:
    """Return the error of a task whose stream is down and not started again."""
    from airflow_streaming.supervision.restart import remedy_of  # not at dag parse

    cause = StreamFailed(
        f"Stream {stream!r} is down and stays down: {decision.reason} The circuit is open. "
        f"{remedy_of(decision, stream)}"
    )
    error = AirflowFailException(str(cause))
    error.__cause__ = cause
    return error


class Log(Protocol):
    """As much of a logger as is needed here; a task's is not the standard library's."""

    def info(self, text: str, /, *values: Any) -> Any:
        """Write a line."""


class ProgressLogger:
    """
    Listens to progress, which may be reported many thousand times, and logs it now and then.

    :param clock: Seconds that only rise.
    """

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._next = clock() + PAUSE_SECONDS

    def __call__(self, now: ProgressNow) -> None:
        """Hear how far a phase is."""
        if self._is_time():
            about = f" of {now.subject}" if now.subject else ""
            of = "" if now.of is None else f" of {now.of}"
            size = f", {now.size / _MEGABYTE:.1f} MB" if now.unit == "files" else ""
            self._log.info("%s%s: %d%s %s%s", now.phase, about, now.files, of, now.unit, size)

    def read(self, done: int, total: int) -> None:
        """Hear how many bytes of a store have been read."""
        if self._is_time():
            self._log.info("read: %.1f of %.1f MB", done / _MEGABYTE, total / _MEGABYTE)

    def _is_time(self) -> bool:
        if self._clock() < self._next:
            return False
        self._next = self._clock() + PAUSE_SECONDS
        return True


class RunValuesTask(NamedParameters):
    """
    A task that refuses the values of a run which its policy does not accept.

    :param form_policy: Which fields a run may give; of a task on a stream's spec it is the spec's own.
    """

    form_policy: FormPolicy = FormPolicy()

    def known_applications(self) -> tuple[str, ...]:
        """Return the scripts that need no permission: the author's, the running deployment's."""
        return ()

    def note_written(self, templates: Templates) -> None:
        """Remember the author's values, before the fields are rendered."""

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        # Airflow calls this for plain and for mapped tasks, and for the parts of nested fields.
        # Not at dag parse.
        from airflow_streaming.operators.common import run_values
        from airflow_streaming.operators.common.templates import Templates

        names = tuple(template_fields)
        templates = Templates(jinja_env, getattr(self, "template_ext", ()))
        written = {name: getattr(parent, name, None) for name in names if parent is self}
        if left := run_values.unrendered(written.values(), templates):
            raise AirflowFailException(
                run_values.delimiters_text(getattr(self, "task_id", ""), left)
            )
        mapped = run_values.mapped_fields(self, names)
        if parent is self:
            self.note_written(templates)
        super()._do_render_template_fields(parent, names, context, jinja_env, seen_oids)  # type: ignore[misc]
        given = [
            value
            for name, text in written.items()
            for value in run_values.run_values(
                name, text, getattr(self, name), is_mapped=name in mapped, templates=templates
            )
        ]
        if refused := self._refused(given):
            raise AirflowFailException(
                run_values.refusal_text(getattr(self, "task_id", ""), refused)
            )

    def _refused(self, given: Sequence[RunValue]) -> list[Refusal]:
        # Not at dag parse.
        from airflow_streaming.model.arguments.form_policy import FieldRule
        from airflow_streaming.model.arguments.form_refusals import refusals

        refused = refusals(self.form_policy, given)
        # A home is read only when nothing else is wrong, the home itself included.
        if not refused or any(one.option is not FieldRule.APPLICATION for one in refused):
            return refused
        return refusals(self.form_policy, given, known_applications=self.known_applications())


class SpecsTask(RunValuesTask, BaseOperator):
    """
    A task on streams that are given as their dags describe them.

    :param conn_id: Spark connection of the apache-spark provider. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    template_fields: Sequence[str] = ("conn_id", "home_conn_id")

    @checked
    def __init__(
        self, *, conn_id: str = "spark_default", home_conn_id: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.conn_id, self.home_conn_id = conn_id, home_conn_id

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        if not isinstance(content, StreamSpec):
            return super().render_template(content, context, jinja_env, seen_oids)
        rendered = {
            name: super(SpecsTask, self).render_template(value, context, jinja_env, seen_oids)
            for name in content.template_fields
            if (value := getattr(content, name)) != ""  # a native Jinja makes None of it
        }
        with spec_errors_are_final():
            return dataclasses.replace(content, **rendered)

    def open_hook(
        self,
        context: Context,
        spec: StreamSpec,
        *,
        dag: StreamSpec | None = None,
        has_seen_home: bool = False,
    ) -> SparkStreamHook:
        """
        Return the hook of a stream.

        :param spec: The stream with the values of a form.
        :param dag: The stream without them; ``spec`` by default.
        :param has_seen_home: The task is resumed and remembers the home.
        :raises AirflowFailException: the spec cannot run.
        """
        # Not at dag parse.
        from airflow_streaming.hooks.lineage import driver_lineage
        from airflow_streaming.hooks.stream import SparkStreamHook

        with spec_errors_are_final():
            return SparkStreamHook(
                spec,
                conn_id=self.conn_id,
                home_conn_id=self.home_conn_id,
                by=who(context),
                folders=self.dag_folders(),
                launch_conf=functools.partial(driver_lineage, context),
                has_seen_home=has_seen_home,
                dag=dag,
            )

    def dag_folders(self) -> tuple[Path, ...]:
        """Return where a relative application path may start."""
        return (Path(self.dag.folder),) if self.has_dag() else ()


class SpecTask(SpecsTask):
    """
    A task on one stream, given as its dag describes it.

    :param stream: The stream. (templated, field by field)
    :param conn_id: Spark connection of the apache-spark provider. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    template_fields: Sequence[str] = (
        *("stream", "conn_id", "home_conn_id"),
        # Airflow cuts long fields off. These two tell pages which stream it is.
        *("stream_name", "stream_home"),
    )

    @checked
    def __init__(
        self,
        *,
        stream: StreamSpec | None,
        conn_id: str = "spark_default",
        home_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(conn_id=conn_id, home_conn_id=home_conn_id, **kwargs)
        if stream is not None:
            stream.check_written()
        # Gates on a checkpoint of another application have no stream.
        self.stream: StreamSpec = stream  # type: ignore[assignment]
        self.stream_name = getattr(stream, "name", None)
        self.stream_home = getattr(stream, "home", None)
        self.form_policy = FormPolicy() if stream is None else stream.form_policy
        self._has_authors_application = False

    def note_written(self, templates: Templates) -> None:
        from airflow_streaming.operators.common.run_values import is_authors  # not at dag parse

        self._has_authors_application = self.stream is not None and is_authors(
            self.stream.program, templates
        )

    def known_applications(self) -> tuple[str, ...]:
        if self.stream is None:
            return ()
        # Not at dag parse.
        from airflow_streaming.home.live_lane import live_lane
        from airflow_streaming.hooks.home import StreamHomeHook

        with spec_errors_are_final():
            home = StreamHomeHook(self.stream.home, self.home_conn_id, looks_only=True).get_conn()
            deployed = home.stream(live_lane(home, self.stream.name)).newest_deployment()
        authors = (self.stream.program,) if self._has_authors_application else ()
        return authors if deployed is None else (*authors, deployed.application)

    def defer(
        self,
        *,
        trigger: BaseTrigger,
        method_name: str,
        kwargs: dict[str, Any] | None = None,
        timeout: timedelta | float | None = None,
    ) -> NoReturn:
        self._take_trigger_queue()
        super().defer(trigger=trigger, method_name=method_name, kwargs=kwargs, timeout=timeout)

    def _take_trigger_queue(self) -> None:
        """
        Have the trigger run in the queue of the stream.

        Airflow gives a trigger the queue of the task's object in this process. The queue that names the
        workers is in its database and stays.
        """
        from airflow_streaming.settings import read_settings  # not at dag parse

        if self.stream is None:
            return
        queues, labels = read_settings().trigger_queues, self.stream.labels
        self.queue = queues.queue_of(self.stream.name, labels) or self.queue
        if queues.label in labels and labels[queues.label] != self.queue:
            self.log.warning(
                "Label %s=%s names no queue of [streaming] trigger_queues; the trigger runs in queue %r.",
                queues.label,
                labels[queues.label],
                self.queue,
            )

    def open_edited_hook(
        self, context: Context, stream: StreamSpec, **form: Any
    ) -> SparkStreamHook:
        """
        Return the hook of a stream with a form's values over the live deployment's values.

        :param form: Arguments of ``edited``.
        :raises SpecError: a value of the form is refused.
        :raises AirflowFailException: the spec cannot run.
        """
        # Not at dag parse.
        from airflow_streaming.operators.common.form_edits import edited

        hook = self.open_hook(context, stream)
        live = hook.home.newest_deployment()
        asked = edited(stream, () if live is None else live.overrides, **form)
        return self.open_hook(context, asked, dag=stream)

    def open_hook(
        self,
        context: Context,
        spec: StreamSpec | None = None,
        *,
        dag: StreamSpec | None = None,
        has_seen_home: bool = False,
    ) -> SparkStreamHook:
        """Return the hook of the stream; ``spec`` is the task's own by default."""
        return super().open_hook(context, spec or self.stream, dag=dag, has_seen_home=has_seen_home)
