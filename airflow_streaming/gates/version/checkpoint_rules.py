"""
Rules on the checkpoint itself: its writer, its state, its pinned settings.

A newer Spark writes files that older ones do not, and every Spark pins the same settings in every
plan. So a version given too high is noticed by missing settings, and one given too low by
additional ones. Releases that pin the same settings, as 4.0 and 4.1, cannot be distinguished.

A plan has more facts than a checkpoint and is used for them, but never against the checkpoint's own
files. A plan of another query is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.checkpoints.read.formats import PINNED_SINCE, newer_than, too_new
from airflow_streaming.checkpoints.read.report import Checkpoint, FindingCode, SourceType, StoreType
from airflow_streaming.gates.change.checkpoint import sort_of
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import rule_named
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.gates.version.case import Case
from airflow_streaming.gates.version.shape import PIN
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.spark.releases import PINS

NOT_THE_WRITER: Final = rule_named("version.not_the_writer")
WRITTEN_BY_OLDER: Final = rule_named("version.written_by_older")
NOT_A_RELEASE: Final = rule_named("version.not_a_release")
WRITER_RULES: Final = (NOT_THE_WRITER, WRITTEN_BY_OLDER, NOT_A_RELEASE)
_ALWAYS_SINCE: Final[Mapping[str, str]] = {
    key: pin.throughout or release.name for key, (pin, release) in PINS.items()
}

CONTRADICTION: Final = rule_named("version.contradiction")
CONTRADICTION_RULES: Final = (CONTRADICTION,)

NOTHING_WRITTEN: Final = rule_named("version.nothing_written")
DAMAGED: Final = rule_named("version.damaged")
ASYNCHRONOUS: Final = rule_named("version.asynchronous_progress")
FORMAT: Final = rule_named("version.format")
SOURCE_READ: Final = rule_named("version.source_not_measured")
SOURCE_UNKNOWN: Final = rule_named("version.source_unknown")
CHECKPOINT_RULES: Final = (
    NOTHING_WRITTEN,
    DAMAGED,
    ASYNCHRONOUS,
    FORMAT,
    SOURCE_READ,
    SOURCE_UNKNOWN,
)
_MEASURED_SOURCES: Final = frozenset({SourceType.FILE, SourceType.NOT_STARTED})
# Its own rule looks at it: only newer Sparks mind.
_NO_METADATA: Final = FindingCode.METADATA_MISSING

_SQL: Final = "spark.sql."
_STREAMING: Final = "spark.sql.streaming."
_WHERE: Final = "the checkpoint's newest plan, in offsets/"
PINS_KEPT: Final = rule_named("version.pins_kept")
PINS_LOST: Final = rule_named("version.pins_lost")
DOWN_AND_UP: Final = rule_named("version.down_and_up")
CONF_OVERRIDDEN: Final = rule_named("version.conf_overridden")
PIN_RULES: Final = (PINS_KEPT, PINS_LOST, DOWN_AND_UP, CONF_OVERRIDDEN)
_MERGE: Final = _STREAMING + "stateStore.rocksdb.mergeOperatorVersion"
_EVOLUTION: Final = _STREAMING + "queryEvolution.enableSourceEvolution"
_PROTOBUF: Final = _SQL + "function.protobufExtensions.enabled"
OLD_VALUES: Final[Mapping[str, str]] = {
    key: pin.old_value for key, (pin, _) in PINS.items() if pin.old_value is not None
}
"""Spark's values of settings that a plan lacks."""


def writer(case: Case) -> Iterator[GateFinding]:
    """Yield contradictions to the given versions."""
    yield from _builds(case)
    report = case.checkpoint
    if newer_than(report.spark_at_least, case.start.name):
        yield NOT_THE_WRITER.found(
            f"The checkpoint was written by Spark {report.spark_at_least} or newer, but the "
            f"given last version is {case.start.text}.",
            old=case.start.text,
            new=report.spark_at_least or "",
            evidence=report.uri,
        )
    yield from _too_high(case)


