"""
A third corpus: layouts that hide the name of a secret from a plain search.

A secret stands between « and ». At first all of these texts were missed.
"""

from __future__ import annotations

from typing import Final

TEXTS: Final = (
    "\x1b[33mpassword\x1b[0m=«hunter-2»",
    "password\x1b[0m=\x1b[31m«hunter-2»",
    "\x1b[1mpassword:\x1b[0m «hunter-2»",
    "\N{REPLACEMENT CHARACTER}[33mpassword\N{REPLACEMENT CHARACTER}[0m=«hunter-2»",
    "\\u001b[38;5;9mtoken\\u001b[0m: «hunter-2»",
    "pass\u200bword=«hunter-2»",
    "password\uff1d«hunter-2»",
    "token\uff1a «hunter-2»",
    '{"name":"DB_PASSWORD","value":"«hunter-2»"}',
    '{"name": "DB_PASSWORD", "value": "«hunter-2»"}',
    r"{\"name\":\"DB_PASSWORD\",\"value\":\"«hunter-2»\"}",
    "- name: DB_PASSWORD\n  value: «hunter-2»",
    "(password,«hunter2»)",
    "(spark.my.password,«hunter»)",
    "DRIVER={x};UID=u;PWD={«hunter-2»};",
    "12:00 INFO password: |\n  «hunter-2»",
    "client_secret:\n  - «hunter-2»",
    "password == «hunter-2»",
    "password:: «hunter-2»",
    "| password | «hunter2» |",
    "Password('«hunter-2»')",
    "Your password is: «hunter-2»",
    "password%3D«hunter-2»",
    "token%253D«hunter-2»",
    "password&#61;«hunter-2»",
    "password&#x3d;«hunter-2»",
    "https://user%3A«hunter-2»%40db.example/",
    "GET https://maps.example/x?key=«hunter-2»",
    "GET https://maps.example/x?a=b&code=«hunter-2»",
    "db.example:5432:orders:kim:«hunter-2»",
    "pass\\\nword=«hunter-2»",
    "passphrase for key: «hunter-2»",
    "Kennwort: «hunter-2»",
    "MFA code: «hunter-2»",
    "Authorization: AWS4-HMAC-SHA256 Credential=AKIA/2026/x, SignedHeaders=h, Signature=«hunter-2»",
)
PLAIN_TEXTS: Final = (
    "\x1b[33mbatch\x1b[0m=12 of [b]",
    '{"name":"SPARK_HOME","value":"/opt/spark"}',
    "| query | rows2 |",
    "concat(password,salt)",
    "(spark.sql.shuffle.partitions,200)",
    "2026-11-27T12:00:00.123 a:12:b:c:d",
    "jobs/orders.py:120:5:E501:too-long",
    "https://host.example/?page=2&sort=key",
    "The password is wrong.",
    "a%3Db",
    "Map(key -> 5, value -> 7)",
    "The key: value pairs of a map",
    "count == 5 and rows :: Int",
)
