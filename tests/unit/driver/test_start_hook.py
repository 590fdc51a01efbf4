from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver import start_hook as intercept
from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims
from airflow_streaming.driver.exit_status import ShutdownState, Stop
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.plan.writer_settings import location_in
from airflow_streaming.driver.script import is_connect
from airflow_streaming.driver.start_guard import StartGuard
from airflow_streaming.driver.start_hook import Gate, StartHook
from airflow_streaming.exceptions import DriverRefusal, StopRequested
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.fakes import LAYOUT, CheckpointFolder, FakeQuery


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"path": "/p"}, None, id="another option"),
        pytest.param({"CHECKPOINTlocation": "/c"}, "/c", id="any case"),
        pytest.param({"checkpointLocation": None}, None, id="no value"),
    ],
)
def test_the_scripts_own_location_is_seen(options: dict[str, Any], expected: str | None) -> None:
    assert location_in(options) == expected


@pytest.mark.parametrize(
    ("environment", "options", "expected"),
    [
        pytest.param({}, {}, False, id="classic by default"),
        pytest.param({"SPARK_REMOTE": "sc://x"}, {}, True, id="remote in the environment"),
        pytest.param({"SPARK_CONNECT_MODE_ENABLED": "1"}, {}, True, id="connect mode enabled"),
        pytest.param({}, {"spark.remote": "sc://x"}, True, id="builder.remote"),
        pytest.param({"SPARK_API_MODE": "Connect"}, {}, True, id="API mode in the environment"),
        pytest.param(
            {"SPARK_API_MODE": "connect"}, {"spark.api.mode": "classic"}, False, id="builder wins"
        ),
    ],
)
def test_a_connect_session_is_recognized(
    environment: dict[str, str], options: dict[str, Any], expected: bool
) -> None:
    assert is_connect(environment, options) is expected


class Java:
    """The JVM's writer: collects options as py4j would send them."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    def option(self, key: str, value: Any) -> Java:
        self.options[key] = value
        return self

    def queryName(self, name: str) -> Java:
        self.options["queryName"] = name
        return self


class StreamingQuery:
    def __init__(self) -> None:
        self.id, self.runId, self._jsq = "id-1", "run-1", object()


class Context:
    """A Spark context with its local properties."""

    def __init__(self) -> None:
        self._gateway = self._jsc = self
        self.pool: str | None = "mine"

    def hadoopConfiguration(self) -> None:
        """Only pyspark's folder stores need one."""

    def getLocalProperty(self, key: str) -> str | None:
        return self.pool

    def setLocalProperty(self, key: str, value: str | None) -> None:
        self.pool = value


class Session:
    def __init__(self) -> None:
        self.sparkContext = Context()
        self.conf: dict[str, str] = {}


class Writer:
    """A writer with the signatures of pyspark's."""

    def __init__(self, session: Session) -> None:
        self._spark, self._jwrite = session, Java()
        self.name: str | None = None
        self.function: Callable[[Any, int], None] | None = None
        self.started: list[tuple[Any, ...]] = []

    def queryName(self, queryName: str) -> Any:
        self.name = queryName
        return self

    def option(self, key: str, value: Any) -> Any:
        self._jwrite = self._jwrite.option(key, value)
        return self

    def options(self, **options: Any) -> Any:
        for key, value in options.items():
            self._jwrite = self._jwrite.option(key, value)
        return self

    def foreachBatch(self, func: Callable[[Any, int], None]) -> Any:
        self.function = func
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        self.options(**options)
        if queryName is not None:
            self.queryName(queryName)
        self.started.append((path, format, self._spark.sparkContext.pool))
        return StreamingQuery()

    def toTable(
        self, tableName: str, queryName: str | None = None, **options: Any
    ) -> StreamingQuery:
        self.options(**options)
        if queryName is not None:
            self.queryName(queryName)
        self.started.append((tableName,))
        return StreamingQuery()


class Builder:
    _options: dict[str, Any]

    def __init__(self, **options: Any) -> None:
        self._options = options

    def getOrCreate(self) -> str:
        return "a session"

    def remote(self, url: str) -> Any:
        return self


def fresh(owner: type) -> dict[str, Any]:
    """Return what a class is made of, for another of the same kind."""
    return {
        name: item for name, item in vars(owner).items() if name not in {"__dict__", "__weakref__"}
    }


