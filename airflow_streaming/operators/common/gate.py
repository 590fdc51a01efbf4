"""Shared parts of gate operators: the subject of a gate, and the end of a task by a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import CheckpointBusy, CheckpointError, SpecError
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport
from airflow_streaming.model.arguments.calls import Way
from airflow_streaming.model.arguments.fields import checked, is_filled_in
from airflow_streaming.model.arguments.form_policy import FormPolicy
from airflow_streaming.operators.common.base import Log, SpecTask
from airflow_streaming.spec import StreamSpec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.launch.runtime import Runtime
    from airflow_streaming.reports.report import Report
    from airflow_streaming.spark_jobs.runner import Program

Value = TypeVar("Value")
REPORT_XCOM_KEY: Final = "report"
"""XCom with a gate's whole report; the return value of the task is the decision."""
MARKDOWN_XCOM_KEY: Final = "markdown"
"""XCom with the report as Markdown, e.g. for the body of an approval."""
FAIL_ON: Final = (None, "not_allowed", "unknown", "allowed_with_consequence")
_MOST_TOLD: Final = 3
"""Findings that are quoted in an error; the log and the XCom have all."""


def check_fail_on(fail_on: GateDecision | str | None) -> None:
    """
    Do nothing for a decision from which a gate may fail.

    :raises SpecError: it is not such a decision.
    """
    if fail_on not in FAIL_ON:
        raise SpecError(
            f"fail_on is {fail_on!r}; give 'not_allowed', 'unknown', 'allowed_with_consequence' or "
            "None."
        )


def publish(report: GateReport, context: Context, log: Log, *, page: str | None = None) -> None:
    """Write a report to the task's log and XComs."""
    from airflow_streaming.reports.gate import gate_report  # not at dag parse
    from airflow_streaming.reports.markdown import markdown  # not at dag parse

    log_decision(report.decision, report.findings, log)
    context["ti"].xcom_push(key=REPORT_XCOM_KEY, value=report.to_dict())
    context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=page or markdown(gate_report(report)))


def log_decision(decision: GateDecision, findings: Iterable[GateFinding], log: Log) -> None:
    """Write a decision to a task's log, and below it the findings that it rests on."""
    log.info("Decision: %s", decision.value)
    for finding in findings:
        log.info("  %s", line_of(finding))


def log_report(report: Report, log: Log) -> None:
    """Write a report to a task's log as plain text, in a group that can be closed."""
    from airflow_streaming.reports.terminal import plain  # not at dag parse

    for line in ("::group::The report", *plain(report).splitlines(), "::endgroup::"):
        log.info("%s", line)


def fail_if_refused(report: GateReport, fail_on: str | None, *, what: str) -> None:
    """
    Do nothing for a report that is better than ``fail_on``.

    :param what: Subject of the report, e.g. ``The new code of stream 'orders'``.
    :raises AirflowFailException: with the worst findings and their ways out.
    """
    if fail_on is None or report.decision.weight < GateDecision(fail_on).weight:
        return
    bad = _by_sentence(
        f for f in report.findings if f.severity.weight >= GateDecision(fail_on).weight
    )
    lines = [_item(findings) for findings in bad[:_MOST_TOLD]]
    if len(bad) > _MOST_TOLD:
        lines.append(f"and {len(bad) - _MOST_TOLD} more, in the log above")
    decision = report.decision.value.replace("_", " ")
    raise AirflowFailException("\n- ".join([f"{what} is {decision}:", *lines]))


def _by_sentence(findings: Iterable[GateFinding]) -> list[list[GateFinding]]:
    """Return findings that say the same of several queries together, in their order."""
    same: dict[GateFinding, list[GateFinding]] = {}
    for finding in findings:
        same.setdefault(replace(finding, query="", old="", new="", evidence=""), []).append(finding)
    return list(same.values())


def _item(findings: Sequence[GateFinding]) -> str:
    """Return a finding of some queries as lines: the rule, the message, and the remedy."""
    first = findings[0]
    queries = list(dict.fromkeys(repr(one.query) for one in findings if one.query))
    of = (
        f" of {'query' if len(queries) == 1 else 'queries'} {', '.join(queries)}" if queries else ""
    )
    values = f" ({first.old or '-'} → {first.new or '-'})" if first.old or first.new else ""
    shown = values if len(findings) == 1 else ""
    remedy = f"\n  What to do: {first.remedy}" if first.remedy else ""
    return f"{first.rule}{of}{shown}: {first.message}{remedy}"


