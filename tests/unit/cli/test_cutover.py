"""``airflow-streaming cutover``: what a person on call sees of a cutover, and says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.records.cutover_table import CutoverCommand, CutoverState
from tests.unit.changes.cutover.cutting import Cutting

S = CutoverState


def call(uri: str, *words: str) -> int:
    return main(["cutover", *words, "--home", uri])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[S, Path]:
    """Homes with a cutover of two streams at several points of its course; not to be changed."""
    folder = tmp_path_factory.mktemp("course")
    world = Cutting(folder, streams=("orders", "shop"))
    found: dict[S, Path] = {}
    # The course is played in a time of its own, and the command looks at the real clock.
    world.begin(promotes_by_itself=False, deadlines={"ready": timedelta(days=9999)})
    for state in (S.PLANNED, S.READY, S.SOAKING, S.FINALIZED):
        if state is S.SOAKING:
            world.engine().command(CutoverCommand.PROMOTE, "Now.", world.change)
        if state is not S.PLANNED:
            world.drive(state)
        shutil.copytree(folder / "home", found.setdefault(state, folder / state.value))
    return found


At = Callable[[S], str]


@pytest.fixture
def at(made: dict[S, Path], tmp_path: Path) -> At:
    """Return a home of one's own in which the cutover stands in a state."""

    def at(state: S) -> str:
        return str(shutil.copytree(made[state], tmp_path / "home"))

    return at


def test_the_first_line_says_where_it_stands_and_what_can_be_said(
    at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(at(S.READY), "status", "orders") == 0

    first, *steps = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "Cutover 1 of orders (parallel, blue orders -> green orders.green, blue shop -> green "
        "shop.green): ready since 2026-"
    )
    assert "; waits for a command until 2053-" in first
    assert first.endswith("; you can: promote, look-again, abort.")
    assert any("green_well: " in step for step in steps)


def test_who_acted_is_said_where_it_is_somebody_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Cutting(tmp_path)
    world.begin()
    world.drive(S.CATCHING_UP)
    world.engine(by="ada").command(CutoverCommand.ABORT, "Not today.")
    world.drive()

    assert call(world.uri, "status", "orders") == 0

    _, *steps = capsys.readouterr().out.splitlines()
    said = [line.rpartition(" (")[2] if line.endswith(")") else "" for line in steps]
    assert said == ["kim)", "", "", "ada)", "kim)"]


