"""
Rules on releases: migration steps, measured results, and the rollback.

That the way back is shut does not forbid to go: it is a consequence, which a backup heals. A user
who wants to go back without one asks for it strictly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from airflow_streaming.checkpoints.read.report import FindingCode
from airflow_streaming.gates.findings import GateDecision, GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.gates.version.case import Case
from airflow_streaming.gates.version.matrix import Outcome, Release, Seen
from airflow_streaming.gates.version.shape import KeyOrder, Shape
from airflow_streaming.model.spark.releases import EVENT_LOG_HOLE, RELEASES, is_fixed

_STREAMING: Final = "spark.sql.streaming."
_VERIFIES: Final = _STREAMING + "checkpoint.verifyMetadataExists.enabled"
_ANSI: Final = "spark.sql.ansi.enabled"
_ADAPTIVE: Final = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.streaming.stateless.enabled")
_EVENT_LOG: Final = "spark.eventLog.enabled"
_NESTED: Final = ("struct<", "array<", "map<", "variant")
OUTER_JOIN_2: Final = rule_named("version.outer_join_of_spark_2")
STRICT_DISTRIBUTION: Final = rule_named("version.strict_distribution")
ANSI: Final = rule_named("version.ansi")
NOT_ANSI: Final = rule_named("version.not_ansi")
ADAPTIVE: Final = rule_named("version.adaptive_stateless")
NO_METADATA: Final = rule_named("version.no_metadata_file")
LOST_ID: Final = rule_named("version.new_query_id")
PARTITION_TYPES: Final = rule_named("version.partition_types")
SECURITY: Final = rule_named("version.security")
RELEASE_STEP_RULES: Final = (
    OUTER_JOIN_2,
    STRICT_DISTRIBUTION,
    ANSI,
    NOT_ANSI,
    ADAPTIVE,
    NO_METADATA,
    LOST_ID,
    PARTITION_TYPES,
    SECURITY,
)

SCHEMA_CHECK: Final = "spark.sql.streaming.stateStore.stateSchemaCheck"
SAME_MINOR: Final = rule_named("version.same_minor")
MEASURED: Final = rule_named("version.measured")
APART: Final = rule_named("version.measured_apart")
MOVED: Final = rule_named("version.rows_in_other_batches")
FAILED: Final = rule_named("version.failed")
OTHER_ROWS: Final = rule_named("version.other_rows")
NEEDS_CONF: Final = rule_named("version.needs_conf")
CONF_GIVEN: Final = rule_named("version.needed_conf_given")
OTHER_ORDER: Final = rule_named("version.deduplication_order")
UNTOLD_ORDER: Final = rule_named("version.deduplication_order_untold")
AMBIGUOUS: Final = rule_named("version.ambiguous")
NOT_MEASURED: Final = rule_named("version.not_measured")
MEASURED_RULES: Final = (
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

CAN_COME_BACK: Final = rule_named("version.can_come_back")
NO_WAY_BACK: Final = rule_named("version.no_way_back")
BACK_FAILED: Final = rule_named("version.back.failed")
BACK_ORDER: Final = rule_named("version.back.deduplication_order")
BACK_FORMAT: Final = rule_named("version.back.format")
BACK_NOT_MEASURED: Final = rule_named("version.back.not_measured")
BACK_AMBIGUOUS: Final = rule_named("version.back.ambiguous")
ROLLBACK_RULES: Final = (
    CAN_COME_BACK,
    NO_WAY_BACK,
    BACK_FAILED,
    BACK_ORDER,
    BACK_FORMAT,
    BACK_NOT_MEASURED,
    BACK_AMBIGUOUS,
)
_AFTER_FAILURE: Final = (
    "The new Spark failed on such a query, and the old one continued as if the new one had "
    "never run."
)
_NEW_FORMATS: Final[Mapping[str, tuple[str, str]]] = {
    key: (value, release.name) for release in RELEASES for key, value in release.opt_in.items()
}
"""Settings that give an old checkpoint a new format: the value, and the first Spark to read it."""


def steps(case: Case) -> Iterator[GateFinding]:
    """Yield the release notes on the way from one release to the other."""
    yield from _spark_3(case)
    yield from _ansi(case)
    yield from _without_metadata(case)
    if case.crosses("4.1") and _is_stateless(case) and _is_adaptive(case):
        yield ADAPTIVE.found(evidence="the checkpoint has no state")
    yield from _partition_types(case)
    target = case.target
    is_safe = is_fixed(EVENT_LOG_HOLE, target.minor, target.patch)
    if not is_safe and not _is_off(case, _EVENT_LOG):
        yield SECURITY.found(new=case.target.text, evidence="the version itself")


def measured(case: Case) -> Iterator[GateFinding]:
    """Yield the matrix' result; always one finding."""
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
    # The measurement failed because of a part that this state does not have.
    harmless = decided is False or order is KeyOrder.SAME
    rules = {MEASURED if harmless else _measured_rule(one, case, decided) for one in seen.values()}
    rule = rules.pop() if len(rules) == 1 else _measured_of_several(rules)
    if case.seen:
        yield rule.found(evidence=_evidence(case, seen, decided))
    elif rule.severity is GateDecision.NOT_ALLOWED and decided is None:
        # It may have failed by its store, which is another one.
        yield _not_measured(case)
    else:
        yield _apart(rule, case)


