"""Which files are pinned, what has to be looked at again, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.pin import (
    Pin,
    choose_pin,
    pinned_listing,
    still_holds,
    without,
)
from airflow_streaming.checkpoints.backup.pinned_logs import Incomplete
from airflow_streaming.checkpoints.drill_cut import plan_cut
from airflow_streaming.checkpoints.read.journal import recent_with_input
from airflow_streaming.checkpoints.read.reading import read_checkpoint
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.spark.listing import RESTORE_MARKER, FileStat, Listing
from tests.golden import golden_checkpoints
from tests.unit.checkpoints.in_memory import InMemory, empty, golden, other_codec

Change = Callable[[InMemory], object]


def pin_of(made: InMemory, at_least: int | None = None) -> Pin:
    pin = choose_pin(made.listing(), made.read, at_least=at_least)
    assert isinstance(pin, Pin), pin
    return pin


def unready(made: InMemory, at_least: int | None = None) -> Incomplete:
    found = choose_pin(made.listing(), made.read, at_least=at_least)
    assert isinstance(found, Incomplete), found
    return found


def kafka(batches: int, planned: bool = False) -> InMemory:
    made = empty().run(*range(batches))
    return made.plan(batches) if planned else made


def file_source(last: int, compacted: tuple[int, ...] = (), first: int = 0) -> InMemory:
    """Return a committed batch 4 that ends with an entry of the source's log; 5 has one more."""
    made = empty().run(3)
    made.plan(4, ({"logOffset": last},)).commit(4).plan(5, ({"logOffset": last + 1},))
    for entry in range(first, last + 2):
        if entry not in compacted:
            made.write(f"sources/0/{entry}", "v1")
    for entry in compacted:
        made.write(f"sources/0/{entry}.compact", "v1")
    return made


def test_every_golden_checkpoint_is_pinned_at_its_newest_commit_and_the_copy_is_sound() -> None:
    for one in golden_checkpoints():
        made = golden(one.shape, one.spark)
        pin = pin_of(made)
        copy = read_checkpoint(pinned_listing(pin, made.listing()), made.read, uri="/copy")
        newest = int(made.newest("commits").rpartition("/")[2])
        assert (pin.batch, copy.last_committed_batch, copy.problems) == (newest, newest, ()), one
        assert newest in copy.rollback_batches, one


def test_the_batch_in_work_leaves_nothing_but_its_plan() -> None:
    made = golden("agg_rocks_v2")
    before = pin_of(made)
    batch = before.batch + 1
    made.files[f"offsets/{batch}"] = made.files[f"offsets/{before.batch}"]
    made.write(f"state/0/0/{batch + 1}_orphan-of-a-task.changelog", b"half")
    made.write(f"state/0/0/.{batch + 1}_x.changelog.0d1f.tmp", b"half")
    made.write(f"commits/.{batch}.5c1e.tmp", b"half")
    after = pin_of(made)
    assert (after.batch, after.planned) == (before.batch, batch)
    assert set(after.files) - set(before.files) == {f"offsets/{batch}"}


@pytest.mark.parametrize("batches", [1, 2])
def test_a_young_query_is_pinned_whether_or_not_a_batch_came_before(batches: int) -> None:
    pin = pin_of(kafka(batches))

    logs = {f"{log}/{batch}" for log in ("offsets", "commits") for batch in range(batches)}
    assert (pin.batch, set(pin.files)) == (batches - 1, {"metadata", *logs})


def test_state_of_newer_versions_and_hidden_files_stay_behind() -> None:
    made = golden("agg")
    pin = pin_of(made)
    made.files[f"state/0/0/{pin.batch + 2}.delta"] = made.files[f"state/0/0/{pin.batch + 1}.delta"]
    assert pin_of(made).files == pin.files
    assert not [path for path in pin.files if path.rpartition("/")[2].startswith(".")]


def test_the_newest_batch_that_read_something_can_be_run_again_from_the_copy() -> None:
    for one in golden_checkpoints():
        made = golden(one.shape, one.spark)
        pin = pin_of(made)
        cut = plan_cut(pinned_listing(pin, made.listing()), made.read, pin.batch, needs_input=True)
        assert cut.runs == next(recent_with_input(made.read, pin.batch)), (one, cut)


