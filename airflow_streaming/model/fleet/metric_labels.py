"""
Labels of streams on their metrics.

A value that differs from stream to stream makes a time series each, so only keys that a setting names are taken, and
names and values are bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from airflow_streaming.exceptions import SpecError

CONF_KEY: Final = "spark.airflowStreaming.sinkLabels"
"""Brings the labels to the sinks of a driver, as JSON."""
MOST_KEYS: Final = 8
LONGEST: Final = 63
"""Characters of a name without its prefix, and of a value."""
_PREFIX: Final = "label_"
"""Keeps the names apart from those of the metrics, such as ``query``."""
_MOST_TEXT: Final = 10_000
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
_NOT_IN_VALUE: Final = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLabels:
    """
    The keys of labels that metrics carry.

    :raises SpecError: too many keys, or two that have one name.
    """

    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        keys = tuple(dict.fromkeys(self.keys))
        object.__setattr__(self, "keys", keys)
        if len(keys) > MOST_KEYS:
            raise SpecError(
                f"[streaming] metric_labels has {len(keys)} keys; name at most {MOST_KEYS}, because each value "
                "is a time series."
            )
        names: dict[str, str] = {}
        for key in keys:
            if (other := names.setdefault(_name(key), key)) != key:
                raise SpecError(
                    f"[streaming] metric_labels has {other!r:.80} and {key!r:.80}, which are both {_name(key)} "
                    "on metrics. Name one of them."
                )

    def of(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the names and values for the metrics of a stream with these labels."""
        return {_name(key): _value(labels[key]) for key in self.keys if labels.get(key)}


NO_LABELS: Final = MetricLabels()


def labels_conf(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration that brings the labels to a driver."""
    return {CONF_KEY: json.dumps(labels)} if labels else {}


def labels_in(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the labels in a driver's configuration, which a user may have written; none when malformed."""
    text = conf.get(CONF_KEY, "")
    try:
        found = json.loads(text) if 0 < len(text) <= _MOST_TEXT else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    texts = ((key, value) for key, value in found.items() if isinstance(value, str) and value)
    return {
        _name(key.removeprefix(_PREFIX)): _value(value) for key, value in islice(texts, MOST_KEYS)
    }


def _name(key: str) -> str:
    return _PREFIX + _NOT_IN_NAME.sub("_", key[:LONGEST])


def _value(value: str) -> str:
    return _NOT_IN_VALUE.sub("_", value[:LONGEST])
