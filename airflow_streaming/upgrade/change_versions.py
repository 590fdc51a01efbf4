"""
Change of Spark beside a change of code: which Spark wrote each checkpoint, and which will read it.

A plan says by which Spark it was made. So nobody who compares the plans of two Sparks has to think
of asking the version gate as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.core.compatibility.change.unseen import SPARK
from airflow_streaming.core.compatibility.finding import GateFinding
from airflow_streaming.core.conf import parse_spark_version
from airflow_streaming.core.plan.plan import QueryPlan
from airflow_streaming.upgrade.version_gate import gate_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """
    From which Spark to which.

    :param start: The Spark that wrote the checkpoints; default: that of the old plans.
    :param target: The Spark that will run the new code; default: that of its plan. Given, the
        version gate is asked even where nothing changes.
    :param conf: Configuration of the new deployment, as far as it is given.
    """

    start: str = ""
    target: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)


AS_PLANNED: Final = Versions()
"""The Sparks by which the plans were made."""


def judge_versions(
    checkpoints: Mapping[str, str],
    old: Sequence[QueryPlan],
    target: str,
    versions: Versions,
    storage_options: Mapping[str, Any] | None,
) -> Iterator[GateFinding]:
    """
    Yield what the version gate says of every checkpoint that another Spark is to read.

    :param checkpoints: URI of those that are there, by query.
    :param target: The Spark of the new plan.
    :raises SpecError: not a Spark version.
    :raises HomeUnavailable: a store cannot be reached.
    """
    by_query = {plan.query: plan.spark for plan in old}
    # One deployment has one Spark, so another query's plan tells it as well.
    sparks = {plan.spark for plan in old}
    common = next(iter(sparks)) if len(sparks) == 1 else ""
    for query, uri in checkpoints.items():
        start = versions.start or by_query.get(query) or common
        to = versions.target or target
        if not start:
            yield SPARK.found(query=query, new=to, evidence="no old plan, and no version is given")
        elif versions.target or parse_spark_version(start) != parse_spark_version(to):
            plans = [plan for plan in old if plan.query == query]
            yield from gate_version(
                {query: uri},
                start,
                to,
                conf=versions.conf,
                plans=plans,
                storage_options=storage_options,
            ).findings
