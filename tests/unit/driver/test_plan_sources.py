"""Where a source reads, by its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from airflow_streaming.driver.plan.sources import places_of, queues_of

TOPICS = {"subscribe": "clicks,payments"}


@pytest.mark.parametrize(
    ("source", "options", "places"),
    [
        pytest.param("kafka", TOPICS, ["subscribe clicks,payments"], id="kafka"),
        pytest.param("kafka", {**TOPICS, "path": "x"}, ["subscribe clicks,payments"], id="no-path"),
        pytest.param("python_kafka", TOPICS, ["subscribe clicks,payments"], id="like-kafka"),
        pytest.param("mine", {"assign": "{}", "path": "/in"}, ["assign {}", "/in"], id="both"),
        pytest.param("file", {"path": "/in"}, ["/in"], id="a-path"),
        pytest.param("rate", {}, [], id="nothing"),
    ],
)
def test_no_place_that_an_option_names_is_left_out(
    source: str, options: Mapping[str, str], places: Sequence[str]
) -> None:
    assert places_of(source, options) == places


class Leaf:
    """A leaf of a plan in the JVM, as py4j shows it."""

    def __init__(self, name: str, source: str, **options: str) -> None:
        self._name, self._source, self._options = name, source, options

    def getClass(self) -> Leaf:
        return self

    def getSimpleName(self) -> str:
        return self._name

    def sourceName(self) -> str:
        return self._source

    def extraOptions(self) -> Leaf:
        return self

    def asCaseSensitiveMap(self) -> Mapping[str, str]:
        return self._options


class Leaves(list[Leaf]):
    """A plan that has no other node than leaves."""

    def collectLeaves(self) -> Leaves:
        return self

    def size(self) -> int:
        return len(self)

    def apply(self, place: int) -> Leaf:
        return self[place]


@pytest.mark.parametrize(
    ("leaves", "queues"),
    [
        pytest.param([Leaf("StreamingRelationV2", "kafka", subscribe="t")], [], id="a topic"),
        pytest.param([Leaf("StreamingRelationV2", "Kafka-Share")], ["kafka-share"], id="a group"),
        pytest.param(
            [Leaf("StreamingRelationV2", "own", **{"kafka.Share.Group.id": "g"})],
            ["own"],
            id="an option of a share group",
        ),
        pytest.param([Leaf("LocalRelation", "kafka-share")], [], id="no stream"),
        pytest.param(
            [Leaf("StreamingRelationV2", "rate"), Leaf("StreamingRelationV2", "kafka-share")],
            ["kafka-share"],
            id="the second of two",
        ),
    ],
)
def test_sources_without_positions_are_found_before_a_start(
    leaves: list[Any], queues: list[str]
) -> None:
    assert list(queues_of(Leaves(leaves))) == queues
