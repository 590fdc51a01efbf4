"""
Plan and begin a cutover.

Planning only reads. Plan mode runs once a stream, with green's own arguments, so that it shows
whether the script writes to its own output.

Scripts and terms are stored first, under names that hold their digests; the change's record in the
leading stream opens the cutover. A task that dies before that leaves harmless files.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pendulum

from airflow_streaming.changes.cutover.lane_moves import Do, Move
from airflow_streaming.changes.cutover.lanes import (
    BY_PLACE,
    Candidate,
    Checkpoints,
    Facts,
    Lanes,
    pair_of,
)
from airflow_streaming.changes.cutover.plan import PairPreflight, chosen_start
from airflow_streaming.changes.cutover.records import Recorder, close_orphan
from airflow_streaming.changes.cutover.view import CutoverView, LaneView, PairView
from airflow_streaming.changes.judging.methods import ReplayStart, replay_start, switch_ways
from airflow_streaming.changes.restore.switch import words
from airflow_streaming.changes.upgrade.preflight import deployments_of, judge_plan
from airflow_streaming.changes.upgrade.preflight_report import differences, kept_live
from airflow_streaming.changes.upgrade.rollback import DeploymentPair, sinks_of
from airflow_streaming.changes.upgrade.steps_back import steps_back
from airflow_streaming.checkpoints.copies import checkpoints_of
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.exceptions import (
    AlreadyExists,
    CheckpointBusy,
    CheckpointError,
    CutoverRefused,
    LaunchError,
    RecordError,
    SpecError,
)
from airflow_streaming.gates.change_gate import look_at
from airflow_streaming.gates.findings import report_of
from airflow_streaming.gates.migration.migrations import lifted, migrations_in
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.arguments.choices import SinkReplaySemantics, StartWay, SwitchMethod
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.names import Layout, base_of, other_lane
from airflow_streaming.model.records.control import (
    Change,
    ChangeKind,
    Desired,
    DesiredState,
    EventKind,
)
from airflow_streaming.model.records.cutover import CutoverTerms, Pair
from airflow_streaming.model.records.cutover_table import CutoverEvent, CutoverTransition
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.spark.plan import QueryPlan, ScriptPlan
from airflow_streaming.model.uris import is_local, join, local_path
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.shared_spark import SharedSpark
from airflow_streaming.storage.one_look import look_at_each

log: Final = logging.getLogger(__name__)
_EARLIER: Final = 5
"""Deployments of green's lane whose plans are read, the newest ones."""


