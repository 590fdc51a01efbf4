"""Every defect of the table in docs/checkpoints.md, made in a golden checkpoint, is found."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.read.report import FindingCode
from tests.unit.checkpoints.in_memory import Break, InMemory, golden
from tests.unit.checkpoints.log_defects import LOG_DEFECTS
from tests.unit.checkpoints.state_defects import STATE_DEFECTS, leave_newer_state


def delete_an_sst(it: InMemory) -> None:
    ssts = [path for path in it.files if path.startswith("state/0/1/SSTs/0")]
    it.delete(max(ssts))


@pytest.mark.parametrize(
    ("shape", "break_it", "code"),
    [
        pytest.param(shape, how, code, id=name)
        for name, shape, how, code in (*LOG_DEFECTS, *STATE_DEFECTS)
    ],
)
def test_a_defect_is_found(shape: str, break_it: Break, code: FindingCode) -> None:
    broken = golden(shape)

    break_it(broken)

    found = broken.report()
    assert code in {problem.code for problem in found.problems}
    assert not found.is_sound
    for problem in found.problems:
        assert "Spark" in problem.message
        assert problem.message.endswith(".")
        assert 100 < len(problem.message) < 1000


@pytest.mark.parametrize("shape", ["agg_rocks", "agg_rocks_changelog", "agg_rocks_v2"])
def test_an_sst_file_that_the_newest_zip_names_and_is_gone_is_found(shape: str) -> None:
    broken = golden(shape)

    delete_an_sst(broken)

    assert broken.problems() & {
        FindingCode.STATE_VERSION_MISSING,
        FindingCode.STATE_FILE_DAMAGED,
    }


@pytest.mark.parametrize(
    ("code", "path"),
    [
        (FindingCode.OPERATOR_METADATA_MISSING, "state/0/_metadata/metadata"),
        (FindingCode.STATE_SCHEMA_MISSING, "state/0/0/_metadata/schema"),
    ],
)
def test_what_an_older_spark_never_wrote_is_not_missed(code: FindingCode, path: str) -> None:
    old = golden("agg", "3.5.9")
    if path in old.files:
        for batch in range(7):
            # As Spark 3.0 pinned it.
            old.write(f"offsets/{batch}", _without_conf(old.files[f"offsets/{batch}"]))
        old.delete(path)

    assert code not in old.problems()


def test_state_of_another_timeline_does_no_harm_in_format_2() -> None:
    rewound = golden("agg_rocks_v2")

    leave_newer_state(rewound)

    assert rewound.report().problems == ()


def _without_conf(data: bytes) -> bytes:
    version, _, offsets = data.decode().split("\n", 2)
    about = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
    return f"{version}\n{about}\n{offsets}".encode()
