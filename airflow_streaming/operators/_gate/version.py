"""The operator that asks whether another Spark reads a checkpoint, and whether it can come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_streaming.core.compatibility.finding import GateReport
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators._gate.common import asked, fail_if_refused, publish
from airflow_streaming.operators._gate.place import GateTask

if TYPE_CHECKING:
    from airflow.sdk import Context


class SparkVersionGateOperator(GateTask):
    """
    Ask whether another version of Spark goes on from the checkpoints, and whether one can come back.

    It reads checkpoints, starts no JVM, and answers from rules and from what was measured. A stream
    that never ran passes.

    The return value is the decision; XCom ``report`` has the findings and ``markdown`` a page.

    :param stream: The stream. (templated, field by field)
    :param checkpoint: Instead of a stream, the URI of a checkpoint, or of the folder above those of
        one application's queries. (templated)
    :param checkpoint_conn_id: Connection with credentials for it. (templated)
    :param from_version: The Spark that wrote it; for a stream, that of its deployment. (templated)
    :param to_version: The Spark to come. (templated)
    :param to_runtime: The same as a name in ``[streaming] runtimes``; for a stream that of the spec
        when neither is given. (templated)
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

    def __init__(
        self,
        *,
        from_version: str | None = None,
        to_version: str | None = None,
        to_runtime: str | None = None,
        conf: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.from_version = from_version
        self.to_version = to_version
        self.to_runtime = to_runtime
        self.conf = dict(conf or {})
        if self.checkpoint and not (from_version and (to_version or to_runtime)):
            raise SpecError(
                f"Task {self.task_id!r}: a checkpoint does not say which patch release wrote it. "
                "Give from_version, and to_version or to_runtime."
            )

    def execute(self, context: Context) -> str:
        gate = self._of_checkpoint if self.checkpoint else lambda: self._of_stream(context)
        report = asked(gate)
        publish(report, context, self.log)
        fail_if_refused(report, self.fail_on, what=f"Another Spark on {self.subject}")
        return report.decision.value

    def _of_stream(self, context: Context) -> GateReport:
        from airflow_streaming.core.conf import redact  # not at dag parse
        from airflow_streaming.operators._upgrade.edits import edited
        from airflow_streaming.upgrade.version_gate import gate_stream_version

        spec = edited(self.stream, runtime=self.to_runtime, conf=self.conf)
        hook = self.open_hook(context, spec)
        current = hook.home.newest_deployment()
        if current is None:
            self.log.info("%s never ran: there is no checkpoint to be read.", self.subject)
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
        from airflow_streaming.upgrade.version_gate import gate_version  # not at dag parse

        target = self.to_version or self.runtime_of(str(self.to_runtime)).spark_version
        return gate_version(
            str(self.checkpoint),
            str(self.from_version),
            target,
            conf={key: str(value) for key, value in self.conf.items()},
            storage_options=self.storage_options(),
        )
