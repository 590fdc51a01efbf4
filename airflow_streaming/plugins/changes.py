"""
Changes of a stream as tables of states, and its possible actions now.

Every action states its effects first: processes to stop, data to replay or to lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from airflow_streaming.changes.upgrade.waits import waits_for
from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.jobs.migration import OperatorMigration, StateMigration
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.records.control import Change, ChangeEnd, ChangeKind
from airflow_streaming.model.records.cutover import CutoverTerms
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverState, CutoverTransition
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage, UpgradeCommand
from airflow_streaming.plugins.act_weight import asks_name, is_red
from airflow_streaming.plugins.page_values import cut, quoted, told, tried
from airflow_streaming.services.cutover_lag import BESIDE_BLUE, read_lags
from airflow_streaming.services.streams import stop_grace
from airflow_streaming.supervision.open_change import upgrade_in_progress
from airflow_streaming.supervision.restart import remedy_of
from airflow_streaming.supervision.stream_status import StreamStatus

MOST: Final = 8
C = CutoverState
_CUTOVER_PATH: Final = (
    *(C.PLANNED, C.STARTING, C.CATCHING_UP, C.SHADOWING, C.COMPARING, C.READY),
    *(C.WARMING, C.DRAINING, C.SWITCHING, C.LIVE, C.SOAKING, C.FINALIZING, C.FINALIZED, C.RETIRED),
)
_OF_HANDOVER: Final = frozenset({C.WARMING, C.DRAINING})
_UPGRADE_PATH: Final = (
    *(Stage.BEGUN, Stage.BACKED_UP, Stage.STOPPED, Stage.APPLYING, Stage.DEPLOYED),
    *(Stage.LAUNCHED, Stage.JUDGED, Stage.KEPT),
)
_MOST_COLUMNS: Final = 200
"""Columns of migrated state on the page."""
_OF_REPARTITION: Final = (Stage.REPARTITIONING, Stage.REPARTITIONED)
_OF_MIGRATION: Final = (Stage.MIGRATING, Stage.MIGRATED)

_OUT_OF_SIGHT: Final = frozenset({VerdictState.UNREACHABLE.value, VerdictState.HUNG.value})
_UPGRADE_SAYS: Final = {
    UpgradeCommand.KEEP: "The new deployment stays; the way back is closed.",
    UpgradeCommand.ABORT: (
        "The upgrade is abandoned; the old deployment runs on, or starts again."
    ),
    UpgradeCommand.LEAVE: "Nothing is put back and the stream stays stopped, for you to repair.",
}
_CUTOVER_SAYS: Final = {
    "promote": "Green becomes the live lane and consumers are led to it. Blue is kept for the "
    "soak, and can be made live again until then.",
    "look-again": "Green is compared once more, from now on.",
    "abort": "Green is taken down. Blue stays live; consumers lose no data.",
    "roll-back": "Blue becomes the live lane again. Consumers no longer read green's output "
    "since the switch.",
    "keep": "Green stays, independent of the soak. After that blue cannot be made live again.",
    "retire": "Blue's lane is retired: its checkpoint and output are no longer kept.",
}


def changes_view(home: StreamHome) -> list[dict[str, Any]]:
    """Return the newest changes of a lane, the newest first."""
    return [_change(home, change) for change in home.changes()[-MOST:][::-1]]


def _change(home: StreamHome, change: Change) -> dict[str, Any]:
    end = tried(lambda: home.change_end(change.number))
    shared = {
        "number": change.number,
        "kind": change.what.value,
        "by": cut(change.by, 200),
        "reason": quoted(change.reason, 600),
        "at": told(change.at),
        "from": change.replaced,
        "to": change.deployment,
        "backup": cut(change.backup, 100),
        "outcome": end.outcome.value if end else None,
        "ended": told(end.at) if end else None,
        "end_reason": quoted(end.reason, 600) if end else "",
    }
    try:
        if change.what is ChangeKind.UPGRADE:
            return {**shared, **_upgrade(home, change, end)}
        if change.what is ChangeKind.CUTOVER:
            return {**shared, **_cutover(home, change, end)}
    except RecordError as err:
        return {**shared, "problem": quoted(str(err), 600), "steps": [], "table": []}
    return {**shared, "steps": [], "table": []}


def _upgrade(home: StreamHome, change: Change, end: ChangeEnd | None) -> dict[str, Any]:
    history = home.upgrade_steps(change.number)
    reached, now = {step.after: step.at for step in history}, UPGRADE.state_of(history)
    reached.setdefault(Stage.BEGUN, change.at)
    terms = tried(lambda: home.terms(change))
    planned = (
        *_UPGRADE_PATH,
        *(_OF_REPARTITION if terms and terms.partitions else ()),
        *(_OF_MIGRATION if terms and terms.migrations else ()),
    )
    path = [stage for stage in Stage if stage in reached or stage in planned]
    if any(stage in reached for stage in (Stage.ROLLING_BACK, Stage.ABORTED)):
        path = [stage for stage in path if stage in reached or stage is Stage.BEGUN]
        path += [s for s in (Stage.RESTORED, Stage.ROLLED_BACK) if s not in path and end is None]
    open_one = upgrade_in_progress(home, change)
    is_soaking = end is None and bool(open_one.soaks_for)
    return {
        "state": now.value,
        "waits_for": cut(waits_for(history, terms), 400) if end is None else "",
        "since": told(open_one.since),
        "until": told(open_one.since + open_one.soaks_for) if is_soaking else None,
        "table": [
            {
                "state": stage.value,
                "at": told(reached.get(stage)),
                "now": stage is now and end is None,
            }
            for stage in path
        ],
        "steps": [
            {
                "state": step.after.value,
                "at": told(step.at),
                "by": cut(step.by, 200),
                "reason": quoted(step.reason, 600),
                "facts": _facts(step.facts),
            }
            for step in history
        ],
        "next": [],
        "verbs": [] if end is not None else list(UPGRADE.commands_in(now)),
        "rollback": quoted(terms.rollback.reason, 600) if terms else "",
        "migration": _migrated(terms.migrations) if terms else [],
        "replay": cut(terms.rollback.replay, 600) if terms else "",
    }


def _migrated(migrations: Sequence[StateMigration]) -> list[dict[str, Any]]:
    """Return a row a column of migrated state, and one of each operator without columns."""
    rows = (
        {
            "query": cut(one.query, 200),
            "operator": operator.operator,
            "column": quoted(column, 300),
            "becomes": becomes,
            "initial": quoted(initial, 100),
        }
        for one in migrations
        for operator in one.operators
        for column, becomes, initial in _moves(operator)
    )
    return list(islice(rows, _MOST_COLUMNS))


def _moves(operator: OperatorMigration) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the move and the initial value of each column."""
    if not operator.columns:
        yield operator.name, operator.carry.value, ""
    for column in operator.columns:
        becomes = " ".join(filter(None, (column.move.value, column.merge)))
        yield column.of or column.name, becomes, column.initial or ""
    for name in operator.dropped:
        yield name, "drop", ""


