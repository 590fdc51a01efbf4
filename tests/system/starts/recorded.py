"""The result of each start by Spark version, a file of the corpus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from airflow_streaming.model.codec import reader_of
from airflow_streaming.model.spark.plan import QueryPlan, RefusedSource

FILE: Final = Path(__file__).resolve().parents[2] / "corpus" / "starts" / "truth.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """
    The result of a start.

    :param when: Where Spark refused: ``load``, ``start`` or ``batch``; empty where the query ran.
    :param says: Spark's sentence.
    :param plan: What the driver recorded; ``None`` for a source that was not opened.
    :param refused: That source.
    """

    name: str
    spark: str
    when: str
    says: str
    plan: QueryPlan | None = None
    refused: RefusedSource | None = None

    @property
    def is_possible(self) -> bool:
        """Tell whether that Spark has the types and functions of the start; else no source or sink was reached."""
        return self.plan is not None or self.refused is not None


def write(spark: str, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Record the results of cases with a Spark version; other results stay."""
    every = _all()
    every[spark] = {**every.get(spark, {}), **{k: dict(v) for k, v in found.items()}}
    lines = [
        f" {json.dumps(version)}: {{\n"
        + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(of.items()))
        + "\n }"
        for version, of in sorted(every.items())
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


@cache
def started() -> tuple[Started, ...]:
    """Return all starts of all versions."""
    return tuple(
        _read(name, spark, told) for spark, of in _all().items() for name, told in of.items()
    )


def _read(name: str, spark: str, told: Mapping[str, Any]) -> Started:
    refused = [reader_of(RefusedSource)(one, name) for one in told.get("refused", ())]
    return Started(
        name=name,
        spark=spark,
        when=told["when"],
        says=told["says"],
        plan=_plan(told["plan"]) if "plan" in told else None,
        refused=refused[-1] if refused else None,
    )


def _plan(told: Mapping[str, Any]) -> QueryPlan:
    plan: QueryPlan = reader_of(QueryPlan)(told, "plan")
    return plan


def _all() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found
