"""The check of the installation as the API server sees it, for users who administer Airflow."""

from __future__ import annotations

from typing import Any, Final

from airflow.api_fastapi.app import get_auth_manager

from airflow_streaming.advice.installation.installation_checks import (
    SERVER_CHECKS,
    Installation,
    SeenAirflow,
    SeenHome,
    SeenServer,
    judge,
    worst,
)
from airflow_streaming.exceptions import HomeNotInitialized, LookRefused, StreamingError
from airflow_streaming.hooks.airflow_facts import facts
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.model.codec import encode
from airflow_streaming.plugins.access.looks import Looks
from airflow_streaming.storage.probe import check_initialized

MOST_HOMES: Final = 16
"""Homes that one request looks at."""


def administers(user: Any) -> bool:
    """Tell whether a user may delete Airflow's connections, as those who administer it may."""
    allowed: bool = get_auth_manager().is_authorized_connection(method="DELETE", user=user)
    return allowed


async def installation_view(looks: Looks, told: dict[str, Any]) -> dict[str, Any]:
    """
    Return the lines of the check; homes are read and never written.

    :param told: What ``server_facts`` returned.
    """
    homes = [await _seen(looks, uri) for uri in told["homes"][:MOST_HOMES]]
    found = Installation(
        homes=tuple(homes),
        airflow=SeenAirflow.from_facts(told["airflow"]),
        server=SeenServer(health=told["health"]),
    )
    lines = judge(found, SERVER_CHECKS)
    return {"outcome": worst(lines).value, "checks": [encode(line) for line in lines]}


def server_facts() -> dict[str, Any]:
    """Return the facts of this process's Airflow, and the health of its components from the database."""
    from airflow.api.common.airflow_health import get_airflow_health

    health = {name: str(part.get("status") or "") for name, part in get_airflow_health().items()}
    return {**facts(), "health": health}


async def _seen(looks: Looks, uri: str) -> SeenHome:
    try:
        return await looks.look(uri, lambda: _look(uri))
    except (LookRefused, StreamingError) as err:
        return SeenHome(uri=uri, problem=str(err))


def _look(uri: str) -> SeenHome:
    home = StreamHomeHook(uri, looks_only=True).get_conn()
    try:
        check_initialized(home.store)
    except HomeNotInitialized:
        return SeenHome(uri=uri, is_made=False)
    return SeenHome(uri=uri, streams=len(home.streams()))
