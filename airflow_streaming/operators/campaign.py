"""The operator that works on the campaigns of a home: one change of many streams, wave after wave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.exceptions import SpecError, UpgradeRefused
from airflow_streaming.model.arguments.calls import Called
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from airflow_streaming.operators.common.base import SpecsTask, actor_of, who
from airflow_streaming.operators.upgrade_preflight import UpgradePreflightOperator, asked_sizes
from airflow_streaming.options import RehearsalOptions
from airflow_streaming.spec import StreamSpec
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.changes.campaign.state import CampaignState
    from airflow_streaming.changes.campaign.worker import CampaignProgress
    from airflow_streaming.changes.upgrade.engine import UpgradeProgress
    from airflow_streaming.changes.upgrade.preflight_report import Preflight
    from airflow_streaming.home.campaigns import Campaigns
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.model.records.campaign import Campaign
    from airflow_streaming.model.records.control import Change
    from airflow_streaming.spark_jobs.shared_spark import SharedSpark
    from airflow_streaming.triggers.campaign import CampaignTrigger

__all__ = ["FleetUpgradeOperator"]

WAKE: Final = timedelta(minutes=10)
"""After this the task looks again though its trigger has seen nothing."""
ASKS_ROOM: Final = timedelta(seconds=30)
"""The same while streams wait for the cluster, which only the task asks."""


class FleetUpgradeOperator(SpecsTask):
    """
    Work on the open campaigns of a home until they are closed.

    ``airflow-streaming campaign start`` begins a campaign. Each stream is examined by the gates, rehearsed where they
    do not know, upgraded by the engine of upgrades, and kept or rolled back as the campaign says. A try that is killed
    continues where it stopped. The task fails once, with the reason, when a bad soak stopped a campaign. A stream that
    the operator does not know is left as it is.

    :param streams: The streams, as their DAGs have them; all in one home. (templated, field by field)
    :param campaign: Number of the campaign; empty: every open one. (templated)
    :param soak: Conditions for a new deployment; the campaign may replace ``at_most``.
    :param rehearsal: How a change is rehearsed that the gates call *unknown*.
    :param room: Returns how many more streams the cluster can take now, ``None`` without a limit.
    :param query_hosts: Hosts that the queries of a campaign may ask, e.g. ``prometheus:9090``.
    :param backup_store: URI of the backups; ``<home>/_backups`` by default. (templated)
    """

    template_fields: Sequence[str] = (
        *SpecsTask.template_fields,
        *("streams", "campaign", "backup_store"),
    )

    @checked
    def __init__(
        self,
        *,
        streams: Sequence[StreamSpec],
        campaign: int | str | None = None,
        soak: SoakTerms | None = None,
        rehearsal: RehearsalOptions | None = None,
        room: Annotated[Callable[[], int | None], Called(())] | None = None,
        query_hosts: Sequence[str] = (),
        backup_store: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.query_hosts = tuple(query_hosts)
        self.streams = list(streams)
        for stream in self.streams:
            stream.check_written()
        self.campaign, self.backup_store = campaign, backup_store
        self.soak = soak or SoakTerms()
        self.rehearsal = rehearsal or RehearsalOptions()
        self.room = room
        if len({stream.home for stream in self.streams}) != 1:
            raise SpecError(
                f"Task {self.task_id!r} needs streams of one home. Make a task for each home."
            )

    def execute(self, context: Context) -> dict[str, str]:
        return self._work(context, {})

    def execute_complete(
        self, context: Context, event: Any = None, memories: dict[str, Any] | None = None
    ) -> dict[str, str]:
        """Look again, and continue."""
        return self._work(context, memories or {})

    def _work(self, context: Context, memories: dict[str, Any]) -> dict[str, str]:
        from airflow_streaming.changes.campaign.analysis import judge_wave
        from airflow_streaming.changes.campaign.upgrades import StreamUpgrades
        from airflow_streaming.changes.campaign.worker import CampaignWorker  # not at dag parse

        members = _Members(self, context, memories)
        with spec_errors_are_final():
            campaigns = self._campaigns()
            found = [
                CampaignWorker(
                    *(campaigns, number, StreamUpgrades(members.open, room=self._room)),
                    by=who(context),
                    now=lambda: datetime.now(UTC),
                    judge=partial(judge_wave, hosts=self.query_hosts),
                ).work()
                for number in self._numbers(campaigns, memories.get("campaigns"), context)
            ]
        if not all(progress.is_there for progress in found):
            self._defer(found, members)
        return self._told(found)

    def _numbers(
        self, campaigns: Campaigns, begun: Sequence[int] | None, context: Context
    ) -> list[int]:
        from airflow_streaming.services.campaigns.commands import open_campaigns  # not at dag parse

        if begun:
            return list(begun)
        text = str(self.campaign or "").strip()
        if text.isdecimal():
            return [int(text)]
        if text not in ("", "None"):
            raise SpecError(f"campaign of task {self.task_id!r} is {text!r:.40}; give its number.")
        # An earlier try may have closed one, and died before it failed with the reason.
        since = getattr(context.get("dag_run"), "start_date", None)
        found = [state.campaign.number for state in open_campaigns(campaigns, since)]
        if not found:
            raise AirflowSkipException(f"{campaigns.store.uri} has no open campaign.")
        return found

    def _campaigns(self) -> Campaigns:
        from airflow_streaming.home.campaigns import Campaigns
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse

        return Campaigns(StreamHomeHook(self.streams[0].home, self.home_conn_id).get_conn().store)

    def _room(self) -> int | None:
        return None if self.room is None else self.room()

    def _defer(self, found: Sequence[CampaignProgress], members: _Members) -> NoReturn:
        waiting = [progress for progress in found if not progress.is_there]
        for progress in waiting:
            self.log.info("Campaign %d: %s", progress.state.campaign.number, progress.waiting)
        numbers = [progress.state.campaign.number for progress in found]
        self.defer(
            trigger=self._trigger([progress.state for progress in waiting]),
            method_name="execute_complete",
            kwargs={"memories": {**members.memories(), "campaigns": numbers}},
        )

    def _trigger(self, states: Sequence[CampaignState]) -> CampaignTrigger:
        from airflow_streaming.changes.campaign.decide import wakes_at  # not at dag parse
        from airflow_streaming.changes.campaign.state import MemberState
        from airflow_streaming.triggers.campaign import CampaignTrigger

        now = datetime.now(UTC)
        ends = [end for state in states if (end := wakes_at(state, now)) is not None]
        asks_room = self.room is not None and any(
            MemberState.WAITING in map(state.members.get, state.open_wave) for state in states
        )
        return CampaignTrigger(
            home=self.streams[0].home,
            home_conn_id=self.home_conn_id,
            campaigns={str(state.campaign.number): state.steps for state in states},
            wake_at=min(ends).isoformat() if ends else None,
            wake_seconds=(ASKS_ROOM if asks_room else WAKE).total_seconds(),
            deferred_at=now.isoformat(),
        )

    def _told(self, found: Sequence[CampaignProgress]) -> dict[str, str]:
        """Return the outcomes; fail once for all campaigns that stopped, or upgraded nothing."""
        states = [progress.state for progress in found]
        for state in states:
            for name, why in state.refused.items():
                self.log.warning("Campaign %d left %s: %s", state.campaign.number, name, why)
        wrong = [text for text in map(_wrong, states) if text]
        if wrong:
            raise AirflowFailException(" ".join(wrong))
        return {str(state.campaign.number): str(state.outcome) for state in states}


def _wrong(state: CampaignState) -> str:
    """Return why a closed campaign fails its task; empty if it succeeded."""
    what = f"Campaign {state.campaign.number}"
    if state.bad:
        name, why = next(iter(state.bad.items()))
        others = f" (and {len(state.bad) - 1} more)" if len(state.bad) > 1 else ""
        return f"{what} was stopped by stream {name!r}{others}: {why}"
    if state.refused and not state.has_kept(len(state.campaign.waves)):
        name, why = next(iter(state.refused.items()))
        return f"{what} has upgraded no stream. {name}: {why}"
    return ""


class _Members:
    """The streams of the operator, and what their observers have learned."""

    def __init__(
        self, task: FleetUpgradeOperator, context: Context, memories: dict[str, Any]
    ) -> None:
        self._task, self._context = task, context
        self._specs = {stream.name: stream for stream in task.streams}
        self._memories: dict[str, Any] = dict(memories.get("streams") or {})
        self._opened: dict[str, _FleetMember] = {}

    def open(self, name: str) -> _FleetMember:
        """
        Return a stream by its name.

        :raises SpecError: the operator does not know it.
        """
        spec = self._specs.get(name)
        if spec is None:
            raise SpecError(
                f"Task {self._task.task_id!r} has no stream {name!r}. Add it to streams of the task."
            )
        if name not in self._opened:
            memory = self._memories.get(name)
            self._opened[name] = _FleetMember(self._task, spec, self._context, memory)
        return self._opened[name]

    def memories(self) -> dict[str, Any]:
        """Return what the observers have learned, for the next look."""
        told = {name: one.memory for name, one in self._opened.items() if one.memory is not None}
        return {"streams": {**self._memories, **told}}


class _FleetMember:
    """One stream of a campaign, upgraded by the tasks' own engine."""

    def __init__(
        self, fleet: FleetUpgradeOperator, spec: StreamSpec, context: Context, memory: Any
    ) -> None:
        self._fleet, self._spec, self._context, self.memory = fleet, spec, context, memory

    @cached_property
    def home(self) -> StreamHome:
        """The records of the live lane."""
        return self._fleet.open_hook(self._context, self._spec).home

    def begin(self, campaign: Campaign) -> Change:
        """Examine and rehearse the change, and open the upgrade."""
        from airflow_streaming.changes.upgrade.begin import UpgradeTermsRequest  # not at dag parse

        task = self._task_of(campaign)
        task.check_allowed(campaign)
        with task.refusing():
            hook = task.hook(self._context)
        found, source = task.examined(hook, self._context, self._fleet.rehearsal)
        hook.home.check_owner(actor_of(self._fleet, self._context))
        soak = self._soak(campaign)
        request = UpgradeTermsRequest(
            rollback=found.rollback,
            soak=replace(soak, queries=soak.queries or found.queries),
            keeps_by_itself=False,  # the campaign keeps it
            stop_grace=self._spec.stop_grace,
            sinks=found.sinks,
            accepts_no_way_back=True,  # or the preflight had refused it
            key=campaign.request_key,
            partitions=found.partitions,
            reason=f"Campaign {campaign.number}: {campaign.reason}",
        )
        return task.engine(hook, hook.observer()).begin(found.proposed, source, request)

    def advance(self, campaign: Campaign, change: Change) -> UpgradeProgress:
        """Take the upgrade to its end, or until it must wait."""
        task = self._task_of(campaign)
        with task.refusing():
            hook = task.hook(self._context)
        observer = hook.observer(self.memory)
        progress = task.engine(hook, observer).advance(Stage.KEPT, change.number)
        self.memory = observer.memory()
        return progress

    def command(
        self, campaign: Campaign, change: Change, command: UpgradeCommand, reason: str
    ) -> None:
        """Record a command to the upgrade."""
        task = self._task_of(campaign)
        with task.refusing():
            hook = task.hook(self._context)
        task.command(hook, change, command, reason)

    def _soak(self, campaign: Campaign) -> SoakTerms:
        soak, most = self._fleet.soak, campaign.terms.soak
        if most is None:
            return soak
        return replace(soak, at_most=most, at_least=min(soak.at_least, most))

    def _task_of(self, campaign: Campaign) -> _MemberTask:
        fleet = self._fleet
        return _MemberTask(
            task_id=fleet.task_id,
            folders=fleet.dag_folders(),
            stream=self._spec,
            conn_id=fleet.conn_id,
            home_conn_id=fleet.home_conn_id,
            backup_store=fleet.backup_store,
            **_arguments(campaign),
        )


