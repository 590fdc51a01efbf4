"""Operators that rehearse a new script or Spark on copies of checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.exceptions import (
    BackupNotFound,
    CheckpointError,
    NothingYet,
    RecordError,
    SpecError,
)
from airflow_streaming.gates.rehearsal_due import Due, rehearsal_due
from airflow_streaming.model.arguments.accepted import UNPROVED
from airflow_streaming.model.arguments.fields import Positive, checked
from airflow_streaming.model.arguments.literals import mapping_of, texts_of, texts_or_template
from airflow_streaming.model.wire import decode
from airflow_streaming.operators.common.base import Log, ProgressLogger
from airflow_streaming.operators.common.checkpoint import Terminated
from airflow_streaming.operators.common.form_edits import (
    LONGEST_REHEARSAL,
    choice_of,
    positive_minutes,
    pulled,
)
from airflow_streaming.operators.common.gate import (
    MARKDOWN_XCOM_KEY,
    REPORT_XCOM_KEY,
    GateTask,
    asked,
    fail_if_refused,
    log_decision,
)
from airflow_streaming.operators.common.run_report import is_recorded, records_of, report_of_run
from airflow_streaming.options import GateDecision, RehearsalAnswer, RehearseWhen, plain

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.checkpoints.backup.records import Backup
    from airflow_streaming.checkpoints.copies import OfBackup, OfCheckpoints
    from airflow_streaming.checkpoints.vault.store import BackupStore
    from airflow_streaming.gates.findings import GateReport
    from airflow_streaming.gates.rehearsal import Rehearsed
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.launch.runtime import Runtime
    from airflow_streaming.model.jobs.migration import StateMigration
    from airflow_streaming.model.jobs.rehearsal import Bounds
    from airflow_streaming.spark_jobs.migrated_copies import Migrating
    from airflow_streaming.spark_jobs.runner import Program
    from airflow_streaming.spark_jobs.shared_spark import SharedSpark

NEWEST: Final = "newest"
"""The backup id for the newest one."""
REHEARSED_XCOM_KEY: Final = "rehearsed"
"""XCom of a preflight with the rehearsal that it has made."""
_MOST_DIGITS: Final = 9


class Proposed(NamedTuple):
    """A proposed program with its Spark, for the copy of a stream."""

    hook: SparkStreamHook
    program: Program
    runtime: Runtime

    @property
    def home(self) -> StreamHome:
        return self.hook.home


def proposed_of(hook: SparkStreamHook) -> Proposed:
    """
    Return the proposed program of a spec, with its output in the scratch.

    :raises SpecError: it cannot run as written.
    """
    deployment, source = hook.proposal()
    program = hook.program(deployment, source, is_scratch=True)
    return Proposed(hook, program, hook.runtime(hook.asked.runtime))


def bounds_of(
    batches: int | str, time_limit: timedelta, minutes: float | str | None = None
) -> Bounds:
    """
    Return the bounds of a rehearsal.

    :param batches: Batches after which each query is ended; 0 replays one batch only.
    :param minutes: Of a form; replaces ``time_limit`` unless it is empty.
    :raises SpecError: ``batches`` or ``minutes`` has another value than a number.
    """
    from airflow_streaming.model.jobs.rehearsal import QUICK, Bounds  # not at dag parse

    text = str(batches).strip()
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise SpecError(f"batches is {text!r:.80}; give a number, 0 for one replayed batch.")
    typed = positive_minutes(minutes, "rehearsal_minutes", LONGEST_REHEARSAL)
    is_quick = int(text) == 0
    seconds = (typed or time_limit).total_seconds()
    if is_quick and typed is None:
        seconds = min(seconds, QUICK.seconds)
    return (
        replace(QUICK, seconds=seconds) if is_quick else Bounds(batches=int(text), seconds=seconds)
    )


def place_of(
    home: StreamHome,
    options: Mapping[str, Any] | None,
    *,
    backup_id: str | None,
    backup_store: str | None,
    home_conn_id: str | None,
) -> OfBackup | OfCheckpoints:
    """
    Return the place of a rehearsal: a backup of the stream, or its live checkpoints.

    :param options: Options of fsspec for the checkpoints.
    :param backup_id: ``newest`` for the newest backup; empty for the live checkpoints.
    :raises NothingYet: the stream has no checkpoint yet.
    :raises BackupNotFound: the store has no such backup.
    """
    from airflow_streaming.checkpoints.backup.stream_backup import default_store, why_nothing_yet
    from airflow_streaming.checkpoints.copies import OfBackup, checkpoints_of
    from airflow_streaming.hooks.checkpoint import BackupStoreHook

    if not backup_id:
        return checkpoints_of(home, options)
    uri = backup_store or default_store(home.store.uri)
    try:
        store = BackupStoreHook(uri, home_conn_id).get_conn(home=home.store)
        return OfBackup(store=store, backup=_backup_of(store, home.name, backup_id))
    except CheckpointError:
        reason = why_nothing_yet(home) if backup_id == NEWEST else ""
        if reason:
            raise NothingYet(reason) from None
        raise


def _backup_of(store: BackupStore, stream: str, backup_id: str) -> Backup:
    if backup_id != NEWEST:
        return store.backup(backup_id, stream)
    backups = store.backups(stream)
    if not backups:
        raise BackupNotFound(
            f"The store {store.uri} has no backup of stream {stream!r}. Take one first, or "
            "rehearse on a copy of the live checkpoints."
        )
    return max(backups, key=lambda backup: (backup.begun_at, backup.id))


class UpgradeRehearsal(NamedTuple):
    """
    The rehearsal of an upgrade.

    :param compare: As of ``UpgradeRehearsalOperator``, like ``passing``.
    :param gates: Report of the gates on the upgrade.
    :param migrations: Of the queries whose state is migrated; the comparison is a part of their proof.
    :param accepted: Codes of findings that a user accepts.
    """

    place: OfBackup | OfCheckpoints
    bounds: Bounds
    compare: bool
    passing: Sequence[RehearsalAnswer | str]
    gates: GateReport
    migrations: Sequence[StateMigration] = ()
    accepted: Collection[str] = ()

    def run(self, proposed: Proposed, spark: SharedSpark, log: Log) -> Rehearsed:
        """Rehearse; then compare with the live version if ``compare`` is set and no finding forbids it."""
        from airflow_streaming.spark_jobs.migrated_copies import OfMigrated
        from airflow_streaming.spark_jobs.rehearsal import rehearse  # not at dag parse

        migrating = self._migrating(proposed)
        place = (
            self.place if migrating is None else OfMigrated(place=self.place, migrating=migrating)
        )
        found = rehearse(
            *(place, proposed.program, proposed.runtime),
            bounds=self.bounds,
            compare_with=proposed.home,
            progress=ProgressLogger(log),
            spark=spark,
        )
        if not (self.compare or migrating) or found.decision is GateDecision.NOT_ALLOWED:
            return found
        spark.end()  # each version gets a Spark of its own, which needs the memory
        return self._compared(found, proposed, migrating, log)

    def _migrating(self, proposed: Proposed) -> Migrating | None:
        from airflow_streaming.spark_jobs.migrated_copies import Migrating  # not at dag parse

        if not self.migrations:
            return None
        return Migrating(
            migrations=self.migrations, runtime=proposed.runtime, conf=proposed.program.conf
        )

    def _compared(
        self, found: Rehearsed, proposed: Proposed, migrating: Migrating | None, log: Log
    ) -> Rehearsed:
        from airflow_streaming.gates.findings import report_of  # not at dag parse
        from airflow_streaming.gates.rehearsal_compare import (
            findings_after,
            findings_of_migration,
        )
        from airflow_streaming.spark_jobs.rehearsal_compare import Version, compare_versions

        hook, home = proposed.hook, proposed.home
        current = home.newest_deployment()
        if current is None:
            return found
        program = hook.program(current, home.application(current.number), is_scratch=True)
        compared = compare_versions(
            self.place,
            Version(program=program, runtime=hook.runtime(current.runtime)),
            Version(program=proposed.program, runtime=proposed.runtime),
            bounds=self.bounds,
            plans=home.newest_plans(),
            migrating=migrating,
            progress=ProgressLogger(log),
        )
        queries = frozenset() if migrating is None else migrating.queries
        others = replace(
            compared, queries=tuple(one for one in compared.queries if one.query not in queries)
        )
        passing = {RehearsalAnswer(one) for one in self.passing}
        more = [
            *findings_of_migration(compared, queries, is_accepted=UNPROVED in self.accepted),
            *(findings_after(others, self.gates, passing) if self.compare else ()),
        ]
        return replace(
            found,
            seconds=found.seconds + compared.seconds,
            findings=report_of([*found.findings, *more]).findings,
        )


class RehearsalOperator(GateTask):
    """
    Run a new script on a copy of the stream's checkpoints and discard its output.

    It runs in the worker, on a small Spark of that host, for a bounded time. The live stream is not
    touched. The copy is removed at the end, also when the task is killed.

    The return value is the decision; XCom ``report`` has the findings and ``markdown`` a page. The task
    is skipped before the stream's first batch.

    :param stream: The stream with the proposed script. (templated, field by field)
    :param checkpoint: Instead of a stream, the URI of a checkpoint, or of the folder above the
        checkpoints of one application's queries. (templated)
    :param checkpoint_conn_id: Connection with credentials for it. (templated)
    :param application: The script; for a stream the spec's by default. (templated)
    :param application_args: For a checkpoint, its arguments. (templated)
    :param conf: Spark configuration; for a stream, changes of the spec's. (templated)
    :param runtime: Name of the Spark installation; for a stream the spec's by default. (templated)
    :param backup_id: Rehearse on this backup of the stream instead of a copy of the live
        checkpoints; ``newest`` selects the newest one. (templated)
    :param backup_store: URI of the backups; ``<home>/_backups`` by default. (templated)
    :param batches: Batches after which each query is ended; 0 replays one batch only. (templated)
    :param time_limit: Time for all queries together, without the start of Spark.
    :param fail_on: The best decision from which the task fails. (templated)
    """

    template_fields: Sequence[str] = (
        *GateTask.template_fields,
        "application",
        "application_args",
        "conf",
        "runtime",
        "backup_id",
        "backup_store",
        "batches",
    )

    @checked
    def __init__(
        self,
        *,
        application: str | None = None,
        application_args: Sequence[str] | str = (),
        conf: Mapping[str, Any] | str | None = None,
        runtime: str | None = None,
        backup_id: str | None = None,
        backup_store: str | None = None,
        batches: int | str = 5,
        time_limit: Positive = timedelta(minutes=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.application_args = texts_or_template(application_args, "application_args")
        self.conf = conf
        self.runtime = runtime
        self.backup_id = backup_id
        self.backup_store = backup_store
        self.batches = batches
        self.time_limit = time_limit
        self._is_at_work = False
        if self.checkpoint and not (application and runtime):
            raise SpecError(
                f"Task {self.task_id!r}: give application and runtime, to be run on a copy of the "
                "checkpoint."
            )

    def execute(self, context: Context) -> str:
        self._is_at_work = True
        try:
            found = asked(lambda: self._rehearse_begun(context))
        finally:
            self._is_at_work = False
        self.tell(found, context)
        fail_if_refused(found.report, self.fail_on, what=f"The rehearsal on {self.subject}")
        return found.decision.value

    def on_kill(self) -> None:
        # By raising, as in ``change``: the rehearsal ends its Spark and removes its copy.
        if self._is_at_work:
            raise Terminated(f"Task {self.task_id!r} was killed; its copy is removed.")

    def _rehearse_begun(self, context: Context) -> Rehearsed:
        try:
            return self.rehearse(context)
        except NothingYet as err:
            raise AirflowSkipException(str(err)) from err

    def rehearse(self, context: Context) -> Rehearsed:
        """Run the script on a copy and return the findings."""
        from airflow_streaming.checkpoints.copies import OfCheckpoints
        from airflow_streaming.spark_jobs.rehearsal import rehearse  # not at dag parse

        bounds, narrator = bounds_of(self.batches, self.time_limit), ProgressLogger(self.log)
        if self.checkpoint:
            place = OfCheckpoints(
                checkpoints=self.checkpoints(), storage_options=self.storage_options()
            )
            arguments = texts_of(self.application_args, "application_args")
            program = self.script(str(self.application), arguments, mapping_of(self.conf, "conf"))
            runtime = self.runtime_of(str(self.runtime))
            return rehearse(place, program, runtime, bounds=bounds, progress=narrator)
        proposed = self.proposed(context)
        return rehearse(
            self._place(proposed.home),
            proposed.program,
            proposed.runtime,
            bounds=bounds,
            compare_with=proposed.home,
            progress=narrator,
        )

    def tell(self, found: Rehearsed, context: Context) -> None:
        """Write the findings to the log and to XCom."""
        from airflow_streaming.reports.markdown import markdown
        from airflow_streaming.reports.rehearsal import rehearsal_report

        log_decision(found.decision, found.findings, self.log)
        self.log.info("The rehearsal took %.0f s.", found.seconds)
        context["ti"].xcom_push(key=REPORT_XCOM_KEY, value=found.to_dict())
        context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=markdown(rehearsal_report(found)))

    def proposed(self, context: Context) -> Proposed:
        """Return the program that runs on the copy."""
        hook = self.open_edited_hook(
            context,
            self.stream,
            runtime=self.runtime,
            application=self.application,
            conf=self.conf,
        )
        return proposed_of(hook)

    def _place(self, home: StreamHome) -> OfBackup | OfCheckpoints:
        return place_of(
            *(home, self.storage_options()),
            backup_id=self.backup_id,
            backup_store=self.backup_store,
            home_conn_id=self.home_conn_id,
        )


class UpgradeRehearsalOperator(RehearsalOperator):
    """
    Rehearse an upgrade before it is approved.

    The task is skipped when the run needs no rehearsal. An *unknown* of the gates passes only after a
    rehearsal, so the task fails when the run forbids it. A preflight with the same options has rehearsed
    already, in its own Spark; this task judges that rehearsal.

    :param preflight_task_id: The task with the report of the gates.
    :param when: When it is rehearsed. (templated)
    :param rehearsal_minutes: The bound of a form: replaces ``time_limit`` unless it is empty. (templated)
    :param compare: Also run the old version over the same batches, and the new one from scratch where
        the checkpoint reaches back that far. Then an *unknown* of a gate passes only with an answer in
        ``passing``.
    :param passing: Answers with which it passes: any of ``same``, ``not_revised`` and ``settles``.
    """

    template_fields: Sequence[str] = (
        *RehearsalOperator.template_fields,
        "when",
        "rehearsal_minutes",
    )

    @checked
    def __init__(
        self,
        *,
        preflight_task_id: str,
        when: RehearseWhen | str = RehearseWhen.WHEN_UNKNOWN,
        rehearsal_minutes: float | str | None = None,
        fail_on: GateDecision | str | None = GateDecision.UNKNOWN.value,
        compare: bool = False,
        passing: Sequence[RehearsalAnswer | str] = ("same", "not_revised"),
        **kwargs: Any,
    ) -> None:
        super().__init__(fail_on=fail_on, **kwargs)
        self.preflight_task_id = preflight_task_id
        self.when = plain(when)
        self.rehearsal_minutes = rehearsal_minutes
        self.compare = compare
        self.passing = [plain(answer) for answer in passing]

    def rehearse(self, context: Context) -> Rehearsed:
        """
        Return the rehearsal of the preflight; rehearse without one, and in a later try.

        A cleared task rehearses again, because its source may have new data by then.
        """
        from airflow_streaming.gates.findings import report_from  # not at dag parse
        from airflow_streaming.spark_jobs.shared_spark import SharedSpark

        proposed = self.proposed(context)
        if context["ti"].try_number == 1 and (found := self._of_preflight(context, proposed.home)):
            self.log.info("The preflight has rehearsed the upgrade in its Spark.")
            return found
        report = report_of_run(context, proposed.home, self.preflight_task_id) or {}
        rehearsal = UpgradeRehearsal(
            place=self._place(proposed.home),
            bounds=bounds_of(self.batches, self.time_limit, self.rehearsal_minutes),
            compare=self.compare,
            passing=self.passing,
            gates=report_from(report.get("gates") or {}),
            migrations=migrations_of(report),
            accepted=report.get("accepted", ()),
        )
        with SharedSpark() as spark:
            return rehearsal.run(proposed, spark, self.log)

    def _of_preflight(self, context: Context, home: StreamHome) -> Rehearsed | None:
        """Return the rehearsal of the preflight; ``None`` without one, and where XCom has another than the home."""
        from airflow_streaming.gates.rehearsal import Rehearsed  # not at dag parse

        seen = pulled(context, self.preflight_task_id, REHEARSED_XCOM_KEY)
        if not seen:
            return None
        try:
            found = Rehearsed.from_dict(seen)
            known = is_recorded(context, home, self.preflight_task_id, REHEARSED_XCOM_KEY, seen)
        except RecordError as err:
            self.log.warning("The rehearsal of the preflight cannot be read: %s", err)
            return None
        if not known:
            self.log.warning(
                "XCom %r of task %r is not the rehearsal that stream %r has recorded for this run. The upgrade is "
                "rehearsed again.",
                *(REHEARSED_XCOM_KEY, self.preflight_task_id, home.name),
            )
            return None
        return found

    def execute(self, context: Context) -> str:
        home = records_of(self.stream.home, self.home_conn_id, self.stream.name)
        report = report_of_run(context, home, self.preflight_task_id) or {}
        if report.get("resumes"):
            raise AirflowSkipException("The upgrade has already started.")
        when = choice_of(self.when, "when", RehearseWhen)
        due = rehearsal_due(when, gates_of(report), is_migrated=bool(report.get("migrations")))
        if due is Due.REFUSED:
            raise AirflowFailException(
                f"The gates alone cannot prove that the upgrade of {self.subject} is safe, and the rehearsal is "
                "turned off. Start the run again with a rehearsal."
            )
        if due is Due.NO:
            raise AirflowSkipException("The gates have answered everything.")
        return super().execute(context)


def migrations_of(report: Mapping[str, Any]) -> tuple[StateMigration, ...]:
    """Return the migrations of state in the report of a preflight."""
    from airflow_streaming.model.jobs.migration import StateMigration  # not at dag parse

    return tuple(decode(StateMigration, one, "migration") for one in report.get("migrations", ()))


def gates_of(report: Mapping[str, Any]) -> GateDecision:
    """Return the decision of the gates, from the report of the preflight."""
    return GateDecision.UNKNOWN if report.get("has_to_be_rehearsed") else GateDecision.ALLOWED
