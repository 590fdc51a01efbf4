from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.cli import status as look
from airflow_streaming.exceptions import AccessDenied
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.codec import encode
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.control import (
    Change,
    ChangeKind,
    DesiredState,
    Event,
    EventKind,
)
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.services.fleet_rows import FleetRow
from airflow_streaming.supervision.stream_status import Level
from tests.documents import text_of
from tests.unit.cli.host import GONE, RUNNING, UNSEEN, FakeHost, Run, begin, end
from tests.unit.home.make import (
    NOON,
    SCRIPT,
    make_decision,
    make_deployment,
    make_epoch,
    make_exit,
    make_launch,
    make_progress,
    make_query,
    make_status,
)

FORGED = "login failed: password=hunter2secret"
FORGED_PLACE = "s3://bucket:hunter2secret@host/out"


def documented_keys(page: str) -> dict[str, set[str]]:
    """Return the keys of each command's JSON, as the table of a page has them."""
    table = text_of(page).partition("| of | keys |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    return {command: {*re.findall(r"`(\w+)`", keys)} for command, keys in rows}


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("list", "--json"),
        ("status", "orders"),
        ("status", "orders", "--json"),
        ("top", "--once"),
        ("top", "orders", "--once"),
        ("events", "orders"),
        ("events", "orders", "--json"),
    ],
    ids=" ".join,
)
def test_a_secret_in_a_record_that_no_driver_masked_is_not_printed(
    run: Run, stream: StreamHome, host: FakeHost, command: tuple[str, ...]
) -> None:
    begin(stream)
    ended = {"stream": "orders", **make_exit(1).to_dict(), "reason": FORGED, "remedy": FORGED}
    stream.store.create("orders/epochs/000001/exit.json", json.dumps(ended).encode())
    deployment = {**make_deployment(1).to_dict(), "output": FORGED_PLACE}
    stream.store.replace("orders/deployments/000001.json", json.dumps(deployment).encode())
    event = Event(event=EventKind.LAUNCHED, at=NOON, by="kim", message=FORGED)
    stream.add_event(event)
    [name] = stream.store.names("orders/events")
    unmasked = json.dumps({"stream": "orders", **event.to_dict()})
    stream.store.replace(f"orders/events/{name}", unmasked.encode())
    host.process = GONE

    _, out, errors = run(*command)

    assert "hunter2secret" not in out + errors
    assert "(redacted)" in out


