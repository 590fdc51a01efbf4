"""
Running the user's script as Python would.

The copy that was deployed is run, under the name and path of the original: ``__main__`` is the
script's module, so functions defined in it are pickled by value for the executors as usual, and
tracebacks show its lines.
"""

from __future__ import annotations

import builtins
import concurrent.futures.thread
import importlib.util
import linecache
import sys
import threading
import traceback
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.errors import logger
from airflow_streaming.driver.exit_status import ScriptEnd, ScriptState
from airflow_streaming.driver.launch_context import LaunchContext
from airflow_streaming.driver.monitoring.spark_query import QueryError
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.pipeline.program import is_pipeline
from airflow_streaming.model.spark.failures import (
    conditions_in,
    core_of,
    diagnose,
    first_line,
    presentable,
)
from airflow_streaming.model.uris import is_local, local_path

CONNECT_REFUSAL: Final = (
    "This script uses Spark Connect, whose queries run in another process that cannot be watched, "
    "stopped or fenced from here. Use a classic session: remove SPARK_REMOTE, builder.remote(...) "
    "and spark.api.mode=connect."
)


def is_connect(environment: Mapping[str, str], options: Mapping[str, Any]) -> bool:
    """Tell whether a session built here and now would be one of Spark Connect."""
    if environment.get("SPARK_REMOTE") or environment.get("SPARK_CONNECT_MODE_ENABLED"):
        return True
    mode = options.get("spark.api.mode") or environment.get("SPARK_API_MODE") or "classic"
    return "spark.remote" in options or str(mode).lower() == "connect"


def check_classic(connect: bool) -> None:
    """
    Refuse a session of Spark Connect.

    :raises DriverRefusal: it is one.
    """
    if connect:
        raise DriverRefusal(CONNECT_REFUSAL)


def run_script(assignment: LaunchContext) -> ScriptEnd:
    """Run the script to its end and tell how it ended; an interrupt passes through."""
    deployment = assignment.deployment
    arguments = deployment.arguments(assignment.home)
    return run_program(deployment.application, assignment.source, arguments)


def run_program(application: str, source: bytes, arguments: Sequence[str]) -> ScriptEnd:
    """
    Run a script as ``run_script`` does.

    :param application: Its path or URI, as its author knows it.
    """
    try:
        _check_script(application)
        _execute(application, source, arguments)
    except SystemExit as leaving:
        return _left(leaving.code)
    except SyntaxError as err:
        logger.exception("The script cannot be compiled.")
        return ScriptEnd(state=ScriptState.FAILED, error=error_of(err), retryable=False)
    except DriverRefusal as err:
        logger.error("%s", err)  # the sentence says it all, without a traceback
        return ScriptEnd(state=ScriptState.FAILED, error=error_of(err), retryable=False)
    except Exception as err:  # noqa: BLE001  # the script may raise anything
        logger.exception("The script raised an exception.")
        return ScriptEnd(state=ScriptState.FAILED, error=error_of(err))
    return ScriptEnd(state=ScriptState.RETURNED)


def _check_script(application: str) -> None:
    if is_pipeline(application):
        raise DriverRefusal(
            f"{application} is a declarative pipeline, whose flows Spark plans in an update only. No plan, rehearsal or "
            "drill of it can be made here. Run 'spark-pipelines dry-run' on a copy, and take a backup before you apply "
            "the change."
        )


def has_script_threads() -> bool:
    """Tell whether a thread of the script works on; idle workers of thread pools do not count."""
    pooled = getattr(concurrent.futures.thread, "_threads_queues", {})
    main = threading.main_thread()
    return any(
        not thread.daemon and thread is not main and thread not in pooled
        for thread in threading.enumerate()
    )


def error_of(err: BaseException) -> QueryError:
    """Return a script's exception; Spark's exceptions have an error condition."""
    text = str(err)
    condition = None
    for method in ("getCondition", "getErrorClass"):
        ask = getattr(err, method, None)
        if ask is not None:
            condition = ask()
            break
    line = presentable(first_line(text))
    name = type(err).__name__
    told = "".join(traceback.format_exception(err))
    return QueryError(
        message=f"{name}: {line}" if line else name,
        exception_class=name,
        condition=condition,
        conditions=conditions_in(text),
        diagnosis=diagnose(text=told, exception_class=name),
        core=presentable(core_of(told)),
    )


def _left(code: object) -> ScriptEnd:
    if code in (None, 0):
        return ScriptEnd(state=ScriptState.RETURNED)
    text = f"exit code {code}" if isinstance(code, int) else presentable(first_line(str(code)))
    error = QueryError(message=f"It left with {text}.", exception_class="SystemExit")
    return ScriptEnd(state=ScriptState.FAILED, error=error)


def _execute(application: str, code: bytes, arguments: Sequence[str]) -> None:
    path = local_path(application)
    source = importlib.util.decode_source(code)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None, __spec__=None)
    sys.modules["__main__"] = module
    sys.argv[:] = [path, *arguments]
    if is_local(application) and Path(path).parent.is_dir():
        sys.path.insert(0, str(Path(path).parent))
    # No modification time: the cache is never refreshed from a file that may differ by now.
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    # Running the user's script is what this process is for; its digest was checked.
    exec(compile(code, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - see above
