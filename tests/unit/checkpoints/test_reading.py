"""What a checkpoint says of its query, and that damage to any file the next batch needs is found."""

from __future__ import annotations

import json
from random import Random

import pytest

from airflow_streaming.checkpoints.read.journal import read_journal
from airflow_streaming.checkpoints.read.report import FindingCode, SourceType, StoreType
from airflow_streaming.checkpoints.read.stateful import read_state
from airflow_streaming.checkpoints.state.chain import Chain, files_for
from tests.golden import golden_checkpoints
from tests.unit.checkpoints.damage import damaged
from tests.unit.checkpoints.in_memory import InMemory, golden, hidden

SHAPES = ("agg", "agg_rocks", "agg_rocks_changelog", "agg_rocks_v2", "join", "many_batches")


def test_every_golden_checkpoint_is_sound() -> None:
    found = {}
    for each in golden_checkpoints():
        found[each.name] = golden(each.shape, each.spark).report()

    assert {name: report.problems for name, report in found.items() if not report.is_sound} == {}
    assert len(found) == 36


def test_every_golden_checkpoint_is_sound_when_all_of_it_is_looked_into() -> None:
    for shape in SHAPES:
        quick, thorough = golden(shape).report(), golden(shape).report(thorough=True)

        assert thorough == quick


@pytest.mark.parametrize(
    ("spark", "at_least"), [("3.5.9", "3.5"), ("4.1.4", "4.0"), ("4.3.0", "4.3")]
)
def test_the_oldest_spark_that_can_have_written_it_is_told(spark: str, at_least: str) -> None:
    assert golden("agg", spark).report().spark_at_least == at_least


def test_a_query_with_state_is_told_as_it_is() -> None:
    found = golden("agg_rocks_v2").report()

    assert (found.last_planned_batch, found.last_committed_batch) == (6, 6)
    assert (found.offset_log_version, found.commit_log_version, found.state_format) == (1, 2, 2)
    assert found.watermark_ms == 1_767_225_859_000
    assert (found.is_stateful, found.shuffle_partitions) == (True, 3)
    assert found.rollback_batches == (0, 1, 2, 3, 4, 5, 6)
    (source,) = found.sources
    assert (source.name, source.source) == ("0", SourceType.FILE)
    assert (source.offset, source.committed) == ({"logOffset": 5}, {"logOffset": 5})
    (operator,) = found.operators
    assert (operator.id, operator.name, operator.partitions) == (0, "stateStoreSave", 3)
    assert operator.schema_version == 2
    (store,) = operator.stores
    assert (store.name, store.store) == ("default", StoreType.ROCKSDB_CHANGELOG)
    assert (store.partitions, store.newest_version) == (3, 7)


def test_a_join_has_two_sources_and_four_stores() -> None:
    found = golden("join").report()

    assert [source.name for source in found.sources] == ["0", "1"]
    assert [store.name for store in found.operators[0].stores] == [
        "left-keyToNumValues",
        "left-keyWithIndexToValue",
        "right-keyToNumValues",
        "right-keyWithIndexToValue",
    ]


def test_sizes_leave_hidden_files_out() -> None:
    whole, bare = golden("agg"), golden("agg", hidden_files=False)

    found = whole.report()

    assert (found.files, found.size) == (len(bare.files), sum(map(len, bare.files.values())))
    assert sum(store.size for o in found.operators for store in o.stores) < found.size


def test_the_report_travels_as_json() -> None:
    told = json.loads(json.dumps(golden("agg").report().to_dict()))

    assert told["is_sound"] is True
    assert told["operators"][0]["stores"][0]["store"] == "hdfs"


def test_a_query_is_rolled_back_only_to_batches_whose_state_is_there() -> None:
    purged = golden("agg_rocks")
    for version in (1, 2, 3):
        purged.delete(f"state/0/1/{version}.zip")

    assert purged.report().rollback_batches == (3, 4, 5, 6)


