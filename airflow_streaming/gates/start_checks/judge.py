"""
Sources and sinks held against the checks that Spark makes when a query starts.

A value that a plan hides as a secret is not judged. A format without rows passes: nothing is known of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.gates.start_checks.table import (
    ANY,
    CheckKind,
    Part,
    StartCheck,
    all_checks,
)
from airflow_streaming.gates.start_checks.types import types_in
from airflow_streaming.gates.start_checks.values import fits
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan, SourcePlan
from airflow_streaming.model.spark.secrets import REDACTED


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRefusal:
    """
    A check that a query does not pass.

    :param found: Columns, options or values of the plan that the check refuses, for readers.
    :param at: Place in the plan.
    """

    check: StartCheck
    found: str
    at: str


def refusals_of(plan: QueryPlan, running: Sequence[QueryPlan] = ()) -> list[StartRefusal]:
    """
    Return the checks that a query does not pass, sources first.

    :param running: Plans with which the query has run batches: Spark accepts all of their parts.
    """
    return _beyond(_all_refusals, plan, running)


def sink_refusals(plan: QueryPlan, running: Sequence[QueryPlan] = ()) -> list[StartRefusal]:
    """Return the checks that the sink of a query does not pass; see ``refusals_of``."""
    return _beyond(_sink_refusals, plan, running)


def source_refusals(source: SourcePlan, spark: str) -> list[StartRefusal]:
    """Return the checks that a source which was not opened does not pass."""
    # Spark gave it no columns: the schema is the script's.
    return list(_judged(_of_source(source, spark, "sources", has_schema=bool(source.schema))))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """A source or sink with the fields that checks read."""

    part: Part
    format: str
    at: str
    spark: str
    options: Mapping[str, str]
    columns: tuple[Column, ...] = ()
    target: str = ""
    partitioned_by: tuple[str, ...] = ()
    mode: str = ""
    trigger: str = ""
    ignores_case: bool = True
    has_schema: bool = False

    def cased(self, names: Iterable[str]) -> list[str]:
        """Return names of columns as the session compares them."""
        return [name.lower() if self.ignores_case else name for name in names]

    def partition_columns(self) -> list[Column]:
        """Return the columns that become folders."""
        return [column for column in self.columns if self._is_partition(column)]

    def written(self) -> list[Column]:
        """Return the columns that go into the files."""
        return [column for column in self.columns if not self._is_partition(column)]

    def _is_partition(self, column: Column) -> bool:
        [name] = self.cased([column.name])
        return name in self.cased(self.partitioned_by)


def _beyond(
    refusals: Callable[[QueryPlan], Iterator[StartRefusal]],
    plan: QueryPlan,
    running: Sequence[QueryPlan],
) -> list[StartRefusal]:
    accepted = [refusal for one in running for refusal in refusals(one)]
    return [refusal for refusal in refusals(plan) if refusal not in accepted]


def _all_refusals(plan: QueryPlan) -> Iterator[StartRefusal]:
    for number, source in enumerate(plan.sources):
        at = f"sources[{source.name or number}]"
        yield from _judged(_of_source(source, plan.spark, at, trigger=plan.processing_trigger))
    yield from _sink_refusals(plan)


def _sink_refusals(plan: QueryPlan) -> Iterator[StartRefusal]:
    return _judged(_of_sink(plan))


def _judged(subject: _Subject) -> Iterator[StartRefusal]:
    for check in all_checks():
        if check.part is not subject.part or not {subject.format, ANY} & set(check.of):
            continue
        if not _is_of(check, subject.spark) or (check.unless and check.unless in subject.options):
            continue
        for found in _KINDS[check.kind](check, subject):
            yield StartRefusal(check=check, found=found, at=subject.at)


def _of_source(
    source: SourcePlan, spark: str, at: str, *, trigger: str = "", has_schema: bool = False
) -> _Subject:
    reads = dict(path.partition(" ")[::2] for path in source.paths if " " in path)
    places = {"path": source.paths[0]} if source.paths and source.source == "file" else reads
    return _Subject(
        part=Part.SOURCE,
        format=source.format if source.source == "file" else source.source,
        at=at,
        spark=spark,
        options={**source.options, **places},
        columns=source.schema,
        trigger=trigger,
        has_schema=has_schema,
    )


def _of_sink(plan: QueryPlan) -> _Subject:
    sink: SinkPlan = plan.sink
    topic = {"topic": sink.target} if sink.sink == "kafka" and sink.target else {}
    return _Subject(
        part=Part.SINK,
        format=sink.format if sink.sink == "file" else sink.sink.lower(),
        at="sink",
        spark=plan.spark,
        options={**sink.options, **topic},
        columns=sink.schema,
        target=sink.target,
        partitioned_by=sink.partitioned_by,
        mode=plan.output_mode,
        trigger=plan.processing_trigger,
        ignores_case={**plan.settings, **plan.conf}.get("spark.sql.caseSensitive") != "true",
    )


def _is_of(check: StartCheck, spark: str) -> bool:
    release = _release(spark)
    return (not check.since or release >= _release(check.since)) and (
        not check.until or release <= _release(check.until)
    )


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _never(check: StartCheck, subject: _Subject) -> Iterator[str]:
    yield subject.format


def _refused_option(check: StartCheck, subject: _Subject) -> Iterator[str]:
    yield from (f"{key} = {subject.options[key]}" for key in check.keys if key in subject.options)


def _required_option(check: StartCheck, subject: _Subject) -> Iterator[str]:
    if not any(subject.options.get(key, "").strip() for key in check.keys):
        yield f"no {' or '.join(check.keys)}"


def _one_of(check: StartCheck, subject: _Subject) -> Iterator[str]:
    given = [key for key in check.keys if key in subject.options]
    if len(given) != 1:
        yield ", ".join(given) or f"none of {', '.join(check.keys)}"


def _apart(check: StartCheck, subject: _Subject) -> Iterator[str]:
    given = [key for key in check.keys if key in subject.options]
    if len(given) > 1:
        yield ", ".join(given)


def _rising(check: StartCheck, subject: _Subject) -> Iterator[str]:
    texts = [subject.options.get(key, "") for key in check.keys]
    numbers = [int(text) for text in texts if re.fullmatch(r"[+-]?\d{1,18}", text)]
    if len(numbers) == len(texts) and numbers != sorted(numbers):
        yield ", ".join(f"{key} = {text}" for key, text in zip(check.keys, texts, strict=True))


def _value(check: StartCheck, subject: _Subject) -> Iterator[str]:
    for key in check.keys:
        value = subject.options.get(key)
        if value is not None and value != REDACTED and not fits(check, value):
            yield f"{key} = {value}"


def _needs(check: StartCheck, subject: _Subject) -> Iterator[str]:
    asking, needed = check.keys
    value = subject.options.get(asking, "").lower()
    if value in check.values and not subject.options.get(needed, "").strip():
        yield f"{asking} = {value}, no {needed}"


def _no_schema(check: StartCheck, subject: _Subject) -> Iterator[str]:
    if subject.has_schema:
        yield ", ".join(f"{column.name} {column.type}" for column in subject.columns)


def _column(check: StartCheck, subject: _Subject) -> Iterator[str]:
    [name] = check.keys
    # KafkaWriter compares names exactly, also in a session without case sensitivity.
    column = next((one for one in subject.columns if one.name == name), None)
    if column is None:
        if check.required:
            yield f"columns: {', '.join(one.name for one in subject.columns) or 'none'}"
    elif column.type not in check.values:
        yield f"{name} {column.type}"


def _types(check: StartCheck, subject: _Subject) -> Iterator[str]:
    for column in subject.written():
        if types_in(column.type) & set(check.values):
            yield f"{column.name} {column.type}"


def _one_column(check: StartCheck, subject: _Subject) -> Iterator[str]:
    columns = subject.written()
    if [column.type for column in columns] not in [[kind] for kind in check.values]:
        yield ", ".join(f"{column.name} {column.type}" for column in columns)


def _unique(check: StartCheck, subject: _Subject) -> Iterator[str]:
    yield from _twice(subject.cased(column.name for column in subject.columns))


def _partitions_known(check: StartCheck, subject: _Subject) -> Iterator[str]:
    known = subject.cased(column.name for column in subject.columns)
    names = zip(subject.partitioned_by, subject.cased(subject.partitioned_by), strict=True)
    yield from (name for name, cased in names if cased not in known)


def _partitions_unique(check: StartCheck, subject: _Subject) -> Iterator[str]:
    yield from _twice(subject.cased(subject.partitioned_by))


def _partitions_leave(check: StartCheck, subject: _Subject) -> Iterator[str]:
    chosen = {*subject.cased(subject.partitioned_by)}
    if chosen and len(chosen) >= len(subject.columns):
        yield ", ".join(subject.partitioned_by)


def _partition_types(check: StartCheck, subject: _Subject) -> Iterator[str]:
    for column in subject.partition_columns():
        if re.split(r"[<(]", column.type)[0] in check.values:
            yield f"{column.name} {column.type}"


def _no_partitions(check: StartCheck, subject: _Subject) -> Iterator[str]:
    if subject.partitioned_by:
        yield ", ".join(subject.partitioned_by)


def _modes(check: StartCheck, subject: _Subject) -> Iterator[str]:
    if subject.mode not in check.values:
        yield f"{subject.mode} mode"


def _target(check: StartCheck, subject: _Subject) -> Iterator[str]:
    if not subject.target.strip():
        yield "none"


def _trigger(check: StartCheck, subject: _Subject) -> Iterator[str]:
    if subject.trigger.startswith(check.values):
        yield subject.trigger


_KINDS: Final[Mapping[CheckKind, Callable[[StartCheck, _Subject], Iterator[str]]]] = {
    CheckKind.NEVER: _never,
    CheckKind.REFUSED_OPTION: _refused_option,
    CheckKind.REQUIRED_OPTION: _required_option,
    CheckKind.ONE_OF: _one_of,
    CheckKind.APART: _apart,
    CheckKind.RISING: _rising,
    CheckKind.VALUE: _value,
    CheckKind.NEEDS: _needs,
    CheckKind.NO_SCHEMA: _no_schema,
    CheckKind.COLUMN: _column,
    CheckKind.TYPES: _types,
    CheckKind.ONE_COLUMN: _one_column,
    CheckKind.UNIQUE: _unique,
    CheckKind.PARTITIONS_KNOWN: _partitions_known,
    CheckKind.PARTITIONS_UNIQUE: _partitions_unique,
    CheckKind.PARTITIONS_LEAVE: _partitions_leave,
    CheckKind.PARTITION_TYPES: _partition_types,
    CheckKind.NO_PARTITIONS: _no_partitions,
    CheckKind.MODES: _modes,
    CheckKind.TARGET: _target,
    CheckKind.TRIGGER: _trigger,
}


def _twice(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
