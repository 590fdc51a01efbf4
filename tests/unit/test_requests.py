"""Requests to a store, sorted by their senders and kinds."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deployment.profiles import store_conf
from tests.deployment.requests import Kind, counts, markdown, object_kind

HOME = "streams/home"
HADOOP = "Hadoop 3.3.3, aws-sdk-java/1.12.262 Linux OpenJDK"
TRIGGERER = "aiobotocore/3 md/Botocore#1.40 ua/2.1 app/triggerer-2"
WORKER = "Boto3/1.40 app/worker-1"


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("streams/home/orders/checkpoints/000001/q/offsets/7", "checkpoint"),
        ("streams/home/orders/output/000001/_spark_metadata/7", "output"),
        ("streams/home/orders/epochs/000003.json", "newer epoch"),
        ("streams/home/orders/epochs/000003/status.json", "heartbeat"),
        ("streams/home/orders/epochs/000003/stop.json", "stop request"),
        ("streams/home/orders/epochs/000003/progress/000001.jsonl", "history"),
        ("streams/home/orders/epochs/000003/exit.json", "epoch"),
        ("streams/home/orders/epochs/000003", "epoch"),
        ("streams/home/orders/epochs", "epochs"),
        ("streams/home/.index/f95200fd32cf40b1-1.json", "index"),
        ("streams/home/orders/deployments/000001.json", "deployments"),
        ("streams/home", "list of streams"),
        ("streams/home/orders", "stream"),
        ("streams/homeless/orders/epochs/000003/status.json", "other"),
        ("streams/logs/dag_id=orders/attempt=1.log", "task log"),
        ("streams", "other"),
    ],
)
def test_an_object_has_a_kind_by_its_path(target: str, kind: str) -> None:
    assert object_kind(target, HOME) == kind


def line(verb: str, uri: str, agent: str) -> str:
    return json.dumps({"verb": verb, "uri": uri, "agent": agent, "status": 200})


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (
            ("HEAD", "/streams/home/orders/epochs/000002/stop.json", HADOOP),
            Kind(sender="driver", of="stop request", verb="HEAD"),
        ),
        (
            ("GET", "/streams?list-type=2&prefix=home%2Forders%2Fepochs%2F000002.json%2F", HADOOP),
            Kind(sender="driver", of="newer epoch", verb="LIST"),
        ),
        (
            ("PUT", "/streams/home/orders/checkpoints/000001/q/commits/7", HADOOP),
            Kind(sender="Spark", of="checkpoint", verb="PUT"),
        ),
        (("POST", "/streams?delete", HADOOP), Kind(sender="Spark", of="other", verb="DELETE")),
        (
            ("GET", "/streams/home/orders/epochs/000002/status.json", TRIGGERER),
            Kind(sender="triggerer", of="heartbeat", verb="GET"),
        ),
        (
            ("PUT", "/streams/logs/dag_id%3Dorders/attempt%3D1.log", WORKER),
            Kind(sender="task", of="task log", verb="PUT"),
        ),
        (("GET", "/streams", "curl/8"), Kind(sender="unknown", of="other", verb="GET")),
    ],
)
def test_a_request_is_counted_by_sender_object_and_verb(
    given: tuple[str, str, str], kind: Kind
) -> None:
    assert counts([line(*given), "", line(*given)], HOME) == {kind: 2}


def test_the_table_tells_the_requests_of_an_hour_and_stream() -> None:
    found = counts(
        [line("GET", "/streams/home/orders/epochs/000002/status.json", TRIGGERER)] * 6, HOME
    )
    assert markdown(found, seconds=60, streams=3).splitlines()[-1] == (
        "| triggerer | heartbeat | GET | 120 |"
    )


@pytest.mark.skipif(
    shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="nginx is missing"
)
def test_nginx_understands_the_configuration(tmp_path: Path) -> None:
    conf = tmp_path / "nginx.conf"
    conf.write_text(store_conf(1, 2, str(tmp_path)))
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    done = subprocess.run(
        [str(nginx), "-t", "-p", str(tmp_path), "-c", str(conf), "-e", str(tmp_path / "e.log")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
