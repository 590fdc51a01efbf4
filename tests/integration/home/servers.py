"""
S3 servers as processes of this host: one that honors conditional writes, and one that does not.

Each is the server's own program out of a Python wheel, bound to the loopback address, on ports that
were free a moment ago, and killed at the end (a soft stop of SeaweedFS takes a quarter of a
minute).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import s3fs
from botocore.exceptions import BotoCoreError

from tests.patience import PATIENCE

READY_WITHIN = PATIENCE
"""Seconds; a start takes about 4 on an idle machine."""

ONE_TRY = {"config_kwargs": {"retries": {"total_max_attempts": 1}}}
"""Options of a client that does not wait for a server to come up."""

ACCESS_KEY, SECRET_KEY = "testkey", "testsecret"
S3A: Final = re.compile(
    r"(hadoop-aws|aws-java-sdk-\w+|jmespath-java|ion-java|joda-time|jackson-dataformat-cbor)-\d"
)
"""Names of the jars that Spark 3.5 lacks to open ``s3a://``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running server with one bucket, ``streams``."""

    endpoint: str
    pid: int

    @property
    def options(self) -> dict[str, Any]:
        """Return what ``open_home`` needs besides the URI."""
        return {
            "key": ACCESS_KEY,
            "secret": SECRET_KEY,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
        }


def program(name: str) -> str:
    """Return a program that is installed beside this Python, or skip the test."""
    found = shutil.which(
        name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if found is None:
        pytest.skip(
            f"The program {name!r} is missing. Install the dev extra: pip install -e '.[dev]'."
        )
    return found


def free_ports(count: int, *, also_above: int = 0) -> list[int]:
    """
    Return ports that nobody listens on.

    :param also_above: SeaweedFS takes the port that lies this much higher as well.
    """
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            listener = held.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            # The kernel gives ports from 32768 on; lower ones leave room for the second port.
            port -= also_above
            if port > 1024 and _is_free(port):
                ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) != 0


@contextlib.contextmanager
def seaweedfs(folder: Path, *options: str) -> Iterator[S3Server]:
    """Run SeaweedFS, which honors ``If-None-Match``, with further options of its own."""
    s3, master, volume, filer = free_ports(4, also_above=10_000)
    keys = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    rights = ["Admin", "Read", "Write", "List", "Tagging"]
    config = folder / "s3.json"
    config.write_text(
        json.dumps({"identities": [{"name": "admin", "credentials": keys, "actions": rights}]})
    )
    (folder / "data").mkdir()
    command = [
        program("weed"),
        "-logtostderr=true",
        "server",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={folder / 'data'}",
        "-volume.max=200",
        "-master.volumeSizeLimitMB=64",
        "-filer",
        "-s3",
        f"-s3.port={s3}",
        f"-s3.config={config}",
        f"-master.port={master}",
        f"-volume.port={volume}",
        f"-filer.port={filer}",
        # Two catalogs on fixed ports that nobody here asks for.
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        *options,
    ]
    with _running(command, folder, s3, {}) as server:
        yield server


@contextlib.contextmanager
def juicefs(folder: Path) -> Iterator[S3Server]:
    """Run the JuiceFS gateway, which answers 200 to every conditional write."""
    juicefs_program = program("juicefs")
    [port] = free_ports(1)
    meta = f"sqlite3://{folder / 'meta.db'}"
    subprocess.run(
        [juicefs_program, "format", meta, "volume", "--storage", "file", "--bucket", f"{folder}/"],
        check=True,
        capture_output=True,
        timeout=READY_WITHIN,
    )
    command = [
        juicefs_program,
        "gateway",
        meta,
        f"127.0.0.1:{port}",
        "--multi-buckets",
        "--keep-etag",
        "--no-usage-report",
        "--cache-dir",
        str(folder / "cache"),
    ]
    keys = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY}
    with _running(command, folder, port, keys) as server:
        yield server


@contextlib.contextmanager
def _running(
    command: list[str], folder: Path, port: int, environment: Mapping[str, str]
) -> Iterator[S3Server]:
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = S3Server(endpoint=f"http://127.0.0.1:{port}", pid=process.pid)
    try:
        _wait_for_first_put(server, process, log)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for_first_put(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    # The port opens a second before the server can store anything.
    deadline = time.monotonic() + READY_WITHIN
    while True:
        try:
            client = s3fs.S3FileSystem(**server.options, **ONE_TRY, skip_instance_cache=True)
            if not client.exists("streams"):
                client.mkdir("streams")
            client.pipe_file("streams/ready", b"yes")
        except (OSError, BotoCoreError) as err:
            if process.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"The server did not get ready: {err}\n{tail}") from err
            time.sleep(0.2)
        else:
            return
