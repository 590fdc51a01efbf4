from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.version.matrix import release_of


@pytest.mark.parametrize(
    ("text", "minor", "patch"),
    [
        pytest.param("3.5.9", (3, 5), 9, id="a release"),
        pytest.param("4.1", (4, 1), None, id="without a patch"),
        pytest.param("3.5.1-amzn-0", (3, 5), 1, id="a vendor's"),
        pytest.param("4.4.0.dev1", (4, 4), 0, id="a development release"),
        pytest.param("4.3.0-SNAPSHOT", (4, 3), 0, id="a snapshot"),
        pytest.param(" 4.3.0 ", (4, 3), 0, id="with blanks"),
        pytest.param("4.10.2", (4, 10), 2, id="two digits"),
    ],
)
def test_a_version_is_read(text: str, minor: tuple[int, int], patch: int | None) -> None:
    release = release_of(text)

    assert (release.minor, release.patch) == (minor, patch)


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("3.5.9", ""),
        ("4.1", ""),
        ("3.5.9.1", ".1"),
        ("3.5.1-amzn-0", "-amzn-0"),
        ("3.3.2.3.3.7190.0-91", ".3.3.7190.0-91"),
        ("4.3.0-preview1", "-preview1"),
        ("4.0.0rc2", "rc2"),
        ("4.4.0-SNAPSHOT", "-SNAPSHOT"),
    ],
)
def test_what_is_no_release_of_apache_spark_is_marked(text: str, build: str) -> None:
    assert release_of(text).build == build


@pytest.mark.parametrize(
    "text",
    [
        *("", "4", "four.one", "v4.1", "4.x", "4.1.2/../..", "²4.1"),
        *("3.5.x", "3.05", "03.5", "3.5.09", "3.5.", "3.5-SNAPSHOT", "3.5.9-", "3.5.9." + "1" * 60),
        *(None, 3.5, 4, b"3.5.9", ["3.5"]),
    ],
)
def test_what_is_no_version_is_refused_with_an_example(text: Any) -> None:
    with pytest.raises(SpecError, match=r"Pass one as text, like '3\.5\.9'"):
        release_of(text)


@pytest.mark.parametrize(
    ("text", "other", "is_before"),
    [
        ("3.5.6", "3.5.7", True),
        ("3.5.7", "3.5.7", False),
        ("3.5", "3.5.7", False),
        ("3.4", "3.5.7", True),
        ("4.0.5", "4.1", True),
        ("4.10", "4.9", False),
        ("4.1.4", "4.1", False),
    ],
)
def test_releases_are_ordered_by_numbers(text: str, other: str, is_before: bool) -> None:
    assert release_of(text).is_before(other) is is_before
