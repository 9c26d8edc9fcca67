"""Calls tools through the gateway of dovetail serve -http. It needs the standard library only.

The environment says where the gateway is, at each call:

DOVETAIL_URL         its address, by default http://127.0.0.1:8900
DOVETAIL_TOKEN       its token
DOVETAIL_TOKEN_FILE  a file with the token, if DOVETAIL_TOKEN is not set

A call is sent once, and never again. It may wait for a person who approves it. The proxies of the
environment are not used.
"""

from __future__ import annotations

import asyncio
import functools
import http.client
import inspect
import io
import json
import os
import re
import socket
import ssl
from enum import Enum
from typing import Any, Callable, Dict, Final, List, Mapping, NamedTuple, Optional, Tuple, TypeVar, cast
from urllib.parse import quote, urlsplit

__all__ = ["UNSET", "GatewayError", "ToolError", "ToolResult", "UnknownOutcome", "Unset"]

# A gateway answers or sends a space every 15 seconds.
_IDLE_SECONDS = 60
_CONNECT_SECONDS = 10
_MAX_ANSWER = 256 << 20


class Unset(Enum):
    """The type of UNSET."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset.UNSET
"""The value of an argument that is not sent. None is sent, as null."""


class GatewayError(Exception):
    """The call was not executed, or its server answered with an error. code says why.

    Some codes are misconfigured, unreachable, forbidden, rejected, expired, unknown_tool, invalid_params and upstream_unavailable.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnknownOutcome(Exception):
    """The call was sent, and there is no answer that can be used: it may have been executed."""


class ToolError(Exception):
    """The tool reported a failure. content has the blocks of its result."""

    def __init__(self, message: str, content: List[Dict[str, Any]]) -> None:
        super().__init__(message)
        self.content = content


class ToolResult(str):
    """The text of a result: its blocks, joined by line breaks.

    content has all blocks, such as images, and structured the structured content or None.
    """

    content: List[Dict[str, Any]]
    structured: Any


class _Request(NamedTuple):
    host: str
    port: int
    tls: Optional[ssl.SSLContext]
    data: bytes


def _token() -> str:
    token = os.environ.get("DOVETAIL_TOKEN", "")
    path = os.environ.get("DOVETAIL_TOKEN_FILE", "")
    if not token and path:
        try:
            with open(path, encoding="utf-8") as file:
                token = file.read().strip()
        except (OSError, UnicodeError) as error:
            raise GatewayError("misconfigured", f"the file of DOVETAIL_TOKEN_FILE cannot be read: {error}") from error
    if not re.fullmatch("[!-~]*", token):
        raise GatewayError("misconfigured", "the token of the gateway has spaces or other characters that no token has")
    return token


