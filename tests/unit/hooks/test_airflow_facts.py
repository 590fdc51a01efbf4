"""Parts of this package that Airflow lacks; the facts of a whole Airflow have an integration test."""

from __future__ import annotations

import pytest

from airflow_streaming.hooks import airflow_facts

PLUGINS = "airflow.plugins_manager"


def test_a_plugin_that_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PLUGINS}.get_plugin_info", lambda _: [{"name": "other"}])
    monkeypatch.setattr(f"{PLUGINS}.get_import_errors", dict)
    assert airflow_facts._plugin() == "not among 1 plugins"
    broken = {"airflow_streaming: entry point": "ImportError: x"}
    monkeypatch.setattr(f"{PLUGINS}.get_import_errors", lambda: broken)
    assert airflow_facts._plugin() == "not loaded: ImportError: x"


def test_a_trigger_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_facts, "TRIGGERS", ("stream", "absent"))
    assert "triggers.absent: ModuleNotFoundError" in airflow_facts._triggers()
