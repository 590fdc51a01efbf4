#!/usr/bin/env bash
# Make sure that Java 17 or newer is there: every Spark runtime needs it.
set -euo pipefail

java=${JAVA_HOME:+$JAVA_HOME/bin/}java

is_new_enough() {
  command -v "$java" >/dev/null 2>&1 || return 1
  local major
  # Java 8 calls itself 1.8; from 9 on the first number is the version.
  major=$("$java" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1)
  [ "${major:-0}" -ge 17 ]
}

is_new_enough && exit 0
if [ "$(id -u)" = 0 ] && [ -z "${JAVA_HOME:-}" ] && command -v apt-get >/dev/null 2>&1; then
  echo "Java 17 is missing; installing openjdk-17-jre-headless."
  apt-get update -qq || true
  apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null || true
  is_new_enough && exit 0
fi
echo "Spark needs Java 17 or newer: install it (Debian: openjdk-17-jre-headless), or set JAVA_HOME to it." >&2
exit 1
