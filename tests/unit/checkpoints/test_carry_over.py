"""A carry-over keeps how far the sources were read, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete
from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.restore.carry_over import CarryOver, plan_carry_over
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.spark.logs import parse_offset_log
from tests.unit.checkpoints.in_memory import InMemory

CONF = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}'
COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'


def a_plan(number: int, *sources: str) -> bytes:
    lines = sources or (f'{{"logOffset":{number}}}', f'{{"orders":{{"0":{10 * number}}}}}')
    return "\n".join(["v1", CONF, *lines]).encode()


def an_old_one(batches: int = 4, **files: bytes) -> InMemory:
    made = {"metadata": b'{"id":"0-0-0-0-1"}'}
    for number in range(batches):
        made[f"offsets/{number}"] = a_plan(number)
        made[f"commits/{number}"] = COMMIT
        made[f"sources/0/{number}"] = (
            b"v1\n"
            + json.dumps(
                {"path": f"file:///in/{number}.json", "timestamp": 1, "batchId": number}
            ).encode()
        )
    made["sources/0/.3.crc"] = b"hidden"
    return InMemory({**made, **files})


def planned(old: InMemory, report: Checkpoint | None = None, **asked: Any) -> CarryOver:
    found = looked_at(old, report, **asked)
    assert isinstance(found, CarryOver), found
    return found


def looked_at(
    old: InMemory, report: Checkpoint | None = None, **asked: Any
) -> CarryOver | Incomplete:
    return plan_carry_over(
        report or old.report(), old.listing(), old.read, query_id="0-0-0-0-2", **asked
    )


def unready(old: InMemory, report: Checkpoint | None = None, **asked: Any) -> Incomplete:
    found = looked_at(old, report, **asked)
    assert isinstance(found, Incomplete), found
    return found


def built(old: InMemory, plan: CarryOver) -> InMemory:
    copied = {new: old.files[path] for new, path in plan.copied.items()}
    return InMemory({**plan.written, **copied})


def test_the_new_checkpoint_is_sound_and_at_the_same_batch_of_another_query() -> None:
    old = an_old_one()

    new = built(old, planned(old, stateless=True)).report()

    assert new.problems == ()
    assert (new.query_id, new.last_committed_batch, new.last_planned_batch) == ("0-0-0-0-2", 3, 3)
    assert new.sources == old.report().sources


def test_only_the_last_two_batches_and_the_source_logs_are_taken() -> None:
    plan = planned(an_old_one(), stateless=True)

    assert sorted(plan.written) == ["commits/2", "commits/3", "metadata", "offsets/2", "offsets/3"]
    assert sorted(plan.copied) == [f"sources/0/{number}" for number in range(4)]


def test_a_first_batch_has_none_before_it() -> None:
    plan = planned(an_old_one(batches=1), stateless=True)

    assert plan.batch == 0
    assert sorted(plan.written) == ["commits/0", "metadata", "offsets/0"]


@pytest.mark.parametrize(
    ("sources", "lines", "logs"),
    [
        pytest.param(("1", "0"), ('{"orders":{"0":30}}', '{"logOffset":3}'), "1", id="swapped"),
        pytest.param(("1",), ('{"orders":{"0":30}}',), None, id="one is dropped"),
        pytest.param(
            (None, "0", "1"), ("-", '{"logOffset":3}', '{"orders":{"0":30}}'), "1", id="one is new"
        ),
    ],
)
def test_sources_may_be_chosen_anew(
    sources: Sequence[str | None], lines: Sequence[str], logs: str | None
) -> None:
    plan = planned(an_old_one(), stateless=True, sources=sources)

    offsets = parse_offset_log(plan.written["offsets/3"])
    assert tuple(text for _, text in offsets.offsets) == tuple(lines)
    assert offsets.conf == {"spark.sql.shuffle.partitions": "2"}
    assert {path.split("/")[1] for path in plan.copied} == ({logs} if logs else set())


@pytest.mark.parametrize(
    "sources",
    [("2",), ("0", "0"), (None,), ()],
    ids=["an unknown one", "one twice", "only new ones", "none"],
)
def test_sources_that_cannot_be_chosen_are_refused(sources: Sequence[str | None]) -> None:
    with pytest.raises(CheckpointRefused, match="its sources are 0, 1"):
        planned(an_old_one(), stateless=True, sources=sources)


def test_a_query_with_state_is_refused_with_the_alternative() -> None:
    report = replace(an_old_one().report(), is_stateful=True)

    with pytest.raises(CheckpointRefused, match=r"has state.*start at an earlier offset"):
        planned(an_old_one(), report, stateless=True)


def test_a_query_that_may_have_state_needs_somebodys_word() -> None:
    report = replace(an_old_one().report(), is_stateful=None)

    with pytest.raises(CheckpointRefused, match="stateless=True"):
        planned(an_old_one(), report)
    assert planned(an_old_one(), report, stateless=True).batch == 3


def test_a_query_known_to_have_no_state_needs_no_word() -> None:
    report = replace(an_old_one().report(), is_stateful=False)

    assert planned(an_old_one(), report).batch == 3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"last_committed_batch": None}, "has no committed batch"),
        ({"async_progress": True}, "asynchronous progress tracking"),
        ({"offset_log_version": 2}, "names its sources"),
    ],
    ids=["nothing committed", "asynchronous progress", "named sources"],
)
def test_what_has_no_certain_position_is_refused(changes: dict[str, Any], sentence: str) -> None:
    report = replace(an_old_one().report(), is_stateful=False, **changes)

    with pytest.raises(CheckpointRefused, match=sentence):
        planned(an_old_one(), report, sources=("0",))


def test_what_is_not_sound_is_to_be_looked_at_again() -> None:
    found = unready(an_old_one().write("offsets/3", b""), stateless=True)

    assert found.path == "offsets/3"
    assert "not sound" in found.why
    assert not found.is_moving


@pytest.mark.parametrize("gone", ["offsets/2", "offsets/3", "commits/3"])
def test_what_is_purged_after_it_was_listed_is_to_be_looked_at_again(gone: str) -> None:
    old = an_old_one()
    report, listing = old.report(), old.listing()
    old.delete(gone)

    found = plan_carry_over(report, listing, old.read, query_id="0-0-0-0-2", stateless=True)

    assert isinstance(found, Incomplete)
    assert (found.path, found.is_moving) == (gone, True)


@pytest.mark.parametrize(
    ("sources", "line"),
    [(None, '{"logOffset":4}\n{"orders":{"0":40}}'), (("1", None), '{"orders":{"0":40}}\n-')],
    ids=["as they were", "chosen anew"],
)
def test_a_batch_that_was_planned_goes_along_because_the_sink_may_have_it(
    sources: Sequence[str | None] | None, line: str
) -> None:
    old = an_old_one()
    old.write("offsets/4", a_plan(4)).write("sources/0/4", old.files["sources/0/3"])

    plan = planned(old, stateless=True, sources=sources)

    assert (plan.batch, plan.planned) == (3, 4)
    assert plan.written["offsets/4"].decode().split("\n", 2)[2] == line
    assert "commits/4" not in plan.written
    new = built(old, plan).report()
    assert new.problems == ()
    assert (new.last_committed_batch, new.last_planned_batch) == (3, 4)


def test_the_log_of_a_source_ends_with_the_last_plan_that_goes_along() -> None:
    old = an_old_one()
    old.write("sources/0/4", old.files["sources/0/3"])

    plan = planned(old, stateless=True)

    assert sorted(plan.copied) == [f"sources/0/{number}" for number in range(4)]


def test_whatever_another_source_keeps_is_copied_whole() -> None:
    old = an_old_one().write("sources/1/0", b"offsets").write("sources/1/deep/7", b"own")

    plan = planned(old, stateless=True, sources=("1", "0"))

    assert plan.copied["sources/0/0"] == "sources/1/0"
    assert plan.copied["sources/0/deep/7"] == "sources/1/deep/7"


def test_of_a_batch_that_is_no_longer_kept_only_what_spark_needs_is_asked() -> None:
    retains_one = an_old_one().delete("offsets/2", "commits/2", "offsets/1", "commits/1")
    retains_one.delete("offsets/0", "commits/0").write("offsets/4", a_plan(4, "-", "-"))
    no_commit = an_old_one(batches=2).delete("commits/0")

    logs = {path for path in planned(retains_one, stateless=True).written if "/" in path}

    assert logs == {"offsets/3", "commits/3", "offsets/4"}
    assert "commits/0" not in planned(no_commit, stateless=True).written
