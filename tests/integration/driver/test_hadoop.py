"""The store that a driver reaches through Spark keeps the promises of every store."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.patience import PATIENCE

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from airflow_streaming.driver.hadoop_store import HadoopStore
from airflow_streaming.driver.jvm import ensure_gateway
from airflow_streaming.exceptions import AlreadyExists, HomeUnavailable, RecordError

gateway = ensure_gateway()
conf = gateway.jvm.org.apache.hadoop.conf.Configuration()

def wins(store, path, data):
    try:
        store.create(path, data)
    except AlreadyExists:
        return 0
    return 1

for in_place in (False, True):
    root = f"{sys.argv[1]}/{in_place}"
    store = HadoopStore(f"file://{root}", gateway, conf, whole_on_close=in_place)
    assert store.location == f"file:{root}", store.location
    assert store.read("a/b.json") is None
    assert store.names("a") == []
    store.create("a/b.json", b"\\x00\\xff one")
    assert store.read("a/b.json") == b"\\x00\\xff one"
    assert wins(store, "a/b.json", b"two") == 0
    store.replace("a/b.json", b"three")
    store.replace("a/c.json", b"four")
    assert store.read("a/b.json") == b"three"
    assert store.names("a") == ["b.json", "c.json"], store.names("a")
    assert store.names("") == ["a"]
    store.delete("a/b.json")
    store.delete("a/b.json")
    assert store.names("a") == ["c.json"]
    store.replace("big", b"x" * (1024 * 1024 + 1))
    try:
        store.read("big")
    except RecordError:
        print("REFUSED")
    if not in_place:
        with ThreadPoolExecutor(8) as pool:
            won = sum(pool.map(lambda i: wins(store, "once", str(i).encode()), range(24)))
        assert won == 1, won
try:
    HadoopStore("nowhere://x", gateway, conf)
except HomeUnavailable as error:
    print("SENTENCE", error)
print("DONE")
"""


def test_it_reads_writes_and_creates_like_a_local_folder(
    tmp_path: Path, spark_4_3: Path, package: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    done = subprocess.run(
        [spark_4_3 / "bin" / "python", program, tmp_path / "root"],
        env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert "DONE" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("REFUSED") == 2
    assert "SENTENCE nowhere://x cannot be used: org.apache.hadoop.fs.Unsupported" in done.stdout
