"""Gates on a stream, in every mode of a sensor."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.records.control import Change, ChangeKind, DesiredState
from airflow_streaming.model.records.epoch import Host
from airflow_streaming.sensors import stream as sensors
from airflow_streaming.sensors.stream import (
    SafeToExpireSensor,
    StreamBacklogSensor,
    StreamCaughtUpSensor,
    StreamGateSensor,
    StreamHealthSensor,
    StreamProgressSensor,
    StreamWatermarkSensor,
)
from airflow_streaming.supervision.readiness.subject import Condition
from airflow_streaming.triggers.gate import GateTrigger
from tests.unit.sensors.gates import BEGUN, a_batch, commit
from tests.unit.supervision.checkpoints import Checkpoint
from tests.unit.world import World

SENSORS: dict[type[StreamGateSensor], dict[str, Any]] = {
    StreamHealthSensor: {"healthy_for": timedelta(seconds=30)},
    StreamProgressSensor: {"batch": 7},
    StreamWatermarkSensor: {"past": "2026-11-21T12:00:00Z"},
    StreamBacklogSensor: {"below": 100.0, "unit": "seconds"},
    StreamCaughtUpSensor: {"with_stream": "blue"},
    SafeToExpireSensor: {"older_than": "2026-11-21T12:00:00Z"},
}
NAMES = [sensor.__name__ for sensor in SENSORS]


def make(sensor: type[StreamGateSensor], world: World, **kwargs: Any) -> Any:
    named = {} if "checkpoint" in kwargs else {"home": world.uri, "stream": "orders"}
    return sensor(task_id="gate", **{"deferrable": False, **named, **kwargs})


class PlayedTime:
    """Time as a sensor has it: it passes while the sensor sleeps, and then the driver goes on."""

    def __init__(self) -> None:
        self.slept = 0
        self.drives: Callable[[int], None] = lambda beat: None

    def monotonic(self) -> float:
        return float(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept += int(seconds)
        self.drives(self.slept)


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedTime:
    time = PlayedTime()
    monkeypatch.setattr(sensors, "time", time)
    return time


@pytest.fixture
def healthy(world: World, played: PlayedTime) -> World:
    """Let the driver run, healthy for two minutes, at batch 7 with 40 records left."""
    world.run()
    batch = a_batch(7, watermark=BEGUN, backlog_records=40.0)
    played.drives = lambda slept: commit(world, batch, beat=1 + slept)
    played.drives(0)
    return world


def test_a_healthy_stream_opens_the_gate_and_tells_what_it_is(healthy: World) -> None:
    poked = make(StreamHealthSensor, healthy, healthy_for=timedelta(minutes=1)).poke({})

    assert poked.is_done
    assert poked.xcom_value == {
        "stream": "orders",
        "batch": 7,
        "watermark": "2026-11-21T12:00:00.000000+00:00",
        "reason": "Reached by stream 'orders': revenue at batch 7, watermark 2026-11-21T12:00:00Z.",
    }


def test_a_stream_that_is_not_healthy_long_enough_keeps_it_closed(healthy: World) -> None:
    poked = make(StreamHealthSensor, healthy, healthy_for=timedelta(minutes=30)).poke({})

    assert not poked.is_done
    assert poked.xcom_value is None


def test_a_status_left_by_a_driver_nobody_can_see_is_no_proof_of_life(world: World) -> None:
    world.run()
    commit(world, a_batch(7), beat=9)
    world.launcher.here = Host(name="elsewhere")

    assert not make(StreamHealthSensor, world).poke({}).is_done


@pytest.mark.parametrize(("sensor", "asked"), SENSORS.items(), ids=NAMES)
def test_a_stream_that_never_ran_is_waited_for(
    world: World, sensor: type[StreamGateSensor], asked: dict[str, Any]
) -> None:
    assert not make(sensor, world, **asked).poke({}).is_done


@pytest.mark.parametrize(("sensor", "asked"), SENSORS.items(), ids=NAMES)
def test_a_stopped_stream_fails_the_gate_at_once(
    world: World, sensor: type[StreamGateSensor], asked: dict[str, Any]
) -> None:
    world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=datetime.now(UTC))

    with pytest.raises(
        AirflowFailException, match=r"stream 'orders' cannot meet the condition.*stopped"
    ):
        make(sensor, world, **asked).poke({})


@pytest.mark.parametrize(("sensor", "asked"), SENSORS.items(), ids=NAMES)
def test_a_stop_that_is_tolerated_is_waited_out(
    world: World, sensor: type[StreamGateSensor], asked: dict[str, Any]
) -> None:
    world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=datetime.now(UTC))
    gate = make(sensor, world, tolerate_stop=timedelta(hours=1), **asked)

    assert not gate.poke({}).is_done
    gate.deferrable = True
    with pytest.raises(TaskDeferred) as deferred:
        gate.execute({})
    condition = Condition.from_dict(deferred.value.trigger.condition)
    assert condition.tolerate_stop == timedelta(hours=1)


def test_a_restore_in_progress_is_waited_out(world: World) -> None:
    world.run()
    world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=datetime.now(UTC))
    now = datetime.now(UTC)
    world.home.begin_change(
        Change(
            number=1,
            stream="orders",
            what=ChangeKind.RESTORE,
            replaced=1,
            deployment=2,
            checkpoint="/c",
            by="ann",
            reason="x",
            at=now,
        )
    )

    assert not make(StreamProgressSensor, world, batch=7).poke({}).is_done


def test_a_negative_tolerance_is_refused(world: World) -> None:
    with pytest.raises(SpecError, match="tolerate_stop"):
        make(StreamHealthSensor, world, tolerate_stop=timedelta(seconds=-1))


def test_an_open_circuit_fails_the_gate_at_once(world: World) -> None:
    world.run()
    world.home.open_circuit(epoch=1, by="t", reason="budget spent.", now=datetime.now(UTC))

    with pytest.raises(AirflowFailException, match="budget spent"):
        make(StreamHealthSensor, world).poke({})


@pytest.mark.parametrize(
    ("asked", "is_done"),
    [
        ({"batch": 7}, True),
        ({"batch": 8}, False),
        ({"committed_since": "2026-11-21T13:07:02+01:00"}, True),
        ({"committed_since": datetime(2026, 11, 21, 12, 7, 2, tzinfo=UTC)}, True),
        ({"committed_since": "2026-11-21 12:07:03+00:00"}, False),
        ({"batch": 7, "committed_since": "2026-11-21 12:07:03+00:00"}, False),
        ({"batch": 7, "query": "raw"}, False),
    ],
    ids=str,
)
def test_progress_opens_the_gate(world: World, asked: dict[str, Any], is_done: bool) -> None:
    world.run()
    commit(world, a_batch(7))

    assert make(StreamProgressSensor, world, **asked).poke({}).is_done is is_done


@pytest.mark.parametrize(
    ("past", "is_done"),
    [("2026-11-21T12:00:00Z", True), (BEGUN, True), ("2026-11-21 12:00:01+00:00", False)],
    ids=str,
)
def test_a_watermark_opens_the_gate(world: World, past: Any, is_done: bool) -> None:
    world.run()
    commit(world, a_batch(7, watermark=BEGUN))

    assert make(StreamWatermarkSensor, world, past=past).poke({}).is_done is is_done


def test_a_driver_that_was_restarted_and_has_no_data_keeps_what_it_had_committed(
    world: World,
) -> None:
    operator = world.operator()
    trigger = world.run(operator)
    commit(world, a_batch(7, watermark=BEGUN))
    world.crash()
    world.wake(trigger, operator)
    assert world.epochs() == 2
    world.say(queries=(world.query(),))

    assert make(StreamWatermarkSensor, world, past=BEGUN).poke({}).is_done


@pytest.mark.parametrize(
    ("below", "unit", "is_done"),
    [(41, "records", True), (40, "records", False), (4.1, "seconds", True), (9, "files", False)],
)
def test_a_small_backlog_opens_the_gate(
    healthy: World, below: float, unit: str, is_done: bool
) -> None:
    sensor = make(StreamBacklogSensor, healthy, below=below, unit=unit)

    assert sensor.poke({}).is_done is is_done


@pytest.mark.parametrize(
    ("read", "is_done"),
    [("2026-11-21T12:00:00Z", True), ("2026-11-21T11:59:59Z", False), (None, False)],
)
def test_data_may_expire_once_it_is_read_also_when_the_stream_is_stopped(
    world: World, read: str | None, is_done: bool
) -> None:
    world.run()
    commit(world, a_batch(7, read_until=read))
    assert (
        make(SafeToExpireSensor, world, **SENSORS[SafeToExpireSensor]).poke({}).is_done is is_done
    )
    world.home.want(DesiredState.STOPPED, by="ann", reason="x", now=datetime.now(UTC))
    sensor = make(SafeToExpireSensor, world, **SENSORS[SafeToExpireSensor])
    if is_done:
        assert sensor.poke({}).is_done
    else:
        with pytest.raises(AirflowFailException, match=r"not known|not up to 2026-11-21T12:00:00Z"):
            sensor.poke({})


@pytest.mark.parametrize(("end", "is_done"), [(6, True), (7, True), (8, False)])
def test_caught_up_with_a_foreign_stream(world: World, end: int, is_done: bool) -> None:
    world.run()
    commit(world, a_batch(70))
    other = Checkpoint(world.folder / "checkpoint")
    other.run(end)

    sensor = make(StreamCaughtUpSensor, world, with_checkpoint=str(other.folder))

    assert sensor.poke({}).is_done is is_done


def test_a_foreign_stream_can_catch_up_with_one_of_ours(world: World) -> None:
    world.run()
    commit(world, a_batch(70))
    foreign = Checkpoint(world.folder / "checkpoint")
    foreign.run(6)
    sensor = make(
        StreamCaughtUpSensor,
        world,
        checkpoint=str(foreign.folder),
        with_stream="orders",
        with_home=world.uri,
    )
    assert not sensor.poke({}).is_done

    foreign.run(7)

    assert sensor.poke({}).is_done


def test_a_foreign_stream_is_gated_by_its_checkpoint_and_nothing_is_written_there(
    world: World,
) -> None:
    foreign = Checkpoint(world.folder / "checkpoint")
    foreign.run(1, 2)
    before = foreign.fingerprint()
    sensor = make(StreamProgressSensor, world, checkpoint=str(foreign.folder), batch=3)
    assert not sensor.poke({}).is_done
    assert foreign.fingerprint() == before

    foreign.run(3)

    assert sensor.poke({}).xcom_value["stream"] == str(foreign.folder)


def test_a_store_that_is_away_is_no_reason_to_fail(world: World) -> None:
    world.run()
    commit(world, a_batch(7))
    orders = Path(world.uri) / "orders"
    aside = orders.rename(orders.with_name("aside"))
    orders.symlink_to(orders)  # a loop: neither there nor missing
    sensor = make(StreamProgressSensor, world, batch=7)
    assert not sensor.poke({}).is_done

    orders.unlink()
    aside.rename(orders)

    assert sensor.poke({}).is_done


@pytest.mark.parametrize(("sensor", "asked"), SENSORS.items(), ids=NAMES)
def test_deferred_it_hands_its_question_to_a_trigger(
    world: World, sensor: type[StreamGateSensor], asked: dict[str, Any]
) -> None:
    task = make(sensor, world, deferrable=True, timeout=60, poke_interval=5, **asked)

    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})

    trigger = deferred.value.trigger
    assert isinstance(trigger, GateTrigger)
    assert Condition.from_dict(trigger.condition) == task.condition()
    assert (trigger.subject, trigger.poll_seconds) == (task.subject(), 5.0)
    assert (trigger.other is not None) == (sensor is StreamCaughtUpSensor)
    assert deferred.value.timeout == timedelta(seconds=60)


def test_what_the_trigger_saw_is_returned() -> None:
    sensor = StreamHealthSensor(task_id="gate", stream="orders", home="/h")
    seen = {"stream": "orders", "batch": 7, "watermark": None, "reason": "Reached."}

    assert sensor.execute_complete({}, {"state": "ready", "reason": "x", "seen": seen}) == seen
    assert sensor.execute_complete({}, {"state": "ready", "reason": "of an older row"}) is None
    with pytest.raises(AirflowFailException, match="circuit"):
        sensor.execute_complete({}, {"state": "lost", "reason": "The circuit is open."})


@pytest.mark.parametrize(
    "named",
    [{}, {"stream": "orders"}, {"home": "/h"}],
    ids=["nothing", "no home", "no stream"],
)
def test_a_stream_that_is_not_named_breaks_the_dag(named: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"Give stream= and home="):
        StreamProgressSensor(task_id="gate", batch=1, **named)


def test_a_stream_that_is_named_twice_breaks_the_dag() -> None:
    with pytest.raises(SpecError, match=r"named in two ways.*not both"):
        StreamProgressSensor(task_id="g", batch=1, stream="orders", home="/h", checkpoint="/c")


@pytest.mark.parametrize(
    ("sensor", "kwargs", "words"),
    [
        (StreamProgressSensor, {"stream": "s", "home": "/h"}, "needs batch= or committed_since="),
        (
            StreamProgressSensor,
            {"stream": "s", "home": "/h", "batch": 1, "endpoint": "http://h:1"},
            "go with checkpoint=",
        ),
        (StreamCaughtUpSensor, {"stream": "s", "home": "/h"}, r"The stream to catch up with"),
        (StreamBacklogSensor, {"checkpoint": "/c", "below": 1}, "does not record how much is left"),
        (SafeToExpireSensor, {"checkpoint": "/c", "older_than": BEGUN}, "does not record when"),
        (
            StreamBacklogSensor,
            {"stream": "s", "home": "/h", "below": 1, "unit": "miles"},
            "not counted in 'miles'",
        ),
        (
            StreamHealthSensor,
            {"checkpoint": "/c", "healthy_for": timedelta(minutes=1), "mode": "reschedule"},
            "every poke starts from zero",
        ),
    ],
)
def test_a_question_without_an_answer_breaks_the_dag(
    sensor: type[StreamGateSensor], kwargs: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        sensor(task_id="gate", deferrable=False, **kwargs)


@pytest.mark.parametrize("deferrable", [True, False])
@pytest.mark.parametrize(
    ("sensor", "asked", "words"),
    [
        (StreamWatermarkSensor, {"past": "None"}, "not an ISO 8601 time.*data_interval_end"),
        (StreamWatermarkSensor, {"past": "2026-11-21T12:00:00"}, "does not say its time zone"),
        (StreamWatermarkSensor, {"past": datetime(2026, 11, 21)}, "has no time zone"),  # noqa: DTZ001 - is refused
        (
            StreamProgressSensor,
            {"committed_since": "yesterday"},
            "committed_since: 'yesterday' is not",
        ),
    ],
)
def test_a_time_that_was_rendered_to_nonsense_is_final(
    world: World,
    sensor: type[StreamGateSensor],
    asked: dict[str, Any],
    words: str,
    deferrable: bool,
) -> None:
    gate = make(sensor, world, deferrable=deferrable, **dict.fromkeys(asked, "{{ told }}"))
    for name, rendered in asked.items():
        setattr(gate, name, rendered)

    with pytest.raises(AirflowFailException, match=words):
        gate.execute({})


@pytest.mark.parametrize(
    ("sensor", "given", "words"),
    [
        (StreamWatermarkSensor, {"past": "None"}, "not an ISO 8601 time"),
        (StreamWatermarkSensor, {"past": ""}, "not an ISO 8601 time"),
        (StreamWatermarkSensor, {"past": datetime(2026, 11, 21)}, "has no time zone"),  # noqa: DTZ001 - is refused
        (StreamProgressSensor, {"committed_since": "yesterday"}, "committed_since: 'yesterday'"),
        (StreamHealthSensor, {"home": "rel/h"}, "home 'rel/h' is relative"),
        (StreamHealthSensor, {"stream": "a/b"}, "'a/b' cannot be used for folders"),
        (StreamHealthSensor, {"stream": None, "home": None, "checkpoint": "ck"}, "is relative"),
        (StreamCaughtUpSensor, {"with_stream": "a/b"}, "'a/b' cannot be used"),
        (StreamCaughtUpSensor, {"with_checkpoint": "ck"}, "is relative"),
        (StreamCaughtUpSensor, {"with_stream": "b", "with_home": "rel/h"}, "is relative"),
    ],
)
def test_a_literal_that_no_run_could_take_breaks_the_dag(
    sensor: type[StreamGateSensor], given: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        sensor(task_id="gate", **{"stream": "orders", "home": "/h"} | given)


def test_what_says_which_stream_and_when_is_templated() -> None:
    assert {"stream", "home", "checkpoint", "endpoint", "conn_id", "query", "past"} <= set(
        StreamWatermarkSensor.template_fields
    )
    assert "committed_since" in StreamProgressSensor.template_fields
    assert "with_checkpoint" in StreamCaughtUpSensor.template_fields
