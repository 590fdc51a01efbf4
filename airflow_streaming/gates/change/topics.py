"""
Topics and partitions of a Kafka source, compared: the same, more, or fewer.

Spark keeps the offsets of each partition, however the script names it (``subscribe``, ``subscribePattern``,
``assign``). A partition that is new is read from its oldest offset on, whatever ``startingOffsets`` says; if that
offset is not 0, Spark takes the records before it for lost (``KafkaOffsetReader.getOffsetRangesFromResolvedOffsets``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.checkpoints.read.report import SourcePosition, SourceType
from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.model.spark.plan import SourcePlan

TOPICS: Final = rule_named("source.topics")
ADDED: Final = rule_named("source.topics_added")
ADDED_GUARDED: Final = rule_named("source.topics_added_guarded")
SAME: Final = rule_named("source.topics_same")
FIXED: Final = rule_named("source.partitions_fixed")
UNSEEN: Final = rule_named("source.topics_unseen")
RULES: Final = (TOPICS, ADDED, ADDED_GUARDED, SAME, FIXED, UNSEEN)
_SUBSCRIBE: Final = "subscribe"
_PATTERN: Final = "subscribepattern"
_ASSIGN: Final = "assign"
_LITERAL: Final = re.compile(r"(?:[\w-]|\\\.)+(?:\|(?:[\w-]|\\\.)+)*", re.ASCII)
"""A pattern that names its topics one by one."""
_SIMPLE: Final = re.compile(r"[\w.\-|()\[\]*+?\\^$]+", re.ASCII)
"""A pattern that Java and Python read alike."""
_REPEATED_GROUP: Final = re.compile(r"\)[*+]")
_MOST_REPEATS: Final = 3
"""A topic has up to 249 characters, and each repeat of a pattern can multiply the steps of a search by them."""
Partitions = Mapping[str, frozenset[int]]
_NONE: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """
    The topics that a script names.

    :param way: ``subscribe``, ``subscribepattern`` or ``assign``.
    :param topics: Topics that are named one by one; ``None`` where only the brokers know them.
    :param partitions: Partitions that are named one by one, by topic.
    :param pattern: As the script has it.
    """

    way: str
    topics: frozenset[str] | None
    partitions: Partitions | None = None
    pattern: str = ""

    def takes(self, topic: str) -> bool | None:
        """Tell whether a topic is read; ``None`` where the pattern is not understood."""
        if self.topics is not None:
            return topic in self.topics
        if not _SIMPLE.fullmatch(self.pattern) or _is_endless(self.pattern):
            return None
        try:
            return re.fullmatch(self.pattern, topic) is not None
        except re.error:
            return None


def subscription_of(source: SourcePlan) -> Subscription | None:
    """Return the topics that a Kafka source reads; ``None`` if its options cannot be read."""
    if len(source.paths) != 1:
        return None
    way, _, names = source.paths[0].partition(" ")
    if way == _SUBSCRIBE:
        return Subscription(way=way, topics=frozenset(t.strip() for t in names.split(",")) - {""})
    if way == _PATTERN:
        pattern = names.strip()
        is_literal = _LITERAL.fullmatch(pattern) is not None
        topics = frozenset(pattern.replace("\\.", ".").split("|")) if is_literal else None
        return Subscription(way=way, topics=topics, pattern=pattern)
    partitions = _assigned(names) if way == _ASSIGN else None
    if partitions is None:
        return None
    return Subscription(way=way, topics=frozenset(partitions), partitions=partitions)


def judge_topics(
    pair: Pair, old: SourcePlan, new: SourcePlan, who: str, key: str
) -> Iterator[GateFinding]:
    """Compare what two Kafka sources at one place of the plans read; their texts differ."""
    was, now = subscription_of(old), subscription_of(new)
    held = _held(pair, key)
    rules = {UNSEEN} if was is None or now is None else _rules(was, now, held, new)
    for rule in sorted(rules, key=lambda one: one.name):
        yield rule.found(
            f"{who} reads {', '.join(new.paths)} instead of {', '.join(old.paths)}. {rule.sentence}",
            old=", ".join(old.paths),
            new=", ".join(new.paths),
            evidence=f"sources[{key}].paths in {pair.shown_by_plan}"
            if held is None
            else pair.shown_by_offsets,
            about=(f"sources[{key}].paths",),
        )


def topics_against(held: Partitions, new: SourcePlan) -> list[Rule]:
    """Return the rules that apply to a source and the partitions of a checkpoint."""
    now = subscription_of(new)
    if now is None:
        return [UNSEEN]
    was = Subscription(way=_ASSIGN, topics=frozenset(held), partitions=held)
    return sorted(_rules(was, now, held, new) - {SAME}, key=lambda one: one.name)


def partitions_of(position: SourcePosition) -> Partitions | None:
    """Return the partitions whose offsets a position names; ``None`` where it is not Kafka's."""
    if position.source is not SourceType.KAFKA or not isinstance(position.offset, Mapping):
        return None
    return {topic: frozenset(map(int, numbers)) for topic, numbers in position.offset.items()}


def _is_endless(pattern: str) -> bool:
    """Tell whether a search with the pattern can take longer than a moment."""
    repeats = pattern.count("*") + pattern.count("+")
    return repeats > _MOST_REPEATS or _REPEATED_GROUP.search(pattern) is not None


def _rules(
    was: Subscription, now: Subscription, held: Partitions | None, new: SourcePlan
) -> set[Rule]:
    before = was.partitions if held is None else held
    topics = was.topics if before is None else frozenset(before)
    if topics is None:
        return {UNSEEN}
    taken = {topic: now.takes(topic) for topic in topics}
    if False in taken.values():
        return {TOPICS}
    if None in taken.values():
        return {UNSEEN}
    if now.partitions is None:
        return _added(new) if now.topics is None or not now.topics <= topics else {SAME}
    if before is None:
        return {UNSEEN}
    if any(not numbers <= now.partitions[topic] for topic, numbers in before.items()):
        return {TOPICS}
    found = {FIXED} if was.partitions is None else set()
    if any(numbers - before.get(topic, _NONE) for topic, numbers in now.partitions.items()):
        found |= _added(new)
    return found or {SAME}


def _added(new: SourcePlan) -> set[Rule]:
    is_lossy = new.options.get("failondataloss", "").strip().lower() == "false"
    return {ADDED if is_lossy else ADDED_GUARDED}


def _held(pair: Pair, key: str) -> Partitions | None:
    """Return the partitions whose offsets the checkpoint keeps for a source."""
    sources = pair.checkpoint.sources if pair.checkpoint is not None else ()
    return next((partitions_of(one) for one in sources if one.name == key), None)


def _assigned(text: str) -> dict[str, frozenset[int]] | None:
    try:
        partitions: Any = json.loads(text)
    except ValueError:
        return None
    if not isinstance(partitions, Mapping) or not all(map(_are_numbers, partitions.values())):
        return None
    return {str(topic): frozenset(numbers) for topic, numbers in partitions.items()}


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int for one in value)
