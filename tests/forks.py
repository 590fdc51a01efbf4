"""
Tests in several processes that are forked after the collection, which thus is made once.

    FORKS=3 python -m pytest -p tests.forks tests/unit

``pytest-xdist`` collects in every process: nine seconds of CPU time each for the unit tests, all together a
quarter of what ``make check`` took. The processes share the files of tests as ``shared_queue`` tells, and
send what came of each test to the one that has collected, which reports it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final

import pytest

from tests.shared_queue import has_nothing_to_run, run_taken

COUNT: Final = "FORKS"


class Sender:
    """In a fork, in place of what reports to the terminal."""

    def __init__(self, config: pytest.Config, to: Connection) -> None:
        self._config, self._to = config, to

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook.pytest_report_to_serializable
        self._to.send(hook(config=self._config, report=report))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Fork, and report what the forks send."""
    if has_nothing_to_run(session):
        return None  # as ever
    hook = session.config.hook
    with tempfile.TemporaryDirectory(prefix="forks-") as queue:
        forks = dict(_forked(session, Path(queue)))
        for data in _sent(forks.values()):
            report = hook.pytest_report_from_serializable(config=session.config, data=data)
            hook.pytest_runtest_logreport(report=report)
        died = [process for process in forks if os.waitpid(process, 0)[1]]
    if died:
        session.shouldfail = f"{len(died)} of {len(forks)} forks died; what they said is above."
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


def _forked(session: pytest.Session, queue: Path) -> Iterator[tuple[int, Connection]]:
    """Fork; yield each process with what it sends."""
    factory: Any = session.config._tmp_path_factory  # type: ignore[attr-defined]
    folder = factory.getbasetemp()
    for number in range(int(os.environ[COUNT])):
        sent, to = Pipe(duplex=False)
        process = os.fork()
        if not process:
            factory._basetemp = folder / f"fork-{number}"
            factory._basetemp.mkdir(mode=0o700)
            _end_as_fork(session, queue, to)
        to.close()
        yield process, sent


def _end_as_fork(session: pytest.Session, queue: Path, to: Connection) -> None:
    """Run tests until none is left, and leave the process without the ends that are its parent's."""
    code = 1
    try:
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(Sender(session.config, to))
        with contextlib.suppress(
            session.Failed
        ):  # its parent sees by the reports when it is enough
            run_taken(session, queue)
        session._setupstate.teardown_exact(None)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it was, this process ends here
        traceback.print_exc()
    finally:
        os._exit(code)


def _sent(pipes: Iterable[Connection]) -> Iterator[dict[str, Any]]:
    """Yield what is sent until all have closed their ends."""
    left: list[Any] = [*pipes]
    while left:
        for pipe in wait(left):
            try:
                yield pipe.recv()  # type: ignore[union-attr]
            except EOFError:
                left.remove(pipe)
