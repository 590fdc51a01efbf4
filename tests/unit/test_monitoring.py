"""Dashboards and alert rules in files say what the code says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from airflow_streaming.driver.sinks.figures import BATCH_FIGURES, PREFIX, SINK_FIGURES, Kind
from monitoring.generate import FILES, RULE_FIRING, dashboards, files

KNOWN = {
    f"{PREFIX}_{figure.full_name}{'_total' if figure.kind is Kind.COUNTER else ''}"
    for figure in (*BATCH_FIGURES, *SINK_FIGURES)
} | {f"{PREFIX}_query_info", RULE_FIRING}


@pytest.mark.parametrize("name", sorted(files()))
def test_a_file_is_what_the_code_gives(name: str) -> None:
    assert (FILES / name).read_text() == files()[name], "run: python -m monitoring.generate"


@pytest.mark.parametrize("name", sorted(files()))
def test_only_metrics_that_exist_are_asked_for(name: str) -> None:
    asked = set(re.findall(r"(?:spark|airflow)_streaming_\w+", files()[name]))
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
    file = Path(FILES / "prometheus/alerts.yaml")
    subprocess.run([promtool, "check", "rules", str(file)], check=True)
