"""A server of tools over streamable HTTP, in the form of 2025-11-25. Prints its port. Its tool `ask` wants to know something
from a person before it answers."""

import json
import queue
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "echo", "description": "Echoes.", "inputSchema": SCHEMA},
    {"name": "ask", "description": "Asks a person.", "inputSchema": {"type": "object", "properties": {}}},
]
ANSWERS = queue.Queue()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, number, result):
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        self.send(200, body, [("Content-Type", "application/json"), ("Mcp-Session-Id", "session-1")])

    def do_GET(self):
        self.send(405)

    def do_DELETE(self):
        self.send(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, number = message.get("method"), message.get("id")
        if method is None:
            ANSWERS.put(message)
            return self.send(202)
        if number is None:
            return self.send(202)
        if method != "initialize" and self.headers.get("Mcp-Session-Id") != "session-1":
            return self.send(400)
        if method == "initialize":
            return self.answer(number, {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "http-server", "version": "1"},
            })
        if method == "tools/list":
            return self.answer(number, {"tools": TOOLS})
        if method != "tools/call":
            body = {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "Method not found"}}
            return self.send(200, json.dumps(body).encode(), [("Content-Type", "application/json")])
        if message["params"]["name"] == "echo":
            words = "echo says " + message["params"]["arguments"]["text"]
        else:
            words = "the person: " + self.asked()
        result = {"content": [{"type": "text", "text": words}], "isError": False}
        if message["params"]["name"] == "echo":
            return self.answer(number, result)
        self.event({"jsonrpc": "2.0", "id": number, "result": result})
        self.wfile.write(b"0\r\n\r\n")

    def asked(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.event({"jsonrpc": "2.0", "id": "question-1", "method": "elicitation/create", "params": {
            "mode": "form",
            "message": "Which branch?",
            "requestedSchema": {"type": "object", "properties": {"branch": {"type": "string"}}},
        }})
        answer = ANSWERS.get(timeout=20)
        return answer.get("result", {}).get("action") or json.dumps(answer)

    def event(self, message):
        data = b"data: " + json.dumps(message).encode() + b"\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
