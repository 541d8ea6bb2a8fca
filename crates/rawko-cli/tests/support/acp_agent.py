"""A scripted agent that speaks the Agent Client Protocol, version 1: JSON-RPC, one message a line.

Its first argument says what it does with its prompt. It is not a model: it does what agents do, well and badly.
"""

import json
import os
import sys
import time

WHAT = sys.argv[1]


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def receive():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def update(**what):
    send({"method": "session/update", "params": {"sessionId": "s1", "update": what}})


def say(text):
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def ask(kind, title):
    """Asks for permission, and gives the id of the chosen option."""
    options = [
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ]
    call = {"toolCallId": "call-1", "kind": kind, "title": title}
    params = {"sessionId": "s1", "toolCall": call, "options": options}
    send({"id": "ask-1", "method": "session/request_permission", "params": params})
    while True:
        message = receive()
        if message.get("id") == "ask-1":
            return message["result"]["outcome"].get("optionId")


def attempt(what):
    try:
        return what() or "done"
    except OSError as error:
        return type(error).__name__


def fix():
    text = open("calc.py").read()
    with open("calc.py", "w") as file:
        file.write(text.replace("a - b", "a + b"))


def work(prompt):
    if WHAT == "fix":
        say("I look. ")
        update(sessionUpdate="tool_call", toolCallId="call-1", title="Edit calc.py", kind="edit", status="in_progress")
        fix()
        update(sessionUpdate="usage_update", used=10, size=100, cost={"amount": 0.25, "currency": "USD"})
        say("I fixed add.")
    elif WHAT == "claim":
        say("All is done, every test passes.")
    elif WHAT == "prompt":
        say("prompt: " + prompt)
    elif WHAT == "hang":
        with open("began.txt", "a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(1000)
    elif WHAT == "die":
        fix()
        sys.stderr.write("out of luck\n")
        os._exit(3)
    elif WHAT == "garbage":
        for _ in range(1000):
            print("this is no message")
        sys.stdout.flush()
        time.sleep(1000)
    elif WHAT == "flood":
        while True:
            say("blah " * 100)
    elif WHAT == "ask":
        answer = ask("edit", "Edit calc.py")
        if answer == "yes":
            fix()
        say(f"The answer was {answer}.")
    elif WHAT == "review":
        answer = ask("edit", "Edit calc.py")
        wrote = attempt(fix)
        made = attempt(lambda: open("new.txt", "w").close())
        say(f"answer {answer}, edit {wrote}, new file {made}\nFinding: add subtracts\nVerdict: rejected")
    elif WHAT == "look":
        secret = [name for name in os.environ if "KEY" in name or "TOKEN" in name]
        names = [name for name in secret if not name.startswith("GIT_CONFIG_KEY_")]
        state = attempt(lambda: ",".join(sorted(os.listdir(".rawko"))) or "empty")
        say(f"names {','.join(sorted(names)) or 'none'}; state {state}; plain {os.environ.get('PLAIN')}")


def main():
    while True:
        message = receive()
        method, id_ = message.get("method"), message.get("id")
        if method == "initialize":
            if WHAT == "mute":
                time.sleep(1000)
            send({"id": id_, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
        elif method == "session/new":
            if WHAT == "login":
                send({"id": id_, "error": {"code": -32000, "message": "Authentication required"}})
            else:
                send({"id": id_, "result": {"sessionId": "s1"}})
        elif method == "session/prompt":
            work("".join(part.get("text", "") for part in message["params"]["prompt"]))
            usage = {"totalTokens": 30, "inputTokens": 20, "outputTokens": 10}
            send({"id": id_, "result": {"stopReason": "end_turn", "usage": usage}})


main()
