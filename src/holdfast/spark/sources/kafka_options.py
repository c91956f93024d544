"""What the Kafka source and the Kafka sink share: brokers and options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession

from holdfast.spark.session.kafka_connector import check_kafka, check_secrets
from holdfast.spark.session.secrets import provider_options, references

__all__ = ["kafka_options", "option_problems", "servers_text"]

_SERVERS = "kafka.bootstrap.servers"
_SECRET = re.compile(r"password|jaas|secret|\bkey$|token(?!\.endpoint\.url$)", re.IGNORECASE)
_SETTING = re.compile(r"""(\w*(?:password|secret)\w*)\s*=\s*("[^"]*"|'[^']*'|[^\s;]*)""", re.IGNORECASE)
"""What is secret within a login."""
_TOPICS = ("subscribe", "subscribePattern", "assign", "topic")


def servers_text(servers: Any) -> str:
    """Addresses of brokers as Kafka wants them."""
    return servers if isinstance(servers, str) else ",".join(servers)


def kafka_options(spark: SparkSession, what: str, servers: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """All options for Spark. Raises HoldfastError if the session has no connector, or a secret is not there."""
    check_kafka(spark, what)
    given = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    check_secrets(spark, references(given))
    return {_SERVERS: servers_text(servers), **provider_options(given), **given}


def option_problems(servers: Any, options: Any, own: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the brokers or the options. `own` are options that have an argument, with that."""
    listed = [servers] if isinstance(servers, str) else servers
    if not isinstance(listed, (list, tuple)) or not listed or not all(isinstance(one, str) and one for one in listed):
        yield f"The brokers are {servers!r}; give an address such as 'localhost:9092', or a list of them."
    if not isinstance(options, Mapping) or not all(isinstance(option, str) for option in options):
        yield "options must be a dict from names of options to their values."
        return
    arguments = {_SERVERS: "the first argument", **dict.fromkeys(_TOPICS, "the second argument, the topic"), **own}
    known = {name.lower(): argument for name, argument in arguments.items()}
    for option, value in options.items():
        if option.lower() in known:
            yield f"The option {option!r} is {known[option.lower()]}; give it there."
        elif _SECRET.search(option):
            yield from _secret_problems(option, str(value))


def _secret_problems(option: str, value: str) -> Iterator[str]:
    """What is wrong with an option that is secret. Its value is not shown: it may be what should have been hidden."""
    if not _refers(value):
        yield f"The option {option!r} is secret; give hf.sources.FromEnv('...') or FromFile('...') in its place."
    for name, given in _SETTING.findall(value):
        if not _refers(given):
            yield f"In the option {option!r} {name} is written down; give hf.sources.FromEnv('...') or FromFile('...')."


def _refers(value: str) -> bool:
    return any(True for _ in references({"": value}))