@pytest.mark.parametrize(
    ("shape", "taken"),
    [
        pytest.param("agg_rocks", {5, 6, 7}, id="batch 6 read nothing"),
        pytest.param("join_rocks", {3, 4}, id="batch 3 read something"),
    ],
)
def test_no_older_state_comes_along_than_that_batch_begins_with(
    shape: str, taken: set[int]
) -> None:
    names = [path.rpartition("/")[2] for path in pin_of(golden(shape)).files]
    assert {int(name.removesuffix(".zip")) for name in names if name.endswith(".zip")} == taken


def test_what_is_purged_first_is_copied_first() -> None:
    pin = pin_of(golden("many_batches"))
    order = [path.partition("/")[0] for path in pin.files]
    assert list(dict.fromkeys(order)) == ["sources", "offsets", "commits", "metadata"]
    stateful = pin_of(golden("agg")).files
    versions = [int(p.split("/")[-1].split(".")[0]) for p in stateful if p.endswith(".delta")]
    assert versions == sorted(versions)
    assert stateful[0].startswith("state/")
    assert stateful[-1] == "metadata"


@pytest.mark.parametrize(
    ("purged", "left"),
    [
        pytest.param([], range(6), id="nothing"),
        pytest.param(["offsets/0"], range(1, 6), id="the oldest plan"),
        pytest.param(["commits/1"], range(2, 6), id="a commit, and all that is older"),
        pytest.param(["offsets/2", "commits/0"], range(3, 6), id="both logs, at different batches"),
        pytest.param(["offsets/3"], range(4, 6), id="as far as the batch before the pinned one"),
        pytest.param(["offsets/4"], None, id="the plan before the pinned one"),
        pytest.param(["commits/5"], None, id="the pinned commit"),
        pytest.param(["metadata"], None, id="no log"),
        pytest.param(["offsets/0", "sources/0/0"], None, id="a source's log too"),
    ],
)
def test_old_plans_and_commits_can_be_done_without(purged: list[str], left: range | None) -> None:
    pin = without(pin_of(kafka(6)), purged)

    logs = [f"{log}/{batch}" for log in ("offsets", "commits") for batch in left or ()]
    assert (None if pin is None else list(pin.files)) == (
        None if left is None else [*logs, "metadata"]
    )


def test_what_tells_the_ids_of_state_and_the_batch_that_can_run_again_is_needed() -> None:
    for one in golden_checkpoints():
        made = golden(one.shape, one.spark)
        pin = pin_of(made)
        spare = [f"offsets/{pin.oldest_needed - 1}"] if pin.oldest_needed else []
        oldest = without(pin, spare)
        assert without(pin, [f"commits/{pin.oldest_needed}"]) is None, one
        assert oldest is not None, one
        copy = read_checkpoint(pinned_listing(oldest, made.listing()), made.read, uri="/copy")
        assert (copy.problems, copy.last_committed_batch) == ((), pin.batch), one
        assert pin.batch in copy.rollback_batches, one


def test_the_metadata_of_operators_says_whether_paths_have_to_be_rewritten() -> None:
    made = golden("agg")
    assert not pin_of(made).has_absolute_paths
    batch = pin_of(made).batch
    made.write("state/0/_metadata/v2/0", "v2").write(f"state/0/_metadata/v2/{batch + 1}", "v2")
    made.write(f"state/0/_stateSchema/default/{batch + 1}_x", "later")
    made.write("state/0/_stateSchema/default/0_x", "schema")
    pin = pin_of(made)
    assert pin.has_absolute_paths
    assert {"state/0/_metadata/v2/0", "state/0/_stateSchema/default/0_x"} <= set(pin.files)
    assert not [path for path in pin.files if path.endswith((f"v2/{batch + 1}", f"{batch + 1}_x"))]


