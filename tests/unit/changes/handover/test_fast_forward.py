"""Green's next batch reads what blue has read since, with blue's watermark; else there is a reason."""

from __future__ import annotations

import json

import pytest

from airflow_streaming.changes.handover.fast_forward import (
    FastForward,
    NotThere,
    QueryView,
    plan_absorption,
    plan_planned,
)
from airflow_streaming.checkpoints.read.file_logs import parse_source_log
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.spark.logs import parse_offset_log
from tests.unit.changes.cutover.views import of_files, of_kafka, of_texts

BLUE = [["a"], ["b"], ["c"], ["d"], ["e"]]


def absorbed(green: QueryView, blue: QueryView) -> FastForward:
    found = plan_absorption(green, blue)
    assert isinstance(found, FastForward)
    return found


def names_in(data: bytes) -> list[tuple[str, int]]:
    return [(entry.path.rpartition("/")[2], entry.batch) for entry in parse_source_log(data)]


def test_the_batch_reads_the_files_that_blue_has_and_green_has_not() -> None:
    green = of_files("green", [["a", "b"], ["c"]], batch=1, watermark=10)
    blue = of_files("blue", BLUE, watermark=40)

    found = absorbed(green, blue)

    assert list(found.written) == ["sources/0/2", "offsets/2"]
    assert names_in(found.written["sources/0/2"]) == [("d", 2), ("e", 2)]
    plan = parse_offset_log(found.written["offsets/2"])
    assert plan.offsets == (("0", '{"logOffset":2}'),)
    assert (plan.watermark_ms, plan.batch_ms) == (40, 1000)
    assert plan.conf == {"by": "green"}, "what a query pins is its own"


def test_a_batch_whose_entry_is_compacted_repeats_all_files() -> None:
    green = of_files("green", [["a", "b"], ["c"]], interval=3)
    blue = of_files("blue", BLUE)

    found = absorbed(green, blue)

    assert list(found.written) == ["sources/0/2.compact", "offsets/6"]
    told = names_in(found.written["sources/0/2.compact"])
    assert told == [("a", 0), ("b", 0), ("c", 1), ("d", 2), ("e", 2)]


def test_a_later_watermark_alone_is_absorbed_without_a_row() -> None:
    green, blue = of_files("green", BLUE, watermark=10), of_files("blue", BLUE, watermark=40)

    found = absorbed(green, blue)

    assert list(found.written) == ["offsets/6"]
    assert parse_offset_log(found.written["offsets/6"]).offsets == (("0", '{"logOffset":4}'),)


def test_entries_that_no_plan_has_named_make_room() -> None:
    green = of_files("green", [["a", "b"], ["c"], ["d", "x"], ["y"]], end=1)

    found = absorbed(green, of_files("blue", BLUE))

    assert found.removed == ("sources/0/3", "sources/0/2")
    assert names_in(found.written["sources/0/2"]) == [("d", 2), ("e", 2)]


def test_what_blue_read_before_the_first_common_file_is_its_own_past() -> None:
    green, blue = of_files("green", [["c"]]), of_files("blue", BLUE)

    assert names_in(absorbed(green, blue).written["sources/0/1"]) == [("d", 1), ("e", 1)]
    assert plan_absorption(of_files("green", [["c", "d"], ["e"]]), blue) is None


def test_kafka_goes_on_to_where_blue_is() -> None:
    green, blue = of_kafka("green", {"0": 5, "1": 7}), of_kafka("blue", {"0": 9, "1": 7, "2": 1})

    plan = parse_offset_log(absorbed(green, blue).written["offsets/6"])

    assert json.loads(plan.offsets[0][1]) == {"t": {"0": 9, "1": 7, "2": 1}}


@pytest.mark.parametrize(
    ("green", "blue", "says"),
    [
        pytest.param(
            *(of_files("green", BLUE), of_files("blue", BLUE[:3]), "is behind green"), id="files"
        ),
        pytest.param(
            *(of_kafka("green", {"0": 5}), of_kafka("blue", {"0": 4}), "is behind green"),
            id="kafka",
        ),
        pytest.param(
            of_files("green", BLUE[:2], watermark=50),
            of_files("blue", BLUE, watermark=40),
            "watermark",
            id="watermark",
        ),
        pytest.param(
            of_files("green", BLUE, end=2, planned=4),
            of_files("blue", BLUE[:4]),
            "is behind green",
            id="what green has planned",
        ),
        pytest.param(QueryView(uri="green"), of_files("blue", BLUE), "no batch", id="no batch"),
    ],
)
def test_blue_has_to_come_as_far_as_green(green: QueryView, blue: QueryView, says: str) -> None:
    found = plan_absorption(green, blue)

    assert isinstance(found, NotThere)
    assert says in found.reason


