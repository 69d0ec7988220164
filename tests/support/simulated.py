"""Simulated model servers in this process, and a client that shows exactly what they sent."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from tare.sim.serve.options import parse_options
from tare.sim.serve.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

__all__ = [
    "CHAT",
    "TEXT",
    "USAGE",
    "Answer",
    "Simulated",
    "Stream",
    "cached",
    "chat",
    "ids",
    "read_answer",
    "read_head",
    "request_bytes",
    "simulated",
    "start_long_stream",
    "until_metric",
]


CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
USAGE = {"include_usage": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One complete answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return orjson.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One answer as server-sent events, with when each of its parts was read."""

    headers: dict[str, str]
    headers_at: float
    """Seconds from the request to the response's headers."""
    data: list[str]
    """The text after `data: ` of each event, `[DONE]` included."""
    data_at: list[float]

    @property
    def events(self) -> list[Any]:
        """The events as JSON, without `[DONE]`."""
        return [orjson.loads(text) for text in self.data if text != "[DONE]"]

    @property
    def usage(self) -> dict[str, Any]:
        """The usage of the last event."""
        usage: dict[str, Any] = self.events[-1]["usage"]
        return usage

    @property
    def texts(self) -> list[str]:
        """The text of each event that has a choice."""
        choices = [event["choices"][0] for event in self.events if event["choices"]]
        return [c["text"] if "text" in c else c["delta"].get("content", "") for c in choices]


@dataclass(frozen=True, slots=True)
class Simulated:
    """A running server."""

    server: Server

    @property
    def origin(self) -> str:
        """Its URL."""
        return self.server.origin

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection."""
        return await asyncio.open_connection("127.0.0.1", urlsplit(self.origin).port)

    async def get(self, path: str, **headers: str) -> Answer:
        """Send one GET."""
        return await self.call("GET", path, headers=headers)

    async def post(self, path: str, body: object = None, **headers: str) -> Answer:
        """Send one POST, with a JSON body unless it is None."""
        return await self.call("POST", path, body, headers)

    async def call(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send one request on a connection of its own."""
        reader, writer = await self.connect()
        writer.write(request_bytes(method, path, body, headers or {}))
        answer = await read_answer(reader, method)
        writer.close()
        return answer

    async def stream(self, path: str, body: dict[str, Any], **headers: str) -> Stream:
        """Send one streaming request and read it to its end."""
        reader, writer = await self.connect()
        begin = time.monotonic()
        writer.write(request_bytes("POST", path, {"stream": True, **body}, headers))
        status, head = await read_head(reader)
        assert status == 200, await reader.read(1000)
        headers_at = time.monotonic() - begin
        data, data_at = [], []
        async for chunk in read_chunks(reader):
            data.append(chunk.decode().removeprefix("data: ").removesuffix("\n\n"))
            data_at.append(time.monotonic() - begin)
        writer.close()
        return Stream(headers=head, headers_at=headers_at, data=data, data_at=data_at)

    async def counters(self) -> dict[str, Any]:
        """Read the log of truth."""
        counters: dict[str, Any] = (await self.get("/admin/counters")).json
        return counters

    async def metric(self, sample: str) -> float:
        """Read one sample of `/metrics` by the beginning of its line."""
        text = (await self.get("/metrics")).body.decode()
        lines = [line for line in text.splitlines() if line.startswith(sample)]
        assert len(lines) == 1, lines
        return float(lines[0].rpartition(" ")[2])


FAST = ("--ttft-overhead", "1ms", "--itl", "1ms", "--prefill-rate", "1000000")


@asynccontextmanager
async def simulated(*arguments: str, speed: Sequence[str] = FAST) -> AsyncIterator[Simulated]:
    """Run `tare sim serve` with these options on a free port, fast unless told otherwise."""
    model = () if "--model" in arguments else ("--model", "tiny")
    fixed = ("--host", "127.0.0.1", "--port", "0", "--max-model-len", "4096")
    server = Server(parse_options([*fixed, *model, *speed, *arguments]))
    await server.start()
    try:
        yield Simulated(server)
    finally:
        await server.stop(grace_seconds=0)


def request_bytes(method: str, path: str, body: object, headers: dict[str, str]) -> bytes:
    """Build a request; header names are given with underscores, a body of bytes goes as it is."""
    sent = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
    lines = [f"{method} {path} HTTP/1.1", "Host: sim", f"Content-Length: {len(sent)}"]
    if body is not None:
        headers = {"Content_Type": "application/json", **headers}
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode() + sent


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Read status and headers."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = (line.split(": ", 1) for line in lines if line)
    return int(first.split()[1]), {name.lower(): value for name, value in pairs}


async def read_answer(reader: asyncio.StreamReader, method: str = "GET") -> Answer:
    """Read a whole answer."""
    status, headers = await read_head(reader)
    length = 0 if method == "HEAD" else int(headers["content-length"])
    return Answer(status=status, headers=headers, body=await reader.readexactly(length))


async def read_chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Read the chunks of a chunked body."""
    while size := int(await reader.readline(), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    assert await reader.readline() == b"\r\n"


def chat(text: str, **more: Any) -> dict[str, Any]:
    """Build a chat of one user message."""
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 3, **more}


def ids(count: int, start: int = 0) -> list[int]:
    """Return token ids that count up."""
    return list(range(start, start + count))


async def cached(server: Simulated, path: str, body: dict[str, Any]) -> int:
    """Send a prompt and return how many of its tokens were cached."""
    stream = await server.stream(path, {"max_tokens": 1, "stream_options": USAGE, **body})
    tokens: int = stream.usage["prompt_tokens_details"]["cached_tokens"]
    return tokens


async def start_long_stream(server: Simulated, **more: Any) -> asyncio.StreamWriter:
    """Start a stream that runs until the client goes, and wait until it runs."""
    reader, writer = await server.connect()
    body = chat("long", max_tokens=4000, stream=True, **more)
    writer.write(request_bytes("POST", CHAT, body, {}))
    await reader.readuntil(b"data: ")
    return writer


async def until_metric(server: Simulated, sample: str, value: float) -> None:
    """Wait until a metric has a value; the server sees a client's leaving a moment later."""
    async with asyncio.timeout(5):
        while await server.metric(sample) != value:  # noqa: ASYNC110 - it is another's state
            await asyncio.sleep(0.005)
