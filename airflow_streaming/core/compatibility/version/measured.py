"""What the matrix says of the way there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.version.case import Case
from airflow_streaming.core.compatibility.version.key_order import KeyOrder
from airflow_streaming.core.compatibility.version.matrix import Outcome, Seen
from airflow_streaming.core.compatibility.version.shape import Shape

SCHEMA_CHECK: Final = "spark.sql.streaming.stateStore.stateSchemaCheck"

_MATRIX: Final = "measured: the version matrix"
_ANEW: Final = "Begin with a new checkpoint beside the old stream."

SAME_MINOR: Final = Rule(
    name="version.same_minor",
    severity=GateDecision.ALLOWED,
    sentence="Releases of one minor version write the same formats.",
    source="Spark's versioning policy: a maintenance release brings fixes alone",
)
MEASURED: Final = Rule(
    name="version.measured",
    severity=GateDecision.ALLOWED,
    sentence="Such a query went on with the same rows.",
    source=_MATRIX,
)
APART: Final = Rule(
    name="version.measured_apart",
    severity=GateDecision.ALLOWED,
    sentence="Such a query went on with the same rows on another state store, and this state store "
    "with other queries. The two do not know of each other.",
    source=_MATRIX,
)
MOVED: Final = Rule(
    name="version.rows_in_other_batches",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Such a query gave the same rows, some of them in other batches.",
    source=_MATRIX,
)
FAILED: Final = Rule(
    name="version.failed",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Spark failed on the checkpoint of such a query.",
    source=_MATRIX,
    remedy=_ANEW,
)
OTHER_ROWS: Final = Rule(
    name="version.other_rows",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Such a query started and gave other rows, without any error.",
    source=_MATRIX,
    remedy=_ANEW,
)
NEEDS_CONF: Final = Rule(
    name="version.needs_conf",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Spark fails on the state schema of such a join: Spark 3.5 noted that a column is "
    "never null where Spark 4 plans for nulls.",
    source=f"{_MATRIX}; the migration guide says nothing of it",
    remedy=f"Set {SCHEMA_CHECK}=false for the first run, with no change of code in it, and take it "
    "out again after that.",
)
CONF_GIVEN: Final = Rule(
    name="version.needed_conf_given",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="With Spark's check of state schemas off such a query went on with the same rows. "
    "While it is off Spark does not notice a change of code that does not fit the state.",
    source=_MATRIX,
    remedy=f"Take {SCHEMA_CHECK} out again after the first run.",
)
OTHER_ORDER: Final = Rule(
    name="version.deduplication_order",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Duplicates are dropped by more than four columns, and this Spark keeps them in "
    "another order than they have in the state. With columns of several types it refuses the state "
    "(STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE); with columns of one type it drops no duplicate of "
    "what came before, without a word.",
    source=f"{_MATRIX}; SPARK-57489 for Spark 4.3",
    remedy="Begin with a new checkpoint beside the old stream. The next time drop duplicates by one "
    "column that is made of the others, e.g. a struct or a hash.",
)
UNTOLD_ORDER: Final = Rule(
    name="version.deduplication_order_untold",
    severity=GateDecision.UNKNOWN,
    sentence="Duplicates are dropped by more than four columns, which releases keep in different "
    "orders; the order in the state is none that their names account for.",
    source=_MATRIX,
    remedy="Rehearse it with input that holds duplicates of earlier batches.",
)
AMBIGUOUS: Final = Rule(
    name="version.ambiguous",
    severity=GateDecision.UNKNOWN,
    sentence="The checkpoint does not tell which of several shapes the query has, and they fare "
    "differently.",
    source=_MATRIX,
    remedy="Give the query's plan (airflow-streaming plan SCRIPT --runtime NAME --json).",
)
NOT_MEASURED: Final = Rule(
    name="version.not_measured",
    severity=GateDecision.UNKNOWN,
    sentence="Nobody has measured such a query with this pair of versions.",
    source="not measured",
    remedy="Rehearse it: run the new Spark on a clone of the checkpoint.",
)

RULES: Final = (
    SAME_MINOR,
    MEASURED,
    APART,
    MOVED,
    FAILED,
    OTHER_ROWS,
    NEEDS_CONF,
    CONF_GIVEN,
    OTHER_ORDER,
    UNTOLD_ORDER,
    AMBIGUOUS,
    NOT_MEASURED,
)


def measured(case: Case) -> Iterator[GateFinding]:
    """Yield what the matrix says; always one finding."""
    if case.stays:
        yield SAME_MINOR.found(evidence=f"Spark {case.start.text} and Spark {case.target.text}")
        return
    order = case.key_order
    if order in _OF_ORDER:
        yield _OF_ORDER[order].found(evidence=f"the state schema; {case.exact_pair} were measured")
        return
    seen = case.seen or case.seen_apart
    if not seen or any(not shape.name for shape in case.shapes):
        yield _not_measured(case)
        return
    decided = never_null(case)
    # What failed in the measurement failed by what this state does not say.
    harmless = decided is False or order is KeyOrder.SAME
    rules = {MEASURED if harmless else _rule(one, case, decided) for one in seen.values()}
    rule = rules.pop() if len(rules) == 1 else _of_several(rules)
    if case.seen:
        yield rule.found(evidence=_evidence(case, seen, decided))
    elif rule.severity is GateDecision.NOT_ALLOWED and decided is None:
        # It may have failed by its store, which is another one.
        yield _not_measured(case)
    else:
        yield _apart(rule, case)


def _not_measured(case: Case) -> GateFinding:
    shapes = ", ".join(sorted({shape.text for shape in case.shapes}))
    others = "; ".join(sorted(_failed_elsewhere(case)))
    return NOT_MEASURED.found(
        f"Nobody has measured this with Spark {case.start.text} to {case.target.text}: {shapes}.",
        evidence=f"the version matrix of {case.matrix.measured}; told by "
        f"{case.shapes[0].told_by}{f'; elsewhere: {others}' if others else ''}",
    )


def _failed_elsewhere(case: Case) -> Iterator[str]:
    for shape in case.shapes:
        others = case.matrix.elsewhere(shape.name, shape.store, case.pair)
        for store, seen in others.items():
            if not seen.there.is_fine:
                yield _of(replace(shape, store=store), seen)


def _apart(rule: Rule, case: Case) -> GateFinding:
    shapes = ", ".join(sorted({shape.text for shape in case.shapes}))
    return (APART if rule is MEASURED else rule).found(
        evidence=f"measured on {case.matrix.measured}, {case.exact_pair}: the query on other state "
        f"stores, and the state store with other queries; here it is {shapes}"
    )


def never_null(case: Case) -> bool | None:
    """
    Tell whether the state of a join says that a column is never null.

    It is asked of joins alone, on the way from Spark 3 to 4: there it decides, whatever the type
    of the join, because Spark 3 noted it of the very columns that are joined by.

    :return: ``None`` where it does not matter, or the schemas are not known.
    """
    if not (case.has_join and case.crosses("4.0")) or not case.schemas:
        return None
    sides = [schema for schema in case.schemas if schema.store.endswith("-keyWithIndexToValue")]
    return any(not column.nullable for schema in sides for column in schema.value)


def _rule(seen: Seen, case: Case, decided: bool | None) -> Rule:
    needs_conf = seen.unchecked.is_fine if decided is None else decided
    if needs_conf:
        off = case.conf.get(SCHEMA_CHECK, "true").strip().lower() == "false"
        return CONF_GIVEN if off else NEEDS_CONF
    return _BY_OUTCOME[seen.there]


_OF_ORDER: Final[Mapping[KeyOrder | None, Rule]] = {
    KeyOrder.DIFFERENT: OTHER_ORDER,
    KeyOrder.UNTOLD: UNTOLD_ORDER,
}

_BY_OUTCOME: Final[Mapping[Outcome, Rule]] = {
    Outcome.SAME: MEASURED,
    Outcome.MOVED: MOVED,
    Outcome.OTHER: OTHER_ROWS,
    Outcome.FAILED: FAILED,
    Outcome.UNTRIED: NOT_MEASURED,
}


def _of_several(rules: set[Rule]) -> Rule:
    refused = {rule.severity is GateDecision.NOT_ALLOWED for rule in rules}
    if len(refused) > 1:
        return AMBIGUOUS
    return max(rules, key=lambda rule: (rule.severity.weight, rule.name))


def _evidence(case: Case, seen: Mapping[Shape, Seen], decided: bool | None) -> str:
    shapes = ", ".join(_of(shape, one) for shape, one in seen.items())
    told_by = next(iter(seen)).told_by
    said = (
        {
            True: "; its state says that a column is never null",
            False: "; its state has no such column",
        }.get(bool(decided), "")
        if decided is not None
        else ""
    )
    return (
        f"measured on {case.matrix.measured}, {case.exact_pair}: {shapes}; what it is was told by "
        f"{told_by}{said}"
    )


def _of(shape: Shape, seen: Seen) -> str:
    what = f"{seen.there.value} rows" if seen.there is not Outcome.FAILED else "failed"
    return f"{shape.text} {what}{f' ({seen.condition})' if seen.condition else ''}"
