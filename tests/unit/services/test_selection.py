"""The streams of a home that a selector selects, and their order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.arguments.selector import parse_selector
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.owner import Owner
from airflow_streaming.model.records.supervision import Supervision
from airflow_streaming.model.spark.plan import (
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
)
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.services.fleet_rows import FleetRow
from airflow_streaming.services.selection import live_lanes, selected
from airflow_streaming.supervision.stream_status import Level, StreamStanding
from tests.unit.home.make import SCRIPT, make_deployment, make_epoch

NOW = datetime(2026, 5, 4, tzinfo=UTC)


class Fleet:
    """A home of streams, and the streams that were looked at."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(LocalStore(str(folder)))
        self.looks: list[str] = []
        self.lanes: list[str] = []

    def add(
        self,
        name: str,
        labels: dict[str, str] | None = None,
        tags: tuple[str, ...] = (),
        **deployment: Any,
    ) -> StreamHome:
        stream = self.home.stream(name)
        stream.create_deployment(make_deployment(stream=name, **deployment), SCRIPT)
        stream.supervise(Supervision(number=0, by="dag", at=NOW, labels=labels or {}, tags=tags))
        self.lanes.append(name)
        return stream

    def plan(self, name: str, reads: str, writes: str, *, is_stateful: bool = False) -> None:
        stream, layout = self.home.stream(name), Layout(name)
        stream.create_epoch(make_epoch(1, stream=name, launcher="yarn"))
        plan = QueryPlan(
            query="q",
            spark="4.3.0",
            output_mode="append",
            sources=(SourcePlan(source="file", paths=(reads,)),),
            sink=SinkPlan(sink="file", target=writes),
            operators=(OperatorPlan(sort=OperatorKind.AGGREGATE),) if is_stateful else (),
        )
        stream.store.create(layout.place(QueryPlan, epoch=1, query="q"), layout.bytes_of(plan))

    def look(self, stream: StreamHome) -> StreamStanding:
        self.looks.append(stream.name)
        return StreamStanding(word="healthy", level=Level.WELL, reason="")

    def select(self, text: str, rows: dict[str, FleetRow] | None = None) -> list[str]:
        return selected(self.home, self.lanes, parse_selector(text), self.look, rows)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    fleet = Fleet(tmp_path)
    fleet.add("a_sums", {"team": "data"}, runtime="spark-4.3", spark_version="4.3.0")
    fleet.add("raw", {"team": "data", "tier": "1"}, runtime="spark-3.5", spark_version="3.5.9")
    fleet.add(
        "alerts",
        {"team": "fraud"},
        ("nightly", "on call: ada"),
        runtime="spark-4.3",
        spark_version="4.3.0",
    )
    fleet.plan("raw", "/in", "/raw")
    fleet.plan("a_sums", "/raw", "/sums", is_stateful=True)
    fleet.plan("alerts", "/sums", "/alerts")
    owner = Owner(
        number=1, stream="raw", dag_id="raw_dag", by="dag", reason="New.", at=NOW, team="core"
    )
    layout = Layout("raw")
    fleet.home.store.create(layout.place(Owner, number=1), layout.bytes_of(owner))
    return fleet


@pytest.mark.parametrize(
    ("text", "lanes"),
    [
        ("team=data", ["raw", "a_sums"]),
        ("tier", ["raw"]),
        ("!tier", ["a_sums", "alerts"]),
        ("name=a*", ["a_sums", "alerts"]),
        ("runtime=spark-4.3", ["a_sums", "alerts"]),
        ("spark=3.5*", ["raw"]),
        ("launcher=yarn", ["raw", "a_sums", "alerts"]),
        ("dag=raw_dag,dag_team=core", ["raw"]),
        ("tag=nightly", ["alerts"]),
        ("tag=on call: *", ["alerts"]),
        ("tag!=nightly", ["raw", "a_sums"]),
        ("!tag", ["raw", "a_sums"]),
        ("state=healthy,level=well,team=fraud", ["alerts"]),
        ("level in (down, bad)", []),
        ("stateful=yes", ["a_sums"]),
        ("stateful=no", ["raw", "alerts"]),
        ("source=file:///raw", ["a_sums"]),
        ("sink=file,team=fraud", ["alerts"]),
        ("downstream_of=raw", ["a_sums", "alerts"]),
        ("downstream_of=file:///in", ["raw", "a_sums", "alerts"]),
        ("upstream_of=alerts", ["raw", "a_sums"]),
        ("upstream_of=file:///alerts", ["raw", "a_sums", "alerts"]),
        ("!downstream_of", []),
        ("downstream_of,upstream_of", ["raw", "a_sums", "alerts"]),
        ("downstream_of!=raw", ["raw"]),
        ("upstream_of notin (alerts)", ["alerts"]),
        ("downstream_of in (a*, nothing)", ["alerts"]),
        ("upstream_of=alerts,downstream_of=raw", ["a_sums"]),
    ],
)
def test_facts_and_labels_select(fleet: Fleet, text: str, lanes: list[str]) -> None:
    # The order of data where plans were read, else of names.
    found = fleet.select(text)

    assert sorted(found) == sorted(lanes)
    if parse_selector(text).needs_plans:
        assert found == lanes


