"""The command ``disaster-drill``, with a Spark that is played."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import sources_of
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.gates.rehearsal import Rehearsed
from airflow_streaming.home.home import Home, init_home
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT
from airflow_streaming.services.disaster import drill as module
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.storage.folders import open_folders
from tests.fakes import make_spark_home
from tests.unit.checkpoints.restoring import run_batches
from tests.unit.cli.host import Run
from tests.unit.home.make import SCRIPT, make_deployment


@pytest.fixture
def programs(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Two streams, of which one has a backup; the programs that were run."""
    spark = {"spark-4.3": str(make_spark_home(tmp_path / "spark"))}
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps(spark))
    for name in ("orders", "views"):
        home.stream(name).create_deployment(make_deployment(stream=name), SCRIPT)
    backed_up(home)
    ran: list[Program] = []

    def rehearse(place: Any, program: Program, *_: Any, **__: Any) -> Rehearsed:
        ran.append(program)
        return Rehearsed(
            application="job.py", spark="4.3.0", subject=place.subject, seconds=2.0, findings=()
        )

    monkeypatch.setattr(module, "rehearse", rehearse)
    return ran


def backed_up(home: Home) -> Backup:
    checkpoint = run_batches(Path(home.store.uri) / "orders" / "checkpoints" / "000001", 2)
    return take_backup(
        sources_of(open_folders(str(checkpoint))),
        open_backup_store(f"{home.store.uri}/_backups", create=True),
        stream="orders",
        origin=Origin.MANUAL,
        by="test",
        deployment=1,
        spark_version="4.3.0",
    )


@pytest.fixture
def to(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("drills"))


def test_a_drill_is_run_reported_and_shown(
    run: Run, programs: list[Program], to: str, tmp_path: Path
) -> None:
    page = tmp_path / "drill.md"
    code, out, err = run(
        *("disaster-drill", "--select", "name", "--to", to, "--json", "--report", str(page))
    )

    told = json.loads(out)
    assert code == 1, err
    assert [(one["name"], one["result"]) for one in told["streams"]] == [
        ("views", "no_backup"),
        ("orders", "recovered"),
    ]
    assert told["streams"][1]["recovery_point_seconds"] >= 0
    assert "orders" in page.read_text()
    (program,) = programs
    assert program.source == SCRIPT
    assert program.arguments == ("--output", SCRATCH_OUTPUT), "the real output is not known there"

    code, out, _ = run("disaster-drill", "--show", "--to", to)
    assert code == 1
    assert "1 lost, 1 recovered" in out


def test_a_drill_of_what_is_recovered_is_all_right(
    run: Run, programs: list[Program], to: str
) -> None:
    assert run("disaster-drill", "--select", "name=orders", "--to", to)[0] == 0


def refused_places(home: Home, to: str) -> dict[str, str]:
    """Return places that cannot be the home of a drill."""
    live = Path(home.store.uri)
    other = init_home(f"{to}/other")
    other.stream("clicks").create_deployment(make_deployment(stream="clicks"), SCRIPT)
    link = Path(to, "link")
    link.symlink_to(live)
    return {
        "in the live home": f"{live}/drills",
        "above it": str(live.parent),
        "the live home": str(live),
        "a link to it": str(link),
        "another home with streams": other.store.uri,
        "in another home": f"{other.store.uri}/drills",
        "in a checkpoint": f"{live}/orders/checkpoints/000001/drills",
        "in the backups": f"{live}/_backups/drills",
        "relative": "drills",
    }


def test_no_place_of_something_live_is_the_home_of_a_drill(
    run: Run, home: Home, programs: list[Program], to: str
) -> None:
    for name, place in refused_places(home, to).items():
        before = files_below(Path(to)), files_below(Path(home.store.uri).parent)

        code, _, err = run("disaster-drill", "--select", "name", "--to", place)

        assert code == 2, name
        assert "Choose another place for the home of the drill" in err or name == "relative", name
        assert (files_below(Path(to)), files_below(Path(home.store.uri).parent)) == before, name
    assert programs == []


def files_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_a_missing_backup_store_is_one_refusal(
    run: Run, programs: list[Program], to: str, tmp_path: Path
) -> None:
    code, out, err = run(
        *("disaster-drill", "--select", "name", "--to", to, "--store", str(tmp_path / "typo"))
    )

    assert (code, out) == (2, "")
    assert err.count("is not a backup store") == 1
    assert files_below(Path(to)) == []


def test_a_report_without_a_folder_is_refused_before_the_work(
    run: Run, programs: list[Program], to: str, tmp_path: Path
) -> None:
    page = str(tmp_path / "none" / "drill.md")
    with pytest.raises(SystemExit) as left:
        run("disaster-drill", "--select", "name", "--to", to, "--report", page)

    assert left.value.code == 2
    assert (programs, files_below(Path(to))) == ([], [])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (("--select", "name=none"), "No stream"),
        (("--select", "teem=web"), "teem"),
        (("--show",), "no disaster drill"),
    ],
)
def test_a_wrong_use_drills_nothing(
    run: Run, programs: list[Program], to: str, wrong: tuple[str, ...], why: str
) -> None:
    code, _, err = run("disaster-drill", *wrong, "--to", to)

    assert code == 2
    assert why in err
    assert (programs, files_below(Path(to))) == ([], [])
