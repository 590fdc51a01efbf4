"""Steps between releases: what the migration guides and security notices say of a way up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.checkpoint.finding import FindingCode
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.version.case import Case
from airflow_streaming.core.compatibility.version.release import Release

_GUIDE: Final = "Spark's migration guide of Structured Streaming"
_STREAMING: Final = "spark.sql.streaming."
_VERIFIES: Final = _STREAMING + "checkpoint.verifyMetadataExists.enabled"
_ANSI: Final = "spark.sql.ansi.enabled"
_ADAPTIVE: Final = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.streaming.stateless.enabled")
_EVENT_LOG: Final = "spark.eventLog.enabled"
_NESTED: Final = ("struct<", "array<", "map<", "variant")

OUTER_JOIN_2: Final = Rule(
    name="version.outer_join_of_spark_2",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The state of outer joins of Spark 2 lacks what makes their rows right; newer ones "
    "refuse it.",
    source=f"{_GUIDE} 3.0, SPARK-26154",
    remedy="Begin with a new checkpoint.",
)
STRICT_DISTRIBUTION: Final = Rule(
    name="version.strict_distribution",
    severity=GateDecision.ALLOWED,
    sentence="State was distributed less strictly before Spark 3.3; this checkpoint keeps its way.",
    source=f"{_GUIDE} 3.3, SPARK-38204",
)
ANSI: Final = Rule(
    name="version.ansi",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Spark 4 is in ANSI mode by default: an overflow, a division by zero or a text that is "
    "no number ends the query, where Spark 3 gave null or went on.",
    source="Spark's SQL migration guide 4.0, SPARK-44444",
    remedy=f"Set {_ANSI}=false to keep the old ways, or make such rows null in the code (try_cast, "
    "try_divide).",
)
NOT_ANSI: Final = Rule(
    name="version.not_ansi",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Spark 3 is not in ANSI mode by default: an overflow, a division by zero or a text "
    "that is no number gives null or a wrapped number, where Spark 4 ended the query.",
    source="Spark's SQL migration guide 4.0, SPARK-44444",
    remedy=f"Set {_ANSI}=true to keep the ways of Spark 4.",
)
ADAPTIVE: Final = Rule(
    name="version.adaptive_stateless",
    severity=GateDecision.ALLOWED,
    sentence="From Spark 4.1 on, queries without state are planned adaptively: a batch may have "
    "another number of partitions, and a file sink another number of files.",
    source=f"{_GUIDE} 4.1",
)
NO_METADATA: Final = Rule(
    name="version.no_metadata_file",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The checkpoint has no metadata file; from Spark 4.2 on it is refused.",
    source=f"{_GUIDE} 4.2, SPARK-55058; measured",
    remedy=f"Restore the file from a backup, or set {_VERIFIES}=false once; the query then gets a "
    "new id.",
)
LOST_ID: Final = Rule(
    name="version.new_query_id",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The checkpoint has no metadata file; the query gets a new id, without a word.",
    source="measured: what each defect does on restart",
    remedy="Restore the file from a backup.",
)
PARTITION_TYPES: Final = Rule(
    name="version.partition_types",
    severity=GateDecision.NOT_ALLOWED,
    sentence="From Spark 4.3 on a file sink refuses partition columns of nested types.",
    source=f"{_GUIDE} 4.3; INVALID_PARTITION_COLUMN_DATA_TYPE",
    remedy="Partition by columns of simple types; that is another output path.",
)
SECURITY: Final = Rule(
    name="version.security",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Whoever can write to the event logs of this Spark can run code in its History Server "
    "(CVE-2025-54920).",
    source="CVE-2025-54920; fixed in 3.5.7 and 4.0.1",
    remedy="Take 3.5.7, 4.0.1 or newer, or keep event logs where only Spark can write.",
)

RULES: Final = (
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


def steps(case: Case) -> Iterator[GateFinding]:
    """Yield what the notes say of the way from one release to the other."""
    yield from _spark_3(case)
    yield from _ansi(case)
    yield from _without_metadata(case)
    if case.crosses("4.1") and _is_stateless(case) and _is_adaptive(case):
        yield ADAPTIVE.found(evidence="the checkpoint has no state")
    yield from _partition_types(case)
    if is_unsafe(case.target) and not _is_off(case, _EVENT_LOG):
        yield SECURITY.found(new=case.target.text, evidence="the version itself")


def is_unsafe(release: Release) -> bool:
    """Tell whether a release has the hole that 3.5.7 and 4.0.1 closed."""
    if release.minor == (4, 0):
        return release.is_before("4.0.1")
    return release.is_before("3.5.7")


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
        yield rule.found(old=old, evidence=f"the configuration does not say {_ANSI}")


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
                f"The file sink is partitioned by {name}, which is {types[name]}; from Spark 4.3 "
                "on that is refused.",
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