@pytest.mark.parametrize(
    ("green", "blue", "says"),
    [
        pytest.param(of_texts("green", "1", "2"), of_texts("blue", "1"), "2", id="number"),
        pytest.param(
            *(of_kafka("green", {"0": 1}), of_files("blue", BLUE), "of type"), id="another sort"
        ),
        pytest.param(
            *(of_texts("green", '{"id":"x"}'), of_texts("blue", '{"id":"y"}'), "custom"),
            id="custom",
        ),
        pytest.param(
            of_texts("green", "1", origins={"0": b"v1\n5"}),
            of_texts("blue", "2", origins={"0": b"v1\n6"}),
            "number",
            id="two rates of their own",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(green: QueryView, blue: QueryView, says: str) -> None:
    with pytest.raises(CheckpointRefused, match=says):
        plan_absorption(green, blue)


def test_rates_of_one_origin_go_on() -> None:
    origins = {"0": b"v1\n5"}
    green, blue = (
        of_texts("green", "1", origins=origins),
        of_texts("blue", "7", origins=origins),
    )

    assert parse_offset_log(absorbed(green, blue).written["offsets/6"]).offsets == (("0", "7"),)


def test_what_green_has_planned_is_run_as_it_is() -> None:
    green = of_files("green", [["a"], ["b", "c"]], end=0, planned=1)

    assert plan_absorption(green, of_files("blue", BLUE)) == FastForward(batch=6)


def test_blues_planned_batch_becomes_greens_next() -> None:
    blue = of_files("blue", BLUE, end=2, planned=4, watermark=20, following=30)
    green = of_files("green", [["a", "b"], ["c"]], watermark=20, following=25)

    found = plan_planned(green, blue)

    assert plan_absorption(green, blue) is None
    assert found is not None
    assert names_in(found.written["sources/0/2"]) == [("d", 2), ("e", 2)]
    assert parse_offset_log(found.written["offsets/6"]).watermark_ms == 30


def test_a_planned_batch_that_is_taken_over_already_is_not_absorbed() -> None:
    blue = of_files("blue", BLUE, end=2, planned=4, watermark=20, following=30)
    green = of_files(
        "green", [["a", "b"], ["c"], ["d", "e"]], end=1, planned=2, watermark=20, following=30
    )

    assert plan_absorption(green, blue) is None
    assert plan_planned(green, blue) == FastForward(batch=6)


@pytest.mark.parametrize(
    ("known", "is_planned"), [(20, True), (30, False)], ids=["blue knows more", "green knows too"]
)
def test_a_watermark_that_only_blue_has_learned_comes_with_a_batch_of_no_rows(
    known: int, is_planned: bool
) -> None:
    blue = of_files("blue", BLUE, watermark=20, following=30)
    green = of_files("green", BLUE, watermark=20, following=known)

    found = plan_planned(green, blue)

    assert (found is not None) is is_planned
    if found is not None:
        assert list(found.written) == ["offsets/6"]
        assert parse_offset_log(found.written["offsets/6"]).watermark_ms == 30


def test_two_that_have_begun_nothing_stand_level() -> None:
    assert plan_absorption(QueryView(uri="green"), QueryView(uri="blue")) is None


PAST = [["old0"], ["old1"], ["a"], ["b"]]


def test_the_way_back_forgives_the_past_that_the_way_there_forgave() -> None:
    blue, green = of_files("blue", PAST, watermark=9), of_files("green", BLUE[:2], watermark=9)
    assert plan_absorption(green, blue) is None

    wrote = of_files("green", BLUE[:4], watermark=9)
    found = absorbed(blue, wrote)

    assert names_in(found.written["sources/0/4"]) == [("c", 4), ("d", 4)]


def test_on_the_way_back_a_planned_batch_goes_along_in_spite_of_a_past() -> None:
    blue, green = of_files("blue", PAST), of_files("green", BLUE[:3], end=1, planned=2)

    assert plan_absorption(blue, green) is None
    found = plan_planned(blue, green)

    assert found is not None
    assert names_in(found.written["sources/0/4"]) == [("c", 4)]


def test_without_a_file_in_common_nothing_is_a_past() -> None:
    found = plan_absorption(of_files("blue", [["x"], ["y"]]), of_files("green", BLUE))

    assert isinstance(found, NotThere)
