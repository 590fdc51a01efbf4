"""What a drill asks the state reader, which query it takes a start for, and what it patches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.jobs.drill import Drill, looks_at
from airflow_streaming.driver.jobs.scratch_patch import (
    Absent,
    Patches,
    QueryStart,
    SourceRules,
    find_query,
    patch_builder,
    patch_manager,
    place_of,
)
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.jobs.drill import DrilledQuery, DrillEventKind, DrillOrder, read_events

TWS = json.dumps(
    {
        "timeMode": "ProcessingTime",
        "stateVariables": [
            {"stateName": "seen", "stateVariableType": "MapState"},
            {"stateName": "$procTimers", "stateVariableType": "ValueState"},
        ],
    }
)


def a_store(name: str, *, store: str = "default", properties: str = "") -> dict[str, Any]:
    return {
        "operatorId": 0,
        "operatorName": name,
        "stateStoreName": store,
        "operatorProperties": properties,
    }


@pytest.mark.parametrize(
    ("stores", "expected"),
    [
        pytest.param(
            [a_store("stateStoreSave")],
            {"operator 0 (stateStoreSave)": {"operatorId": "0", "storeName": "default"}},
            id="an aggregate",
        ),
        pytest.param(
            [a_store("symmetricHashJoin", store=s) for s in ("left-keyToNumValues", "right-x")],
            {
                "operator 0 (symmetricHashJoin), left side": {
                    "operatorId": "0",
                    "joinSide": "left",
                },
                "operator 0 (symmetricHashJoin), right side": {
                    "operatorId": "0",
                    "joinSide": "right",
                },
            },
            id="a join",
        ),
        pytest.param(
            [a_store("transformWithStateInPandasExec", properties=TWS)],
            {
                "operator 0 (transformWithStateInPandasExec), variable seen": {
                    "operatorId": "0",
                    "stateVarName": "seen",
                },
                "operator 0 (transformWithStateInPandasExec), timers": {
                    "operatorId": "0",
                    "readRegisteredTimers": "true",
                },
            },
            id="state variables and timers",
        ),
    ],
)
def test_all_state_there_is_is_asked_for(
    stores: list[dict[str, Any]], expected: dict[str, dict[str, str]]
) -> None:
    assert {look.subject: look.options for look in looks_at(stores)} == expected


@pytest.mark.parametrize(
    "uri", ["/ck/counts", "file:/ck/counts", "file:///ck/counts/", "/ck/counts/"]
)
def test_one_place_has_one_spelling(uri: str) -> None:
    assert place_of(uri) == place_of("file:///ck/counts")


class Starter:
    """Stands in for a writer that the script started; it must not be reached."""

    session = None


def a_drill(tmp_path: Path, *folders: str) -> Drill:
    queries = tuple(
        DrilledQuery(folder=f, checkpoint=f"/ck/{f or 'alone'}", copy=str(tmp_path), batch=1)
        for f in folders
    )
    return Drill(DrillOrder(events=str(tmp_path / "events"), seconds=9, queries=queries))


@pytest.mark.parametrize(
    ("folders", "name", "location", "expected"),
    [
        pytest.param(["a", "b"], "b", None, "b", id="by name"),
        pytest.param(["a", "b"], "x", "file:/ck/b", "b", id="by location"),
        pytest.param(["a", "b"], "a", "/ck/b", "b", id="location before name"),
        pytest.param(["a", "b"], None, "s3://elsewhere/a", "a", id="by the folder of a location"),
        pytest.param([""], "anything", "/moved/to", "", id="the only one of a backup of one"),
        pytest.param(["a"], "c", None, None, id="another query"),
    ],
)
def test_a_query_of_the_script_is_found_in_the_backup(
    tmp_path: Path, folders: list[str], name: str | None, location: str | None, expected: str | None
) -> None:
    queries = a_drill(tmp_path, *folders)._order.queries

    found = find_query(queries, QueryStart(Starter(), name, location), ran=())  # type: ignore[arg-type]

    assert (None if found is None else found.folder) == expected


def test_a_query_that_is_not_in_the_backup_is_told_and_stood_in_for(tmp_path: Path) -> None:
    drill = a_drill(tmp_path, "a")

    query = drill.rehearse(QueryStart(Starter(), "c", None))  # type: ignore[arg-type]

    assert isinstance(query, Absent)
    assert (query.name, query.isActive, query.awaitTermination(5)) == ("c", False, True)
    (event,) = read_events((tmp_path / "events").read_bytes())
    assert (event.told, event.text) == (DrillEventKind.NOT_IN_BACKUP, "c")


class Java:
    """The JVM's writer or reader: collects what it is told."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def format(self, source: str) -> Java:
        self.told["format"] = source
        return self

    def option(self, key: str, value: Any) -> Java:
        self.told[key] = value
        return self


class Conf(dict[str, str]):
    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        del self[key]


class Session:
    def __init__(self) -> None:
        self.conf = Conf()


