"""The recorded plans of bases and edits, by Spark version; of an edit, what differs from its base."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from airflow_streaming.model.spark.plan import ScriptPlan
from tests.system.edits.edit import CORPUS

FILE: Final = CORPUS / "plans.json"
CHECKPOINTS: Final = CORPUS / "checkpoints.tar.xz"


def recorded_folder(base: str) -> str:
    """Return what stands in recorded plans for the folder of a run."""
    return f"/edits/{base}"


def names_paths(file: Path) -> bool:
    """Tell whether a file of a checkpoint holds paths of the place where it was written."""
    return file.parent.parent.name == "sources" or file.parts[-3:-1] == ("_metadata", "v2")


class Plans:
    """The plans that one Spark version made of all scripts, by the name of the base or edit."""

    def __init__(self, spark: str, plans: dict[str, ScriptPlan]) -> None:
        self.spark, self._plans = spark, plans

    @classmethod
    def of(cls, spark: str) -> Plans:
        """Return the recorded ones; none where nothing was recorded with that Spark."""
        return cls(spark, dict(_recorded(spark)))

    def __getitem__(self, name: str) -> ScriptPlan:
        return self._plans[name]

    def __contains__(self, name: str) -> bool:
        return name in self._plans

    def note(self, name: str, plan: ScriptPlan) -> ScriptPlan:
        """Keep a plan; a base comes before its edits."""
        self._plans[name] = plan
        return plan

    def write(self) -> None:
        """Put them on disk."""
        shown = {name: plan.to_dict() for name, plan in self._plans.items()}
        kept = {name: _shortened(plan, shown, name) for name, plan in shown.items()}
        every = {**_all(), self.spark: kept}
        lines = [
            f" {json.dumps(spark)}: {{\n"
            + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
            + "\n }"
            for spark, found in sorted(every.items())
        ]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


@cache
def _recorded(spark: str) -> Mapping[str, ScriptPlan]:
    full: dict[str, Any] = {}
    for name, plan in _all().get(spark, {}).items():
        full[name] = _completed(plan, full.get(name.partition(".")[0]))
    return {name: ScriptPlan.from_dict(plan) for name, plan in full.items()}


def _all() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found


def _shortened(plan: Mapping[str, Any], every: Mapping[str, Any], name: str) -> dict[str, Any]:
    base, dot, _ = name.partition(".")
    if not dot:
        return dict(plan)
    known = {query["query"]: query for query in every[base]["queries"]}
    queries = [_differing(query, known.get(query["query"], {})) for query in plan["queries"]]
    return {**_differing(plan, every[base]), "queries": queries}


def _differing(plan: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plan.items() if key == "query" or base.get(key) != value}


def _completed(plan: Mapping[str, Any], base: Mapping[str, Any] | None) -> dict[str, Any]:
    if base is None:
        return dict(plan)
    known = {query["query"]: query for query in base["queries"]}
    queries = [{**known.get(query["query"], {}), **query} for query in plan["queries"]]
    return {**base, **plan, "queries": queries}