class Deploying:
    """
    Makes green's first checkpoint and the deployments of both lanes.

    :param checkpoints: ``None`` outside the dag's tasks, which alone can make them.
    """

    def __init__(self, lanes: Lanes, recorder: Recorder, checkpoints: Checkpoints | None) -> None:
        self._lanes, self._recorder, self._checkpoints = lanes, recorder, checkpoints

    def start(self, view: CutoverView, move: Move) -> str | None:
        """Make what green begins with, and its deployment; the record comes last."""
        one = view.pairs[move.pair]
        pair, context = one.pair, self._lanes.green(one.pair)
        if self._checkpoints is None:
            return f"The checkpoint of {pair.green} can be made by the stream's dag only."
        try:
            ids = self._checkpoints.start(pair, _blue(one, self._lanes.blue(pair).home))
        except CheckpointBusy as err:
            return str(err)
        except (CheckpointError, LaunchError, SpecError) as err:
            reason = f"{pair.green} cannot begin with that checkpoint: {err}"
            self._recorder.take(view, CutoverEvent.GREEN_FAILED, reason)
            return None
        self._claim(context.home, pair, ids)
        epoch = context.home.newest_epoch()
        circuit = context.home.circuit()
        if circuit is not None and circuit.holds(epoch.number if epoch else None):
            # Earlier failures belong to another deployment.
            context.acts.forgive(f"Change {view.change.number} begins anew in this lane.")
        self._want(view, context.home, one.green, DesiredState.RUNNING, move.reason)
        self._deploy(context.home, pair.shadow, move.reason)
        return None

    def reserve(self, view: CutoverView, move: Move) -> None:
        """Make green's deployment, so that its number is not left open for one who is late."""
        pair = view.pairs[move.pair].pair
        self._deploy(self._lanes.green(pair).home, pair.shadow, move.reason)

    def deploy_live(self, view: CutoverView, move: Move) -> None:
        """Make the deployment with which green continues in blue's output."""
        pair = view.pairs[move.pair].pair
        self._deploy(self._lanes.green(pair).home, pair.live, move.reason)

    def deploy_back(self, view: CutoverView, move: Move) -> None:
        """Make the deployment with which blue continues in its output; it equals the old one."""
        one = view.pairs[move.pair]
        home = self._lanes.blue(one.pair).home
        old = home.deployment(one.pair.blue_deployment)
        back = going_back(home, one, old, view.history[-1], number=one.blue.newest + 1)
        self._create(home, back, home.application(old.number), move.reason)

    def want(self, view: CutoverView, move: Move) -> None:
        """Record that a lane is to stay down, or that it is not."""
        one = view.pairs[move.pair]
        lane = one.blue if move.lane == one.blue.lane else one.green
        state = DesiredState.STOPPED if move.do is Do.WANT_STOPPED else DesiredState.RUNNING
        home = self._lanes.of(one.pair.stream, lane.lane).home
        self._want(view, home, lane, state, move.reason)

    def _want(
        self, view: CutoverView, home: StreamHome, lane: LaneView, state: DesiredState, reason: str
    ) -> None:
        # A task that has slept since it looked must not stop a stream that has continued without it: the
        # wish is the one after that which he saw, or none.
        is_late = len(self._lanes.home.steps(view.change.number, view.history)) != view.step
        if is_late or lane.situation.desired is state:
            return
        desired = Desired(
            number=lane.desired.number + 1 if lane.desired is not None else 1,
            state=state,
            by=self._recorder.by,
            reason=reason,
            at=self._recorder.now,
            change=lane.change,
        )
        if not home.want_next(desired):
            log.info("Desired state of lane %s was already set by another task.", home.name)

    def _deploy(self, home: StreamHome, deployment: Deployment, reason: str) -> None:
        self._create(home, deployment, home.kept_application(deployment), reason)

    def _create(self, home: StreamHome, deployment: Deployment, source: bytes, reason: str) -> None:
        try:
            home.create_deployment(deployment, source)
        except AlreadyExists:
            log.info(
                "Deployment %d of %s was already created by another task.",
                deployment.number,
                home.name,
            )
            return
        message = f"Deployment {deployment.number} is now the current one of lane {home.name}."
        self._recorder.tell(home, EventKind.DEPLOYED, f"{message} {reason}")

    def _claim(self, home: StreamHome, pair: Pair, ids: Mapping[str, str]) -> None:
        if self._checkpoints is None:
            return
        for query, query_id in ids.items():
            claim = QueryClaim(
                query=query,
                query_id=query_id,
                checkpoint=self._checkpoints.location(pair.shadow, query),
                epoch=0,
            )
            home.add_claim(pair.shadow.number, claim)


def going_back(
    home: StreamHome, one: PairView, old: Deployment, begun: CutoverTransition, *, number: int
) -> Deployment:
    """
    Return the deployment with which blue continues in its output after a handover.

    :param home: Of blue's lane.
    :param old: Blue's deployment when the cutover began.
    :param begun: The step that led to ``rolling_back``.
    """
    checkpoint = _own_place(home, number) if one.is_carried else old.checkpoint
    return replace(
        old, number=number, checkpoint=checkpoint, created_at=begun.at, created_by=begun.by
    )


def _blue(one: PairView, home: StreamHome) -> Deployment:
    return one.blue.situation.deployment or home.deployment(one.pair.blue_deployment)


