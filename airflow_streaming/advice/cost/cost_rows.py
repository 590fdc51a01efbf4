"""The doctor's rows about money and time: requests to an object store, and the length of a restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.advice.batch_risks import rhythm
from airflow_streaming.advice.cost.request_cost import Prices, Requests, of_checkpoint, of_home
from airflow_streaming.advice.cost.restart_forecast import FEWEST, forecast
from airflow_streaming.advice.examined import NO_DRIVER, Advice, Facts, fine, unknown
from airflow_streaming.advice.state_size import stored_bytes
from airflow_streaming.model.durations import duration_text, number_text
from airflow_streaming.model.metrics import Unit
from airflow_streaming.model.status import QueryStatus
from airflow_streaming.model.uris import is_local

LONGER: Final = (10.0, 60.0)
"""Intervals of a processing trigger that are compared with the present one."""
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_USUAL_PARTITIONS: Final = 200
_POLL: Final = 5.0
_JOIN_STORES: Final = 4


def request_cost(facts: Facts) -> Iterator[Advice]:
    """Count the requests to checkpoint and home, and the savings of a longer trigger."""
    rule = "request-cost"
    if not facts.queries:
        yield unknown(rule, NO_DRIVER)
    for query in facts.queries:
        if is_local(query.checkpoint):
            yield fine(
                rule,
                "Its checkpoint lies on a file system, which has no price for requests.",
                query=query.name,
            )
            continue
        gap = rhythm(facts.batches(query.name))
        if not gap:
            yield unknown(rule, "Its batches are too few to tell their rhythm.", query=query.name)
            continue
        yield fine(rule, _of_query(facts, query, gap), query=query.name)
    if facts.home and not is_local(facts.home):
        home = of_home(_POLL)
        yield fine(rule, f"The home makes {_amount(home, facts.prices)}, with any trigger.")


def _of_query(facts: Facts, query: QueryStatus, gap: float) -> str:
    parts = {"sources_with_log": _file_sources(facts, query), "stores": _stores(facts, query)}
    now = of_checkpoint(gap, **parts)
    saved = [
        f"{longer:g} s instead of {number_text(gap)} s saves {1 - gap / longer:.0%}"
        for longer in LONGER
        if longer >= 2 * gap
    ]
    text = f"Its checkpoint makes at least {_amount(now, facts.prices)}."
    return f"{text} A processing trigger of {', of '.join(saved)}." if saved else text


def _amount(requests: Requests, prices: Prices | None) -> str:
    text = f"{requests.total:,.0f} requests a day"
    return text if prices is None else f"{text}, {requests.month(prices):,.2f} a month"


def _file_sources(facts: Facts, query: QueryStatus) -> int:
    latest = facts.latest(query)
    sources = latest.sources if latest is not None else ()
    return sum(one.source.startswith("FileStreamSource[") for one in sources)


def _stores(facts: Facts, query: QueryStatus) -> int:
    text = facts.setting(query.name, _PARTITIONS) or ""
    partitions = int(text) if text.isdecimal() else _USUAL_PARTITIONS
    plan = next((one for one in facts.plans if one.query == query.name), None)
    operators = () if plan is None else plan.operators
    return partitions * sum(_JOIN_STORES if one.join_type else 1 for one in operators)


def restart_time(facts: Facts) -> Iterator[Advice]:
    """Tell how long the next restart takes, by the recorded ones."""
    rule = "restart-time"
    latest = [batch for query in facts.queries if (batch := facts.latest(query)) is not None]
    state = sum(map(stored_bytes, latest))
    told = forecast(facts.restarts, state)
    if told is None:
        count = len(facts.restarts)
        yield unknown(rule, f"The history has {count} restarts with a batch; {FEWEST} are needed.")
        return
    load = f", {duration_text(told.load)} for {Unit.BYTES.text(state)} of state" if state else ""
    yield fine(
        rule,
        f"The next restart takes about {duration_text(told.total)}: {duration_text(told.start_up)} to start{load}, "
        f"{duration_text(told.batch)} for a batch. {told.restarts} restarts took {duration_text(told.least)} to "
        f"{duration_text(told.most)}.",
    )
