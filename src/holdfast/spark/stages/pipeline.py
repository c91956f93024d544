"""The store of a key group without waiting: requests to the JVM are sent one after the other, answers are read later.

Spark's own calls send one request and wait for its answer, 0.1 to 0.4 ms each, most of it for two processes to take
turns. The JVM answers in order, so nothing but these calls needs the wait:

* what will be read is asked for together, in one round trip;
* what is written is not waited for, nor what Spark's client asks for on its own: that the JVM turns to another key group, or
  enters the next phase of the task. These answers are read before the next one that anybody waits for.

Invariants
- Answers are read in the order of their requests, also those of Spark's own calls on the same socket: `Answers` stands in
  the place of the socket's file, and reads what is outstanding before it gives Spark an answer.
- A write that failed raises in the same task: at the latest in Spark's own last call, before the task can succeed. So a
  micro-batch in which one failed does not commit. A copy in memory may by then believe that its delta was stored; its
  token is then in no chain, like that of any other attempt that did not count.
- After the first answer that is not good nothing is read or written any more: the JVM, too, ends the conversation there.
- Neither side can wait for the other for ever: at most `_OUTSTANDING_MAX` answers of a few bytes are left unread, and of the
  answers to reads none. A Unix socket has room for some 270 such answers, and for 80 with a buffer of 64 KB.
- A task leaves nothing behind: when it ends, Spark's client is given back its own methods, so that it goes without a search
  for garbage, and its socket with it.

This uses parts of PySpark that are not public: the socket of its client and the messages on it. With a version of Spark that
has not been tried, `store_of` gives the store that makes Spark's public calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import read_int
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState

from holdfast.spark.session.versions import is_known_version
from holdfast.spark.stages.store import BLOB_KEY, BLOB_VALUE, GroupStore, SparkStore

__all__ = ["Answers", "PipelinedStore", "store_of"]

_OUTSTANDING_MAX = 32


def store_of(handle: Any, state: Any) -> GroupStore:
    """The fastest store for the key groups of a task: `state` is the map variable that holds the blobs."""
    client = getattr(handle, "_statefulProcessorApiClient", None)
    if is_known_version() and hasattr(client, "sockfile") and hasattr(state, "_stateName"):
        return PipelinedStore(handle, state)
    return SparkStore(handle, state)


class Answers:
    """The file of the socket to the JVM: reading from it first takes the answers to what was sent and not waited for."""

    def __init__(self, file: Any, parse: Any) -> None:
        self._file = file
        self._parse = parse
        self._outstanding: deque[str] = deque()
        """What each of these requests was to do, for the error if it could not be done."""
        self._failure: str | None = None

    def owe(self, doing: str) -> None:
        """Notes that a request was written whose answer nobody waits for."""
        self._outstanding.append(doing)
        if len(self._outstanding) >= _OUTSTANDING_MAX:
            self.settle()

    def settle(self) -> None:
        """Reads all outstanding answers; raises for the first that is not good."""
        self.check()
        if self._outstanding:
            self.flush()
            self._take()

    def check(self) -> None:
        """Raises if an answer was not good."""
        if self._failure is not None:
            raise PySparkRuntimeError(self._failure)

    def write(self, data: bytes) -> Any:
        self.check()
        return self._sent(self._file.write, data)

    def flush(self) -> None:
        self.check()
        self._sent(self._file.flush)

    def read(self, *size: int) -> Any:
        self.settle()
        return self._file.read(*size)

    def _sent(self, send: Callable[..., Any], *data: bytes) -> Any:
        """What cannot be sent comes after an answer that was not good, since the JVM closes the socket then. It says why."""
        try:
            return send(*data)
        except OSError:
            self._take()
            raise

    def _take(self) -> None:
        while self._outstanding:
            self.answer(self._outstanding.popleft())

    def answer(self, doing: str) -> Any:
        """The next answer; raises if it is not good, now and whenever somebody reads or writes after that."""
        try:
            answer = self._parse(self._file.read(read_int(self._file)))  # type: ignore[no-untyped-call]
        except (EOFError, OSError):
            self._failure = f"Could not {doing}: Spark's state store has closed the connection."
        else:
            if answer.statusCode == 0:
                return answer
            self._failure = f"Could not {doing}: {answer.errorMessage or f'status {answer.statusCode}'}"
        raise PySparkRuntimeError(self._failure)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class PipelinedStore:
    """A GroupStore that speaks to the JVM in the words of Spark's own client, but does not wait for each answer."""

    def __init__(self, handle: Any, state: Any) -> None:
        import pyspark.sql.streaming.proto.StateMessage_pb2 as messages

        self._messages: Any = messages
        self._state = state
        self._name = state._stateName
        self._client = handle._statefulProcessorApiClient
        if not isinstance(self._client.sockfile, Answers):
            self._client.sockfile = Answers(self._client.sockfile, messages.StateResponse.FromString)
            self._client.set_implicit_key = self._turn_to
            self._client.remove_implicit_key = self._turn_away
            self._client.set_handle_state = self._enter
        self._answers: Answers = self._client.sockfile
        self._ahead: dict[str, bytes | None] = {}
        """Blobs that were asked for and not yet read."""

    def begin(self, names: Iterable[str]) -> None:
        self._ahead.clear()
        self.expect(names)

    def end(self) -> None:
        self._ahead.clear()
        self._answers.flush()

    def expect(self, names: Iterable[str]) -> None:
        """Asks for blobs that will be read next, all in one round trip."""
        wanted = [name for name in names if name not in self._ahead]
        for name in wanted:
            self._ask(name)
        if not wanted:
            return
        self._answers.flush()
        self._answers.settle()
        for name in wanted:
            value = self._answers.answer(f"read {name!r}").value
            self._ahead[name] = bytes(self._client._deserialize_from_bytes(value)[0]) if value else None

    def get(self, name: str) -> bytes | None:
        self.expect((name,))
        return self._ahead.pop(name)

    def put(self, name: str, blob: bytes) -> None:
        value = self._client._serialize_to_bytes(BLOB_VALUE, (blob,))
        call = self._messages.UpdateValue(userKey=self._key(name), value=value)
        self._tell(name, f"store {name!r}", updateValue=call)

    def remove(self, name: str) -> None:
        self._tell(name, f"remove {name!r}", removeKey=self._messages.RemoveKey(userKey=self._key(name)))

    def items(self) -> Iterator[tuple[str, bytes]]:
        for key, value in self._state.iterator():
            yield key[0], bytes(value[0])

    def register_timer(self, millis: int) -> None:
        self._tell_timer("set a timer", register=self._messages.RegisterTimer(expiryTimestampMs=millis))

    def delete_timer(self, millis: int) -> None:
        self._tell_timer("delete a timer", delete=self._messages.DeleteTimer(expiryTimestampMs=millis))

    def _turn_to(self, key: tuple[Any, ...]) -> None:
        """What Spark calls before it gives a key group to its processor."""
        data = self._client._serialize_to_bytes(self._client.key_schema, key)
        self._tell_key(f"turn to the key group {key}", setImplicitKey=self._messages.SetImplicitKey(key=data))

    def _enter(self, state: StatefulProcessorHandleState) -> None:
        """What Spark calls as the task goes on. The last of these calls waits, for all answers."""
        if state is StatefulProcessorHandleState.CLOSED:
            for name in ("set_implicit_key", "remove_implicit_key", "set_handle_state"):
                delattr(self._client, name)
            self._client.set_handle_state(state)
            return
        call = self._messages.SetHandleState(state=getattr(self._messages, state.name))
        request = self._messages.StatefulProcessorCall(setHandleState=call)
        self._send(self._messages.StateRequest(statefulProcessorCall=request))
        self._answers.owe(f"enter the state {state.name}")
        self._client.handle_state = state

    def _turn_away(self) -> None:
        """What Spark calls after the last key group."""
        self._tell_key("turn away from the last key group", removeImplicitKey=self._messages.RemoveImplicitKey())

    def _tell_key(self, doing: str, **call: Any) -> None:
        request = self._messages.ImplicitGroupingKeyRequest(**call)
        self._send(self._messages.StateRequest(implicitGroupingKeyRequest=request))
        self._answers.owe(doing)

    def _key(self, name: str) -> bytes:
        key: bytes = self._client._serialize_to_bytes(BLOB_KEY, (name,))
        return key

    def _ask(self, name: str) -> None:
        self._send_to_map(getValue=self._messages.GetValue(userKey=self._key(name)))

    def _tell(self, name: str, doing: str, **call: Any) -> None:
        self._ahead.pop(name, None)
        self._send_to_map(**call)
        self._answers.owe(doing)

    def _send_to_map(self, **call: Any) -> None:
        request = self._messages.MapStateCall(stateName=self._name, **call)
        variable = self._messages.StateVariableRequest(mapStateCall=request)
        self._send(self._messages.StateRequest(stateVariableRequest=variable))

    def _tell_timer(self, doing: str, **call: Any) -> None:
        request = self._messages.StatefulProcessorCall(timerStateCall=self._messages.TimerStateCallCommand(**call))
        self._send(self._messages.StateRequest(statefulProcessorCall=request))
        self._answers.owe(doing)

    def _send(self, request: Any) -> None:
        """Writes a request as Spark's client does: a version, the length, the message. It is not flushed."""
        message = request.SerializeToString()
        self._answers.write(b"\0\0\0\0" + len(message).to_bytes(4, "big") + message)
