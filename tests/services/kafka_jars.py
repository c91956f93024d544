"""The jars of a Kafka broker, fetched once for a user by Maven. Uses the standard library alone: `scripts/services`
runs it before there is anything else.

    python tests/services/kafka_jars.py
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["VERSION", "Unavailable", "broker_jars"]

VERSION = "4.3.1"
_SECONDS_MAX = 600
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>holdfast</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


class Unavailable(Exception):
    """Why there is no broker."""


def broker_jars() -> Path:
    """The folder with the jars; fetched if they are not there yet. Raises Unavailable."""
    given = os.environ.get("XDG_CACHE_HOME")
    cache = (Path(given) if given else Path.home() / ".cache") / "holdfast"
    folder = cache / f"kafka-broker-{VERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(cache / "kafka-broker.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    for command in ("java", "mvn"):
        if shutil.which(command) is None:
            raise Unavailable(f"no {command} on the path")
    with tempfile.TemporaryDirectory(prefix=".kafka-broker-", dir=folder.parent) as made:
        (Path(made) / "pom.xml").write_text(_POM)
        wanted = ["-DoutputDirectory=jars", "-DincludeScope=runtime"]
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", *wanted]
        try:
            done = subprocess.run(command, cwd=made, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"Maven has not fetched the broker within {_SECONDS_MAX} seconds") from None
        if done.returncode != 0:
            raise Unavailable(f"Maven cannot fetch the broker: {done.stdout.strip()[:300]}")
        (Path(made) / "jars").rename(folder)


if __name__ == "__main__":
    try:
        print(broker_jars())
    except Unavailable as error:
        sys.exit(str(error))
