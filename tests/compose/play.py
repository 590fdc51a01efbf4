"""
Runs the services of docker-compose.yaml on one Linux host, without Docker.

    python -m tests.compose.play [--only SERVICE ...] [--stay]

Each service is a process in a network namespace of its own, with the names of the others in its hosts file. A folder
stands for the image: Airflow's environment, the runtime of the tests and the S3 server of the tests lie at the paths
that the image has. Steps that build the image are not run. PostgreSQL is the program of this host. The broker,
Prometheus and Grafana have no program here and are left out.

It needs root, ``ip``, ``unshare`` and overlay mounts. At the end the examples ``retail_revenue`` and ``on_a_cluster``
run in cluster mode, and each has committed a batch.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import yaml

from tests.integration.home.servers import S3A as S3A_JARS

REPOSITORY: Final = Path(__file__).resolve().parents[2]
AIRFLOW: Final = REPOSITORY / ".runtimes" / "deployment"
"""Airflow with a client of PostgreSQL, as the image has it; ``make deployment`` installs it."""
SPARK: Final = REPOSITORY / ".runtimes" / "spark-3.5"
"""In place of Spark 4.3: the jars of S3A that the package index has are those of this Spark's Hadoop."""
S3A: Final = REPOSITORY / ".runtimes" / "s3a"
LOCAL_IMAGE: Final = "airflow-streaming:local"
LEFT_OUT: Final = ("image", "broker", "topics", "prometheus", "grafana")
BRIDGE: Final = "as-compose"
NETWORK: Final = "10.213.7"
PATIENCE: Final = 1800.0
EXAMPLES: Final = {
    "retail_revenue": "/opt/airflow/shared/streams",
    "on_a_cluster": "s3://streams/home",
}
_AIRFLOW_WORDS: Final = frozenset({"bash", "python", "airflow"})
"""First words of a command that the image's entry point runs as they are; it gives all others to ``airflow``."""


def say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def words_of(value: object) -> list[str]:
    """Return a command of the file as its words; ``$$`` is one dollar."""
    told = value if isinstance(value, list) else shlex.split(str(value or ""))
    return [str(word).replace("$$", "$") for word in told]


def command_of(service: Mapping[str, Any]) -> list[str]:
    """Return the words that a container of the local image runs."""
    entrypoint, command = words_of(service.get("entrypoint")), words_of(service.get("command"))
    if entrypoint:
        return [*entrypoint, *command]
    return command if command[0] in _AIRFLOW_WORDS else ["airflow", *command]


def environment_of(service: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in (service.get("environment") or {}).items()}


