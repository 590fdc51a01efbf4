"""Every parser of bytes that others can write: what it is given, and all that it may answer with."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from hypothesis import strategies as st

from airflow_streaming.advice.examined import pinned_conf
from airflow_streaming.checkpoints.backup.index import (
    check_member_path,
    decode_index,
    encode_index,
    from_ranges,
    seal,
    unseal,
)
from airflow_streaming.checkpoints.backup.records import Bundle, BundleUse, Member
from airflow_streaming.checkpoints.state import lz4
from airflow_streaming.checkpoints.state.file_checks import agrees_with_hadoop, parse_sidecar
from airflow_streaming.checkpoints.state.rocksdb import parse_zip, verify_zip
from airflow_streaming.checkpoints.state.stores import lineage, parse_name
from airflow_streaming.driver.checkpoint.checkpoint_claims import query_id_in
from airflow_streaming.exceptions import BackupDamaged, CheckpointMismatch, RecordError, SpecError
from airflow_streaming.model.codec import encode
from airflow_streaming.model.names import Layout, check_stream_name, number_of
from airflow_streaming.model.pipeline.program import PipelineProgram
from airflow_streaming.model.plan.schema import columns_of, fields_of
from airflow_streaming.model.plan.text import text_of
from airflow_streaming.model.plan.tree import Tree
from airflow_streaming.model.progress import BatchProgress, is_at_least, positions
from airflow_streaming.model.records.epoch import Epoch, QueryClaim
from airflow_streaming.model.spark.conf import parse_spark_version
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.spark.failures import diagnose, presentable, python_error_in, signature
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.spark.secrets import mask_password
from airflow_streaming.model.spark.tail import batch_of, parse_commit, parse_offsets, parse_query_id
from airflow_streaming.model.storage import check_relative
from airflow_streaming.model.uris import check_apart, check_uri, local_path, to_fsspec, to_hadoop
from airflow_streaming.model.wire import Record, decode, parse_json
from airflow_streaming.supervision.external.address import check_endpoint, why_forbidden
from airflow_streaming.supervision.external.endpoint_reply import parse_applications, parse_gauges
from tests.golden import ARCHIVES
from tests.unit.checkpoints.backups import a_backup
from tests.unit.checkpoints.java_output import utf
from tests.unit.checkpoints.parsers import PARSERS as LOG_PARSERS
from tests.unit.checkpoints.parsers import samples as golden_samples
from tests.unit.checkpoints.state.papers import changelog, lz4_stream, sidecar, state_zip
from tests.unit.fuzz.hostile import bytes_like, remade, texts_like
from tests.unit.model.examples import EXAMPLES

Given = bytes | str
MIB: Final = 1024 * 1024
PROGRESS: Final = Path(__file__).parents[1] / "model" / "progress"


@dataclass(frozen=True, kw_only=True)
class Parser:
    """
    One parser.

    :param parse: Reads what it is given, and checks what it makes of it.
    :param given: Makes the strategy; not before a test runs, as samples may be on a disk.
    :param refuses: All that it may raise; none where it always has an answer.
    :param always: Makes what is tried every time, as it broke one of the promises once; not before
        a test runs either, as every worker of the tests reads this module and bombs take a second.
    :param most_mib: Memory that it may take for anything it is given.
    :param share: How much of what the others are given: there are many sorts of records.
    """

    parse: Callable[[Any], object]
    given: Callable[[], st.SearchStrategy[Any]]
    refuses: tuple[type[Exception], ...] = (RecordError,)
    always: Callable[[], tuple[Given, ...]] = tuple
    most_mib: int = 24
    share: float = 1.0


def of_bytes(parse: Callable[[bytes], object], *valid: bytes, **more: Any) -> Parser:
    return Parser(parse=parse, given=lambda: bytes_like(valid), **more)


def of_text(parse: Callable[[str], object], *valid: str, **more: Any) -> Parser:
    return Parser(parse=parse, given=lambda: texts_like(valid), **more)


def of_json(parse: Callable[[Any], object], *valid: bytes, **more: Any) -> Parser:
    """Return a parser of what JSON was made into before; it is given any JSON."""
    return Parser(parse=lambda data: parse(_json(data)), given=lambda: remade(valid), **more)


def an_expression(told: Any) -> None:
    """Read an expression, and the form that it is written in."""
    tree = Tree.from_json(told, "expression")
    assert Tree.from_json(tree.to_json(), "again") == tree
    assert text_of(tree)


EXPRESSION: Final = (
    b'{"op": "+", "args": ["v", {"column": "w", "source": 1}, {"op": "literal", "type": "int"}],'
    b' "options": {"mode": "ANSI"}}'
)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


# Records, and lines of them.


def read_and_write(cls: type[Record]) -> Callable[[bytes], object]:
    def parse(data: bytes) -> None:
        record = cls.from_bytes(data)
        assert cls.from_bytes(record.to_bytes()) == record

    return parse


def of_record(cls: type[Record]) -> Parser:
    valid = [one.to_bytes() for one in EXAMPLES if type(one) is cls]

    def given() -> st.SearchStrategy[bytes]:
        # Type hints are evaluated when a record is first read, which is nothing the bytes did.
        for data in valid:
            cls.from_bytes(data)
        return bytes_like(valid)

    return Parser(parse=read_and_write(cls), given=given, share=0.3)


def progress_line(data: bytes) -> object:
    return decode(BatchProgress, parse_json(data, limit=64 * 1024), "line 1")


def progress_lines() -> st.SearchStrategy[bytes]:
    reported = [BatchProgress.from_spark("q", json.loads(one)) for one in reports()]
    valid = [json.dumps(encode(one)).encode() for one in reported]
    # As with records.
    for data in valid:
        progress_line(data)
    return bytes_like(valid)


def reports() -> Sequence[bytes]:
    return [path.read_bytes() for path in sorted(PROGRESS.glob("*.json"))]


def spark_report(told: Any) -> None:
    found = BatchProgress.from_spark("q", told if isinstance(told, dict) else {})
    assert len(json.dumps([one.end_offset for one in found.sources])) < 64 * 1024
    assert "NaN" not in json.dumps([found.observed, found.input_rows_per_second])


def offset(text: str) -> None:
    assert is_at_least(text, text) is True
    assert is_at_least(text, '{"orders":{"0":5}}') in (True, False, None)
    assert is_at_least(text, text + " ") in (True, False, None)
    positions(text)


# Checkpoints.

PLAN: Final = b'{"batchWatermarkMs":5,"batchTimestampMs":1795262400000,"conf":{"a.b":"200"}}'
ENTRY: Final = b'{"path":"file:///in/a.csv","timestamp":1795262400000,"batchId":3}'
WRITTEN: Final = (
    b'{"path":"file:///out/a","size":7,"isDir":false,"modificationTime":1,'
    b'"blockReplication":1,"blockSize":1,"action":"add"}'
)
OPERATOR: Final = (
    b'{"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},"stateStoreInfo":'
    b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}'
)
COLUMNS: Final = (
    '{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]}'
)
LOGS: Final[dict[str, list[bytes]]] = {
    "offset log": [
        b"v1\n" + PLAN + b'\n{"orders":{"0":10}}\n-',
        b"v2\n" + PLAN + b'\nleft:{"logOffset":3}',
    ],
    "commit log": [
        b'v1\n{"nextBatchWatermarkMs":0}',
        b'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a-b"],["c-d"]]}}',
    ],
    "source log": [b"v1\n" + ENTRY + b"\n" + ENTRY.replace(b"a.csv", b"b.csv")],
    "sink log": [b"v1\n" + WRITTEN],
    "operator": [b"v1\n" + OPERATOR],
    "state schema": [utf("v1") + utf(COLUMNS) + utf(COLUMNS)],
}


def samples(sort: str) -> list[bytes]:
    """Return valid files: those that Spark wrote, where they are at hand, and ones made by hand."""
    return LOGS[sort] + (golden_samples(sort) if ARCHIVES.is_dir() else [])


# Backups.

INDEX_TEXT: Final = gzip.decompress(
    encode_index(
        Bundle(
            pack="ab" * 32,
            pack_size=1000,
            members=tuple(
                Member(path=f"counts/offsets/{n}", size=17 + n, sha256=f"{n:064x}", stamp="")
                for n in range(6)
            ),
        )
    )
)


def bombs() -> tuple[bytes, ...]:
    texts = (b"\n" * 60 * MIB, INDEX_TEXT + b"x" * 60 * MIB, bytes(80 * MIB))
    return tuple(gzip.compress(text, 1, mtime=0) for text in texts)


def indexes() -> st.SearchStrategy[bytes]:
    """Return indexes whose text was changed before it was compressed, too, and bombs."""
    whole = gzip.compress(INDEX_TEXT, mtime=0)
    changed = bytes_like([INDEX_TEXT]).map(lambda text: gzip.compress(text, 1, mtime=0))
    return changed | changed | bytes_like([whole])


def manifests() -> st.SearchStrategy[bytes]:
    """Return manifests whose record was changed before it was sealed, too."""
    use = BundleUse(index="ab" * 32, index_size=100, chosen="0-4,7")
    backup = a_backup(1, bundles=(use,), files=6)
    record = backup.to_bytes().rstrip(b"\n")
    return bytes_like([seal(backup)]) | bytes_like([record]).map(_sealed)


def _sealed(record: bytes) -> bytes:
    digest = hashlib.sha256(record).hexdigest().encode()
    return b'{"backup": ' + record + b', "sha256": "' + digest + b'"}\n'


def member_path(text: str) -> None:
    assert stays_below(check_member_path(text))


def ranges(text: str) -> None:
    found = from_ranges(text, 16_384)
    assert list(found) == sorted(set(found))
    assert len(found) <= 16_384


# State files.


def packed_block(payload: bytes, size: int) -> bytes:
    head = b"LZ4Block" + bytes([0x2F]) + len(payload).to_bytes(4, "little")
    return head + size.to_bytes(4, "little") + bytes(4)


COSTLY_BLOCKS: Final = tuple(
    packed_block(payload, size) + payload
    for payload, size in (
        # One promises what it does not hold, the other unpacks to all that a block may.
        (b"\x1f" * 40, 1 << 25),
        (b"\x1fa\x01\x00" + b"\xff" * 130_000 + b"\x00", 1 << 25),
    )
)


def lz4_files() -> st.SearchStrategy[bytes]:
    return bytes_like([changelog((1, "a"), (2, "b")), lz4_stream(b"a" * 500, b"b" * 20)])


ZIPS: Final = (
    state_zip(("000008-a.sst", 64), logs=(("000004-b.log", 7),)),
    state_zip(("000008-a.sst", 64)),
)
CHECKED: Final = bytes(5000)


# Names and places.


def stays_below(path: str) -> bool:
    """Tell whether a relative path leads nowhere but below where it begins."""
    parts = path.split("/")
    return not {"", ".", ".."} & set(parts) and "\x00" not in path


def stream_name(text: str) -> None:
    assert stays_below(Layout(check_stream_name(text)).place(Epoch, number=1))
    assert "/" not in text


def query_name(text: str) -> None:
    for path in (
        Layout("orders").place(QueryPlan, epoch=1, query=text),
        Layout("orders").place(QueryClaim, deployment=1, query=text),
    ):
        assert stays_below(path)
        assert path.count("/") == Layout("orders").place(QueryPlan, epoch=1, query="q").count(
            "/"
        ) - ("/queries/" in path)


def file_name(text: str) -> None:
    number = number_of(text)
    assert number is None or f"{number:06d}.json" == text
    assert batch_of(text) is None or text.isascii()
    found = parse_name(text)
    assert found is None or "/" not in text


def relative(text: str) -> None:
    assert not text or stays_below(check_relative(text))


def place(text: str) -> None:
    uri = check_uri(text, "home")
    assert check_uri(uri, "home") == uri
    assert ".." not in uri.split("/")
    assert "@" not in uri or ":" not in uri.partition("://")[2].partition("@")[0]
    for spelled in (to_hadoop(uri), to_fsspec(uri)):
        assert spelled.isprintable()
    local_path(uri)
    check_apart(uri, "/srv/streams/orders", what="home", other="backup store")


def endpoint(text: str) -> None:
    address = check_endpoint(text, [text])
    assert str(address) == text.removesuffix("/")
    assert "169.254." not in address.host


def failure(text: str) -> None:
    diagnose(text=text)
    presentable(text)
    python_error_in(text)
    signature(kind=FailureKind.UNKNOWN, query="q", exception_class=None, condition=None, text=text)
    mask_password(text)


TRACE: Final = (
    "org.apache.spark.SparkException: [STREAM_FAILED] Query [id = a, runId = b] terminated\n"
    "Caused by: java.io.IOException: No space left on device\n\tat a.b.C(D.java:1)\n"
    'Traceback (most recent call last):\n  File "/x.py", line 1, in f\nValueError: bad\n'
)
PIPELINE: Final = PipelineProgram(
    spec="p.yml", files={"p.yml": "name: p", "t/a.sql": "SELECT 1"}
).to_bytes()
METADATA: Final = b'{"id":"2bdda8fd-e87c-45a2-aaf7-915c2c320f7e"}'
APPLICATIONS: Final = (
    b'[{"id": "local-1", "name": "x", "attempts": '
    b'[{"startTime": "2026-11-21T05:22:07.115GMT", "completed": false}]}]'
)
GAUGES: Final = b'{"version": "4.0.0", "gauges": {"a.driver.spark.streaming.q.inputRate": {}}}'
STRUCT: Final = (
    b'{"type": "struct", "fields": [{"name": "k", "type": {"type": "array", "elementType": '
    b'"long"}, "nullable": false}, {"name": "m", "type": {"type": "map", "keyType": "string", '
    b'"valueType": {"type": "struct", "fields": []}}}]}'
)
ADDRESSES: Final = ("http://driver.internal:4040", "https://10.0.0.7:4040", "http://[fd00::7]:1")
URIS: Final = ("s3://bucket/streams", "file:///srv/streams", "/srv/streams", "hdfs:///a/b")

NO_UTF_8: Final = ('{"kind": "death"}'.encode("utf-32-le"), '{"kind": "death"}'.encode("utf-16"))


def claimed_id(data: bytes) -> None:
    query_id_in(SimpleNamespace(uri="/c", read=lambda path: data))


PARSERS: Final[dict[str, Parser]] = {
    **{f"record {cls.KIND}": of_record(cls) for cls in dict.fromkeys(map(type, EXAMPLES))},
    "progress line": Parser(parse=progress_line, given=progress_lines),
    "program of a pipeline": of_bytes(PipelineProgram.from_bytes, PIPELINE),
    "report of Spark": Parser(
        parse=lambda data: spark_report(_json(data)),
        given=lambda: remade([json.dumps(json.loads(one)).encode() for one in reports()]),
        refuses=(),
    ),
    "line of another encoding": of_bytes(parse_json, *NO_UTF_8, always=lambda: NO_UTF_8),
    "id that a driver claims": of_bytes(
        claimed_id,
        METADATA,
        refuses=(CheckpointMismatch,),
        always=lambda: (b"[" * 100_000, b'{"id":' * 100_000),
    ),
    "offset": of_text(
        offset,
        '{"orders":{"0":10,"1":7}}',
        "17",
        refuses=(),
        always=lambda: tuple('{"a":' * deep + "1" + "}" * deep for deep in (300, 700, 950, 5000)),
    ),
    **{
        sort: Parser(parse=parse, given=lambda sort=sort: bytes_like(samples(sort)))
        for sort, parse in LOG_PARSERS.items()
    },
    "tail of the plans": Parser(
        parse=parse_offsets, given=lambda: bytes_like(samples("offset log"))
    ),
    "tail of the commits": Parser(
        parse=parse_commit, given=lambda: bytes_like(samples("commit log"))
    ),
    "pinned settings": Parser(parse=pinned_conf, given=lambda: bytes_like(samples("offset log"))),
    "id of a query": of_bytes(parse_query_id, METADATA, refuses=()),
    "lz4 blocks": Parser(
        parse=lambda data: lz4.decompress(data, 256 * MIB),
        given=lz4_files,
        always=lambda: COSTLY_BLOCKS,
        most_mib=100,
    ),
    "lineage": Parser(parse=lineage, given=lz4_files, most_mib=100),
    "state zip": of_bytes(parse_zip, *ZIPS),
    "state zip in full": of_bytes(verify_zip, *ZIPS),
    "visible checksum": of_bytes(parse_sidecar, sidecar(CHECKED)),
    "hidden checksum": of_bytes(
        lambda data: agrees_with_hadoop(CHECKED, data), b"crc\0\0\0\2\0aaaa", refuses=()
    ),
    "backup index": Parser(parse=decode_index, given=indexes, always=bombs, most_mib=200),
    "backup manifest": Parser(parse=unseal, given=manifests, refuses=(BackupDamaged, RecordError)),
    "chosen members": of_text(ranges, "0-4,7", "1", "0-16383"),
    "path of a member": of_text(member_path, "counts/offsets/17", "a/b"),
    "reply of applications": of_bytes(parse_applications, APPLICATIONS),
    "reply of metrics": of_bytes(parse_gauges, GAUGES),
    "type of a column": of_json(columns_of, STRUCT, refuses=()),
    "fields of a struct": of_text(fields_of, "struct<a:int,b:array<int>>", refuses=()),
    "expression of a plan": of_json(an_expression, EXPRESSION),
    "name of a stream": of_text(stream_name, "orders", "orders.green", refuses=(SpecError,)),
    "name of a query": of_text(query_name, "revenue", "a.b-c"),
    "name of a file": of_text(file_name, "000017.json", "17_ab-c.delta", "17.zip", refuses=()),
    "path in a home": of_text(relative, "orders/epochs/000017.json"),
    "place of a home": of_text(place, *URIS, refuses=(SpecError,)),
    "metrics endpoint": of_text(endpoint, *ADDRESSES, refuses=(SpecError,)),
    "resolved address": of_text(why_forbidden, "10.0.0.7", "fd00::7", "::1%eth0", refuses=()),
    "version of Spark": of_text(parse_spark_version, "4.3.0", "3.5.9", refuses=(SpecError,)),
    "message of a failure": of_text(failure, TRACE, refuses=()),
}