def test_a_program_is_told_the_same(at: At, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(at(S.READY), "status", "orders.green", "--json") == 0

    told = json.loads(capsys.readouterr().out)
    assert [step["event"] for step in told["steps"]][:2] == ["begin", "green_started"]
    names = ("state", "way", "blue", "green", "live", "verbs", "problems")
    assert {name: told[name] for name in names} == {
        "state": "ready",
        "way": "parallel",
        "blue": "orders",
        "green": "orders.green",
        "live": "orders",
        "verbs": ["promote", "look-again", "abort"],
        "problems": [],
    }
    assert told["deadline_at"] > told["since"]


def test_a_person_gives_it_up_and_the_dag_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Cutting(tmp_path)
    world.begin(promotes_by_itself=False)
    world.drive(S.READY)

    assert call(world.uri, "abort", "orders", "--reason", "Not today.", "--by", "ada") == 0

    assert "blue stays" in capsys.readouterr().out
    assert world.drive().state is S.ABORTED


@pytest.mark.parametrize(
    ("state", "verb", "told"),
    [
        (S.READY, "promote", "Green becomes live. The task"),
        (S.READY, "look-again", "Green is measured once more. The task"),
        (
            S.READY,
            "abort",
            "The cutover is aborted before the switch: blue stays, or is started again.",
        ),
        (
            S.READY,
            "roll-back",
            "The cutover is aborted before the switch: blue stays, or is started again.",
        ),
        (S.SOAKING, "roll-back", "The cutover is rolled back: consumers are pointed back to blue."),
        (S.SOAKING, "keep", "Green stays: this is the point of no return."),
    ],
)
def test_what_is_said_of_a_word_is_what_has_come_of_it(
    at: At, capsys: pytest.CaptureFixture[str], state: S, verb: str, told: str
) -> None:
    assert call(at(state), verb, "orders", "--reason", "So.") == 0
    assert capsys.readouterr().out.startswith(told)


@pytest.mark.parametrize(
    ("state", "verb", "told"),
    [
        (
            S.PLANNED,
            "keep",
            "is planned: `keep` is possible in live, soaking. Available: abort.",
        ),
        (
            S.SOAKING,
            "abort",
            "switching. Available: roll-back, keep.",
        ),
        (
            S.FINALIZED,
            "look-again",
            "is finalized: `look-again` is possible in held, ready. Available: retire.",
        ),
        (S.READY, "retire", "is ready: `retire` is possible in finalized."),
    ],
)
def test_a_word_that_comes_at_the_wrong_time_is_answered_with_those_that_can_be_said(
    at: At, capsys: pytest.CaptureFixture[str], state: S, verb: str, told: str
) -> None:
    assert call(at(state), verb, "orders") == 1

    error = capsys.readouterr().err
    assert error.startswith("airflow-streaming: Cutover 1 of 'orders' is ")
    assert told in error


def test_without_a_cutover_nothing_can_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Cutting(tmp_path)

    assert call(world.uri, "status", "orders") == 1
    assert call(world.uri, "keep", "orders", "--reason", "Yes.") != 0
    assert "leads no cutover" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["status", "promote"])
