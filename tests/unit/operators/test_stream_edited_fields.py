"""The table of `docs/operations.md` says of every field of a spec when an edit takes effect."""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.advice.profile import production
from airflow_streaming.exceptions import HomeNotInitialized
from airflow_streaming.model.arguments.autoscale import Autoscale
from airflow_streaming.model.arguments.form_policy import FormPolicy
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.spec import Freshness, StreamSpec
from tests.unit.world import World

WHEN = ("with `restart=True` or an upgrade", "as another stream")
PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
SIZE = {"spark.executor.instances": "2", "spark.executor.cores": "2"}
PIPELINE = "{name: a, storage: '{checkpoint}', libraries: [{glob: {include: flows.sql}}]}"
EDITS: dict[str, Any] = {
    "health": HealthRules(stall_after=timedelta(minutes=7)),
    "restart": RestartPolicy(reset_batches=7),
    "stop_grace": timedelta(minutes=7),
    "standby": True,
    "autoscale": Autoscale(min=1, max=4),
    "freshness": Freshness(complete_within=timedelta(minutes=7)),
    "labels": {"team": "payments"},
    "launcher": "local",
    "on_lost_host": "takeover",
    "lease": timedelta(minutes=7),
    "repair_sinks": False,
    "application": "another.py",
    "pipeline": "pipeline.yml",
    "application_args": ["--fast"],
    "conf": {**SIZE, "spark.sql.shuffle.partitions": "7"},
    "env": {"REGION": "eu"},
    "py_files": ["/lib/a.py"],
    "jars": ["/lib/a.jar"],
    "packages": ["a:b:1.0"],
    "files": ["/lib/a.txt"],
    "runtime": "spark-3.5",
    "profile": production(cores=8),
    "fair_pools": True,
    "checkpoint": "/elsewhere/checkpoint",
    "output": "/elsewhere/output",
    "form_policy": FormPolicy(fields=("env",)),
    "name": "sales",
    "home": "elsewhere",
}


def table() -> dict[str, str]:
    """Return when each field takes effect, by the page."""
    text = PAGE.read_text().split("### When an edited field takes effect")[1].split("\n\n")[1]
    rows = [line.strip("|").split("|") for line in text.splitlines()[2:]]
    found = [(name, row[0].strip()) for row in rows for name in re.findall(r"`(\w+)`", row[1])]
    assert len(dict(found)) == len(found), "a field stands in one row"
    return dict(found)


def test_every_field_has_a_row() -> None:
    assert set(table()) == {one.name for one in fields(StreamSpec)} == set(EDITS)


def test_an_edit_takes_effect_when_the_page_says(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = json.loads(os.environ["AIRFLOW__STREAMING__RUNTIMES"])
    known["spark-3.5"] = known["spark-4.3"]
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps(known))
    (world.folder / "another.py").write_text("# another script\n")
    (world.folder / "pipeline.yml").write_text(PIPELINE)
    (world.folder / "flows.sql").write_text("CREATE STREAMING TABLE t AS SELECT * FROM STREAM s")
    names = ("application", "pipeline", "home")
    in_folder = {name: str(world.folder / EDITS[name]) for name in names}
    world.run(world.operator(conf=SIZE))

    observed = {
        name: _takes_effect(world, world.operator(**{"conf": SIZE, **_cleared(name), name: value}))
        for name, value in {**EDITS, **in_folder}.items()
    }

    assert observed == {
        name: when if when in WHEN else "at the next launch or wake-up"
        for name, when in table().items()
    }


def _cleared(name: str) -> dict[str, str]:
    """A stream has one program, so the other one goes."""
    return {"application": ""} if name == "pipeline" else {}


def _takes_effect(world: World, edited: Any) -> str:
    current, hook = world.home.newest_deployment(), edited.open_hook(world.context())
    try:
        is_there = hook.home.newest_deployment() is not None
    except HomeNotInitialized:
        is_there = False
    if not is_there or current is None:
        return WHEN[1]
    if hook.proposal()[0].fingerprint != current.fingerprint:
        return WHEN[0]
    return "at the next launch or wake-up"
