"""
Plan the rollback of an upgrade in advance.

A new deployment that failed at once has committed no batch. If it also left every format and
setting unchanged, the old one starts again on the same checkpoint: a planned and uncommitted batch
runs again with the same limits, as after any failure.

*Rewinding* puts the checkpoint back to the boundary, which rewinds every sink or repeats batch ids.
*Resuming* lets the old deployment continue where the new one ended; then formats, Spark and code
must be backward compatible, and written rows stay. If neither is sound the upgrade is refused in
advance, with alternatives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.restore.refusal import named_query
from airflow_streaming.gates.findings import GateDecision, GateReport
from airflow_streaming.model.arguments.accepted import NO_ROLLBACK, REPLAY
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.upgrade import (
    RollbackMethod,
    RollbackPlan,
    SinkFacts,
    without_facts,
)
from airflow_streaming.model.spark.plan import KAFKA

_HARMLESS = frozenset(
    {SinkReplaySemantics.NOTHING, SinkReplaySemantics.OVERWRITES, SinkReplaySemantics.FILE_LOG}
)
"""Habits by which a batch that was begun, and not committed, may be written again."""
_FORMATS = (
    "query_id",
    "offset_log_version",
    "commit_log_version",
    "state_format",
    "is_stateful",
    "shuffle_partitions",
    "async_progress",
)

_RECORD = "Start the running version once under this release, so that its plan is recorded"
_MIGRATED = "The new deployment's state is migrated, and the old one cannot read it."
_FITS = frozenset({GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE})


def needs_rewind(
    before: Checkpoint,
    after: Checkpoint,
    sink: SinkFacts | None = None,
    *,
    sink_before: int | None = None,
    sink_after: int | None = None,
) -> str:
    """
    Return why one query's checkpoint must be rewound, in words; else empty.

    :param before: The checkpoint in the backup of the boundary.
    :param after: The same checkpoint now.
    :param sink_before: Newest batch in the file sink's log in the backup; ``sink_after`` now.
    """
    return next(_reasons(before, after, sink, (sink_before, sink_after)), "")


def _reasons(
    before: Checkpoint,
    after: Checkpoint,
    sink: SinkFacts | None,
    logs: tuple[int | None, int | None],
) -> Iterator[str]:
    if after.problems:
        yield f"The checkpoint is damaged: {after.problems[0].message}"
    if after.last_committed_batch != before.last_committed_batch:
        yield (
            f"The new deployment has committed batches up to {after.last_committed_batch}; the old "
            f"one ended at {before.last_committed_batch}."
        )
    for name in _FORMATS:
        if getattr(after, name) != getattr(before, name):
            yield f"{name} is {getattr(after, name)} now and was {getattr(before, name)}."
    if dict(after.conf) != dict(before.conf):
        changed = sorted(_differences(before.conf, after.conf))
        yield f"The newest plan pins other settings than before: {', '.join(changed[:3])}."
    if _shape(after) != _shape(before):
        yield "The description of the state was written anew."
    if after.last_planned_batch != after.last_committed_batch:
        yield from _of_planned(after, sink)
    if (logs[1] if logs[1] is not None else -1) > (logs[0] if logs[0] is not None else -1):
        yield f"The file sink's log knows batch {logs[1]} already, by the new deployment's code."


def _of_planned(after: Checkpoint, sink: SinkFacts | None) -> Iterator[str]:
    if sink is not None and sink.habit in _HARMLESS:
        return
    yield (
        f"The new deployment may have started batch {after.last_planned_batch}, and its rows in "
        "the sink are unknown."
    )


def _differences(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[str]:
    for key in {*first, *second}:
        if first.get(key) != second.get(key):
            yield key


def _shape(checkpoint: Checkpoint) -> list[Any]:
    """Return the shape of a checkpoint's state, without its size."""
    return [
        (
            operator.id,
            operator.name,
            operator.partitions,
            operator.schema_version,
            dict(operator.state),
            # The kind of a store is known from files, and a backup has fewer files.
            sorted((store.name, store.partitions) for store in operator.stores),
        )
        for operator in checkpoint.operators
    ]


