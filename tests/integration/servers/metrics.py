"""Prometheus and its Pushgateway as processes of this host, where Debian's packages are."""

from __future__ import annotations

import contextlib
import json
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.integration.home.servers import free_ports
from tests.integration.servers.programs import answers, running
from tests.patience import PATIENCE

Labels = frozenset[tuple[str, str]]
Samples = dict[tuple[str, Labels], float]
"""Values by name and labels."""


@contextlib.contextmanager
def prometheus_server(folder: Path, target: str) -> Iterator[str]:
    """Run a Prometheus that scrapes ``host:port`` every second; gives its URL."""
    port = free_ports(1)[0]
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        f"scrape_configs: [{{job_name: streams, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    command = [
        _debian("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    url = f"http://127.0.0.1:{port}"
    with running(command, folder, is_ready=lambda: answers(f"{url}/-/ready")):
        yield url


@contextlib.contextmanager
def pushgateway(folder: Path) -> Iterator[str]:
    """Run a Pushgateway; gives its URL."""
    port = free_ports(1)[0]
    command = [_debian("prometheus-pushgateway"), f"--web.listen-address=127.0.0.1:{port}"]
    url = f"http://127.0.0.1:{port}"
    with running(command, folder, is_ready=lambda: answers(f"{url}/-/ready")):
        yield url


def scrape(url: str) -> Samples:
    """Read a page in Prometheus' text form."""
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310  # a server of ours
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def ask(server: str, query: str) -> list[tuple[Mapping[str, str], float]]:
    """Ask a Prometheus and return labels and values."""
    asked = urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(f"{server}/api/v1/query?{asked}", timeout=PATIENCE) as answer:  # noqa: S310  # a server of ours
        found = json.load(answer)["data"]["result"]
    return [(result["metric"], float(result["value"][1])) for result in found]


def _debian(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"The program {name!r} is missing. On Debian: apt-get install {name}.")
    return found
