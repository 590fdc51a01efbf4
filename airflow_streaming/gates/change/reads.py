"""
Inputs of a query's Python code beside its text: files, packages, environment, time zone, session.

The plan has each such piece by name with a digest. An equal digest is equal content. A piece that could not
be read is never equal, unless the script is known to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.model.spark.plan import OPAQUE

READS: Final = rule_named("code.reads")
BEFORE_STATE: Final = rule_named("code.reads_before_state")
UNREAD: Final = rule_named("code.reads_unread")
UNREAD_BEFORE_STATE: Final = rule_named("code.reads_unread_before_state")
RULES: Final = (READS, BEFORE_STATE, UNREAD, UNREAD_BEFORE_STATE)


def judge_reads(pair: Pair) -> Iterator[GateFinding]:
    """Compare the inputs of the code of both plans; the inputs of a sink cannot change state."""
    yield from _judge(pair, pair.old.reads, pair.new.reads, "reads", has_state=pair.is_stateful)
    yield from _judge(pair, pair.old.sink.reads, pair.new.sink.reads, "sink.reads", has_state=False)


def _judge(
    pair: Pair, old: Mapping[str, str], new: Mapping[str, str], at: str, *, has_state: bool
) -> Iterator[GateFinding]:
    for name in sorted({*old, *new}):
        was, now = old.get(name, ""), new.get(name, "")
        is_unread = OPAQUE in was or OPAQUE in now
        if was == now and (pair.same_code or not is_unread):
            continue
        rule = _rule(is_unread=is_unread, has_state=has_state)
        yield rule.found(
            f"{name}: {rule.sentence}",
            old=was or "not read",
            new=now or "not read",
            evidence=f"{at}.{name} in {pair.shown_by_plan}",
            about=(f"{at}.{name}",),
        )


def _rule(*, is_unread: bool, has_state: bool) -> Rule:
    if is_unread:
        return UNREAD_BEFORE_STATE if has_state else UNREAD
    return BEFORE_STATE if has_state else READS