def plan_rollback(
    sinks: Sequence[SinkFacts],
    *,
    back: GateReport,
    code_back: GateReport | None = None,
    queries: Collection[str] = (),
    has_rewinder: bool = False,
    accepts_replay: bool = False,
    is_migrated: bool = False,
) -> RollbackPlan:
    """
    Return how to roll back once the new deployment has committed batches.

    :param sinks: Of the running deployment; see ``sink_facts_of``.
    :param back: The version gate's report on the way from the new Spark to the old one.
    :param code_back: The change gate's report on the way from the new code to the old one; ``None``
        if the code stays the same.
    :param queries: Names of all queries with a checkpoint: each is rewound with its sink, or none.
    :param has_rewinder: The author's function takes batches back out of every sink other than files
        and Kafka.
    :param accepts_replay: Repeated rows in append-only sinks are accepted.
    :param is_migrated: The new deployment's state is migrated.
    """
    if not sinks:
        return _none(
            "The stream's sinks are unknown: no driver of the running deployment has recorded a "
            "plan.",
            _RECORD,
        )
    unknown = without_facts(queries, sinks)
    if unknown:
        return _none(
            f"It is not known what {_listed(unknown)} writes: there is a checkpoint, and no driver "
            "of the running deployment has recorded a plan.",
            f"{_RECORD}, or move the checkpoint of a query away that the script has no longer",
        )
    against = [*_unmovable(sinks), *_unsound(sinks, has_rewinder, accepts_replay)]
    if not against:
        return RollbackPlan(
            way=RollbackMethod.REWIND,
            reason="The checkpoint goes back to the batch the old deployment ended at, and "
            f"{_in_step(sinks, has_rewinder)}.",
            replay=" ".join(_replay(sinks, has_rewinder)),
        )
    misfits = [_MIGRATED] if is_migrated else _misfits(back, code_back)
    if not misfits:
        return RollbackPlan(
            way=RollbackMethod.RESUME,
            reason=(
                f"It cannot be rewound: {' '.join(against)} Formats and code are backward "
                "compatible, so the old deployment resumes at the new one's last position. Rows "
                f"of the new one stay{_and_state(sinks)}, wrong ones too."
            ),
        )
    return _none(
        f"It cannot be rewound: {' '.join(against)} It cannot be resumed: {' '.join(misfits)}",
        _instead(sinks, has_rewinder),
    )


def _none(reason: str, instead: str) -> RollbackPlan:
    return RollbackPlan(
        way=RollbackMethod.NONE,
        reason=reason,
        refused=(
            f"{instead}; or run the new version beside the old one with its own checkpoint and "
            f"output (blue-green); or accept an upgrade without rollback: accept={NO_ROLLBACK}."
        ),
    )


def _listed(queries: Sequence[str]) -> str:
    return f"query {', '.join(map(repr, queries))}" if any(queries) else "the query"


def _unmovable(sinks: Sequence[SinkFacts]) -> Iterable[str]:
    """Yield reasons that make every rewind impossible, whatever the sinks."""
    for facts in sinks:
        who = named_query(facts.query)
        if facts.own_checkpoint:
            yield (
                f"{who} has its checkpoint where the script put it ({facts.own_checkpoint}), so no "
                "deployment can move it."
            )
        if facts.cannot_reread:
            yield f"{who} cannot read the same rows again. {facts.cannot_reread}"


