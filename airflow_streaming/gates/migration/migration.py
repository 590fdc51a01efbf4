"""
The migration of a query's state, by which a refused change can continue.

It exists only where it explains every refusal of the change. A finding of another rule, or an unknown finding, leaves
the change refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.change import aggregation, joins, operators
from airflow_streaming.gates.change.pair import is_at_least
from airflow_streaming.gates.findings import GateDecision, GateFinding
from airflow_streaming.gates.migration import kept_joins
from airflow_streaming.gates.migration.migration_columns import (
    NoMigration,
    OtherState,
    Side,
    empty,
    migrated,
)
from airflow_streaming.gates.migration.reasons import reason_of
from airflow_streaming.gates.migration.restarts import (
    RESTARTING,
    Change,
    effect_of,
    restarted,
    with_restart,
)
from airflow_streaming.gates.stored import DEFAULT_STORE, StoreSchema
from airflow_streaming.model.jobs.migration import (
    Carry,
    Move,
    OperatorMigration,
    StateMigration,
)
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan

COVERED: Final = frozenset(
    rule.name
    for rule in (
        *(aggregation.AGGREGATES, aggregation.SHAPE, aggregation.TYPES, aggregation.KEYS),
        *(joins.COLUMNS, joins.ORDER),
        *(operators.FIRST, operators.LAST, operators.ADDED, operators.REMOVED, operators.SORT),
    )
)
"""Rules of refusals that a migration can lift."""
OLDEST: Final = (4, 2)
"""Spark's writer of state exists from here."""
ENCODING: Final = "spark.sql.streaming.stateStore.encodingFormat"
CHECKSUM: Final = "spark.sql.streaming.stateStore.rowChecksum.enabled"
AGGREGATION_FORMAT: Final = "spark.sql.streaming.aggregation.stateFormatVersion"
JOIN_FORMAT: Final = "spark.sql.streaming.join.stateFormatVersion"
_ROWS_NEED: Final = {
    ENCODING: ("unsaferow", "state in the encoding {value!r} cannot be written yet"),
    CHECKSUM: ("false", "state with row checksums cannot be written yet"),
    AGGREGATION_FORMAT: ("2", "aggregations of state format {value} cannot be written"),
}
_REFUSING: Final = frozenset({GateDecision.NOT_ALLOWED, GateDecision.UNKNOWN})
_MOVING: Final = frozenset({OperatorKind.TRANSFORM_WITH_STATE, OperatorKind.JOIN})
"""Operators with several stores, whose files name their folder."""
_SORTS: Final = {
    OperatorKind.AGGREGATE: "aggregation",
    OperatorKind.DEDUPLICATE: "deduplication",
    OperatorKind.DEDUPLICATE_WITHIN_WATERMARK: "deduplication",
}