def contradictions(
    plan: QueryPlan | None, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    """Yield what of a plan cannot be true of a checkpoint: its sources, its stateful operators."""
    if plan is None or checkpoint.last_planned_batch is None:
        return
    yield from _plan_sources(plan, checkpoint)
    if checkpoint.last_committed_batch is not None or checkpoint.operators:
        yield from _operators(plan, checkpoint, schemas)


def standing(case: Case) -> Iterator[GateFinding]:
    """Yield reasons against the checkpoint that do not depend on the matrix."""
    report = case.checkpoint
    for problem in report.problems:
        if problem.code is not _NO_METADATA:
            yield DAMAGED.found(problem.message, evidence=problem.path)
    for what in too_new(report, case.target.name):
        yield FORMAT.found(
            f"The checkpoint holds {what}, and Spark {case.target.text} cannot read it.",
            new=case.target.text,
            evidence=report.uri,
        )
    if report.async_progress and not case.stays:
        yield ASYNCHRONOUS.found(evidence=report.uri)
    yield from _sources(case)


def pins(case: Case) -> Iterator[GateFinding]:
    """Yield the effects on the pinned settings."""
    if case.goes_down:
        yield from _lost(case)
    elif case.goes_up:
        yield from _down_and_up(case)
        yield from _kept(case)
    yield from _overridden(case)


def _builds(case: Case) -> Iterator[GateFinding]:
    builds = [each.text for each in (case.start, case.target) if each.build]
    if builds and case.start.text != case.target.text:
        yield NOT_A_RELEASE.found(
            f"{' and '.join(f'Spark {text}' for text in builds)}: {NOT_A_RELEASE.sentence}",
            old=case.start.text,
            new=case.target.text,
            evidence="the given versions",
        )


def _too_high(case: Case) -> Iterator[GateFinding]:
    report, start = case.checkpoint, case.start
    if report.offset_log_version is None:
        # The plan is missing or unreadable.
        return
    lacking = [
        key
        for key, since in _ALWAYS_SINCE.items()
        if key not in report.conf and not newer_than(since, start.name)
    ]
    if lacking:
        # The table is in the order of the releases.
        since = _ALWAYS_SINCE[lacking[0]]
        yield WRITTEN_BY_OLDER.found(
            f"The given last version is Spark {start.text}. The newest plan lacks "
            f"{', '.join(lacking)}, which Spark {since} and newer pin in every plan: an "
            "older one wrote it.",
            old=f"older than Spark {since}",
            new=start.text,
            evidence=f"offsets/{report.last_planned_batch}",
        )


def _operators(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    planned = [operator.sort.value for operator in plan.operators]
    stored = [sort_of(operator, schemas) for operator in checkpoint.operators]
    # The plan has the sort that the files do not show.
    known = [
        sort.value if sort else (planned[place] if place < len(planned) else "other")
        for place, sort in enumerate(stored)
    ]
    if known != planned:
        folders = ", ".join(f"state/{operator.id}" for operator in checkpoint.operators)
        yield _found("stateful operators", known, planned, folders or "no folder state")


def _plan_sources(plan: QueryPlan, checkpoint: Checkpoint) -> Iterator[GateFinding]:
    stored = [position.name for position in checkpoint.sources]
    if not stored or not plan.sources:
        # Every streaming query has a source: such a plan does not tell its own.
        return
    planned = [source.name for source in plan.sources]
    evidence = f"offsets/{checkpoint.last_planned_batch}"
    if all(name.isdigit() for name in stored):
        if len(stored) != len(planned):
            yield _found("sources", [str(len(stored))], [str(len(planned))], evidence)
    elif not set(planned) <= set(stored):
        # The log keeps the line of a source that was taken out of the code.
        yield _found(
            "names of sources", stored, [name or "(no name)" for name in planned], evidence
        )


def _found(what: str, stored: list[str], planned: list[str], evidence: str) -> GateFinding:
    old, new = (", ".join(names) or "none" for names in (stored, planned))
    return CONTRADICTION.found(
        f"{CONTRADICTION.sentence} Its {what}: {old} in the checkpoint, {new} in the plan.",
        old=old,
        new=new,
        evidence=evidence,
    )


def _sources(case: Case) -> Iterator[GateFinding]:
    if case.stays:
        return
    for number, position in enumerate(case.checkpoint.sources):
        named = _said(case, number)
        if position.source is SourceType.KAFKA:
            yield SOURCE_READ.found(evidence=f"source {position.name}")
        elif position.source not in _MEASURED_SOURCES or named not in ("", "file"):
            source = named or position.source.value.replace("_", " ")
            yield SOURCE_UNKNOWN.found(
                f"Source {position.name} ({source}) was not measured with any pair of versions.",
                evidence=f"source {position.name}",
            )


def _said(case: Case, number: int) -> str:
    sources = case.plan.sources if case.plan is not None else ()
    return sources[number].source if number < len(sources) else ""


def _lost(case: Case) -> Iterator[GateFinding]:
    lost = [
        f"{key}={value}"
        for key, value in _of_weight(case, case.checkpoint.conf)
        if newer_than(PINNED_SINCE[key], case.target.name)
    ]
    if lost:
        yield PINS_LOST.found(
            f"Spark {case.target.text} does not know {', '.join(lost)} and leaves it out of its "
            "plans; after the next upgrade, the newer Spark uses the old value.",
            old=", ".join(lost),
            evidence=_WHERE,
        )


def _down_and_up(case: Case) -> Iterator[GateFinding]:
    lost = [
        f"{key}={value}"
        for key, value in _of_weight(case, case.checkpoint.lost_conf)
        if not newer_than(PINNED_SINCE[key], case.target.name)
        # If the order can be computed, it decides.
        and not (key == PIN and case.key_order is not None)
    ]
    if lost:
        yield DOWN_AND_UP.found(
            f"The checkpoint was started with {', '.join(lost)}; an older Spark has left it out "
            f"since, and Spark {case.target.text} uses the old value.",
            old=", ".join(lost),
            evidence="earlier plans in offsets/, and the newest one",
        )


def _of_weight(case: Case, conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield settings that have not their old values and that the query's operators go by."""
    for key, value in sorted(conf.items()):
        if value.lower() != OLD_VALUES.get(key, value.lower()) and _matters(case, key):
            yield key, value


def _matters(case: Case, key: str) -> bool:
    if key == _PROTOBUF:
        # It decides a function's result, with state or without.
        return True
    if key == _EVOLUTION:
        return case.checkpoint.offset_log_version == 2
    if key == PIN:
        return case.orders_duplicates
    if key == _MERGE:
        stores = {store.store for each in case.checkpoint.operators for store in each.stores}
        return bool(stores) and stores != {StoreType.HDFS}
    return bool(case.checkpoint.operators)


def _kept(case: Case) -> Iterator[GateFinding]:
    kept = [
        key
        for key, old in OLD_VALUES.items()
        if key not in case.checkpoint.conf
        and newer_than(PINNED_SINCE[key], case.start.name)
        and not newer_than(PINNED_SINCE[key], case.target.name)
    ]
    if kept and case.checkpoint.conf:
        yield PINS_KEPT.found(
            f"The checkpoint keeps the old values of {', '.join(kept)}.", evidence=_WHERE
        )


def _overridden(case: Case) -> Iterator[GateFinding]:
    for key in sorted(PINNED_SINCE.keys() & case.conf.keys() & case.checkpoint.conf.keys()):
        wanted, pinned = case.conf[key], case.checkpoint.conf[key]
        if wanted.strip().lower() != pinned.lower():
            yield CONF_OVERRIDDEN.found(
                f"The configuration sets {key}={wanted}, and the checkpoint has {pinned}; Spark "
                "silently continues with the pinned value.",
                old=pinned,
                new=wanted,
                evidence=_WHERE,
            )
