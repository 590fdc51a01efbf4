"""The operator that examines an upgrade before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.model.arguments.accepted import (
    NO_ROLLBACK,
    accepted_codes,
    check_accepted,
)
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.codec import encode
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage
from airflow_streaming.operators.common.base import run_key
from airflow_streaming.operators.common.checkpoint import truth
from airflow_streaming.operators.common.form_edits import (
    ENDED_XCOM_KEY,
    bounded,
    choice_of,
    found_change,
    is_asked,
)
from airflow_streaming.operators.common.gate import (
    MARKDOWN_XCOM_KEY,
    REPORT_XCOM_KEY,
    asked,
    fail_if_refused,
    line_of,
    log_decision,
    log_report,
)
from airflow_streaming.operators.common.run_report import push_recorded
from airflow_streaming.operators.common.upgrade import UpgradeTask
from airflow_streaming.options import (
    Approval,
    ChangeApproval,
    RehearsalOptions,
    RehearseWhen,
    plain,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.advice.sizing import SizeSource
    from airflow_streaming.changes.upgrade.preflight import Candidate, Migrate
    from airflow_streaming.changes.upgrade.preflight_report import Preflight
    from airflow_streaming.changes.upgrade.rollback import Ways
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.model.records.deployment import Deployment
    from airflow_streaming.spark_jobs.shared_spark import SharedSpark


def asked_sizes(size: Mapping[str, Any]) -> list[SizeSource]:
    """Return the sizes of a run with the values that it has given."""
    from airflow_streaming.advice.sizing import SizeSource  # not at dag parse

    return [
        SizeSource(size=name, value=str(value), source="As requested.")
        for name, value in size.items()
        if value not in (None, "")
    ]


def take_advice(home: StreamHome) -> SizeSource:
    """
    Return the number of executors that is advised, or was when the open upgrade was begun.

    :raises SpecError: no number follows from the stream's figures.
    """
    from airflow_streaming.advice.sizing import EXECUTORS, SizeSource  # not at dag parse
    from airflow_streaming.advice.stream_sizing import stream_executors  # not at dag parse

    change = home.open_upgrade()
    begun = "" if change is None else home.terms(change).proposed.conf.get(EXECUTORS, "")
    if change is not None and begun:
        source = f"As change {change.number} has it, which is open."
        return SizeSource(size="executors", value=begun, source=source)
    try:
        return stream_executors(home)
    except SpecError as err:
        raise SpecError(
            f"Stream {home.name!r} is left as it is. {err} Give the number of executors, or leave "
            "out that it is advised."
        ) from err


class UpgradePreflightOperator(UpgradeTask):
    """
    Run the gates of an upgrade and plan its rollback, before any change.

    The task changes nothing, except that it first finishes an earlier upgrade that was decided and
    whose run is gone. It fails when the gates do not allow the upgrade, and is skipped without
    changes to apply. The return value is the decision. The next tasks read XCom ``report``;
    ``markdown`` is the page for the approver.

    :param soak: Conditions for the new deployment before it is kept.
    :param soak_minutes: The bound of a form: replaces ``soak.at_most`` unless it is empty.
        (templated)
    :param sink_habits: Behavior of a sink for a batch id that it has seen, by the query's name:
        ``overwrites``, ``remembers``, ``appends`` or ``nothing``. Not for file sinks.
    :param accept: Codes of findings that are accepted: steps back from the live deployment
        (``live.older_spark``, ``live.older_script``, ``live.dropped_conf``), rows that come twice
        after a rollback (``rollback.replay``), and an upgrade that cannot be rolled back
        (``rollback.none``); a list, or a text with commas. A restart with ``same_code`` needs no
        rollback. (templated)
    :param same_code: Refuse a change of the code or of Spark's minor version: for a rolling
        restart.
    :param repartitions: Repartition state to the proposed number of shuffle partitions, where Spark
        and the checkpoints allow it; otherwise that number has no effect on state.
    :param migrate: Migrate the state where the change is refused without it and can be migrated (Spark
        4.2 and newer); the report lists the consequences. (templated)
    :param migration_plan: Path of a plan of ``gate change --write-migration`` with declared initial
        values; empty: the plan of the gate.
    :param even_if_equal: Continue without any difference: a plain restart with all of an upgrade's
        care.
    :param prewarm: Warm the new driver up before the old one is stopped, where the launcher can;
        empty or ``None``: the stream's ``standby`` setting, which pays for a second driver already.
        (templated)
    :param dry_run: Only check and report; an open upgrade is not continued. (templated)
    :param approval: ``begin``: ``ask`` (default) where a user reads the report before the upgrade
        begins, or ``auto``. With ``same_code`` there is no rehearsal, so ``auto`` refuses an
        *unknown* of the gates. (templated)
    :param rehearsal: How the upgrade is rehearsed. A rehearsal that is due runs here, in the Spark
        of plan mode, and XCom ``rehearsed`` has it for the task that judges it. ``None`` leaves it
        to that task, which starts a Spark of its own.
    :param rehearsal_minutes: The bound of a form: replaces ``rehearsal.time_limit`` unless it is empty.
        (templated)
    :param when: When it is rehearsed. (templated)
    :param backup_id: Rehearse on this backup; the live checkpoints when empty. (templated)
    """

    template_fields: Sequence[str] = (
        *UpgradeTask.template_fields,
        "soak_minutes",
        "accept",
        "prewarm",
        "migrate",
        "is_dry_run",
        "approval",
        *("when", "backup_id", "rehearsal_minutes"),
    )

    @checked
    def __init__(
        self,
        *,
        soak: SoakTerms | None = None,
        soak_minutes: float | str | None = None,
        sink_habits: Mapping[str, str] | None = None,
        accept: Sequence[str] | str = (),
        prewarm: bool | str | None = None,
        same_code: bool = False,
        repartitions: bool = False,
        migrate: bool | str = False,
        migration_plan: str = "",
        even_if_equal: bool = False,
        dry_run: bool | str = False,
        approval: ChangeApproval | str | None = None,
        rehearsal: RehearsalOptions | None = None,
        rehearsal_minutes: float | str | None = None,
        when: RehearseWhen | str = RehearseWhen.WHEN_UNKNOWN,
        backup_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.soak = soak or SoakTerms()
        self.soak_minutes = soak_minutes
        self.sink_habits = {query: habit_of(name) for query, name in (sink_habits or {}).items()}
        check_accepted(accept)
        self.accept = accept
        self.prewarm = prewarm
        self.same_code = same_code
        self.repartitions = repartitions
        self.migrate = migrate
        self.migration_plan = migration_plan
        self.even_if_equal = even_if_equal
        # BaseOperator has a method called dry_run.
        self.is_dry_run = dry_run
        self.approval = approval
        self.rehearsal = rehearsal
        self.rehearsal_minutes = rehearsal_minutes
        self.when = plain(when)
        self.backup_id = backup_id

    def execute(self, context: Context) -> str:
        return asked(lambda: self._execute(context))

    def _execute(self, context: Context) -> str:
        from airflow_streaming.spark_jobs.shared_spark import SharedSpark  # not at dag parse

        takes_advice = self.takes_advice
        hook = self.hook(context)
        self._carry_out(hook)
        self._check_is_new(hook, context)
        sizes = asked_sizes(self.sizes())
        if takes_advice:
            taken = take_advice(hook.home)
            self.log.info("%s: %s. %s", taken.size, taken.value, taken.source)
            self.size, sizes = {**self.sizes(), taken.size: taken.value}, [*sizes, taken]
            hook = self.hook(context)
        candidate, _ = hook.candidate()
        current = self._current(hook)
        if self._is_open(hook, candidate.deployment, context):
            return "allowed"
        if self.same_code:
            check_same_code(current, candidate.deployment)
        if current.fingerprint == candidate.deployment.fingerprint and not self.even_if_equal:
            self._skip(
                context, f"Stream {self.stream.name!r} already runs the requested deployment."
            )
        with self.working(), SharedSpark() as spark:
            found = self._look(hook, current, candidate, sizes, spark)
            # Not while Spark writes all state anew: the driver would wait at the barrier all the while.
            warms = not (found.partitions or found.migrations) and self._prewarms(
                hook.launcher.kind
            )
            found = replace(found, prewarm=warms)
            self._tell(found, hook, context)
            fail_if_refused(found.gates, "not_allowed", what=f"The upgrade of {self.stream.name!r}")
            self._check_is_known(found)
            self._rehearse(hook, found, spark, context)
        return found.decision.value

    def _rehearse(
        self, hook: SparkStreamHook, found: Preflight, spark: SharedSpark, context: Context
    ) -> None:
        """Rehearse in the Spark of plan mode, where a rehearsal is due."""
        from airflow_streaming.gates.rehearsal_due import Due, rehearsal_due
        from airflow_streaming.hooks.home import access_options
        from airflow_streaming.operators import rehearsal as tasks  # not at dag parse

        options = self.rehearsal
        when = choice_of(self.when, "when", RehearseWhen)
        due = rehearsal_due(when, found.decision, is_migrated=bool(found.migrations))
        if options is None or due is not Due.YES:
            return
        bounds = tasks.bounds_of(options.batches, options.time_limit, self.rehearsal_minutes)
        try:
            place = tasks.place_of(
                *(hook.home, access_options(self.stream.home, self.home_conn_id)),
                backup_id=self.backup_id,
                backup_store=self.backup_store,
                home_conn_id=self.home_conn_id,
            )
            rehearsed = tasks.UpgradeRehearsal(
                place,
                bounds,
                options.compare,
                options.passing,
                found.gates,
                found.migrations,
                accepted_codes(self.accept),
            ).run(tasks.proposed_of(hook), spark, self.log)
        except StreamingError as err:
            self.log.warning("The task of the rehearsal runs it, because it failed here: %s", err)
            return
        push_recorded(context, hook.home, tasks.REHEARSED_XCOM_KEY, rehearsed.to_dict())

    def _prewarms(self, launcher: str) -> bool:
        from airflow_streaming.supervision.standby import WITH_STANDBY  # not at dag parse

        if self.prewarm is None or str(self.prewarm).strip() == "":
            return self.stream.standby and launcher in WITH_STANDBY
        return truth(self.prewarm, "prewarm")

    def _carry_out(self, hook: SparkStreamHook) -> None:
        """Finish an earlier upgrade that was decided and whose run is gone."""
        change = hook.home.open_upgrade()
        if change is None or truth(self.is_dry_run, "dry_run"):
            return
        if not UPGRADE.state_of(hook.home.upgrade_steps(change.number)).is_decided:
            return
        self.log.info("Finishing change %d first: %s", change.number, change.reason)
        with self.working():
            self.wait_here(self.engine(hook, hook.observer()), Stage.ROLLED_BACK, change.number)

    def _check_is_new(self, hook: SparkStreamHook, context: Context) -> None:
        """Refuse a run that was cleared after its upgrade had ended: it would only tell the end."""
        change = found_change(hook.home, {"key": run_key(context)})
        end = None if change is None else hook.home.change_end(change.number)
        if end is not None:
            raise AirflowFailException(
                f"This run has upgraded stream {self.stream.name!r} already: change {end.number} "
                f"has ended ({end.outcome.value.replace('_', ' ')}): {end.reason} Start a new run."
            )

    def _check_is_known(self, found: Preflight) -> None:
        if (
            not self.same_code
            or is_asked(self.approval, "begin", Approval.ASK)
            or not found.has_to_be_rehearsed
        ):
            return
        unknown = next(f for f in found.gates.findings if f.severity is found.decision)
        raise AirflowFailException(
            f"The gates cannot prove that the restart of {self.stream.name!r} is safe: {line_of(unknown)} "
            "Ask for an approval (approval of begin: ask), or make it an upgrade, which is rehearsed."
        )

    def _look(
        self,
        hook: SparkStreamHook,
        current: Deployment,
        candidate: Candidate,
        sizes: Sequence[SizeSource],
        spark: SharedSpark,
    ) -> Preflight:
        from airflow_streaming.changes.upgrade.preflight import preflight
        from airflow_streaming.hooks.home import access_options  # not at dag parse

        options = access_options(self.stream.home, self.home_conn_id)
        return preflight(
            *(hook.home, current, candidate, self._ways()),
            sizes=sizes,
            repartitions=self.repartitions,
            migrate=self._migrate(),
            storage_options=options,
            spark=spark,
        )

    def _migrate(self) -> Migrate:
        from airflow_streaming.changes.upgrade.preflight import Migrate
        from airflow_streaming.spark_jobs.migration import migration_in  # not at dag parse

        if not str(self.migrate).strip() or not truth(self.migrate, "migrate"):
            return Migrate()
        name = self.migration_plan
        given = migration_in(Path(name)) if name else None
        return Migrate(is_wanted=True, given=given, name=name)

    def _ways(self) -> Ways:
        from airflow_streaming.changes.upgrade.rollback import Ways  # not at dag parse

        accepted = accepted_codes(self.accept)
        return Ways(
            habits=self.sink_habits,
            has_rewinder=self.rewind_with is not None,
            accepted=accepted | {NO_ROLLBACK} if self.same_code else accepted,
        )

    def _current(self, hook: SparkStreamHook) -> Deployment:
        current = hook.home.newest_deployment()
        if current is None:
            raise AirflowFailException(
                f"Stream {self.stream.name!r} has never run, so there is nothing to upgrade. Its "
                "keep-alive dag starts it."
            )
        return current

    def _is_open(self, hook: SparkStreamHook, proposed: Deployment, context: Context) -> bool:
        """Tell whether an earlier run has begun this very upgrade; then this run finishes it."""
        change = hook.home.unfinished_change()
        if change is None:
            return False
        from airflow_streaming.model.records.control import ChangeKind  # not at dag parse

        terms = hook.home.terms(change) if change.what is ChangeKind.UPGRADE else None
        # The checkpoint is no part of the request: a migrated copy has another place.
        begun = None
        if terms is not None:
            begun = replace(terms.proposed, checkpoint=proposed.checkpoint)
        if begun is None or begun.fingerprint != proposed.fingerprint:
            raise AirflowFailException(
                f"Change {change.number} ({change.what}) of stream {self.stream.name!r} is open: "
                f"{change.reason} Only one can be open at a time. Finish it first; 'airflow-streaming "
                "upgrade status' shows its progress."
            )
        note = f"Change {change.number} is this upgrade, started by {change.by}."
        if truth(self.is_dry_run, "dry_run"):
            self._skip(context, f"{note} It is not finished; this was a dry run and left it alone.")
        note = f"{note} This run continues it."
        self.log.info("%s", note)
        report = {"fingerprint": proposed.fingerprint, "resumes": change.number}
        push_recorded(context, hook.home, REPORT_XCOM_KEY, report)
        context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=note)
        return True

    def _tell(self, found: Preflight, hook: SparkStreamHook, context: Context) -> None:
        from airflow_streaming.reports.markdown import markdown  # not at dag parse
        from airflow_streaming.reports.upgrade import upgrade_report  # not at dag parse

        log_decision(found.decision, found.gates.findings, self.log)
        soak = bounded(self.soak, self.soak_minutes)
        # A script that starts one of its queries, and not the other, must not soak well.
        soak = replace(soak, queries=soak.queries or found.queries)
        report = {**found.to_dict(), "soak": encode(soak), "key": run_key(context)}
        if found.migrations:
            # The change's record keeps who accepted what.
            report["accepted"] = sorted(accepted_codes(self.accept))
            report["asker"] = getattr(context.get("dag_run"), "triggering_user_name", None) or ""
        push_recorded(context, hook.home, REPORT_XCOM_KEY, report)
        page = upgrade_report(found, soak)
        context["ti"].xcom_push(key=MARKDOWN_XCOM_KEY, value=markdown(page))
        log_report(page, self.log)

    @staticmethod
    def _skip(context: Context, reason: str) -> None:
        context["ti"].xcom_push(key=ENDED_XCOM_KEY, value=reason)
        raise AirflowSkipException(reason)


def check_same_code(current: Deployment, proposed: Deployment) -> None:
    """
    Do nothing for a deployment that differs in configuration and patch release alone.

    :raises SpecError: it differs in more, and needs all gates of an upgrade.
    """
    from airflow_streaming.changes.upgrade.rollback import is_same_code  # not at dag parse

    old, new = (
        version.split(".")[:2] for version in (current.spark_version, proposed.spark_version)
    )
    if old == new and is_same_code(current, proposed):
        return
    what = "Spark" if old != new else "the code"
    raise SpecError(
        f"A rolling restart of stream {current.stream!r} would change {what}: "
        f"{', '.join(proposed.differences(current))} differ. Make it an upgrade."
    )


def habit_of(name: str) -> SinkReplaySemantics:
    """
    Return the behavior of a sink for a batch id that it has seen.

    :raises SpecError: the name is unknown.
    """
    try:
        return SinkReplaySemantics(name)
    except ValueError as err:
        raise SpecError(
            f"{name!r} is not a known sink behavior; give one of {', '.join(SinkReplaySemantics)}."
        ) from err