def _request(server: str, tool_name: str, arguments: Mapping[str, object]) -> _Request:
    sent = {name: value for name, value in arguments.items() if value is not UNSET}
    body = json.dumps({"arguments": sent}, allow_nan=False).encode("ascii")
    url = os.environ.get("DOVETAIL_URL", "") or "http://127.0.0.1:8900"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if not re.fullmatch("[!-~]+", url) or parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or parts.query:
        raise GatewayError("misconfigured", "DOVETAIL_URL: expected an address such as http://127.0.0.1:8900, without a user and a query")
    token = _token()
    path = f"{parts.path.rstrip('/')}/api/v1/mcp/proxy/{quote(server, safe='')}/tools/{quote(tool_name, safe='')}?wait=1&result=full"
    head = [
        f"POST {path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if token:
        head.append(f"Authorization: Bearer {token}")
    data = "\r\n".join(head).encode("ascii") + b"\r\n\r\n" + body
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    return _Request(host, port or (443 if tls else 80), tls, data)


class _Received:
    """What was received, for the parser of http.client."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _result(data: bytes) -> Dict[str, Any]:
    """Returns the CallToolResult in a response."""
    try:
        response = http.client.HTTPResponse(cast(socket.socket, _Received(data)), method="POST")
        response.begin()
        status, body = response.status, response.read()
    except (http.client.HTTPException, ValueError) as error:
        raise UnknownOutcome("the connection ended before the answer; the call may have been executed") from error
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        answer = {}
    if status == 200 and "success" in answer:
        result, message = answer.get("result"), str(answer.get("error"))
        if not answer["success"] and not answer.get("is_error"):
            if answer.get("executed") != "no":
                raise UnknownOutcome(message)
            raise GatewayError(str(answer.get("code")), message)
        if not isinstance(result, dict) or not isinstance(result.get("content"), list):
            raise UnknownOutcome("the answer has no result; the call was executed")
        if answer.get("is_error"):
            raise ToolError(message, result["content"])
        return result
    detail = answer.get("detail")
    if status < 500 and status != 200 or isinstance(detail, str):
        hint = "; DOVETAIL_TOKEN has to be the token that dovetail serve prints" if status == 401 else ""
        raise GatewayError(f"http_{status}", (detail if isinstance(detail, str) else f"the gateway answered with the status {status}") + hint)
    raise UnknownOutcome(f"an answer with the status {status} that is not of a gateway; the call may have been executed")


def _unreachable(error: BaseException) -> GatewayError:
    url = os.environ.get("DOVETAIL_URL", "") or "http://127.0.0.1:8900"
    return GatewayError("unreachable", f"the gateway at {url} cannot be reached, and the call was not sent: {error or type(error).__name__}")


_LONG = "the answer is longer than 256 MiB; the call was executed"


async def call(server: str, tool_name: str, arguments: Mapping[str, object]) -> Dict[str, Any]:
    """Calls a tool and returns its CallToolResult. The call ends if its task is cancelled."""
    request = _request(server, tool_name, arguments)
    try:
        connecting = asyncio.open_connection(request.host, request.port, ssl=request.tls)
        reader, writer = await asyncio.wait_for(connecting, _CONNECT_SECONDS)
    except (OSError, asyncio.TimeoutError) as error:
        raise _unreachable(error) from error
    try:
        try:
            writer.transport.set_write_buffer_limits(high=0)  # drain waits until everything is sent
            writer.write(request.data)
            await asyncio.wait_for(writer.drain(), _IDLE_SECONDS)
        except (OSError, asyncio.TimeoutError) as error:
            raise _unreachable(error) from error
        data = bytearray()
        try:
            while True:
                part = await asyncio.wait_for(reader.read(1 << 16), _IDLE_SECONDS)
                if not part:
                    break
                data += part
                if len(data) > _MAX_ANSWER:
                    raise UnknownOutcome(_LONG)
        except (OSError, asyncio.TimeoutError):
            pass  # the answer may be complete
        return _result(bytes(data))
    finally:
        writer.transport.abort()


def call_sync(server: str, tool_name: str, arguments: Mapping[str, object]) -> Dict[str, Any]:
    """Calls a tool and returns its CallToolResult."""
    request = _request(server, tool_name, arguments)
    try:
        connection = socket.create_connection((request.host, request.port), _CONNECT_SECONDS)
    except OSError as error:
        raise _unreachable(error) from error
    try:
        try:
            if request.tls:
                connection = request.tls.wrap_socket(connection, server_hostname=request.host)
            connection.settimeout(_IDLE_SECONDS)
            connection.sendall(request.data)
        except OSError as error:
            raise _unreachable(error) from error
        data = bytearray()
        try:
            while True:
                part = connection.recv(1 << 16)
                if not part:
                    break
                data += part
                if len(data) > _MAX_ANSWER:
                    raise UnknownOutcome(_LONG)
        except OSError:
            pass  # the answer may be complete
        return _result(bytes(data))
    finally:
        connection.close()


def text(result: Dict[str, Any]) -> ToolResult:
    """Returns the text of a CallToolResult."""
    blocks = [block for block in result["content"] if isinstance(block, dict)]
    found = ToolResult("\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text"))
    found.content = blocks
    found.structured = result.get("structuredContent")
    return found


def structured(result: Dict[str, Any]) -> Any:
    """Returns the structured content of a CallToolResult."""
    if "structuredContent" not in result:
        raise UnknownOutcome("the tool has returned no structured content, although it has an output schema; the call was executed")
    return result["structuredContent"]


_Function = TypeVar("_Function", bound=Callable[..., Any])


def tool(renamed: Mapping[str, str]) -> Callable[[_Function], _Function]:
    """Lets a function take all arguments as one dictionary, too: star_repo({"owner": "a"}).

    renamed has the parameters whose names differ from those of the arguments.
    """

    def keywords(arguments: Tuple[Any, ...], named: Dict[str, Any]) -> Dict[str, Any]:
        if not arguments:
            return named
        if len(arguments) > 1 or not isinstance(arguments[0], Mapping) or named:
            raise TypeError("expected keyword arguments, or all of them in one dictionary")
        return {renamed.get(name, name): value for name, value in arguments[0].items()}

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        async def calls(*arguments: Any, **named: Any) -> Any:
            return await function(**keywords(arguments, named))

        @functools.wraps(function)
        def calls_sync(*arguments: Any, **named: Any) -> Any:
            return function(**keywords(arguments, named))

        return cast(_Function, calls if inspect.iscoroutinefunction(function) else calls_sync)

    return decorate
