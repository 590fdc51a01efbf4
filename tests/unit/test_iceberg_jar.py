"""Class files whose constants are given another package's name."""

from __future__ import annotations

import importlib.util
import struct
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "iceberg_jar.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("iceberg_jar", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def constant(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">BH", 1, len(data)) + data


def class_file(*texts: str) -> bytes:
    """Return the head of a class file: a long takes two places among its constants."""
    number = struct.pack(">Bq", 5, 7)
    reference = struct.pack(">BH", 7, 3)
    constants = number + reference + b"".join(map(constant, texts))
    return struct.pack(">IHHH", 0xCAFEBABE, 0, 52, 4 + len(texts)) + constants + b"\x00\x21tail"


def test_names_are_replaced_in_constants_of_any_length_and_nothing_else(
    script: ModuleType,
) -> None:
    there = f"L{script.THERE}/core/JsonFactory;"
    missing = f"L{script.MISSING}/core/JsonFactory;"
    dotted = f"{script.THERE}/core".replace("/", ".")

    found = script.relocated(class_file(there, dotted, "java/lang/Object"))

    expected = f"{script.MISSING}/core".replace("/", ".")
    assert found == class_file(missing, expected, "java/lang/Object")


def test_a_jar_keeps_what_it_has_and_gains_the_copies(script: ModuleType, tmp_path: Path) -> None:
    jar, output = tmp_path / "in.jar", tmp_path / "out.jar"
    there = f"{script.THERE}/core/JsonFactory"
    with zipfile.ZipFile(jar, "w") as made:
        made.writestr(f"{there}.class", class_file(there))
        made.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")

    script.complete(jar, output)

    with zipfile.ZipFile(output) as found:
        copy = f"{script.MISSING}/core/JsonFactory"
        assert set(found.namelist()) == {
            f"{there}.class",
            f"{copy}.class",
            "META-INF/MANIFEST.MF",
        }
        assert found.read(f"{there}.class") == class_file(there)
        assert found.read(f"{copy}.class") == class_file(copy)
