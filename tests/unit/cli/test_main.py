from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.cli import look
from airflow_streaming.cli.main import main
from airflow_streaming.core.control import CircuitState, DesiredState, EventKind
from airflow_streaming.core.epoch import Epoch, Launch, Outcome
from airflow_streaming.core.health import Process, ProcessState
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.files.local import LocalStore
from airflow_streaming.home.home import Home, StreamHome
from tests.unit.home.make import (
    NOON,
    SCRIPT,
    make_death,
    make_decision,
    make_deployment,
    make_epoch,
    make_exit,
    make_launch,
    make_progress,
    make_query,
    make_status,
    make_stop,
)

Run = Callable[..., tuple[int, str, str]]

RUNNING = Process(state=ProcessState.RUNNING, detail="pid 4711 runs", cpu_seconds=8.0)
GONE = Process.gone("no process has the token")
UNSEEN = Process.unseen("node-1 is not this host")


class FakeHost:
    """The processes of this host, as a launcher would see them."""

    def __init__(self) -> None:
        self.process = RUNNING
        self.asked: list[tuple[Epoch, Launch | None]] = []

    def probe(self, epoch: Epoch, launch: Launch | None) -> Process:
        self.asked.append((epoch, launch))
        return self.process


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(LocalStore(str(tmp_path)))


@pytest.fixture
def stream(home: Home) -> StreamHome:
    """A stream with a deployment that has never run."""
    stream = home.stream("orders")
    stream.create_deployment(make_deployment(), SCRIPT)
    return stream


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def run(
    tmp_path: Path,
    host: FakeHost,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Run the command on the test's home; return exit code, output and error output."""
    monkeypatch.setattr("airflow_streaming.cli.commands.WATCH_SECONDS", 0.0)
    monkeypatch.setenv("LOGNAME", "ada")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["--home", str(tmp_path), *arguments], probe=host.probe)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def begin(stream: StreamHome, number: int = 1, **status: Any) -> None:
    """Give the stream an epoch whose driver has just written its heartbeat."""
    now = datetime.now(UTC)
    stream.create_epoch(make_epoch(number, created_at=now - timedelta(hours=1)))
    stream.record_launch(make_launch(number))
    beat = make_status(number, **{"at": now, **status})
    stream.store.replace(f"orders/epochs/{number:06d}/status.json", beat.to_bytes())