def test_a_batch_whose_snapshot_lost_an_sst_file_is_none_to_go_back_to() -> None:
    broken = golden("agg_rocks")
    before = broken.report().rollback_batches
    broken.delete(min(path for path in broken.files if path.startswith("state/0/1/SSTs/0")))

    assert len(broken.report().rollback_batches) < len(before)


def test_a_thorough_look_finds_damage_that_only_an_older_batch_would_meet() -> None:
    broken = golden("agg_rocks").truncate("state/0/1/3.zip")

    assert broken.report().is_sound
    found = broken.report(thorough=True)
    assert {problem.path for problem in found.problems} == {"state/0/1/3.zip"}
    assert found.rollback_batches == (0, 1, 3, 4, 5, 6)


def needed(it: InMemory) -> list[str]:
    """Return the files without which the next batch does not run as it should."""
    listing = it.listing()
    journal = read_journal(listing, it.read)
    last = journal.last_planned or 0
    state = read_state(listing, it.read, journal)
    chains = [files_for(listing, it.read, ref, last + 1, state.ids[ref]) for ref in state.refs]
    files = {path for chain in chains if isinstance(chain, Chain) for path in chain.files}
    files |= {path for path in it.files if "_metadata/" in path or path.startswith("sources/")}
    files |= {f"offsets/{last}", f"offsets/{last - 1}", "metadata"}
    return sorted(path for path in files if not is_spare(it, path))


def is_spare(it: InMemory, path: str) -> bool:
    # A checksum is not what it vouches for, and what was compacted is not read again.
    folder, _, name = path.rpartition("/")
    compacted = [name for name in it.files if name.startswith(folder) and name.endswith(".compact")]
    newest = max((number_of(each) for each in compacted), default=-1)
    is_entry = path.startswith("sources/")
    return name.endswith(".crc") or (is_entry and number_of(path) < newest)


def number_of(path: str) -> int:
    return int(path.rpartition("/")[2].removesuffix(".compact"))


def is_needed(it: InMemory, path: str) -> bool:
    """Tell whether nothing else can take the place of a file when it is gone."""
    folder, _, name = path.rpartition("/")
    has_all_changes = any(
        each.startswith(f"{folder}/1") for each in it.files if "changelog" in each
    )
    return not (name.endswith(".zip") and has_all_changes)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spark", ["4.3.0", "4.1.4"])
def test_a_file_that_is_gone_or_cut_off_is_found_if_the_next_batch_needs_it(
    spark: str, shape: str
) -> None:
    random = Random(f"{spark} {shape}")
    for path in random.sample(needed(golden(shape, spark)), 6):
        if is_needed(golden(shape, spark), path):
            assert not golden(shape, spark).delete(path).report().is_sound, f"{path} is gone"
        cut = golden(shape, spark)
        checksum = cut.files.get(hidden(path))
        cut.truncate(path, random.randrange(len(cut.files[path])))
        if checksum is not None:
            cut.files[hidden(path)] = checksum
        assert not cut.report().is_sound, f"{path} has {len(cut.files[path])} bytes"


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_in_the_files_becomes_a_finding_and_no_exception(seed: int) -> None:
    random = Random(seed)
    broken = golden(SHAPES[seed % len(SHAPES)])
    for path in random.sample(sorted(broken.files), 5):
        broken.files[path] = damaged(broken.files[path], random)

    found = broken.report(thorough=seed % 2 == 0)

    assert json.dumps(found.to_dict())


def test_the_same_defect_in_very_many_places_is_told_in_few_words() -> None:
    broken = golden("agg")
    for path in [path for path in broken.files if path.startswith("state/0/0/")]:
        for partition in range(3, 203):
            broken.files[path.replace("state/0/0/", f"state/0/{partition}/")] = broken.files[path]
    for batch in range(7):
        broken.replace(f"offsets/{batch}", 'shuffle.partitions":"3"', 'shuffle.partitions":"203"')
    broken.delete(*(f"state/0/{partition}/7.delta" for partition in range(203)))

    found = broken.report()

    assert {problem.code for problem in found.problems} == {FindingCode.STATE_VERSION_MISSING}
    assert len(found.problems) == 21
    assert "183 more" in found.problems[-1].message
