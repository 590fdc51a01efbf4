"""The identity of the host that the process runs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.model import host


@pytest.fixture
def interfaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "net"
    folder.mkdir()
    monkeypatch.setattr(host, "INTERFACES", folder)
    return folder


def add(folder: Path, name: str, address: str, *, is_card: bool) -> None:
    (folder / name).mkdir()
    (folder / name / "address").write_text(f"{address}\n")
    if is_card:
        (folder / name / "device").mkdir()


def test_a_host_is_known_by_its_network_cards(interfaces: Path) -> None:
    add(interfaces, "eth0", "02:fc:00:00:00:01", is_card=True)
    first = host.this_host().cards
    add(interfaces, "eth1", "02:fc:00:00:00:02", is_card=True)
    second = host.this_host().cards

    assert len(first) == 1
    assert len(second) == 2
    assert set(first) < set(second)
    assert "02:fc" not in "".join(second)


@pytest.mark.parametrize(
    ("address", "is_card"),
    [
        pytest.param(
            "02:fc:00:00:00:01", False, id="a bridge or tunnel gets a new address at each boot"
        ),
        pytest.param("00:00:00:00:00:00", True, id="no address"),
        pytest.param("", True, id="empty"),
    ],
)
def test_an_interface_that_many_machines_have_proves_nothing(
    interfaces: Path, address: str, is_card: bool
) -> None:
    add(interfaces, "eth0", address, is_card=is_card)

    assert host.this_host().cards == ()


def test_a_system_that_lists_no_interfaces_has_no_known_cards(interfaces: Path) -> None:
    interfaces.rmdir()

    assert host.this_host().cards == ()
