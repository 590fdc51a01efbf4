"""Trends of a long run, and what its sampler reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_streaming.home.home import init_home
from tests.deployment.sampling import count_lines, of_components, of_drivers, of_home
from tests.deployment.trends import Figure, Kind, Sample, markdown, points, trend, trends

MEMORY = Figure(name="memory", unit="MiB", scale=2.0)
REQUESTS = Figure(name="requests", unit="requests", kind=Kind.COUNTER)
MINUTE = 60.0


def samples(figure: Figure, value: Callable[[int], float], count: int = 60) -> list[Sample]:
    """Return a sample a minute."""
    return [Sample(at=MINUTE * n, values={figure.name: value(n)}) for n in range(count)]


@pytest.mark.parametrize(
    ("value", "slope", "grows"),
    [
        pytest.param(lambda n: 200.0 + 2 * n, 60.0, True, id="leak"),
        pytest.param(lambda n: 200.0 + n % 2, 0.0, False, id="noise"),
        pytest.param(lambda n: 200.0 - n, -30.0, False, id="shrinks"),
        pytest.param(lambda n: 20.0 * min(n, 14), 0.0, False, id="grows in the warm-up only"),
        pytest.param(lambda n: 900.0 if n == 59 else 200.0, 0.0, False, id="one wild value"),
    ],
)
def test_a_gauge_grows_when_its_end_is_above_its_noise(
    value: Callable[[int], float], slope: float, grows: bool
) -> None:
    found = trend(MEMORY, samples(MEMORY, value))
    assert found is not None
    assert (round(found.slope, 6), found.grows) == (slope, grows)


def test_the_trend_of_a_counter_is_that_of_its_rate() -> None:
    steady = trend(REQUESTS, samples(REQUESTS, lambda n: 10.0 * n))
    assert steady is not None
    assert (round(steady.first), round(steady.last), steady.grows) == (600, 600, False)
    faster = trend(REQUESTS, samples(REQUESTS, lambda n: 0.5 * n * n))
    assert faster is not None
    assert faster.last > faster.first
    assert faster.grows


def test_a_counter_goes_on_after_its_server_was_started_again() -> None:
    found = points(REQUESTS, samples(REQUESTS, lambda n: float(n if n < 3 else n - 3), 5))
    assert [value for _, value in found] == [0, 1, 2, 2, 3]


def test_a_figure_that_was_hardly_seen_has_no_trend() -> None:
    few = samples(MEMORY, float, 5)
    assert trend(MEMORY, few) is None
    assert trends([MEMORY, REQUESTS], samples(MEMORY, float)) == [
        trend(MEMORY, samples(MEMORY, float))
    ]


def test_the_table_names_what_grows() -> None:
    table = markdown(trends([MEMORY], samples(MEMORY, lambda n: 200.0 + 2 * n)))
    assert table.splitlines()[-1] == "| memory | MiB | 122 | 152 | +60 | grows |"


def test_several_components_of_a_kind_add_up() -> None:
    one = of_components({"triggerer": os.getpid()})
    two = of_components({"triggerer-1": os.getpid(), "triggerer-2": os.getpid(), "worker": 1})
    assert one["triggerer memory"] > 1_000_000
    assert two["triggerer handles"] == pytest.approx(2 * one["triggerer handles"], abs=2)
    assert {*two} == {"triggerer memory", "triggerer handles"}


def test_an_average_driver_is_counted_by_its_parts() -> None:
    found = of_drivers({"a": [os.getpid()], "b": [os.getpid()]})
    assert found == pytest.approx(of_drivers({"a": [os.getpid()]}), rel=0.1)
    assert {*found} == {"wrapper memory", "wrapper handles"}


def test_a_home_is_counted_by_what_lies_in_it(tmp_path: Path) -> None:
    init_home(str(tmp_path))
    made = of_home(str(tmp_path))
    for name in ("checkpoints/000001/q/offsets/0", "output/part-0", "output/part-1", "epochs/1"):
        file = tmp_path / "orders" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("12345")
    found = of_home(str(tmp_path))
    assert (found["checkpoints"], found["output"]) == (1, 2)
    assert found["records"] == made["records"] + 1
    assert found["records size"] == made["records size"] + 5


def test_lines_of_logs_are_counted_and_a_missing_file_has_none(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\n")
    assert count_lines([log, tmp_path / "gone.log"]) == 2