def line_of(finding: GateFinding) -> str:
    """Return a finding as one line: how bad, the rule, what, and the way out."""
    where = f" of query {finding.query!r}" if finding.query else ""
    values = f" ({finding.old or '-'} → {finding.new or '-'})" if finding.old or finding.new else ""
    evidence = f" [{finding.evidence}]" if finding.evidence else ""
    return (
        f"{finding.severity.value}: {finding.rule}{where}{values}: {finding.message}{evidence} "
        f"{finding.remedy}"
    ).rstrip()


def asked(gate: Callable[[], Value]) -> Value:
    """
    Return a gate's answer.

    :raises AirflowFailException: the question is wrong, and a retry does not help.
    """
    try:
        return gate()
    except CheckpointBusy:
        raise
    except (SpecError, CheckpointError) as err:
        raise AirflowFailException(str(err)) from err


class GateTask(SpecTask):
    """
    A gate, before a managed stream or before a checkpoint that another application writes.

    :param stream: The stream, as its keep-alive dag has it or will have it. (templated, field by
        field)
    :param checkpoint: Instead of a stream, the URI of a checkpoint, or of the folder above the
        checkpoints of one application's queries. (templated)
    :param checkpoint_conn_id: Connection with credentials for it. (templated)
    :param fail_on: The best decision from which the task fails: ``not_allowed``, ``unknown`` or
        ``allowed_with_consequence``; ``None`` never fails it. (templated)
    :param form_policy: For a checkpoint: the templated fields that a run may set; a stream has its
        own. See ``FormPolicy``.
    """

    template_fields: Sequence[str] = (
        *SpecTask.template_fields,
        "checkpoint",
        "checkpoint_conn_id",
        "fail_on",
    )
    ui_color = "#f6e7a9"
    either: ClassVar[Sequence[Sequence[Way]]] = (
        (Way(("stream",)), Way(("checkpoint",), ("checkpoint_conn_id",))),
    )

    @checked
    def __init__(
        self,
        *,
        stream: StreamSpec | None = None,
        checkpoint: str | None = None,
        checkpoint_conn_id: str | None = None,
        fail_on: GateDecision | str | None = GateDecision.NOT_ALLOWED.value,
        form_policy: FormPolicy = FormPolicy(),
        **kwargs: Any,
    ) -> None:
        super().__init__(stream=stream, **kwargs)
        if stream is None:
            self.form_policy = form_policy
        self.checkpoint = checkpoint
        self.checkpoint_conn_id = checkpoint_conn_id
        self.fail_on = fail_on.value if isinstance(fail_on, GateDecision) else fail_on
        if (stream is None) is (checkpoint is None):
            raise SpecError(
                f"Task {self.task_id!r} has neither or both of stream and checkpoint. Set "
                "stream for a managed stream, or checkpoint for a checkpoint of another "
                "application."
            )
        if not is_filled_in(fail_on):
            check_fail_on(fail_on)

    @property
    def subject(self) -> str:
        """Return the subject of the gate, for sentences."""
        return (
            f"checkpoint {self.checkpoint}" if self.checkpoint else f"stream {self.stream.name!r}"
        )

    def storage_options(self) -> Mapping[str, Any] | None:
        """Return how the checkpoints are reached; ``None`` for the environment's credentials."""
        from airflow_streaming.hooks.home import access_options  # not at dag parse

        if self.checkpoint:
            return access_options(self.checkpoint, self.checkpoint_conn_id)
        return access_options(self.stream.home, self.home_conn_id)

    def checkpoints(self) -> dict[str, str]:
        """
        Return the URI of every checkpoint by its folder, whose name is empty for a single one.

        :raises CheckpointError: there are no checkpoints.
        """
        from airflow_streaming.checkpoints.backup.live_copy import sources_of  # not at dag parse
        from airflow_streaming.hooks.checkpoint import CheckpointHook

        folders = CheckpointHook(str(self.checkpoint), self.checkpoint_conn_id).get_conn()
        return {source.folder: source.folders.uri for source in sources_of(folders)}

    def runtime_of(self, name: str) -> Runtime:
        """Return a Spark installation by its name in ``[streaming] runtimes``."""
        from airflow_streaming.launch.runtime import resolve_runtime  # not at dag parse
        from airflow_streaming.settings import read_settings

        return resolve_runtime(name, read_settings().runtimes)

    def script(
        self, application: str, arguments: Sequence[str], conf: Mapping[str, Any] | None
    ) -> Program:
        """Read a script that belongs to no stream of ours; a relative path starts at the dag."""
        from airflow_streaming.launch.package import locate_application, read_application
        from airflow_streaming.spark_jobs.runner import Program  # not at dag parse

        location = locate_application(application, self.dag_folders())
        return Program(
            application=location,
            source=read_application(location),
            arguments=tuple(map(str, arguments)),
            conf=dict(conf or {}),
        )
