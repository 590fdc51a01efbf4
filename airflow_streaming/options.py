"""
Choices and options of a stream's dags.

A choice is an enum; its plain string is accepted as well, so that a template can give it. The options
of an upgrade, a restart and a cutover are values: they are checked where they are written, and can be
shared between streams with ``dataclasses.replace``. ``None`` leaves an option to the form that starts a
run, and to the named default without a form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypedDict

import pendulum

from airflow_streaming.changes.pointers.pointer import Pointer
from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.rehearsal_due import RehearseWhen
from airflow_streaming.model.arguments.accepted import OF_UPGRADE, STEPS_BACK, check_accepted
from airflow_streaming.model.arguments.calls import Called, Notifier, Notifiers
from airflow_streaming.model.arguments.choices import Answer as RehearsalAnswer
from airflow_streaming.model.arguments.choices import Level as BackupLevel
from airflow_streaming.model.arguments.choices import (
    Origin,
    SinkReplaySemantics,
    StartWay,
    SwitchMethod,
)
from airflow_streaming.model.arguments.fields import (
    Positive,
    Range,
    check_values,
    is_template,
    named_fields,
)
from airflow_streaming.model.arguments.keeping import PrunePolicy
from airflow_streaming.model.arguments.rewinding import AuthorsRewind
from airflow_streaming.model.durations import duration_text
from airflow_streaming.spec import CompareTerms, ReadyTerms, RetentionPolicy, SoakTerms

if TYPE_CHECKING:
    from airflow_streaming.model.records.deployment import Deployment

__all__ = [
    "Approval",
    "BackupLevel",
    "BackupOptions",
    "ChangeApproval",
    "ChangeOptions",
    "Check",
    "Connections",
    "CutoverApproval",
    "CutoverCheck",
    "CutoverOptions",
    "Edits",
    "FreshnessOptions",
    "GateDecision",
    "GreenStart",
    "PartitionOptions",
    "PruneOptions",
    "PrunePolicy",
    "RehearsalAnswer",
    "RehearsalOptions",
    "RehearseWhen",
    "RestartOptions",
    "SideBySide",
    "SinkReplaySemantics",
    "Soaked",
    "SwitchMethod",
    "UpgradeOptions",
]

Content = Annotated[Callable[[Any], str], Called(("a ClosedWindow",))]
"""Takes a ``ClosedWindow`` of ``operators.windows``; returns a text that changes with its content."""
MOST_SOAK: Final = timedelta(days=7)
"""The old deployment's backups and checkpoints must outlive a soak; retention keeps them for a week."""