def _arguments(campaign: Campaign) -> dict[str, Any]:
    change = campaign.change
    return {
        "runtime": change.runtime or None,
        "application": change.application or None,
        "conf": dict(change.conf) or None,
        "size": dict(change.size) or None,
        "repartitions": bool(change.size),
        "accept": list(campaign.terms.accept),
    }


class _MemberTask(UpgradePreflightOperator):
    """The preflight and the engine of one stream, without a run of its own."""

    @checked
    def __init__(self, *, folders: Sequence[Path], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._folders = tuple(folders)

    def dag_folders(self) -> tuple[Path, ...]:
        return self._folders

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Raise the refusal of a stream's spec as an error of that stream alone."""
        try:
            yield
        except AirflowFailException as err:
            raise SpecError(str(err)) from err

    def check_allowed(self, campaign: Campaign) -> None:
        """
        Check the change against the form policy of the stream, as a value of a form.

        :raises UpgradeRefused: the policy does not accept a value.
        """
        from airflow_streaming.model.arguments.form_refusals import RunValue, refusals

        change = campaign.change
        told = {
            "runtime": change.runtime,
            "application": change.application,
            "conf": dict(change.conf),
            "accept": list(campaign.terms.accept),
        }
        source = f"campaign {campaign.number}"
        given = [
            RunValue(field=name, value=value, source=source)
            for name, value in told.items()
            if value
        ]
        refused = refusals(self.form_policy, given)
        if refused:
            raise UpgradeRefused(f"Stream {self.stream.name!r} refuses the change: {refused[0]}")

    def examined(
        self, hook: SparkStreamHook, context: Context, rehearsal: RehearsalOptions
    ) -> tuple[Preflight, bytes]:
        """
        Return the preflight of the change, and the script.

        :raises UpgradeRefused: the gates do not allow it, or no rehearsal has shown that it works.
        """
        from airflow_streaming.gates.findings import GateDecision
        from airflow_streaming.operators.common.gate import line_of
        from airflow_streaming.spark_jobs.shared_spark import SharedSpark  # not at dag parse

        current, name = hook.home.newest_deployment(), self.stream.name
        if current is None:
            raise UpgradeRefused(f"Stream {name!r} has never run.")
        candidate, source = hook.candidate()
        if current.fingerprint == candidate.deployment.fingerprint:
            raise UpgradeRefused(f"Stream {name!r} already runs the requested deployment.")
        with SharedSpark() as spark:
            found = self._look(hook, current, candidate, asked_sizes(self.sizes()), spark)
            report = found.gates
            if found.decision is GateDecision.UNKNOWN:
                report = self._rehearsed(hook, found, rehearsal, spark)
        if report.decision in (GateDecision.UNKNOWN, GateDecision.NOT_ALLOWED):
            first = next(one for one in report.findings if one.severity is report.decision)
            raise UpgradeRefused(f"Stream {name!r} is not upgraded: {line_of(first)}")
        return found, source

    def _rehearsed(
        self,
        hook: SparkStreamHook,
        found: Preflight,
        rehearsal: RehearsalOptions,
        spark: SharedSpark,
    ) -> Any:
        from airflow_streaming.hooks.home import access_options
        from airflow_streaming.operators import rehearsal as tasks  # not at dag parse

        place = tasks.place_of(
            *(hook.home, access_options(self.stream.home, self.home_conn_id)),
            backup_id=rehearsal.backup_id,
            backup_store=self.backup_store,
            home_conn_id=self.home_conn_id,
        )
        bounds = tasks.bounds_of(rehearsal.batches, rehearsal.time_limit)
        return (
            tasks.UpgradeRehearsal(place, bounds, rehearsal.compare, rehearsal.passing, found.gates)
            .run(tasks.proposed_of(hook), spark, self.log)
            .report
        )
