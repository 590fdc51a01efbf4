"""Page, `status`, `list`, `top`, sensors and exit codes show one standing of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from airflow_streaming.home.history import PartCache
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.health_rules import Severity
from airflow_streaming.model.records.alert import Alert, AlertKind
from airflow_streaming.model.records.control import Change, ChangeKind, DesiredState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.records.restart_decision import RestartAction
from airflow_streaming.plugins.views import StreamWatch
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.supervision.readiness.conditions import gate
from airflow_streaming.supervision.readiness.snapshot import sight_of
from airflow_streaming.supervision.readiness.subject import Condition, ReadinessState
from tests.unit.cli.host import GONE, RUNNING, FakeHost, Run, begin, end
from tests.unit.home.make import NOON, make_decision, make_epoch, make_query, make_status

NOW = datetime.now(UTC)
AGO = NOW - timedelta(minutes=2)
"""The fleet asks for no process: it takes an exit record as the end once the driver is silent."""
SOON = NOW + timedelta(hours=3)


def incident(stream: StreamHome) -> None:
    stream.add_alert(
        Alert(
            stream="orders",
            alert=AlertKind.UNHEALTHY,
            key="backup",
            epoch=1,
            at=NOW - timedelta(hours=1),
            by="backup dag",
            reason="The newest backup is 26 h old.",
            severity=Severity.ALERT,
            rule="backup",
            remedy="Run the backup DAG.",
        )
    )


def failed(stream: StreamHome, **decision: object) -> None:
    begin(stream, at=AGO)
    end(stream)
    if decision:
        stream.record_restart_decision(make_decision(**decision))


def gave_up(stream: StreamHome) -> None:
    failed(stream, action=RestartAction.GIVE_UP, next_attempt_at=None, remedy="Correct the script.")
    stream.open_circuit(epoch=1, by="policy", reason="The budget is spent.", now=NOON)


def stopped(stream: StreamHome, *, is_wanted: bool, until: datetime | None = None) -> None:
    begin(stream, at=AGO)
    end(stream, outcome=Outcome.STOPPED, reason="ada asked for it.")
    if is_wanted:
        stream.want(DesiredState.STOPPED, by="ada", reason="night", now=NOON, until=until)


def stopped_after_giving_up(stream: StreamHome) -> None:
    gave_up(stream)
    stream.want(DesiredState.STOPPED, by="ada", reason="night", now=NOON)


def stopping(stream: StreamHome) -> None:
    begin(stream)
    stream.want(DesiredState.STOPPED, by="ada", reason="night", now=NOON)


def late_during_an_upgrade(stream: StreamHome) -> None:
    failed(stream, next_attempt_at=NOW - timedelta(hours=1))
    change = Change(
        number=1,
        stream="orders",
        what=ChangeKind.UPGRADE,
        replaced=1,
        deployment=2,
        checkpoint="/ck",
        by="kim",
        reason="Spark 4.3",
        at=NOW,
    )
    stream.begin_change(change)


def with_an_unreadable_record(stream: StreamHome) -> None:
    begin(stream)
    stream.store.create("orders/changes/000001.json", b"junk")


@dataclass(frozen=True, kw_only=True)
class Case:
    make: Callable[[StreamHome], None]
    word: str
    level: str
    code: int
    lives: bool = False
    is_lost: bool = False


CASES = {
    "it works": Case(make=begin, word="healthy", level="well", code=0, lives=True),
    "it waits for data": Case(
        make=lambda s: begin(s, queries=(make_query(processing=False, data_available=False),)),
        word="idle",
        level="well",
        code=0,
        lives=True,
    ),
    "an incident is open": Case(
        make=lambda s: (begin(s), incident(s))[0],
        word="degraded",
        level="warn",
        code=1,
        lives=True,
    ),
    "a record cannot be read": Case(
        make=with_an_unreadable_record, word="degraded", level="warn", code=1, lives=True
    ),
    "it starts": Case(
        make=lambda s: begin(s, first_progress_at=None),
        word="starting",
        level="busy",
        code=1,
        lives=True,
    ),
    "it is being stopped": Case(
        make=stopping, word="stopping", level="busy", code=1, lives=True, is_lost=True
    ),
    "a restart waits": Case(
        make=lambda s: failed(s, next_attempt_at=SOON), word="restarting", level="warn", code=1
    ),
    "a restart is overdue": Case(
        make=lambda s: failed(s, next_attempt_at=NOW - timedelta(minutes=6)),
        word="restart_overdue",
        level="down",
        code=1,
    ),
    "a change holds a restart": Case(
        make=late_during_an_upgrade, word="restarting", level="warn", code=1
    ),
    "it failed": Case(make=failed, word="failed", level="down", code=1),
    "it was given up": Case(make=gave_up, word="gave_up", level="down", code=1, is_lost=True),
    "it is stopped": Case(
        make=lambda s: stopped(s, is_wanted=True), word="off", level="off", code=0, is_lost=True
    ),
    "its stop is over": Case(
        make=lambda s: stopped(s, is_wanted=True, until=NOON + timedelta(seconds=1)),
        word="stopped",
        level="warn",
        code=1,
        is_lost=True,
    ),
    "it is stopped for some time": Case(
        make=lambda s: stopped(s, is_wanted=True, until=datetime.now(UTC) + timedelta(days=1)),
        word="off",
        level="off",
        code=0,
        is_lost=True,
    ),
    "it is stopped after it was given up": Case(
        make=stopped_after_giving_up, word="off", level="off", code=0, is_lost=True
    ),
    "it stopped and is wanted running": Case(
        make=lambda s: stopped(s, is_wanted=False), word="stopped", level="warn", code=1
    ),
    "it completed": Case(
        make=lambda s: (begin(s, at=AGO), end(s, outcome=Outcome.COMPLETED))[0],
        word="completed",
        level="off",
        code=0,
    ),
    "it has never run": Case(make=lambda s: None, word="never_run", level="busy", code=1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_all_views_show_one_standing(
    case: Case,
    run: Run,
    stream: StreamHome,
    host: FakeHost,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    case.make(stream)
    host.process = RUNNING if case.lives else GONE
    watch = StreamWatch(home=stream, parts=PartCache(), probe=host.probe)
    row, page = watch.row(datetime.now(UTC)), watch.whole(datetime.now(UTC))
    code, out, _ = run("status", "orders", "--json")
    status = json.loads(out)
    listed = json.loads(run("list", "--json")[1])["streams"][0]
    shown = run("top", "--once")[1]
    words = case.word.replace("_", " ")

    assert [(one["state"], one["level"]) for one in (row, page, status, listed)] == [
        (case.word, case.level)
    ] * 4
    assert row["reason"] == page["reason"] == status["reason"] == listed["reason"]
    assert row["remedy"] == page["remedy"] == status["remedy"]
    assert code == case.code
    assert run("status", "orders")[1].splitlines()[0] == f"orders: {words.upper()}"
    assert run("list")[1].splitlines()[1].startswith(f"orders  {words}  ")
    assert words in shown
    assert status["reason"].split(".")[0] in shown


READABLE = {name: case for name, case in CASES.items() if "cannot be read" not in name}


@pytest.mark.parametrize("case", READABLE.values(), ids=READABLE.keys())
def test_a_sensor_gives_up_where_only_a_user_can_start_the_stream(
    case: Case, stream: StreamHome, host: FakeHost
) -> None:
    case.make(stream)
    host.process = RUNNING if case.lives else GONE
    situation = Observer(stream, host).situation()  # type: ignore[arg-type]

    found = gate(sight_of(situation, "orders"), Condition(healthy_for=timedelta(0)))

    assert (found.state is ReadinessState.LOST) is case.is_lost


def test_the_count_of_failures_is_the_same_for_page_and_shell(
    run: Run, stream: StreamHome, host: FakeHost
) -> None:
    for number in (1, 2, 3):
        begin(stream, number, first_progress_at=None)
        end(stream, number)
        stream.record_restart_decision(make_decision(number, consecutive_failures=number))
    begin(stream, 4, first_progress_at=None)
    host.process = RUNNING
    watch = StreamWatch(home=stream, parts=PartCache(), probe=host.probe)

    def counts() -> tuple[int, int]:
        status = json.loads(run("status", "orders", "--json")[1])
        return status["failures_in_a_row"], watch.whole(datetime.now(UTC))["failures_in_a_row"]

    # The driver lives, and has not recovered yet.
    assert counts() == (3, 3)
    assert "failures       3 in a row" in run("status", "orders")[1]
    now = datetime.now(UTC)
    well = make_status(
        4, at=now, first_progress_at=now - timedelta(minutes=19), queries=(make_query(batches=567),)
    )
    stream.store.replace("orders/epochs/000004/status.json", well.to_bytes())

    assert counts() == (0, 0)


def test_a_row_of_failures_is_the_same_in_the_list(run: Run, stream: StreamHome) -> None:
    begin(stream, 1, first_progress_at=None)
    end(stream, 1)
    stream.record_restart_decision(make_decision(1, consecutive_failures=4))
    begin(stream, 2, first_progress_at=None)

    [row] = json.loads(run("list", "--json")[1])["streams"]

    assert row["failures_in_a_row"] == 4


def test_a_driver_that_was_well_and_replaced_ends_a_row_of_failures(
    run: Run, stream: StreamHome
) -> None:
    begin(stream, 1, first_progress_at=None)
    end(stream, 1)
    stream.record_restart_decision(make_decision(1, consecutive_failures=4))
    begin(stream, 2, first_progress_at=NOW - timedelta(hours=1), queries=(make_query(batches=567),))
    end(stream, 2, outcome=Outcome.STOPPED)
    begin(stream, 3, first_progress_at=None)

    for command in (["status", "orders", "--json"], ["list", "--json"]):
        found = json.loads(run(*command)[1])
        assert found.get("streams", [found])[0]["failures_in_a_row"] == 0


def test_a_row_names_the_deployment_and_the_epoch(
    run: Run, stream: StreamHome, host: FakeHost
) -> None:
    begin(stream, 3)
    watch = StreamWatch(home=stream, parts=PartCache(), probe=host.probe)

    [listed] = json.loads(run("list", "--json")[1])["streams"]
    row = watch.row(datetime.now(UTC))

    assert (listed["deployment_number"], listed["epoch_number"]) == (1, 3)
    assert (row["deployment"], row["epoch"]) == (1, 3)


@pytest.mark.parametrize(
    ("ages", "actions", "count"),
    [
        ((1, 5, 30), ("restart",) * 3, 2),
        ((2, 23, 25), ("restart",) * 3, 2),
        ((30, 40), ("restart",) * 2, 0),
        ((1, 2), ("give_up", "restart"), 1),
        ((-1, 2), ("restart",) * 2, 2),
    ],
    ids=[
        "a restart of yesterday is over",
        "the day has 24 hours",
        "none today",
        "giving up is no restart",
        "a clock that was ahead",
    ],
)
def test_restarts_are_those_of_24_hours_wherever_they_are_shown(
    run: Run,
    stream: StreamHome,
    host: FakeHost,
    ages: tuple[int, ...],
    actions: tuple[str, ...],
    count: int,
) -> None:
    now = datetime.now(UTC)
    for number, (age, action) in enumerate(zip(ages[::-1], actions[::-1], strict=True), start=1):
        decided = now - timedelta(hours=age)
        stream.create_epoch(make_epoch(number, created_at=decided - timedelta(hours=3)))
        stream.record_restart_decision(
            make_decision(
                number,
                action=RestartAction(action),
                decided_at=decided,
                next_attempt_at=decided if action == "restart" else None,
            )
        )
        # A user who closes the circuit grants a new budget. The restarts have happened all the same.
        stream.open_circuit(epoch=number, by="policy", reason="spent", now=decided)
        stream.close_circuit(epoch=number, by="ada", reason="corrected", now=decided)
    begin(stream, len(ages) + 1)
    host.process = RUNNING
    watch = StreamWatch(home=stream, parts=PartCache(), probe=host.probe)

    [listed] = json.loads(run("list", "--json")[1])["streams"]
    [head, row] = run("top", "--once")[1].splitlines()[-2:]

    shown = json.loads(run("status", "orders", "--json")[1])
    row_of_page, page = watch.row(now), watch.whole(now)
    assert [one["restarts_24h"] for one in (shown, listed, row_of_page, page)] == [count] * 4
    assert f"restarts       {count} in 24 h\n" in run("status", "orders")[1]
    place = head.index("restarts 24 h")
    assert row[place : place + 13].strip() == str(count)


def test_restarts_that_cannot_be_read_are_not_counted_as_none(run: Run, stream: StreamHome) -> None:
    begin(stream, 1)
    stream.store.create("orders/epochs/000001/restart.json", b"{}")
    begin(stream, 2)

    assert json.loads(run("status", "orders", "--json")[1])["restarts_24h"] is None