def _own_place(home: StreamHome, deployment: int) -> str:
    """Return the folder of a deployment's checkpoints that no other lane or stream can have."""
    return join(home.store.uri, Layout(home.name).checkpoint(deployment))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """
    Options of a cutover's plan.

    :param start: Green's start; ``None`` lets the gates decide.
    :param replay_from: Start of a fresh green's input, in ISO 8601; empty for the computed time.
    :param habits: How a sink handles a repeated batch id, by the query's name.
    :param accepted: Codes of losses against the live deployment that a user accepts.
    :param compare: How the outputs of which streams are compared.
    """

    way: SwitchMethod
    start: StartWay | None = None
    replay_from: str = ""
    habits: Mapping[str, SinkReplaySemantics] = field(default_factory=dict)
    accepted: frozenset[str] = frozenset()
    compare: tuple[CompareTerms, ...] = ()


def plan_pair(
    candidate: Candidate,
    request: PlanRequest,
    *,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
    spark: SharedSpark | None = None,
) -> PairPreflight:
    """
    Collect all facts for one stream's cutover.

    :param spark: Plan mode runs in this Spark; default: in one of its own.
    :raises SpecError: A habit names an unknown query, or a time is invalid.
    :raises CheckpointError: A checkpoint cannot be read.
    """
    current = candidate.current()
    proposed, source = candidate.propose(None)
    program = candidate.program(proposed, source)
    new = plan_script(program, candidate.runtime, progress=progress, spark=spark)
    old = candidate.blue.newest_plans(current.number)
    others = plans_of_others(Home(candidate.blue.store), candidate.stream)
    gates = judge_plan(candidate.blue, current, proposed, new, storage_options)
    migrations = migrations_in(gates) if request.start is StartWay.MIGRATED else ()
    gates = lifted(gates) if migrations else gates
    queries = tuple(plan.query for plan in new.queries)
    absent = queries_without_batch(current, queries, storage_options)
    start, why = chosen_start(request.start, gates, queries, absent)
    replay = _replay(candidate, new, start, storage_options)
    facts = Facts(
        start=start,
        replay_from=_replay_from(request, replay),
        queries=queries,
        stateful=_stateful([*old, *new.queries]),
        sinks=sinks_of(
            DeploymentPair(current=current, proposed=proposed, old=old, new=new), request.habits
        ),
        migrations=migrations,
    )
    pair, _ = pair_of(candidate, request.way, facts)
    back = steps_back(
        *(current, pair.shadow, deployments_of(candidate.blue)),
        of_profile=candidate.of_profile(current),
        accepted=request.accepted,
    )
    gates = report_of([*gates.findings, *back], gates.pattern)
    ways = switch_ways(
        *(old, new.queries, pair.sinks, pair.start),
        output=current.output,
        shadow_output=pair.shadow.output,
        others=others,
        absent=absent,
        earlier=earlier_plans(candidate),
        real_outputs=(_real_path(current.output), _real_path(pair.shadow.output)),
        compared=[one for one in request.compare if one.stream == candidate.stream],
    )
    changed = differences(current, pair.shadow)
    return PairPreflight(
        pair=pair,
        differences=tuple(one for one in changed if one.what not in BY_PLACE),
        gates=gates,
        ways=ways,
        kept=kept_live(current, pair.shadow),
        why=why,
        replay=replay,
    )


def queries_without_batch(
    current: Deployment, queries: Sequence[str], storage_options: Mapping[str, Any] | None = None
) -> frozenset[str]:
    """Return the queries for which the live deployment has no checkpoint with a committed batch."""
    places = {query: join(current.checkpoint, query) for query in queries}
    found = {query: look_at(uri, storage_options).checkpoint for query, uri in places.items()}
    return frozenset(
        query
        for query, checkpoint in found.items()
        if checkpoint is None or checkpoint.last_committed_batch is None
    )


def earlier_plans(candidate: Candidate) -> list[QueryPlan]:
    """Return the plans of the earlier deployments of green's lane, as far as they can be read."""
    lane, found = candidate.blue.beside(candidate.green), list[QueryPlan]()
    for number in sorted(lane.deployment_numbers())[-_EARLIER:]:
        with contextlib.suppress(RecordError):
            found += lane.newest_plans(number)
    return found


def _real_path(uri: str) -> str:
    """Return where a local folder leads through symbolic links; empty for a folder of a store."""
    return os.path.realpath(local_path(uri)) if uri and is_local(uri) else ""


