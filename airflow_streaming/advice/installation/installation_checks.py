"""
Judge an installation: from facts that probes have gathered to one line for each thing that a stream needs.

Each line has the value seen, the value expected and the next step. Every fact may be missing: the line then says
"unknown", which is never well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.advice.installation.airflow_issues import NEWEST_TRIED, issues_of, version_of
from airflow_streaming.advice.installation.check_line import CheckOutcome, Line
from airflow_streaming.advice.installation.queue_checks import (
    SeenQueue,
    queue_lines,
    queue_setting_line,
)
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.fleet.trigger_queues import NO_QUEUES, TriggerQueues

OLDEST_AIRFLOW: Final = (3, 3, 0)
SLOW_HOME_MS: Final = 1000.0
"""A heartbeat and its reader make some ten requests within a few seconds."""
SKEW_SECONDS: Final = 30.0
MOST_ROW_OBJECTS: Final = 200
"""Objects with rows that `list` and the fleet page read."""
LITTLE_DISK: Final = 1_000_000_000
SOME_DISK: Final = 5_000_000_000
LITTLE_MEMORY: Final = 1_500_000_000
"""Memory of a driver with the default heap of 1 GB, its Python and the JVM's own."""
FEW_FILES: Final = 4096
FEW_PROCESSES: Final = 4096
UI_PORTS: Final = range(4040, 4056)
"""Ports that Spark tries for the page of a driver."""
PAGE: Final = "/streaming/app/"
PRESENT: Final = frozenset({200, 302, 303, 307, 401, 403})
"""Answers of a server that has the page; it may want a user first."""

