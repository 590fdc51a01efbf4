"""
Print facts of Airflow and this package as a line of JSON: ``python -m airflow_streaming.hooks.airflow_facts``.

``airflow-streaming check`` runs it in a process of its own.
"""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from airflow_streaming.advice.installation.installation_probes import MARK
from airflow_streaming.settings import read_settings

TRIGGERS: Final = ("stream", "change", "gate", "question", "asset")
PROVIDER: Final = "airflow-streaming"
PLUGIN: Final = "airflow_streaming"
EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound


def facts() -> dict[str, Any]:
    """Return what Airflow's configuration, plugins and providers say."""
    from airflow.sdk.configuration import conf

    settings = read_settings()
    return {
        "airflow": {
            "version": version("apache-airflow-core"),
            "executor": conf.get("core", "executor"),
            "capacity": conf.getint("triggerer", "capacity"),
            "queues_enabled": conf.getboolean("triggerer", "queues_enabled", fallback=False),
            "trigger_queues": settings.trigger_queues.to_dict(),
            "base_url": _base_url(conf),
            "provider": _provider(),
            "plugin": _plugin(),
            "triggers": _triggers(),
        },
        "runtimes": dict(settings.runtimes),
        "homes": list(settings.homes),
        "driver_folder": str(settings.driver_folder),
    }


def _base_url(conf: Any) -> str:
    """Return ``[api] base_url``, or the address of an API server on this host."""
    if set_by_user := conf.get("api", "base_url", fallback=""):
        return str(set_by_user)
    is_encrypted = all(conf.get("api", key, fallback="") for key in ("ssl_cert", "ssl_key"))
    host = conf.get("api", "host", fallback="")
    named = "localhost" if host in EVERY_ADDRESS else f"[{host}]" if ":" in host else host
    port = conf.get("api", "port", fallback="8080")
    return f"{'https' if is_encrypted else 'http'}://{named}:{port}"


def _provider() -> str:
    from airflow.providers_manager import ProvidersManager

    try:
        known = ProvidersManager().providers
    except Exception as err:  # noqa: BLE001 - of any provider
        return f"the providers cannot be read: {err}"
    return "" if PROVIDER in known else f"{len(known)} providers, without {PROVIDER}"


def _plugin() -> str:
    from airflow import plugins_manager

    plugins = plugins_manager.get_plugin_info(["name"])
    if any(plugin["name"] == PLUGIN for plugin in plugins):
        return ""
    errors = plugins_manager.get_import_errors()
    own = [text for source, text in errors.items() if PLUGIN in source]
    return f"not loaded: {own[0]}" if own else f"not among {len(plugins)} plugins"


def _triggers() -> str:
    for name in TRIGGERS:
        try:
            import_module(f"airflow_streaming.triggers.{name}")
        except Exception as err:  # noqa: BLE001 - an import raises anything
            return f"airflow_streaming.triggers.{name}: {type(err).__name__}: {err}"
    return ""


if __name__ == "__main__":
    print(f"{MARK}{json.dumps(facts())}", flush=True)  # noqa: T201 - a program that prints
