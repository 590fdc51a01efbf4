"""Failures that come from outside of the query: the network, the disk, memory, signals."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from airflow_streaming.model.spark.failure_signs import FailureKind
from tests.corpus.checkpoints import one, remove
from tests.corpus.setup import asking
from tests.corpus.stage import Stage, add, scenario

TRANSIENT = FailureKind.TRANSIENT
OUT_OF_MEMORY = FailureKind.OUT_OF_MEMORY
KILLED = FailureKind.KILLED
NOT_REPLAYABLE = FailureKind.SOURCE_NOT_REPLAYABLE


def _closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _connect(frame: Any, number: int) -> None:
    socket.create_connection(("127.0.0.1", _closed_port()), timeout=5).close()


def _open_url(frame: Any, number: int) -> None:
    urllib.request.urlopen(f"http://127.0.0.1:{_closed_port()}/")


def _connect_in_java(frame: Any, number: int) -> None:
    frame.sparkSession._jvm.java.net.Socket("127.0.0.1", _closed_port())


def _unknown_host(frame: Any, number: int) -> None:
    socket.create_connection(("broker.invalid", 9092), timeout=5)


def _unknown_host_in_java(frame: Any, number: int) -> None:
    frame.sparkSession._jvm.java.net.Socket("broker.invalid", 9092)


def _silent_peer(frame: Any, number: int) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname(), timeout=0.2) as mine:
            mine.recv(1)


def _silent_peer_in_java(frame: Any, number: int) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        java = frame.sparkSession._jvm.java.net.Socket("127.0.0.1", listener.getsockname()[1])
        java.setSoTimeout(200)
        java.getInputStream().read()


def _reset_by_peer(frame: Any, number: int) -> None:
    raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


def _broken_pipe(frame: Any, number: int) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.sendall(b"x" * 100_000)


def _wrapped_refusal(frame: Any, number: int) -> None:
    try:
        _connect(frame, number)
    except OSError as err:
        raise RuntimeError("The orders could not be sent.") from err


def _disk_full(frame: Any, number: int) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        full.write(b"x")


for _name, _batch in {
    "batch_function_connection_refused": _connect,
    "batch_function_url_refused": _open_url,
    "batch_function_refused_in_java": _connect_in_java,
    "batch_function_unknown_host": _unknown_host,
    "batch_function_unknown_host_in_java": _unknown_host_in_java,
    "batch_function_timeout": _silent_peer,
    "batch_function_timeout_in_java": _silent_peer_in_java,
    "batch_function_connection_reset": _reset_by_peer,
    "batch_function_broken_pipe": _broken_pipe,
    "batch_function_wraps_a_refusal": _wrapped_refusal,
    "batch_function_disk_full": _disk_full,
}.items():
    add(
        _name,
        TRANSIENT,
        lambda stage, batch=_batch: stage.start(stage.rows(), batch=batch),
        reason="Out of DNS or a wrong name? A bounded number of tries does no harm."
        if "unknown_host" in _name
        else "",
    )
for _status in (429, 500, 502, 503, 504):
    add(f"batch_function_http_{_status}", TRANSIENT, asking(_status))


@scenario(TRANSIENT)
def source_socket_refused(stage: Stage) -> Any:
    source = stage.spark.readStream.format("socket").option("host", "127.0.0.1")
    return stage.start(source.option("port", _closed_port()).load())


@scenario(
    NOT_REPLAYABLE,
    reason="A new connection counts lines from 0, and the planned batch ends behind them.",
)
def source_socket_counts_anew_after_a_kill(stage: Stage) -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        checkpoint, port = stage.folder("checkpoint"), server.getsockname()[1]

        def start() -> tuple[Any, socket.socket]:
            source = stage.spark.readStream.format("socket").option("host", "127.0.0.1")
            writer = source.option("port", port).load().writeStream.queryName("q").format("noop")
            query = writer.option("checkpointLocation", str(checkpoint)).start()
            return query, server.accept()[0]

        first, reader = start()
        with reader:
            reader.sendall(b"line\n" * 20)
            first.processAllAvailable()
            first.stop()
        # As a kill between the plan and the commit of the batch leaves it.
        remove(one(checkpoint / "commits", "*"))
        second, reader = start()
        with reader:
            for _ in range(100):
                reader.sendall(b"line\n")
                time.sleep(0.1)
                if not second.isActive:
                    break
        return second


@scenario(TRANSIENT)
def udf_connection_refused(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    return stage.start(stage.rows().select(f.udf(lambda key: str(_connect(key, 0)))("k")))


@scenario(TRANSIENT)
def batch_function_writes_to_a_full_disk(stage: Stage) -> Any:
    def batch(frame: Any, number: int) -> None:
        jvm = frame.sparkSession._jvm
        jvm.java.io.FileOutputStream("/dev/full").write(1)

    return stage.start(stage.rows(), batch=batch)


@scenario(
    TRANSIENT,
    reason="A table that is being rewritten looks the same, and reading again helps there.",
)
def input_file_vanished(stage: Stage) -> Any:
    folder = stage.folder("vanishing")
    folder.mkdir()
    files = [stage.add_file(number, folder) for number in (0, 1)]

    def batch(frame: Any, number: int) -> None:
        # The batch is planned by now, and its file is opened only when rows are asked for.
        for path in files:
            path.unlink(missing_ok=True)
        frame.collect()

    return stage.start(stage.rows(folder), batch=batch)


@scenario(
    TRANSIENT,
    alone=True,
    conf={"spark.master": "local-cluster[1,1,1024]", "spark.task.maxFailures": "1"},
)
def executor_lost(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    def kill_executor(key: str) -> str:
        # The worker's parent is pyspark's daemon; the daemon's is the executor.
        status = Path(f"/proc/{os.getppid()}/status").read_text()
        executor = next(x for x in status.splitlines() if x.startswith("PPid:")).split()[1]
        os.kill(int(executor), signal.SIGKILL)
        time.sleep(30)
        return key

    return stage.start(stage.rows().select(f.udf(kill_executor)("k")))


def _fill_heap(frame: Any, number: int) -> None:
    gateway = frame.sparkSession.sparkContext._gateway
    gateway.new_array(gateway.jvm.long, 2_000_000_000)


def _fill_python(frame: Any, number: int) -> None:
    bytearray(10**15)


add(
    "batch_function_java_heap",
    OUT_OF_MEMORY,
    lambda stage: stage.start(stage.rows(), batch=_fill_heap),
)
add(
    "batch_function_python_memory",
    OUT_OF_MEMORY,
    lambda stage: stage.start(stage.rows(), batch=_fill_python),
)


@scenario(OUT_OF_MEMORY)
def udf_python_memory(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    return stage.start(stage.rows().select(f.udf(lambda key: str(_fill_python(key, 0)))("k")))


@scenario(
    OUT_OF_MEMORY,
    alone=True,
    conf={"spark.driver.maxResultSize": "1m"},
    reason="The limit stands before the heap; the remedy is the same.",
)
def batch_function_result_too_large(stage: Stage) -> Any:
    def batch(frame: Any, number: int) -> None:
        frame.selectExpr("explode(sequence(1, 1000000)) as n").selectExpr("uuid()").collect()

    return stage.start(stage.rows(), batch=batch)


@scenario(KILLED, alone=True, reason="A task without heap ends the JVM; Python sees it go.")
def task_java_heap(stage: Stage) -> Any:
    # Literals are folded while planning, hence the column.
    frame = stage.rows().selectExpr("repeat(k, cast(v as int) + 2000000000) as wide")
    query = stage.start(frame.selectExpr("length(concat(wide, wide, wide))"))
    query.awaitTermination()
    return query


@scenario(KILLED)
def udf_kills_its_worker(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    def die(key: str) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return key

    return stage.start(stage.rows().select(f.udf(die)("k")))


@scenario(KILLED)
def udf_leaves(stage: Stage) -> Any:
    from pyspark.sql import functions as f

    return stage.start(stage.rows().select(f.udf(lambda key: os._exit(3))("k")))


@scenario(KILLED, alone=True)
def jvm_killed(stage: Stage) -> Any:
    query = stage.spark.readStream.format("rate").load().writeStream.format("noop").start()
    jvm = stage.spark._jvm.java.lang.ProcessHandle.current().pid()
    threading.Timer(2, os.kill, (int(jvm), signal.SIGKILL)).start()
    query.awaitTermination()
    return query


@scenario(KILLED)
def jobs_cancelled(stage: Stage) -> Any:
    def batch(frame: Any, number: int) -> None:
        context = frame.sparkSession.sparkContext
        threading.Timer(1, context.cancelAllJobs).start()
        frame.sparkSession.range(1).selectExpr(
            "java_method('java.lang.Thread', 'sleep', 20000L)"
        ).collect()

    return stage.start(stage.rows(), batch=batch)


@scenario(KILLED, alone=True)
def context_stopped(stage: Stage) -> Any:
    def batch(frame: Any, number: int) -> None:
        frame.sparkSession.sparkContext._jsc.sc().stop()
        frame.count()

    return stage.start(stage.rows(), batch=batch)
