#!/usr/bin/env bash
# Make sure that Java 17 or newer is there: every Spark runtime needs it.
set -euo pipefail

major() {
  # Java 8 calls itself 1.8; anything from 9 on begins with its own number.
  "$1" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1
}

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
if command -v "$java" >/dev/null 2>&1 && [ "$(major "$java")" -ge 17 ]; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Java 17 is missing; installing openjdk-17-jre-headless."
  apt-get update -qq || true
  apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null && exit 0
fi
echo "Spark needs Java 17 or newer: install it (Debian: openjdk-17-jre-headless), or set JAVA_HOME." >&2
exit 1
