"""Risks of batches: how much one takes in, how often they run, how long their files are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Final

from airflow_streaming.advice.examined import (
    NO_DRIVER,
    Advice,
    Facts,
    RiskLevel,
    fine,
    risk,
    unknown,
)
from airflow_streaming.advice.profile_conf import RETAINED_BATCHES
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.codec import parse_time
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.status import Status

ENOUGH: Final = 10
"""Batches that a statement about a query's rhythm needs."""
EMPTY_SHARE: Final = 0.5
PAUSE: Final = 1.0
"""Seconds between two batches under which they count as run one upon the other."""
LEAST_SPAN: Final = 60.0
"""Seconds that a copy of a small checkpoint on an object store may well take."""
_SPARKS_RETENTION: Final = 100
_LIMITS: Final = re.compile(
    r"max(?:Files|Bytes|Offsets|Records)PerTrigger|rowsPer(?:Second|Batch|MicroBatch)",
    re.IGNORECASE,
)


def rate_limit(facts: Facts) -> Iterator[Advice]:
    """Look for a limit on a batch's input."""
    rule = "rate-limit"
    if facts.script is None:
        yield unknown(rule, "The script could not be read, and nothing else shows source options.")
    elif found := sorted({match[0] for match in _LIMITS.finditer(facts.script)}):
        yield fine(
            rule,
            f"The script mentions {', '.join(found)}; whether every source has it cannot be seen.",
        )
    elif "readStream" not in facts.script:
        yield unknown(
            rule,
            "The script's sources are opened elsewhere, in code that the doctor does not read.",
        )
    else:
        yield risk(
            rule,
            RiskLevel.MEDIUM,
            "No limit on a batch's input: the first batch after an outage reads the whole "
            "backlog at once.",
            evidence=f"no maxFilesPerTrigger, maxOffsetsPerTrigger or maxBytesPerTrigger in the "
            f"script; {_largest(facts.history)}",
            remedy="Give every source a limit a few times above its normal batch. The check reads "
            "the script's text only; a limit set by a library does not show.",
        )


def _largest(history: Sequence[BatchProgress]) -> str:
    rows = [batch.input_rows for batch in history if batch.input_rows]
    if not rows:
        return "no batch with rows in the history"
    return f"the largest batch had {max(rows):,} rows, the median {median(rows):,.0f}"


def processing_trigger(facts: Facts) -> Iterator[Advice]:
    """Look for batches that run one upon the other for nothing."""
    rule = "processing-trigger"
    if not facts.queries:
        yield unknown(rule, NO_DRIVER)
    for query in facts.queries:
        batches = facts.batches(query.name)
        interval = query.processing_interval_s or query.checkpoint_interval_s
        if interval is not None:
            yield fine(rule, f"A batch every {interval:g} s at most.", query=query.name)
        elif len(batches) < ENOUGH:
            yield unknown(rule, f"The history has {len(batches)} batches.", query=query.name)
        else:
            yield _judgerhythm(rule, query.name, batches)


def _judgerhythm(rule: str, query: str, batches: Sequence[BatchProgress]) -> Advice:
    empty = sum(batch.input_rows == 0 for batch in batches) / len(batches)
    pauses = [
        pause for one, after in pairwise(batches) if (pause := _pause(one, after)) is not None
    ]
    pause = median(pauses) if pauses else None
    seen = f"{empty:.0%} of {len(batches)} batches empty"
    if empty < EMPTY_SHARE:
        return fine(rule, f"{seen}.", query=query)
    if pause is None:
        return unknown(rule, f"{seen}; their times cannot be read.", query=query)
    if pause >= PAUSE:
        return fine(rule, f"{seen}, {pause:.1f} s between two.", query=query)
    return risk(
        rule,
        RiskLevel.MEDIUM,
        "It runs batches one upon the other, most of them for nothing; each writes to the "
        "checkpoint and lists the source.",
        query=query,
        evidence=f"{seen}, {pause:.1f} s between two",
        remedy="Give it a processing trigger: .trigger(processingTime='10 seconds').",
    )


def _pause(one: BatchProgress, after: BatchProgress) -> float | None:
    begun, next_begun = _begun(one), _begun(after)
    if begun is None or next_begun is None or after.batch_id != one.batch_id + 1:
        return None
    return (next_begun - begun).total_seconds() - one.duration_ms / 1000


def retention(facts: Facts) -> Iterator[Advice]:
    """Look for files that are purged sooner than a restart or a copy is done with them."""
    rule = "retention"
    if facts.status is None or not facts.queries:
        yield unknown(rule, NO_DRIVER)
        return
    kept = facts.conf.get(RETAINED_BATCHES, str(_SPARKS_RETENTION))
    needed = max(LEAST_SPAN, _start_time(facts.status))
    for query in facts.queries:
        gap = rhythm(facts.batches(query.name))
        if gap is None or not kept.isdecimal():
            yield unknown(rule, "Its batches are too few to tell their rhythm.", query=query.name)
            continue
        span = int(kept) * gap
        seen = f"{kept} batches of {gap:.1f} s kept are {span:,.0f} s; {needed:,.0f} s needed"
        if span >= needed:
            yield fine(rule, f"{seen}.", query=query.name)
            continue
        yield risk(
            rule,
            RiskLevel.MEDIUM,
            "Files of the checkpoint are purged sooner than a restart or a copy is done with them.",
            query=query.name,
            evidence=seen,
            remedy=f"Raise {RETAINED_BATCHES}, or give the query a processing trigger.",
        )


def rhythm(batches: Sequence[BatchProgress]) -> float | None:
    """Return the median time from the begin of a batch to the begin of the next; ``None`` with too few of them."""
    if len(batches) < ENOUGH:
        return None
    begun = [(_begun(one), _begun(after)) for one, after in pairwise(batches)]
    gaps = [(b - a).total_seconds() for a, b in begun if a is not None and b is not None]
    return median(gaps) if gaps else None


def _start_time(status: Status) -> float:
    if status.first_progress_at is None:
        return 0.0
    return (status.first_progress_at - status.started_at).total_seconds()


def _begun(batch: BatchProgress) -> datetime | None:
    try:
        return parse_time(batch.at, "at")
    except RecordError:
        return None
