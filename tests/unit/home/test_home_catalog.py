"""The catalog of a home: one row a kind of record is all that its place takes."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.folder import StreamFolder
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model import names
from airflow_streaming.model.names import PLACES, Layout, place_fields
from airflow_streaming.model.records.upgrade import UpgradeTerms
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.wire import Record
from tests.conftest import REPOSITORY
from tests.unit.model.examples import EXAMPLES

HOME = list(dict.fromkeys(type(one) for one in EXAMPLES if one.KIND in PLACES))


def test_every_row_is_that_of_a_record_and_every_record_of_a_home_has_one() -> None:
    lying = {type(one).KIND for one in EXAMPLES if ".model.records." in type(one).__module__}

    assert {record.KIND for record in HOME} == set(PLACES)
    assert lying <= set(PLACES)


@pytest.mark.parametrize("record", HOME, ids=lambda record: record.KIND)
def test_a_place_is_rebuilt_from_checked_parts(record: type[Record]) -> None:
    parts: dict[str, int | str] = {
        name: {
            "digest": "ab" * 32,
            "query": "revenue",
            "name": "same",
            "file": "at",
            "series": "60s",
        }.get(name, 7)
        for name in place_fields(record.KIND)
    }

    assert Layout("orders").place(record, **parts).startswith("orders/")
    for name, value in parts.items():
        wrong = 0 if isinstance(value, int) and name != "attempt" else "../x"
        with pytest.raises(RecordError):
            Layout("orders").place(record, **{**parts, name: wrong})


def test_the_docs_show_every_folder_of_the_catalog() -> None:
    shown = (REPOSITORY / "docs/architecture.md").read_text()

    for place in PLACES.values():
        assert f"  {place.partition('/')[0]}/" in shown, place


LYING = [*{type(one): one for one in EXAMPLES if one.KIND in PLACES}.values()]
IDENTITIES = [
    pytest.param(one, field, id=f"{one.KIND}-{field}")
    for one in LYING
    for field in sorted({*place_fields(one.KIND)} & {field.name for field in fields(one)})
]
BESIDE = [
    pytest.param(one, field, id=f"{one.KIND}-{field}")
    for one in LYING
    for field in sorted({*place_fields(one.KIND)} - {field.name for field in fields(one)})
]


@pytest.mark.parametrize(("record", "field"), IDENTITIES)
def test_a_record_of_another_number_or_name_is_refused(
    stream: StreamHome, record: Record, field: str
) -> None:
    record = _of(record, stream.name)
    place = {name: getattr(record, name, 7) for name in place_fields(record.KIND)}
    path = Layout(stream.name).place(type(record), **place)
    stream.store.create(path, record.to_bytes("orders"))
    assert stream._get(type(record), **place) == record

    own = getattr(record, field)
    other = own + 1 if isinstance(own, int) else f"other-{own}"
    forged = replace(record, **{field: other})
    stream.store.replace(path, forged.to_bytes("orders"))

    with pytest.raises(RecordError, match=f"its {field} is {other!r}, not {own!r}"):
        stream._get(type(record), **place)
    with pytest.raises(RecordError, match=f"its {field} is {other!r}, not {own!r}"):
        Layout(stream.name).parse(type(record), forged.to_bytes("orders"), **place)


@pytest.mark.parametrize(("record", "field"), BESIDE)
def test_a_record_that_was_copied_to_another_number_or_name_is_refused(
    stream: StreamHome, record: Record, field: str
) -> None:
    record = _of(record, stream.name)
    place = {
        name: getattr(record, name, "ab" * 32 if name == "digest" else 7)
        for name in place_fields(record.KIND)
    }
    beside = {name: value for name, value in place.items() if not hasattr(record, name)}
    stream._create(record, **beside)
    own = place[field]
    other = {**place, field: own + 1 if isinstance(own, int) else "cd" * 32}
    layout = Layout(stream.name)
    data = stream.store.read(layout.place(type(record), **place)) or b""
    stream.store.create(layout.place(type(record), **other), data)

    assert stream._get(type(record), **place) == record
    with pytest.raises(RecordError, match=f"its {field} is {own!r}, not {other[field]!r}"):
        stream._get(type(record), **other)
    with pytest.raises(RecordError, match=f"its {field} is {own!r}, not {other[field]!r}"):
        layout.parse(type(record), data, **other)


def test_terms_of_another_digest_are_refused_whatever_their_bytes_say(stream: StreamHome) -> None:
    (terms,) = (one for one in LYING if isinstance(one, UpgradeTerms))
    place = {"change": terms.change, "digest": "cd" * 32}
    path = Layout(stream.name).place(UpgradeTerms, **place)
    stream.store.create(path, Layout(stream.name).bytes_of(terms, digest="cd" * 32))

    with pytest.raises(RecordError, match="its digest is"):
        stream._get(UpgradeTerms, **place)


def test_a_record_whose_writer_named_no_number_is_read(stream: StreamHome) -> None:
    (plan,) = (one for one in LYING if isinstance(one, QueryPlan))
    path = Layout(stream.name).place(QueryPlan, epoch=7, query=plan.query)
    stream.store.create(path, plan.to_bytes(stream.name))

    assert stream.plan(7, plan.query) == plan


def _of(record: Record, stream: str) -> Record:
    """Return a record of a stream; most classes have no field for it."""
    told = {"stream": stream, "lane": f"{stream}.green"}
    return replace(record, **{name: told[name] for name in told if hasattr(record, name)})


@pytest.mark.parametrize("other", ["refunds", "orders.green", None])
@pytest.mark.parametrize(
    "record",
    {type(one): one for one in EXAMPLES if one.KIND in PLACES}.values(),
    ids=lambda one: one.KIND,
)
def test_a_record_of_another_stream_or_lane_or_of_none_is_refused(
    stream: StreamHome, record: Record, other: str | None
) -> None:
    place = {name: getattr(record, name, 7) for name in place_fields(record.KIND)}
    path = Layout(stream.name).place(type(record), **place)
    foreign = _of(record, other).to_bytes(other) if other else _anonymous(record)
    stream.store.create(path, foreign)

    refusal = f"its stream is {other!r}, not 'orders'" if other else "it has no field 'stream'"
    with pytest.raises(RecordError, match=refusal):
        stream._get(type(record), **place)
    with pytest.raises(RecordError, match=refusal):
        Layout(stream.name).parse(type(record), foreign, **place)


def _anonymous(record: Record) -> bytes:
    told = json.loads(record.to_bytes())
    return json.dumps({name: told[name] for name in told if name != "stream"}).encode()


CLASSES = {record.__name__: record for record in HOME}
UNCHECKED = {("airflow_streaming/driver/shutdown.py", "StopRequest")}
"""A driver stops on a request that it cannot read, and checks a readable one itself."""


def _reads() -> Iterator[tuple[str, type[Record], set[str | None]]]:
    """Yield each read of a record of the catalog: file, class, named fields of its place."""
    for path in sorted((REPOSITORY / "airflow_streaming").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(name), attr="from_bytes" | "stored")
                ):
                    record, fields = name, set[str | None]()
                case ast.Call(
                    func=ast.Attribute(attr="parse" | "_parsed"), args=[ast.Name(name), *_]
                ):
                    record, fields = name, {one.arg for one in node.keywords}
                case _:
                    continue
            if record in CLASSES:
                yield str(path.relative_to(REPOSITORY)), CLASSES[record], fields


def test_every_reader_compares_the_record_with_the_whole_name_of_its_file() -> None:
    reads = [*_reads()]
    careless = {
        (file, record.__name__)
        for file, record, fields in reads
        if None not in fields and not {*place_fields(record.KIND)} <= fields
    }

    assert len(reads) > 8
    assert careless == UNCHECKED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note(Record):
    KIND: ClassVar[str] = "note"

    number: int
    text: str


class _Notes(StreamFolder):
    def add(self, text: str) -> _Note | None:
        return self._append(_Note, lambda _, number: _Note(number=number, text=text))

    def newest(self) -> _Note | None:
        return self._newest(_Note)


def test_another_record_takes_its_class_and_one_row(
    stream: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(names.PLACES, "note", "notes/{number}.json")  # type: ignore[arg-type]
    notes = _Notes(stream.store, stream.name)
    notes.add("first")
    notes.add("second")

    assert notes.newest() == _Note(number=2, text="second")
    assert stream.store.names("orders/notes") == ["000001.json", "000002.json"]
    stream.store.create(
        "orders/notes/000003.json", _Note(number=2, text="moved").to_bytes("orders")
    )
    with pytest.raises(RecordError, match="its number is 2, not 3"):
        notes.newest()
