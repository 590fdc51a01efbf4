"""What follows from a stream's figures for its number of executors, and that it is carried out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.arguments.autoscale import Autoscale
from airflow_streaming.model.arguments.policies import Blackout, RestartPolicy
from airflow_streaming.model.codec import encode
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import EventKind
from airflow_streaming.model.records.size_change import (
    SizeChange,
    SizeCode,
    sized_conf,
    wanted_executors,
)
from airflow_streaming.model.status import ExecutorStatus, Resizing, SizeStatus
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.supervision.controller import StreamController, Submission
from airflow_streaming.supervision.decide import Action, Step, decide
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.supervision.scaling.autoscale import (
    Sample,
    SizeInput,
    SizeStep,
    SizeView,
    samples,
    size_step,
)
from airflow_streaming.supervision.scaling.carry_out import SizeState
from tests.fakes import FAKE_HOST, FakeLauncher
from tests.unit.supervision.builders import (
    EPOCH,
    NOW,
    a_batch,
    a_deployment,
    a_query,
    a_situation,
    a_spec,
    a_status,
    an_epoch,
    minutes,
    observed,
    seconds,
)
from tests.unit.supervision.steering_cases import STALLED

POLICY: Final = Autoscale(min=2, max=10)
ADVISED: Final = Autoscale(min=2, max=10, recommend_only=True)
CHANGES: Final = ("up", "down", "undo", "would_up", "would_down")
SIZED: Final = {"spark.executor.instances": "4", "spark.executor.cores": "2"}


def batches(
    rows: Sequence[int],
    *,
    every: float = 10.0,
    fixed: float = 1.0,
    each: float = 0.001,
    backlog: Sequence[float] | float | None = 0.0,
) -> list[Sample]:
    """Batches up to now: each takes a fixed time, and one for each row."""
    told = list(backlog) if isinstance(backlog, Sequence) else [backlog] * len(rows)
    return [
        Sample(NOW - seconds(every * (len(rows) - n)), x, fixed + each * x, waits)
        for n, (x, waits) in enumerate(zip(rows, told, strict=True))
    ]


def wave(mean: int, number: int = 200) -> list[int]:
    """Rows of batches that differ by up to a third, so that a fit has something to go by."""
    return [round(mean * (1 + 0.33 * ((n * 7 % 11) / 5 - 1))) for n in range(number)]


def a_change(age: timedelta, code: SizeCode = SizeCode.UP, **changes: Any) -> SizeChange:
    fields: dict[str, Any] = {
        "number": 1,
        "epoch": 16,
        "executors": 4,
        "before": 2,
        "configured": 4,
        "reason": "It worked 90 % of its time.",
        "by": "a test",
        "at": NOW - age,
    }
    return SizeChange(code=code, **fields | changes)


BUSY: Final = {"q": batches(wave(9_000))}  # 1 s and 9 s of work in each interval of 10 s
CALM: Final = {"q": batches(wave(6_000))}
IDLE: Final = {"q": batches(wave(1_500))}
GROWN: Final = [float(n * 500) for n in range(200)]
CASES: Final[dict[str, tuple[dict[str, Any], str, int]]] = {
    # What the figures ask for.
    "works 100 % of its time": ({"batches": BUSY}, "up", 6),
    "works 70 % of its time": ({"batches": CALM}, "steady", 4),
    "works 25 % of its time": ({"batches": IDLE}, "down", 2),
    "the busiest query decides": ({"batches": {"q": IDLE["q"], "r": BUSY["q"]}}, "up", 6),
    "a query without input has no say": (
        {"batches": {"q": batches(wave(6_000)), "r": batches([0] * 200)}},
        "steady",
        4,
    ),
    "works 80 % of its time, between target and bound": (
        {"batches": {"q": batches(wave(7_000))}},
        "steady",
        4,
    ),
    "one quiet half hour's end is no reason to shrink": (
        {"batches": {"q": batches([*wave(6_000, 170), *wave(1_500, 30)])}},
        "steady",
        4,
    ),
    "far too much comes: four times at the most, inside the limits": (
        {"batches": {"q": batches(wave(60_000), every=10.0)}},
        "up",
        10,
    ),
    "far too little comes: half at the most": (
        {"executors": 10, "batches": {"q": batches(wave(200))}},
        "down",
        5,
    ),
    "a backlog that cannot be read in time": (
        {"batches": {"q": batches(wave(6_000), backlog=600_000.0)}},
        "up",
        8,
    ),
    "a backlog that grows is input too": (
        {"intervals_s": {}, "batches": {"q": batches([9_000] * 200, backlog=GROWN)}},
        "up",
        7,
    ),
    # Figures that say nothing.
    "too few batches": ({"batches": {"q": BUSY["q"][-3:]}}, "no_figures", 4),
    "too short a time": ({"batches": {"q": batches(wave(900, 12), every=1.0)}}, "no_figures", 4),
    "no batches": ({}, "no_figures", 4),
    "no trigger interval, batches of one size and no backlog": (
        {"intervals_s": {}, "batches": {"q": batches([9_000] * 200)}},
        "unclear",
        4,
    ),
    "no trigger interval: all of the time is worked, and little of it on rows": (
        {"intervals_s": {}, "batches": {"q": batches(wave(500), every=1.5, fixed=1.0)}},
        "steady",
        4,
    ),
    "most of a batch has nothing to do with rows": (
        {"batches": {"q": batches(wave(2_000), fixed=9.5, each=0.0005)}},
        "fixed_cost",
        4,
    ),
    # What stands against it.
    "at the upper limit": ({"executors": 10, "batches": BUSY}, "at_max", 10),
    "at the lower limit": ({"executors": 2, "batches": IDLE}, "at_min", 2),
    "a change a minute ago": (
        {"batches": BUSY, "changes": [a_change(minutes(1))]},
        "cool_down",
        4,
    ),
    # A clock that was wrong costs no more than one that was right.
    "a change of a minute to come": (
        {"batches": BUSY, "changes": [a_change(-minutes(1))]},
        "cool_down",
        4,
    ),
    "changes of a year to come": (
        {"batches": BUSY, "changes": [a_change(-timedelta(days=365))] * 24},
        "up",
        6,
    ),
    "a change a while ago": ({"batches": BUSY, "changes": [a_change(minutes(6))]}, "up", 6),
    "the day's changes are spent": (
        {"batches": BUSY, "changes": [a_change(minutes(60))] * 24},
        "day_limit",
        4,
    ),
    "the day's share for shrinking is spent": (
        {"batches": IDLE, "changes": [a_change(minutes(60), SizeCode.DOWN)] * 12},
        "day_limit",
        4,
    ),
    "and growing is still possible": (
        {"batches": BUSY, "changes": [a_change(minutes(60), SizeCode.DOWN)] * 12},
        "up",
        6,
    ),
    "a blackout": ({"batches": BUSY, "blackout_until": NOW + minutes(5)}, "blackout", 4),
    "executors that were asked for are not there": (
        {"batches": BUSY, "alive": 3},
        "not_arrived",
        4,
    ),
    "dynamic allocation": ({"batches": BUSY, "is_dynamic": True}, "left_to_spark", 4),
    "no executors": ({"batches": BUSY, "executors": None}, "no_executors", 0),
    # What the last change has brought: BUSY can process 900 rows/s.
    "twice the executors, and 5 % more rows": (
        {"batches": BUSY, "changes": [a_change(minutes(6), figures={"pace": 857.0})]},
        "undo",
        2,
    ),
    "twice the executors, and half of the expected gain": (
        {"batches": BUSY, "changes": [a_change(minutes(6), figures={"pace": 600.0})]},
        "up",
        6,
    ),
    "no gain, and the stream is not busy any more": (
        {"batches": CALM, "changes": [a_change(minutes(6), figures={"pace": 890.0})]},
        "steady",
        4,
    ),
    "a step too small to judge": (
        {
            "batches": BUSY,
            "changes": [a_change(minutes(6), before=4, executors=4, figures={"pace": 890.0})],
        },
        "up",
        6,
    ),
    "no gain, but another size was set since": (
        {
            "batches": BUSY,
            "changes": [a_change(minutes(6), executors=3, figures={"pace": 890.0})],
        },
        "up",
        6,
    ),
    "an undo has to wait for the cool-down": (
        {"batches": BUSY, "changes": [a_change(minutes(1), figures={"pace": 857.0})]},
        "cool_down",
        4,
    ),
    "after an undo the next change to more is blocked": (
        {"batches": BUSY, "changes": [a_change(minutes(60), SizeCode.UNDO)]},
        "blocked",
        4,
    ),
    "after an undo a change to fewer is not": (
        {"batches": IDLE, "changes": [a_change(minutes(60), SizeCode.UNDO)]},
        "down",
        2,
    ),
    "hours after an undo": (
        {"batches": BUSY, "changes": [a_change(minutes(361), SizeCode.UNDO)]},
        "up",
        6,
    ),
    # What is recommended only.
    "more would be needed": ({"batches": BUSY, "policy": ADVISED}, "would_up", 6),
    "fewer would do": ({"batches": IDLE, "policy": ADVISED}, "would_down", 2),
    "it was recommended already": (
        {
            "batches": BUSY,
            "policy": ADVISED,
            "changes": [a_change(minutes(60), SizeCode.WOULD_UP, before=4, executors=6)],
        },
        "steady",
        4,
    ),
    "something else was recommended": (
        {
            "batches": BUSY,
            "policy": ADVISED,
            "changes": [a_change(minutes(60), SizeCode.WOULD_UP, before=4, executors=5)],
        },
        "would_up",
        6,
    ),
}


@pytest.mark.parametrize(("given", "code", "executors"), CASES.values(), ids=CASES.keys())
def test_every_case_has_the_step_of_the_table(
    given: dict[str, Any], code: str, executors: int
) -> None:
    fields = {"policy": POLICY, "now": NOW, "executors": 4, "intervals_s": {"q": 10.0, "r": 10.0}}
    step = size_step(SizeInput(**fields | given))

    assert (step.code, step.executors) == (code, executors), step.reason
    assert step.changes is (code in CHANGES)
    assert step.reason.endswith(".")
    if step.changes:
        assert step.figures.keys() == {"share", "arrival", "capacity", "backlog", "pace"}


def test_the_table_reaches_every_code() -> None:
    of_the_home = {"quota"}
    assert {code for _, code, _ in CASES.values()} | of_the_home == {
        code.value for code in SizeCode
    }


def test_a_recommendation_changes_no_launch() -> None:
    told = a_change(minutes(1), SizeCode.WOULD_UP, executors=9)
    assert wanted_executors(ADVISED, SIZED, told) is None
    assert wanted_executors(POLICY, SIZED, told) == 4
    assert told.sentence == "Would go from 2 to 9 executors: It worked 90 % of its time."


def test_a_change_says_what_it_costs() -> None:
    costs = {"cores_each": 3, "partitions": 32, "gc_share": 0.25}
    fields = {"policy": POLICY, "now": NOW, "executors": 4, "intervals_s": {"q": 10.0}}
    step = size_step(SizeInput(**fields, **costs, batches=BUSY))
    assert (
        "18 cores do not divide 32 state partitions: 2 rounds, 11% of their time idle."
        in step.reason
    )
    assert "Garbage collection takes 25% of the tasks' time" in step.reason


def test_progress_becomes_samples_by_query_with_the_backlog_of_all_sources() -> None:
    found = samples(
        [
            a_batch(input_rows=10, duration_ms=1_500),
            a_batch(at="yesterday"),
            a_batch(query="raw", duration_ms=0),
        ]
    )

    assert [(one.rows, one.seconds, one.backlog) for one in found["revenue"]] == [(10, 1.5, None)]
    assert found.keys() == {"revenue"}


WANTED: Final[dict[str, tuple[dict[str, str], SizeChange | None, int | None]]] = {
    "never changed": (SIZED, None, 4),
    "changed": (SIZED, a_change(minutes(60), executors=7), 7),
    "the conf was changed since": (SIZED, a_change(minutes(60), executors=7, configured=5), 4),
    "outside of the limits": ({**SIZED, "spark.executor.instances": "40"}, None, 10),
    "from a cluster's cores": ({"spark.cores.max": "12", "spark.executor.cores": "4"}, None, 3),
    "not fixed": ({"spark.executor.cores": "2"}, None, None),
    "Spark chooses": ({**SIZED, "spark.dynamicAllocation.enabled": "true"}, None, None),
}


@pytest.mark.parametrize(("conf", "newest", "executors"), WANTED.values(), ids=WANTED.keys())
def test_the_next_driver_gets_the_newest_size_of_this_configuration(
    conf: dict[str, str], newest: SizeChange | None, executors: int | None
) -> None:
    assert wanted_executors(POLICY, conf, newest) == executors
    assert wanted_executors(None, conf, newest) is None


def test_the_size_is_written_as_each_cluster_reads_it() -> None:
    dynamic = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
    }

    assert sized_conf(POLICY, SIZED, 6) == {
        "spark.executor.instances": "6",
        "spark.executor.cores": "2",
        "spark.cores.max": "20",
    }
    assert sized_conf(POLICY, dynamic, None) == {
        **dynamic,
        "spark.dynamicAllocation.maxExecutors": "10",
    }
    assert sized_conf(None, SIZED, 6) == SIZED


def a_view(code: SizeCode = SizeCode.STEADY, wanted: int = 4, present: int = 4) -> SizeView:
    step = SizeStep(code=code, executors=wanted, reason="It works 95 % of its time.")
    state = SizeState(
        epoch=EPOCH,
        wanted=present if code is SizeCode.UP else wanted,
        started_with=present,
        now=NOW,
    )
    return SizeView(state=state, step=step)


BLACKED_OUT: Final = RestartPolicy(blackouts=(Blackout(start="00:00", end="00:00"),))
STEPS: Final[dict[str, tuple[dict[str, Any], Action]]] = {
    "it is right": ({"size": a_view()}, Action.WATCH),
    "it changes": ({"size": a_view(SizeCode.UP, 6)}, Action.RESIZE),
    "it was changed, and the task died then": ({"size": a_view(wanted=6)}, Action.STOP),
    "in a blackout": ({"size": a_view(wanted=6), "policy": BLACKED_OUT}, Action.WATCH),
    "a driver that is just starting": (
        {
            "size": a_view(SizeCode.UP, 6),
            "seen": observed(status=a_status(first_progress_at=None, started_at=NOW)),
        },
        Action.WATCH,
    ),
    "a driver whose batch stands still": (
        {"size": a_view(SizeCode.UP, 6), "seen": STALLED},
        Action.WATCH,
    ),
}


@pytest.mark.parametrize(("given", "action"), STEPS.values(), ids=STEPS.keys())
def test_the_size_is_one_more_decision_of_the_same_function(
    given: dict[str, Any], action: Action
) -> None:
    assert decide(a_situation(**given)).action is action


def test_a_stream_in_a_change_keeps_its_size() -> None:
    from airflow_streaming.model.records.upgrade import OpenUpgrade
    from airflow_streaming.model.records.upgrade_table import Stage

    change = OpenUpgrade(change=1, deployment=4, stage=Stage.LAUNCHED, since=NOW)
    for size in (a_view(SizeCode.UP, 6), a_view(wanted=6)):
        assert decide(a_situation(size=size, change=change)).action is Action.WATCH


class Sized:
    """A stream in a folder that works all of its time, with a driver on the fake launcher."""

    def __init__(self, folder: Path, autoscale: Autoscale | None = POLICY) -> None:
        self.launcher, self.confs = FakeLauncher(), list[dict[str, str]]()
        self.now, self.beats = NOW, 0
        self.home = StreamHome(LocalStore(str(folder)), "orders")
        source = b"pass"
        digest = hashlib.sha256(source).hexdigest()
        self.home.create_deployment(
            a_deployment(number=1, application_sha256=digest, conf=SIZED), source
        )
        self.folder, self.autoscale = folder, autoscale
        self.controller = StreamController(
            self.home,
            self.launcher,
            spec=a_spec(conf=SIZED, autoscale=autoscale),
            submit=self.submit,
            by="a test",
            now=lambda: self.now,
        )
        self.clock = 1000.0
        self.observer = Observer(
            self.home, self.launcher, now=lambda: self.now, clock=lambda: self.clock
        )

    def submit(self, submission: Submission) -> LaunchRequest:
        self.confs.append(submission.conf)
        log = self.folder / "driver.log"
        return LaunchRequest(epoch=submission.epoch, command=(), environment={}, log=log)

    def look(self) -> Any:
        return self.observer.situation(autoscale=self.autoscale)

    def launch(self) -> Any:
        return self.controller.begin(self.look(), decide(self.look()))

    def works(self, epoch: int, found: Sequence[Sample], size: SizeStatus | None = None) -> None:
        self.beats += 1
        layout, record = Layout("orders"), self.home.epoch(epoch)
        status = a_status(
            epoch=epoch,
            token=record.token,
            beat=self.beats,
            host=FAKE_HOST,
            executors=ExecutorStatus(alive=size.executors if size else record.executors or 4),
            size=size,
            queries=(a_query(processing_interval_s=10.0),),
        )
        self.home.store.replace(layout.epoch(epoch, "status.json"), layout.bytes_of(status))
        rows = [
            a_batch(
                batch_id=number,
                at=one.at.isoformat(),
                input_rows=one.rows,
                duration_ms=int(one.seconds * 1000),
            )
            for number, one in enumerate(found)
        ]

        text = "".join(f"{json.dumps(encode(row))}\n" for row in rows)
        self.home.store.replace(f"{layout.progress(epoch)}/000001.jsonl", text.encode())


def test_a_change_is_recorded_with_its_figures_before_the_driver_is_stopped(tmp_path: Path) -> None:
    stream = Sized(tmp_path)
    first = stream.launch()
    assert first.executors == 4
    assert stream.confs[-1]["spark.executor.instances"] == "4"
    assert stream.confs[-1]["spark.cores.max"] == "20", "a standalone master can give the limit"

    stream.works(1, BUSY["q"])
    step = decide(stream.look())
    assert step.action is Action.RESIZE
    assert stream.home.size_numbers() == []
    situation = stream.look()
    stream.controller.resize(situation, step)
    stream.controller.resize(situation, step)  # another task, or another try

    change = stream.home.newest_size()
    assert change is not None
    assert stream.home.size_numbers() == [1]
    assert (change.before, change.executors, change.code, change.epoch) == (4, 6, SizeCode.UP, 1)
    assert change.figures is not None
    assert change.figures["share"] == pytest.approx(1.0, abs=0.05)
    event = next(one for one in stream.home.events() if one.event is EventKind.SIZED)
    assert (event.facts["from"], event.facts["to"]) == ("4", "6")
    assert float(event.facts["capacity"]) > 0

    step = decide(stream.look())
    assert step.action is Action.STOP
    assert step.verdict is None, "it is no failure"
    stream.controller.stop(stream.look().seen, step.reason, seconds(60))
    stream.launcher.end(first.token)
    second = stream.launch()
    assert second.executors == 6
    assert stream.confs[-1]["spark.executor.instances"] == "6"
    stream.works(2, [])
    assert decide(stream.look()).action is Action.WATCH


def test_a_driver_that_changes_its_size_is_not_stopped(tmp_path: Path) -> None:
    stream = Sized(tmp_path)
    stream.launch()
    able = SizeStatus(executors=4)
    stream.works(1, BUSY["q"], able)
    stream.controller.resize(stream.look(), decide(stream.look()))

    seen: list[tuple[SizeStatus, Action]] = [
        (able, Action.WATCH),
        (replace(able, number=1, state=Resizing.WORKING, working_for_s=60.0), Action.WATCH),
        (SizeStatus(executors=6, number=1, state=Resizing.IN_PLACE, since=NOW), Action.WATCH),
    ]
    for size, expected in seen:
        stream.works(1, BUSY["q"], size)
        assert decide(stream.look()).action is expected
    assert stream.home.size_numbers() == [1], "its older batches say nothing of the new size"
    size = stream.look().size
    assert (size.present, size.step.code) == (6, SizeCode.NO_FIGURES)


def test_a_refused_change_leads_to_one_restart_with_the_reason(tmp_path: Path) -> None:
    stream = Sized(tmp_path)
    stream.launch()
    stream.works(1, BUSY["q"], SizeStatus(executors=4))
    stream.controller.resize(stream.look(), decide(stream.look()))
    refused = SizeStatus(executors=4, number=1, state=Resizing.REFUSED, reason="It is continuous.")
    stream.works(1, BUSY["q"], refused)

    step = decide(stream.look())

    assert step.action is Action.STOP
    assert "It is continuous." in step.reason


def test_a_second_change_in_the_same_epoch_has_the_next_number(tmp_path: Path) -> None:
    stream = Sized(tmp_path)
    stream.launch()
    stream.works(1, BUSY["q"], SizeStatus(executors=4))
    stream.controller.resize(stream.look(), decide(stream.look()))
    stale = stream.look()
    since = BUSY["q"][0].at
    stream.now += minutes(10)
    stream.works(1, BUSY["q"], SizeStatus(executors=6, number=1, since=since))
    again = replace(stream.look(), now=stream.now)
    step = Step(
        action=Action.RESIZE,
        reason="It is busy.",
        size=SizeStep(code=SizeCode.UP, executors=9, reason="It is busy."),
    )
    stream.controller.resize(again, step)
    stream.controller.resize(again, step)
    stream.controller.resize(stale, step)

    assert stream.home.size_numbers() == [1, 2]
    assert stream.home.size_change(2).executors == 9


def test_a_damaged_record_of_the_size_changes_nothing_and_stops_nothing(tmp_path: Path) -> None:
    stream = Sized(tmp_path)
    stream.launch()
    stream.works(1, BUSY["q"])
    stream.home.store.replace(Layout("orders").place(SizeChange, number=1), b"{}")

    assert decide(stream.look()).action is Action.WATCH


def test_a_stream_without_autoscale_starts_as_its_configuration_says(tmp_path: Path) -> None:
    stream = Sized(tmp_path, autoscale=None)
    stream.home.add_size(a_change(minutes(60), executors=7))

    assert stream.launch().executors is None
    assert stream.confs[-1] == SIZED
    assert stream.look().size is None


def test_figures_are_read_once_a_minute(tmp_path: Path) -> None:
    stream = Sized(tmp_path)
    stream.launch()
    stream.works(1, CALM["q"])
    assert decide(stream.look()).action is Action.WATCH
    stream.works(1, BUSY["q"])
    stream.clock += 30
    assert decide(stream.look()).action is Action.WATCH
    stream.works(1, BUSY["q"])
    stream.clock += 31
    assert decide(stream.look()).action is Action.RESIZE


REFUSED: Final[dict[str, dict[str, Any]]] = {
    "no executors to begin with": {"conf": {"spark.executor.cores": "2"}},
    "no cores each": {"conf": {"spark.executor.instances": "2"}},
    "with a standby": {"conf": SIZED, "standby": True},
    "of another kind": {"conf": SIZED, "autoscale": {"min": 1, "max": 2}},
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED.keys())
def test_a_spec_that_cannot_be_sized_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        a_spec(**{"autoscale": POLICY, **given}).check()


@pytest.mark.parametrize(
    "given",
    [
        {"min": 0, "max": 2},
        {"min": 3, "max": 2},
        {"min": 1, "max": 2, "target": 0.9},
        {"min": 1, "max": 2, "changes_a_day": 0},
        {"min": 1, "max": 2, "cool_down": timedelta(0)},
    ],
)
def test_limits_that_cannot_be_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="utoscale"):
        Autoscale(**given)


def test_it_goes_through_a_trigger_and_back() -> None:
    assert Autoscale.from_dict(POLICY.to_dict()) == POLICY
    assert replace(an_epoch(), executors=4) == an_epoch(executors=4)
    a_spec(conf=SIZED, autoscale=POLICY).check()
