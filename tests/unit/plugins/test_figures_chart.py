"""Which figures of which queries a chart of the page shows."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

STATIC = Path(__file__).parents[3] / "airflow_streaming/plugins/static"
pytestmark = pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed; modules are not run."
)


def called(name: str, *arguments: Any) -> Any:
    """Return what a function of the figures' module gives; ``undefined`` in a list is "skip"."""
    program = f"""
      import * as figures from {json.dumps((STATIC / "figures.js").as_uri())};
      const told = figures[{json.dumps(name)}](...{json.dumps(arguments)});
      const marked = (key, value) => (Array.isArray(value) ? [...value].map((one) => one === undefined ? "skip" : one) : value);
      console.log(JSON.stringify(told ?? null, marked));
    """
    found = subprocess.run(
        ["node", "--input-type=module"], input=program.encode(), check=True, capture_output=True
    )
    return json.loads(found.stdout)


def query(name: str, at: list[float] | None = None, **figures: list[float | None]) -> Any:
    return {
        "query": name,
        "at": at or [10.0, 20.0],
        "figures": {key.replace("__", "."): {"last": values} for key, values in figures.items()},
    }


RATES = {
    "title": "Rows per second",
    "lines": [["input_rate", "input"], ["processing_rate", "processing"]],
}
PHASES = {"title": "By phase", "together": "Batch duration", "stack": "phase."}


@pytest.mark.parametrize(
    ("series", "first"),
    [
        pytest.param([query("a", input_rate=[0.0, 0.0]), query("b", input_rate=[0.0, 4.0])], "b"),
        pytest.param(
            [query("a"), query("b", state_rows=[1.0, 1.0])], "b", id="figures_without_rows"
        ),
        pytest.param([query("a", input_rate=[1.0, 0.0]), query("b", input_rate=[9.0, 9.0])], "a"),
        pytest.param([query("a"), query("b")], "a", id="no_figures"),
        pytest.param([], "", id="no_query"),
    ],
)
def test_a_page_opens_on_the_first_query_that_has_figures(series: Any, first: str) -> None:
    assert called("firstToShow", series) == first


def test_queries_together_have_a_line_each_on_one_axis_of_time() -> None:
    series = [
        query("a", [10.0, 20.0], input_rate=[1.0, 2.0], processing_rate=[8.0, 9.0]),
        query("b", [15.0, 20.0], input_rate=[5.0, None]),
    ]

    found = called("together", RATES, series, 10)

    assert found["chart"]["title"] == "Rows per second: input"
    assert found["chart"]["lines"] == [["a", "a"], ["b", "b"]]
    assert found["series"]["at"] == [10.0, 15.0, 20.0]
    assert found["series"]["figures"]["a"]["last"] == [1.0, "skip", 2.0]
    assert found["series"]["figures"]["b"]["last"] == ["skip", 5.0, None]


def test_parts_of_a_batch_are_summed_where_queries_are_shown_together() -> None:
    series = [query("a", phase__addBatch=[3.0, None], phase__walCommit=[1.0, None]), query("b")]

    found = called("together", PHASES, series, 10)

    assert found["chart"]["title"] == "Batch duration"
    assert found["chart"]["places"] == {"a": 0, "b": 1}
    assert found["chart"]["lines"] == [["a", "a"]]
    assert found["series"]["figures"]["a"]["last"] == [4.0, None]


def test_a_pause_of_one_query_is_not_drawn_over_while_another_goes_on() -> None:
    series = [
        query("a", [*map(float, range(0, 110, 10)), 200.0], input_rate=[1.0] * 12),
        query("b", [*map(float, range(0, 210, 10))], input_rate=[2.0] * 21),
    ]

    found = called("together", RATES, series, 10)

    paused = found["series"]["figures"]["a"]["last"][11:-1]
    assert paused
    assert set(paused) == {None}


def test_a_figure_that_no_query_has_makes_no_chart() -> None:
    found = called("together", RATES, [query("a"), query("b")], 10)

    assert found["chart"]["lines"] == []
    assert "series" not in found


@pytest.mark.parametrize(
    ("queries", "watermark"),
    [
        pytest.param([("10:00", 5.0), ("11:59", 60.0), (None, None)], "11:59", id="of_the_delay"),
        pytest.param([(None, None), ("12:00", 0.0)], "12:00", id="one_of_two"),
        pytest.param([(None, None)], None, id="no_watermark"),
        pytest.param([], None, id="no_query"),
    ],
)
def test_the_watermark_belongs_to_the_delay_above_it(queries: Any, watermark: str | None) -> None:
    told = [{"watermark": mark, "watermark_delay_s": delay} for mark, delay in queries]

    assert called("slowestWatermark", told) == watermark


@pytest.mark.parametrize(
    ("missed", "has_batches", "line"),
    [
        ([False, False], True, ""),
        ([False, True], True, "Not reported by Spark: state rows."),
        ([True, True], True, "Spark reports no figures of this kind for the query."),
        ([True, True], False, "No batch in this range."),
    ],
)
def test_charts_without_figures_are_one_line(missed: Any, has_batches: bool, line: str) -> None:
    titles = ("Rows per second", "State rows")
    charts = [
        {"isMissed": one, "chart": {"title": title}}
        for one, title in zip(missed, titles, strict=True)
    ]

    assert called("missing", charts, has_batches) == line


RULES = [
    {"metric": "input_rate", "bound": 1.0, "query": None},
    {"metric": "state_rows", "bound": 9.0, "query": "b"},
]


@pytest.mark.parametrize(
    ("objective", "query", "bounds"),
    [
        pytest.param(None, "a", [1.0], id="rules_of_the_query_and_of_all"),
        pytest.param(None, "*", [1.0, 9.0], id="rules_of_all_queries"),
        pytest.param({"within_s": 900.0, "query": None}, "a", [1.0, 900.0], id="objective_of_all"),
        pytest.param({"within_s": 900.0, "query": "b"}, "a", [1.0], id="objective_of_another"),
        pytest.param({"within_s": 900.0, "query": "b"}, "b", [1.0, 9.0, 900.0], id="its_objective"),
    ],
)
def test_a_freshness_objective_is_a_bound_of_the_watermarks_delay(
    objective: Any, query: str, bounds: list[float]
) -> None:
    found = called("boundsOf", {"rules": RULES, "freshness": objective}, query)

    assert [one["bound"] for one in found] == bounds
    assert all(one["metric"] == "watermark_delay_seconds" for one in found if one["bound"] == 900.0)


def test_a_page_without_its_first_answer_draws_no_bound() -> None:
    assert called("boundsOf", None, "a") == []
