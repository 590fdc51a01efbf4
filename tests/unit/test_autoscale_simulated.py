"""The simulated day of ``benchmarks.autoscale``, short: what its table shows must stay so."""

from __future__ import annotations

import random

from airflow_streaming.model.arguments.autoscale import Autoscale
from benchmarks.autoscale import needed, play
from benchmarks.autoscale_rules import DynamicAllocation, FlinkRules


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


def test_dynamic_allocation_takes_all_that_partitions_can_use_whatever_the_load() -> None:
    load = [100.0] * 1_800
    found = play(load, 1, 1, 25, None, DynamicAllocation(most=20))
    assert found.most == 20
    assert found.executor_hours > 0.4 * 20


def test_the_rules_of_flink_follow_a_load_that_triples() -> None:
    load = [1_500.0 if at > 3_600 else 500.0 for at in range(3 * 3_600)]
    found = play(load, needed(500), 1, 25, None, FlinkRules(most=12, gap=25))
    assert found.most == 5, "it fills what 1,500 rows/s need, up to all of the time"
    assert found.lags[-1] < 120


def test_a_change_without_effect_is_undone_and_not_repeated() -> None:
    """One partition: more executors do not make a batch shorter."""
    load = [390.0] * (4 * 3_600)
    stuck = play(load, 1, 1, 25, Autoscale(min=1, max=12), scales=False)
    assert stuck.changes <= 3
    assert stuck.executor_hours < 1.5 * 4


def test_a_source_that_comes_back_is_followed_before_its_second_batch_ends() -> None:
    """Two hours of rows come within ten minutes; ended batches alone show it an hour later."""
    load = [1_200.0] * 5_400 + [0.0] * 7_200 + [15_600.0] * 600 + [1_200.0] * 3_600
    found = play(load, needed(1_200), 1, 25, Autoscale(min=1, max=60))
    fixed = play(load, needed(1_200), 1, 25, None)

    assert max(found.lags) < 2_400 < max(fixed.lags)
    assert found.lags[-1] < 60
    assert found.changes <= 4
