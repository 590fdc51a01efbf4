from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_streaming.driver.errors import log_to_stderr, logger
from airflow_streaming.driver.exit_status import ScriptEnd, ScriptState
from airflow_streaming.driver.launch_context import LaunchContext
from airflow_streaming.driver.script import error_of, has_script_threads, run_program, run_script
from airflow_streaming.model.spark.failures import hide
from tests.unit.driver.fakes import make_deployment, make_epoch


@pytest.fixture(autouse=True)
def process() -> Iterator[None]:
    """Running a script changes the process; a test gives it back as it was."""
    kept = sys.modules["__main__"], sys.argv[:], sys.path[:]
    yield
    sys.modules["__main__"], sys.argv[:], sys.path[:] = kept


def run(source: str, folder: Path | str = "/gone/jobs") -> ScriptEnd:
    deployment = make_deployment(source.encode(), application=f"{folder}/orders.py")
    return run_script(
        LaunchContext(
            home="/home", epoch=make_epoch(), deployment=deployment, source=source.encode()
        )
    )


def test_a_pipeline_is_never_run_as_a_script(tmp_path: Path) -> None:
    end = run_program(f"{tmp_path}/pipeline.yml", b'{"spec": "pipeline.yml"}', [])

    assert end.state is ScriptState.FAILED
    assert not end.retryable
    assert end.error is not None
    assert "spark-pipelines dry-run" in end.error.message


def test_the_script_is_main_with_its_own_path_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "neighbor.py").write_text("VALUE = 42\n")
    end = run(
        "import os, sys, neighbor\n"
        "os.environ['SEEN'] = repr([__name__, __file__, sys.argv, neighbor.VALUE])\n"
        "def f(): pass\n"
        "assert f.__module__ == '__main__' and sys.modules['__main__'].f is f\n",
        tmp_path,
    )
    script = f"{tmp_path}/orders.py"
    assert end == ScriptEnd(state=ScriptState.RETURNED)
    argv = [script, "--to", "/home/orders/output/000001"]
    assert os.environ.pop("SEEN") == repr(["__main__", script, argv, 42])
    assert sys.path[0] == str(tmp_path)


def test_a_traceback_shows_the_line_that_was_deployed() -> None:
    run("x = 1\nraise ValueError\n")
    linecache.checkcache()
    assert linecache.getline("/gone/jobs/orders.py", 2) == "raise ValueError\n"


@pytest.mark.parametrize(
    ("source", "state", "message", "retryable"),
    [
        pytest.param("import sys; sys.exit()", ScriptState.RETURNED, None, True, id="exit"),
        pytest.param("raise SystemExit(0)", ScriptState.RETURNED, None, True, id="exit 0"),
        pytest.param(
            "raise SystemExit(7)",
            ScriptState.FAILED,
            "It left with exit code 7.",
            True,
            id="exit 7",
        ),
        pytest.param(
            "raise SystemExit('no input')",
            ScriptState.FAILED,
            "It left with no input.",
            True,
            id="exit with a text",
        ),
        pytest.param(
            "raise KeyError('token: canary')",
            ScriptState.FAILED,
            "KeyError: 'token: (redacted)",
            True,
            id="exception",
        ),
        pytest.param("def f(:", ScriptState.FAILED, "SyntaxError: invalid", False, id="typo"),
    ],
)
def test_every_end_of_a_script_is_told(
    source: str, state: ScriptState, message: str | None, retryable: bool
) -> None:
    end = run(source)
    assert (end.state, end.retryable) == (state, retryable)
    assert (end.error is None) is (message is None)
    if message is not None:
        assert end.error is not None
        assert end.error.message.startswith(message)


def test_an_interrupt_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        run("raise KeyboardInterrupt")


def test_the_condition_of_a_spark_exception_is_kept() -> None:
    class AnalysisException(Exception):
        def getErrorClass(self) -> str:
            return "TABLE_OR_VIEW_NOT_FOUND"

    error = error_of(AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] The table t\nat line 1"))
    assert error.message == "AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table t"
    assert error.condition == "TABLE_OR_VIEW_NOT_FOUND"
    assert error.conditions == ("TABLE_OR_VIEW_NOT_FOUND",)


def test_a_thread_of_the_script_counts_but_an_idle_pool_does_not() -> None:
    release = threading.Event()
    daemon = threading.Thread(target=release.wait, daemon=True)
    daemon.start()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        assert not has_script_threads()
        worker = threading.Thread(target=release.wait)
        worker.start()
        assert has_script_threads()
        release.set()
        worker.join()
        daemon.join()


def test_a_secret_that_an_exception_quotes_is_in_no_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hide(["canary-4711"])
    log_to_stderr()
    try:
        end = run("def f(x): raise ValueError('no login for ' + x)\nf('canary-' + '4711')")
    finally:
        logger.handlers.clear()

    assert end.error is not None
    assert "canary-4711" not in f"{end}"
    told = capsys.readouterr().err
    assert "ValueError: no login for (redacted)" in told
    assert "canary-4711" not in told