def never_null(case: Case) -> bool | None:
    """
    Return whether the state of a join marks a column as never null.

    Only for joins on the way from Spark 3 to 4: there it decides for any type of join, because
    Spark 3 noted it for the join columns themselves.

    :return: ``None`` if irrelevant, or if the schemas are unknown.
    """
    if not (case.has_join and case.crosses("4.0")) or not case.schemas:
        return None
    sides = [schema for schema in case.schemas if schema.store.endswith("-keyWithIndexToValue")]
    return any(not column.nullable for schema in sides for column in schema.value)


def way_back(case: Case) -> Iterator[GateFinding]:
    """Yield the findings on the way back; always at least one."""
    yield from _new_formats(case)
    if case.stays:
        yield CAN_COME_BACK.found(SAME_MINOR.sentence, evidence="the two versions")
        return
    if case.key_order_back is KeyOrder.DIFFERENT:
        yield BACK_ORDER.found(evidence="the state schema")
        return
    seen = case.seen or case.seen_apart
    if not seen or any(not shape.name for shape in case.shapes):
        yield BACK_NOT_MEASURED.found(
            evidence=f"the version matrix of {case.matrix.measured} has no such way back"
        )
        return
    yield _measured_back(case, seen)


def as_consequence(findings: Iterator[GateFinding]) -> Iterator[GateFinding]:
    """Yield findings on the way back as those who go look at them: none of them forbids to go."""
    for finding in findings:
        if finding.severity is GateDecision.ALLOWED:
            yield finding
        else:
            yield NO_WAY_BACK.found(finding.message, evidence=finding.evidence)


def _spark_3(case: Case) -> Iterator[GateFinding]:
    pinned = case.checkpoint.conf.get(_STREAMING + "join.stateFormatVersion", "1")
    if case.crosses("3.0") and case.has_join and pinned == "1" and not _is_inner(case):
        yield OUTER_JOIN_2.found(old=f"join.stateFormatVersion={pinned}", evidence="offsets/")
    strict = case.checkpoint.conf.get(_STREAMING + "statefulOperator.useStrictDistribution")
    if case.crosses("3.3") and case.checkpoint.operators and strict != "true":
        yield STRICT_DISTRIBUTION.found(evidence="offsets/")


def _ansi(case: Case) -> Iterator[GateFinding]:
    crosses_down = not case.start.is_before("4.0") and case.target.is_before("4.0")
    if _ANSI in case.conf or not (case.crosses("4.0") or crosses_down):
        return
    old = case.plan.conf.get(_ANSI, "") if case.plan is not None else ""
    rule, default = (NOT_ANSI, "false") if crosses_down else (ANSI, "true")
    if old != default:
        yield rule.found(old=old, evidence=f"the configuration does not set {_ANSI}")


def _without_metadata(case: Case) -> Iterator[GateFinding]:
    if not any(one.code is FindingCode.METADATA_MISSING for one in case.checkpoint.problems):
        return
    refused = not case.target.is_before("4.2") and not _is_off(case, _VERIFIES)
    yield (NO_METADATA if refused else LOST_ID).found(evidence="metadata")


def _partition_types(case: Case) -> Iterator[GateFinding]:
    if case.plan is None or not case.crosses("4.3"):
        return
    types = {column.name: column.type for column in case.plan.sink.schema}
    for name in case.plan.sink.partitioned_by:
        if types.get(name, "").startswith(_NESTED):
            yield PARTITION_TYPES.found(
                f"The file sink is partitioned by {name}, which is {types[name]}; Spark 4.3 and "
                "newer refuse that.",
                old=name,
                evidence="the plan",
            )


def _is_inner(case: Case) -> bool:
    joins = [each.join_type for each in case.plan.operators if each.join_type] if case.plan else []
    return bool(joins) and all(join == "inner" for join in joins)


def _is_stateless(case: Case) -> bool:
    return not case.checkpoint.operators