def _unsound(sinks: Sequence[SinkFacts], has_rewinder: bool, accepts_replay: bool) -> Iterable[str]:
    """Say which sinks would lose or double rows in a rewind."""
    shared = Counter(facts.target for facts in sinks if facts.habit is SinkReplaySemantics.FILE_LOG)
    for facts in sinks:
        who = named_query(facts.query)
        match facts.habit:
            case SinkReplaySemantics.FILE_LOG if not facts.target:
                yield f"{who} writes files to a place that is not known in full."
            case SinkReplaySemantics.FILE_LOG if shared[facts.target] > 1:
                yield f"{who} shares its output {facts.target} with another query."
            case SinkReplaySemantics.REMEMBERS | SinkReplaySemantics.UNKNOWN if not _is_covered(
                facts, has_rewinder
            ):
                yield _of_memory(facts)
            case SinkReplaySemantics.APPENDS if not (
                accepts_replay or _is_covered(facts, has_rewinder)
            ):
                yield f"{who} appends ({_named(facts)}), so its rows would be written twice."


def _of_memory(facts: SinkFacts) -> str:
    who = named_query(facts.query)
    if facts.habit is SinkReplaySemantics.REMEMBERS:
        return (
            f"{who} writes to a sink that remembers batch ids ({_named(facts)}): it would skip the "
            "repeated ids and silently lose their rows."
        )
    return (
        f"The sink of {who[0].lower()}{who[1:]} ({_named(facts)}) has no declared behavior for a "
        "repeated batch id."
    )


def _is_covered(facts: SinkFacts, has_rewinder: bool) -> bool:
    # Records in a topic have readers already; they cannot be taken back.
    return has_rewinder and facts.sink != KAFKA


def _named(facts: SinkFacts) -> str:
    return f"{facts.sink} {facts.target}".strip()


def _in_step(sinks: Sequence[SinkFacts], has_rewinder: bool) -> str:
    habits = {facts.habit for facts in sinks}
    said = []
    if SinkReplaySemantics.FILE_LOG in habits:
        said.append("file sinks are rewound, their newer files moved aside")
    if any(_is_covered(facts, has_rewinder) for facts in sinks if _asks_author(facts)):
        said.append("the given function takes newer batches out of the other sinks")
    if not said:
        said.append("no sink needs a rewind")
    return " and ".join(said)


def _asks_author(facts: SinkFacts) -> bool:
    return facts.habit not in (SinkReplaySemantics.FILE_LOG, SinkReplaySemantics.NOTHING)


def _replay(sinks: Sequence[SinkFacts], has_rewinder: bool) -> Iterable[str]:
    for facts in sinks:
        who = named_query(facts.query)
        if _is_covered(facts, has_rewinder) and _asks_author(facts):
            continue
        if facts.habit is SinkReplaySemantics.OVERWRITES:
            yield (
                f"{who} writes the batches after the boundary again under the same ids; rows of "
                "the new deployment stay visible until the old one has reached its last id."
            )
        elif facts.habit is SinkReplaySemantics.APPENDS:
            yield (
                f"{who} writes the rows of every batch after the boundary once more "
                f"({_named(facts)}); rows of the new deployment stay."
            )


def _misfits(back: GateReport, code_back: GateReport | None) -> list[str]:
    found = []
    for report in filter(None, (back, code_back)):
        found += [f.message for f in report.findings if f.severity not in _FITS]
    return list(dict.fromkeys(found))


def _and_state(sinks: Sequence[SinkFacts]) -> str:
    return ", and so does its effect on the state" if any(f.is_stateful for f in sinks) else ""


def _instead(sinks: Sequence[SinkFacts], has_rewinder: bool) -> str:
    if any(facts.own_checkpoint for facts in sinks):
        return "Let the script choose no checkpoint"
    if any(facts.cannot_reread for facts in sinks):
        return "Let the sources keep their input files (cleanSource off)"
    asking = [f for f in sinks if _asks_author(f) and not _is_covered(f, has_rewinder)]
    if any(f.habit is SinkReplaySemantics.UNKNOWN for f in asking):
        return (
            "Declare how the sink handles a repeated batch id, or give a function that removes "
            "batches (rewind_with)"
        )
    if any(f.habit is SinkReplaySemantics.REMEMBERS for f in asking):
        return "Give a function that takes batches back (rewind_with)"
    if asking:
        return f"Accept duplicate rows: accept={REPLAY}"
    return "Give every file sink an absolute output folder of its own"
