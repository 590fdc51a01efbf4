"""
Running a short Spark job: one bounded process of this host, its script and its events.

It gets a session of its own, so that its whole group can be killed, a configuration file that only
this user may read, a clean environment, and no sight of other processes where the system allows it.
Should this process be killed itself, the other one ends by its own clock.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

import psutil

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.home.home import Home
from airflow_streaming.launch.conf_rules import join_shipped
from airflow_streaming.launch.environment import (
    driver_environment,
    job_variables,
    open_private_log,
    properties_text,
    spark_defaults,
    write_private,
)
from airflow_streaming.launch.isolation import isolated, unreadable_memory
from airflow_streaming.launch.java import quoted_option
from airflow_streaming.launch.package import (
    build_driver_package,
    locate_application,
    read_application,
)
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT, AnsweredOrder, is_kept_back
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.conf import PY_FILES, conf_text, shipped_lists
from airflow_streaming.model.spark.failures import last_traceback, presentable
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.model.uris import is_local, local_path
from airflow_streaming.model.wire import Record

LOG: Final = "driver.log"
_POLL: Final = 0.1
_PATIENCE: Final = 5.0
"""Seconds for killed processes to be gone; their files are removed next."""
_TAIL: Final = 8_000
_MAX_MODULES: Final = 500
"""Modules of the user's whose text is read for names of variables."""
_FRAME: Final = re.compile(r'^  File "([^"]+)", line \d+', re.MULTILINE)
_ENTRY: Final = """\
import sys

from airflow_streaming.driver.{module} import run

sys.exit(run(sys.argv[1:]))
"""

