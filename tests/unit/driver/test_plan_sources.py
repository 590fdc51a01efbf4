"""Where a source reads, by its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from airflow_streaming.driver.plan.sources import places_of

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
