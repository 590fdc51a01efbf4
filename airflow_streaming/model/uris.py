"""
The location of a folder, in the terms of fsspec and of Hadoop, and whether two folders overlap.

Airflow's side reaches a home through fsspec (``s3://``), the driver through Hadoop's FileSystem
(``s3a://``). The two name the same stores differently; only this module knows both.

A copy inside its own checkpoint would grow into itself, and Spark would find folders in its
checkpoint that it never created. The other way round, deleting the copy deletes the live checkpoint
with it. Another query's checkpoint or backup store is as bad a place for it.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import Final
from urllib.parse import urlsplit

from airflow_streaming.exceptions import SpecError, closed

_LOCAL: Final = frozenset({"", "file", "local"})
_BUCKETS: Final = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "az", "adl", "abfs", "abfss"})
"""Stores whose URI must name a bucket; ``hdfs:///`` means the default name node."""
_HADOOP_OF: Final = {"s3": "s3a", "gcs": "gs", "az": "abfss", "adl": "abfss"}
_FSSPEC_OF: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_USER_INFO: Final = re.compile(r"[^@]*:[^@]*@")
"""Up to any '@', not to the first '/': a secret key may have a '/' in it."""
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)?")
_NO_SLASHES: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SHORT: Final = re.compile(r"file:/(?!/)", re.IGNORECASE)


def digest_of(uri: str) -> str:
    """Return the name of a folder of this host for what belongs to the home of a URI."""
    place = to_fsspec(uri).rstrip("/")
    return f"home-{hashlib.sha256(place.encode()).hexdigest()[:16]}"


def check_uri(uri: str, what: str) -> str:
    """
    Return a folder's URI in full and without a trailing slash.

    :param uri: An absolute local path or a URI such as ``s3://bucket/streams``, or Hadoop's usual
        ``file:/folder``.
    :param what: The folder's name in the message.
    :raises SpecError: empty, relative, a root, with ``..``, with credentials, or with a query part.
    """
    uri = in_full(uri)
    scheme, rest = scheme_of(uri), uri.split("://", 1)[-1]
    # First of all, because every later message repeats the URI.
    has_user_info = not uri.startswith("/") and _USER_INFO.match(rest)
    if has_user_info or "?" in uri or "#" in uri:
        raise SpecError(
            f"The {what} may not carry credentials, '?' or '#'. Put credentials in an Airflow "
            "connection or the environment, and give a plain folder here."
        )
    if not uri or uri != uri.strip() or not uri.isprintable():
        raise SpecError(
            f"The {what} {uri!r} is empty, or has spaces around it or characters that cannot be "
            "printed. Give a full path."
        )
    try:
        urlsplit(uri)
    except ValueError as err:
        raise SpecError(f"The {what} {uri!r} is not a URI: {closed(err)} Correct it.") from err
    _check_place(uri, scheme, rest, what)
    _check_folders(uri, scheme, rest, what)
    return uri.rstrip("/")


def _check_place(uri: str, scheme: str, rest: str, what: str) -> None:
    if lacks_slashes(uri):
        raise SpecError(
            f"The {what} {uri!r} lacks '//' after its scheme. Write it as in s3://bucket/folder or "
            "file:///folder; a relative path with a colon begins with './'."
        )
    if not _SCHEME.fullmatch(scheme):
        raise SpecError(f"The {what} {uri!r} has '://' in a path. Give a plain path or a URI.")
    if scheme in _LOCAL and not rest.startswith("/"):
        fault = "names a host" if scheme else "is relative"
        raise SpecError(f"The {what} {uri!r} {fault}. Give an absolute path or file:///folder.")
    if scheme in _BUCKETS and rest.startswith("/"):
        raise SpecError(f"The {what} {uri!r} names no bucket. Write {scheme}://bucket/folder.")
    if not rest.strip("/"):
        raise SpecError(f"The {what} {uri!r} is the root of a file system. Give a folder in it.")


