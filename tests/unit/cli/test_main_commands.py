from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.control import CircuitState, DesiredState, EventKind
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.records.supervision import Supervision
from tests.patience import PATIENCE
from tests.unit.cli.host import GONE, UNSEEN, FakeHost, Run, begin, end
from tests.unit.home.make import NOON, make_death, make_epoch, make_stop


class TestStart:
    def test_it_records_the_wish_of_the_user(self, run: Run, stream: StreamHome) -> None:
        run("stop", "orders")

        code, out, _ = run("start", "orders", "--reason", "the disk is empty again")

        desired = stream.desired()
        assert code == 0
        assert 'Desired state of orders is now "running".' in out
        assert desired is not None
        assert (desired.state, desired.by) == (DesiredState.RUNNING, "ada")
        assert desired.reason == "the disk is empty again"

    def test_a_second_start_changes_nothing(self, run: Run, stream: StreamHome) -> None:
        run("start", "orders")

        code, out, _ = run("start", "orders", "--by", "bob")

        assert code == 0
        assert 'Desired state of orders is "running" already, by ada since 2' in out
        assert "not recorded" not in out

    def test_the_reason_of_a_repeated_command_is_not_recorded(
        self, run: Run, stream: StreamHome
    ) -> None:
        run("start", "orders", "--reason", "Topic is back.")
        _, same, _ = run("start", "orders")
        _, out, _ = run("start", "orders", "--reason", "another one")

        assert ": Topic is back.\n" in same
        assert "not recorded" not in same
        assert ": Topic is back. The reason given now is not recorded." in out


