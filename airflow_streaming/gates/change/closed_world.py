"""
Compare the recorded plan and the new one as a whole: an unexplained difference is never allowed.

A finding names the places that it explains. A difference at any other place makes the answer unknown,
with this difference in the report. An opaque part is never equal to itself, unless the script is known to be
the same.

``judge_reads`` compares the inputs of Python code beside its text: files, packages, environment, time zone,
session. An equal digest is equal content. A piece that could not be read is never equal, unless the script is
known to be the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from airflow_streaming.gates.change.diff import differences, is_explained, leaves, shown
from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.findings import GateDecision, GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.model.spark.plan import (
    OPAQUE,
)

UNEXPLAINED: Final = rule_named("plan.unexplained")
OPAQUE_BEFORE: Final = rule_named("plan.opaque")
OPAQUE_BEHIND: Final = rule_named("plan.opaque_behind")
RULES: Final = (UNEXPLAINED, OPAQUE_BEFORE, OPAQUE_BEHIND)
_MARKED: Final = ("steps[", "operators[")

READS: Final = rule_named("code.reads")
BEFORE_STATE: Final = rule_named("code.reads_before_state")
UNREAD: Final = rule_named("code.reads_unread")
UNREAD_BEFORE_STATE: Final = rule_named("code.reads_unread_before_state")
READ_RULES: Final = (READS, BEFORE_STATE, UNREAD, UNREAD_BEFORE_STATE)


def judge_the_rest(pair: Pair, found: Iterable[GateFinding]) -> Iterator[GateFinding]:
    """
    Yield the differences that no rule's finding explains.

    Empty behind a refusal: it decides, and many other differences follow from it.
    """
    known = [*found]
    if not pair.same_code:
        yield from _judge_opaque(pair)
    if any(finding.severity is GateDecision.NOT_ALLOWED for finding in known):
        return
    explained = {about for finding in known for about in finding.about}
    for at, was, now in differences(pair):
        if not is_explained(at, explained):
            yield UNEXPLAINED.found(
                f"{at}: {UNEXPLAINED.sentence}",
                old=shown(was),
                new=shown(now),
                evidence=f"{at} in {pair.shown_by_plan}",
                about=(at,),
            )


def judge_reads(pair: Pair) -> Iterator[GateFinding]:
    """Compare the inputs of the code of both plans; the inputs of a sink cannot change state."""
    yield from _judge_read(
        pair, pair.old.reads, pair.new.reads, "reads", has_state=pair.is_stateful
    )
    yield from _judge_read(
        pair, pair.old.sink.reads, pair.new.sink.reads, "sink.reads", has_state=False
    )


def _judge_opaque(pair: Pair) -> Iterator[GateFinding]:
    old = leaves(pair.old)
    for at, now in sorted(leaves(pair.new).items()):
        text = shown(now)
        if at.startswith(_MARKED) and old.get(at) == now and OPAQUE in text:
            rule = OPAQUE_BEHIND if at.startswith("steps[0]") else OPAQUE_BEFORE
            yield rule.found(
                f"{at}: {rule.sentence}", old=text, new=text, evidence=f"{at} in the new plan"
            )


def _judge_read(
    pair: Pair, old: Mapping[str, str], new: Mapping[str, str], at: str, *, has_state: bool
) -> Iterator[GateFinding]:
    for name in sorted({*old, *new}):
        was, now = old.get(name, ""), new.get(name, "")
        is_unread = OPAQUE in was or OPAQUE in now
        if was == now and (pair.same_code or not is_unread):
            continue
        rule = _rule_of_read(is_unread=is_unread, has_state=has_state)
        yield rule.found(
            f"{name}: {rule.sentence}",
            old=was or "not read",
            new=now or "not read",
            evidence=f"{at}.{name} in {pair.shown_by_plan}",
            about=(f"{at}.{name}",),
        )


def _rule_of_read(*, is_unread: bool, has_state: bool) -> Rule:
    if is_unread:
        return UNREAD_BEFORE_STATE if has_state else UNREAD
    return BEFORE_STATE if has_state else READS
