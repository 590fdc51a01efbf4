"""A cutover, end to end, with real records and played drivers: forwards, given up, and back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.judging.green import Judgment
from airflow_streaming.exceptions import CutoverRefused, PointerFailed
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.durations import CLOCKS_DIFFER
from airflow_streaming.model.products.live_output import LiveOutput
from airflow_streaming.model.records.control import ChangeOutcome, DesiredState
from airflow_streaming.model.records.cutover import Result
from airflow_streaming.model.records.cutover_table import CutoverCommand, CutoverState
from tests.unit.changes.cutover.cut_short import WAYS
from tests.unit.changes.cutover.cutting import Cutting, outcome
from tests.unit.home.make import SCRIPT

S = CutoverState
WAY = [pytest.param(more, id=name) for name, more in WAYS.items()]
TWO_WAYS = WAY[:2]


def begun(folder: Path, more: dict[str, Any] | None = None, **terms: Any) -> Cutting:
    world = Cutting(folder, **(more or {}))
    world.begin(**terms)
    return world


def settled(world: Cutting) -> tuple[Any, ...]:
    for _ in range(3):
        world.tick()
    return outcome(world)


@pytest.mark.parametrize("more", WAY)
def test_a_good_green_becomes_live_and_every_row_is_there_once(
    more: dict[str, Any], tmp_path: Path
) -> None:
    world = begun(tmp_path, more)

    progress = world.drive()

    assert progress.state is S.FINALIZED, progress
    settled(world)
    assert world.live_lane() == "orders.green"
    assert world.running("orders") is None
    assert world.running("orders.green") is not None
    assert world.faults() == []
    assert world.home("orders").change_end(1).outcome is ChangeOutcome.DONE  # type: ignore[union-attr]
    assert world.home("orders.green").unfinished_change() is None


@pytest.mark.parametrize("more", WAY[1:])
def test_the_next_cutover_goes_back_to_the_first_lane(more: dict[str, Any], tmp_path: Path) -> None:
    world = begun(tmp_path, more)
    world.drive()
    world.tick()

    world.begin(key="run-2")
    progress = world.drive()

    assert progress.state is S.FINALIZED, progress
    settled(world)
    assert world.live_lane() == "orders"
    assert world.running("orders.green") is None
    assert world.running("orders") is not None
    assert world.faults() == []


@pytest.mark.parametrize("more", TWO_WAYS)
def test_streams_that_move_together_switch_with_one_step(
    more: dict[str, Any], tmp_path: Path
) -> None:
    world = begun(tmp_path, {**more, "streams": ("orders", "returns")})

    progress = world.drive()

    assert progress.state is S.FINALIZED, progress
    settled(world)
    assert [world.live_lane(s) for s in world.streams] == ["orders.green", "returns.green"]
    assert world.faults() == []
    assert world.home("returns").unfinished_change() is None


@pytest.mark.parametrize(
    ("more", "code", "state"),
    [
        pytest.param("parallel", "fails at once", S.ABORTED, id="parallel, at once"),
        pytest.param("parallel", "fails later", S.ROLLED_BACK, id="parallel, once it is live"),
        pytest.param("handover", "cannot absorb", S.ABORTED, id="handover, at the barrier"),
        pytest.param("handover", "fails later", S.ROLLED_BACK, id="handover, once it is live"),
        pytest.param("carried", "fails later", S.ROLLED_BACK, id="carried, once it is live"),
    ],
)
def test_a_bad_green_is_given_up_by_itself(
    more: str, code: str, state: CutoverState, tmp_path: Path
) -> None:
    world = begun(tmp_path, {**WAYS[more], "green": code})

    progress = world.drive()

    assert progress.state is state, progress
    settled(world)
    assert world.live_lane() == "orders"
    assert world.running("orders") is not None
    assert world.running("orders.green") is None
    assert world.faults() == []


@pytest.mark.parametrize(
    ("way", "at", "word", "end"),
    [
        ("parallel", S.STARTING, "abort", S.ABORTED),
        ("handover", S.READY, "abort", S.ABORTED),
        ("parallel", S.SOAKING, "roll-back", S.ROLLED_BACK),
        ("handover", S.SOAKING, "roll-back", S.ROLLED_BACK),
        ("handover", S.SOAKING, "keep", S.FINALIZED),
    ],
)
def test_a_persons_word_counts(
    way: str, at: CutoverState, word: str, end: CutoverState, tmp_path: Path
) -> None:
    world = begun(tmp_path, WAYS[way])
    world.drive(at)

    world.engine(by="ada").command(CutoverCommand(word), "I say so.")
    progress = world.drive()

    assert progress.state is end, progress
    settled(world)
    assert world.live_lane() == ("orders.green" if end is S.FINALIZED else "orders")
    assert world.faults() == []
    assert world.running(world.live_lane()) is not None


def test_a_word_that_cannot_be_taken_is_refused_with_what_can(tmp_path: Path) -> None:
    world = begun(tmp_path)
    world.drive(S.SHADOWING)

    with pytest.raises(
        CutoverRefused, match=r"`promote` is possible in ready, held. Available: abort"
    ):
        world.engine().command(CutoverCommand.PROMOTE, "Go on.")


@pytest.mark.parametrize(
    ("way", "at"),
    [
        ("handover", S.READY),
        ("parallel", S.SOAKING),
        ("handover", S.SOAKING),
    ],
)
def test_a_stream_that_is_wanted_stopped_is_stopped_and_blue_is_what_comes_back(
    way: str, at: CutoverState, tmp_path: Path
) -> None:
    world = begun(tmp_path, WAYS[way])
    world.drive(at)

    world.want(DesiredState.STOPPED, world.live_lane())
    progress = world.drive()

    assert progress.state in (S.ABORTED, S.ROLLED_BACK), progress
    settled(world)
    assert world.live_lane() == "orders"
    assert (world.running("orders"), world.running("orders.green")) == (None, None)
    world.want(DesiredState.RUNNING, "orders")
    settled(world)
    assert world.running("orders") is not None
    assert world.faults() == []


@pytest.mark.parametrize("more", TWO_WAYS)
def test_a_deployment_made_meanwhile_ends_the_cutover(more: dict[str, Any], tmp_path: Path) -> None:
    world = begun(tmp_path, more)
    world.drive(S.READY)
    home = world.home("orders")
    old = home.deployment(1)

    home.create_deployment(world.deployment("orders", 2, checkpoint=old.checkpoint), SCRIPT)
    progress = world.drive()

    assert progress.state is S.ABORTED, progress
    assert "has deployment 2, not 1" in progress.reason
    settled(world)
    assert world.running("orders") == 2
    assert world.running("orders.green") is None


@pytest.mark.parametrize("at", [S.STARTING, S.READY, S.SOAKING])
def test_a_state_that_lasts_too_long_is_given_up(at: CutoverState, tmp_path: Path) -> None:
    by_itself = at is not S.READY
    world = begun(
        tmp_path, deadlines={at.value: timedelta(seconds=5)}, promotes_by_itself=by_itself
    )
    world.drive(at)

    world.pass_time(timedelta(seconds=6) + CLOCKS_DIFFER)
    progress = world.drive()

    assert progress.state in (S.ABORTED, S.ROLLED_BACK), progress
    assert "longer than the 5 s that are allowed" in progress.reason
    assert world.live_lane() == "orders"


def test_what_another_driver_of_green_has_shown_does_not_count(tmp_path: Path) -> None:
    world = begun(tmp_path, promotes_by_itself=False)
    world.drive(S.READY)
    judged = world.epoch("orders.green").number

    world.lose("orders.green")
    with pytest.raises(CutoverRefused):
        world.engine().command(CutoverCommand.PROMOTE, "It was ready a minute ago.")
    world.drive(S.READY)

    assert world.epoch("orders.green").number > judged
    assert world.history().count("catching_up") == 2
    assert world.history()[-1] == "ready"


def test_nothing_of_an_aborted_try_counts_for_the_next(tmp_path: Path) -> None:
    world = begun(tmp_path, promotes_by_itself=False)
    world.drive(S.READY)
    world.engine().command(CutoverCommand.ABORT, "Not today.")
    world.drive()

    world.begin(key="run-2", promotes_by_itself=False)
    first = world.advance(S.READY)

    assert not first.is_there
    assert first.state in (S.STARTING, S.CATCHING_UP)
    assert world.drive(S.READY).state is S.READY
    assert world.epoch("orders.green").deployment == 2


def test_wrong_rows_are_found_and_named_before_the_switch(tmp_path: Path) -> None:
    world = begun(tmp_path)
    differs = Judgment(result=Result.FAIL, reason="Bucket 12:00, key east: 7 rows, not 8.")

    while not (progress := world.engine(compare=lambda *_: differs).advance(S.FINALIZED)).is_there:
        world.tick()

    assert progress.state is S.ABORTED
    assert "key east" in progress.reason
    assert world.live_lane() == "orders"


def test_a_comparison_without_data_asks_a_person(tmp_path: Path) -> None:
    world = begun(tmp_path, checks=("stock",))
    world.compares = False
    world.drive(S.COMPARING)
    world.engine().checked("stock", True, "As many as in the ledger.")
    world.engine().checked("compare.orders", None, "No common rows.")

    progress = world.drive()
    assert progress.state is S.HELD
    assert progress.needs_person

    world.engine().command(CutoverCommand.LOOK_AGAIN, "There is data now.")
    world.drive(S.COMPARING)
    assert world.advance().waiting.endswith("compare.orders, stock.")
    world.engine().checked("stock", True, "As many as in the ledger.")
    world.engine().checked("compare.orders", True, "The same.")
    assert world.drive().state is S.FINALIZED


@pytest.mark.parametrize("more", WAY)
def test_a_green_whose_output_nobody_compares_waits_for_a_decision(
    more: dict[str, Any], tmp_path: Path
) -> None:
    world = begun(tmp_path, more, compare=())

    progress = world.drive()

    assert progress.state is S.HELD
    assert progress.needs_person
    assert "No output of orders" in progress.reason
    assert world.live_lane() == "orders"

    world.engine().command(CutoverCommand.PROMOTE, "The ledger agrees.")
    assert world.drive().state is S.FINALIZED


def test_a_check_of_the_author_stands_for_a_comparison(tmp_path: Path) -> None:
    world = begun(tmp_path, compare=(), checks=("stock",))
    world.drive(S.COMPARING)
    world.engine().checked("stock", True, "As many as in the ledger.")

    assert world.drive().state is S.FINALIZED


CHECKED: dict[str, Any] = {"compare": (), "checks": ("stock",)}


@pytest.mark.parametrize("more", WAY)
@pytest.mark.parametrize("asked", [CHECKED, {}], ids=["a check", "a comparison"])
def test_a_green_that_drops_every_row_waits_for_a_decision_whatever_else_is_proved(
    asked: dict[str, Any], more: dict[str, Any], tmp_path: Path
) -> None:
    world = begun(tmp_path, {**more, "green": "drops"}, **asked)

    progress = world.drive()

    assert progress.state is S.HELD
    assert progress.needs_person
    assert "of green has read" in progress.reason
    assert "written none; query" in progress.reason
    assert world.live_lane() == "orders"

    world.engine().command(CutoverCommand.PROMOTE, "This version only counts.")
    assert world.drive().state is S.FINALIZED


def test_rows_that_a_sink_does_not_count_are_not_taken_for_none(tmp_path: Path) -> None:
    world = begun(tmp_path, {"green": "counts none"}, **CHECKED)
    world.drive(S.COMPARING)
    world.engine().checked("stock", True, "As many as in the ledger.")

    assert world.drive().state is S.FINALIZED


def test_a_user_who_decides_without_a_comparison_sees_what_was_read_and_written(
    tmp_path: Path,
) -> None:
    world = begun(tmp_path, {"green": "counts none"}, compare=())

    reason = world.drive().reason

    assert "rows, rows written not reported (blue: read" in reason


def test_a_check_outside_of_comparing_is_refused(tmp_path: Path) -> None:
    world = begun(tmp_path)

    with pytest.raises(CutoverRefused, match="counts in 'comparing' only"):
        world.engine().checked("stock", True, "Too early.")


def test_a_blue_that_was_removed_does_not_stand_in_the_way_of_the_end(tmp_path: Path) -> None:
    world = begun(tmp_path, finalizes_by_itself=False)
    world.drive(S.SOAKING)
    world.engine().command(CutoverCommand.KEEP, "It stays.")
    for name in ("epochs", "deployments"):
        (Path(world.uri) / "orders" / name).rename(tmp_path / name)

    progress = world.drive()

    assert progress.state is S.FINALIZED
    assert world.live_lane() == "orders.green"


def test_a_good_soak_waits_for_a_slow_person(tmp_path: Path) -> None:
    world = begun(tmp_path, finalizes_by_itself=False)
    progress = world.drive()
    assert progress.needs_person

    world.pass_time(timedelta(seconds=24 * 3600))
    world.tick()
    world.tick()

    assert world.advance().needs_person
    assert world.history()[-1] == "soaking"


def test_blue_is_down_in_the_soak_when_the_terms_say_so_and_comes_back(tmp_path: Path) -> None:
    world = begun(tmp_path, keeps_blue_running=False, finalizes_by_itself=False)
    assert world.drive().needs_person
    assert world.running("orders") is None

    world.engine().command(CutoverCommand.ROLL_BACK, "It is too dear.")
    progress = world.drive()

    assert progress.state is S.ROLLED_BACK
    assert world.running("orders") == 1
    settled(world)
    assert world.faults() == []


def test_consumers_of_parallel_outputs_are_never_without_fresh_rows(tmp_path: Path) -> None:
    world = begun(tmp_path, {"way": SwitchMethod.PARALLEL})
    world.drive()

    rows = [rows for _, rows in world.read]
    assert rows == sorted(rows)


def test_a_retired_blue_has_a_final_backup(tmp_path: Path) -> None:
    world = begun(tmp_path)
    world.drive()
    taken: list[int] = []

    def retire(change: Any, pair: Any, deployment: Any) -> str:
        taken.append(deployment.number)
        return "20261103-120000-000000-1ae5e81a"

    engine = world.engine(retire=retire)
    progress = engine.command(CutoverCommand.RETIRE, "A day is over.")
    engine.command(CutoverCommand.RETIRE, "Once more.")

    assert progress.state is S.RETIRED
    assert progress.facts["orders.backup"] == "20261103-120000-000000-1ae5e81a"
    assert taken == [1]


def test_the_same_wish_is_the_same_cutover(tmp_path: Path) -> None:
    world = begun(tmp_path)

    assert world.begin() == 1
    world.drive()
    assert world.begin() == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"pairs": (), "key": "new"}, "name no pair", id="no pair"),
        pytest.param({"key": "other"}, "unfinished change", id="another one is open"),
    ],
)
def test_what_cannot_be_begun_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    world = begun(tmp_path)

    with pytest.raises(CutoverRefused, match=message):
        world.begin(**changes)


@pytest.mark.parametrize("more", TWO_WAYS)
def test_two_tasks_at_it_at_once_do_no_harm(more: dict[str, Any], tmp_path: Path) -> None:
    world = begun(tmp_path, more)

    for _ in range(80):
        first, second = world.engine(by="one"), world.engine(by="two")
        first.look()
        progress = second.advance(S.FINALIZED)
        first.advance(S.FINALIZED)
        if progress.is_there:
            break
        world.tick()

    settled(world)
    assert world.live_lane() == "orders.green"
    assert world.faults() == []


class Sign:
    """A pointer that a test can read, and that refuses to move when it is told to."""

    name, is_atomic = "sign", True

    def __init__(self, *, stuck: bool = False) -> None:
        self.shows, self.stuck, self.undone = "orders", stuck, 0

    def move(self, to: LiveOutput, before: LiveOutput) -> None:
        if self.stuck:
            raise PointerFailed("The catalog is away.")
        self.shows = to.lane

    def undo(self, to: LiveOutput, before: LiveOutput) -> None:
        self.shows, self.undone = before.lane, self.undone + 1


def test_what_consumers_follow_moves_with_the_switch_and_back(tmp_path: Path) -> None:
    world, sign = begun(tmp_path, pointers=("sign",), finalizes_by_itself=False), Sign()

    while not (progress := world.engine(pointers={"sign": sign}).advance(S.SOAKING)).is_there:
        assert sign.shows == world.live_lane()
        world.tick()
    assert (progress.state, sign.shows) == (S.SOAKING, "orders.green")

    world.engine().command(CutoverCommand.ROLL_BACK, "It is too dear.")
    while not world.engine(pointers={"sign": sign}).advance(S.FINALIZED).is_there:
        world.tick()
    assert sign.shows == world.live_lane() == "orders"


def test_a_pointer_that_cannot_be_moved_ends_in_blue(tmp_path: Path) -> None:
    brief = {"switching": timedelta(seconds=30)}
    world, sign = begun(tmp_path, pointers=("sign",), deadlines=brief), Sign(stuck=True)
    engine = world.engine(pointers={"sign": sign})

    while not (progress := engine.advance(S.FINALIZED)).is_there:
        world.tick()

    assert progress.state is S.ABORTED
    assert "switching has lasted" in progress.reason
    assert (sign.shows, sign.undone) == ("orders", 1)