class Script:
    """A script before patched classes; of a driver at the barrier when it has one."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        pools: bool,
        barrier: Any = None,
        aside: Any = None,
    ) -> None:
        self.ending, self.queries = ShutdownState(), Queries()
        claims = Claims(LocalStore(str(folder / "home")), LAYOUT, deployment=1, epoch=1)
        start_hook = StartHook(
            guard=StartGuard(
                *("/c",),
                queries=self.queries,
                claims=claims,
                ending=self.ending,
                barrier=barrier,
            ),
            gate=Gate(lambda: None, self.ending, self.queries),
            fair_pools=pools,
            ending=self.ending,
        )
        # New classes for every test, because they get patched.
        self.writer_class = type("Writer", (), fresh(Writer))
        self.builder_class = type("Builder", (), fresh(Builder))
        start_hook.patch(self.builder_class, self.writer_class, aside)
        self.session = Session()
        monkeypatch.setattr(intercept, "HadoopStore", lambda uri, *_: CheckpointFolder(uri))
        monkeypatch.setattr(intercept, "SparkQuery", lambda _: FakeQuery())

    def writer(self) -> Any:
        return self.writer_class(self.session)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    return Script(tmp_path, monkeypatch, pools=False)


OURS = {"checkpointLocation": "file:///c/q"}


class Barrier:
    """Holds back the start of every query but the last until it is opened."""

    is_closed = False

    def __init__(self, last: str) -> None:
        self._last = last

    def sets_aside(self, query: str) -> bool:
        return query != self._last

    def wait(self, query: str, absorb: Any) -> None:
        """Nobody has anything for it to do."""


class Later:
    """Starts nothing before it is told to."""

    def __init__(self) -> None:
        self.begin: list[Callable[[], Any]] = []

    def start(self, begin: Callable[[], Any]) -> str:
        self.begin.append(begin)
        return "a stand-in"


@pytest.mark.parametrize("names_again", ["start", "queryName"])
def test_a_query_that_waits_beside_the_script_keeps_its_name_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_again: str
) -> None:
    later = Later()
    script = Script(tmp_path, monkeypatch, pools=False, barrier=Barrier("b"), aside=later)
    writer = script.writer().queryName("a")
    assert writer.start() == "a stand-in"
    if names_again == "start":
        writer.start(queryName="b")
    else:
        writer.queryName("b").start()
    assert script.queries.named("a") is None

    (begin,) = later.begin
    begin()

    assert writer._jwrite.options == {"checkpointLocation": "file:///c/a", "queryName": "a"}
    assert {query.name: query.checkpoint for query in script.queries.all()} == {
        "a": "file:/c/a",
        "b": "file:/c/b",
    }


def test_a_query_gets_our_checkpoint_and_everything_the_script_said(script: Script) -> None:
    writer = script.writer()
    query = writer.queryName("q").option("compression", "none").start("/out", format="parquet")
    assert isinstance(query, StreamingQuery)
    assert writer._jwrite.options == {"compression": "none", **OURS}
    assert writer.started == [("/out", "parquet", "mine")]


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda writer: writer.start(queryName="q"), id="start, by keyword"),
        pytest.param(
            lambda writer: writer.start(None, None, None, None, "q"), id="start, by place"
        ),
        pytest.param(lambda writer: writer.toTable("t", queryName="q"), id="toTable"),
        pytest.param(lambda writer: writer.queryName("old").start(queryName="q"), id="said twice"),
    ],
)
def test_the_name_is_seen_wherever_it_is_given(
    script: Script, start: Callable[[Any], StreamingQuery]
) -> None:
    writer = script.writer()
    start(writer)
    assert writer._jwrite.options == OURS
    assert script.queries.named("q") is not None


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda w: w.option("checkpointLocation", "/own").start(), id="option"),
        pytest.param(lambda w: w.options(checkpointLocation="/own", a="b").start(), id="options"),
        pytest.param(lambda w: w.start(checkpointLocation="/own"), id="start"),
        pytest.param(lambda w: w.toTable("t", checkpointLocation="/own"), id="toTable"),
    ],
)
def test_a_location_of_the_script_is_left_alone(
    script: Script, start: Callable[[Any], StreamingQuery]
) -> None:
    writer = script.writer().queryName("q")
    start(writer)
    assert writer._jwrite.options["checkpointLocation"] == "/own"
    tracked = script.queries.named("q")
    assert tracked is not None
    assert tracked.origin == "script"


def test_a_location_in_the_sessions_configuration_is_left_to_spark(script: Script) -> None:
    script.session.conf["spark.sql.streaming.checkpointLocation"] = "/all/"
    writer = script.writer().queryName("q")
    writer.start()
    assert writer._jwrite.options == {}
    tracked = script.queries.named("q")
    assert tracked is not None
    assert tracked.checkpoint == "file:/all/q"


def test_our_location_on_a_writer_is_not_taken_for_the_scripts_own(script: Script) -> None:
    writer = script.writer()
    writer.start(queryName="a")
    writer.start(queryName="b")
    tracked = script.queries.named("b")
    assert tracked is not None
    assert (tracked.checkpoint, tracked.origin) == ("file:/c/b", "deployment")


def test_a_function_is_put_behind_the_gate(script: Script) -> None:
    seen: list[int] = []
    writer = script.writer().foreachBatch(lambda _, number: seen.append(number)).queryName("q")
    writer.start()
    tracked = script.queries.named("q")
    assert tracked is not None
    assert tracked.gated

    writer.function("rows", 1)
    script.ending.ask_stop(Stop(by="ann", reason="Enough.", grace=60))
    with pytest.raises(StopRequested, match="query 'q'"):
        writer.function("rows", 2)
    assert seen == [1]
    assert tracked.held


def test_a_query_is_started_in_its_own_pool_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(tmp_path, monkeypatch, pools=True)
    writer = script.writer().queryName("q")
    writer.start()
    assert writer.started == [(None, None, "q")]
    assert script.session.sparkContext.pool == "mine"


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda builder: builder().remote("sc://x"), id="remote"),
        pytest.param(
            lambda builder: builder(**{"spark.remote": "sc://x"}).getOrCreate(), id="configuration"
        ),
    ],
)
def test_a_connect_session_is_refused_for_good(
    script: Script, build: Callable[[Any], object]
) -> None:
    assert script.builder_class().getOrCreate() == "a session"
    with pytest.raises(DriverRefusal, match="Use a classic session"):
        build(script.builder_class)
    assert script.ending.refusal is not None
