"""Whoever takes over on the way back writes no row again that the other lane has written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from airflow_streaming.changes.cutover.begin import _own_place
from airflow_streaming.changes.handover.claims import HandoverPair
from airflow_streaming.changes.handover.green_start import StoredCheckpoints
from airflow_streaming.changes.handover.position_handover import PositionHandover
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import OrderAct, QueryClaim, StandbyAnswer
from airflow_streaming.model.storage import LocalStore
from tests.unit.changes.handover.test_handover import files_of, run, run_files
from tests.unit.home.make import NOON, make_deployment

PAST = [["old0"], ["old1"], ["a"], ["b"]]


class Back:
    """Two lanes whose outputs were handed from blue to green, and are to go back."""

    def __init__(self, folder: Path, blue: Sequence[list[str]], green: Sequence[list[str]]) -> None:
        for lane in ("blue", "green"):
            (folder / lane).mkdir()
        self.q = run_files(folder / "blue/q", [*blue])
        self.other = run_files(folder / "green/q", [*green])
        store = LocalStore(str(folder / "home"))
        self.blue, self.green = StreamHome(store, "orders"), StreamHome(store, "orders.green")
        self.handover = PositionHandover(
            StoredCheckpoints(),
            by="test",
            now=lambda: NOON,
            # Nobody answers here, and nobody waits for it.
            clock=iter(range(0, 1_000_000, 1000)).__next__,
            sleep=lambda seconds: None,
        )
        self.way = HandoverPair(
            ahead=self.green,
            ahead_deployment=make_deployment(
                2, stream="orders.green", checkpoint=str(folder / "green")
            ),
            behind=self.blue,
            behind_deployment=make_deployment(2, stream="orders", checkpoint=str(folder / "blue")),
            epoch=9,
            queries=("q",),
            waiting=("q",),
            carries=False,
        )

    def claim(self, **given: int) -> None:
        """Write the claim under which green took over."""
        claim = QueryClaim(query="q", query_id="q", checkpoint="x", epoch=1, **given)
        self.green.add_claim(2, claim)

    def arrive(self) -> str | None:
        return self.handover.arrive(self.way, has_written=False)


def test_what_green_wrote_is_absorbed_though_blue_has_a_past_of_its_own(tmp_path: Path) -> None:
    back = Back(tmp_path, PAST, [["a"], ["b"], ["c"], ["d"]])
    back.claim(batch_shift=2, counts_from=2)

    assert back.arrive() == "Epoch 9 of orders does order 1."

    (order,) = back.blue.orders(9)
    assert (order.act, dict(order.absorb)) == (OrderAct.ABSORB, {"q": 4})
    assert files_of(back.q, "4") == ["c", "d"]
    assert back.blue.claims(2) == []


def test_that_blue_cannot_follow_is_no_proof_that_green_wrote_nothing(tmp_path: Path) -> None:
    back = Back(tmp_path, [["a"], ["b"], ["x"]], [["a"], ["b"], ["c"]])
    back.claim(counts_from=2)

    with pytest.raises(CheckpointRefused, match="a second time"):
        back.arrive()

    assert (back.blue.orders(9), back.blue.claims(2)) == ([], [])


@pytest.mark.parametrize(
    ("planned", "counts_from", "is_proved"),
    [
        pytest.param(False, 3, True, id="it has not absorbed yet"),
        pytest.param(True, 3, True, id="what is planned is what it absorbs"),
        pytest.param(True, 2, False, id="what is planned may be in the output"),
        pytest.param(False, None, False, id="its claim does not say"),
    ],
)
def test_that_green_wrote_nothing_is_proved_by_its_claim(
    *, planned: bool, counts_from: int | None, is_proved: bool, tmp_path: Path
) -> None:
    read = [["a"], ["b"], ["c"]] if planned else [["a"], ["b"]]
    back = Back(tmp_path, [["a"], ["b"], ["c"], ["x"]], read)
    if planned:
        (back.other / "commits/2").unlink()
    back.claim(absorb=2, **({} if counts_from is None else {"counts_from": counts_from}))
    back.blue.add_claim(
        1, QueryClaim(query="q", query_id="q", checkpoint="y", epoch=1, batch_shift=7)
    )

    if is_proved:
        assert back.arrive() is None
        (claim,) = back.blue.claims(2)
        assert (claim.batch_shift, claim.absorb, claim.counts_from) == (7, None, None)
    else:
        with pytest.raises(CheckpointRefused, match="a second time"):
            back.arrive()


def test_a_claim_says_from_which_batch_on_it_counts(tmp_path: Path) -> None:
    back = Back(tmp_path, PAST, [["a"], ["b"], ["c"], ["d"]])
    back.claim(batch_shift=2, counts_from=2)
    back.arrive()
    run(back.q, 4)
    order = back.blue.orders(9)[0]
    back.blue.store.create(*_done(back, order.number))

    assert back.arrive() is None

    (claim,) = back.blue.claims(2)
    # Green's batch 3 was 5 to the sink, so that the next one of blue, 5, is 6.
    assert (claim.batch_shift, claim.counts_from) == (1, 5)


def test_nothing_is_claimed_for_a_checkpoint_that_names_no_query(tmp_path: Path) -> None:
    back = Back(tmp_path, [["a"], ["b"]], [["a"], ["b"]])
    back.claim(counts_from=2)
    (back.q / "metadata").unlink()

    with pytest.raises(CheckpointRefused, match="names no query"):
        back.arrive()

    assert back.blue.claims(2) == []


def test_an_untouched_batch_of_a_query_that_cannot_take_it_over_is_a_persons_matter(
    tmp_path: Path,
) -> None:
    back = Back(tmp_path, [], [["a"]])
    (back.other / "commits/0").unlink()

    with pytest.raises(CheckpointRefused, match="half done"):
        back.arrive()


def _done(back: Back, number: int) -> tuple[str, bytes]:
    answer = StandbyAnswer(epoch=9, number=number, at=NOON, committed={"q": 4})
    return Layout("orders").place(StandbyAnswer, epoch=9, number=number), answer.to_bytes("orders")


def test_a_deployment_that_goes_back_has_a_place_that_no_other_lane_has(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    places = {_own_place(StreamHome(store, name), 2) for name in ("orders", "returns")}

    assert places == {f"{tmp_path}/{name}/checkpoints/000002" for name in ("orders", "returns")}