def _cutover(home: StreamHome, change: Change, end: ChangeEnd | None) -> dict[str, Any]:
    led, number = home.leader_of(change)
    history = led.steps(number)
    state = CUTOVER.state_of(history)
    terms = tried(lambda: led.cutover_terms(led.change(number)))
    since = history[-1].at if history else change.at
    deadline = terms.deadline(state) if terms is not None and end is None else None
    is_handover = terms is not None and terms.way is SwitchMethod.HANDOVER
    return {
        "leader": led.name,
        "led": number,
        "way": terms.way.value if terms else "",
        "blue": terms.leader.blue if terms else "",
        "green": terms.leader.green if terms else "",
        "state": state.value,
        "since": told(since),
        "until": told(since + deadline) if deadline is not None else None,
        "table": [*_cutover_table(change, history, state, is_handover=is_handover)],
        "steps": [_step(step) for step in history[-100:]],
        "next": [
            {"event": event.value, "to": to.value}
            for (at, event), to in CUTOVER.rows.items()
            if at is state and end is None
        ],
        "verbs": list(CUTOVER.commands_in(state)),
        "checks": _checks(led, number, history),
        "lags": [*_lags(led, terms)] if end is None and terms and state in BESIDE_BLUE else [],
    }


def _lags(led: StreamHome, terms: CutoverTerms) -> Iterator[dict[str, Any]]:
    for pair in terms.pairs:
        lane = cut(pair.green, 110)
        for lag in tried(partial(read_lags, led, pair)) or ():
            yield {**lag.to_dict(), "lane": lane, "query": cut(lag.query, 200)}


def _cutover_table(
    change: Change,
    history: Sequence[CutoverTransition],
    state: CutoverState,
    *,
    is_handover: bool,
) -> Iterator[dict[str, Any]]:
    reached = {C.PLANNED: change.at, **{step.after: step.at for step in history}}
    path = [s for s in _CUTOVER_PATH if is_handover or s not in _OF_HANDOVER or s in reached]
    path += [s for s in CutoverState if s in reached and s not in path]
    if state in (C.ABORTING, C.ABORTED, C.ROLLING_BACK, C.ROLLED_BACK):
        path = [s for s in path if s in reached or s is C.PLANNED]
    for one in path:
        yield {"state": one.value, "at": told(reached.get(one)), "now": one is state}


