"""``airflow-streaming check`` asks a real Airflow, in a process of its own."""

from __future__ import annotations

from airflow_streaming.advice.installation.installation_checks import SeenAirflow
from airflow_streaming.advice.installation.installation_probes import ask_airflow


def test_this_airflow_has_provider_plugin_and_triggers() -> None:
    found, problem = ask_airflow()

    assert problem == ""
    seen = SeenAirflow(**found["airflow"])
    assert (seen.provider, seen.plugin, seen.triggers) == ("", "", "")
    assert seen.version.startswith("3.")
    assert seen.capacity > 0
    assert set(found) == {"airflow", "runtimes", "homes", "driver_folder"}
