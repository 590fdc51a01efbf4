"""
Permitted addresses of metrics endpoints.

An address is a plain ``http(s)://host:port`` in its one unambiguous spelling, and it must be bound
to a launch record or listed by the operator of Airflow. The resolved addresses are checked too,
because a host name may point anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

from airflow_streaming.exceptions import SpecError, closed

_HOST: Final = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*")
_NUMERIC: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
"""A last label that some resolvers parse as part of an IPv4 address, as in ``127.1``."""
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_METADATA_NAMES: Final = frozenset({"metadata", "metadata.google.internal", "instance-data"})
_METADATA: Final = frozenset(
    map(
        ip_address,
        ("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"),
    )
)
"""Where clouds hand out credentials; not all of them are link-local."""
_EMBEDDING: Final = tuple(
    map(IPv6Network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16"))
)
"""IPv6 addresses with an IPv4 address inside, which says where the packets really go."""
_TEREDO: Final = IPv6Network("2001::/32")
_LOOPBACK: Final = IPv6Address("::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An endpoint; equal only if spelled equally."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """
    Parse ``http://host:port``.

    :raises SpecError: another scheme, no port, a path, user info, or a host in a spelling that
        programs read in different ways.
    """
    if not text.isascii() or not text.isprintable() or {" ", "\\", "%"} & set(text):
        raise _refused(text, "has characters that an address does not need")
    scheme, separator, rest = text.partition("://")
    if separator != "://" or scheme not in ("http", "https"):
        raise _refused(text, "does not begin with http:// or https://")
    rest = rest.removesuffix("/")
    if set("/?#@,;") & set(rest):
        raise _refused(text, "has more in it than a host and a port")
    host, colon, port = rest.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or int(port) > 65535:
        raise _refused(text, "names no port from 1 to 65535")
    return Address(scheme=scheme, host=_checked_host(text, host), port=int(port))


def check_endpoint(text: str, allowed: Collection[str]) -> Address:
    """
    Return a permitted endpoint.

    :param allowed: Addresses from a launch record or from the configuration.
    :raises SpecError: It is not permitted, or one of them is not an address.
    """
    address = parse_address(text)
    if address not in {parse_address(one) for one in allowed}:
        raise SpecError(
            f"The metrics endpoint {address} is not permitted. The operator of Airflow can add it "
            "to metrics_endpoints in the section [streaming]."
        )
    return address


def why_forbidden(ip: str) -> str | None:
    """
    Return why a resolved address is forbidden; ``None`` if it is permitted.

    Private and loopback addresses are permitted, because drivers have such addresses. Link-local
    ones and metadata services are always forbidden.
    """
    try:
        address = ip_address(ip.partition("%")[0])
    except ValueError:
        return "is not an address"
    if isinstance(address, IPv6Address) and _has_ipv4(address):
        return "hides an IPv4 address"
    if address in _METADATA or address.is_link_local:
        return "belongs to a metadata service or is link-local"
    if address.is_unspecified or address.is_multicast or _is_reserved(address):
        return "is not the address of one host"
    return None


def _refused(text: str, why: str) -> SpecError:
    from airflow_streaming.model.spark.secrets import mask_uri  # not at dag parse

    # Credentials may be written in ways that no mask knows, as in u:p@h.
    shown = "" if {"@", "?", "="} & set(text) else f" {mask_uri(text)!a:.100}"
    return SpecError(
        f"The metrics endpoint{shown} {closed(why)} Write http://host:port, with the port of the "
        "driver's web page."
    )


def _checked_host(text: str, host: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        return _canonical(text, host[1:-1], IPv6Address)
    if not _HOST.fullmatch(host):
        raise _refused(text, "names no host in lower case without a trailing dot")
    if _NUMERIC.fullmatch(host.rpartition(".")[2]):
        return _canonical(text, host, IPv4Address)
    if host in _METADATA_NAMES:
        raise _refused(text, "names a metadata service")
    return host


def _canonical(text: str, host: str, kind: type[IPv4Address | IPv6Address]) -> str:
    try:
        canonical = str(kind(host))
    except ValueError:
        canonical = ""
    if canonical != host:
        raise _refused(text, "has an IP address that is not in its usual spelling")
    why = why_forbidden(host)
    if why is not None:
        raise _refused(text, f"has an IP address that {why}")
    return host


def _has_ipv4(address: IPv6Address) -> bool:
    if address == _LOOPBACK or address.is_unspecified:
        return False
    return address in _TEREDO or any(address in network for network in _EMBEDDING)


def _is_reserved(address: IPv4Address | IPv6Address) -> bool:
    # "This network" is delivered to the own host by some systems; the ends are for broadcasts.
    if isinstance(address, IPv4Address):
        return address.packed[0] == 0 or address.packed[0] >= 240
    return address.is_site_local
