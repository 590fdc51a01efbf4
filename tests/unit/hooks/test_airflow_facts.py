"""Parts of this package that Airflow lacks; the facts of a whole Airflow have an integration test."""

from __future__ import annotations

import pytest
from airflow.sdk.configuration import conf

from airflow_streaming.hooks import airflow_facts

CERTIFICATE = {"ssl_cert": "/etc/airflow/cert.pem", "ssl_key": "/etc/airflow/key.pem"}
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


@pytest.mark.parametrize(
    ("api", "address"),
    [
        pytest.param({}, "http://localhost:8080", id="defaults"),
        pytest.param({"port": "8765"}, "http://localhost:8765", id="another port"),
        pytest.param({"host": "0.0.0.0"}, "http://localhost:8080", id="every address"),  # noqa: S104
        pytest.param({"host": "10.0.0.5"}, "http://10.0.0.5:8080", id="one address"),
        pytest.param({"host": "::1"}, "http://[::1]:8080", id="version 6"),
        pytest.param({"ssl_cert": "/etc/cert.pem"}, "http://localhost:8080", id="half of TLS"),
        pytest.param(CERTIFICATE, "https://localhost:8080", id="TLS"),
        pytest.param(
            {"base_url": "https://airflow.example.org", "port": "8765"},
            "https://airflow.example.org",
            id="a base_url",
        ),
    ],
)
def test_the_address_of_the_api_server(
    api: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("base_url", "host", "port", "ssl_cert", "ssl_key"):
        monkeypatch.delenv(f"AIRFLOW__API__{key.upper()}", raising=False)
    for key, value in api.items():
        monkeypatch.setenv(f"AIRFLOW__API__{key.upper()}", value)
    assert airflow_facts._base_url(conf) == address
