from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.exceptions import AlreadyExists, ApplicationNotFound, RecordError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.wire import MAX_RECORD_BYTES
from tests.unit.home.make import SCRIPT, make_deployment

OTHER = b"print('another')\n"


def test_a_new_stream_has_no_deployment(stream: StreamHome) -> None:
    assert stream.newest_deployment() is None


def test_a_deployment_comes_back_with_its_script(stream: StreamHome) -> None:
    stream.create_deployment(make_deployment(), SCRIPT)

    assert stream.newest_deployment() == make_deployment()
    assert stream.deployment(1) == make_deployment()
    assert stream.application(1) == SCRIPT


def test_the_newest_deployment_is_the_one_with_the_highest_number(stream: StreamHome) -> None:
    for number in (1, 2, 10):
        stream.create_deployment(make_deployment(number), SCRIPT)

    assert stream.newest_deployment() == make_deployment(10)


def test_the_loser_of_a_number_leaves_the_winner_alone(stream: StreamHome) -> None:
    stream.create_deployment(make_deployment(), SCRIPT)

    with pytest.raises(AlreadyExists, match=r"deployments/000001\.json exists already"):
        stream.create_deployment(make_deployment(source=OTHER), OTHER)

    assert stream.deployment(1) == make_deployment()
    assert stream.application(1) == SCRIPT


def test_the_loser_with_the_same_script_is_told_too(stream: StreamHome) -> None:
    stream.create_deployment(make_deployment(), SCRIPT)

    with pytest.raises(AlreadyExists):
        stream.create_deployment(make_deployment(created_by="somebody else"), SCRIPT)


def test_creating_the_very_same_deployment_again_is_no_loss(stream: StreamHome) -> None:
    stream.create_deployment(make_deployment(), SCRIPT)

    stream.create_deployment(make_deployment(), SCRIPT)

    assert stream.deployment(1) == make_deployment()


def test_a_writer_that_died_before_the_record_does_not_block_the_number(
    stream: StreamHome,
) -> None:
    stream._keep_copy(make_deployment(source=OTHER), OTHER)

    stream.create_deployment(make_deployment(), SCRIPT)

    assert stream.application(1) == SCRIPT


def test_a_record_that_names_another_script_is_not_written(stream: StreamHome) -> None:
    with pytest.raises(RecordError, match="names another script than the one given"):
        stream.create_deployment(make_deployment(), OTHER)

    assert stream.newest_deployment() is None


def test_a_script_too_large_to_read_back_is_not_kept(stream: StreamHome) -> None:
    source = b"#" * (MAX_RECORD_BYTES + 1)

    with pytest.raises(ApplicationNotFound, match="put libraries into py_files"):
        stream.create_deployment(make_deployment(source=source), source)


def test_a_changed_script_is_refused(stream: StreamHome) -> None:
    deployment = make_deployment()
    stream.create_deployment(deployment, SCRIPT)
    path = stream._layout.application(1, deployment.application_sha256)
    stream.store.replace(path, OTHER)

    with pytest.raises(RecordError, match="is not the script that deployment 1 was made with"):
        stream.application(1)


def test_a_missing_script_is_named(stream: StreamHome) -> None:
    deployment = make_deployment()
    stream.create_deployment(deployment, SCRIPT)
    stream.store.delete(stream._layout.application(1, deployment.application_sha256))

    with pytest.raises(RecordError, match=r"application-[0-9a-f]{16}\.py is missing"):
        stream.application(1)


def test_an_unknown_deployment_is_named(stream: StreamHome) -> None:
    with pytest.raises(RecordError, match=r"orders/deployments/000007\.json does not exist"):
        stream.deployment(7)


def test_a_claim_comes_back(stream: StreamHome) -> None:
    claim = QueryClaim(query="revenue", query_id="id-1", checkpoint="/c", epoch=1)
    stream.store.create("orders/queries/000001/revenue.json", claim.to_bytes("orders"))

    assert stream.claim(1, "revenue") == claim
    assert stream.claim(1, "other") is None
    stream.store.create("orders/queries/000001/other.json", claim.to_bytes("orders"))
    with pytest.raises(RecordError, match="its query is 'revenue', not 'other'"):
        stream.claim(1, "other")


@pytest.mark.parametrize("query", ["../../x", "a/b", "", "a b"])
def test_a_query_name_never_becomes_a_path(stream: StreamHome, query: str) -> None:
    with pytest.raises(RecordError, match="cannot be used as a file name"):
        stream.claim(1, query)


def test_a_renumbered_copy_of_a_record_is_refused(stream: StreamHome) -> None:
    stream.create_deployment(make_deployment(), SCRIPT)
    stream.store.create(
        "orders/deployments/000002.json", replace(make_deployment(), number=1).to_bytes()
    )

    with pytest.raises(
        RecordError, match=r"000002\.json is not what its name says: its number is 1, not 2"
    ):
        stream.newest_deployment()
