"""The simulated day of ``benchmarks.autoscale``, short: what its table shows must stay so."""

from __future__ import annotations

import random

from airflow_streaming.model.records.autoscale import Autoscale
from benchmarks.autoscale import needed, play


def test_load_that_triples_is_followed_up_and_down() -> None:
    chance = random.Random(3)
    hour = 3600
    load = [
        chance.uniform(0.9, 1.1) * (1500 if hour <= at < 3 * hour else 500)
        for at in range(6 * hour)
    ]
    policy = Autoscale(min=1, max=12)

    found = play(load, needed(500), 1, 25, policy)
    fixed = play(load, needed(500), 1, 25, None)

    assert 2 <= found.changes <= 8
    assert found.most >= needed(1500) - 1, "the fixed part of a batch is not divided"
    assert max(found.lags) < 600 < max(fixed.lags)
    assert found.lags[-1] < 60
    assert found.executor_hours < 6 * needed(1500)


def test_a_load_that_stays_is_left_alone() -> None:
    chance = random.Random(3)
    load = [chance.uniform(0.9, 1.1) * 1000 for _ in range(4 * 3600)]

    found = play(load, needed(1000), 1, 25, Autoscale(min=1, max=12))

    assert found.changes <= 1, "one executor fewer may do; then it stays"