class TestStatus:
    def test_a_healthy_stream_is_shown_whole(self, run: Run, stream: StreamHome) -> None:
        begin(stream, queries=(make_query(), make_query("refunds", active=False, progress=None)))
        stream.want(DesiredState.RUNNING, by="bob", reason="opening day", now=NOON)

        code, out, _ = run("status", "orders")

        assert code == 0
        assert out.startswith(
            "orders: HEALTHY\n  1 of 2 queries active, 84 batches committed in epoch 1.\n"
        )
        for text in (
            "desired        running, by bob at 2026-03-01 12:00:00 UTC: opening day",
            "circuit        closed",
            "deployment     1: /dags/jobs/orders.py on spark-4.3 (Spark 4.3.0)",
            "epoch          1 (first), begun ",
            "driver         pid 4711 on node-1, running: pid 4711 runs",
            "Spark UI       http://node-1:4040",
            "log            /var/log/streams/orders/000001.log",
            "restarts       0 in 24 h",
            "next attempt   -",
            "query    active  batch  rows in/s   rows/s  duration  watermark                   state  backlog",
            "revenue  yes        41      400.0  1,234.5  972 ms    2026-03-01T11:50:00.000Z  24 rows        -",
            "refunds  no          -          -        -  -         -                               -        -",
        ):
            assert text in out
        assert re.search(r"heartbeat      7, \d s ago by the clocks of driver and this host", out)

    def test_a_waiting_stream_is_all_right(self, run: Run, stream: StreamHome) -> None:
        begin(stream, queries=(make_query(processing=False, data_available=False),))

        code, out, _ = run("status", "orders")

        assert (code, out.splitlines()[0]) == (0, "orders: IDLE")

    @pytest.mark.parametrize(
        ("what", "shown"),
        [
            (ChangeKind.RESTORE, "restoring backup b-1 to /ck/restored, started by kim."),
            (ChangeKind.UNDO, "going back to checkpoint /ck/restored, started by kim."),
        ],
    )
    def test_a_restore_that_is_not_finished_is_a_line(
        self, run: Run, stream: StreamHome, what: ChangeKind, shown: str
    ) -> None:
        begin(stream)
        change = Change(
            number=1,
            stream="orders",
            what=what,
            replaced=1,
            deployment=2,
            checkpoint="/ck/restored",
            by="kim",
            reason="Bad data.",
            at=NOON,
            backup="b-1" if what is ChangeKind.RESTORE else "",
        )
        stream.begin_change(change)

        _, out, _ = run("status", "orders")

        assert f"1, not finished: {shown}" in out

    def test_a_stream_that_has_never_run_is_a_problem(self, run: Run, stream: StreamHome) -> None:
        code, out, _ = run("status", "orders")

        assert (code, out.splitlines()[0]) == (1, "orders: NEVER RUN")

    def test_a_failed_stream_says_why_and_when_it_comes_back(
        self, run: Run, stream: StreamHome, host: FakeHost
    ) -> None:
        begin(stream)
        end(stream)
        host.process = GONE
        due = datetime.now(UTC) + timedelta(seconds=30)
        stream.record_restart_decision(
            make_decision(next_attempt_at=due, decided_at=datetime.now(UTC))
        )

        code, out, _ = run("status", "orders")

        assert code == 1
        assert "orders: RESTARTING" in out
        assert "Query 'revenue' failed in batch 41." in out
        assert "restarts       1 in 24 h\n" in out
        assert "failures       1 in a row" in out
        assert f"next attempt   {due:%Y-%m-%d %H:%M:%S} UTC, backing off" in out

    def test_a_failed_query_is_shown_with_its_error(self, run: Run, stream: StreamHome) -> None:
        failed = (make_query("refunds", active=False, error="bang"),)
        begin(stream, queries=(make_query(active=False, error="boom"), *failed))

        _, out, _ = run("status", "orders")

        assert [line.split()[:2] for line in out.splitlines() if " FAILED " in line] == [
            ["revenue", "FAILED"],
            ["refunds", "FAILED"],
        ]
        # Whose error the verdict gives is not repeated below the table.
        assert (out.count("boom"), out.count("Query refunds has failed: bang")) == (1, 1)

    def test_an_open_circuit_is_shown(self, run: Run, stream: StreamHome) -> None:
        begin(stream)
        stream.open_circuit(epoch=1, by="policy", reason="The budget is spent.", now=NOON)

        _, out, _ = run("status", "orders")

        assert "circuit        OPEN since 2026-03-01 12:00:00 UTC: The budget is spent." in out

    def test_a_stream_that_is_down_as_wanted_is_all_right(
        self, run: Run, stream: StreamHome, host: FakeHost
    ) -> None:
        begin(stream)
        end(stream, outcome=Outcome.STOPPED, reason="ada asked for it.")
        host.process = GONE
        stream.want(DesiredState.STOPPED, by="ada", reason="night", now=NOON)

        code, out, _ = run("status", "orders")

        assert out.splitlines()[:2] == ["orders: OFF", "  night"]
        assert code == 0

    def test_a_stream_that_runs_against_its_wish_is_a_problem(
        self, run: Run, stream: StreamHome
    ) -> None:
        begin(stream)
        stream.want(DesiredState.STOPPED, by="ada", reason="night", now=NOON)

        assert run("status", "orders")[0] == 1

    @pytest.mark.parametrize(
        ("process", "verdict"),
        [
            pytest.param(RUNNING, "HUNG", id="its process stands still"),
            pytest.param(UNSEEN, "UNREACHABLE", id="its host cannot be seen"),
            pytest.param(GONE, "DEAD", id="its process is gone"),
        ],
    )
    @pytest.mark.parametrize(
        "ago", [timedelta(minutes=20), -timedelta(days=3_650)], ids=["past", "to come"]
    )
    def test_an_old_heartbeat_is_not_taken_for_health(
        self,
        run: Run,
        stream: StreamHome,
        host: FakeHost,
        process: Process,
        verdict: str,
        ago: timedelta,
    ) -> None:
        begin(stream, at=datetime.now(UTC) - ago)
        host.process = process

        code, out, _ = run("status", "orders")

        assert (code, out.splitlines()[0]) == (1, f"orders: {verdict}")

    def test_an_epoch_of_a_date_to_come_without_a_heartbeat_does_not_start_for_ever(
        self, run: Run, stream: StreamHome
    ) -> None:
        to_come = datetime.now(UTC) + timedelta(days=3_650)
        stream.create_epoch(make_epoch(1, created_at=to_come))
        stream.record_launch(make_launch(1))

        code, out, _ = run("status", "orders")

        assert (code, out.splitlines()[0]) == (1, "orders: HUNG")

    def test_the_last_events_are_shown(self, run: Run, stream: StreamHome) -> None:
        run("stop", "orders", "--by", "eve", "--reason", "the disk is full")

        _, out, _ = run("status", "orders")

        assert 'UTC  Desired state is "stopped": the disk is full  eve' in out

    def test_text_from_records_cannot_steer_the_terminal(
        self, run: Run, stream: StreamHome
    ) -> None:
        begin(stream, queries=(make_query(active=False, error="\x1b[2Jgone\nverdict: HEALTHY"),))

        _, out, _ = run("status", "orders")

        assert "\x1b" not in out
        assert "\nverdict: HEALTHY" not in out

    def test_json_holds_the_same(self, run: Run, stream: StreamHome) -> None:
        begin(stream)
        stream.want(DesiredState.RUNNING, by="bob", reason="opening day", now=NOON)

        code, out, _ = run("status", "orders", "--json")

        told = json.loads(out)
        assert code == 0
        assert (told["stream"], told["verdict"], told["all_right"]) == ("orders", "healthy", True)
        assert told["deployment"]["number"] == told["epoch"]["number"] == 1
        assert told["launch"]["handle"]["pid"] == "4711"
        assert told["desired"]["by"] == "bob"
        assert told["status"]["queries"][0]["progress"]["batch_id"] == make_progress().batch_id
        assert (told["restarts_24h"], told["next_attempt_at"], told["process"]) == (
            0,
            None,
            "running",
        )

    def test_the_keys_of_json_are_those_of_the_page(self, run: Run, stream: StreamHome) -> None:
        begin(stream)
        stream.want(DesiredState.RUNNING, by="bob", reason="opening day", now=NOON)
        status = json.loads(run("status", "orders", "--json")[1])
        listed = json.loads(run("list", "--json")[1])

        told = documented_keys("docs/operations.md")
        assert {*status} | {"circuit", "exit", "death"} == told["status"]
        assert {*listed, *listed["streams"][0]} == told["list"]

    def test_json_of_a_stream_that_has_never_run(self, run: Run, stream: StreamHome) -> None:
        code, out, _ = run("status", "orders", "--json")

        assert code == 1
        assert json.loads(out)["verdict"] is None

    def test_a_malformed_record_is_named(self, run: Run, stream: StreamHome) -> None:
        stream.create_epoch(make_epoch())
        stream.store.create("orders/epochs/000001/launch.json", b"{}")

        code, _, err = run("status", "orders")

        assert code == 1
        assert "orders/epochs/000001/launch.json cannot be read" in err

    def test_looking_writes_nothing(self, run: Run, stream: StreamHome, tmp_path: Path) -> None:
        begin(stream)
        before = sorted(tmp_path.rglob("*"))

        run("status", "orders")
        run("list")

        assert sorted(tmp_path.rglob("*")) == before


