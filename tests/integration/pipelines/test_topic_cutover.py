"""A stream from topic to topic is cut over by real drivers: attacks, comparison, promotion, roll-back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.cli.main import main
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.live import live
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import CompareReport, CompareResult
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.cutover_table import CutoverCommand, CutoverState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.operators.common.cutover_checks import Comparing
from airflow_streaming.spec import StreamSpec
from tests.integration.pipelines.cutting_over import PLAN, Arriving, CuttingOver
from tests.integration.servers.broker import consume, count_records, create_topic, kafka_broker
from tests.integration.servers.connector import OFFICIAL, STAND_IN, official_jars
from tests.patience import PATIENCE
from tests.system.cutovers.keeping import KeepAlive, start
from tests.system.cutovers.stage import CONF, Stage

STREAM: Final = "topics"
GREEN: Final = other_lane(STREAM)
ROWS: Final = {OFFICIAL: 100_000, STAND_IN: 10_000}
"""Rows in the source when green begins."""
CHUNK: Final = 50
SCRIPT: Final = (Path(__file__).parent / "topic_job.py").read_text()
RENAMED: Final = SCRIPT.replace('QUERY = "routed"', 'QUERY = "forwarded"')
INTO_BLUES: Final = RENAMED.replace("into = given.into", f'into = "out-{STREAM}-1"')
DROPPING: Final = SCRIPT.replace('KEPT = "value IS NOT NULL"', 'KEPT = "value IS NULL"')

pytestmark = [
    pytest.mark.usefixtures("has_pandas"),
    pytest.mark.nightly("Some six Sparks one after the other."),
]


class Records(Arriving):
    """Records that arrive in a topic, ``CHUNK`` at a time."""

    def __init__(self, broker: str, topic: str) -> None:
        super().__init__(Path(), "clicks")
        self._producer, self._topic = Producer({"bootstrap.servers": broker}), topic

    def arrive(self) -> None:
        for number in range(self.files * CHUNK, (self.files + 1) * CHUNK):
            value = json.dumps({"id": number, "amount": number * 1.5})
            self._producer.produce(self._topic, key=f"k{number}", value=value)
        assert self._producer.flush(PATIENCE) == 0
        self.files += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStage(Stage):
    """
    The stage of a cutover, with topics for files.

    :param servers: Address of the broker.
    :param connector: Name of Spark's source.
    """

    servers: str = ""
    connector: str = OFFICIAL
    py_files: tuple[str, ...] = ()
    more: Mapping[str, str] = field(default_factory=dict)

    def spec(self, application: str, lane: str = STREAM) -> StreamSpec:
        return StreamSpec(
            name=lane,
            application=application,
            application_args=[
                *("--connector", self.connector, "--servers", self.servers, "--topic", "in"),
                *("--into", "out-{stream}-{deployment}"),
            ],
            py_files=[*self.py_files],
            home=self.home_uri,
            runtime=self.runtime.name,
            conf={**CONF, **self.more},
        )


class MovingTopics(CuttingOver):
    """A cutover between topics; the unit of input is a chunk of records."""

    def files_read(self, deployment: Deployment) -> int:
        queries = [*Path(deployment.checkpoint).glob("*/commits")]
        if not queries:
            return 0
        try:
            (source,) = inspect(str(queries[0].parent)).sources
        except (CheckpointError, ValueError):
            return 0
        topics = source.committed or {}
        return sum(int(end) for ends in topics.values() for end in ends.values()) // CHUNK


@pytest.fixture(params=[OFFICIAL, STAND_IN])
def stage(
    request: pytest.FixtureRequest, tmp_path: Path, spark_4_3: Path, dags: Path
) -> Iterator[TopicStage]:
    is_official = request.param == OFFICIAL
    more = {"spark.jars": official_jars()} if is_official else {}
    stand_in = str(dags / "kafka_to_kafka" / "jobs" / "python_kafka.py")
    with kafka_broker(tmp_path / "kafka") as broker:
        create_topic(broker, "in", 2)
        for lane in (STREAM, GREEN):
            for number in range(1, 5):
                create_topic(broker, f"out-{lane}-{number}", 2)
        made = TopicStage(
            folder=tmp_path / "stage",
            runtime=resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)}),
            sink="",
            streams=(STREAM,),
            servers=broker,
            connector=request.param,
            py_files=() if is_official else (stand_in,),
            more=more,
        )
        made.folder.mkdir()
        yield made
        made.end()


def moving_to(stage: TopicStage, name: str, script: str) -> MovingTopics:
    path = stage.folder / f"{name}.py"
    path.write_text(script)
    name_of_query = "routed" if script in (SCRIPT, DROPPING) else "forwarded"
    return MovingTopics(
        stage=stage,
        stream=STREAM,
        query="routed",
        green_script=path,
        green_query=name_of_query,
    )


def comparing(stage: TopicStage, reports: list[CompareReport]) -> Comparing:
    """Return the comparison that operators make."""
    hook: Any = SimpleNamespace(
        lane=lambda lane: SimpleNamespace(home=stage.lane(lane)),
        program=lambda deployment, _: SimpleNamespace(conf=deployment.conf, env={}),
    )
    lanes: Any = SimpleNamespace(hook=lambda _: hook, home=stage.lane(STREAM))
    return Comparing(lanes, complete_from={}, progress=lambda _: None, heard=reports.append)


def ids(broker: str, topic: str) -> Counter[int]:
    records = count_records(broker, topic)
    return Counter(message.value["id"] for message in consume(broker, topic, records))


def test_topics_change_places_and_no_row_is_lost(
    stage: TopicStage, capsys: pytest.CaptureFixture[str]
) -> None:
    broker, is_official = stage.servers, stage.connector == OFFICIAL
    blues, greens = f"out-{STREAM}-1", [f"out-{GREEN}-{number}" for number in range(1, 5)]
    arriving = Records(broker, "in")
    for _ in range(ROWS[stage.connector] // CHUNK):
        arriving.arrive()
    begin = moving_to(stage, "old", SCRIPT)
    start(stage, begin.green_script)
    reports: list[CompareReport] = []
    terms = CompareTerms(
        stream=STREAM, format="kafka", keys=("value.id",), topic="out-{stream}-{deployment}",
        options={"kafka.bootstrap.servers": broker},
    )  # fmt: skip

    with KeepAlive(stage) as keep_alive:
        begin.wait(
            lambda: count_records(broker, blues) >= arriving.files * CHUNK,
            "all rows in blue's topic",
            keep_alive.said,
        )
        # A green with a renamed query that writes blue's topic.
        attack = moving_to(stage, "same_topic", INTO_BLUES)
        found = attack.preflight(StartWay.FRESH)
        findings = {one.rule: one for one in found.ways.of(SwitchMethod.PARALLEL).findings}
        if is_official:
            assert findings["cutover.output_shared"].severity is GateDecision.NOT_ALLOWED
            engine = attack.begun(found.pair, "same topic")
            ended = attack.driven(engine, CutoverState.FINALIZED, arriving, ahead=1)
            assert ended.state is CutoverState.ABORTED
            steps = stage.lane(STREAM).steps(ended.change)
            assert any(blues in step.reason for step in steps), steps
        else:
            assert "cutover.output_unseen" in findings

        # A green that drops every row is not made live unasked.
        attack = moving_to(stage, "dropping", DROPPING)
        engine = attack.begun(attack.pair(StartWay.FRESH), "dropping")
        ended = attack.driven(engine, CutoverState.FINALIZED, arriving, ahead=1)
        assert ended.state is CutoverState.HELD, ended
        assert live(STREAM, home=stage.home_uri).lane == STREAM
        engine.command(CutoverCommand.ABORT, "It drops every row.")
        ended = attack.driven(engine, CutoverState.FINALIZED, arriving, ahead=1)
        assert ended.state is CutoverState.ABORTED

        # A good one is promoted after the topics were compared, and rolled back in the soak.
        moving = moving_to(stage, "renamed", RENAMED)
        plan = replace(
            PLAN,
            compare=(terms,),
            soak=replace(PLAN.soak, at_least=timedelta(minutes=2)),
        )
        engine = moving.begun(moving.pair(StartWay.FRESH), "back", plan, comparing(stage, reports))
        ended = moving.driven(engine, CutoverState.SOAKING, arriving, ahead=1)
        assert ended.state is CutoverState.SOAKING, ended
        assert_live(stage, GREEN, capsys)
        engine.command(CutoverCommand.ROLL_BACK, "The test says so.")
        ended = moving.driven(engine, CutoverState.FINALIZED, arriving, ahead=1)
        assert ended.state is CutoverState.ROLLED_BACK
        assert_live(stage, STREAM, capsys)

        # The next one stays.
        ended = moving.cut_over(
            moving.pair(StartWay.FRESH), "stays", arriving,
            ahead=1, compare=(terms,), comparing=comparing(stage, reports),
        )  # fmt: skip
        assert ended.state is CutoverState.FINALIZED
        assert [report.result for report in reports] == [CompareResult.SAME] * 2
        arriving.arrive()
        green = stage.lane(GREEN).newest_deployment()
        assert green is not None
        last = greens[green.number - 1]
        moving.wait(lambda: count_records(broker, last) >= arriving.files * CHUNK, "the last rows")
    stage.end()
    for report in reports:
        print(f"{stage.connector}: {report.seconds} s, {report.reason}")  # noqa: T201

    expected = Counter(range(arriving.files * CHUNK))
    assert ids(broker, last) == expected
    of_blue = ids(broker, blues)
    assert set(of_blue) <= set(expected)
    assert set(of_blue.values()) == {1}


def assert_live(stage: TopicStage, lane: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check what ``live`` names: the topic of the lane's newest deployment, or its folder for a function's writes."""
    newest = stage.lane(lane).newest_deployment()
    assert newest is not None
    topic = f"kafka out-{lane}-{newest.number} on {stage.servers}"
    capsys.readouterr()
    assert main(["live", STREAM, "--home", stage.home_uri, "--output"]) == 0
    expected = topic if stage.connector == OFFICIAL else newest.output
    assert capsys.readouterr().out.strip() == expected
