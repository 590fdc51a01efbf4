"""Risks of sources: rows that a restart cannot read again, inferred columns that change."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from airflow_streaming.advice.examined import (
    NO_PLANS,
    Advice,
    Facts,
    RiskLevel,
    fine,
    risk,
    unknown,
)
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.spark.plan import SourceReplay, replay_of

SCHEMA_INFERENCE: Final = "spark.sql.streaming.schemaInference"
_REPLAY: Final = "source-replay"
_QUEUE: Final = (
    "Its source has no positions, or they stand still while rows come: no fence, backup or rewind holds.",
    "Read the topic with format('kafka'), or let another job copy the queue into files or a topic.",
)
_CANNOT: Final = (
    "A restart cannot read the rows of the interrupted batch again: they are lost, or every later start fails.",
    FailureKind.SOURCE_NOT_REPLAYABLE.remedy,
)
_REMEDY_IF_UNKNOWN: Final = "Read the source's documentation: after a kill it must return the same rows for the same offsets."


def replay(facts: Facts) -> Iterator[Advice]:
    """Look for sources that cannot send the rows of a planned batch again."""
    if not facts.plans:
        yield unknown(_REPLAY, NO_PLANS)
    for plan in facts.plans:
        names = dict.fromkeys(source.source for source in plan.sources)
        of = {
            kind: [one.source for one in plan.sources if replay_of(one) is kind]
            for kind in SourceReplay
        }
        standing = _standing(facts, plan.query) if of[SourceReplay.UNKNOWN] else []
        if of[SourceReplay.QUEUE] or standing:
            yield _found(plan.query, _QUEUE, of[SourceReplay.QUEUE] or standing)
        elif of[SourceReplay.CANNOT]:
            yield _found(plan.query, _CANNOT, of[SourceReplay.CANNOT])
        elif of[SourceReplay.UNKNOWN] or not names:
            unclear = ", ".join(of[SourceReplay.UNKNOWN])
            what = f"Whether its source{f' ({unclear})' if unclear else ''} can send a batch again is not recorded."
            yield unknown(_REPLAY, what, query=plan.query, remedy=_REMEDY_IF_UNKNOWN)
        else:
            what = f"Its sources can be replayed: {', '.join(names)}."
            yield fine(_REPLAY, what, query=plan.query)


def _found(query: str, words: tuple[str, str], names: list[str]) -> Advice:
    what, remedy = words
    evidence = f"source {', '.join(names)}"
    return risk(_REPLAY, RiskLevel.HIGH, what, query=query, evidence=evidence, remedy=remedy)


def _standing(facts: Facts, query: str) -> list[str]:
    """Return the sources that gave rows while their offset stood still, as Spark describes them."""
    found: dict[str, None] = {}
    for before, batch in pairwise(facts.batches(query)):
        ends = {source.source: source.end_offset for source in before.sources}
        for source in batch.sources:
            if (
                source.input_rows
                and source.end_offset
                and ends.get(source.source) == source.end_offset
            ):
                found[source.source] = None
    return [*found]


def schema_inference(facts: Facts) -> Iterator[Advice]:
    """Look for file sources whose columns Spark finds in the files."""
    rule = "schema-inference"
    if not facts.plans:
        yield unknown(rule, NO_PLANS)
    for plan in facts.plans:
        inferred = [path for source in plan.sources if source.inferred for path in source.paths]
        if inferred:
            yield risk(
                rule,
                RiskLevel.MEDIUM,
                "Every start infers the columns from the files that are there, so a restart may find other "
                "columns or types: a column is lost or null, or the state does not fit any more.",
                query=plan.query,
                evidence=f"no schema for {', '.join(inferred)}; {SCHEMA_INFERENCE} is on",
                remedy=f"Give the source a schema, readStream.schema(...), and leave {SCHEMA_INFERENCE} off.",
            )
        else:
            yield fine(rule, "No source infers its columns.", query=plan.query)