def test_a_stream_that_does_not_lead_names_the_one_that_does(
    at: At, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    assert call(at(S.READY), verb, "shop") == 1
    assert (
        "Stream 'shop' moves with cutover 1 of 'orders'. Use the command on 'orders'."
        in capsys.readouterr().err
    )


def test_a_blue_is_let_go_with_a_final_backup_of_every_stream(
    at: At, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, taken = at(S.FINALIZED), []

    def take(lane: object, store: object, asked: object) -> str:
        taken.append((lane.name, store.uri))  # type: ignore[attr-defined]
        return f"backup-of-{lane.name}"  # type: ignore[attr-defined]

    monkeypatch.setattr("airflow_streaming.checkpoints.backup.stream_backup.backup_before", take)

    assert call(home, "retire", "orders") == 0

    assert taken == [("orders", f"{home}/_backups"), ("shop", f"{home}/_backups")]
    assert "Final backup of orders: backup-of-orders. Final backup of shop" in (
        capsys.readouterr().out
    )


def test_a_blue_without_a_checkpoint_and_one_that_is_let_go_without_a_backup_say_so(
    at: At, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = at(S.FINALIZED)
    other = str(shutil.copytree(home, tmp_path / "other"))

    assert call(home, "retire", "orders", "--store", f"{tmp_path}/store") == 0
    assert "orders had nothing to back up." in capsys.readouterr().out

    assert call(other, "retire", "orders", "--no-backup") == 0
    assert "No final backup was taken." in capsys.readouterr().out


def damage(home: str, path: str) -> None:
    file = Path(home) / path
    file = next(file.parent.glob(file.name))
    file.write_bytes(file.read_bytes()[:40])


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("orders/changes/000001/terms-*.json", "restore the original file"),
        ("shop.green/changes/000001.json", "changes/000001.json cannot be read"),
        ("orders/live/000001.json", "restore the original file"),
        ("orders/changes/000001/steps/000003.json", "restore the original file"),
    ],
)
def test_a_damaged_record_is_a_problem_with_a_way_out(
    at: At, capsys: pytest.CaptureFixture[str], path: str, told: str
) -> None:
    home = at(S.SOAKING)
    damage(home, path)

    assert call(home, "status", "orders") == 1

    out, err = capsys.readouterr()
    assert told in out + err


def test_a_lane_that_does_not_know_of_it_is_a_problem(
    at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    home = at(S.SOAKING)
    (Path(home) / "shop.green/changes/000001.json").unlink()

    assert call(home, "status", "orders") == 1
    assert "PROBLEM: Lane 'shop.green' has no record" in capsys.readouterr().out


def test_a_hole_in_the_steps_is_never_filled(at: At, capsys: pytest.CaptureFixture[str]) -> None:
    home = at(S.SOAKING)
    gone = Path(home) / "orders/changes/000001/steps/000005.json"
    gone.unlink()

    for verb in ("status", "keep", "abort"):
        assert call(home, verb, "orders") == 1
        error = capsys.readouterr().err
        assert "Step 5 of change 1 of 'orders' is missing, but step 8 exists" in error
    assert not gone.exists()


def test_a_stop_says_that_it_gives_an_open_cutover_up(
    at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    home = at(S.SOAKING)

    for stream in ("orders", "shop"):
        main(["--home", home, "stop", stream])
        told = "Cutover 1 of 'orders' is soaking: the stop gives it up."
        assert told in capsys.readouterr().out


def test_a_green_lane_that_is_only_planned_is_told_as_such(
    at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    home = at(S.PLANNED)

    assert main(["--home", home, "status", "orders.green"]) == 1
    told = (
        "The green lane of stream 'orders' has no deployment yet. Cutover 1 of 'orders' is planned"
    )
    assert told in capsys.readouterr().err
    assert call(home, "status", "orders.green") == 0


def test_the_help_explains_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cutover", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "roll-back undo the switch: consumers are pointed back to blue" in told


def test_a_handover_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = Cutting(tmp_path, SwitchMethod.HANDOVER)
    world.begin()

    assert call(world.uri, "status", "orders") == 0
    assert capsys.readouterr().out.startswith(
        "Cutover 1 of orders (handover, blue orders -> green orders.green): planned since "
    )


def test_a_green_that_catches_up_shows_its_distance_to_blue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Cutting(tmp_path, green="falls behind")
    world.begin()
    world.drive(S.CATCHING_UP)
    world.tick()
    world.tick()

    assert call(world.uri, "status", "orders") == 0
    shown = capsys.readouterr().out
    assert call(world.uri, "status", "orders", "--json") == 0

    [lag] = json.loads(capsys.readouterr().out)["lags"]["orders.green"]
    assert lag["behind"] == lag["left"]
    assert lag["behind"]["amount"] >= 2_000
    behind = f"{lag['behind']['amount']:,.0f} records behind blue"
    assert f"  orders.green: query 'counts': {behind}" in shown


def test_a_green_whose_driver_says_nothing_yet_shows_so(
    at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Path(at(S.READY))
    for status in home.glob("orders.green/epochs/*/status.json"):
        status.unlink()

    assert call(str(home), "status", "orders") == 0

    shown = capsys.readouterr().out.splitlines()
    assert "  orders.green: its driver reports no query yet" in shown


@pytest.mark.parametrize("state", [S.PLANNED, S.SOAKING, S.FINALIZED])
def test_no_distance_is_shown_before_green_runs_and_after_the_switch(
    at: At, capsys: pytest.CaptureFixture[str], state: S
) -> None:
    assert call(at(state), "status", "orders", "--json") == 0
    assert json.loads(capsys.readouterr().out)["lags"] == {}


def test_a_damaged_lane_costs_its_distance_only(at: At, capsys: pytest.CaptureFixture[str]) -> None:
    home = Path(at(S.READY))
    [status, *_] = sorted(home.glob("orders.green/epochs/*/status.json"))
    status.write_text("{")

    assert call(str(home), "status", "orders", "--json") == 1

    told = json.loads(capsys.readouterr().out)
    assert list(told["lags"]) == ["shop.green"]
    assert any(str(status.name) in problem for problem in told["problems"])
