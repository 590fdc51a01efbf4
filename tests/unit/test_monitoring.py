"""Dashboards and alert rules in files say what the code says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from airflow_streaming.driver.sinks.figures import BATCH_FIGURES, PREFIX, SINK_FIGURES, Kind
from airflow_streaming.model.health_rules import HealthRules
from monitoring.generate import HERE, dashboards, files

KNOWN = {
    f"{PREFIX}_{figure.full_name}{'_total' if figure.kind is Kind.COUNTER else ''}"
    for figure in (*BATCH_FIGURES, *SINK_FIGURES)
} | {f"{PREFIX}_query_info"}


@pytest.mark.parametrize("name", sorted(files()))
def test_a_file_is_what_the_code_gives(name: str) -> None:
    assert (HERE / name).read_text() == files()[name], "run: python -m monitoring.generate"


def test_every_recommended_rule_is_an_alert_or_cannot_be_told_by_prometheus() -> None:
    told = json.loads((HERE / "prometheus/alerts.yaml").read_text())
    alerts = {one["labels"]["rule"]: one for one in told["groups"][0]["rules"]}
    # Drivers do not send the interval of the processing trigger.
    untold = {"batch_over_interval"}
    rules = HealthRules.recommended().rules
    assert set(alerts) | untold == {rule.name for rule in rules}
    for rule in rules:
        if rule.name in untold:
            continue
        bound = float(alerts[rule.name]["expr"].split()[-1])
        assert bound == pytest.approx(rule.bound)
        assert ("for" in alerts[rule.name]) == bool(rule.sustained_for)
        assert alerts[rule.name]["labels"]["severity"] == rule.severity.value


@pytest.mark.parametrize("name", sorted(files()))
def test_only_metrics_that_drivers_send_are_asked_for(name: str) -> None:
    asked = set(re.findall(rf"{PREFIX}_\w+", files()[name]))
    assert asked
    assert asked <= KNOWN


def test_panels_do_not_overlap() -> None:
    for made in dashboards().values():
        places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in made["panels"]]
        assert len(places) == len(set(places))


def test_promtool_takes_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed, so the syntax of the alert rules is not checked.")
    file = Path(HERE / "prometheus/alerts.yaml")
    subprocess.run([promtool, "check", "rules", str(file)], check=True)
