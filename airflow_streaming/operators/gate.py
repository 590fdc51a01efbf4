"""Operators that ask the gates before a stream is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_streaming.exceptions import NothingYet, SpecError
from airflow_streaming.gates.findings import GateReport
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.arguments.literals import (
    mapping_of,
    mapping_or_template,
    texts_of,
    texts_or_template,
)
from airflow_streaming.operators.common.gate import GateTask, asked, fail_if_refused, publish

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.model.spark.plan import ScriptPlan


class ChangeGateOperator(GateTask):
    """
    Check whether a new version of a script may continue from the running version's checkpoints.

    The script is run in plan mode on its runtime, in the worker: it starts no query and reads no
    data. Its plans are compared with the plans that the running driver recorded and with the
    checkpoints. A stream that never ran passes.

    The return value is the decision; XCom ``report`` has the findings and ``markdown`` a page.

    :param stream: The stream with its new script. (templated, field by field)
    :param checkpoint: Instead of a stream, the URI of a checkpoint, or of the folder above the
        checkpoints of one application's queries. (templated)
    :param checkpoint_conn_id: Connection with credentials for it. (templated)
    :param application: For a checkpoint, the new script. (templated)
    :param application_args: Its arguments. (templated)
    :param conf: Its Spark configuration. (templated)
    :param runtime: Name of the new Spark installation; for a stream the spec's by default.
        (templated)
    :param fail_on: The best decision from which the task fails. (templated)
    """

    template_fields: Sequence[str] = (
        *GateTask.template_fields,
        "application",
        "application_args",
        "conf",
        "runtime",
    )

    @checked
    def __init__(
        self,
        *,
        application: str | None = None,
        application_args: Sequence[str] | str = (),
        conf: Mapping[str, Any] | str | None = None,
        runtime: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.application_args = texts_or_template(application_args, "application_args")
        self.conf = mapping_or_template(conf, "conf")
        self.runtime = runtime
        if self.checkpoint and not (application and runtime):
            raise SpecError(
                f"Task {self.task_id!r}: a checkpoint alone does not describe new code. Give application "
                "and runtime."
            )

    def execute(self, context: Context) -> str:
        gate = self._of_checkpoint if self.checkpoint else lambda: self._of_stream(context)
        report = asked(gate)
        publish(report, context, self.log)
        fail_if_refused(report, self.fail_on, what=f"The new code on {self.subject}")
        return report.decision.value

    def _of_stream(self, context: Context) -> GateReport:
        from airflow_streaming.changes.upgrade.rollback import is_same_code
        from airflow_streaming.gates.change_gate import gate_stream_change
        from airflow_streaming.spark_jobs.plan_mode import plan_script  # not at dag parse

        hook = self.open_edited_hook(
            context,
            self.stream,
            runtime=self.runtime,
            application=self.application,
            conf=self.conf,
        )
        current = hook.home.newest_deployment()
        candidate, _ = hook.candidate()
        if current is None:
            self.log.info("%s never ran: there is nothing to compare with.", self.subject)
            return GateReport()
        try:
            return gate_stream_change(
                hook.home,
                plan_script(candidate.program, candidate.runtime),
                storage_options=self.storage_options(),
                same_code=is_same_code(current, candidate.deployment),
            )
        except NothingYet as err:
            self.log.info("There is nothing to compare with. %s", err)
            return GateReport()

    def _of_checkpoint(self) -> GateReport:
        from airflow_streaming.gates.change_gate import gate_change  # not at dag parse
        from airflow_streaming.spark_jobs.plan_mode import plan_script

        arguments = texts_of(self.application_args, "application_args")
        program = self.script(str(self.application), arguments, mapping_of(self.conf, "conf"))
        new = plan_script(program, self.runtime_of(str(self.runtime)))
        places = by_query(self.checkpoints(), new)
        return gate_change(places, [], new, storage_options=self.storage_options())


def by_query(places: Mapping[str, str], new: ScriptPlan) -> Mapping[str, str]:
    """
    Return checkpoints by query; a single one, which has no name, belongs to the only query.

    :raises SpecError: the script has several queries, and none is named.
    """
    if "" not in places:
        return places
    if len(new.queries) != 1:
        raise SpecError(
            f"The script starts {len(new.queries)} queries and the checkpoint is of one. Give the "
            "folder above the checkpoints, named like the queries."
        )
    return {new.queries[0].query: places[""]}


class SparkVersionGateOperator(GateTask):
    """
    Check whether another Spark version continues from the checkpoints, and whether it can go back.

    It reads checkpoints, starts no JVM, and decides by rules and measurements. A stream that never
    ran passes.

    The return value is the decision; XCom ``report`` has the findings and ``markdown`` a page.

    :param stream: The stream. (templated, field by field)
    :param checkpoint: Instead of a stream, the URI of a checkpoint, or of the folder above the
        checkpoints of one application's queries. (templated)
    :param checkpoint_conn_id: Connection with credentials for it. (templated)
    :param from_version: The Spark that wrote it; for a stream, its deployment's Spark. (templated)
    :param to_version: The new Spark. (templated)
    :param to_runtime: The same as a name in ``[streaming] runtimes``; for a stream the spec's
        runtime by default. (templated)
    :param conf: Spark configuration of the new deployment; for a stream, changes of the spec's.
        (templated)
    :param fail_on: The best decision from which the task fails. (templated)
    """

    template_fields: Sequence[str] = (
        *GateTask.template_fields,
        "from_version",
        "to_version",
        "to_runtime",
        "conf",
    )

    @checked
    def __init__(
        self,
        *,
        from_version: str | None = None,
        to_version: str | None = None,
        to_runtime: str | None = None,
        conf: Mapping[str, Any] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.from_version = from_version
        self.to_version = to_version
        self.to_runtime = to_runtime
        self.conf = mapping_or_template(conf, "conf")
        if self.checkpoint and not (from_version and (to_version or to_runtime)):
            raise SpecError(
                f"Task {self.task_id!r}: a checkpoint does not record which patch release wrote it. Give "
                "from_version, and to_version or to_runtime."
            )

    def execute(self, context: Context) -> str:
        gate = self._of_checkpoint if self.checkpoint else lambda: self._of_stream(context)
        report = asked(gate)
        publish(report, context, self.log)
        fail_if_refused(report, self.fail_on, what=f"Another Spark on {self.subject}")
        return report.decision.value

    def _of_stream(self, context: Context) -> GateReport:
        from airflow_streaming.gates.version_gate import gate_stream_version
        from airflow_streaming.model.spark.secret_conf import redact  # not at dag parse
        from airflow_streaming.operators.common.form_edits import edited

        spec = edited(self.stream, runtime=self.to_runtime, conf=self.conf)
        hook = self.open_hook(context, spec)
        current = hook.home.newest_deployment()
        if current is None:
            self.log.info("%s never ran and has no checkpoint to read.", self.subject)
            return GateReport()
        target = self.to_version or self.runtime_of(spec.runtime).spark_version
        return gate_stream_version(
            hook.home,
            target,
            from_version=self.from_version or current.spark_version,
            conf=redact({**current.conf, **spec.conf}),
            storage_options=self.storage_options(),
        )

    def _of_checkpoint(self) -> GateReport:
        from airflow_streaming.gates.version_gate import gate_version  # not at dag parse

        target = self.to_version or self.runtime_of(str(self.to_runtime)).spark_version
        return gate_version(
            str(self.checkpoint),
            str(self.from_version),
            target,
            conf={key: str(value) for key, value in mapping_of(self.conf, "conf").items()},
            storage_options=self.storage_options(),
        )
