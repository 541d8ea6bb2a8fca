"""Drives `rawko acp` with the protocol's library in Python. `scripts/test-acp.sh` starts this."""

import asyncio
import os

from acp import Client, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse

RAWKO, PROJECT = os.environ["RAWKO"], os.path.realpath(os.environ["PROJECT"])


class Editor(Client):
    """Allows everything, and keeps what it is shown."""

    def __init__(self):
        self.updates, self.asked = [], []

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append(tool_call)
        option = next(option.option_id for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option))

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(update)

    def of(self, kind):
        return [update for update in self.updates if update.session_update == kind]

    def said(self, kind="agent_message_chunk"):
        return "".join(update.content.text for update in self.of(kind))


def process(editor):
    return spawn_agent_process(lambda _: editor, RAWKO, "acp", env=dict(os.environ), cwd=PROJECT)


async def main():
    editor = Editor()
    async with process(editor) as (connection, _):
        hello = await connection.initialize(protocol_version=1)
        assert hello.agent_info.name == "rawko" and hello.agent_capabilities.load_session, hello
        session = await connection.new_session(cwd=PROJECT, mcp_servers=[])
        await connection.set_session_mode(session_id=session.session_id, mode_id="team")
        end = await connection.prompt(session_id=session.session_id, prompt=[text_block("Write one.")])
        assert end.stop_reason == "end_turn", end
        assert [call.title for call in editor.asked] == ["echo more >> one.txt"], editor.asked
        assert "I begin." in editor.said() and "wrote one" in editor.said(), editor.said()
        assert editor.of("plan")[0].entries[0].content == "write it"
        assert editor.of("tool_call")[0].content[0].type == "diff"
        listed = await connection.list_sessions(cwd=PROJECT)
        assert [it.session_id for it in listed.sessions] == [session.session_id], listed
    with open(os.path.join(PROJECT, "one.txt"), encoding="utf-8") as file:
        assert file.read() == "text\nmore\n"

    editor = Editor()
    async with process(editor) as (connection, _):
        await connection.initialize(protocol_version=1)
        await connection.load_session(cwd=PROJECT, session_id=session.session_id, mcp_servers=[])
        assert editor.said("user_message_chunk") == "Write one.", editor.updates
        end = await connection.prompt(session_id=session.session_id, prompt=[text_block("Do more.")])
        assert end.stop_reason == "end_turn" and "did more" in editor.said(), editor.said()
        await connection.close_session(session_id=session.session_id)
    print("the library in Python: two prompts, a permission, a list, a load, a close")


asyncio.run(main())