def end(stream: StreamHome, number: int = 1, **changes: Any) -> None:
    record = make_exit(number, **changes)
    stream.store.create(f"orders/epochs/{number:06d}/exit.json", record.to_bytes())


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
            "heartbeat      7, 0 s ago by the clocks of driver and this host",
            "Spark UI       http://node-1:4040",
            "log            /var/log/streams/orders/000001.log",
            "restarts       0 since",
            "next attempt   -",
            "query    active  batch  rows/s   duration  watermark",
            "revenue  yes     41     1,234.5  972 ms    2026-03-01T11:50:00.000Z",
            "refunds  no      -      -        -         -",
        ):
            assert text in out

    def test_a_waiting_stream_is_all_right(self, run: Run, stream: StreamHome) -> None:
        begin(stream, queries=(make_query(processing=False, data_available=False),))

        code, out, _ = run("status", "orders")

        assert (code, out.splitlines()[0]) == (0, "orders: IDLE")

    def test_a_stream_that_has_never_run_is_a_problem(self, run: Run, stream: StreamHome) -> None:
        code, out, _ = run("status", "orders")

        assert (code, out.splitlines()[0]) == (1, "orders: NEVER RUN")

    def test_a_failed_stream_says_why_and_when_it_comes_back(
        self, run: Run, stream: StreamHome, host: FakeHost
    ) -> None:
        begin(stream)
        end(stream)
        host.process = GONE
        stream.record_restart_decision(make_decision(next_attempt_at=NOON + timedelta(seconds=30)))

        code, out, _ = run("status", "orders")

        assert code == 1
        assert "orders: FAILED" in out
        assert "Driver of epoch 1 ended: Query 'revenue' failed in batch 41." in out
        assert "restarts       1 since the circuit was last closed by a person" in out
        assert "next attempt   2026-03-01 12:00:30 UTC" in out

    def test_a_failed_query_is_shown_with_its_error(self, run: Run, stream: StreamHome) -> None:
        begin(stream, queries=(make_query(active=False, error="boom"),))

        _, out, _ = run("status", "orders")

        assert "NO: boom" in out

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

        assert (code, out.splitlines()[0]) == (0, "orders: STOPPED")

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
    def test_an_old_heartbeat_is_not_taken_for_health(
        self, run: Run, stream: StreamHome, host: FakeHost, process: Process, verdict: str
    ) -> None:
        begin(stream, at=datetime.now(UTC) - timedelta(minutes=20))
        host.process = process

        code, out, _ = run("status", "orders")

        assert (code, out.splitlines()[0]) == (1, f"orders: {verdict}")

    def test_the_last_events_are_shown(self, run: Run, stream: StreamHome) -> None:
        run("stop", "orders", "--by", "eve", "--reason", "the disk is full")

        _, out, _ = run("status", "orders")

        assert "UTC  Wanted stopped: the disk is full  (eve)" in out

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
        assert told["launch"]["pid"] == 4711
        assert told["desired"]["by"] == "bob"
        assert told["status"]["queries"][0]["progress"]["batch_id"] == make_progress().batch_id
        assert (told["restarts"], told["next_attempt_at"], told["process"]) == (0, None, "running")

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

        monkeypatch.setattr(look.time, "sleep", beat)

        seen = look.observe(stream, host.probe, patience=60)

        assert seen is not None
        assert seen.silent_for == timedelta(0)
        assert len(host.asked) == 2

    def test_cpu_time_used_while_watching_makes_it_slow_not_hung(
        self, stream: StreamHome, host: FakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.silent(stream)
        clock = iter(range(0, 1000, 5))
        monkeypatch.setattr(look.time, "monotonic", lambda: next(clock))

        def work(_: float) -> None:
            host.process = Process(state=ProcessState.RUNNING, detail="busy", cpu_seconds=12.0)

        monkeypatch.setattr(look.time, "sleep", work)

        seen = look.report(stream, host.probe, patience=10)

        assert seen.verdict is not None
        assert seen.verdict.state == "slow"

    def test_a_driver_that_ends_meanwhile_is_seen_to_end(
        self, stream: StreamHome, host: FakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.silent(stream)
        monkeypatch.setattr(look.time, "sleep", lambda _: setattr(host, "process", GONE))

        seen = look.report(stream, host.probe, patience=60)

        assert seen.verdict is not None
        assert seen.verdict.state == "dead"


class TestList:
    def test_every_stream_has_a_line(self, run: Run, home: Home, stream: StreamHome) -> None:
        begin(stream)
        home.stream("sales").create_deployment(make_deployment(stream="sales"), SCRIPT)

        code, out, _ = run("list")

        assert code == 0
        assert [line.split()[:2] for line in out.splitlines()] == [
            ["stream", "verdict"],
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


class TestStart:
    def test_it_records_the_wish_of_the_user(self, run: Run, stream: StreamHome) -> None:
        run("stop", "orders")

        code, out, _ = run("start", "orders", "--reason", "the disk is empty again")

        wish = stream.desired()
        assert code == 0
        assert "orders is now wanted running." in out
        assert wish is not None
        assert (wish.state, wish.by) == (DesiredState.RUNNING, "ada")
        assert wish.reason == "the disk is empty again"

    def test_a_second_start_changes_nothing(self, run: Run, stream: StreamHome) -> None:
        run("start", "orders")

        code, out, _ = run("start", "orders", "--by", "bob")

        assert code == 0
        assert "orders is wanted running already, by ada since 2" in out

    def test_an_open_circuit_is_pointed_out(self, run: Run, stream: StreamHome) -> None:
        stream.open_circuit(epoch=1, by="policy", reason="The budget is spent.", now=NOON)

        _, out, _ = run("start", "orders")

        assert "Its circuit is open and keeps it down: The budget is spent." in out
        assert "airflow-streaming close-circuit orders" in out


class TestStop:
    def test_the_wish_is_recorded_before_the_request(
        self, run: Run, stream: StreamHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin(stream)

        def fail(*_: object) -> None:
            raise HomeUnavailable("The disk is gone.")

        monkeypatch.setattr(StreamHome, "request_stop", fail)

        code, _, err = run("stop", "orders")

        wish = stream.desired()
        assert (code, err) == (1, "airflow-streaming: The disk is gone.\n")
        assert wish is not None
        assert wish.state is DesiredState.STOPPED

    def test_the_newest_epoch_is_asked_to_stop(self, run: Run, stream: StreamHome) -> None:
        begin(stream, 1)
        begin(stream, 2)

        code, out, _ = run("stop", "orders", "--grace", "5", "--by", "bob", "--reason", "night")

        request = stream.stop_request(2)
        assert code == 0
        assert "The driver of epoch 2 is asked to stop at its next batch boundary." in out
        assert request is not None
        assert (request.by, request.reason, request.grace_seconds) == ("bob", "night", 5.0)
        assert stream.stop_request(1) is None
        assert [event.event for event in stream.events()] == [
            EventKind.DESIRED,
            EventKind.STOP_REQUESTED,
        ]

    def test_an_earlier_request_stands(self, run: Run, stream: StreamHome) -> None:
        begin(stream)
        stream.request_stop(make_stop(by="eve"))

        _, out, _ = run("stop", "orders")

        assert "eve has asked the driver of epoch 1 to stop already." in out
        assert stream.stop_request(1) == make_stop(by="eve")

    def test_a_stream_that_has_never_run_needs_no_request(
        self, run: Run, stream: StreamHome
    ) -> None:
        code, out, _ = run("stop", "orders", "--wait", "5")

        assert code == 0
        assert "there is no driver to stop" in out

    def test_a_driver_that_has_ended_is_not_asked(
        self, run: Run, stream: StreamHome, host: FakeHost
    ) -> None:
        begin(stream)
        end(stream)
        host.process = GONE

        code, _, _ = run("stop", "orders", "--wait", "5")

        assert code == 0
        assert stream.stop_request(1) is None

    def test_waiting_ends_when_the_driver_is_proved_gone(
        self, run: Run, stream: StreamHome, host: FakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin(stream)
        asked = threading.Event()
        request_stop = StreamHome.request_stop

        def request_and_tell(home: StreamHome, request: Any) -> Any:
            asked.set()
            return request_stop(home, request)

        monkeypatch.setattr(StreamHome, "request_stop", request_and_tell)

        def obey() -> None:
            assert asked.wait(10)
            end(stream, outcome=Outcome.STOPPED, reason="ada asked for it.")
            host.process = GONE

        driver = threading.Thread(target=obey)
        driver.start()
        code, out, _ = run("stop", "orders", "--wait", "30")
        driver.join()

        assert code == 0
        assert "orders is down. Driver of epoch 1 ended: ada asked for it." in out

    def test_a_last_word_with_a_living_process_is_not_down(
        self, run: Run, stream: StreamHome
    ) -> None:
        begin(stream)
        end(stream, outcome=Outcome.STOPPED, reason="ada asked for it.")

        code, out, _ = run("stop", "orders", "--wait", "0")

        assert code == 1
        assert "is not proved down after 0 s (pid 4711 runs). The request stands" in out

    def test_from_another_host_the_last_word_is_the_proof(
        self, run: Run, stream: StreamHome, host: FakeHost
    ) -> None:
        begin(stream)
        end(stream, outcome=Outcome.STOPPED, reason="ada asked for it.")
        host.process = UNSEEN

        assert run("stop", "orders", "--wait", "0")[0] == 0

    def test_a_driver_that_is_just_being_started_is_not_down(
        self, run: Run, stream: StreamHome, host: FakeHost
    ) -> None:
        stream.create_epoch(make_epoch(created_at=datetime.now(UTC)))
        host.process = GONE

        assert run("stop", "orders", "--wait", "0")[0] == 1


class TestCloseCircuit:
    def test_an_open_circuit_is_closed_for_the_newest_epoch(
        self, run: Run, stream: StreamHome
    ) -> None:
        begin(stream, 1)
        begin(stream, 2)
        stream.open_circuit(epoch=2, by="policy", reason="The budget is spent.", now=NOON)

        code, out, _ = run("close-circuit", "orders", "--reason", "the topic is back")

        circuit = stream.circuit()
        assert code == 0
        assert out == "The circuit of orders is closed. Its restart budget is whole again.\n"
        assert circuit is not None
        assert (circuit.state, circuit.epoch) == (CircuitState.CLOSED, 2)
        assert (circuit.by, circuit.reason) == ("ada", "the topic is back")

    def test_a_closed_one_is_left_alone(self, run: Run, stream: StreamHome) -> None:
        code, out, _ = run("close-circuit", "orders")

        assert code == 0
        assert out == "The circuit of orders is not open. Nothing was changed.\n"
        assert stream.circuit() is None

    def test_a_wish_to_be_stopped_is_pointed_out(self, run: Run, stream: StreamHome) -> None:
        stream.open_circuit(epoch=1, by="policy", reason="The budget is spent.", now=NOON)
        run("stop", "orders")

        _, out, _ = run("close-circuit", "orders")

        assert "still wanted stopped; to bring it up: airflow-streaming start orders" in out


class TestDeclareDead:
    def test_a_named_person_vouches_for_the_newest_epoch(
        self, run: Run, stream: StreamHome, host: FakeHost
    ) -> None:
        begin(stream, at=NOON)
        host.process = UNSEEN

        code, out, _ = run(
            "declare-dead", "orders", "--epoch", "1", "--by", "eve", "--reason", "rack 7 burnt"
        )

        death = stream.death(1)
        assert code == 0
        assert "Epoch 1 of orders is taken for dead on the word of eve: rack 7 burnt" in out
        assert death is not None
        assert (death.by, death.evidence, death.override) == ("eve", "rack 7 burnt", True)

    def test_an_older_epoch_is_refused(self, run: Run, stream: StreamHome, host: FakeHost) -> None:
        begin(stream, 1)
        begin(stream, 2)
        host.process = UNSEEN

        code, out, _ = run("declare-dead", "orders", "--epoch", "1", "--reason", "sure")

        assert code == 1
        assert "Epoch 1 is not the newest of orders (that is epoch 2)" in out
        assert stream.death(1) is None

    def test_a_stream_without_an_epoch_is_refused(self, run: Run, stream: StreamHome) -> None:
        code, out, _ = run("declare-dead", "orders", "--epoch", "1", "--reason", "sure")

        assert code == 1
        assert "(that is none)" in out

    @pytest.mark.parametrize("state", [ProcessState.RUNNING, ProcessState.SUSPENDED])
    def test_a_driver_that_can_be_seen_is_not_dead(
        self, run: Run, stream: StreamHome, host: FakeHost, state: ProcessState
    ) -> None:
        begin(stream)
        host.process = Process(state=state, detail="pid 4711 is there")

        code, out, _ = run("declare-dead", "orders", "--epoch", "1", "--reason", "sure")

        assert code == 1
        assert "is not dead: pid 4711 is there. Kill it first" in out
        assert stream.death(1) is None

    def test_a_driver_that_is_only_being_started_is_not_dead(
        self, run: Run, stream: StreamHome, host: FakeHost
    ) -> None:
        stream.create_epoch(make_epoch(created_at=datetime.now(UTC)))
        host.process = GONE

        code, out, _ = run("declare-dead", "orders", "--epoch", "1", "--reason", "sure")

        assert code == 1
        assert "it is only being started" in out
        assert stream.death(1) is None

    def test_the_first_word_counts(self, run: Run, stream: StreamHome, host: FakeHost) -> None:
        begin(stream)
        host.process = UNSEEN
        stream.declare_dead(make_death(evidence="its power is cut", by="bob"))

        _, out, _ = run("declare-dead", "orders", "--epoch", "1", "--reason", "sure")

        assert "on the word of bob: its power is cut" in out


class TestUse:
    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param([], id="no command"),
            pytest.param(["dance"], id="unknown command"),
            pytest.param(["status"], id="no stream"),
            pytest.param(["stop", "orders", "--wait", "-1"], id="a negative wait"),
            pytest.param(["stop", "orders", "--wait", "soon"], id="no number"),
            pytest.param(["declare-dead", "orders", "--epoch", "1"], id="no reason"),
            pytest.param(["declare-dead", "orders", "--reason", "x"], id="no epoch"),
        ],
    )
    def test_wrong_use_exits_with_2(self, run: Run, arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as raised:
            run(*arguments)

        assert raised.value.code == 2

    def test_a_home_is_needed(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("AIRFLOW_STREAMING_HOME", raising=False)

        with pytest.raises(SystemExit):
            main(["list"])

        assert "Give --home, or set AIRFLOW_STREAMING_HOME." in capsys.readouterr().err

    def test_the_home_may_come_from_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("AIRFLOW_STREAMING_HOME", str(tmp_path))

        assert main(["list"]) == 0
        assert str(tmp_path) in capsys.readouterr().out

    def test_the_home_may_stand_behind_the_command(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("AIRFLOW_STREAMING_HOME", "/another")

        assert main(["list", "--home", str(tmp_path)]) == 0
        assert str(tmp_path) in capsys.readouterr().out

    @pytest.mark.parametrize("command", ["status", "start", "stop", "close-circuit"])
    def test_an_unknown_stream_is_named_with_the_known_ones(
        self, run: Run, stream: StreamHome, command: str
    ) -> None:
        code, _, err = run(command, "oders")

        assert code == 1
        assert "There is no stream 'oders' in " in err
        assert err.endswith("Its streams are: orders.\n")

    def test_a_bad_stream_name_is_wrong_use(self, run: Run) -> None:
        code, _, err = run("status", "../orders")

        assert code == 2
        assert err.startswith("airflow-streaming: Stream name '../orders' cannot be used")

    def test_a_bad_home_is_wrong_use(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--home", "not/absolute", "list"]) == 2
        assert "is relative" in capsys.readouterr().err

    def test_a_home_that_cannot_be_read_is_a_problem(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").write_text("not a folder")

        assert main(["--home", str(tmp_path / "file" / "home"), "stop", "orders"]) == 1
        assert "Not a directory" in capsys.readouterr().err


def test_without_a_launcher_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow_streaming.launch.local", None)

    process = look.local_probe()(make_epoch(), make_launch())

    assert process.state is ProcessState.UNSEEN
    assert "processes cannot be looked at from here" in process.detail


def test_the_command_starts_without_airflow_spark_or_fsspec(tmp_path: Path) -> None:
    code = (
        "import sys; from airflow_streaming.cli.main import main; code = main(sys.argv[1:]); "
        "print(code, sorted({'airflow', 'pyspark', 'fsspec'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, "--home", str(tmp_path), "list"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "0 []"
