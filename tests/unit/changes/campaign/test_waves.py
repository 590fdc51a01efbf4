"""The waves of a campaign."""

from __future__ import annotations

import pytest

from airflow_streaming.changes.campaign.waves import DEFAULT_WAVES, follows_of, waves_of
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.products.stream_graph import StreamGraph


def names(count: int) -> list[str]:
    return [f"s{number:03}" for number in range(count)]


@pytest.mark.parametrize(
    ("count", "sizes", "wanted"),
    [
        (500, DEFAULT_WAVES, [1, 25, 125, 349]),
        (12, DEFAULT_WAVES, [1, 1, 3, 7]),
        (3, DEFAULT_WAVES, [1, 1, 1]),
        (1, DEFAULT_WAVES, [1]),
        (10, ("2", "80%"), [2, 8]),
        (10, ("rest",), [10]),
        (10, (), [10]),
        (10, ("100%",), [10]),
        (10, ("3", "rest"), [3, 7]),
    ],
)
def test_all_streams_are_in_one_wave(count: int, sizes: tuple[str, ...], wanted: list[int]) -> None:
    waves = waves_of(names(count), sizes)

    assert [len(wave) for wave in waves] == wanted
    assert [name for wave in waves for name in wave] == names(count)


def test_a_user_chooses_canaries() -> None:
    waves = waves_of(names(5), ("1", "2", "rest"), canaries={"s004", "s002"})

    assert waves == (("s002", "s004"), ("s000", "s001"), ("s003",))
    with pytest.raises(SpecError, match="no stream 's9' to be a canary"):
        waves_of(names(5), canaries={"s9"})


@pytest.mark.parametrize("sizes", [("1",), ("1", "5%"), ("2", "50%")])
def test_waves_that_leave_streams_out_are_refused_and_take_none_in_silence(
    sizes: tuple[str, ...],
) -> None:
    with pytest.raises(SpecError, match=r"of 150 streams\. End them with 'rest'"):
        waves_of(names(150), sizes)


@pytest.mark.parametrize("size", ["0", "-1", "101%", "5 %", "x", "", "rest", "1e3", "0%"])
def test_a_size_that_cannot_be_read_is_refused(size: str) -> None:
    with pytest.raises(SpecError, match="not the size of a wave"):
        waves_of(names(5), (size, "rest", "rest"))


def test_a_stream_follows_the_writers_of_its_inputs() -> None:
    graph = StreamGraph(
        reads={"a": ["raw"], "b": ["x", "b"], "c": ["y"], "d": ["x"]},
        writes={"a": ["x"], "b": ["y", "b"], "c": [], "d": ["y"]},
    )

    assert follows_of(graph, ["a", "b", "c"]) == {"b": ("a",), "c": ("b",)}
