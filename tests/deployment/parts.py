"""Parts of a deployment that die: each is killed, or stopped in order where it is a server of others, and comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tests.deployment.world import World
from tests.system.victims import worker as busy_worker

DOWN_SECONDS: Final = 5.0
"""How long a part is away before it is started again."""


def _worker(world: World) -> str:
    airflow = world.made.airflow
    for one in world.acting():
        if one["state"] == "running" and one["hostname"] in airflow.commands():
            return _component(world, one["hostname"])
    if any(name.startswith("worker") for name in airflow.commands()):
        return _any(world, "worker")
    return busy_worker(world.made.stage) or "no worker was busy"


def _triggerer(world: World) -> str:
    for one in world.acting():
        job = one.get("triggerer_job") or {}
        if job.get("hostname") in world.made.airflow.commands():
            return _component(world, job["hostname"])
    return _component(world, _first(world, "triggerer"))


def _first(world: World, kind: str) -> str:
    return next(name for name in world.made.airflow.commands() if name.startswith(kind))


def _any(world: World, kind: str) -> str:
    return _component(world, _first(world, kind))


def _component(world: World, name: str) -> str:
    killed = world.made.airflow.kill_component(name)
    time.sleep(DOWN_SECONDS)
    world.made.airflow.start_component(name)
    return f"{name}, {killed}"


def _server(world: World, *names: str) -> str:
    name = next(name for name in names if name in world.made.servers)
    server = world.made.servers[name]
    server.stop()
    time.sleep(DOWN_SECONDS)
    server.start()
    server.ready(world.say)
    return server.name


PARTS: Final[Mapping[str, Callable[[World], str]]] = {
    "worker": _worker,
    "triggerer": _triggerer,
    "scheduler": partial(_any, kind="scheduler"),
    "api-server": partial(_any, kind="api-server"),
    "database": lambda world: _server(world, "postgresql", "mariadb"),
    "redis": lambda world: _server(world, "redis"),
    "proxy": lambda world: _server(world, "proxy"),
}
"""Kill a part, or stop it in order where it is a server of others, and start it again after a while."""
