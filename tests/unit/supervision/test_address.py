"""Addresses of metrics endpoints: one spelling is let pass, every trick is refused."""

from __future__ import annotations

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.supervision.external.address import (
    Address,
    check_endpoint,
    parse_address,
    why_forbidden,
)

LISTED = ("http://driver.internal:4040", "http://10.0.0.7:4040", "http://127.0.0.1:4041")

TRICKS = [
    # Metadata services, however they are spelled
    "http://169.254.169.254:80",
    "http://169.254.169.254",
    "http://169.254.169.254:80/latest/meta-data/",
    "http://169.254.170.2:80",
    "http://2852039166:80",
    "http://0xA9FEA9FE:80",
    "http://0xa9fea9fe:80",
    "http://0xa9.0xfe.0xa9.0xfe:80",
    "http://0251.0376.0251.0376:80",
    "http://025177524776:80",
    "http://169.254.43518:80",
    "http://169.16689662:80",
    "http://169.0xfe.0251.254:80",
    "http://0169.254.169.254:80",
    "http://169.254.169.254.:80",
    "http://[::ffff:169.254.169.254]:80",
    "http://[::ffff:a9fe:a9fe]:80",
    "http://[0:0:0:0:0:ffff:a9fe:a9fe]:80",
    "http://[::169.254.169.254]:80",
    "http://[64:ff9b::a9fe:a9fe]:80",
    "http://[64:ff9b:1::a9fe:a9fe]:80",
    "http://[2002:a9fe:a9fe::]:80",
    "http://[2001:0:a9fe:a9fe::]:80",
    "http://[2001::a9fe:a9fe]:80",
    "http://[fd00:ec2::254]:80",
    "http://[fe80::1]:4040",
    "http://[fe80::1%25eth0]:4040",
    "http://[fe80::1%eth0]:4040",
    "http://metadata.google.internal:80",
    "http://metadata.google.internal.:80",
    "http://METADATA.google.internal:80",
    "http://metadata:80",
    "http://instance-data:80",
    "http://168.63.129.16:80",
    "http://100.100.100.200:80",
    "http://192.0.0.192:80",
    # Addresses of no single host
    "http://0.0.0.0:4040",
    "http://0:4040",
    "http://[::]:4040",
    "http://255.255.255.255:4040",
    "http://224.0.0.1:4040",
    "http://[ff02::1]:4040",
    "http://240.0.0.1:4040",
    "http://0.1.2.3:4040",
    # The own host and private ones in disguise
    "http://2130706433:4041",
    "http://017700000001:4041",
    "http://0x7f000001:4041",
    "http://0x7f.1:4041",
    "http://127.1:4041",
    "http://127.0.1:4041",
    "http://127.0.0.01:4041",
    "http://127.0.0.1.:4041",
    "http://[::ffff:127.0.0.1]:4041",
    "http://[0:0:0:0:0:0:0:1]:4041",
    "http://[::0001]:4041",
    "http://\uff11\uff12\uff17.0.0.1:4041",
    "http://127\u30020\u30020\u30021:4041",
    "http://\u2460\u2461\u2466.0.0.1:4041",
    "http://10.0.0.7\u0660:4040",
    "http://\u24dbocalhost:4040",
    # Another host than it seems
    "http://driver.internal:4040@169.254.169.254:80",
    "http://driver.internal@169.254.169.254:80",
    "http://user:password@driver.internal:4040",
    "http://@driver.internal:4040",
    "http://driver.internal:4040#@169.254.169.254",
    "http://driver.internal:4040?@169.254.169.254",
    "http://driver.internal:4040\\@169.254.169.254",
    "http://169.254.169.254\\.driver.internal:4040",
    "http://driver.internal%2F@169.254.169.254:80",
    "http://driver%2einternal:4040",
    "http://driver.internal:4040/../..",
    "http://driver.internal:4040//169.254.169.254",
    "http://driver.internal:4040/api",
    "http://driver.internal:4040;x",
    "http://driver.internal, 169.254.169.254:80",
    "http://driver.internal:4040 ",
    " http://driver.internal:4040",
    "http://driver.internal:4040\r\nHost: elsewhere",
    "http://driver.internal:4040\n",
    "http://driver.internal:4040\x00",
    "http://driver.\tinternal:4040",
    "http://driver.internal.:4040",
    "http://driver..internal:4040",
    "http://.driver.internal:4040",
    "http://DRIVER.internal:4040",
    "http://dr\u0131ver.internal:4040",
    "http://-driver.internal:4040",
    # Ports
    "http://driver.internal",
    "http://driver.internal:",
    "http://driver.internal:0",
    "http://driver.internal:04040",
    "http://driver.internal:+4040",
    "http://driver.internal:-4040",
    "http://driver.internal:65536",
    "http://driver.internal:69576",
    "http://driver.internal:4_040",
    "http://driver.internal:\uff14\uff10\uff14\uff10",
    "http://driver.internal:0xfc8",
    "http://driver.internal:4040:80",
    # Schemes
    "file:///etc/passwd",
    "file://driver.internal:4040",
    "ftp://driver.internal:4040",
    "gopher://driver.internal:4040",
    "dict://driver.internal:4040",
    "ldap://driver.internal:4040",
    "javascript:alert(1)",
    "data:text/plain,x",
    "unix:///var/run/docker.sock",
    "HTTP://driver.internal:4040",
    "http:driver.internal:4040",
    "http:/driver.internal:4040",
    "http:///driver.internal:4040",
    "//driver.internal:4040",
    "driver.internal:4040",
    "",
    "http://",
    "http://:4040",
    "http://[]:4040",
    "http://[::1:4040",
    "http://::1:4040",
    f"http://{'a' * 254}:4040",
]