_ORDER: Final = list(CheckOutcome)
_PARTS: Final = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_UNWATCHED: Final = "Start it: without a triggerer the streams are not watched."


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRuntime:
    """
    A Spark runtime.

    :param problem: Why it cannot be used; empty when it can.
    """

    name: str
    spark: str = ""
    java: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRows:
    """
    The rows that triggers leave in a home for readers of the fleet.

    :param malformed: Objects that cannot be read.
    :param ahead: Objects with dates to come, by the clock of this host.
    :param newest_age_s: Age of the newest row.
    :param watched: Streams with a row that a reader may believe.
    """

    objects: int = 0
    rows: int = 0
    malformed: int = 0
    ahead: int = 0
    newest_age_s: float | None = None
    watched: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHome:
    """
    A home, after a race of writers in it.

    :param problem: Why it could not be read or written.
    :param is_made: It has the record of ``airflow-streaming init``.
    :param flaw: Why exclusive create cannot be relied on; empty when it can.
    :param latency_ms: Of one file, created and read; ``None`` when not measured.
    :param skew_s: Seconds by which the store's clock is ahead of this host's.
    """

    uri: str
    problem: str = ""
    is_made: bool = True
    flaw: str = ""
    latency_ms: float | None = None
    skew_s: float | None = None
    streams: int = 0
    rows: SeenRows = SeenRows()
    queues: tuple[SeenQueue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAirflow:
    """
    Airflow's own settings and registrations.

    :param plugin: Why the plugin is not loaded; empty when it is. ``provider`` and ``triggers`` likewise.
    """

    version: str
    executor: str
    capacity: int
    queues_enabled: bool
    base_url: str
    provider: str = ""
    plugin: str = ""
    triggers: str = ""
    trigger_queues: TriggerQueues = NO_QUEUES

    @classmethod
    def from_facts(cls, told: Mapping[str, Any]) -> SeenAirflow:
        """Return what ``airflow_facts.facts`` says of Airflow, decoded."""
        queues = TriggerQueues.from_dict(told.get("trigger_queues", {}))
        return cls(**{**told, "trigger_queues": queues})


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenServer:
    """
    Answers of the API server.

    :param problem: The reason for no answer.
    :param health: State of each component, by its name, such as ``triggerer``.
    :param page: HTTP status of the Streams page; 0 when not asked.
    """

    problem: str = ""
    health: Mapping[str, str] = field(default_factory=dict)
    page: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHost:
    """Limits and resources of this host; a figure that cannot be read is ``None``."""

    folder: str = ""
    disk_free: int | None = None
    memory_free: int | None = None
    open_files: int | None = None
    processes: int | None = None
    free_ports: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """
    All facts of one host.

    :param java: Java found on this host, or why none was found.
    :param airflow: ``None`` with the reason in ``airflow_problem``.
    """

    java: str = ""
    java_problem: str = ""
    runtimes: tuple[SeenRuntime, ...] = ()
    homes: tuple[SeenHome, ...] = ()
    airflow: SeenAirflow | None = None
    airflow_problem: str = ""
    server: SeenServer = SeenServer()
    host: SeenHost = SeenHost()


Rule = Callable[[Installation], Iterator[Line]]


def judge(found: Installation, checks: Iterable[Rule] | None = None) -> tuple[Line, ...]:
    """
    Return the lines of the checks: problems first, in the order of the checks.

    :param checks: All by default; ``SERVER_CHECKS`` on a host that runs no drivers.
    """
    lines = [line for rule in (CHECKS if checks is None else checks) for line in rule(found)]
    return tuple(sorted(lines, key=lambda line: _ORDER.index(line.outcome)))


def worst(lines: Iterable[Line]) -> CheckOutcome:
    """Return the gravest outcome; ``OK`` for no lines."""
    return min((line.outcome for line in lines), key=_ORDER.index, default=CheckOutcome.OK)


def _java(found: Installation) -> Iterator[Line]:
    needs_it = any(one.problem for one in found.runtimes) or not found.runtimes
    yield Line.of(
        "java",
        CheckOutcome.PROBLEM if needs_it else CheckOutcome.NOTE,
        bool(found.java_problem),
        seen=found.java_problem or found.java,
        expected="Java 17, in JAVA_HOME, on PATH or as java_home of each runtime",
        step="Install Java 17 (Debian: openjdk-17-jre-headless)." if needs_it else "",
    )


def _runtimes(found: Installation) -> Iterator[Line]:
    if not found.runtimes:
        yield Line(
            check="runtimes",
            outcome=CheckOutcome.PROBLEM,
            seen="no runtime",
            expected="at least one Spark in [streaming] runtimes",
            next='Set it as JSON, such as {"spark-4.3": "/opt/spark-4.3"}; see docs/runtimes.md.',
        )
    for one in found.runtimes:
        yield Line.of(
            f"runtime {one.name}",
            CheckOutcome.PROBLEM,
            bool(one.problem),
            seen=one.problem or f"Spark {one.spark} on Java {one.java}",
            expected="a Spark that this release runs, with its Python and Java",
            step="Correct the entry in [streaming] runtimes, or install that Spark again.",
        )


def _homes(found: Installation) -> Iterator[Line]:
    if not found.homes:
        yield Line(
            check="home",
            outcome=CheckOutcome.UNKNOWN,
            seen="no home is known",
            expected="a home to try",
            next="Give --home, or list the homes in [streaming] homes.",
        )
    for one in found.homes:
        yield from _home(one)


def _home(one: SeenHome) -> Iterator[Line]:
    name = f"home {one.uri}"
    if one.problem:
        yield Line(
            check=name,
            outcome=CheckOutcome.PROBLEM,
            seen=one.problem,
            expected="files can be created, read and deleted",
            next="Check the place, its mount, and the rights and credentials of this process.",
        )
        return
    yield Line.of(
        name,
        CheckOutcome.PROBLEM,
        not one.is_made,
        seen="a home" if one.is_made else "the place has no record of a home",
        expected="made by 'airflow-streaming init'",
        step=f"If the home is new: airflow-streaming init {one.uri}. Else mount it, or correct the URI.",
    )
    yield Line.of(
        f"{name}: exclusive create",
        CheckOutcome.PROBLEM,
        bool(one.flaw),
        seen=one.flaw or "one winner in every race",
        expected="one of many writers creates a file",
        step="Use a local folder, or an object store with conditional writes (If-None-Match).",
    )
    if one.latency_ms is not None:
        yield Line.of(
            f"{name}: latency",
            CheckOutcome.WARNING,
            one.latency_ms > SLOW_HOME_MS,
            seen=f"{one.latency_ms:.0f} ms for one file, created and read",
            expected=f"at most {SLOW_HOME_MS:.0f} ms",
            step="Take a store in the network of the workers; heartbeats come late on a slow one.",
        )
    if one.skew_s is not None:
        yield Line.of(
            f"{name}: clock",
            CheckOutcome.WARNING,
            abs(one.skew_s) > SKEW_SECONDS,
            seen=f"{abs(one.skew_s):.1f} s {'behind' if one.skew_s < 0 else 'ahead of'} this host",
            expected=f"at most {SKEW_SECONDS:.0f} s apart",
            step="Let NTP set the clocks. No decision compares them, but times in records mislead.",
        )
    yield from _rows(one)
    yield from queue_lines(one.uri, one.queues)


def _rows(one: SeenHome) -> Iterator[Line]:
    """Judge the rows of triggers; a home without any, or with old ones, is in order but slow to list."""
    found, name = one.rows, f"home {one.uri}: rows of triggers"
    rebuild = f"airflow-streaming check --home {one.uri} --rebuild-rows"
    if not found.objects:
        return
    age = duration_text(max(found.newest_age_s or 0.0, 0.0))
    problems = {
        f"{found.malformed} cannot be read": found.malformed,
        f"{found.ahead} with dates to come": found.ahead,
        f"more than {MOST_ROW_OBJECTS}, the others are not read": found.objects > MOST_ROW_OBJECTS,
    }
    wrong = [text for text, is_wrong in problems.items() if is_wrong]
    yield Line.of(
        name,
        CheckOutcome.WARNING,
        bool(wrong),
        seen=f"{found.objects} objects: {', '.join(wrong)}"
        if wrong
        else f"{found.rows} rows in {found.objects} objects, the newest {age} old",
        expected="objects that each reader can use, from clocks at most 10 s apart",
        step=f"Let NTP set the clocks of the triggerers, then {rebuild}",
    )


def _airflow(found: Installation) -> Iterator[Line]:
    seen = found.airflow
    if seen is None:
        yield Line(
            check="airflow",
            outcome=CheckOutcome.UNKNOWN,
            seen=found.airflow_problem or "not asked",
            expected="Airflow can be imported, and reads its configuration",
            next="Run the command with the Python and the environment of Airflow's components.",
        )
        return
    version = version_of(seen.version)
    oldest = ".".join(map(str, OLDEST_AIRFLOW))
    yield Line.of(
        "airflow",
        CheckOutcome.PROBLEM,
        version is None or version < OLDEST_AIRFLOW,
        seen=seen.version,
        expected=f"{oldest} or newer",
        step=f"Upgrade Airflow to {oldest} or newer.",
    )
    parts = (
        ("provider", seen.provider, "Install airflow-streaming into the environment of Airflow."),
        (
            "plugin",
            seen.plugin,
            "Install airflow-streaming with its entry points, and restart Airflow.",
        ),
        (
            "triggers",
            seen.triggers,
            "Install the same version for the triggerer as for the workers.",
        ),
    )
    for name, problem, step in parts:
        yield Line.of(
            name,
            CheckOutcome.PROBLEM,
            bool(problem),
            seen=problem or "registered",
            expected="registered with Airflow",
            step=step,
        )


@dataclass(frozen=True, slots=True)
class _Consequence:
    outcome: CheckOutcome
    expected: str
    step: str = ""


_EXECUTORS: Final[Mapping[str, _Consequence]] = {
    "LocalExecutor": _Consequence(
        CheckOutcome.OK, "drivers of launcher 'local' run beside the scheduler and outlive it"
    ),
    "CeleryExecutor": _Consequence(
        CheckOutcome.WARNING,
        "drivers of launcher 'local' stay on the host of their worker",
        "Give each stream with launcher 'local' a queue that one host serves, or use a cluster.",
    ),
    "KubernetesExecutor": _Consequence(
        CheckOutcome.WARNING,
        "drivers run on a cluster: a driver of launcher 'local' ends with the pod of its worker",
        "Use a cluster's launcher, such as 'kubernetes'; see docs/where-airflow-runs.md.",
    ),
}
_OTHER: Final = _Consequence(
    CheckOutcome.WARNING,
    "an executor that was tried: LocalExecutor, CeleryExecutor or KubernetesExecutor",
    "Make sure that a driver outlives the end of its task there.",
)


def _executor(found: Installation) -> Iterator[Line]:
    if found.airflow is None:
        return
    for one in found.airflow.executor.replace(",", " ").split():
        name = one.rpartition(":")[2].rpartition(".")[2]
        known = _EXECUTORS.get(name, _OTHER)
        yield Line(
            check="executor",
            outcome=known.outcome,
            seen=name,
            expected=known.expected,
            next=known.step,
        )


def _triggerer(found: Installation) -> Iterator[Line]:
    seen, streams = found.airflow, sum(one.streams for one in found.homes)
    if seen is None:
        return
    yield Line.of(
        "triggerer capacity",
        CheckOutcome.WARNING,
        streams > seen.capacity,
        seen=f"{seen.capacity} triggers, {streams} streams",
        expected="one trigger for each stream, and more for sensors and changes",
        step="Raise [triggerer] capacity, or run more triggerers.",
    )
    yield queue_setting_line(seen.trigger_queues, enabled=seen.queues_enabled)


def _issues(found: Installation) -> Iterator[Line]:
    version = version_of(found.airflow.version) if found.airflow else None
    if version is None:
        return
    for issue in issues_of(version):
        yield Line(
            check=f"airflow issue {issue.name}",
            outcome=CheckOutcome.NOTE,
            seen=issue.effect,
            expected="known; see the next step",
            next=issue.answer,
        )
    if version > NEWEST_TRIED:
        yield Line(
            check="airflow issues",
            outcome=CheckOutcome.WARNING,
            seen=".".join(map(str, version)),
            expected=f"at most {'.'.join(map(str, NEWEST_TRIED))}, the newest that was tried",
            next="Look for a newer release of airflow-streaming.",
        )


def _server(found: Installation) -> Iterator[Line]:
    server = found.server
    if server.problem:
        yield Line(
            check="api server",
            outcome=CheckOutcome.UNKNOWN,
            seen=server.problem,
            expected="an answer at [api] base_url",
            next="Start the API server, or correct [api] base_url; then check again.",
        )
        return
    for part in _PARTS if server.health else ():
        state = server.health.get(part) or "absent"
        yield Line.of(
            part.replace("_", " "),
            CheckOutcome.PROBLEM,
            state != "healthy",
            seen=state,
            expected="healthy",
            step=_UNWATCHED if part == "triggerer" else "Start it, and look into its log.",
        )
    if server.page:
        yield Line.of(
            "page",
            CheckOutcome.PROBLEM,
            server.page not in PRESENT,
            seen=f"HTTP {server.page} for {PAGE}",
            expected="the Streams page",
            step="Install airflow-streaming into the API server's environment, and restart it.",
        )


@dataclass(frozen=True, slots=True)
class _Bound:
    check: str
    value: Callable[[SeenHost], int | None]
    little: int
    text: Callable[[int], str]
    step: str
    grave: int = -1


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB"


_BOUNDS: Final = (
    _Bound(
        "disk",
        lambda host: host.disk_free,
        SOME_DISK,
        _gigabytes,
        "Free space in [streaming] driver_folder; logs and temporary files of drivers lie there.",
        LITTLE_DISK,
    ),
    _Bound(
        "memory",
        lambda host: host.memory_free,
        LITTLE_MEMORY,
        _gigabytes,
        "Free memory, or lower spark.driver.memory: the kernel kills a process that does not fit.",
    ),
    _Bound(
        "open files",
        lambda host: host.open_files,
        FEW_FILES,
        str,
        "Raise the limit (ulimit -n, LimitNOFILE of the service).",
    ),
    _Bound(
        "processes",
        lambda host: host.processes,
        FEW_PROCESSES,
        str,
        "Raise the limit (ulimit -u, TasksMax of the service, pids of the container).",
    ),
    _Bound(
        "ports",
        lambda host: host.free_ports,
        1,
        lambda number: f"{number} of {len(UI_PORTS)} ports free for pages of drivers",
        f"Free a port from {UI_PORTS[0]} to {UI_PORTS[-1]}, or set spark.ui.port.",
    ),
)


def _host(found: Installation) -> Iterator[Line]:
    for bound in _BOUNDS:
        number = bound.value(found.host)
        if number is None:
            continue
        grave = CheckOutcome.PROBLEM if number < bound.grave else CheckOutcome.WARNING
        yield Line.of(
            bound.check,
            grave,
            number < bound.little,
            seen=bound.text(number),
            expected=f"at least {bound.text(bound.little)}",
            step=bound.step,
        )


CHECKS: Final[tuple[Rule, ...]] = (
    _java,
    _runtimes,
    _homes,
    _airflow,
    _executor,
    _triggerer,
    _server,
    _host,
    _issues,
)
SERVER_CHECKS: Final = (_homes, _airflow, _executor, _triggerer, _server, _issues)
"""Checks of an API server: Java, runtimes, disk and limits belong to the hosts of drivers."""
