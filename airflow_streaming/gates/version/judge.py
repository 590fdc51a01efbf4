"""
Judging a change of Spark's version: the matrix first, rules after it.

Whether one can go and whether one can come back are two questions. A way back that is shut is a
consequence of going, which a backup heals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.findings import GateFinding, GateReport, report_of
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.gates.version import checkpoint_rules, release_rules
from airflow_streaming.gates.version.case import Case
from airflow_streaming.gates.version.checkpoint_rules import (
    FORMAT,
    NOTHING_WRITTEN,
    contradictions,
    pins,
    standing,
    writer,
)
from airflow_streaming.gates.version.matrix import Matrix, VersionQuestion, release_of
from airflow_streaming.gates.version.release_rules import as_consequence, measured, steps, way_back
from airflow_streaming.gates.version.shape import shapes_of
from airflow_streaming.model.spark.plan import QueryPlan

RULES: Final = (
    *checkpoint_rules.CHECKPOINT_RULES,
    *checkpoint_rules.WRITER_RULES,
    *checkpoint_rules.CONTRADICTION_RULES,
    *release_rules.MEASURED_RULES,
    *release_rules.ROLLBACK_RULES,
    *checkpoint_rules.PIN_RULES,
    *release_rules.RELEASE_STEP_RULES,
)


def judge_version(
    question: VersionQuestion,
    checkpoint: Checkpoint,
    plan: QueryPlan | None,
    matrix: Matrix,
    *,
    schemas: Sequence[StoreSchema] | None = None,
    query: str = "",
) -> GateReport:
    """
    Judge whether a query can continue with another Spark, and whether it can come back.

    :param plan: Its plan, if known; the checkpoint alone does not show the type of a join. A plan
        that contradicts the checkpoint is reported and ignored.
    :param schemas: State schemas of the checkpoint; on the way from Spark 3 to 4 they decide over
        joins, and with more than four columns over deduplication.
    :param query: Its name, for the findings.
    :raises SpecError: A version of the question is not a Spark version.
    """
    contrary = list(contradictions(plan, checkpoint, schemas or ()))
    case = _case(question, checkpoint, None if contrary else plan, matrix, schemas, query)
    return report_of(_of_query([*contrary, *_there(case)], query))


def can_come_back(
    question: VersionQuestion,
    checkpoint: Checkpoint,
    plan: QueryPlan | None,
    matrix: Matrix,
    *,
    schemas: Sequence[StoreSchema] | None = None,
    query: str = "",
) -> GateReport:
    """
    Judge whether the old Spark can read the new one's checkpoint, for the way back.

    :param question: The question of the way there: the way back starts at ``to_version``.
    :param checkpoint: The old Spark's checkpoint, before the new one has run.
    :raises SpecError: A version of the question is not a Spark version.
    """
    contrary = list(contradictions(plan, checkpoint, schemas or ()))
    case = _case(question, checkpoint, None if contrary else plan, matrix, schemas, query)
    if _is_empty(case):
        return report_of(_of_query([NOTHING_WRITTEN.found(evidence=checkpoint.uri)], query))
    return report_of(_of_query([*contrary, *writer(case), *way_back(case)], query))


def _case(
    question: VersionQuestion,
    checkpoint: Checkpoint,
    plan: QueryPlan | None,
    matrix: Matrix,
    schemas: Sequence[StoreSchema] | None,
    query: str,
) -> Case:
    return Case(
        query=query,
        start=release_of(question.from_version),
        target=release_of(question.to_version),
        conf=question.conf,
        checkpoint=checkpoint,
        plan=plan,
        schemas=None if schemas is None else tuple(schemas),
        matrix=matrix,
        shapes=shapes_of(checkpoint, plan, schemas or ()),
    )


def _there(case: Case) -> Iterator[GateFinding]:
    stands = list(standing(case))
    yield from stands
    yield from steps(case)
    if _is_empty(case):
        yield NOTHING_WRITTEN.found(evidence=case.checkpoint.uri)
        return
    yield from writer(case)
    yield from pins(case)
    yield from measured(case)
    if not case.stays and not any(one.rule == FORMAT.name for one in stands):
        yield from as_consequence(way_back(case))


def _is_empty(case: Case) -> bool:
    return case.checkpoint.last_planned_batch is None and not case.checkpoint.problems


def _of_query(findings: Iterable[GateFinding], query: str) -> Iterator[GateFinding]:
    return (replace(finding, query=query) for finding in findings)