def in_order(services: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the services so that each comes after the services that it depends on."""
    done: list[str] = []

    def add(name: str) -> None:
        for other in services[name].get("depends_on") or {}:
            if other in services:
                add(other)
        if name not in done:
            done.append(name)

    for name in services:
        add(name)
    return done


@dataclass
class Play:
    """
    The running services.

    :param folder: Logs, volumes and databases.
    """

    services: Mapping[str, Mapping[str, Any]]
    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._ip("link", "add", BRIDGE, "type", "bridge")
        self._ip("addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
        self._ip("link", "set", BRIDGE, "up")
        hosts = "127.0.0.1 localhost\n" + "".join(
            f"{NETWORK}.{number} {name}\n" for number, name in enumerate(self.services, 10)
        )
        for number, name in enumerate(self.services, 10):
            space = self.space(name)
            etc = Path("/etc/netns") / space
            etc.mkdir(parents=True, exist_ok=True)
            (etc / "hosts").write_text(hosts)
            self._ip("netns", "add", space)
            self._ip("link", "add", f"as{number}", "type", "veth", "peer", "name", f"asp{number}")
            self._ip("link", "set", f"asp{number}", "netns", space)
            self._ip("link", "set", f"as{number}", "master", BRIDGE, "up")
            for line in (
                ("link", "set", "lo", "up"),
                ("link", "set", f"asp{number}", "up"),
                ("addr", "add", f"{NETWORK}.{number}/24", "dev", f"asp{number}"),
            ):
                self._ip("-n", space, *line)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for name in self.services:
            found = subprocess.run(
                ["ip", "netns", "pids", self.space(name)],
                capture_output=True,
                text=True,
                check=False,
            )
            for pid in found.stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        for number, name in enumerate(self.services, 10):
            self._ip("link", "del", f"as{number}", check=False)
            self._ip("netns", "del", self.space(name), check=False)
            shutil.rmtree(Path("/etc/netns") / self.space(name), ignore_errors=True)
        self._ip("link", "del", BRIDGE, check=False)

    def space(self, name: str) -> str:
        return f"as-{name}"

    def _ip(self, *words: str, check: bool = True) -> None:
        subprocess.run(["ip", *words], check=check, capture_output=not check)

    def run(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], **given: Any
    ) -> Any:
        """Run a command as a service's container would; with the folder that stands for the image."""
        script = self._image_script(self.services[name])
        line = f"hostname {name}\n{script}exec {shlex.join(command)}"
        clean = {
            key: os.environ[key]
            for key in ("HOME", "LANG", "TERM", "JAVA_HOME")
            if key in os.environ
        }
        path = f"{AIRFLOW / 'bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        return subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                self.space(name),
                "unshare",
                "--mount",
                "--uts",
                "bash",
                "-c",
                line,
            ],
            env={**clean, "PATH": path, **environment},
            start_new_session=True,
            **given,
        )

    def _image_script(self, service: Mapping[str, Any]) -> str:
        """Return the shell lines that lay the image's folders, and the volumes of the service."""
        if service.get("image") != LOCAL_IMAGE:
            return ""
        written = Path(tempfile.mkdtemp(dir=self.folder / "image"))
        for layer in ("upper", "work"):
            (written / layer).mkdir()
        layers = (
            f"lowerdir={self.folder}/image/spark-extra:{SPARK.resolve()},"
            f"upperdir={written}/upper,workdir={written}/work"
        )
        lines = [
            "set -e",
            "mount -t tmpfs none /opt",
            "mkdir -p /opt/spark-4.3 /opt/object-store/bin /opt/airflow-streaming /opt/airflow/shared /opt/airflow/dags",
            f"mount -t overlay overlay -o {layers} /opt/spark-4.3",
            f"mount --bind {REPOSITORY} /opt/airflow-streaming",
            f"ln -s {REPOSITORY / '.venv/bin/weed'} /opt/object-store/bin/weed",
        ]
        for volume in service.get("volumes") or []:
            source, target, *_ = volume.split(":")
            origin = (
                (REPOSITORY / source)
                if source.startswith(".")
                else self.folder / "volumes" / source
            )
            if not source.startswith("."):
                origin.mkdir(parents=True, exist_ok=True)
            kind = "mkdir -p" if origin.is_dir() else f"mkdir -p $(dirname {target}) && touch"
            lines += [f"{kind} {target}", f"mount --bind {origin} {target}"]
        lines.append(f"cd {service.get('working_dir', '/opt/airflow')}")
        return "\n".join(lines) + "\n"

    def start(self, name: str) -> None:
        """Start one service after the conditions that it names."""
        service = self.services[name]
        for other, told in (service.get("depends_on") or {}).items():
            if other in self.services:
                self.await_condition(other, told["condition"])
        log = (self.folder / f"{name}.log").open("wb")
        environment = environment_of(service)
        if service.get("image") == LOCAL_IMAGE:
            environment = {"AIRFLOW_HOME": "/opt/airflow", **environment}
            command = command_of(service)
        else:
            command = STAND_INS[name](self.folder)
        say(f"{name}: {shlex.join(command)[:100]}")
        self.running[name] = self.run(
            name, command, environment, stdout=log, stderr=subprocess.STDOUT
        )

    def await_condition(self, name: str, condition: str) -> None:
        """
        Wait until a service meets the condition of another one.

        :raises RuntimeError: it cannot any more, or does not in time; with the end of its log.
        """
        process = self.running[name]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            code = process.poll()
            if condition == "service_completed_successfully" and code is not None:
                if code == 0:
                    return
                break
            if condition == "service_healthy" and code is not None:
                break
            if condition == "service_healthy" and self.is_healthy(name):
                return
            if condition == "service_started":
                return
            time.sleep(1)
        raise RuntimeError(f"{name} is not {condition}:\n{self.tail(name)}")

    def is_healthy(self, name: str) -> bool:
        test = HEALTH.get(name) or words_of(self.services[name]["healthcheck"]["test"])[1:]
        asked = self.run(name, test, {}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return asked.wait() == 0

    def tail(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def unpauses(self, dag: str) -> bool:
        told = self.ask(
            "scheduler", ["airflow", "dags", "unpause", dag, "--yes", "--output", "json"]
        )
        return "False" in told

    def ask(self, name: str, command: Sequence[str]) -> str:
        """Return the output of a command that runs beside a service, in its container."""
        environment = {"AIRFLOW_HOME": "/opt/airflow", **environment_of(self.services[name])}
        asked = self.run(name, command, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = asked.communicate()
        return (out or err).decode(errors="replace")


def postgres(folder: Path) -> list[str]:
    """PostgreSQL of this host, in place of the image's."""
    data = folder / "postgres"
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
    lines = [
        f"install -d -o postgres {data}",
        f"su postgres -s /bin/bash -c '{programs}/initdb -D {data} -A trust -U airflow'",
        f"echo \"listen_addresses = '*'\" >> {data}/postgresql.conf",
        f"echo 'host all all 0.0.0.0/0 trust' >> {data}/pg_hba.conf",
        f"su postgres -s /bin/bash -c '{programs}/pg_ctl -D {data} -o \"-k /tmp\" -w start'",
        f"{programs}/createdb -h localhost -U airflow airflow",
        "sleep infinity",
    ]
    return ["bash", "-c", "set -e\n" + "\n".join(lines)]


STAND_INS: Final[dict[str, Callable[[Path], list[str]]]] = {"postgres": postgres}
HEALTH: Final = {"postgres": ["pg_isready", "-h", "localhost", "-U", "airflow", "-d", "airflow"]}
"""Health checks of stand-ins."""


def lay_runtime(folder: Path) -> None:
    """Add to the runtime what the image's build adds: its SPARK_HOME under a fixed name, and the jars of S3A."""
    home = next((SPARK / "lib").glob("python3.*/site-packages/pyspark"))
    extra = folder / "image" / "spark-extra"
    extra.mkdir(parents=True)
    inside = Path("/opt/spark-4.3") / home.relative_to(SPARK)
    (extra / "home").symlink_to(inside)
    jars = extra / home.relative_to(SPARK) / "jars"
    jars.mkdir(parents=True)
    have = {path.name for path in (home / "jars").iterdir()}
    for jar in S3A.rglob("*.jar"):
        if jar.name not in have and S3A_JARS.match(jar.name):
            shutil.copy(jar, jars / jar.name)


def has_committed(play: Play, stream: str, home: str) -> bool:
    told = play.ask("scheduler", ["airflow-streaming", "status", stream, "--home", home, "--json"])
    try:
        status = json.loads(told)
    except ValueError:
        return False
    return any((query.get("batch") or -1) >= 0 for query in _queries(status))


def _queries(status: Any) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    if isinstance(status, Mapping):
        for key, value in status.items():
            if key == "queries" and isinstance(value, list):
                found += [one for one in value if isinstance(one, Mapping)]
            else:
                found += _queries(value)
    return found


def services_of(file: Path, only: Sequence[str] | None) -> dict[str, Mapping[str, Any]]:
    """Return the services that can run here, without what they need of the others."""
    told = yaml.safe_load(file.read_text())["services"]
    kept = [name for name in told if name not in LEFT_OUT and name in (only or told)]
    return {name: {**told[name], "depends_on": _kept(told[name], kept)} for name in kept}


def _kept(service: Mapping[str, Any], kept: Sequence[str]) -> dict[str, Any]:
    needed = service.get("depends_on") or {}
    return {other: told for other, told in needed.items() if other in kept}


def run_examples(play: Play) -> None:
    """Unpause the examples, and wait until each has committed a batch."""
    for dag in EXAMPLES:
        await_that(lambda dag=dag: play.unpauses(dag), f"{dag} is unpaused")
    for dag, home in EXAMPLES.items():
        await_that(lambda dag=dag, home=home: has_committed(play, dag, home), f"a batch of {dag}")
        say(play.ask("scheduler", ["airflow-streaming", "status", dag, "--home", home]))


def await_that(is_so: Callable[[], bool], what: str) -> None:
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() - begun > PATIENCE:
            raise RuntimeError(f"Not seen after {PATIENCE:.0f} s: {what}.")
        time.sleep(2)
    say(f"{what}: after {time.monotonic() - begun:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.compose.play")
    parser.add_argument("--file", type=Path, default=REPOSITORY / "docker-compose.yaml")
    parser.add_argument("--only", nargs="*", help="services to start; without the examples")
    parser.add_argument("--stay", action="store_true", help="keep the services until Ctrl-C")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    services = services_of(given.file, given.only)
    folder = Path(tempfile.mkdtemp(prefix="compose-"))
    folder.chmod(0o755)
    lay_runtime(folder)
    say(f"Logs: {folder}")
    with Play(services, folder) as play:
        for name in in_order(services):
            play.start(name)
        for name, service in services.items():
            if "healthcheck" in service:
                play.await_condition(name, "service_healthy")
                say(f"{name} is healthy")
        if not given.only:
            run_examples(play)
        while given.stay:
            time.sleep(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