Judge = Callable[[QueryPlan, QueryPlan], Sequence[GateFinding]]
"""Compares two plans without their checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """
    A refused change of one query.

    :param findings: The gate's findings of this query.
    """

    old: QueryPlan
    new: QueryPlan
    checkpoint: Checkpoint
    schemas: Sequence[StoreSchema]
    findings: Sequence[GateFinding]


def migration_of(subject: Subject, judge: Judge) -> StateMigration:
    """
    Return the migration that lifts every refusal of a change.

    :param judge: Judges plans from which the operators without a counterpart are removed.
    :raises NoMigration: no migration exists; the text is the reason.
    """
    check_spark(subject.new.spark)
    check_writable(subject.checkpoint)
    pairs = matched_operators(subject.old.operators, subject.new.operators)
    is_same = len(pairs) == len(subject.old.operators) == len(subject.new.operators)
    # Where no operator continues, no old state is left that a finding could be about.
    _check_findings(subject.findings, RESTARTING if is_same or not pairs else ())
    _check_the_rest(subject, pairs, judge)
    sources = {new: old for old, new in pairs}
    restarts = _restarts(subject) if is_same else {}
    found = [
        _operator(subject, number, sources, restarts)
        for number in range(len(subject.new.operators))
    ]
    if any(one.carry is Carry.COLUMNS for one in found):
        check_rows_writable(subject.checkpoint)
    used = {one.source for one in found}
    dropped = [number for number in range(len(subject.old.operators)) if number not in used]
    migration = StateMigration(
        query=subject.new.query, operators=tuple(found), dropped=tuple(dropped)
    )
    return replace(migration, consequences=tuple(_consequences(subject, migration, restarts)))


def check_spark(version: str) -> None:
    """
    Check that a Spark can write state.

    :raises NoMigration: it is too old.
    """
    if not is_at_least(version, OLDEST):
        raise NoMigration(
            f"Spark {version} has no writer of state. Upgrade Spark to 4.2 or newer with the running "
            "code first, then migrate."
        )


def matched_operators(
    old: Sequence[OperatorPlan], new: Sequence[OperatorPlan]
) -> list[tuple[int, int]]:
    """
    Return the numbers of the same operator in both plans, in order.

    :raises NoMigration: the plans are ambiguous.
    """
    if [one.sort for one in old] == [one.sort for one in new]:
        return [(number, number) for number in range(len(old))]
    found = [
        (a, b) for a, one in enumerate(old) for b, other in enumerate(new) if _alike(one, other)
    ]
    if len({a for a, _ in found}) < len(found) or len({b for _, b in found}) < len(found):
        raise NoMigration(
            "Two operators of one plan are alike, so the old state of either is unknown."
        )
    if [b for _, b in found] != sorted(b for _, b in found):
        raise NoMigration("Operators change places: their state is of other rows.")
    return found


def _alike(one: OperatorPlan, other: OperatorPlan) -> bool:
    """Tell whether two operators are one: equal in everything but the aggregates and what follows."""

    def own(operator: OperatorPlan) -> OperatorPlan:
        is_aggregate = operator.sort is OperatorKind.AGGREGATE
        return replace(
            operator,
            values=() if is_aggregate else operator.values,
            value_types=() if is_aggregate else operator.value_types,
            output_names=(),
            results=(),
            pushed=(),
            run_as="",
        )

    return own(one) == own(other)


def without_operators(plan: QueryPlan, gone: Iterable[int]) -> QueryPlan:
    """Return a plan without some stateful operators, and with the other ones numbered anew."""
    lost = set(gone)

    def below(count: int) -> int:
        return count - sum(number < count for number in lost)

    return replace(
        plan,
        operators=tuple(one for at, one in enumerate(plan.operators) if at not in lost),
        steps=tuple(replace(step, below=below(step.below)) for step in plan.steps),
        # The numbers of nodes follow the operators; the steps hold their content.
        nodes=(),
    )


def _check_findings(findings: Sequence[GateFinding], lifted: Collection[str] = ()) -> None:
    """
    Refuse findings that no migration lifts.

    :param lifted: Rules that a start without state lifts.
    """
    for finding in (one for one in findings if one.rule not in lifted):
        if finding.severity is GateDecision.NOT_ALLOWED and finding.rule not in COVERED:
            raise NoMigration(reason_of(finding.rule))
        if finding.severity is GateDecision.UNKNOWN:
            raise NoMigration(f"{finding.rule} is unknown, and the state may depend on it.")


def check_writable(checkpoint: Checkpoint) -> None:
    """
    Check that the state of a checkpoint is in a form that can be written.

    :raises NoMigration: it is not.
    """
    if checkpoint.state_format not in (None, 1):
        raise NoMigration("State of checkpoint format 2 cannot be written yet.")
    named = [operator.name for operator in checkpoint.operators]
    if None in named:
        raise NoMigration("Spark 3.5 or older wrote the state. Run one batch of Spark 4.2 first.")


def check_rows_writable(checkpoint: Checkpoint) -> None:
    """
    Check that rows of the state are in a form that can be written.

    :raises NoMigration: they are not.
    """
    for key, (expected, why) in _ROWS_NEED.items():
        value = checkpoint.conf.get(key, expected)
        if value.lower() != expected:
            raise NoMigration(f"{why.format(value=value).capitalize()}.")


def _restarts(subject: Subject) -> dict[int, str]:
    """Return the operators that start without state, with the reason of each."""
    change = Change(old=subject.old, new=subject.new)
    refusing = {one.rule for one in subject.findings if one.severity in _REFUSING}
    if all(map(_is_kept, subject.old.operators, subject.new.operators)):
        refusing -= kept_joins.LIFTED
    found = restarted(change, sorted(refusing & RESTARTING.keys()))
    # The deepest first: operators above a start without state need no comparison.
    for number in reversed(range(change.size)):
        try:
            _operator(subject, number, {number: number}, found)
        except OtherState as why:
            found = with_restart(found, number + 1, str(why))
    return found


def _is_kept(old: OperatorPlan, new: OperatorPlan) -> bool:
    return old == new or kept_joins.keeps_rows(old, new)


def _check_the_rest(subject: Subject, pairs: Sequence[tuple[int, int]], judge: Judge) -> None:
    """Judge what else differs, where operators without a counterpart hide it from the gate."""
    lost = set(range(len(subject.old.operators))) - {a for a, _ in pairs}
    come = set(range(len(subject.new.operators))) - {b for _, b in pairs}
    if not lost and not come:
        return
    old, new = without_operators(subject.old, lost), without_operators(subject.new, come)
    _check_findings(judge(old, new))


def _operator(
    subject: Subject, number: int, sources: Mapping[int, int], restarts: Mapping[int, str]
) -> OperatorMigration:
    new = Side(plan=subject.new, number=number)
    if number not in sources:
        return empty(new)
    if number in restarts:
        return _restart(subject, new)
    source = sources[number]
    schemas = [one for one in subject.schemas if one.operator == source]
    stored = next((one for one in schemas if one.store == DEFAULT_STORE), None)
    old = Side(plan=subject.old, number=source, stored=stored)
    name = next((o.name for o in subject.checkpoint.operators if o.id == source), None)
    is_changed = not (
        _alike(old.operator, new.operator) or kept_joins.keeps_rows(old.operator, new.operator)
    )
    if old.operator.sort is OperatorKind.AGGREGATE or is_changed:
        found = migrated(old, new)
        if any(column.move is not Move.KEEP for column in found.columns) or found.dropped:
            return found
    if source != number and old.operator.sort in _MOVING:
        raise NoMigration(
            f"The state of a {old.operator.sort.value} cannot get another number yet."
        )
    return OperatorMigration(operator=number, name=str(name), carry=Carry.WHOLE, source=source)


def _restart(subject: Subject, new: Side) -> OperatorMigration:
    """Return an operator of the old query that starts without state."""
    sort = new.operator.sort
    if sort is OperatorKind.TRANSFORM_WITH_STATE and len(subject.new.operators) > 1:
        raise NoMigration("State variables beside other operators cannot start without state yet.")
    if sort is OperatorKind.JOIN and subject.checkpoint.conf.get(JOIN_FORMAT, "2") != "2":
        raise NoMigration("A join of another state format than 2 cannot start without state yet.")
    known = (one.name for one in subject.checkpoint.operators if one.id == new.number)
    return empty(new, next(known, None))


def _consequences(
    subject: Subject, migration: StateMigration, restarts: Mapping[int, str]
) -> Iterator[str]:
    for number in (number for number in migration.dropped if number not in restarts):
        sort = _sort(subject.old.operators[number])
        yield f"The state of operator {number} ({sort}) is not used again."
    for one in migration.operators:
        sort = _sort(subject.new.operators[one.operator])
        if one.carry is Carry.EMPTY:
            effect = effect_of(subject.new.operators[one.operator].sort)
            why = f", because {restarts[one.operator]}" if one.operator in restarts else ""
            yield f"Operator {one.operator} ({sort}) starts without state{why}: {effect}."
        elif one.carry is Carry.WHOLE and _joins_otherwise(subject, one):
            yield f"Operator {one.operator} ({sort}) keeps its state: {kept_joins.EFFECT}."
        elif one.carry is Carry.WHOLE and one.source != one.operator:
            yield f"Operator {one.operator} ({sort}) continues with the state of operator {one.source}."
        elif one.carry is Carry.COLUMNS:
            yield from _of_columns(one)


def _joins_otherwise(subject: Subject, one: OperatorMigration) -> bool:
    old, new = subject.old.operators[one.source or 0], subject.new.operators[one.operator]
    return (old.condition, old.join_type, old.run_as) != (new.condition, new.join_type, new.run_as)


def _of_columns(one: OperatorMigration) -> Iterator[str]:
    for key in one.key:
        if key.move is Move.ADD:
            yield (
                f"The groups so far continue as groups with the declared {key.of}. Declare it as the initial value in "
                "the migration's file."
            )
    added = dict.fromkeys(column.of for column in one.value if column.move is Move.ADD)
    for text in added:
        yield f"{text} starts anew: its value covers only rows that are read after the migration."
    for text in one.dropped:
        yield f"The value of {text} is lost."
    for column in one.columns:
        if column.move is Move.WIDEN:
            yield f"{column.of} continues as {column.type}."
        elif column.move is Move.RENAME:
            yield f"Key {column.of} continues under the name {column.name}."
    if one.is_merged:
        yield f"Groups of operator {one.operator} that differ only in a removed key become one group."
    if any(column.move is Move.REORDER for column in one.columns):
        yield f"The other columns of operator {one.operator} continue with their values."


def _sort(operator: OperatorPlan) -> str:
    return _SORTS.get(operator.sort, operator.sort.value)
