"""The scoring stream gets another model: a bad one is stopped by the comparison, a good one goes live."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.live import live
from airflow_streaming.model.arguments.choices import StartWay
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.options import CutoverOptions
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.readiness.subject import EventType
from airflow_streaming.testing import StreamTester, compare_rows
from airflow_streaming.triggers.asset import StreamEventTrigger
from demo.events import drop
from demo.feeds.shapes import FEEDS
from tests.integration.pipelines.cutting_over import Arriving, CuttingOver
from tests.system.cutovers.keeping import KeepAlive, start
from tests.system.cutovers.stage import CONF, Stage

STREAM: Final = "scoring"
SCRIPT: Final = "score_readings.py"
PAST: Final[dict[str, tuple[int, int]]] = {
    "first": (3, 66_000),
    "bad": (3, 61_000),
    "second": (5, 66_000),
}
"""Files of the past that each model learns from, and the temperature from which one is hot."""

EVERY: Final = 4
"""Of the feed's files, so that a day is over after some of them."""

BEFORE: Final = 24
"""Files that are there before the first cutover."""

pytestmark = [
    pytest.mark.usefixtures("has_pandas"),
    pytest.mark.nightly("Some six Sparks one after the other."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringStage(Stage):
    """
    The stage of a cutover, with the example in it instead of the shop.

    :param candidate: Model of the lane that is not live yet.
    """

    candidate: str = ""

    def spec(self, application: str, lane: str = STREAM) -> StreamSpec:
        model = "first" if lane == STREAM else self.candidate
        return StreamSpec(
            name=lane,
            application=application,
            application_args=[
                *("--input", str(self.input), "--model", str(self.folder / "models" / model)),
                *("--output", "{output}", "--trigger-seconds", "0.5"),
            ],
            home=self.home_uri,
            runtime=self.runtime.name,
            conf=CONF,
        )


@pytest.fixture
def stage(
    tmp_path: Path, spark_4_3: Path, dags: Path, stream_tester: StreamTester
) -> Iterator[ScoringStage]:
    made = ScoringStage.at(tmp_path / "stage", spark_4_3, "parquet", streams=(STREAM,))
    assert isinstance(made, ScoringStage)
    made.input.mkdir(parents=True)
    jobs = dags / "scoring" / "jobs"
    (made.folder / SCRIPT).write_bytes((jobs / SCRIPT).read_bytes())
    for model, (files, limit) in PAST.items():
        past = tmp_path / f"past_{files}"
        for number in range(files):
            drop(past, f"{number:06}.json", "\n".join(FEEDS["sensors"].lines(number)) + "\n")
        given = ("--input", past, "--model", made.folder / "models" / model, "--limit", str(limit))
        stream_tester.run(jobs / "train_model.py", *given, checkpoint=tmp_path / "unused")
    yield made
    made.end()


@pytest.fixture
def terms(dags: Path) -> CompareTerms:
    """How the example's own dag compares two models."""
    options = runpy.run_path(str(dags / "scoring" / "scoring.py"))["CUTOVER"]
    assert isinstance(options, CutoverOptions)
    assert options.start == StartWay.FRESH.value
    assert isinstance(options.compare, CompareTerms)
    return options.compare


def test_a_bad_model_is_stopped_and_a_good_one_goes_live_and_is_named_by_its_output(
    stage: ScoringStage, terms: CompareTerms, stream_tester: StreamTester
) -> None:
    arriving = Arriving(stage.input, "sensors", every=EVERY)
    for _ in range(BEFORE):
        arriving.arrive()
    start(stage, stage.folder / SCRIPT)
    first = moving_to(stage, "bad")
    with KeepAlive(stage) as keep_alive:
        blue = stage.lane(STREAM).deployment(1)
        first.wait(
            lambda: first.files_read(blue) >= BEFORE, f"{BEFORE} files of blue", keep_alive.said
        )
        ended = {}
        for model in ("bad", "second"):
            moving = moving_to(stage, model)
            found = moving.preflight(StartWay.FRESH)
            ended[model] = moving.cut_over(found.pair, model, arriving, ahead=1, compare=(terms,))
            print(f"{model}: {ended[model].state}, {ended[model].reason}", flush=True)  # noqa: T201
            if model == "bad":
                assert ended[model].state is CutoverState.ABORTED
                assert live(STREAM, home=stage.home_uri).lane == STREAM
                assert stage.drivers() == [(STREAM, 1)]

        assert ended["second"].state is CutoverState.FINALIZED
        outputs = live(STREAM, home=stage.home_uri, history=True)
        green = stage.lane(other_lane(STREAM)).newest_deployment()
        assert green is not None
        assert outputs.output == green.output
        arriving.arrive()
        moving.wait(
            lambda: moving.files_read(green) == arriving.files, "the last file", keep_alive.said
        )
    stage.end()

    check_rows(stage, stream_tester, green.output, "second", is_whole=True)
    check_rows(stage, stream_tester, blue.output, "first", is_whole=False)
    # From the event by which consumers are scheduled to the output, its deployment and its model.
    event = live_event(stage)
    assert (event["lane"], event["output"]) == (other_lane(STREAM), green.output)
    assert [one.output for one in outputs.history] == [blue.output]
    assert [model_of(stage, output) for output in (blue.output, event["output"])] == [
        "first",
        "second",
    ]


def moving_to(stage: ScoringStage, model: str) -> CuttingOver:
    """Return the cutover to a model; the script is the same."""
    return CuttingOver(
        stage=replace(stage, candidate=model),
        stream=STREAM,
        query="scores",
        green_script=stage.folder / SCRIPT,
    )


def check_rows(
    stage: ScoringStage, tester: StreamTester, output: str, model: str, *, is_whole: bool
) -> None:
    """Check that an output holds what a batch of its model gives, none twice, and of green all."""
    given = ("--input", stage.input, "--model", stage.folder / "models" / model)
    batch = tester.run_batch(stage.folder / SCRIPT, *given, "--output", stage.folder)["scores"]
    found = tester.rows(Path(output))
    print(f"{model}: {len(found)} of {len(batch)} rows", flush=True)  # noqa: T201
    assert {row["model"] for row in found} == {model}
    if is_whole:
        assert not compare_rows(found, batch)
    else:
        ids = {row["id"] for row in found}
        assert not compare_rows(found, [row for row in batch if row["id"] in ids])


def live_event(stage: ScoringStage) -> dict[str, Any]:
    """Return the asset event that tells what is live."""
    trigger = StreamEventTrigger(
        asset="scoring.live",
        topic=EventType.LIVE.value,
        every_seconds=0.0,
        stream=STREAM,
        home=stage.home_uri,
    )
    event, _ = trigger.look_once()
    assert event is not None
    return event


def model_of(stage: ScoringStage, output: str) -> str:
    """Return the model of the deployment that writes an output, by the home's records."""
    lanes = [stage.lane(lane) for lane in (STREAM, other_lane(STREAM))]
    newest = [(lane, lane.newest_deployment()) for lane in lanes]
    numbers = [(lane, n) for lane, last in newest if last for n in range(1, last.number + 1)]
    (made,) = [found for lane, n in numbers if (found := lane.deployment(n)).output == output]
    arguments = made.arguments(stage.home_uri)
    return Path(arguments[arguments.index("--model") + 1]).name