def _check_folders(uri: str, scheme: str, rest: str, what: str) -> None:
    folders = rest.strip("/").split("/")
    if ".." in folders:
        raise SpecError(f"The {what} {uri!r} has '..' in it. Give the folder it should mean.")
    # Hadoop drops empty and '.' folders, an object store keeps them: two different places.
    if scheme not in _LOCAL and not {"", "."}.isdisjoint(folders):
        raise SpecError(f"The {what} {uri!r} has '//' or '/./' in it. Write it without.")


def in_full(uri: str) -> str:
    """Return ``file:///folder`` for ``file:/folder``, which Hadoop writes, and others as they are."""
    return f"file://{uri[len('file:') :]}" if _SHORT.match(uri) else uri


def lacks_slashes(uri: str) -> bool:
    """Tell whether a text looks like a URI whose author forgot ``//``, e.g. ``s3:/bucket/x``."""
    return not scheme_of(uri) and _NO_SLASHES.match(uri) is not None


def scheme_of(uri: str) -> str:
    """Return the URI's scheme in lower case; empty for a plain path."""
    uri = in_full(uri)
    return uri.split("://", 1)[0].lower() if "://" in uri else ""


def is_local(uri: str) -> bool:
    """Tell whether the URI is a folder of this machine."""
    return scheme_of(uri) in _LOCAL


def local_path(uri: str) -> str:
    uri = in_full(uri)
    return uri.split("://", 1)[1] if "://" in uri else uri


def to_hadoop(uri: str) -> str:
    """Return the URI as Spark and Hadoop spell it (``s3`` becomes ``s3a``)."""
    if is_local(uri):
        return f"file://{local_path(uri)}"
    return _with_scheme(uri, _HADOOP_OF)


def for_spark(uri: str) -> str:
    """Return a place as a script hands it to Spark: a local one as it is, others as ``to_hadoop``."""
    return uri if is_local(uri) else to_hadoop(uri)


def to_fsspec(uri: str) -> str:
    """Return the URI as fsspec spells it (``s3a`` becomes ``s3``)."""
    return local_path(uri) if is_local(uri) else _with_scheme(uri, _FSSPEC_OF)


def join(base: str, *parts: str) -> str:
    return "/".join([base.rstrip("/"), *parts])


def _with_scheme(uri: str, names: dict[str, str]) -> str:
    scheme, rest = uri.split("://", 1)
    scheme = scheme.lower()
    return f"{names.get(scheme, scheme)}://{rest}"


def check_apart(first: str, second: str, *, what: str, other: str) -> None:
    """
    Refuse two places that are the same or contain each other.

    It reads no disk: symbolic links must be followed before.

    :param first: URI or absolute path, of fsspec's or of Hadoop's spelling; ``second`` likewise.
    :param what: The first place's name in the message, e.g. ``"checkpoint"``.
    :param other: The second place's name.
    :raises SpecError: they overlap; both are named.
    """
    one, two = _folder(first), _folder(second)
    if one == two:
        how = "are the same place"
    elif two.startswith(one):
        how = f"do not lie apart: the {other} is inside the {what}"
    elif one.startswith(two):
        how = f"do not lie apart: the {what} is inside the {other}"
    else:
        return
    raise SpecError(
        f"The {what} {first} and the {other} {second} {how}. Choose another place for the {other}."
    )


def is_same_place(first: str, second: str) -> bool:
    return _folder(first) == _folder(second)


def overlap(first: str, second: str) -> bool:
    """Tell whether two URIs are one place, or one contains the other, by their spelling."""
    one, two = _folder(first), _folder(second)
    return one.startswith(two) or two.startswith(one)


def lies_in(place: str, folder: str) -> bool:
    """Tell whether a URI is a folder, or is inside it, by their spelling."""
    return _folder(place).startswith(_folder(folder))


def _folder(uri: str) -> str:
    """Return a place with a slash at its end, so that ``/ck`` does not begin ``/ck2``."""
    if is_local(uri):
        # normpath keeps two slashes at the beginning, which are one to every system of ours.
        return "/" + posixpath.normpath(local_path(uri)).strip("/") + "/"
    scheme, rest = to_fsspec(uri).split("://", 1)
    return f"{scheme}://{posixpath.normpath(rest).rstrip('/')}/"