class Writer:
    """A writer with the signatures of pyspark's."""

    def __init__(self) -> None:
        self._spark, self._jwrite = Session(), Java()
        self.mode: str | None = None
        self.triggers: dict[str, Any] = {}
        self.functions: list[Any] = []

    def queryName(self, queryName: str) -> Any:
        return self

    def option(self, key: str, value: Any) -> Any:
        self._jwrite.option(key, value)
        return self

    def options(self, **options: Any) -> Any:
        for key, value in options.items():
            self._jwrite.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> Any:
        self.mode = outputMode
        return self

    def trigger(self, **trigger: Any) -> Any:
        self.triggers = trigger
        return self

    def foreachBatch(self, func: Callable[..., None]) -> Any:
        self.functions.append(func)
        return self

    def foreach(self, f: Callable[..., None]) -> Any:
        self.functions.append(f)
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        return ("started", path, format, partitionBy, dict(self._spark.conf))

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | None = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        raise AssertionError("A drill never writes a table.")


def a_patched_writer(seen: list[QueryStart]) -> Any:
    class Patched(Writer):
        queryName = Writer.queryName
        option = Writer.option
        options = Writer.options
        foreachBatch = Writer.foreachBatch
        foreach = Writer.foreach
        start = Writer.start
        toTable = Writer.toTable

    def rehearse(asked: QueryStart) -> Any:
        seen.append(asked)
        return asked.writer.begin("/scratch/q", once=True, checks_schema=False)

    Patches(rehearse).patch_writer(Patched)
    return Patched()


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda w: w.start("/out", format="delta", partitionBy="k"), id="a path"),
        pytest.param(lambda w: w.toTable("t", format="delta"), id="a table"),
        pytest.param(lambda w: w.foreachBatch(print).start(), id="a function for batches"),
        pytest.param(lambda w: w.foreach(print).start(), id="a function for rows"),
        pytest.param(lambda w: w.start(checkpointLocation="/ck/q", path="/out"), id="options"),
    ],
)
def test_whatever_the_sink_nothing_is_written_there(start: Callable[[Any], Any]) -> None:
    writer = a_patched_writer([])

    started, path, format, partition, conf = start(writer)

    assert (started, path, format, partition) == ("started", None, None, None)
    assert writer.functions == []
    assert writer.triggers == {"once": True}
    told = writer._jwrite.told
    assert (told["format"], told["checkpointLocation"]) == ("noop", "/scratch/q")
    assert "/out" not in told.values()
    assert conf == {"spark.sql.streaming.stateStore.stateSchemaCheck": "false"}
    assert writer._spark.conf == {}


def test_name_mode_and_location_of_the_script_are_kept() -> None:
    seen: list[QueryStart] = []
    writer = a_patched_writer(seen)

    writer.option("checkpointLocation", "/ck/q").start(outputMode="update", queryName="counts")

    assert [(asked.name, asked.location) for asked in seen] == [("counts", "/ck/q")]
    assert writer.mode == "update"


def test_sources_may_not_clean_up_what_they_read() -> None:
    class Reader:
        def __init__(self) -> None:
            self.told: dict[str, Any] = {}

        def option(self, key: str, value: Any) -> Any:
            self.told[key] = value
            return self

        def options(self, **options: Any) -> Any:
            self.told |= options
            return self

        def load(
            self, path: str | None = None, format: str | None = None, **options: Any
        ) -> dict[str, Any]:
            return {**self.told, **options, "path": path}

    SourceRules().patch(Reader)

    assert Reader().option("cleanSource", "delete").load("/in") == {
        "cleanSource": "off",
        "path": "/in",
    }
    assert Reader().options(cleansource="archive", header="x").load() == {
        "cleansource": "off",
        "header": "x",
        "path": None,
    }
    assert Reader().load(cleanSource="delete")["cleanSource"] == "off"


def test_listeners_are_left_out_and_waiting_for_any_query_ends_the_script() -> None:
    class Manager:
        def addListener(self, listener: Any) -> None:
            raise AssertionError("A drill must not tell production's listeners.")

        def awaitAnyTermination(self, timeout: int | None = None) -> None:
            raise AssertionError("It would wait for ever.")

    patch_manager(Manager)

    Manager().addListener(object())
    with pytest.raises(SystemExit) as left:
        Manager().awaitAnyTermination()
    assert left.value.code == 0


def test_a_session_stays_on_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)

    class Builder:
        def __init__(self, options: dict[str, str]) -> None:
            self._options = options

        def getOrCreate(self) -> dict[str, str]:
            return self._options

    patch_builder(Builder)

    options = {"spark.master": "yarn", "spark.sql.extensions": "x", "spark.eventLog.enabled": "1"}
    assert Builder(options).getOrCreate() == {"spark.sql.extensions": "x"}
    with pytest.raises(DriverRefusal, match="Spark Connect"):
        Builder({"spark.remote": "sc://x"}).getOrCreate()