def test_streams_are_looked_at_only_for_their_state(fleet: Fleet) -> None:
    fleet.select("team=data")
    assert fleet.looks == []

    fleet.select("state=healthy")
    assert sorted(fleet.looks) == sorted(fleet.lanes)


def test_a_row_answers_without_a_look_and_without_a_record(fleet: Fleet) -> None:
    row = FleetRow(
        lane="raw",
        seen_at=NOW,
        word="stalled",
        level=Level.BAD,
        reason="",
        runtime="spark-9",
        labels={"team": "row"},
    )

    assert fleet.select("team=row,runtime=spark-9,state=stalled", {"raw": row}) == ["raw"]
    assert "raw" not in fleet.looks


def test_a_misspelled_key_selects_nothing_and_is_refused(fleet: Fleet) -> None:
    with pytest.raises(SpecError, match="'teem'"):
        fleet.select("!teem")


def test_a_damaged_plan_is_refused_only_where_plans_are_needed(fleet: Fleet) -> None:
    path = Layout("raw").place(QueryPlan, epoch=1, query="q")
    fleet.home.store.delete(path)
    fleet.home.store.create(path, b"{")

    assert fleet.select("tier") == ["raw"]
    with pytest.raises(RecordError, match="plans of stream 'raw'"):
        fleet.select("stateful=yes")


def test_a_stream_with_unreadable_labels_is_not_taken_for_one_without(fleet: Fleet) -> None:
    fleet.home.store.create("alerts/supervision/000002.json", b"{")

    assert fleet.select("name=raw") == ["raw"]
    for text in ("!tier", "team!=data", "team=data"):
        with pytest.raises(RecordError, match="alerts/supervision/000002"):
            fleet.select(text)


def test_a_label_of_a_forged_record_is_no_fact(fleet: Fleet) -> None:
    fleet.home.stream("raw").supervise(
        Supervision(number=0, by="x", at=NOW, labels={"runtime": "spark-4.3"})
    )

    assert fleet.select("runtime=spark-4.3") == ["a_sums", "alerts"]


def test_a_damaged_stream_holds_up_no_selection_that_does_not_need_its_record(fleet: Fleet) -> None:
    (Path(fleet.home.store.uri) / "raw/deployments/000001.json").write_text('{"kind":"x"}')

    assert fleet.select("name=*") == ["a_sums", "alerts", "raw"]
    assert fleet.select("name!=raw,spark=*") == ["a_sums", "alerts"]
    assert fleet.select("team=data") == ["a_sums", "raw"]
    with pytest.raises(RecordError) as refused:
        fleet.select("spark=*")
    assert "needs a record of stream 'raw'" in str(refused.value)
    assert "leave it out with name!=raw" in str(refused.value)


def test_a_stream_that_its_name_leaves_out_still_shows_which_labels_there_are(
    fleet: Fleet,
) -> None:
    assert fleet.select("name!=raw,!tier") == ["a_sums", "alerts"]


def test_the_live_lanes_are_found_beside_a_damaged_record_of_a_stream_that_is_left_out(
    fleet: Fleet,
) -> None:
    (Path(fleet.home.store.uri) / "raw/live").mkdir()
    (Path(fleet.home.store.uri) / "raw/live/000001.json").write_text('{"kind":"x"}')

    assert live_lanes(fleet.home, parse_selector("name!=raw")) == ["a_sums", "alerts"]
    with pytest.raises(RecordError, match=r"leave it out with name!=raw\.$"):
        live_lanes(fleet.home, parse_selector("name=*"))
