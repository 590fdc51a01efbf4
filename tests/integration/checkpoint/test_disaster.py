"""A real disaster drill: golden checkpoints of four streams, of which one is idle, one lost its input, and one has a damaged backup."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import Source
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.cli.main import main
from airflow_streaming.home.home import Home, init_home
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.storage.folders import open_folders
from tests.conftest import REPOSITORY
from tests.golden import golden_checkpoint, golden_sources
from tests.unit.checkpoints.restoring import bytes_of
from tests.unit.home.make import make_deployment

SPARK = "4.3.0"
SCRIPT = REPOSITORY / "tests" / "system" / "shapes" / "golden.py"
RECORDED = f"/tmp/zz_src_{SPARK}_"
SHAPES = ("agg_rocks_v2", "complete", "session", "stateless")
INPUTS = {"agg_rocks_v2": "agg", "complete": "co"}

pytestmark = pytest.mark.nightly("Four starts of Spark, one after the other.")


class Production:
    """Four streams with golden checkpoints, their input and their backups."""

    def __init__(self, root: Path) -> None:
        self.live, self.vault, self.to = root / "live", root / "vault", root / "drills"
        self.home: Home = init_home(str(self.live))
        self.store = open_backup_store(str(self.vault), create=True)
        self.checkpoints: dict[str, Path] = {}
        for folder in golden_sources().glob(f"zz_src_{SPARK}_*"):
            shutil.copytree(folder, f"{self.input}{folder.name.rpartition('_')[2]}")

    @property
    def input(self) -> str:
        return f"{self.live}/input_"

    def deploy(self, shape: str) -> None:
        made = golden_checkpoint(SPARK, shape).copy_to(self.live / shape / "checkpoints")
        self.checkpoints[shape] = made
        for log in made.glob("sources/*/[0-9]*"):
            log.write_text(log.read_text().replace(RECORDED, self.input))
            (log.parent / f".{log.name}.crc").unlink(missing_ok=True)
        source = SCRIPT.read_bytes()
        self.home.stream(shape).create_deployment(
            make_deployment(
                *(1, source),
                stream=shape,
                application=str(SCRIPT),
                application_args=(self.input, "{output}", shape),
                conf={},
                checkpoint=str(made.parent),
                output=str(self.live / shape / "output"),
            ),
            source,
        )

    def back_up(self, shape: str) -> None:
        take_backup(
            [Source(folder=shape, folders=open_folders(str(self.checkpoints[shape])))],
            self.store,
            stream=shape,
            origin=Origin.SCHEDULED,
            by="a test",
            deployment=1,
            spark_version=SPARK,
        )


def test_a_fleet_is_recovered_elsewhere_or_its_losses_are_named(
    tmp_path: Path,
    spark_4_3: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AIRFLOW__STREAMING__RUNTIMES", json.dumps({"spark-4.3": str(spark_4_3)}))
    made = Production(tmp_path)
    for shape in SHAPES:
        made.deploy(shape)
    # The backup of this one has a planned batch, whose input expires: Spark runs it with no row.
    planned = made.checkpoints["complete"]
    newest = max(int(path.name) for path in (planned / "commits").glob("[0-9]*"))
    (planned / "commits" / str(newest)).unlink()
    (planned / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    for shape in SHAPES:
        made.back_up(shape)
    for file in Path(f"{made.input}{INPUTS['complete']}").glob("*.json"):
        file.unlink()
    new = Path(f"{made.input}{INPUTS['agg_rocks_v2']}") / "900.json"
    rows = [{"k": "k0", "v": 1, "ts": "2026-01-01T00:09:00.000Z"}] * 3
    new.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (pack, *_) = (made.vault / "stateless" / "packs").glob("*.tar.gz")
    pack.write_bytes(pack.read_bytes()[:-100] + bytes(100))
    before = bytes_of(made.live), bytes_of(made.vault)

    code = main(
        [
            *("disaster-drill", "--home", str(made.live), "--store", str(made.vault)),
            *("--select", "name", "--to", str(made.to), "--seconds", "600", "--json"),
        ]
    )

    told = json.loads(capsys.readouterr().out)
    found = {one["name"]: one for one in told["streams"]}
    assert {name: one["result"] for name, one in found.items()} == {
        "agg_rocks_v2": "recovered",
        "complete": "no_rows",
        "session": "recovered",
        "stateless": "damaged_backup",
    }, told
    assert code == 1
    assert [one["verdict"] for one in told["streams"][:2]] == ["lost", "unproven"]
    agg = found["agg_rocks_v2"]
    assert agg["rows"] == 3
    assert 0 < agg["restore_seconds"] < agg["recovery_seconds"] < 600
    assert found["session"]["batches"] == 0
    assert (bytes_of(made.live), bytes_of(made.vault)) == before
    assert not [*made.to.glob("_drill/*")]

    assert main(["disaster-drill", "--home", str(made.live), "--to", str(made.to), "--show"]) == 1
    assert "Disaster drill 1" in capsys.readouterr().out