def plans_of_others(home: Home, stream: str) -> dict[str, Sequence[QueryPlan] | None]:
    """
    Return the newest plans of every lane of the home's other streams, by the lane's name.

    :return: ``None`` for a lane whose records are damaged.
    """
    lanes = [name for name in home.streams() if base_of(name) != stream]
    return dict(zip(lanes, look_at_each(home.store, partial(_plans_of, home), lanes), strict=True))


def _plans_of(home: Home, lane: str) -> Sequence[QueryPlan] | None:
    try:
        return home.stream(lane).newest_plans()
    except RecordError:
        log.warning("The plans of stream %s are unreadable; its sinks are not compared.", lane)
        return None


def _replay(
    candidate: Candidate,
    new: ScriptPlan,
    start: StartWay,
    storage_options: Mapping[str, Any] | None,
) -> ReplayStart | None:
    if start is not StartWay.FRESH:
        return None
    checkpoints = checkpoints_of(candidate.blue, storage_options).checkpoints
    looked = {query: look_at(uri, storage_options) for query, uri in checkpoints.items()}
    watermarks = {
        query: found.checkpoint.watermark_ms
        for query, found in looked.items()
        if found.checkpoint is not None and found.checkpoint.watermark_ms
    }
    return replay_start(new.queries, watermarks)


def _replay_from(request: PlanRequest, replay: ReplayStart | None) -> str:
    if replay is None:
        return ""
    if request.replay_from:
        return iso_time(request.replay_from)
    return "" if replay.at is None else replay.at.isoformat()


def iso_time(text: str) -> str:
    """
    Return a time that a user typed, in full.

    :param text: ISO 8601; a time without a zone is UTC.
    :raises SpecError: it is not a time.
    """
    try:
        at = pendulum.parse(text.strip())
    except ValueError:
        at = None
    if not isinstance(at, pendulum.DateTime):
        raise SpecError(
            f"replay_from is {text!r}; give a time such as 2026-03-01T00:00:00+00:00, or leave it "
            "empty."
        )
    return at.isoformat()


def _stateful(plans: Sequence[QueryPlan]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(plan.query for plan in plans if plan.is_stateful))


