"""Only a name that is one plain folder becomes part of a path."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.model.names import (
    MAX_STREAM_NAME,
    Layout,
    base_of,
    check_folder_name,
    check_is_stream,
    check_stream_name,
    folders_of,
    is_lane,
    is_path_part,
    number_of,
    numbered,
    other_lane,
    standby_of,
)
from airflow_streaming.model.records.epoch import (
    Barrier,
    Epoch,
    QueryClaim,
    StandbyAnswer,
    StandbyOrder,
)

GOOD = ["orders", "o", "7", "Orders-2026_v1.2", "a.b", "CON"]
GOOD_FOR_A_FOLDER = [*GOOD, "x" * 100, "orders."]
BAD = {
    "empty": "",
    "slash": "orders/2026",
    "absolute": "/orders",
    "backslash": "orders\\2026",
    "one dot": ".",
    "two dots": "..",
    "two dots inside": "orders..2026",
    "climbing": "../orders",
    "hidden": ".orders",
    "an option": "-orders",
    "underscore first": "_orders",
    "space": "orders 2026",
    "space around": " orders",
    "newline at the end": "orders\n",
    "NUL": "orders\0",
    "umlaut": "größe",
    "digits of another script": "\u0663",
    "full-width letters": "\uff4f\uff52\uff44\uff45\uff52\uff53",
    "percent": "orders%2f",
    "colon": "orders:1",
    "too long": "x" * 101,
}


LANES_OF = {
    "orders": "orders",
    "orders.green": "orders",
    "x" * MAX_STREAM_NAME: "x" * MAX_STREAM_NAME,
    f"{'x' * MAX_STREAM_NAME}.green": "x" * MAX_STREAM_NAME,
}
NO_STREAM = {
    "a character too long": "x" * (MAX_STREAM_NAME + 1),
    "a lane of one too long": f"{'x' * (MAX_STREAM_NAME + 1)}.green",
    "two dots in its lane": "a.",
    "nothing but a suffix": ".green",
}
NO_LANE = {
    **BAD,
    **NO_STREAM,
    "of a lane": "orders.green.green",
    "of a standby": "orders.standby.green",
    "standby": "orders.standby",
    "standby of a lane": "orders.green.standby",
}


@pytest.mark.parametrize("name", GOOD_FOR_A_FOLDER)
def test_a_plain_name_is_taken_as_it_is(name: str) -> None:
    assert check_folder_name(name) == name
    assert is_path_part(name)
    assert Layout(name).root == name


@pytest.mark.parametrize("name", BAD.values(), ids=BAD.keys())
def test_a_name_that_is_no_folder_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(SpecError, match=r"cannot be used as a folder name\. Use 1 to 100 letters"):
        check_folder_name(name)
    with pytest.raises(SpecError):
        Layout(name)
    assert not is_path_part(name)


@pytest.mark.parametrize("name", [*BAD.values(), *NO_STREAM.values()], ids=repr)
def test_a_name_of_which_not_all_folders_can_be_made_is_no_streams(name: str) -> None:
    with pytest.raises(SpecError, match=r"cannot be used for folders\. Use 1 to 86 letters"):
        check_stream_name(name)


@pytest.mark.parametrize(("lane", "stream"), LANES_OF.items())
def test_a_lane_is_a_streams_own_name_or_its_green_one(lane: str, stream: str) -> None:
    assert is_lane(lane)
    assert check_stream_name(lane) == lane
    assert base_of(lane) == stream


@pytest.mark.parametrize("name", NO_LANE.values(), ids=NO_LANE.keys())
def test_a_folder_of_another_name_is_no_lane(name: str) -> None:
    assert not is_lane(name)


_LETTERS = st.text("aZ0._-", max_size=MAX_STREAM_NAME + 20)
_SUFFIXED = st.builds(str.__add__, _LETTERS, st.sampled_from(["", ".green", ".standby", ".", ".a"]))


@settings(max_examples=500, deadline=None, database=None)
@given(_SUFFIXED | st.integers(80, 101).map(lambda n: "a" * n) | st.text(max_size=10))
def test_every_stream_has_folders_for_its_lanes_and_their_standbys(name: str) -> None:
    try:
        check_is_stream(check_stream_name(name))
    except SpecError:
        assert not (is_lane(name) and base_of(name) == name)
        return

    green = other_lane(name)
    folders = [name, green, standby_of(name), standby_of(green)]
    assert {*folders} == {*folders_of(name)}
    assert len({*folders}) == len(folders), "no two share a folder"
    for lane in folders:
        assert check_folder_name(lane) == Layout(lane).root == lane
        assert check_stream_name(lane) == lane
    assert [is_lane(one) for one in folders] == [True, True, False, False]
    assert (base_of(name), base_of(green), other_lane(green)) == (name, name, name)


@pytest.mark.parametrize(
    ("number", "text"), [(1, "000001"), (17, "000017"), (999_999, "999999"), (1_000_000, "1000000")]
)
def test_numbers_are_written_so_that_names_sort_as_numbers_do(number: int, text: str) -> None:
    assert numbered(number) == text
    assert number_of(f"{text}.json") == number


@pytest.mark.parametrize("number", [0, -1])
def test_numbers_start_at_one(number: int) -> None:
    with pytest.raises(RecordError, match="start at 1"):
        numbered(number)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "17.json",
        "000017",
        "000017.json.tmp",
        ".000017.json",
        "000017.JSON",
        "000017.json\n",
        "-00017.json",
        "000000.json",
        "0000017.json",
        "\u0660\u0660\u0660\u0660\u0661\u0667.json",
        "1234567890123.json",
        "exit.json",
    ],
    ids=repr,
)
def test_a_file_name_that_we_would_not_write_has_no_number(name: str) -> None:
    assert number_of(name) is None


@settings(max_examples=50, deadline=None, database=None)
@given(st.from_regex(r"\d{5,13}\.json", fullmatch=True))
def test_a_number_always_leads_back_to_its_file(name: str) -> None:
    number = number_of(name)

    assert number is None or f"{numbered(number)}.json" == name


def test_every_record_has_its_place_under_the_stream() -> None:
    layout = Layout("orders")

    assert layout.folder("epochs") == "orders/epochs"
    assert layout.place(Epoch, number=17) == "orders/epochs/000017.json"
    assert layout.epoch(17, "status.json") == "orders/epochs/000017/status.json"
    assert layout.place(Barrier, epoch=17) == "orders/epochs/000017/barrier.json"
    assert (
        layout.place(StandbyOrder, epoch=17, number=2) == "orders/epochs/000017/orders/000002.json"
    )
    assert (
        layout.place(StandbyAnswer, epoch=17, number=2)
        == "orders/epochs/000017/orders/000002.done.json"
    )
    assert layout.progress(17) == "orders/epochs/000017/progress"
    assert (
        layout.application(3, "0123456789abcdef" * 4)
        == "orders/deployments/000003/application-0123456789abcdef.py"
    )
    assert layout.checkpoint(3) == "orders/checkpoints/000003"
    assert layout.output(3) == "orders/output/000003"
    assert (
        layout.place(QueryClaim, deployment=3, query="revenue")
        == "orders/queries/000003/revenue.json"
    )


@pytest.mark.parametrize("query", ["../x", "a/b", "", "my query"])
def test_a_query_name_that_is_no_file_name_is_refused(query: str) -> None:
    with pytest.raises(RecordError, match=r"Query name .* cannot be used as a file name"):
        Layout("orders").place(QueryClaim, deployment=3, query=query)


@pytest.mark.parametrize("digest", ["", "../x", "AB" * 32, "ab" * 31, "ab" * 32 + "\n"], ids=repr)
def test_what_is_no_digest_never_becomes_part_of_a_path(digest: str) -> None:
    with pytest.raises(RecordError, match="is not a SHA-256 digest"):
        Layout("orders").application(3, digest)
