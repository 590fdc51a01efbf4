from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.status import QueryStatus
from tests.unit.cli.host import Run, begin
from tests.unit.home.make import NOON, make_deployment, make_epoch, make_query, make_status

GOOD = b"spark.readStream.option('maxFilesPerTrigger', 1)\n"
PARTITIONS = "spark.sql.shuffle.partitions"
CALM = {
    PARTITIONS: "2",
    "spark.master": "local[2]",
    "spark.sql.streaming.metricsEnabled": "true",
}


def write_offsets(checkpoint: Path, batch: int, conf: dict[str, str]) -> None:
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"batchWatermarkMs": 0, "conf": conf})
    (folder / str(batch)).write_text(f"v1\n{line}\n" + '{"logOffset":1}')


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "orders" / "checkpoints" / "000001" / "revenue"


@pytest.fixture
def calm(home: Home, tmp_path: Path, checkpoint: Path) -> StreamHome:
    """A stream that runs, with a checkpoint that can be read."""
    stream = home.stream("orders")
    deployment = make_deployment(
        source=GOOD,
        conf=CALM,
        checkpoint=str(checkpoint.parent),
        output=str(tmp_path / "orders" / "output"),
    )
    stream.create_deployment(deployment, GOOD)
    begin(stream, application_id="local-1", queries=(query_on(checkpoint),))
    write_offsets(checkpoint, 9, {PARTITIONS: "2"})
    write_offsets(checkpoint, 10, {PARTITIONS: "2"})
    return stream


def query_on(checkpoint: Path, name: str = "revenue") -> QueryStatus:
    return make_query(name, checkpoint=f"file:{checkpoint}")


def begin_other(stream: StreamHome, query: QueryStatus) -> None:
    stream.create_epoch(make_epoch(stream=stream.name, created_at=NOON))
    beat = make_status(stream=stream.name, queries=(query,))
    stream.store.replace(f"{stream.name}/epochs/000001/status.json", beat.to_bytes())


class TestDoctor:
    def test_it_tells_risk_evidence_and_remedy_and_exits_with_1(
        self, run: Run, calm: StreamHome, checkpoint: Path
    ) -> None:
        write_offsets(checkpoint, 11, {PARTITIONS: "200"})

        code, out, _ = run("doctor", "orders")

        assert code == 1
        assert "MEDIUM  shuffle-partitions  query revenue\n" in out
        assert "    seen: 200 partitions on 2 cores" in out
        assert "LOW  conf-without-effect  query revenue" in out
        assert "    seen: in conf 2, in the checkpoint 200" in out
        assert "    what to do: " in out

    def test_what_could_not_be_examined_stands_apart(self, run: Run, calm: StreamHome) -> None:
        _, out, _ = run("doctor", "orders")

        _, _, rest = out.partition("Could not be examined\n")
        unexamined, _, fine = rest.partition("Nothing risky\n")
        assert "retention revenue Its batches" in " ".join(unexamined.split())
        assert "rate-limit - The script mentions maxFilesPerTrigger" in " ".join(fine.split())
        assert "conf-without-effect revenue Conf and checkpoint agree." in " ".join(fine.split())

    def test_without_a_risk_it_exits_with_0(
        self, run: Run, calm: StreamHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("airflow_streaming.advice.checkpoint_risks._TEMPORARY", ())

        code, out, _ = run("doctor", "orders")

        assert (code, out.splitlines()[0]) == (0, "orders: NO RISKS")

    def test_a_checkpoint_of_another_stream_is_recognized(
        self, run: Run, calm: StreamHome, home: Home, checkpoint: Path
    ) -> None:
        other = home.stream("sales")
        other.create_deployment(make_deployment(source=GOOD, stream="sales"), GOOD)
        begin_other(other, query_on(checkpoint, "theirs"))

        code, out, _ = run("doctor", "orders")

        assert code == 1
        assert "HIGH  shared-checkpoint  query revenue" in out
        assert "stream sales uses the same checkpoint" in out

    def test_a_backup_store_that_is_not_in_its_place_is_a_risk(
        self, run: Run, calm: StreamHome, tmp_path: Path
    ) -> None:
        place = tmp_path / "backups"
        open_backup_store(str(place), create=True, home=calm.store)
        _, out, _ = run("doctor", "orders")
        assert f"The backup store {place} is in its place." in " ".join(out.split())
        (place / "store.json").unlink()

        code, out, _ = run("doctor", "orders")

        assert code == 1
        assert "HIGH  backup-store" in out
        assert f"The backup store at {place} is missing" in " ".join(out.split())

    def test_cores_may_be_given_where_conf_has_them_not(self, run: Run, calm: StreamHome) -> None:
        _, out, _ = run("doctor", "orders", "--cores", "64")

        assert "seen: 2 partitions on 64 cores" in out

    def test_json_has_every_answer(self, run: Run, calm: StreamHome) -> None:
        code, out, _ = run("doctor", "orders", "--json")

        told = json.loads(out)
        assert (code, told["stream"]) == (1, "orders")
        first = told["advice"][0]
        assert (first["rule"], first["outcome"], first["level"], first["query"]) == (
            "temporary-checkpoint",
            "risk",
            "high",
            "revenue",
        )
        assert {"risk", "unknown", "fine"} == {advice["outcome"] for advice in told["advice"]}

    def test_a_stream_that_never_ran_is_examined_too(self, run: Run, stream: StreamHome) -> None:
        code, out, _ = run("doctor", "orders")

        assert code == 1
        assert "LOW  metrics" in out
        assert "watermark - No driver of the stream has" in " ".join(out.split())

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            pytest.param(b"rubbish", "does not begin as a file of Spark's", id="a broken log"),
            pytest.param(None, "No offsets could be read", id="an empty checkpoint"),
        ],
    )
    def test_a_checkpoint_that_cannot_be_read_is_said_and_hides_nothing_else(
        self,
        run: Run,
        calm: StreamHome,
        checkpoint: Path,
        content: bytes | None,
        told: str,
    ) -> None:
        for file in (checkpoint / "offsets").iterdir():
            file.unlink()
        if content is not None:
            (checkpoint / "offsets" / "12").write_bytes(content)

        _, out, _ = run("doctor", "orders")

        assert told in " ".join(out.split())
        assert "rate-limit - The script mentions" in " ".join(out.split())

    def test_a_foreign_record_in_the_home_hides_nothing_else(
        self, run: Run, calm: StreamHome, home: Home
    ) -> None:
        home.stream("broken").store.create("broken/deployments/000001.json", b"{}")

        _, out, _ = run("doctor", "orders")

        assert "Stream broken, which may share a checkpoint, cannot be read" in out

    def test_it_writes_nothing(self, run: Run, calm: StreamHome, tmp_path: Path) -> None:
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

        run("doctor", "orders")

        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before

    def test_a_bad_number_of_cores_is_wrong_use(self, run: Run, calm: StreamHome) -> None:
        with pytest.raises(SystemExit) as raised:
            run("doctor", "orders", "--cores", "0")

        assert raised.value.code == 2