@pytest.mark.parametrize(
    ("last", "compacted", "expected"),
    [
        pytest.param(2, (), ["0", "1", "2", "3"], id="from the first entry"),
        pytest.param(12, (9,), ["9.compact", "10", "11", "12", "13"], id="from the compacted one"),
        pytest.param(
            33, (9, 19, 29), ["19.compact", "29.compact", "30", "31", "32", "33", "34"], id="two"
        ),
        pytest.param(-1, (), ["0"], id="before the first file"),
    ],
)
def test_a_file_source_needs_the_tail_of_its_log(
    last: int, compacted: tuple[int, ...], expected: list[str]
) -> None:
    found = pin_of(file_source(last, compacted)).files
    assert [path for path in found if path.startswith("sources/")] == [
        f"sources/0/{name}" for name in expected
    ]


def test_a_plan_that_is_younger_than_the_walk_of_its_source_is_left_out() -> None:
    made = file_source(2)
    assert pin_of(made).planned == 5
    made.delete("sources/0/3")
    pin = pin_of(made)
    assert pin.planned == 4
    assert "offsets/5" not in pin.files


def test_entries_of_the_batch_itself_may_be_compacted_away() -> None:
    made = file_source(18, compacted=(19,), first=19)
    pin = pin_of(made)
    assert pin.planned == 5
    assert "sources/0/19.compact" in pin.files


def test_other_sources_keep_whatever_they_wrote() -> None:
    made = kafka(3).write("sources/0/0", "v1").write("sources/0/deep/er", b"x")
    made.write("sources/0/1.5c1e.tmp", b"half")
    found = set(pin_of(made).files)
    assert {"sources/0/0", "sources/0/deep/er"} <= found
    assert "sources/0/1.5c1e.tmp" not in found


def test_an_older_batch_is_pinned_only_when_the_newer_came_during_the_walk() -> None:
    made = golden("agg")
    newest = pin_of(made).batch
    made.delete(f"state/0/0/{newest + 1}.delta")
    assert pin_of(made, at_least=newest - 2).batch == newest - 1
    assert unready(made).path == f"state/0/0/{newest + 1}.delta"
    assert unready(made, at_least=newest).path == f"state/0/0/{newest + 1}.delta"


def test_a_hole_far_down_in_the_logs_ends_what_is_taken_of_them() -> None:
    made = kafka(9).delete("commits/3").delete("offsets/5")
    logs = [path for path in pin_of(made).files if path.startswith(("offsets/", "commits/"))]
    assert logs == [f"offsets/{n}" for n in (6, 7, 8)] + [f"commits/{n}" for n in (4, 5, 6, 7, 8)]


@pytest.mark.parametrize(
    ("change", "path", "why"),
    [
        pytest.param(lambda m: m.delete("metadata"), "metadata", "query's id", id="no metadata"),
        pytest.param(lambda m: m.delete("offsets/4"), "offsets/4", "plan is missing", id="no plan"),
        pytest.param(
            lambda m: m.delete("offsets/3"), "offsets/3", "asynchronous progress", id="gap in plans"
        ),
        pytest.param(
            lambda m: m.delete("commits/3"), "commits/3", "real-time mode", id="gap in commits"
        ),
        pytest.param(lambda m: m.write("offsets/4", ""), "offsets/4", "cannot be used", id="torn"),
        pytest.param(lambda m: m.write("commits/4", "v9\n{}"), "commits/4", "v", id="from later"),
        pytest.param(lambda m: m.write("offsets/5", "v1"), "offsets/5", "", id="next plan torn"),
    ],
)
def test_what_is_not_whole_is_to_be_looked_at_again(change: Change, path: str, why: str) -> None:
    made = kafka(5)
    change(made)
    found = unready(made)
    assert found.path == path
    assert why in found.why


def test_a_log_that_is_purged_while_it_is_read_is_to_be_looked_at_again() -> None:
    made = kafka(5)
    listing = made.listing()
    made.delete("commits/4")
    gone = Incomplete("commits/4", "commits/4 is gone.", is_moving=True)
    assert choose_pin(listing, made.read) == gone


