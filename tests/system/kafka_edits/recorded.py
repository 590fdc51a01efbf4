"""Truth, plans and checkpoints of the Kafka edits, files of the corpus."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_streaming.gates.change_gate import gate_change
from airflow_streaming.gates.findings import GateReport
from airflow_streaming.model.spark.plan import ScriptPlan
from tests.system.edits.edit import Edit, Truth
from tests.system.kafka_edits.catalogue import BASES, EDITS

CORPUS: Final = Path(__file__).resolve().parents[2] / "corpus" / "kafka_edits"
TRUTH: Final = CORPUS / "truth.json"
PLANS: Final = CORPUS / "plans.json"
CHECKPOINTS: Final = CORPUS / "checkpoints.tar.xz"
SERVERS: Final = "broker:9092"
"""The name of the broker in recorded plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The gate's answer to an edit, and what Spark made of it."""

    edit: Edit
    report: GateReport
    truth: Truth
    condition: str


def answers(folder: Path) -> Iterator[Answer]:
    """Ask the gate about every edit; the checkpoints are unpacked into a folder."""
    with tarfile.open(CHECKPOINTS) as archive:
        archive.extractall(folder, filter="data")
    truths, plans = read(TRUTH), _plans()
    for edit in EDITS:
        if edit.name not in plans:
            continue
        old = plans[edit.base.name]
        [query] = old.queries
        place = str(folder / edit.base.name / "checkpoint" / query.query)
        told = truths[edit.name]
        yield Answer(
            edit=edit,
            report=gate_change({query.query: place}, old.queries, plans[edit.name]),
            truth=Truth(told["truth"]),
            condition=told.get("condition", ""),
        )


def _plans() -> dict[str, ScriptPlan]:
    told = read(PLANS)
    bases = {base.name: told[base.name] for base in BASES}
    found = {}
    for name, plan in told.items():
        base = bases[name.partition(".")[0]]
        known = {query["query"]: query for query in base["queries"]}
        queries = [{**known.get(query["query"], {}), **query} for query in plan["queries"]]
        found[name] = ScriptPlan.from_dict({**base, **plan, "queries": queries})
    return found


def write_plans(plans: Mapping[str, ScriptPlan]) -> None:
    """Write the plans, of an edit the parts that differ from its base's."""
    whole = {name: plan.to_dict() for name, plan in plans.items()}
    shown = {}
    for name, plan in whole.items():
        base = whole[name.partition(".")[0]]
        if base is plan:
            shown[name] = plan
            continue
        known = {query["query"]: query for query in base["queries"]}
        queries = [_differing(query, known.get(query["query"], {})) for query in plan["queries"]]
        shown[name] = {**_differing(plan, base), "queries": queries}
    write(PLANS, shown)


def _differing(plan: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plan.items() if key == "query" or base.get(key) != value}


def read(file: Path) -> dict[str, Any]:
    """Read a file of the corpus; empty if it does not exist."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def write(file: Path, told: Mapping[str, Any]) -> None:
    """Write a file of the corpus, an edit a line."""
    lines = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in told.items())
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def pack(folders: Mapping[str, Path]) -> None:
    """Write the checkpoints of the bases."""
    with tarfile.open(CHECKPOINTS, "w:xz") as archive:
        for name, folder in folders.items():
            for path in sorted((folder / "checkpoint").rglob("*")):
                if path.is_file() and not path.name.startswith("."):
                    archive.add(path, f"{name}/{path.relative_to(folder)}", filter=_without_owner)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
