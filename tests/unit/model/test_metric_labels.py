"""Labels on metrics are bounded, whatever a setting, a dag or a configuration says."""

from __future__ import annotations

import json
import re

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.fleet.metric_labels import (
    CONF_KEY,
    LONGEST,
    MOST_KEYS,
    NO_LABELS,
    MetricLabels,
    labels_conf,
    labels_in,
)

HOSTILE = 'x"} 1\nup{job="y' + "\x00\x1b[31m" + "ä" * 20_000


def of(labels: dict[str, str], *keys: str) -> dict[str, str]:
    return MetricLabels(keys=keys).of(labels)


def test_only_named_keys_are_taken() -> None:
    labels = {"team": "payments", "tier": "1", "build": "7f3a"}

    assert of(labels, "team", "tier") == {"label_team": "payments", "label_tier": "1"}
    assert NO_LABELS.of(labels) == {}


def test_a_stream_without_the_label_has_none() -> None:
    assert of({"team": ""}, "team", "tier") == {}


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("team", "label_team"),
        ("example.com/team-name", "label_example_com_team_name"),
        ("query", "label_query"),
        ("stream", "label_stream"),
        ("9", "label_9"),
        ("k" * (LONGEST + 1), "label_" + "k" * LONGEST),
        (HOSTILE, "label_x___1_up_job__y___31m" + "_" * 42),
    ],
)
def test_a_name_is_one_of_prometheus_and_none_of_a_metric(key: str, name: str) -> None:
    (found,) = of({key: "x"}, key)

    assert found == name
    assert re.fullmatch(r"[a-z_][a-zA-Z0-9_]*", found)


@pytest.mark.parametrize("bring", ["directly", "by a configuration"])
def test_a_hostile_value_stays_one_short_value(bring: str) -> None:
    found = of({"team": HOSTILE}, "team")
    if bring == "by a configuration":
        found = labels_in({CONF_KEY: json.dumps({"team": HOSTILE[:5_000]}, ensure_ascii=False)})

    assert found.keys() == {"label_team"}
    assert re.fullmatch(rf"[A-Za-z0-9_.-]{{{LONGEST}}}", found["label_team"])


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ([f"k{number}" for number in range(MOST_KEYS + 1)], "has 9 keys; name at most 8"),
        (["a-b", "a.b"], "'a-b' and 'a.b', which are both label_a_b"),
    ],
)
def test_a_wrong_setting_is_refused(keys: list[str], error: str) -> None:
    with pytest.raises(SpecError, match=error):
        MetricLabels(keys=tuple(keys))


def test_as_many_keys_as_allowed_and_a_repeated_one() -> None:
    keys = [f"k{number}" for number in range(MOST_KEYS)]

    assert MetricLabels(keys=(*keys, keys[0])).keys == tuple(keys)


def test_a_configuration_brings_the_labels_to_the_driver() -> None:
    labels = of({"team": "payments", "a/b": "1"}, "team", "a/b")

    assert labels_in(labels_conf(labels)) == labels
    assert labels_conf({}) == {}


MALFORMED = ["", "{", "[]", '"x"', "[" * 9_000, json.dumps({"team": "x" * 10_000}), "null"]


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_configuration_has_no_labels(text: str) -> None:
    assert labels_in({CONF_KEY: text}) == {}


def test_a_configuration_cannot_bring_more_labels_or_other_values() -> None:
    written = {"n": 1, "l": ["x"], "e": "", **{f"k{number}": "v" for number in range(30)}}

    found = labels_in({CONF_KEY: json.dumps(written)})

    assert found == {f"label_k{number}": "v" for number in range(MOST_KEYS)}