KEEP: Final = RetentionPolicy(
    keep_last=24,
    daily=7,
    weekly=4,
    origins={
        Origin.MANUAL: RetentionPolicy(keep_for=timedelta(days=90)),
        Origin.BEFORE_UPGRADE: RetentionPolicy(keep_last=5),
        Origin.BEFORE_RESTORE: RetentionPolicy(keep_last=5),
    },
)
"""Backups that are kept unless the author says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """
    The change that a check judges.

    :param change: Its number in the stream's home.
    :param begun_at: When it began.
    :param context: Airflow's context, for connections and variables.
    """

    stream: str
    home: str
    change: int
    begun_at: datetime
    context: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked(_Checked):
    """
    Argument of a check: an upgrade whose new deployment has soaked and can still be rolled back.

    Beside these it has ``stream``, ``home``, ``change`` (the upgrade's number), ``begun_at`` and
    ``context``, Airflow's, for connections and variables.

    :param deployment: The new deployment.
    :param replaced: The deployment before it.
    """

    deployment: Deployment
    replaced: Deployment


Check = Annotated[Callable[[Soaked], bool | str | None], Called(("a Soaked",))]
"""
Checks the output of a new deployment. ``None``, ``True`` and an empty text pass. ``False``, or a text with
the problem, has the upgrade rolled back. After an exception the task is retried; the last one fails the
check.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide(_Checked):
    """
    Argument of a check: a stream whose green has kept pace with blue for some time.

    Beside these it has ``stream``, ``home``, ``change`` (the cutover's number), ``begun_at`` and
    ``context``, Airflow's, for connections and variables.

    :param blue: The deployment that is live.
    :param green: The deployment beside it, with an ``output`` of its own.
    """

    blue: Deployment
    green: Deployment


CutoverCheck = Annotated[Callable[[SideBySide], bool | str | None], Called(("a SideBySide",))]
"""
Checks the output of green beside blue's. ``None``, ``True`` and an empty text pass. ``False``, or a text with
the problem, ends the cutover, and blue stays. After an exception the check is retried; the last one proves
nothing, and the cutover waits for a user's decision.
"""


class GreenStart(StrEnum):
    """The checkpoint with which green begins."""

    BY_GATE = "by_gate"
    """``CLONED`` where the gates allow it, else ``CARRIED``, else ``FRESH``."""
    FRESH = StartWay.FRESH.value
    """An empty checkpoint: the sources are read from where the script or ``replay_from`` says."""
    CLONED = StartWay.CLONED.value
    """A copy of blue's checkpoint at a committed batch."""
    MIGRATED = StartWay.MIGRATED.value
    """Such a copy, whose state is migrated where green cannot read it as it is."""
    CARRIED = StartWay.CARRIED.value
    """Blue's position in the sources, and no state."""


class Approval(StrEnum):
    """Whether a step of a change needs a user."""

    ASK = "ask"
    """An approval is requested."""
    AUTO = "auto"
    """No approval: the step follows when the checks before it have passed."""


class ChangeApproval(TypedDict, total=False):
    """The steps of an upgrade or a restart that need a user; the form decides about a step without a value. Templated."""

    begin: Approval | str
    """Before anything is changed; without a form ``ask``, of a restart ``auto``."""


class CutoverApproval(ChangeApproval, total=False):
    """The steps of a cutover that need a user; the form decides about a step without a value. Templated."""

    switch: Approval | str
    """Before green becomes live; without a form ``ask``. An inconclusive comparison always asks."""
    end: Approval | str
    """After a good soak, before the point of no return; without a form ``auto``."""


def check_moment(name: str, given: str | None) -> None:
    """
    Check that a text is a moment in ISO 8601 or a template; ``None`` passes.

    :raises SpecError: another text.
    """
    if not given or is_template(given):
        return
    try:
        at = pendulum.parse(given)
    except (TypeError, ValueError, OverflowError):
        at = None
    if not isinstance(at, pendulum.DateTime):
        raise SpecError(f"{name} is {given!r}; give a time such as '2026-03-01T00:00:00+00:00'.")


def _check_soak(where: str, soak: SoakTerms | None) -> None:
    if soak is not None and not soak.at_least <= soak.at_most <= MOST_SOAK:
        raise SpecError(
            f"{where} lasts at least {duration_text(soak.at_least)} and at most "
            f"{duration_text(soak.at_most)}; give at_least <= at_most <= {duration_text(MOST_SOAK)}."
        )


class Edits(TypedDict, total=False):
    """The settings of the changed stream; omitted settings stay. Templated."""

    runtime: str | None
    """Name of another Spark installation."""
    application: str | None
    """Path or URI of another version of the script."""
    conf: Mapping[str, Any] | str | None
    """Changes of the configuration, as a mapping or as JSON; ``None`` takes a key out."""


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """
    How the tasks of a stream reach Spark, the home and the backups.

    :param conn_id: Spark connection of the apache-spark provider.
    :param home_conn_id: Connection with credentials for the home; none when its client finds them.
    :param backup_store: URI of the backups; ``<home>/_backups`` when not given.
    """

    conn_id: str = "spark_default"
    home_conn_id: str | None = None
    backup_store: str | None = None

    def __post_init__(self) -> None:
        check_values(self)


@named_fields
@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """
    Options that every change of a stream has.

    :param soak: Conditions for the new deployment before it is kept; the form may replace ``soak.at_most``.
    :param approvers: Ids of the users who may approve; the user who starts a run may name fewer of
        them, not others. Empty: the form decides.
    :param approval: ``ask`` or ``auto`` by step; ``None``: the form decides about all steps. With
        ``approvers`` the step ``begin`` always asks.
    :param approval_timeout: Without an answer for so long, the change is rejected; ``None``: never.
    :param approval_notifiers: Notifiers that send the request.
    :param dry_run: Report only; templated. ``None``: the form decides, and without one it is a dry run.
    :param accept: Codes of findings that are accepted: ``live.older_spark``, ``live.older_script``,
        ``live.dropped_conf``; of an upgrade and a restart also ``rollback.replay`` (rows that come twice
        after a rollback) and ``rollback.none`` (no rollback). ``None``: the form decides, about
        ``rollback.*`` only with ``FormPolicy(accept=...)``; without a form nothing is accepted.
    :param sink_habits: Behavior of a sink for a batch id that it has seen, by the query's name.
    """

    ACCEPTABLE: ClassVar[Sequence[str]] = OF_UPGRADE
    """Codes that ``accept`` may have."""

    soak: SoakTerms | None = None
    approvers: Sequence[str] = ()
    approval: ChangeApproval | None = None
    accept: Sequence[str] | None = None
    approval_timeout: timedelta | None = timedelta(days=1)
    approval_notifiers: Sequence[Notifier] = ()
    dry_run: bool | str | None = None
    sink_habits: Mapping[str, SinkReplaySemantics | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_values(self)
        _check_soak(f"{type(self).__name__}.soak", self.soak)
        check_accepted(self.accept, self.ACCEPTABLE)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalOptions:
    """
    Whether and how an upgrade is rehearsed.

    :param when: ``None``: the form decides, and without one it is rehearsed when a gate answers
        *unknown*; templated.
    :param batches: Batches of each query; 0 for one replayed batch.
    :param backup_id: Id of the backup to rehearse on, or ``newest``; a copy of the live checkpoints
        when not given.
    :param time_limit: The most that all queries together may take.
    :param compare: Also run the old version over the same batches, and the new one from scratch where
        the checkpoint reaches back that far; then only the answers in ``passing`` let an upgrade pass
        that a gate calls *unknown*. Each of these runs has ``time_limit`` of its own.
    :param passing: Answers of that comparison with which the upgrade passes.
    """

    when: RehearseWhen | str | None = None
    batches: int = 5
    backup_id: str | None = None
    time_limit: Positive = timedelta(minutes=10)
    compare: bool = False
    passing: tuple[RehearsalAnswer | str, ...] = (RehearsalAnswer.SAME, RehearsalAnswer.NOT_REVISED)

    def __post_init__(self) -> None:
        check_values(self)


@named_fields
@dataclass(frozen=True, kw_only=True)
class RestartOptions(ChangeOptions):
    """
    Options of a rolling restart.

    :param checks: Called with a ``Soaked`` after a good soak; a check that finds a problem has the
        restart rolled back.
    :param rewind_with: Takes batches back out of a sink other than files; see ``Rewinding``.
    :param conf: Changes of the configuration; templated. ``None``: the form decides.
    :param prewarm: As of ``UpgradeOptions``.
    """

    checks: Sequence[Check] = ()
    rewind_with: AuthorsRewind | None = None
    conf: Mapping[str, Any] | str | None = None
    prewarm: bool | str | None = None


@named_fields
@dataclass(frozen=True, kw_only=True)
class UpgradeOptions(ChangeOptions):
    """
    Options of an upgrade in place.

    :param rehearsal: Whether and how it is rehearsed.
    :param checks: Called with a ``Soaked`` after a good soak; a check that finds a problem has the
        upgrade rolled back.
    :param rewind_with: Takes batches back out of a sink other than files; see ``Rewinding``.
    :param prewarm: Start the new driver before the old one is stopped; it waits, warm, and writes
        nothing until then; templated. It takes the memory of a second driver for that time. For drivers
        on the worker's host (launcher ``local``); elsewhere the new driver is started after the stop.
        ``None``: the form decides, and without one the stream's ``standby``.
    :param migrate: Migrate the state where the change is refused without it and can be migrated;
        templated. ``None``: the form decides.
    :param migration_plan: Path of a plan with declared initial values; see
        ``gate change --write-migration``. Empty: the plan of the gate.
    :param edits: ``runtime``, ``application`` and ``conf`` to go to; templated. ``None``: the form
        decides.
    """

    rehearsal: RehearsalOptions = RehearsalOptions()
    checks: Sequence[Check] = ()
    rewind_with: AuthorsRewind | None = None
    prewarm: bool | str | None = None
    migrate: bool | str | None = None
    migration_plan: str = ""
    edits: Edits | None = None


@named_fields
@dataclass(frozen=True, kw_only=True)
class CutoverOptions(ChangeOptions):
    """
    Options of a cutover.

    :param way: How green becomes live; templated. ``None``: the form decides, and without one the
        outputs are parallel.
    :param start: Checkpoint of green; templated. ``None``: the form decides, and without one the
        gates.
    :param replay_from: From when a fresh green reads, ISO 8601, as ``{replay_from}`` in the arguments
        of its script; templated. Empty: computed. ``None``: the form decides.
    :param compare: How the outputs of which streams are compared; not at all when empty.
    :param ready: Conditions for green before it may become live.
    :param pointers: Pointers for consumers beside the home's own pointer, in their order; by stream
        where several switch together.
    :param checks: Called with a ``SideBySide`` while the outputs are compared; a check that
        finds a problem aborts the cutover.
    :param approval: As of every change; also of the switch and of the end of a good soak.
    :param retain_blue: How long blue's checkpoint and output are kept afterwards; a form may say
        another time.
    :param keeps_blue_running: Parallel outputs only: blue runs on through the soak, so that a rollback
        takes no time.
    :param deadlines: How long a state may last before the cutover is aborted, by its name, e.g.
        ``{"catching_up": timedelta(hours=3)}``; see ``cutover_table.DEADLINES``.
    :param edits: ``runtime``, ``application`` and ``conf`` to go to; templated. ``None``: the form
        decides.
    """

    ACCEPTABLE: ClassVar[Sequence[str]] = STEPS_BACK

    way: SwitchMethod | str | None = None
    start: GreenStart | str | None = None
    replay_from: str | None = None
    compare: CompareTerms | Sequence[CompareTerms] = ()
    ready: ReadyTerms | None = None
    pointers: Pointer | Sequence[Pointer] | Mapping[str, Pointer | Sequence[Pointer]] = ()
    checks: CutoverCheck | Sequence[CutoverCheck] = ()
    approval: CutoverApproval | None = None
    retain_blue: timedelta = timedelta(days=1)
    keeps_blue_running: bool = True
    deadlines: Mapping[str, Positive] = field(default_factory=dict)
    edits: Edits | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_moment("replay_from", self.replay_from)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions:
    """
    Options of the dag that backs a stream up.

    :param schedule: When it is backed up; ``None``: only by hand.
    :param max_age: Age of the newest good backup beyond which an alert is sent.
    :param retention: Which backups are kept.
    """

    schedule: str | None = "@hourly"
    max_age: Positive | None = None
    retention: RetentionPolicy = KEEP

    def __post_init__(self) -> None:
        check_values(self)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class PruneOptions:
    """
    Options of the dag that removes old records and folders.

    :param schedule: When it runs; ``None``: only by hand.
    :param policy: How long things are kept, and whether outputs go as well.
    :param dry_run: Only report what would go.
    """

    schedule: str | None = "@daily"
    policy: PrunePolicy = PrunePolicy()
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_values(self)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessOptions:
    """
    Options of the DAG that measures a freshness objective.

    :param schedule: When it looks. An alert of the fast burn rate needs a look every five minutes.
    :param on_late: Notified when the budget burns too fast: a notifier, a callable, or a list of them.
    :param on_recovered: Notified when it does no more.
    """

    schedule: str | None = "*/5 * * * *"
    on_late: Notifiers = None
    on_recovered: Notifiers = None

    def __post_init__(self) -> None:
        check_values(self)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOptions:
    """
    Options of the DAG that announces complete windows as partitions of an asset.

    :param every: Length of the windows.
    :param query: The query that counts; default: the one furthest behind.
    :param since: Event time with which the first run begins; default: the window that is open then.
    :param content: Returns a text for a ``ClosedWindow`` that changes with its content; see
        ``ClosedWindowsOperator``.
    :param recheck: How far back contents are compared.
    :param roll_up: Announce all windows of a complete span, such as a day, when one of them is corrected.
    :param asset: Name of the asset; default: the one of ``window_asset``.
    """

    every: Annotated[timedelta, Range(least=timedelta(minutes=1), most=timedelta(days=7))] = (
        timedelta(hours=1)
    )
    query: str | None = None
    since: datetime | None = None
    content: Content | None = None
    recheck: Positive = timedelta(days=1)
    roll_up: Positive | None = None
    asset: str | None = None

    def __post_init__(self) -> None:
        check_values(self)


def plain(choice: object) -> Any:
    """Return a choice as its string, which Airflow stores with the dag."""
    return choice.value if isinstance(choice, StrEnum) else choice