UNLISTED = [
    "http://driver.internal:22",
    "http://driver.internal:6379",
    "https://driver.internal:4040",
    "http://10.0.0.8:4040",
    "http://127.0.0.1:4040",
    "http://driver.internal:4041",
    "http://driver.internal.attacker.example:4040",
]


def test_the_corpus_is_large_and_has_nothing_twice() -> None:
    assert len(TRICKS) >= 80
    assert len(set(TRICKS)) == len(TRICKS)


@pytest.mark.parametrize("address", TRICKS, ids=ascii)
def test_a_trick_is_refused_whatever_is_listed(address: str) -> None:
    with pytest.raises(SpecError):
        parse_address(address)
    with pytest.raises(SpecError):
        check_endpoint(address, LISTED)


@pytest.mark.parametrize("address", UNLISTED)
def test_a_plain_address_that_nobody_listed_is_refused(address: str) -> None:
    parse_address(address)
    with pytest.raises(SpecError, match="is not permitted"):
        check_endpoint(address, LISTED)


@pytest.mark.parametrize(
    "listed",
    [
        "http://169.254.169.254:80",
        "http://[fe80::1]:80",
        "http://metadata:80",
        "http://168.63.129.16:80",
    ],
)
def test_a_metadata_service_is_refused_even_when_it_is_listed(listed: str) -> None:
    with pytest.raises(SpecError):
        check_endpoint(listed, (listed,))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://driver.internal:4040", Address(scheme="http", host="driver.internal", port=4040)),
        ("http://10.0.0.7:4040/", Address(scheme="http", host="10.0.0.7", port=4040)),
        ("https://[fd12::7]:443", Address(scheme="https", host="fd12::7", port=443)),
        ("http://[::1]:4040", Address(scheme="http", host="::1", port=4040)),
        ("http://spark_driver-1:65535", Address(scheme="http", host="spark_driver-1", port=65535)),
    ],
)
def test_a_plain_address_that_is_listed_may_be_asked(text: str, address: Address) -> None:
    assert check_endpoint(text, (text,)) == address
    assert parse_address(str(address)) == address


def test_the_message_says_who_can_allow_an_address() -> None:
    with pytest.raises(SpecError, match=r"metrics_endpoints in the section \[streaming\]"):
        check_endpoint("http://10.0.0.8:4040", LISTED)


@pytest.mark.parametrize(
    "ip",
    [
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "::ffff:169.254.169.254",
        "::ffff:10.0.0.7",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "2001:0:1::1",
        "100.100.100.200",
        "168.63.129.16",
        "fd00:ec2::254",
        "0.0.0.0",  # noqa: S104 - nothing is bound
        "::",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
        "not an address",
    ],
)
def test_a_name_that_is_resolved_to_a_forbidden_address_is_refused(ip: str) -> None:
    assert why_forbidden(ip) is not None


@pytest.mark.parametrize(
    "ip", ["10.0.0.7", "127.0.0.1", "::1", "192.168.1.1", "100.64.0.1", "fd12::7"]
)
def test_drivers_may_live_on_private_and_loopback_addresses(ip: str) -> None:
    assert why_forbidden(ip) is None


@pytest.mark.parametrize(
    "text", ["http://u:hunter2@h:4040", "u:hunter2@h:4040", "http://h:4040/?token=hunter2"]
)
def test_a_secret_in_an_address_is_not_repeated(text: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_address(text)
    assert "hunter2" not in str(refused.value)
