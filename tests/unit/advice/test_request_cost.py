"""Requests to an object store, their price, and the doctor's rows about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.advice.cost.request_cost import Prices, of_checkpoint, of_home
from airflow_streaming.advice.cost.restart_forecast import Restart
from airflow_streaming.advice.examined import Outcome
from airflow_streaming.exceptions import SpecError
from tests.unit.supervision.examined import a_planned_query, batches, facts, said, the_one

PRICES = Prices(writes=0.005, reads=0.0004)


def test_a_longer_trigger_makes_fewer_requests_in_proportion() -> None:
    often, seldom = of_checkpoint(0.5), of_checkpoint(10)
    assert often.total == 20 * seldom.total
    assert often.writes == 86_400 * 2 * 2 * 2


@pytest.mark.parametrize(
    ("parts", "files"), [({}, 2), ({"sources_with_log": 1}, 3), ({"stores": 8}, 10)]
)
def test_every_log_and_store_of_a_batch_counts(parts: dict[str, int], files: int) -> None:
    assert of_checkpoint(86_400, **parts).writes == 2 * files


def test_the_requests_of_a_home_are_those_of_the_capacity_page() -> None:
    home = of_home(5)
    assert (home.writes / 24, home.listings / 24) == (1_800, 1_800 + 720)
    assert home.reads / 24 == 3_600 + 2 * 3_600


def test_the_price_of_a_month() -> None:
    found = of_checkpoint(0.5)
    writes, reads = found.writes + found.listings, found.reads
    assert found.month(PRICES) == pytest.approx(30 * (writes * 5e-6 + reads * 4e-7))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "writes=1",
        "writes=1,reads=x",
        "writes=1,reads=-1",
        "put=1,reads=2",
        "writes=1,reads=nan",
    ],
)
def test_prices_in_another_form_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="Give the price of 1,000 requests"):
        Prices.parse(text)


def test_prices_are_read() -> None:
    assert Prices.parse("writes=0.005, reads=0.0004") == PRICES


ON_S3 = {"query": {"checkpoint": "s3://lake/c/revenue"}}


def test_the_doctor_says_what_a_longer_trigger_saves() -> None:
    found = the_one("request-cost", facts(**ON_S3, history=batches(every=0.5)))
    assert found.outcome is Outcome.FINE
    assert "10 s instead of 0.5 s saves 95%, of 60 s instead of 0.5 s saves 99%" in found.what
    # Two logs, and two partitions of an aggregation, in 172,800 batches.
    assert "at least 3,456,000 requests a day." in found.what


def test_a_price_is_shown_where_it_is_given() -> None:
    changes: dict[str, Any] = {**ON_S3, "home": "s3://lake/streams", "prices": PRICES}
    query, home = said("request-cost", facts(**changes))
    assert "172,800 requests a day, 16.38 a month" in query.what
    assert home.what.endswith("a month, with any trigger.")


def test_a_slow_query_has_nothing_to_save() -> None:
    found = the_one("request-cost", facts(**ON_S3, history=batches(every=60)))
    assert "trigger" not in found.what


@pytest.mark.parametrize(
    ("changes", "outcome", "words"),
    [
        pytest.param({}, Outcome.FINE, "on a file system", id="a local checkpoint"),
        pytest.param({**ON_S3, "history": batches(3)}, Outcome.UNKNOWN, "too few", id="no rhythm"),
        pytest.param({"status": {"queries": ()}}, Outcome.UNKNOWN, "No driver", id="no driver"),
    ],
)
def test_a_query_without_requests_to_count(
    changes: dict[str, Any], outcome: Outcome, words: str
) -> None:
    found = the_one("request-cost", facts(**changes))
    assert (found.outcome, words in found.what) == (outcome, True)


def test_a_join_keeps_four_stores_in_each_partition() -> None:
    plan = a_planned_query()
    [aggregation] = plan.operators
    join = replace(plan, operators=(replace(aggregation, join_type="inner"),))
    one = the_one("request-cost", facts(**ON_S3, plans=(join,), history=batches(every=86_400)))
    # Two logs and 2 * 4 stores, five requests each.
    assert "at least 50 requests a day" in one.what


def test_the_doctor_tells_how_long_the_next_restart_takes() -> None:
    restarts = tuple(Restart(20.0, 2.0 + n, 2.0, n * 2.0**30) for n in (1, 2, 4))
    found = the_one(
        "restart-time", facts(restarts=restarts, history=batches(state_bytes=8 * 2**30))
    )
    assert found.what == (
        "The next restart takes about 30 s: 20 s to start, 8 s for 8 GiB of state, 2 s for a batch. 3 restarts took "
        "23 s to 26 s."
    )
    few = the_one("restart-time", facts(restarts=restarts[:2]))
    assert (few.outcome, few.what) == (
        Outcome.UNKNOWN,
        "The history has 2 restarts with a batch; 3 are needed.",
    )