A = TypeVar("A", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """
    The user's script, as a drill runs it.

    :param application: Its path or URI as its author knows it; ``__file__`` in the script.
    :param source: Its bytes.
    :param arguments: With placeholders filled in.
    :param conf: Spark configuration of the stream; what belongs to production's cluster, listeners
        and event logs is left out of a drill.
    :param left_out: Keys of the configuration whose values are secret and not known here.
    :param output: Place of the deployment that ``{output}`` stands for; ``checkpoint`` likewise.
    :param env: Environment that the stream's author gives the driver.
    """

    application: str
    source: bytes
    arguments: Sequence[str] = ()
    conf: Mapping[str, Any] = field(default_factory=dict)
    py_files: Sequence[str] = ()
    jars: Sequence[str] = ()
    packages: Sequence[str] = ()
    files: Sequence[str] = ()
    left_out: Sequence[str] = ()
    output: str = ""
    checkpoint: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_program(
    path: str, arguments: Sequence[str] = (), conf: Mapping[str, Any] | None = None
) -> Program:
    """
    Read a script from a path, which may be relative to the working folder, or from a URI.

    :raises ApplicationNotFound: it cannot be read, or is not Python.
    """
    location = locate_application(path, [Path()])
    return Program(
        application=location,
        source=read_application(location),
        arguments=tuple(arguments),
        conf=dict(conf or {}),
    )


def deployed_program(
    home: Home, stream: str, number: int, conf: Mapping[str, Any] | None = None
) -> Program:
    """
    Return the program of a deployment as the home holds it, script and all.

    ``{output}`` in its arguments becomes a folder of the scratch. ``{checkpoint}`` stays,
    because it identifies the queries; none of them is started there.

    :param conf: Configuration with its secrets, e.g. the dag's; without it, those are left out,
        because records hold marks in their place.
    :raises RecordError: no such deployment, or its script is missing or was changed.
    """
    records = home.stream(stream)
    deployment = replace(records.deployment(number), output=SCRATCH_OUTPUT)
    known = {**deployment.conf, **(conf or {})}
    return program_of(deployment, records.application(number), home.store.uri, known)


def program_of(
    deployment: Deployment, source: bytes, home: str, conf: Mapping[str, Any]
) -> Program:
    """
    Return a deployment as a short Spark job runs it; secrets that are not known are left out.

    :param conf: Its configuration, with the secrets that are known.
    """
    secret = sorted(key for key, value in conf.items() if value == REDACTED)
    return Program(
        application=deployment.application,
        source=source,
        arguments=tuple(deployment.arguments(home)),
        conf={key: value for key, value in conf.items() if key not in secret},
        left_out=tuple(secret),
        output=deployment.output,
        checkpoint=deployment.checkpoint,
        **shipped_lists(deployment),
    )


class Job(StrEnum):
    """The modules of ``driver`` that a short Spark job may run, by their names in it."""

    COMPARE = "jobs.compare"
    DRILL = "jobs.drill"
    PLAN = "plan.mode"
    LOAD = "jobs.class_loading"
    MIGRATE = "migration.job"
    POINT = "jobs.pointing"
    REHEARSE = "jobs.rehearsal"
    REPARTITION = "jobs.repartition"
    SHARED = "jobs.shared"

    @property
    def entry(self) -> str:
        """Return the name of the file that Spark runs for it."""
        return f"{self.replace('.', '_')}_entry.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """
    The work of a short-lived Spark.

    :param job: The module whose ``run`` does it; it gets the order's file.
    :param variable: Set to 1 in its environment, for scripts that do more than start queries; may be
        empty.
    :param memory: Of its JVM, as Spark writes it.
    :param java_options: More options of its JVM.
    """

    job: Job
    order: Record
    variable: str
    cores: int = 2
    memory: str = "1g"
    java_options: str = ""


class RunningJob(Protocol):
    """A job that was started, as far as its caller waits for it."""

    @property
    def returncode(self) -> int | None:
        """Return its exit code; ``None`` while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code when it has ended; raises ``subprocess.TimeoutExpired`` before."""


def code_of(program: Program | None) -> Iterator[bytes]:
    """Yield the texts of a program: its script, local modules that it ships, and modules beside it."""
    if program is None:
        return
    yield program.source
    shipped = [Path(local_path(uri)) for uri in program.py_files if is_local(uri)]
    modules: Iterable[Path] = (path for path in shipped if path.suffix == ".py")
    if program.application and is_local(program.application):
        folder = Path(local_path(program.application)).parent
        modules = itertools.chain(modules, folder.glob("*.py"), folder.glob("*/*.py"))
    for path in itertools.islice(modules, _MAX_MODULES):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


@contextlib.contextmanager
def started(
    task: Task,
    runtime: Runtime,
    program: Program | None,
    scratch: Path,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[subprocess.Popen[bytes]]:
    """
    Start a Spark for a task; after the block it is gone with its children.

    :param scratch: A private folder for its files; its log is there too, named ``LOG``.
    :param variables: More variables of this process, which the code of later jobs names.
    :raises LaunchError: it could not be started.
    """
    more = {**(program.env if program else {}), **({task.variable: "1"} if task.variable else {})}
    known = {**job_variables(os.environ, code_of(program)), **variables}
    environment = driver_environment(known, runtime, more)
    command = _command(task, runtime, program, environment, scratch)
    output = open_private_log(scratch / LOG)
    # Before the first process of the job exists, which may read this one at once.
    with unreadable_memory():
        try:
            walled, environment = isolated(command, environment)
            process = subprocess.Popen(
                walled,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=scratch,
                start_new_session=True,
            )
        except OSError as err:
            raise LaunchError(
                f"The Spark of runtime {runtime.name!r} could not be started with {command[0]}: "
                f"{err.strerror or err}. Check the runtime."
            ) from err
        finally:
            os.close(output)
        try:
            yield process
        finally:
            kill_family(process)


def await_end(process: RunningJob, seconds: float, look: Callable[[], None] = lambda: None) -> bool:
    """Wait until a process has ended, looking meanwhile; tell whether it has within its time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL)
            return True
        look()
    return False


class NoAnswer(LaunchError):
    """A job ended, or was ended, without an answer: its effects are unknown."""