@pytest.mark.parametrize(
    ("made", "why"),
    [
        pytest.param(InMemory({}), "not a checkpoint", id="nothing there"),
        pytest.param(empty(), "not committed a batch yet", id="just started"),
        pytest.param(kafka(0, planned=True), "not committed a batch yet", id="first batch in work"),
        pytest.param(empty().plan(7).plan(8), "commits are lost", id="commits lost"),
        pytest.param(
            kafka(3).write(RESTORE_MARKER, "{}"), "restore .* not finished", id="being restored"
        ),
        pytest.param(
            InMemory(kafka(3).files, {"state/x": "symbolic link"}),
            r"state/x \(symbolic link\)",
            id="a link",
        ),
    ],
)
def test_what_another_look_would_not_change_is_refused(made: InMemory, why: str) -> None:
    with pytest.raises(CheckpointRefused, match=why):
        choose_pin(made.listing(), made.read)


def later(made: InMemory, **stamps: Any) -> Listing:
    """Return a listing in which files whose path ends with a name are stamped anew."""
    folders = {
        folder: {
            name: FileStat(stat.size, stamps.get(f"{folder}_{name}", ""))
            for name, stat in files.items()
        }
        for folder, files in made.listing().folders.items()
    }
    return Listing(folders)


@pytest.mark.parametrize(
    ("change", "stamps", "path"),
    [
        pytest.param(lambda m: m.run(5, 6).plan(7), {}, None, id="the query went on"),
        pytest.param(
            lambda m: m.run(5, 6, 7).delete(*[f"{log}/{n}" for log in LOGS for n in range(7)]),
            {},
            None,
            id="all of it was purged",
        ),
        pytest.param(lambda m: m, {"commits_2": "new"}, "commits/2", id="written anew"),
        pytest.param(lambda m: m.delete("commits/4"), {}, "commits/4", id="the commit went back"),
        pytest.param(
            lambda m: m.delete("commits/4").commit(5), {}, "commits/4", id="the commit is gone"
        ),
        pytest.param(lambda m: m.delete("metadata"), {}, "metadata", id="somebody wiped it"),
    ],
)
def test_a_pin_holds_unless_a_file_of_it_was_written_anew(
    change: Change, stamps: dict[str, str], path: str | None
) -> None:
    made = kafka(5, planned=True)
    pin, before = pin_of(made), later(made)
    change(made)
    found = still_holds(pin, before, later(made, **stamps))
    assert (found.path if found else None) == path


def test_a_batch_that_was_skipped_is_seen_when_it_is_still_not_committed() -> None:
    made = kafka(5, planned=True).plan(6)
    pin, before = pin_of(made), made.listing()
    found = still_holds(pin, before, made.listing())
    assert found is not None
    assert "batch 5 is not committed" in found.why
    assert still_holds(pin, before, made.run(5).listing()) is None


LOGS = ("offsets", "commits")


@pytest.mark.parametrize("spark", ["4.1.4", "4.3.0"])
def test_state_of_another_codec_is_followed_from_commit_to_commit(spark: str) -> None:
    made = other_codec(golden("agg_rocks_v2", spark), zip_at=3)
    reads: list[str] = []

    def read(path: str, limit: int) -> bytes | None:
        reads.append(path)
        return made.read(path, limit)

    pin = choose_pin(made.listing(), read)

    assert isinstance(pin, Pin), pin
    asked = [int(path.removeprefix("commits/")) for path in reads if path.startswith("commits/")]
    assert sorted(asked) == list(range(2, pin.batch + 1))
    assert pin.oldest_told == 2
    for partition in range(3):
        folder = f"state/0/{partition}"
        names = [path for path in pin.files if re.match(rf"{folder}/\d+_", path)]
        assert [path.rpartition(".")[2] for path in names] == ["zip"] + ["changelog"] * (
            pin.batch - 2
        )
    copy = read_checkpoint(pinned_listing(pin, made.listing()), made.read, uri="/copy")
    assert copy.problems == ()


def test_a_commit_that_is_lacking_on_the_way_down_ends_the_way() -> None:
    made = other_codec(golden("agg_rocks_v2"), zip_at=3).delete("commits/4")

    found = unready(made)

    assert found.path.startswith("state/0/")
    assert "Nothing tells the id of version" in found.why
