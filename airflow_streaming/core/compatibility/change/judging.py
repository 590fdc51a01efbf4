"""Change of one query: the old plan or its checkpoint, and the new plan → findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.change.checkpoint_operators import held_operators
from airflow_streaming.core.compatibility.change.checkpoint_sources import held_sources
from airflow_streaming.core.compatibility.change.checkpoint_watermarks import (
    held_output_mode,
    held_watermarks,
)
from airflow_streaming.core.compatibility.change.conf import judge_conf, pinned_against
from airflow_streaming.core.compatibility.change.operators import judge_operators, same_operators
from airflow_streaming.core.compatibility.change.output_mode import judge_output_mode
from airflow_streaming.core.compatibility.change.pair import Pair, offsets_file
from airflow_streaming.core.compatibility.change.processing_trigger import judge_trigger
from airflow_streaming.core.compatibility.change.projection import judge_projection
from airflow_streaming.core.compatibility.change.queries import ADDED, judge_notes
from airflow_streaming.core.compatibility.change.sinks import judge_sink
from airflow_streaming.core.compatibility.change.sources import judge_sources
from airflow_streaming.core.compatibility.change.steps import judge_steps
from airflow_streaming.core.compatibility.change.unseen import judge_unseen
from airflow_streaming.core.compatibility.change.watermarks import judge_watermarks
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.plan.plan import QueryPlan

CONTRADICTION: Final = Rule(
    name="checkpoint.contradiction",
    severity=GateDecision.UNKNOWN,
    sentence="The recorded plan is not the one that this checkpoint was made by.",
    source="the plan held against the checkpoint's own files",
    remedy="Give the script that made this checkpoint, or look whether it is the right one.",
)
UNSOUND: Final = Rule(
    name="checkpoint.unsound",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The checkpoint is not sound: a restart fails, or goes wrong, whatever the code is.",
    source="docs/checkpoints.md: each defect was made and the query started on it",
    remedy="Restore a verified backup into a new place first.",
)

RULES: Final = (CONTRADICTION, UNSOUND)


def judge_change(
    old: QueryPlan | None,
    new: QueryPlan,
    checkpoint: Checkpoint | None,
    *,
    schemas: Sequence[StoreSchema] = (),
    same_code: bool = False,
) -> list[GateFinding]:
    """
    Return what a new plan of a query means for its checkpoint, in no order.

    :param old: The plan that the checkpoint was made by; ``None`` for a query we never launched,
        which is then compared with what its checkpoint says, and is never better than unknown.
    :param checkpoint: ``None`` when it was not looked at; without an old plan: there is none.
    :param schemas: Columns of the checkpoint's state.
    :param same_code: The script is known to be the same, byte for byte: functions are not new.
    """
    found = [*judge_notes({"recorded": old, "new": new}), *_soundness(checkpoint)]
    known = checkpoint if checkpoint is not None and has_begun(checkpoint) else None
    if _is_unread(new):
        return [replace(finding, query=new.query) for finding in found]
    if old is not None and not _is_unread(old):
        pair = Pair(old=old, new=new, checkpoint=known, schemas=tuple(schemas), same_code=same_code)
        found += [*_against_plan(pair), *_against_record(pair)]
    elif known is not None:
        found += _against_checkpoint(new, known, schemas)
        found += pinned_against(new, known.conf, offsets_file(known))
        found += judge_unseen(new, known, schemas)
    else:
        found.append(ADDED.found(new=new.query, evidence="no checkpoint with a batch"))
    return [replace(finding, query=new.query) for finding in found]


def has_begun(checkpoint: Checkpoint) -> bool:
    """Tell whether a query has planned a batch, from which on its checkpoint binds it."""
    return checkpoint.last_planned_batch is not None or checkpoint.last_committed_batch is not None


def _is_unread(plan: QueryPlan) -> bool:
    # Every streaming query has a source, so a plan without one tells nothing but its notes.
    return bool(plan.notes) and not plan.sources


def _against_plan(pair: Pair) -> Iterator[GateFinding]:
    yield from judge_sources(pair)
    yield from judge_operators(pair)
    if same_operators(pair):
        # With other operators, steps lie in front of others, and cannot be told apart.
        yield from judge_steps(pair)
    yield from judge_output_mode(pair)
    yield from judge_watermarks(pair)
    yield from judge_sink(pair)
    yield from judge_projection(pair)
    yield from judge_trigger(pair)
    yield from judge_conf(pair)


def _against_record(pair: Pair) -> Iterator[GateFinding]:
    """Hold the old plan against the checkpoint; when it is another's, hold the new one too."""
    if pair.checkpoint is None:
        return
    contrary = [
        finding
        for finding in _against_checkpoint(pair.old, pair.checkpoint, pair.schemas)
        if finding.severity is GateDecision.NOT_ALLOWED
    ]
    for finding in contrary:
        yield CONTRADICTION.found(
            f"{CONTRADICTION.sentence} {finding.rule}: {finding.message}",
            old=finding.old,
            new=finding.new,
            evidence=finding.evidence,
        )
    if contrary:
        yield from _against_checkpoint(pair.new, pair.checkpoint, pair.schemas)


def _against_checkpoint(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    yield from held_sources(plan, checkpoint)
    yield from held_operators(plan, checkpoint, schemas)
    yield from held_watermarks(plan, checkpoint, schemas)
    yield from held_output_mode(plan, checkpoint)


def _soundness(checkpoint: Checkpoint | None) -> Iterator[GateFinding]:
    for problem in checkpoint.problems if checkpoint is not None else ():
        yield UNSOUND.found(f"{UNSOUND.sentence} {problem.message}", evidence=problem.path)