def _step(step: CutoverTransition) -> dict[str, Any]:
    return {
        "number": step.number,
        "state": step.after.value,
        "event": step.event.value,
        "at": told(step.at),
        "by": cut(step.by, 200),
        "reason": quoted(step.reason, 600),
        "facts": _facts(step.facts),
    }


def _checks(
    led: StreamHome, number: int, history: Sequence[CutoverTransition]
) -> list[dict[str, Any]]:
    into = [step.number for step in history if step.after is C.COMPARING]
    found = tried(lambda: led.check_results(number, into[-1])) if into else None
    return [
        {
            "name": cut(check.name, 100),
            "result": check.result.value,
            "reason": quoted(check.reason, 1_000),
            "at": told(check.at),
            "figures": _facts(check.figures, most=60),
        }
        for check in (found or {}).values()
    ]


def _facts(facts: Mapping[str, str], most: int = 30) -> dict[str, str]:
    return {cut(key, 100): quoted(value, 500) for key, value in [*facts.items()][:most]}


def open_upgrade_waits_for(home: StreamHome, change: Change) -> str:
    terms = tried(lambda: home.terms(change))
    return cut(waits_for(home.upgrade_steps(change.number), terms), 400)


def acts_of(home: StreamHome, status: StreamStatus) -> list[dict[str, Any]]:
    """Return the possible actions on a stream, each with its effects and costs."""
    return [*_stream_acts(home, status), *_change_acts(home)]


def _act(act: str, label: str, says: str, **more: Any) -> dict[str, Any]:
    weight = {"red": is_red(act), "asks_name": asks_name(act)}
    return {"act": act, "label": label, "says": says, **weight, **more}


def _stream_acts(home: StreamHome, status: StreamStatus) -> Iterator[dict[str, Any]]:
    seen, epoch = status.seen, status.epoch
    is_off, is_open = not status.wants_to_run, status.circuit_is_open
    if status.same_copy_would_fail and seen is not None and status.decision is not None:
        yield _act(
            "start-again",
            "Start the same copy",
            f"Deployment {seen.epoch.deployment} failed in this way, and the same copy would start. "
            f"{remedy_of(status.decision, status.stream)}",
        )
    elif is_off or is_open:
        yield _act(
            "start",
            "Start",
            "The desired state becomes running"
            + (
                " and the circuit is closed with a whole restart budget: fix the cause first"
                if is_open
                else ""
            )
            + ". The next driver resumes after the last committed batch: nothing is lost; a batch "
            "that was planned and not committed runs again with the same input.",
        )
    if not is_off:
        grace = duration_text(stop_grace(home).total_seconds())
        yield _act(
            "stop",
            "Stop",
            f"The driver stops at its next batch boundary. After {grace} it is killed, and then the "
            "batch in work runs again at the next start: a sink that is not idempotent gets its "
            "rows twice. New data waits in the sources as long as they keep it.",
        )
    if seen is not None and not seen.is_dead and status.standing.word in _OUT_OF_SIGHT:
        yield _act(
            "declare-dead",
            "Declare driver dead",
            f"You vouch that the driver of epoch {epoch} is gone, and a new one is started. If it "
            "still runs, two drivers write one checkpoint: rows are written twice and the "
            "checkpoint can be damaged. Check its host first.",
            epoch=epoch,
        )


def _change_acts(home: StreamHome) -> Iterator[dict[str, Any]]:
    change = tried(home.unfinished_change)
    if change is None:
        retiring = tried(home.newest_change)
        if retiring is not None and retiring.what is ChangeKind.CUTOVER:
            yield from _cutover_acts(home, retiring)
        return
    if change.what is ChangeKind.UPGRADE:
        stage = UPGRADE.state_of(home.upgrade_steps(change.number))
        terms = tried(lambda: home.terms(change))
        replay = terms.rollback.replay if terms else ""
        for verb in map(UpgradeCommand, UPGRADE.commands_in(stage)):
            says = _UPGRADE_SAYS.get(verb) or f"The old deployment is put back. {replay}".strip()
            label = f"Upgrade: {verb.value.replace('-', ' ')}"
            yield _act(
                f"upgrade.{verb.value}",
                label,
                cut(says, 800),
                change=change.number,
            )
    if change.what is ChangeKind.CUTOVER:
        yield from _cutover_acts(home, change)


def _cutover_acts(home: StreamHome, change: Change) -> Iterator[dict[str, Any]]:
    led, number = home.leader_of(change)
    for verb in CUTOVER.commands_in(CUTOVER.state_of(led.steps(number))):
        yield _act(
            f"cutover.{verb}",
            f"Cutover: {verb.replace('-', ' ')}",
            _CUTOVER_SAYS.get(verb, ""),
            change=number,
        )
