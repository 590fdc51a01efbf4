"""The contract of ``airflow-streaming checkpoint``, on checkpoints that real Sparks wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.home.home import Home
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import TerminationProof
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan
from airflow_streaming.model.storage import LocalStore
from tests.golden import golden_checkpoint
from tests.unit.checkpoints.filesink import FileSink
from tests.unit.checkpoints.repair_cases import DeadStream
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch

Command = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run ``checkpoint`` and return exit code, output (parsed, if JSON was asked) and errors."""
    monkeypatch.setenv("LOGNAME", "ada")

    def run(*arguments: str | Path) -> tuple[int, Any, str]:
        code = main(["checkpoint", *map(str, arguments)])
        told = capsys.readouterr()
        return code, json.loads(told.out) if "--json" in arguments else told.out, told.err

    return run


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A copy of what Spark 4.3 left of a query with RocksDB state in format 2."""
    return golden_checkpoint("4.3.0", "agg_rocks_v2").copy_to(tmp_path / "live")


@pytest.fixture
def backed_up(command: Command, checkpoint: Path, tmp_path: Path) -> tuple[Path, str]:
    code, told, _ = command("backup", checkpoint, "--store", tmp_path / "store", "--json")
    assert code == 0
    return tmp_path / "store", told["backup_id"]


class TestInspect:
    def test_a_sound_checkpoint_is_told_as_json(self, command: Command, checkpoint: Path) -> None:
        code, told, _ = command("inspect", checkpoint, "--json")

        assert code == 0
        assert told["query_id"] == "dc370710-638b-4778-87fc-26df6786a4dd"
        assert told["last_planned_batch"] == told["last_committed_batch"] == 6
        assert told["watermark_ms"] == 1767225859000
        assert [(s["name"], s["source"], s["offset"]) for s in told["sources"]] == [
            ("0", "file", {"logOffset": 5})
        ]
        assert [(o["id"], o["name"], o["partitions"]) for o in told["operators"]] == [
            (0, "stateStoreSave", 3)
        ]
        assert told["problems"] == []

    def test_a_person_reads_the_same_as_a_table(self, command: Command, checkpoint: Path) -> None:
        code, told, _ = command("inspect", checkpoint)

        assert code == 0
        assert f"{checkpoint}: SOUND" in told
        assert "2026-01-01 00:04:19 UTC (1767225859000)" in told
        assert "stateStoreSave" in told

    def test_a_problem_is_told_with_exit_code_1(self, command: Command, checkpoint: Path) -> None:
        (checkpoint / "commits" / "5").unlink()
        (checkpoint / "commits" / "6").unlink()

        code, told, _ = command("inspect", checkpoint, "--json")

        assert code == 1
        assert [problem["code"] for problem in told["problems"]] == ["batches_skipped"]

    def test_a_store_inside_the_checkpoint_is_refused_before_it_is_made(
        self, command: Command, checkpoint: Path
    ) -> None:
        code, _, told = command("backup", checkpoint, "--store", checkpoint / "backups")

        assert code == 2
        assert "do not lie apart" in told
        assert not (checkpoint / "backups").exists()

    def test_a_folder_above_several_checkpoints_is_told_query_by_query(
        self, command: Command, tmp_path: Path
    ) -> None:
        (tmp_path / "all").mkdir()
        for name in ("agg", "stateless"):
            live = golden_checkpoint("4.3.0", name).copy_to(tmp_path / name)
            live.rename((tmp_path / "all").joinpath(name))

        code, told, _ = command("inspect", tmp_path / "all", "--json")

        assert code == 0
        assert [Path(one["uri"]).name for one in told["checkpoints"]] == ["agg", "stateless"]

    @pytest.mark.parametrize("behind", ["live", "nowhere"])
    def test_a_link_beside_checkpoints_is_told_and_not_followed(
        self, command: Command, tmp_path: Path, behind: str
    ) -> None:
        (tmp_path / "all").mkdir()
        golden_checkpoint("4.3.0", "stateless").copy_to(tmp_path / "copy").rename(
            tmp_path / "all/counts"
        )
        (tmp_path / "all/joined").symlink_to(tmp_path / behind)

        code, told, _ = command("inspect", tmp_path / "all", "--json")
        assert code == 1
        assert [Path(one["uri"]).name for one in told["checkpoints"]] == ["counts"]
        assert [(one["code"], one["path"]) for one in told["problems"]] == [
            ("strange_file", "joined")
        ]
        code, shown, _ = command("inspect", tmp_path / "all")
        assert code == 1
        assert "joined" in shown
        code, _, errors = command("backup", tmp_path / "all", "--store", tmp_path / "store")
        assert code == 1
        assert "joined" in errors
        assert not (tmp_path / "store").exists()

    @pytest.mark.parametrize("made", [True, False], ids=["an empty folder", "no folder"])
    def test_a_place_without_a_checkpoint_is_a_problem(
        self, command: Command, tmp_path: Path, made: bool
    ) -> None:
        if made:
            (tmp_path / "nothing").mkdir()

        code, told, _ = command("inspect", tmp_path / "nothing", "--json")

        assert code == 1
        assert [problem["code"] for problem in told["problems"]] == ["not_a_checkpoint"]

    @pytest.mark.parametrize("place", ["missing", "empty", "file", "store"])
    def test_a_person_reads_one_sentence_of_a_place_without_a_checkpoint(
        self, command: Command, tmp_path: Path, place: str
    ) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "file").write_text("")
        (tmp_path / "store/orders").mkdir(parents=True)
        (tmp_path / "store/store.json").write_text("")

        code, told, errors = command("inspect", tmp_path / place)

        assert (code, told) == (1, "")
        assert {
            "missing": "There is no folder",
            "empty": "There is nothing in",
            "file": "is not a folder",
            "store": "is a backup store",
        }[place] in errors
        assert errors.count("\n") == 1

    def test_a_path_may_be_relative(
        self, command: Command, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(checkpoint.parent)

        assert command("inspect", checkpoint.name)[0] == 0
        assert command("inspect", f"file:{checkpoint}")[0] == 0
        (checkpoint.parent / "with:").mkdir()
        checkpoint.rename(checkpoint.parent / "with:/colon")
        assert command("inspect", "./with:/colon")[0] == 0

    def test_a_reader_that_has_seen_enough_is_no_error(self, checkpoint: Path) -> None:
        module = ("-m", "airflow_streaming.cli.main", "checkpoint", "inspect", str(checkpoint))
        with subprocess.Popen(
            [sys.executable, *module], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as told:
            assert told.stdout is not None
            assert told.stderr is not None
            told.stdout.close()
            assert told.stderr.read() == b""

        assert told.returncode == 141


class TestBackups:
    def test_a_backup_is_listed_verified_and_restored_as_it_was(
        self, command: Command, checkpoint: Path, backed_up: tuple[Path, str], tmp_path: Path
    ) -> None:
        store, backup_id = backed_up

        for level in ("quick", "full"):
            assert command("verify", store, backup_id, "--level", level)[0] == 0
        code, listed, _ = command("list", store, "--json")
        assert code == 0
        assert [one["backup_id"] for one in listed["backups"]] == [backup_id]
        assert listed["backups"][0]["verified"] == "full"
        assert listed["backups"][0]["by"] == "ada"

        assert command("restore", store, backup_id, "--to", tmp_path / "new")[0] == 0
        was = command("inspect", checkpoint, "--json")[1]
        now = command("inspect", tmp_path / "new", "--json")[1]
        for field in ("query_id", "last_committed_batch", "watermark_ms", "sources", "problems"):
            assert now[field] == was[field]

    def test_a_damaged_backup_fails_verification_and_is_not_restored(
        self, command: Command, backed_up: tuple[Path, str], tmp_path: Path
    ) -> None:
        store, backup_id = backed_up
        [pack] = store.rglob("*.tar.gz")
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 1
        pack.write_bytes(data)

        code, told, _ = command("verify", store, backup_id, "--level", "full", "--json")
        assert code == 1
        assert told["problems"]
        code, _, errors = command("restore", store, backup_id, "--to", tmp_path / "new")
        assert code == 1
        assert str(pack) in errors
        assert not (tmp_path / "new").exists()
        assert "full FAILED" in command("list", store)[1]
        # A quick look does not see a byte.
        assert command("verify", store, backup_id, "--level", "quick")[0] == 0
        assert "full FAILED" in command("list", store)[1]

    def test_a_place_that_is_not_empty_is_refused_with_what_lies_there(
        self, command: Command, checkpoint: Path, backed_up: tuple[Path, str]
    ) -> None:
        store, backup_id = backed_up

        code, _, errors = command("restore", store, backup_id, "--to", checkpoint)

        assert code == 1
        assert "metadata" in errors

    def test_a_dry_run_says_what_goes_back_and_writes_nothing(
        self, command: Command, backed_up: tuple[Path, str], tmp_path: Path
    ) -> None:
        store, backup_id = backed_up

        code, plan, _ = command(
            "restore", store, backup_id, "--to", tmp_path / "new", "--dry-run", "--json"
        )

        assert code == 0
        assert [query["batch"] for query in plan["queries"]] == [6]
        assert not (tmp_path / "new").exists()

    def test_a_damaged_checkpoint_is_not_backed_up(
        self, command: Command, checkpoint: Path, tmp_path: Path
    ) -> None:
        (checkpoint / "offsets" / "5").unlink()

        code, _, errors = command("backup", checkpoint, "--store", tmp_path / "store")

        assert code == 1
        assert "offsets/5" in errors
        assert command("list", tmp_path / "store", "--json")[1]["backups"] == []

    def test_an_unknown_backup_and_a_place_that_is_no_store_are_told(
        self, command: Command, backed_up: tuple[Path, str], tmp_path: Path
    ) -> None:
        store, _ = backed_up

        code, _, errors = command("verify", store, "20200101-000000-000000-00000000")
        assert code == 1
        assert "20200101" in errors
        code, _, errors = command("list", tmp_path / "live")
        assert code == 1
        assert str(tmp_path / "live") in errors

    def test_a_list_with_a_backup_that_failed_is_no_success(
        self, command: Command, backed_up: tuple[Path, str]
    ) -> None:
        store, backup_id = backed_up
        [pack] = store.glob("*/packs/*.tar.gz")
        pack.write_bytes(pack.read_bytes()[:-1] + b"x")
        assert command("list", store)[0] == 0

        assert command("verify", store, backup_id)[0] == 1

        code, told, _ = command("list", store)
        assert code == 1
        assert "full FAILED" in told

    def test_a_stream_that_a_store_does_not_have_is_told_with_those_it_has(
        self, command: Command, backed_up: tuple[Path, str]
    ) -> None:
        [stream] = (path.name for path in backed_up[0].iterdir() if path.is_dir())

        rule = ("--keep-last", "1")
        for arguments in (
            ("list", backed_up[0], "--stream", "nosuch"),
            ("retain", backed_up[0], "nosuch", *rule),
        ):
            code, told, errors = command(*arguments)
            assert (code, told) == (1, "")
            assert (
                f"Stream 'nosuch' does not exist in {backed_up[0]}. Existing streams: {stream}."
                in errors
            )

    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param(["--level", "drill", "--runtime", "/nope"], id="no such runtime"),
            pytest.param(["--level", "quick", "--script", "job.py"], id="a script and no drill"),
            pytest.param(["--argument", "x"], id="an argument and no drill"),
        ],
    )
    def test_a_verification_that_is_asked_for_wrongly_exits_with_2(
        self, command: Command, backed_up: tuple[Path, str], arguments: list[str]
    ) -> None:
        assert command("verify", *backed_up, *arguments)[0] == 2
        assert command("list", backed_up[0], "--json")[1]["backups"][0]["verified"] == (
            "not verified"
        )

    def test_a_new_place_in_a_live_checkpoint_is_wrong_use(
        self, command: Command, checkpoint: Path, backed_up: tuple[Path, str]
    ) -> None:
        for to in (checkpoint / "state/1", backed_up[0] / "new"):
            code, _, errors = command("restore", *backed_up, "--to", to)
            assert code == 2
            assert "lies inside" in errors
            assert not to.exists()

    def test_a_drill_without_a_spark_says_how_to_name_one(
        self, command: Command, backed_up: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("AIRFLOW__STREAMING__RUNTIMES", raising=False)

        code, _, errors = command("verify", *backed_up, "--level", "drill")

        assert code == 2
        assert "AIRFLOW__STREAMING__RUNTIMES" in errors

    def test_what_no_rule_keeps_is_removed_unless_it_is_a_dry_run(
        self, command: Command, checkpoint: Path, backed_up: tuple[Path, str]
    ) -> None:
        store, first = backed_up
        second = command("backup", checkpoint, "--store", store, "--json")[1]["backup_id"]
        stream = command("list", store, "--json")[1]["backups"][0]["stream"]

        code, would, _ = command("retain", store, stream, "--keep-last", "1", "--dry-run", "--json")
        assert (code, would["removed"]) == (0, [first])
        assert len(command("list", store, "--json")[1]["backups"]) == 2
        assert command("retain", store, stream, "--keep-last", "1")[0] == 0
        left = command("list", store, "--json")[1]["backups"]
        assert [one["backup_id"] for one in left] == [second]


class TestCopies:
    def test_a_clone_is_a_query_of_its_own_at_the_same_place(
        self, command: Command, checkpoint: Path, tmp_path: Path
    ) -> None:
        code, told, _ = command("clone", checkpoint, "--to", tmp_path / "green", "--json")

        assert code == 0
        clone = command("inspect", tmp_path / "green", "--json")[1]
        assert clone["query_id"] == told["query_id"] != "dc370710-638b-4778-87fc-26df6786a4dd"
        assert clone["last_committed_batch"] == 6

    def test_state_is_not_carried_over_in_silence(
        self, command: Command, checkpoint: Path, tmp_path: Path
    ) -> None:
        code, _, errors = command("carry-over", checkpoint, "--to", tmp_path / "green")

        assert code == 1
        assert "state" in errors
        assert not (tmp_path / "green").exists()

    def test_the_position_of_a_stateless_query_is_carried_over(
        self, command: Command, tmp_path: Path
    ) -> None:
        live = golden_checkpoint("4.3.0", "stateless").copy_to(tmp_path / "stateless")

        code, _, _ = command("carry-over", live, "--to", tmp_path / "green", "--stateless")

        assert code == 0
        new = command("inspect", tmp_path / "green", "--json")[1]
        assert new["sources"] == command("inspect", live, "--json")[1]["sources"]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="no verb"),
        pytest.param(["inspect"], id="no checkpoint"),
        pytest.param(["backup", "--store", "/store"], id="neither a URI nor a stream"),
        pytest.param(["restore", "/store", "x"], id="no place to restore to"),
        pytest.param(["backup", "/ck", "--stream", "a", "--store", "/store"], id="both"),
        pytest.param(["backup", "/ck", "--to", "/store"], id="the store as a place"),
        pytest.param(
            ["restore", "/store", "x", "--to", "/new", "--stream", "a"], id="two restores"
        ),
        pytest.param(["verify", "/store", "x", "--level", "deep"], id="unknown level"),
        pytest.param(["restore", "/store", "x", "--accept", "all"], id="unknown reason"),
        pytest.param(["retain", "/store", "orders", "--keep-last", "-1"], id="negative number"),
    ],
)
def test_wrong_use_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["checkpoint", *arguments])
    assert raised.value.code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["inspect", "s3://bucket/a/../b"], id="a way out of the folder"),
        pytest.param(["backup", "/ck"], id="no store"),
        pytest.param(
            ["restore", "/store", "x", "--to", "/new", "--checkpoint", "/c"], id="a copy's place"
        ),
        pytest.param(["restore", "/store", "x", "--to", "/new", "--rewind"], id="a copy's sinks"),
        pytest.param(["retain", "/store", "orders"], id="a policy that keeps nothing"),
        pytest.param(["inspect", "s3:/bucket/ck"], id="a scheme without slashes"),
        pytest.param(["inspect", "word:/ck"], id="a word that is no scheme"),
    ],
)
def test_a_wrong_value_exits_with_2(command: Command, arguments: list[str]) -> None:
    assert command(*arguments)[0] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["checkpoint", "inspect", "rel"],
        ["checkpoint", "backup", "rel", "--store", "/store"],
        ["checkpoint", "backup", "/ck", "--store", "rel"],
        ["checkpoint", "clone", "/ck", "--to", "rel"],
        ["checkpoint", "restore", "/store", "x", "--to", "rel"],
        ["checkpoint", "restore", "/store", "x", "--to", "/new", "--sink", "counts=rel"],
        ["compare", "--blue", "rel", "--green", "/out", "--runtime", "/spark"],
        ["plan", "rel.py", "--runtime", "/spark"],
        ["plan", "/no/such/job.py", "--runtime", "./rel"],
        ["rehearse", "--backup", "rel", "x", "--script", "/job.py", "--runtime", "/spark"],
    ],
    ids=" ".join,
)
def test_a_relative_path_in_a_folder_that_was_removed_is_wrong_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    try:
        code: object = main([*arguments, "--json"])
    except SystemExit as err:
        code = err.code

    assert code in {1, 2}
    assert json.loads(capsys.readouterr().out)["error"]


def test_a_refusal_to_accept_lists_the_reasons_as_they_are_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["checkpoint", "undo", "orders", "--accept", "other_stream", "--json"])

    error = json.loads(capsys.readouterr().out)["error"]
    assert "RefusalCode" not in error
    assert "sink_behind, sink_gap" in error


def test_a_retention_without_a_rule_names_the_options(command: Command) -> None:
    code, told, _ = command("retain", "/store", "orders", "--json")

    assert code == 2
    assert "--keep-last" in told["error"]


@pytest.mark.parametrize("above", ["file", "file/deeper"])
def test_a_place_below_a_file_is_not_taken_by_another_process(
    command: Command, checkpoint: Path, tmp_path: Path, above: str
) -> None:
    (tmp_path / "file").write_text("")

    code, told, _ = command("clone", checkpoint, "--to", tmp_path / above / "x", "--json")

    assert code == 1
    assert "another process" not in told["error"]


def test_nothing_of_the_original_is_ever_changed(
    command: Command, checkpoint: Path, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}

    told = command("backup", checkpoint, "--store", tmp_path / "store", "--json")[1]
    command("restore", tmp_path / "store", told["backup_id"], "--to", tmp_path / "new")
    command("clone", checkpoint, "--to", tmp_path / "green")

    after = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}
    assert after == before


class TestAStreamOfAHome:
    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        """A home with the stopped stream ``orders`` of one query, that nobody has launched yet."""
        home = tmp_path / "home"
        checkpoints = home / "orders" / "checkpoints" / "000001"
        checkpoints.mkdir(parents=True)
        golden_checkpoint("4.3.0", "agg").copy_to(tmp_path / "agg").rename(checkpoints / "counts")
        stream = Home(LocalStore(str(home))).stream("orders")
        stream.create_deployment(make_deployment(checkpoint=str(checkpoints)), SCRIPT)
        stream.want(DesiredState.STOPPED, by="ada", reason="To restore it.", now=NOON)
        return home

    def test_it_goes_on_from_a_backup_and_back_again(
        self, command: Command, home: Path, tmp_path: Path
    ) -> None:
        store, of_home = tmp_path / "store", ("--home", home)
        code, taken, _ = command(
            "backup", "--stream", "orders", "--store", store, "--json", *of_home
        )
        assert code == 0
        assert [query["folder"] for query in taken["queries"]] == ["counts"]

        restore = ("restore", store, taken["backup_id"], "--stream", "orders", *of_home)
        assert command(*restore, "--dry-run")[0] == 0
        code, done, _ = command(*restore, "--json")
        assert code == 0
        assert done["deployment"]["number"] == 2
        assert command("inspect", done["deployment"]["checkpoint"] + "/counts")[0] == 0
        origins = [one["origin"] for one in command("list", store, "--json")[1]["backups"]]
        assert origins == ["manual", "before_restore"]

        code, undone, _ = command("undo", "orders", "--json", *of_home)
        assert code == 0
        assert undone["deployment"]["checkpoint"].endswith("checkpoints/000001")
        code, told, _ = command("abandon", "orders", *of_home)
        assert code == 0
        assert "no change" in told

    def test_its_backups_lie_in_the_home_unless_a_store_is_named(
        self, command: Command, home: Path
    ) -> None:
        of_home = ("--home", home)
        taken = command("backup", "--stream", "orders", "--json", *of_home)[1]

        backups = command("list", home / "_backups", "--json")[1]["backups"]

        assert [one["id"] for one in backups] == [taken["backup_id"]]

    def test_its_new_checkpoints_lie_beside_the_present_ones_or_where_they_are_asked_for(
        self, command: Command, home: Path, tmp_path: Path
    ) -> None:
        of_home = ("--home", home)
        taken = command("backup", "--stream", "orders", "--json", *of_home)[1]
        restore = ("restore", home / "_backups", taken["backup_id"], "--stream", "orders")
        places = {
            str(home / "orders/checkpoints/restored-000001"): (),
            str(tmp_path / "elsewhere"): ("--checkpoint", tmp_path / "elsewhere"),
        }

        for place, where in places.items():
            told = command(*restore, *where, "--dry-run", "--json", *of_home)[1]
            assert told["target"] == place

    def test_a_copy_changes_no_stream(self, command: Command, home: Path, tmp_path: Path) -> None:
        taken = command("backup", "--stream", "orders", "--json", "--home", home)[1]
        stream = Home(LocalStore(str(home))).stream("orders")

        code, _, _ = command(
            "restore", home / "_backups", taken["backup_id"], "--to", tmp_path / "new"
        )

        assert code == 0
        assert (tmp_path / "new/counts/metadata").exists()
        assert stream.changes() == []
        assert stream.deployment_numbers() == [1]

    def test_its_sinks_are_repaired_by_hand(self, command: Command, tmp_path: Path) -> None:
        dead = DeadStream(tmp_path)
        of_home = ("--home", dead.home.store.uri)
        code, _, errors = command("repair", "orders", *of_home)
        assert code == 1
        assert "running" in errors
        dead.home.want(DesiredState.STOPPED, by="ada", reason="To repair it.", now=NOON)
        proof = TerminationProof(
            epoch=1, by="ada", declared_at=NOON, evidence="Seen in the rack.", override=True
        )
        dead.home.declare_dead(proof)

        code, told, _ = command("repair", "orders", "--json", *of_home)

        assert code == 0
        assert [one["repair"]["batch"] for one in told["sinks"]] == [dead.batch]
        assert dead.batches_in_sink() == set(range(dead.batch))
        assert "is ahead of its checkpoint" in command("repair", "orders", *of_home)[1]

    def test_it_is_refused_while_the_stream_is_wanted_running(
        self, command: Command, home: Path, tmp_path: Path
    ) -> None:
        store, of_home = tmp_path / "store", ("--home", home)
        taken = command("backup", "--stream", "orders", "--store", store, "--json", *of_home)[1]
        stream = Home(LocalStore(str(home))).stream("orders")
        stream.want(DesiredState.RUNNING, by="bob", reason="It is needed.", now=NOON)

        code, _, errors = command(
            "restore", store, taken["backup_id"], "--stream", "orders", *of_home
        )

        assert code == 1
        assert "running" in errors
        assert Home(LocalStore(str(home))).stream("orders").newest_deployment() == (
            make_deployment(checkpoint=str(home / "orders" / "checkpoints" / "000001"))
        )

    @pytest.mark.parametrize("query", ["", "counts="], ids=["short", "by its query"])
    @pytest.mark.parametrize("of", ["a stream", "a folder"])
    def test_the_sink_of_an_only_query_is_backed_up_with_or_without_its_name(
        self, command: Command, home: Path, tmp_path: Path, query: str, of: str
    ) -> None:
        output = FileSink(tmp_path / "out")
        for batch in range(7):
            output.write(batch)
        what: tuple[str | Path, ...] = ("--stream", "orders", "--home", home)
        if of == "a folder":
            what = (home / "orders/checkpoints/000001",)

        code, taken, _ = command(
            "backup",
            *what,
            "--store",
            tmp_path / "store",
            "--sink",
            f"{query}{output.root}",
            "--json",
        )

        assert code == 0
        assert [one["sink_log"] for one in taken["queries"]] == [str(output.log)]

    def test_the_sink_of_one_of_several_queries_needs_its_name(
        self, command: Command, home: Path, tmp_path: Path
    ) -> None:
        checkpoints = home / "orders/checkpoints/000001"
        shutil.copytree(checkpoints / "counts", checkpoints / "sums")

        code, _, errors = command(
            *("backup", "--stream", "orders", "--home", home),
            *("--store", tmp_path / "store", "--sink", tmp_path / "out"),
        )

        assert code == 2
        assert "counts, sums" in errors

    def test_a_file_sink_that_the_drivers_recorded_is_looked_at(
        self, command: Command, home: Path, tmp_path: Path
    ) -> None:
        of_home, store = ("--home", home), tmp_path / "store"
        taken = command("backup", "--stream", "orders", "--store", store, "--json", *of_home)[1]
        stream, output = Home(LocalStore(str(home))).stream("orders"), FileSink(tmp_path / "out")
        stream.create_epoch(make_epoch(1))
        sink = SinkPlan(sink="file", format="parquet", target=str(output.root))
        plan = QueryPlan(query="counts", spark="4.3.0", output_mode="append", sink=sink)
        place = Layout("orders").place(QueryPlan, epoch=1, query="counts")
        stream.store.create(place, plan.to_bytes("orders"))
        for batch in range(9):
            output.write(batch)
        restore = ("restore", store, taken["backup_id"], "--stream", "orders", *of_home)

        code, told, _ = command(*restore, "--dry-run", "--json")

        assert code == 1
        assert "sink_skips_state" in [one["code"] for one in told["refusals"]]

        code, _, errors = command(*restore, "--dry-run", "--sink", f"cuonts={output.root}")
        assert code == 1
        assert "cuonts" in errors
        nowhere = f"counts={tmp_path / 'nowhere'}"
        code, told, _ = command(*restore, "--dry-run", "--json", "--sink", nowhere)
        assert code == 1
        assert "sink_unseen" in [one["code"] for one in told["refusals"]]