def ask(
    task: Task,
    order: AnsweredOrder,
    answer: type[A],
    *,
    runtime: Runtime,
    conf: Mapping[str, Any],
    scratch: Path,
) -> A:
    """
    Run a job that needs no script to its answer.

    :param task: Has ``order`` for its order.
    :param scratch: As for ``started``.
    :raises LaunchError: it could not be started, so nothing was done.
    :raises NoAnswer: it was started and has left no answer.
    """
    program = Program(application="", source=b"", conf=conf)
    with started(task, runtime, program, scratch) as process:
        in_time = await_end(process, order.seconds)
    try:
        return answer.from_bytes(Path(order.answer).read_bytes())
    except FileNotFoundError as err:
        within = "" if in_time else f" within {duration_text(order.seconds)}"
        raise NoAnswer(f"No answer came{within}: {last_words(scratch)}") from err


def last_words(scratch: Path) -> str:
    """Return the last line of a Spark's log with an error, or else its last line."""
    text = (scratch / LOG).read_bytes()[-_TAIL:].decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "rror" in line or "xception" in line]
    return presentable((telling or lines or ["it gave no reason."])[-1])


def ends_in_our_code(scratch: Path) -> bool:
    """Tell whether the last Python error of a Spark's log was raised in a driver of ours."""
    text = (scratch / LOG).read_bytes()[-_TAIL:].decode("utf-8", "replace")
    frames = _FRAME.findall(last_traceback(text))
    return bool(frames) and "airflow_streaming/driver/" in frames[-1]


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, and its children."""
    # Python workers leave the group for one of their own, but not the family.
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        family = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.kill()
    process.wait()
    psutil.wait_procs(family, timeout=_PATIENCE)


def _command(
    task: Task,
    runtime: Runtime,
    program: Program | None,
    environment: Mapping[str, str],
    scratch: Path,
) -> list[str]:
    package = build_driver_package(scratch / "package")
    text = _ENTRY.format(module=task.job)
    entry = write_private(scratch / "entry" / task.job.entry, text)
    told = write_private(scratch / "order.json", task.order.to_bytes())
    conf, lists = join_shipped(
        _conf(task, program.conf if program else {}, scratch),
        shipped_lists(program) if program else {},
        str(package.archive),
    )
    text = properties_text(conf, spark_defaults(runtime, environment))
    properties = write_private(scratch / "spark.properties", text)
    given = {
        "--properties-file": [str(properties)],
        "--py-files": []
        if PY_FILES in conf
        else [str(package.archive), *lists.get("py_files", ())],
        **{f"--{what}": list(lists.get(what, ())) for what in ("jars", "packages", "files")},
    }
    options = [part for name, value in given.items() if value for part in (name, ",".join(value))]
    return [str(runtime.spark_submit), *options, str(entry), str(told)]


def _conf(task: Task, wanted: Mapping[str, Any], scratch: Path) -> dict[str, str]:
    kept = {key: conf_text(value) for key, value in wanted.items() if not is_kept_back(key)}
    options = kept.get("spark.driver.extraJavaOptions", "")
    # Half the time of a short-lived JVM is spent on optimizing it.
    quick = f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={quoted_option(_folder(scratch / 'tmp'))}"
    return {
        **kept,
        "spark.master": f"local[{task.cores}]",
        "spark.app.name": f"airflow-streaming {task.job}",
        "spark.driver.memory": task.memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{options} {task.java_options} {quick}".strip(),
        "spark.local.dir": _folder(scratch / "tmp"),
        "spark.sql.warehouse.dir": _folder(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "false",
        "spark.plugins": "",
        "spark.extraListeners": "",
        "spark.sql.queryExecutionListeners": "",
        "spark.sql.streaming.streamingQueryListeners": "",
    }


def _folder(path: Path) -> str:
    path.mkdir(mode=0o700, exist_ok=True)
    return str(path)
