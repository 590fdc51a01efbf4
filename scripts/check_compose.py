"""
Checks docker-compose.yaml as far as that goes without Docker.

It finds a service that waits for a missing one, a host without a service, a mount of a renamed file, a port that
others can reach, an image that left its registry, an install without a version, a Spark script that would find another
pyspark, an input that nothing writes, and a build context of gigabytes. Images are not pulled. `tests.compose.play` runs
the commands.

    python scripts/check_compose.py [FILE]
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

REPOSITORY: Final = Path(__file__).resolve().parent.parent
FILE: Final = REPOSITORY / "docker-compose.yaml"
CONDITIONS: Final = frozenset(
    {"service_started", "service_healthy", "service_completed_successfully"}
)
KNOWN: Final = frozenset(
    {
        *("image", "build", "labels", "environment", "command", "entrypoint", "volumes", "ports"),
        *("healthcheck", "depends_on", "init", "restart", "hostname", "pull_policy", "user"),
        "working_dir",
    }
)
WITHDRAWN: Final = {
    "minio/minio": "2026-09-11",
    "minio/mc": "2026-09-11",
}
"""Images that cannot be pulled from Docker Hub any more, with the date."""
MOST_CONTEXT: Final = 50_000_000
"""Bytes of a build context."""
_SPARK_SCRIPT: Final = re.compile(r"(?:^|\s)(?:\S*/)?spark-(?:submit|class|shell|sql)\b")
_INSTALL: Final = re.compile(r"\bpip install\b([^&|;\n]*)")
_URL: Final = re.compile(
    r"(?:[a-z][a-z0-9+]*://|\b)(?:[\w-]+:[\w-]+@)?([a-z][a-z0-9-]*)(?::\d{4,5})\b"
)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HERE: Final = frozenset({"localhost"})


def problems(text: str, repository: Path = REPOSITORY) -> list[str]:
    """
    Return what is wrong with a Compose file, a sentence each.

    :param text: The file.
    :param repository: Where its relative paths start.
    """
    try:
        told = yaml.safe_load(text)
    except yaml.YAMLError as err:
        return [f"It is not YAML: {err}"]
    services = told.get("services") if isinstance(told, Mapping) else None
    if not isinstance(services, Mapping) or not services:
        return ["It has no services."]
    found = [
        *_volumes(told, services, repository),
        *_ports(services),
        *_builds(services, repository),
    ]
    found += _inputs(services)
    for name, service in services.items():
        found += [f"{name}: {what}" for what in _service(service, services, repository)]
    return found


def _service(service: Mapping[str, Any], services: Any, repository: Path) -> Iterator[str]:
    for key in sorted(set(service) - KNOWN):
        yield f"{key!r} is not checked by this script; correct it, or teach the script."
    image, is_built = str(service.get("image", "")), "build" in service
    if not image and not is_built:
        yield "it has neither image nor build."
    if (
        image
        and not is_built
        and image not in _built_images(services)
        and (why := _unpinned(image))
    ):
        yield f"image {image!r} {why}"
    recipe = _recipe(service)
    for base in re.findall(r"^FROM\s+(\S+)", recipe, re.MULTILINE):
        if why := _unpinned(base):
            yield f"it is built from {base!r}, which {why}"
    yield from _steps(recipe)
    yield from _spark(service)
    yield from _health(service, services)
    yield from _depends(service, services)
    yield from _used(service, repository)
    yield from _hosts(service, services)
    yield from _json(service.get("environment") or {})


def _unpinned(image: str) -> str:
    """Return why an image may be another one tomorrow; empty when it names its tag and its digest."""
    name, _, digest = image.partition("@")
    if gone := WITHDRAWN.get(name.partition(":")[0]):
        return f"cannot be pulled: it left its registry on {gone}."
    tag = name.rpartition("/")[2].partition(":")[2]
    if not tag or tag == "latest":
        return "names no version."
    return (
        "" if _DIGEST.fullmatch(digest) else "has no digest; a tag can be moved to another image."
    )


def _recipe(service: Mapping[str, Any]) -> str:
    built = service.get("build")
    text = str(built.get("dockerfile_inline", "")) if isinstance(built, Mapping) else ""
    return text.replace("\\\n", " ")


def _built_images(services: Mapping[str, Any]) -> set[str]:
    return {str(one.get("image")) for one in services.values() if "build" in one}


def _steps(recipe: str) -> Iterator[str]:
    """Yield the problems of the steps that build an image."""
    for step in re.findall(r"^RUN\s+(.*)$", recipe, re.MULTILINE):
        for arguments in _INSTALL.findall(step):
            if "--constraint" not in arguments and "==" not in arguments:
                yield f"'pip install{arguments.rstrip()}' names no versions. Add --constraint."
        if _SPARK_SCRIPT.search(step) and "SPARK_HOME=" not in step:
            yield (
                "a step runs a script of Spark without SPARK_HOME; the script asks the first python3 of the path for "
                "pyspark, and that is Airflow's."
            )


def _spark(service: Mapping[str, Any]) -> Iterator[str]:
    command = " ".join(json.dumps(service.get(key) or "") for key in ("entrypoint", "command"))
    if _SPARK_SCRIPT.search(command.replace('"', " ")) and "SPARK_HOME" not in (
        service.get("environment") or {}
    ):
        yield "it runs a script of Spark without SPARK_HOME, which would find Airflow's pyspark."


def _health(service: Mapping[str, Any], services: Mapping[str, Any]) -> Iterator[str]:
    """Require a healthcheck of each service that others need and that does not end."""
    for other in service.get("depends_on") or {}:
        told = services.get(other, {})
        if told.get("restart") not in ("no", None) and "healthcheck" not in told:
            yield f"it needs {other!r}, which has no healthcheck that says when it is ready."


def _builds(services: Mapping[str, Any], repository: Path) -> Iterator[str]:
    building = [name for name, one in services.items() if "build" in one]
    if len(building) > 1:
        yield f"{len(building)} services build an image ({', '.join(building)}). Let one build it and the others name it."
    if building and (size := context_size(repository)) > MOST_CONTEXT:
        yield (
            f"The build context has {size / 1e6:,.0f} MB, and {MOST_CONTEXT / 1e6:.0f} MB are allowed. Add what the "
            "image does not need to .dockerignore."
        )


def context_size(repository: Path) -> int:
    """Return the bytes that a build sends, by the lines of ``.dockerignore`` that are names, ``*`` or ``!NAME``."""
    ignore = repository / ".dockerignore"
    lines = ignore.read_text().splitlines() if ignore.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    kept = {line[1:] for line in patterns if line.startswith("!")}
    dropped = {line.strip("/") for line in patterns if not line.startswith("!")}
    tops = [
        one for one in repository.iterdir() if one.name in kept or not {"*", one.name} & dropped
    ]
    files = [file for top in tops for file in ([top] if top.is_file() else top.rglob("*"))]
    return sum(file.lstat().st_size for file in files if file.is_file())


def _inputs(services: Mapping[str, Any]) -> Iterator[str]:
    """Require a service that writes each folder or topic that an example reads."""
    told = {
        name: str(value)
        for one in services.values()
        for name, value in (one.get("environment") or {}).items()
        if re.fullmatch(r"AIRFLOW_VAR_\w*(INPUT|TOPICS)", name)
    }
    commands = [
        json.dumps([one.get(key) for key in ("entrypoint", "command")])
        for one in services.values()
        if "demo." in json.dumps([one.get("entrypoint"), one.get("command")])
    ]
    for name, value in told.items():
        for part in value.split(","):
            if not any(part in command for command in commands):
                yield f"{name} names {part!r}, and no service writes there."


def _depends(service: Mapping[str, Any], services: Any) -> Iterator[str]:
    wanted = service.get("depends_on") or {}
    for other in wanted:
        if other not in services:
            yield f"it depends on {other!r}, which is no service."
            continue
        condition = wanted[other]["condition"] if isinstance(wanted, Mapping) else "service_started"
        if condition not in CONDITIONS:
            yield f"the condition {condition!r} is unknown."
        if condition == "service_healthy" and "healthcheck" not in services[other]:
            yield f"it waits until {other!r} is healthy, which has no healthcheck."
        if condition == "service_completed_successfully" and services[other].get("restart") not in (
            "no",
            None,
        ):
            yield f"it waits for the end of {other!r}, which is restarted for ever."


def _used(service: Mapping[str, Any], repository: Path) -> Iterator[str]:
    example = (service.get("labels") or {}).get("used-by")
    if not example:
        yield "no example uses it; name one in the label 'used-by', or remove the service."
    elif not (repository / example).is_file():
        yield f"the example {example!r} that uses it is not there."


def _hosts(service: Mapping[str, Any], services: Any) -> Iterator[str]:
    environment = service.get("environment") or {}
    texts = [str(value) for value in environment.values()]
    texts += [json.dumps(service.get(key)) for key in ("command", "healthcheck")]
    for text in texts:
        for host in _URL.findall(text):
            if host not in services and host not in _HERE:
                yield f"{host!r} in {text[:80]!r} is no service."


def _json(environment: Mapping[str, Any]) -> Iterator[str]:
    for name, value in environment.items():
        if not name.startswith("AIRFLOW_CONN_") and not name.endswith("__RUNTIMES"):
            continue
        try:
            json.loads(value)
        except (TypeError, ValueError):
            yield f"{name} is no JSON."


def _volumes(told: Mapping[str, Any], services: Any, repository: Path) -> Iterator[str]:
    declared, used = set(told.get("volumes") or {}), set()
    for name, service in services.items():
        for volume in service.get("volumes") or []:
            source = volume.split(":")[0]
            if not source.startswith("."):
                used.add(source)
            elif not (repository / source).exists():
                yield f"{name}: {source} is mounted and is not in the repository."
    yield from (f"Volume {one!r} is not declared." for one in sorted(used - declared))
    yield from (f"Volume {one!r} is used by no service." for one in sorted(declared - used))


def _ports(services: Any) -> Iterator[str]:
    taken: dict[str, str] = {}
    for name, service in services.items():
        for port in service.get("ports") or []:
            address, _, host = str(port).rpartition(":")[0].rpartition(":")
            if address != "127.0.0.1":
                yield f"{name}: port {port!r} is reachable from other machines; bind it to 127.0.0.1."
            if host in taken:
                yield f"{name}: port {host} of this machine is {taken[host]}'s already."
            taken[host] = name


def scraped(text: str) -> list[str]:
    """Return the hosts that a configuration of Prometheus scrapes."""
    jobs = yaml.safe_load(text)["scrape_configs"]
    found = [target for job in jobs for one in job["static_configs"] for target in one["targets"]]
    return [target.partition(":")[0] for target in found]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    text = file.read_text()
    found = problems(text)
    if file == FILE and not found:
        services = yaml.safe_load(text)["services"]
        config = (REPOSITORY / "monitoring/compose/prometheus.yaml").read_text()
        found = [
            f"Prometheus scrapes {host!r}, which is no service."
            for host in scraped(config)
            if host not in services
        ]
    sys.stdout.write(("\n".join(found) or f"{file.name}: nothing found.") + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