class Beginning:
    """Begins cutovers that one stream leads."""

    def __init__(self, lanes: Lanes, recorder: Recorder) -> None:
        self._lanes, self._recorder = lanes, recorder

    def begin(self, terms: CutoverTerms, sources: Mapping[str, bytes], reason: str) -> Change:
        """
        Open the change; see ``Cutover.begin``.

        :raises CutoverRefused: With the reason; no change was opened.
        :raises SpecError: A deployment could not be launched with the DAG's present values.
        """
        found = self.found(terms)
        if found is not None:
            return found
        self._check(terms)
        change = self._keep(terms, sources, reason)
        try:
            self._lanes.home.begin_change(change)
        except AlreadyExists as err:
            found = self.found(terms)
            if found is not None:
                return found
            raise self._refused(
                "another task started a change of it at the same moment. Check that change before you "
                "ask again."
            ) from err
        return change

    def found(self, terms: CutoverTerms) -> Change | None:
        """Return the cutover that was begun for the same wish."""
        home = self._lanes.home
        newest = home.newest_change()
        if newest is None or newest.what is not ChangeKind.CUTOVER or newest.leader:
            return None
        try:
            known = home.cutover_terms(newest)
        except RecordError:
            return None
        is_same = known.key == terms.key if terms.key else known.digest == terms.digest
        is_open = home.change_end(newest.number) is None
        return newest if is_same and (is_open or terms.key) else None

    def _check(self, terms: CutoverTerms) -> None:
        if not terms.pairs or terms.leader.stream != self._lanes.leader:
            raise self._refused("its terms name no pair of this stream first.")
        streams = [pair.stream for pair in terms.pairs]
        if len(set(streams)) != len(streams):
            raise self._refused("one stream is named twice.")
        for pair in terms.pairs:
            self._check_pair(pair, terms.way)

    def _check_pair(self, pair: Pair, way: SwitchMethod) -> None:
        if base_of(pair.blue) != pair.stream or pair.green != other_lane(pair.blue):
            raise self._refused(f"{pair.blue} and {pair.green} are not the two lanes of a stream.")
        for lane in (pair.stream, other_lane(pair.stream)):
            home = self._lanes.of(pair.stream, lane).home
            unfinished = home.unfinished_change()
            if unfinished is not None and not self._was_orphan(home, unfinished):
                raise self._refused(
                    f"lane {lane} has an unfinished change: {words(unfinished)} Finish it first."
                )
        self._check_blue(pair)
        self._check_green(pair, way)

    def _was_orphan(self, home: StreamHome, change: Change) -> bool:
        by, now = self._recorder.by, self._recorder.now
        return close_orphan(home, change, by=by, now=now)

    def _check_blue(self, pair: Pair) -> None:
        home = self._lanes.blue(pair).home
        lane = live_lane(Home(home.store), pair.stream)
        if lane != pair.blue:
            raise self._refused(f"lane {lane} of stream {pair.stream} is live, not {pair.blue}.")
        current, desired = home.newest_deployment(), home.desired()
        if current is None or current.number != pair.blue_deployment:
            raise self._refused(f"{pair.blue} no longer has deployment {pair.blue_deployment}.")
        if home.newest_epoch() is None:
            raise self._refused(f"{pair.blue} has never run. Deploy the new version instead.")
        if desired is not None and desired.state is DesiredState.STOPPED:
            raise self._refused(
                f'the desired state of {pair.blue} is "stopped", and green is judged beside a running '
                "blue. Start it first."
            )

    def _check_green(self, pair: Pair, way: SwitchMethod) -> None:
        context = self._lanes.green(pair)
        expected = context.home.next_deployment()
        if pair.shadow.number != expected:
            raise self._refused(
                f"{pair.green} has {expected - 1} deployments, and the next one is not "
                f"{pair.shadow.number}. Propose it anew."
            )
        blue = self._lanes.blue(pair).home.deployment(pair.blue_deployment)
        if pair.shadow.checkpoint == blue.checkpoint or pair.shadow.output == blue.output:
            raise self._refused(f"{pair.green} would write where {pair.blue} writes.")
        if way is SwitchMethod.HANDOVER:
            self._check_handover(pair, blue.output)
        elif pair.live != pair.shadow:
            raise self._refused("with parallel outputs green goes live as it is.")
        if context.controller is not None:
            context.controller.check_can_launch(pair.shadow)

    def _check_handover(self, pair: Pair, output: str) -> None:
        is_next = pair.live.number == pair.shadow.number + 1
        if not is_next or pair.live.output != output:
            raise self._refused("green's live deployment must be the next one, with blue's output.")
        if pair.live.checkpoint != pair.shadow.checkpoint and pair.stateful:
            raise self._refused(
                f"queries with state ({', '.join(pair.stateful)}) cannot leave their checkpoint."
            )
        if not pair.queries:
            raise self._refused("its queries are not known, and a handover needs each of them.")

    def _keep(self, terms: CutoverTerms, sources: Mapping[str, bytes], reason: str) -> Change:
        home, leader = self._lanes.home, terms.leader
        numbered = replace(terms, change=home.next_change())
        for pair in terms.pairs:
            green = self._lanes.green(pair).home
            for deployment in dict.fromkeys((pair.shadow.number, pair.live.number)):
                kept = pair.shadow if deployment == pair.shadow.number else pair.live
                green.keep_application(kept, sources[pair.stream])
        return Change(
            number=numbered.change,
            stream=home.name,
            what=ChangeKind.CUTOVER,
            replaced=leader.blue_deployment,
            deployment=leader.live.number,
            checkpoint=leader.live.checkpoint,
            by=self._recorder.by,
            reason=reason or f"Cutover from {leader.blue} to {leader.green}.",
            at=self._recorder.now,
            terms=home.keep_cutover_terms(numbered),
        )

    def _refused(self, why: str) -> CutoverRefused:
        return CutoverRefused(f"Stream {self._lanes.leader!r} is not cut over: {why}")
