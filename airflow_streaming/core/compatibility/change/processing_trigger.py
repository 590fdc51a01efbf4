"""Processing trigger: how often, whether for ever, and in which of Spark's ways of execution."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule

INTERVAL: Final = Rule(
    name="trigger.interval",
    severity=GateDecision.ALLOWED,
    sentence="The interval of batches may change.",
    source="Structured Streaming guide, recovery semantics: trigger interval",
)
ENDS: Final = Rule(
    name="trigger.ends",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The query ends by itself once it has read what is there.",
    source="Structured Streaming guide, triggers",
)
OTHER_WAY: Final = Rule(
    name="trigger.execution",
    severity=GateDecision.UNKNOWN,
    sentence="Continuous and real-time execution keep their logs in another way than batches do.",
    source="Structured Streaming guide, triggers; SPARK-53736",
    remedy="Rehearse it; real-time mode needs state of checkpoint format 2.",
)

UNREAD: Final = Rule(
    name="trigger.unread",
    severity=GateDecision.UNKNOWN,
    sentence="The plan tells a trigger that is none of Spark's.",
    source="Structured Streaming guide, triggers",
    remedy="Make the plan anew with `plan --json`, or rehearse it.",
)

RULES: Final = (INTERVAL, ENDS, OTHER_WAY, UNREAD)

_OTHER_WAYS: Final = ("continuous", "real time")
_ENDING: Final = ("once", "available now")
_INTERVAL: Final = re.compile(
    r"\s*(?:interval\s+)?(?:\d+(?:\.\d+)?\s*"
    r"(?:microsecond|millisecond|second|minute|hour|day|week|month|year)s?\s*)+",
    re.IGNORECASE,
)


def judge_trigger(pair: Pair) -> Iterator[GateFinding]:
    """Compare the processing triggers."""
    old, new = pair.old.processing_trigger, pair.new.processing_trigger
    if old == new:
        return
    yield _rule(old, new).found(
        old=old or "as soon as possible",
        new=new or "as soon as possible",
        evidence=pair.shown_by_plan,
    )


def _rule(old: str, new: str) -> Rule:
    if not _is_known(new):
        return UNREAD
    if old.startswith(_OTHER_WAYS) != new.startswith(_OTHER_WAYS):
        return OTHER_WAY
    return ENDS if new in _ENDING and old not in _ENDING else INTERVAL


def _is_known(told: str) -> bool:
    return (
        not told
        or told in _ENDING
        or told.startswith(_OTHER_WAYS)
        or _INTERVAL.fullmatch(told) is not None
    )