class TestASecondLook:
    """A driver that seems silent is watched for a while before it is said to be."""

    def silent(self, stream: StreamHome) -> None:
        begin(stream, at=datetime.now(UTC) - timedelta(minutes=3))

    def test_a_heartbeat_that_rises_is_a_sign_of_life(
        self, stream: StreamHome, host: FakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.silent(stream)

        def beat(_: float) -> None:
            text = make_status(beat=8, at=datetime.now(UTC)).to_bytes()
            stream.store.replace("orders/epochs/000001/status.json", text)

        monkeypatch.setattr("airflow_streaming.cli.status.time.sleep", beat)

        seen = look.observe(stream, stream.epoch(1), host.probe, patience=60)

        assert seen.silent_for == timedelta(0)
        assert len(host.asked) == 2

    def test_cpu_time_used_while_watching_makes_it_slow_not_hung(
        self, stream: StreamHome, host: FakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.silent(stream)
        clock = iter(range(0, 1000, 5))
        monkeypatch.setattr("airflow_streaming.cli.status.time.monotonic", lambda: next(clock))

        def work(_: float) -> None:
            host.process = Process(state=ProcessState.RUNNING, detail="busy", cpu_seconds=12.0)

        monkeypatch.setattr("airflow_streaming.cli.status.time.sleep", work)

        seen = look.view_stream(stream, host.probe, patience=10).status

        assert seen.verdict is not None
        assert seen.verdict.state == "slow"

    def test_a_driver_that_ends_meanwhile_is_seen_to_end(
        self, stream: StreamHome, host: FakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.silent(stream)
        monkeypatch.setattr(
            "airflow_streaming.cli.status.time.sleep", lambda _: setattr(host, "process", GONE)
        )

        seen = look.view_stream(stream, host.probe, patience=60).status

        assert seen.verdict is not None
        assert seen.verdict.state == "dead"


def leave_row(home: Home, lane: str, *, age: int, write: str = "rows.json", **more: Any) -> None:
    """Leave the row of a stream that gave up, which no look at these streams would say."""
    told: dict[str, Any] = {"word": "gave_up", "level": Level.DOWN, "reason": "", **more}
    row = FleetRow(lane=lane, seen_at=datetime.now(UTC) - timedelta(seconds=age), **told)
    index = {"kind": "fleet_index", "version": 1, "rows": [encode(row)]}
    home.store.replace(f"_rows/{write}", json.dumps(index).encode())


class TestList:
    def test_every_stream_has_a_line(self, run: Run, home: Home, stream: StreamHome) -> None:
        begin(stream)
        home.stream("sales").create_deployment(make_deployment(stream="sales"), SCRIPT)

        code, out, _ = run("list")

        assert code == 0
        assert [line.split()[:2] for line in out.splitlines()] == [
            ["stream", "state"],
            ["orders", "healthy"],
            ["sales", "never"],
        ]

    def test_an_empty_home_says_so(self, run: Run, tmp_path: Path) -> None:
        assert run("list")[:2] == (0, f"No stream has a deployment in {tmp_path}.\n")

    def test_a_stream_that_cannot_be_read_does_not_hide_the_others(
        self, run: Run, home: Home, stream: StreamHome
    ) -> None:
        home.stream("broken").store.create("broken/deployments/000001.json", b"{}")

        code, out, _ = run("list")

        assert code == 1
        assert "broken cannot be shown: " in out
        assert "orders  never run" in out

    def test_a_stream_that_may_not_be_read_hides_no_other(
        self, run: Run, home: Home, stream: StreamHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (Path(home.store.uri) / "locked").mkdir()
        names = LocalStore.names

        def refuse(store: LocalStore, folder: str) -> list[str]:
            if folder.startswith("locked"):
                raise AccessDenied(f"{folder}: Permission denied")
            return names(store, folder)

        monkeypatch.setattr(LocalStore, "names", refuse)

        code, out, _ = run("list", "--json")

        told = json.loads(out)
        assert (code, set(told["unreadable"])) == (1, {"locked"})
        assert [one["stream"] for one in told["streams"]] == ["orders"]

    def test_a_home_of_many_streams_is_listed_in_pages(self, run: Run, home: Home) -> None:
        for name in ("a", "b", "c"):
            home.stream(name).create_deployment(make_deployment(stream=name), SCRIPT)
        seen, after = [], ""

        while after is not None:
            told = json.loads(run("list", "--json", "--limit", "2", "--after", after)[1])
            seen += [one["stream"] for one in told["streams"]]
            after = told["after"]

        assert seen == ["a", "b", "c"]
        _, out, err = run("list", "--limit", "1")
        assert "b" not in out.split()
        assert "2 more: airflow-streaming list --after a" in err

    @pytest.mark.parametrize("form", [(), ("--json",)])
    def test_a_long_past_makes_a_listing_read_no_more_files(
        self, run: Run, stream: StreamHome, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
    ) -> None:
        begin(stream)
        reads: list[str] = []
        read = LocalStore.read

        def counted(store: LocalStore, path: str) -> bytes | None:
            reads.append(path)
            return read(store, path)

        monkeypatch.setattr(LocalStore, "read", counted)
        run("list", *form)
        young = len(reads)
        for number in range(2, 12):
            stream.create_epoch(make_epoch(number))
            stream.record_launch(make_launch(number))
            stream.record_restart_decision(make_decision(number - 1))
            stream.add_event(Event(event=EventKind.LAUNCHED, at=NOON, by="kim", message="Go."))
        reads.clear()

        run("list", *form)

        assert len(reads) <= young + 1

    def test_a_row_that_a_trigger_has_left_saves_the_look(
        self, run: Run, home: Home, stream: StreamHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin(stream)
        home.stream("sales").create_deployment(make_deployment(stream="sales"), SCRIPT)
        leave_row(home, "orders", age=20, reason="As its trigger saw it.")
        reads: list[str] = []
        read, names = LocalStore.read, LocalStore.names
        counted = {"read": read, "names": names}
        for method, act in counted.items():

            def count(store: LocalStore, path: str, act: Any = act) -> Any:
                reads.append(path)
                return act(store, path)

            monkeypatch.setattr(LocalStore, method, count)

        code, out, _ = run("list")

        assert code == 0
        assert [line.split()[:5] for line in out.splitlines()] == [
            ["stream", "state", "seen", "desired", "circuit"],
            ["orders", "gave", "up", "20", "s"],
            ["sales", "never", "run", "-", "running"],
        ]
        assert "As its trigger saw it." in out
        assert not [path for path in reads if path.split("/")[0] == "orders"]

        rows = json.loads(run("list", "--json")[1])["streams"]
        assert [(row["stream"], row["seen_at"] is None) for row in rows] == [
            ("orders", False),
            ("sales", True),
        ]
        assert "healthy" in run("list", "--fresh")[1]
        assert "gave up" in run("top", "--once")[1]
        assert "(seen 20 s ago)" in run("top", "--once")[1]
        assert "healthy" in run("top", "--once", "--fresh")[1]
        assert "HEALTHY" in run("status", "orders")[1]

    def test_a_row_of_a_stream_that_a_user_acted_on_is_not_shown(
        self, run: Run, home: Home, stream: StreamHome
    ) -> None:
        begin(stream)
        leave_row(home, "orders", age=20)

        run("stop", "orders", "--reason", "For a while.")

        assert "stopping" in run("list")[1]

    def test_an_old_row_and_one_of_a_lane_that_is_not_live_are_looked_at(
        self, run: Run, home: Home, stream: StreamHome
    ) -> None:
        begin(stream)
        leave_row(home, "orders", age=76)
        assert "healthy" in run("list")[1]

        leave_row(home, "orders", age=1, is_live=False)
        assert "gave up" in run("list")[1]
        assert "healthy" in run("top", "--once")[1]

    def test_rows_have_the_two_lanes_of_a_stream(self, run: Run, home: Home) -> None:
        for name in ("orders", "orders.green"):
            home.stream(name).create_deployment(make_deployment(stream=name), SCRIPT)
        leave_row(home, "orders", age=1, is_live=False)
        leave_row(home, "orders.green", age=1, write="green.json")

        out = run("list")[1]
        assert ("blue" in out, "green, live" in out, "blue, live" in out) == (True, True, False)
        assert (
            len([line for line in run("top", "--once")[1].splitlines() if "gave up" in line]) == 1
        )

    def test_as_json_it_gives_a_row_for_each_stream_without_details(
        self, run: Run, home: Home, stream: StreamHome
    ) -> None:
        begin(stream)
        home.stream("broken").store.create("broken/deployments/000001.json", b"{}")

        code, out, _ = run("list", "--json")

        told = json.loads(out)
        assert code == 1
        assert set(told) == {"home", "streams", "unreadable", "after"}
        assert (told["home"], told["after"]) == (home.store.uri, None)
        (row,) = told["streams"]
        status = json.loads(run("status", "orders", "--json")[1])
        same = ("stream", "color", "live", "state", "level", "all_right", "reason", "change")
        assert {name: row[name] for name in same} == {name: status[name] for name in same}
        assert (row["deployment_number"], row["epoch_number"]) == (1, 1)
        assert (row["desired_state"], row["circuit_state"]) == ("running", "closed")
        assert not any(isinstance(value, list | dict) for value in row.values())
        assert set(told["unreadable"]) == {"broken"}
