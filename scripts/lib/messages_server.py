"""A model server for agents that are not rawko's: Anthropic's Messages API, streamed, with one story.

The first request that offers a tool for writing is answered by a call of it; the next by the last words. Whatever else an
agent asks its service, such as a title, gets a short text. Arguments: the file to write, what to write into it, and
the address to listen at.
"""

import http.server
import json
import sys

PATH, CONTENT = sys.argv[1], sys.argv[2]


def events(content, stop):
    usage = {"input_tokens": 20, "output_tokens": 5}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "test", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(content):
        if block["type"] == "text":
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def answer(request):
    tools = [tool.get("name") for tool in request.get("tools", [])]
    results = json.dumps(request["messages"]).count('"tool_result"')
    if "Write" not in tools:
        return [{"type": "text", "text": "A title"}], "end_turn"
    if results == 0:
        call = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"file_path": PATH, "content": CONTENT}}
        return [{"type": "text", "text": "I write it."}, call], "tool_use"
    return [{"type": "text", "text": "The file is written."}], "end_turn"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self):
        self.reply("application/json", b"")

    def do_GET(self):
        self.reply("application/json", b"{}")

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            return self.reply("application/json", b'{"input_tokens": 20}')
        content, stop = answer(request)
        if not request.get("stream"):
            body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "test", "content": content,
                    "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 20, "output_tokens": 5}}
            return self.reply("application/json", json.dumps(body).encode())
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events(content, stop))
        return self.reply("text/event-stream", "".join(lines).encode())


server = http.server.ThreadingHTTPServer((sys.argv[3], 0), Handler)
print(f"http://{sys.argv[3]}:{server.server_address[1]}", flush=True)
server.serve_forever()
