"""The command ``adopt``: what it examines, copies and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.home.home import Home
from airflow_streaming.model.records.control import EventKind
from airflow_streaming.services import adopting
from tests.unit.cli.host import Run
from tests.unit.home.make import SCRIPT, make_deployment
from tests.unit.supervision.checkpoints import Checkpoint

JOB = 'df.writeStream.queryName("counts").start()\n'


@pytest.fixture
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application whose query has committed four batches in a checkpoint of its own."""
    folder = tmp_path_factory.mktemp("old")
    Checkpoint(folder / "cp").run(0, 1, 2, 3)
    script = folder / "job.py"
    script.write_text(JOB)
    return script


def more(job: Path) -> None:
    """Let the old application commit another batch."""
    for log, text in (("offsets", "v1\n{}\n40"), ("commits", "v1\n{}")):
        (job.parent / "cp" / log / "4").write_text(text)


def asked(job: Path, *more: str) -> tuple[str, ...]:
    checkpoint = str(job.parent / "cp")
    return (
        "adopt",
        str(job),
        "--name",
        "orders",
        "--checkpoint",
        checkpoint,
        "--watch",
        "0",
        *more,
    )


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_checkpoint_is_copied_to_where_the_first_deployment_looks(
    run: Run, home: Home, job: Path
) -> None:
    before = files(job.parent)

    code, text, errors = run(*asked(job, "--reason", "moved", "--json"))

    told = json.loads(text)
    to = f"{home.store.uri}/orders/checkpoints/000001/counts"
    assert (code, errors) == (0, "")
    assert [(one["query"], one["to"], one["batch"]) for one in told["copied"]] == [
        ("counts", to, 3)
    ]
    old, new = inspect(str(job.parent / "cp")), inspect(to)
    assert (new.query_id, new.last_committed_batch) == (old.query_id, 3)
    assert files(job.parent) == before, "the original is only read"
    (event,) = home.stream("orders").events()
    assert (event.event, event.facts["checkpoint"]) == (EventKind.CHECKPOINT_CHANGED, to)
    assert told["copied"][0]["backup"] == event.facts["backup"]
    assert "StreamSpec(" in told["spec"]


def test_a_dry_run_writes_nothing(run: Run, home: Home, job: Path) -> None:
    before = files(Path(home.store.uri))

    code, text, _ = run(*asked(job, "--dry-run"))

    assert code == 0
    assert "Query counts:" in text
    assert "batch 3" in text
    assert "Nothing is in the way." in text
    assert files(Path(home.store.uri)) == before


def test_edits_come_before_a_copy(run: Run, home: Home, job: Path) -> None:
    job.write_text("df.writeStream.start()\n")

    code, text, _ = run(*asked(job))

    assert code == 1
    assert 'edit: line 1: the query has no name. Add .queryName("cp")' in text
    assert not (Path(home.store.uri) / "orders/checkpoints").exists()


def test_a_run_that_died_is_repeated(
    run: Run, home: Home, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(adopting, "_tell", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(*asked(job))

    assert run(*asked(job))[0] == 0


def test_an_application_that_still_writes_is_in_the_way(
    run: Run, home: Home, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_: float) -> None:
        more(job)

    monkeypatch.setattr(
        "airflow_streaming.cli.spark.adopt.writers",
        lambda found, **_: adopting.writers(found, write),
    )

    code, text, _ = run(*asked(job))

    assert code == 1
    assert "in the way:" in text
    assert "still writes it" in text


def test_a_batch_during_the_copy_takes_the_copy_back(
    run: Run, home: Home, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = adopting.restore

    def restored(*given: object, **named: object) -> object:
        more(job)
        return restore(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(adopting, "restore", restored)

    code, _, errors = run(*asked(job))

    assert (code, "The copies were removed" in errors) == (1, True)
    assert not (Path(home.store.uri) / "orders/checkpoints/000001").exists()


def test_a_stream_that_is_there_is_not_overwritten(run: Run, home: Home, job: Path) -> None:
    home.stream("orders").create_deployment(make_deployment(), SCRIPT)

    code, _, errors = run(*asked(job))

    assert (code, "has deployment 1 already" in errors) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("adopt", "{job}", "--name", "orders"), "Which checkpoint"),
        (("adopt", "{job}", "--name", "a.green", "--checkpoint", "/cp"), "is kept for"),
        (("adopt", "{bad}", "--name", "orders", "--checkpoint", "{cp}"), "is not valid Python"),
    ],
)
def test_wrong_use_is_named(run: Run, job: Path, arguments: tuple[str, ...], expected: str) -> None:
    bad = job.parent / "bad.py"
    bad.write_text("def (")
    places = {"job": str(job), "bad": str(bad), "cp": str(job.parent / "cp")}

    code, _, errors = run(*(one.format_map(places) for one in arguments))

    assert (code, expected in errors) == (2, True)


def test_several_checkpoints_are_named_by_their_queries(run: Run, home: Home, job: Path) -> None:
    Checkpoint(job.parent / "second").run(0, 1)
    job.write_text(JOB + 'df.writeStream.queryName("raw").start()\n')

    code, text, _ = run(
        *("adopt", str(job), "--name", "orders", "--watch", "0", "--json"),
        *("--of", f"counts={job.parent}/cp", "--of", f"raw={job.parent}/second"),
    )

    assert code == 0
    assert [one["query"] for one in json.loads(text)["copied"]] == ["counts", "raw"]