class TestStop:
    def test_the_wish_is_recorded_before_the_request(
        self, run: Run, stream: StreamHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin(stream)

        def fail(*_: object) -> None:
            raise HomeUnavailable("The disk is gone.")

        monkeypatch.setattr(StreamHome, "request_stop", fail)

        code, _, err = run("stop", "orders")

        desired = stream.desired()
        assert code == 1
        assert err == (
            "airflow-streaming: The disk is gone. The desired state of orders is recorded as "
            '"stopped". Its driver was not asked to stop.\n'
        )
        assert desired is not None
        assert desired.state is DesiredState.STOPPED

    def test_the_newest_epoch_is_asked_to_stop(self, run: Run, stream: StreamHome) -> None:
        begin(stream, 1)
        begin(stream, 2)

        code, out, _ = run("stop", "orders", "--grace", "5", "--by", "bob", "--reason", "night")

        request = stream.stop_request(2)
        assert code == 0
        assert "The driver of epoch 2 will stop at its next batch boundary." in out
        assert request is not None
        assert (request.by, request.reason, request.grace_seconds) == ("bob", "night", 5.0)
        assert stream.stop_request(1) is None
        assert [event.event for event in stream.events()] == [
            EventKind.DESIRED,
            EventKind.STOP_REQUESTED,
        ]

    def test_a_stop_may_have_an_end(self, run: Run, stream: StreamHome) -> None:
        begun = datetime.now(UTC)

        _, out, _ = run("stop", "orders", "--resume-after", "600")

        desired = stream.desired()
        assert desired is not None
        assert desired.until is not None
        assert desired.until - begun < timedelta(seconds=660)
        assert desired.until - desired.at >= timedelta(seconds=590)
        assert "starts the driver after" in out
        _, out, _ = run("status", "orders")
        assert f"starts again at {desired.until:%Y-%m-%d %H:%M}" in out

    def test_no_end_comes_to_a_stop_without_one(self, run: Run, stream: StreamHome) -> None:
        run("stop", "orders")

        code, out, _ = run("stop", "orders", "--resume-after", "600")

        assert code == 0
        assert "That stop has no end: airflow-streaming start orders." in out

    def test_without_a_grace_the_dags_counts(self, run: Run, stream: StreamHome) -> None:
        begin(stream)
        stream.supervise(
            Supervision(number=0, by="dag run", at=NOON, stop_grace=timedelta(minutes=7))
        )

        run("stop", "orders")

        request = stream.stop_request(1)
        assert request is not None
        assert request.grace_seconds == 420.0

    def test_an_earlier_request_stands(self, run: Run, stream: StreamHome) -> None:
        begin(stream)
        stream.request_stop(make_stop(by="eve"))

        _, out, _ = run("stop", "orders")

        assert "eve has already asked the driver of epoch 1 to stop." in out
        assert stream.stop_request(1) == make_stop(by="eve")

    def test_a_stream_that_has_never_run_needs_no_request(
        self, run: Run, stream: StreamHome
    ) -> None:
        code, out, _ = run("stop", "orders", "--wait", "5")

        assert code == 0
        assert "has no driver to stop" in out

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
            assert asked.wait(PATIENCE)
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

        code, _, err = run("stop", "orders", "--wait", "0")

        assert code == 1
        assert "is not proved dead after 0 s (pid 4711 runs). The request stands" in err

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


class TestStartOfAStreamThatWasGivenUp:
    @pytest.mark.parametrize("is_stopped", [False, True], ids=["wanted running", "stopped"])
    def test_a_start_wants_it_running_and_closes_the_circuit_for_the_newest_epoch(
        self, run: Run, stream: StreamHome, is_stopped: bool
    ) -> None:
        begin(stream, 1)
        begin(stream, 2)
        stream.open_circuit(epoch=2, by="policy", reason="The budget is spent.", now=NOON)
        stream.want(DesiredState.RUNNING, by="ann", reason="new", now=NOON)
        if is_stopped:
            run("stop", "orders")

        code, out, _ = run("start", "orders", "--reason", "the topic is back")

        circuit, desired = stream.circuit(), stream.desired()
        assert code == 0
        assert "is closed, with a whole restart budget: The budget is spent." in out
        assert circuit is not None
        assert (circuit.state, circuit.epoch) == (CircuitState.CLOSED, 2)
        assert (circuit.by, circuit.reason) == ("ada", "the topic is back")
        assert desired is not None
        assert (desired.state, desired.by) == (DesiredState.RUNNING, "ada" if is_stopped else "ann")

    def test_a_closed_one_is_left_alone(self, run: Run, stream: StreamHome) -> None:
        code, out, _ = run("start", "orders")

        assert code == 0
        assert "circuit" not in out
        assert stream.circuit() is None

    def test_one_that_is_opened_again_meanwhile_is_a_problem(
        self, run: Run, stream: StreamHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin(stream, 1)
        stream.open_circuit(epoch=1, by="policy", reason="The budget is spent.", now=NOON)
        close = StreamHome.close_circuit

        def overtaken(home: StreamHome, **given: Any) -> object:
            closed = close(home, **given)
            home.open_circuit(epoch=2, by="policy", reason="It failed again.", now=NOON)
            return closed

        monkeypatch.setattr(StreamHome, "close_circuit", overtaken)

        assert run("start", "orders")[0] == 1
        assert EventKind.CIRCUIT_CLOSED not in [one.event for one in stream.events(9)]

    def test_there_is_no_other_command_for_it(self, run: Run) -> None:
        with pytest.raises(SystemExit) as ended:
            run("close-circuit", "orders")

        assert ended.value.code == 2


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
        assert 'Epoch 1 of "orders" marked dead by eve: rack 7 burnt' in out
        assert death is not None
        assert (death.by, death.evidence, death.override) == ("eve", "rack 7 burnt", True)

    def test_an_older_epoch_is_refused(self, run: Run, stream: StreamHome, host: FakeHost) -> None:
        begin(stream, 1)
        begin(stream, 2)
        host.process = UNSEEN

        code, out, err = run("declare-dead", "orders", "--epoch", "1", "--reason", "sure")

        assert (code, out) == (1, "")
        assert "Epoch 1 is not the newest of orders (that is epoch 2)" in err
        assert stream.death(1) is None

    def test_a_stream_without_an_epoch_is_refused(self, run: Run, stream: StreamHome) -> None:
        code, out, err = run("declare-dead", "orders", "--epoch", "1", "--reason", "sure")

        assert (code, out) == (1, "")
        assert "(that is none)" in err

    @pytest.mark.parametrize("state", [ProcessState.RUNNING, ProcessState.SUSPENDED])
    def test_a_driver_that_can_be_seen_is_not_dead(
        self, run: Run, stream: StreamHome, host: FakeHost, state: ProcessState
    ) -> None:
        begin(stream)
        host.process = Process(state=state, detail="pid 4711 is there")

        code, out, err = run("declare-dead", "orders", "--epoch", "1", "--reason", "sure")

        assert (code, out) == (1, "")
        assert "was not declared dead: pid 4711 is there. Kill it first" in err
        assert stream.death(1) is None

    def test_a_driver_that_is_only_being_started_is_not_dead(
        self, run: Run, stream: StreamHome, host: FakeHost
    ) -> None:
        stream.create_epoch(make_epoch(created_at=datetime.now(UTC)))
        host.process = GONE

        code, out, err = run("declare-dead", "orders", "--epoch", "1", "--reason", "sure")

        assert (code, out) == (1, "")
        assert "it is only being started" in err
        assert stream.death(1) is None

    def test_the_first_word_counts(self, run: Run, stream: StreamHome, host: FakeHost) -> None:
        begin(stream)
        host.process = UNSEEN
        stream.declare_dead(make_death(evidence="its power is cut", by="bob"))

        _, out, _ = run("declare-dead", "orders", "--epoch", "1", "--reason", "sure")

        assert "marked dead by bob: its power is cut" in out


class TestHandOver:
    def test_it_records_the_new_owner_and_tells_the_timeline(
        self, run: Run, stream: StreamHome
    ) -> None:
        code, out, _ = run("hand-over", "orders", "--to", "orders2", "--reason", "It moved.")

        owner = stream.owner()
        assert code == 0
        assert "now belongs to dag orders2" in out
        assert owner is not None
        assert (owner.dag_id, owner.by, owner.reason) == ("orders2", "ada", "It moved.")
        assert [event.event for event in stream.events()] == [EventKind.OWNER]

    def test_a_second_time_changes_nothing(self, run: Run, stream: StreamHome) -> None:
        run("hand-over", "orders", "--to", "orders2", "--reason", "It moved.")

        code, out, _ = run("hand-over", "orders", "--to", "orders2", "--reason", "Again.")

        owner = stream.owner()
        assert code == 0
        assert "already" in out
        assert owner is not None
        assert owner.number == 1

    def test_it_needs_a_reason(self, run: Run, stream: StreamHome) -> None:
        with pytest.raises(SystemExit) as ended:
            run("hand-over", "orders", "--to", "orders2")

        assert ended.value.code == 2
        assert stream.owner() is None


@pytest.mark.parametrize("dag", ["", "../../x", "a b", "x" * 251, "a\n\x1b[31m"])
def test_a_stream_is_handed_over_to_nothing_but_a_dag(
    run: Run, stream: StreamHome, dag: str
) -> None:
    code, _, _ = run("hand-over", "orders", "--to", dag, "--reason", "renamed")

    assert code == 2
    assert stream.owner() is None


def test_what_steers_a_terminal_is_not_printed(run: Run, stream: StreamHome) -> None:
    stream.want(DesiredState.RUNNING, by="\u202e\x1b[31mX", reason="test", now=NOON)

    _, printed, _ = run("start", "orders", "--reason", "again")

    assert "\x1b" not in printed
    assert "\u202e" not in printed