def _is_adaptive(case: Case) -> bool:
    return not any(_is_off(case, key) for key in _ADAPTIVE)


def _is_off(case: Case, key: str) -> bool:
    return case.conf.get(key, "").strip().lower() == "false"


def _not_measured(case: Case) -> GateFinding:
    shapes = ", ".join(sorted({shape.text for shape in case.shapes}))
    others = "; ".join(sorted(_failed_elsewhere(case)))
    return NOT_MEASURED.found(
        f"Not measured with Spark {case.start.text} to {case.target.text}: {shapes}.",
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


def _measured_rule(seen: Seen, case: Case, decided: bool | None) -> Rule:
    needs_conf = seen.unchecked.is_fine if decided is None else decided
    if needs_conf:
        off = case.conf.get(SCHEMA_CHECK, "true").strip().lower() == "false"
        return CONF_GIVEN if off else NEEDS_CONF
    return _BY_OUTCOME[seen.there]


def _measured_of_several(rules: set[Rule]) -> Rule:
    refused = {rule.severity is GateDecision.NOT_ALLOWED for rule in rules}
    if len(refused) > 1:
        return AMBIGUOUS
    return max(rules, key=lambda rule: (rule.severity.weight, rule.name))


def _evidence(case: Case, seen: Mapping[Shape, Seen], decided: bool | None) -> str:
    shapes = ", ".join(_of(shape, one) for shape, one in seen.items())
    told_by = next(iter(seen)).told_by
    outcome = (
        {
            True: "; its state says that a column is never null",
            False: "; its state has no such column",
        }.get(bool(decided), "")
        if decided is not None
        else ""
    )
    return (
        f"measured on {case.matrix.measured}, {case.exact_pair}: {shapes}; shape known from "
        f"{told_by}{outcome}"
    )


def _of(shape: Shape, seen: Seen) -> str:
    what = f"{seen.there.value} rows" if seen.there is not Outcome.FAILED else "failed"
    return f"{shape.text} {what}{f' ({seen.condition})' if seen.condition else ''}"


def _measured_back(case: Case, seen: Mapping[Shape, Seen]) -> GateFinding:
    tried = {shape: _tried(one, case) for shape, one in seen.items()}
    rules = {_rule(outcome) for outcome, _ in tried.values()}
    rule = rules.pop() if len(rules) == 1 else _of_several(rules)
    if rule is BACK_FAILED and not case.seen:
        # It may have failed by its store, which is another one.
        rule = BACK_NOT_MEASURED
    after_failure = rule is CAN_COME_BACK and _all_failed(seen, case)
    results = ", ".join(_text(shape, *one, case) for shape, one in tried.items())
    return rule.found(
        _AFTER_FAILURE if after_failure else "",
        evidence=f"the version matrix of {case.matrix.measured}, {case.exact_pair} and back: {results}",
    )


def _tried(seen: Seen, case: Case) -> tuple[Outcome, str]:
    """Return the result of the way back, and Spark's condition."""
    if _goes_unchecked(seen, case):
        return seen.unchecked_back, ""
    return seen.back, seen.back_condition


def _goes_unchecked(seen: Seen, case: Case) -> bool:
    return seen.unchecked.is_fine and never_null(case) is not False


def _all_failed(seen: Mapping[Shape, Seen], case: Case) -> bool:
    return all(
        one.there is Outcome.FAILED and not _goes_unchecked(one, case) for one in seen.values()
    )


def _rule(outcome: Outcome) -> Rule:
    if outcome.is_fine:
        return CAN_COME_BACK
    return BACK_FAILED if outcome else BACK_NOT_MEASURED


def _of_several(rules: set[Rule]) -> Rule:
    return BACK_AMBIGUOUS if BACK_FAILED in rules else BACK_NOT_MEASURED


def _text(shape: Shape, outcome: Outcome, condition: str, case: Case) -> str:
    stores = "" if case.seen else ", on other state stores,"
    what = {Outcome.FAILED: "failed", Outcome.UNTRIED: "was not tried"}.get(
        outcome, f"{outcome.value} rows"
    )
    return f"{shape.text}{stores} {what}{f' ({condition})' if condition else ''}"


def _new_formats(case: Case) -> Iterator[GateFinding]:
    for key, (value, since) in _NEW_FORMATS.items():
        if case.conf.get(key, "").strip().lower() == value and _reads_not(case.start, since):
            yield BACK_FORMAT.found(
                f"{key}={value} makes a format that only Spark {since} and newer read.",
                old=case.start.text,
                new=f"{key}={value}",
                evidence="the new deployment's configuration",
            )


def _reads_not(release: Release, since: str) -> bool:
    return release.is_before(since)
