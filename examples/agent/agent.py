"""Reads from two servers and pins a note at a third one, all at the same time. A person approves the note."""

import asyncio

from generated import GatewayError, UnknownOutcome
from generated.mcp.desk import clock_now, notes_add
from generated.mcp.memory import get_user_facts
from generated.mcp.rest import search


async def pin(text: str) -> str:
    try:
        await notes_add(text=text)
        return "pinned"
    except GatewayError as error:
        return f"not pinned: {error.code}"
    except UnknownOutcome as error:
        return f"look at the board before you try again: {error}"


async def main() -> None:
    pinned = asyncio.create_task(pin("buy bread"))  # waits for the person
    time, facts, found = await asyncio.gather(
        clock_now(zone="Asia/Tokyo"),
        get_user_facts(user_id="ann"),
        search(limit=1),
    )
    print("time: ", time)
    print("facts:", len(facts))
    print("notes:", [note["text"] for note in found["notes"]])
    print("board:", await pinned)


asyncio.run(main())
