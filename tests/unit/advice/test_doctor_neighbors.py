"""The doctor on queries and streams beside one another."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.advice.examined import OtherStream, Outcome, RiskLevel
from airflow_streaming.model.status import ExecutorStatus
from tests.unit.supervision.builders import a_query
from tests.unit.supervision.examined import facts, said, the_one


class TestSharedCheckpoint:
    def test_of_two_queries_in_the_stream(self) -> None:
        twins = (a_query(), a_query(name="refunds"))

        [found, *_] = said("shared-checkpoint", facts(status={"queries": twins}))

        assert (found.level, found.query) == (RiskLevel.HIGH, "revenue")
        assert "query refunds" in found.what

    @pytest.mark.parametrize(
        "theirs",
        [
            "file:/data/streams/orders/checkpoints/000003/revenue",
            "file:///data/streams/orders/checkpoints/000003/revenue/",
            "/data/streams/orders/checkpoints/000003",
            "/data/streams/orders/checkpoints/000003/revenue/state",
        ],
    )
    def test_across_streams_in_any_spelling_and_inside_each_other(self, theirs: str) -> None:
        other = OtherStream(name="sales", folder="/data/sales", checkpoints=(theirs,))

        found = the_one("shared-checkpoint", facts(others=(other,)))

        assert found.level is RiskLevel.HIGH
        assert "stream sales" in found.what

    def test_a_common_folder_of_two_streams_is_a_lesser_risk(self) -> None:
        other = OtherStream(name="sales", folder="/data/streams/orders/checkpoints/000003")

        assert the_one("shared-checkpoint", facts(others=(other,))).level is RiskLevel.MEDIUM

    def test_neighbors_with_a_common_beginning_of_the_name_share_nothing(self) -> None:
        other = OtherStream(
            name="sales",
            folder="/data/sales",
            checkpoints=("/data/streams/orders/checkpoints/000003/revenue2",),
        )

        assert the_one("shared-checkpoint", facts(others=(other,))).outcome is Outcome.FINE


def test_several_queries_without_fair_scheduling_hold_each_other_up() -> None:
    two = (a_query(), a_query(name="refunds", checkpoint="/data/c/refunds"))
    unfair = {"conf": {}, "fair_pools": False}

    found = the_one("fair-scheduling", facts(deployment=unfair, status={"queries": two}))

    assert (found.outcome, found.level) == (Outcome.RISK, RiskLevel.MEDIUM)


@pytest.mark.parametrize(
    ("executors", "levels"),
    [
        pytest.param({"alive": 4, "wanted": 4}, [], id="all there"),
        pytest.param({"alive": 3, "wanted": 4}, ["medium"], id="one missing"),
        pytest.param({"alive": 0, "wanted": 4}, ["high"], id="none"),
        pytest.param({"alive": 4, "lost_last_hour": 3}, ["medium"], id="lost again and again"),
        pytest.param({"alive": 4, "failed_tasks": 1}, ["low"], id="a failed task"),
    ],
)
def test_executors_that_are_missing_or_go_are_a_risk(
    executors: dict[str, Any], levels: list[str]
) -> None:
    told = facts(status={"executors": ExecutorStatus(**executors)})
    found = said("executors", told)
    assert [one.level.value for one in found if one.level is not None] == levels


@pytest.mark.parametrize(("value", "is_risk"), [("true", True), ("false", False)])
def test_dynamic_allocation_is_a_risk(value: str, is_risk: bool) -> None:
    conf = {"spark.dynamicAllocation.enabled": value}
    found = the_one("dynamic-allocation", facts(deployment={"conf": conf}))
    assert (found.level is not None) is is_risk
