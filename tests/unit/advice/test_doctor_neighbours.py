"""The doctor on queries and streams beside one another."""

from __future__ import annotations

import pytest

from airflow_streaming.advice.examined import OtherStream, Outcome, RiskLevel
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

    def test_neighbours_with_a_common_beginning_of_the_name_share_nothing(self) -> None:
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
