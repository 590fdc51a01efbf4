"""A stream changes over to another checkpoint in one step and keeps all else that it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.exceptions import CheckpointRefused, RestoreRefused
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import ChangeKind, ChangeOutcome
from airflow_streaming.model.records.deployment import ProposalAction
from airflow_streaming.model.records.epoch import QueryClaim
from tests.unit.checkpoints.restoring import back_up, is_sound_at
from tests.unit.home.make import SCRIPT
from tests.unit.launch.restored_stream import QUERIES, Stream


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def test_a_switch_is_a_new_deployment_that_differs_in_the_checkpoint_alone(
    stream: Stream,
) -> None:
    before = stream.home.deployment(1)

    switched = stream.switch(reason="Bad release.")

    after = stream.home.newest_deployment()
    assert after is not None
    assert (switched.deployment, after.number) == (after, 2)
    assert after.differences(before) == ["checkpoint"]
    assert stream.home.application(2) == SCRIPT
    assert stream.checkpoint == f"{stream.uri}/orders/checkpoints/restored-000001"
    assert stream.is_at(1)
    assert switched.plan is not None
    assert [query.again for query in switched.plan.queries] == [(2, 3), (2, 3)]


def test_the_change_is_on_record_from_its_begin_to_its_end(stream: Stream) -> None:
    stream.switch(reason="Bad release.", backup_before=lambda deployment: f"b-{deployment.number}")

    change = stream.home.newest_change()
    assert change is not None
    assert (change.what, change.backup, change.by) == (
        ChangeKind.RESTORE,
        stream.backup.id,
        "kim",
    )
    assert (change.replaced, change.deployment, change.reason) == (1, 2, "Bad release.")
    end = stream.home.change_end(change.number)
    assert end is not None
    assert (end.outcome, end.backup_before) == (ChangeOutcome.DONE, "b-1")
    assert stream.home.unfinished_change() is None


def test_the_old_checkpoint_stays_as_it_is(stream: Stream) -> None:
    stream.switch()

    assert all(is_sound_at(Path(stream.old) / name, 3) for name in QUERIES)


def test_a_restored_checkpoint_that_vanishes_before_its_start_is_known_to_be_missed(
    stream: Stream,
) -> None:
    stream.switch()

    claim = stream.home.claim(2, "counts")
    assert claim is not None
    assert claim.query_id == "c-0-0-0-1"
    assert claim.checkpoint == f"file:{stream.checkpoint}/counts"


def test_a_restored_checkpoint_counts_its_batches_on_as_the_old_one_did(stream: Stream) -> None:
    claim = stream.home.claim(1, "counts")
    assert claim is not None
    shifted = replace(claim, batch_shift=40).to_bytes("orders")
    stream.home.store.replace(
        Layout("orders").place(QueryClaim, deployment=1, query="counts"), shifted
    )
    stream.switch()

    claims = {claim.query: claim.batch_shift for claim in stream.home.claims(2)}
    assert claims == {"counts": 40, "sums": 0}


def test_a_dag_that_names_no_checkpoint_keeps_the_switched_one(stream: Stream) -> None:
    stream.switch()

    assert stream.proposal() is ProposalAction.KEEP


def test_a_dag_that_names_a_checkpoint_is_told_and_not_obeyed(stream: Stream) -> None:
    stream.switch()

    assert stream.proposal(checkpoint=stream.old) is ProposalAction.TELL
    assert stream.proposal(checkpoint=stream.checkpoint) is ProposalAction.KEEP


def test_a_checkpoint_outside_the_home_gets_its_successor_beside_it(stream: Stream) -> None:
    outside = f"{stream.folder}/outside/orders"
    restore(stream.store, stream.backup.id, Place(to=outside))
    stream.deploy(2, checkpoint=outside)

    assert stream.switch().deployment.checkpoint == f"{outside}.restored-000001"


def test_a_backup_of_one_checkpoint_goes_to_the_only_query(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.home.store.delete(Layout("orders").place(QueryClaim, deployment=1, query="sums"))
    stream.backup = back_up(stream.store, Path(stream.old) / "counts")

    stream.switch()

    assert is_sound_at(Path(stream.checkpoint) / "counts", 3)


def test_a_checkpoint_that_cannot_be_backed_up_is_given_up_all_the_same(stream: Stream) -> None:
    def damaged(_: Any) -> str:
        raise CheckpointRefused("It is damaged.")

    assert stream.switch(backup_before=damaged).deployment.number == 2


@pytest.mark.parametrize(("first", "is_allowed"), [(2, True), (3, False)])
def test_nobody_goes_back_to_before_an_output_was_handed_over(
    first: int, *, is_allowed: bool, stream: Stream
) -> None:
    claim = next(claim for claim in stream.home.claims(1) if claim.query == "counts")
    handed = replace(claim, counts_from=first).to_bytes("orders")
    stream.home.store.replace(
        Layout("orders").place(QueryClaim, deployment=1, query="counts"), handed
    )

    if is_allowed:
        stream.switch()
        claims = {claim.query: claim.counts_from for claim in stream.home.claims(2)}
        assert claims == {"counts": first, "sums": None}
        return
    with pytest.raises(RestoreRefused, match=f"handed over at batch {first}"):
        stream.switch()
    assert stream.checkpoint == stream.old
