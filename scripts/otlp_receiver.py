"""A collector that others' code makes: it takes OTLP by gRPC and HTTP with the protocol's own Python library, and writes what it
took to a file, one JSON object a request.

usage: otlp_receiver.py FILE    prints the ports of gRPC and HTTP, and runs until its standard input ends
"""

import base64
import json
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.protobuf.json_format import MessageToDict, Parse
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

out = open(sys.argv[1], "w", encoding="utf-8")
writing = threading.Lock()

REQUESTS = {
    "/v1/traces": (trace_service_pb2.ExportTraceServiceRequest, trace_service_pb2.ExportTraceServiceResponse),
    "/v1/metrics": (metrics_service_pb2.ExportMetricsServiceRequest, metrics_service_pb2.ExportMetricsServiceResponse),
}


def keep(how, headers, message):
    with writing:
        line = {"how": how, "headers": headers, "message": MessageToDict(message)}
        out.write(json.dumps(line) + "\n")
        out.flush()


def ids_in_base64(value):
    """In the JSON of OTLP, ids are hexadecimal; in that of protocol buffers they are base64."""
    if isinstance(value, list):
        return [ids_in_base64(item) for item in value]
    if isinstance(value, dict):
        ids = ("traceId", "spanId", "parentSpanId")
        to_base64 = lambda text: base64.b64encode(bytes.fromhex(text)).decode()
        return {key: to_base64(item) if key in ids else ids_in_base64(item) for key, item in value.items()}
    return value


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        request, response = REQUESTS[self.path]
        headers = {name.lower(): value for name, value in self.headers.items()}
        if headers["content-type"] == "application/json":
            keep("http/json", headers, Parse(json.dumps(ids_in_base64(json.loads(body))), request()))
            answer = b"{}"
        else:
            keep("http/protobuf", headers, request.FromString(body))
            answer = response().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", headers["content-type"])
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def taken(response):
    def export(_, request, context):
        keep("grpc", dict(context.invocation_metadata()), request)
        return response()

    return export


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    Export = taken(trace_service_pb2.ExportTraceServiceResponse)


class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    Export = taken(metrics_service_pb2.ExportMetricsServiceResponse)


server = grpc.server(futures.ThreadPoolExecutor(4))
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
grpc_port = server.add_insecure_port("127.0.0.1:0")
server.start()
web = ThreadingHTTPServer(("127.0.0.1", 0), Http)
threading.Thread(target=web.serve_forever, daemon=True).start()
print(grpc_port, web.server_port, flush=True)
sys.stdin.read()
web.shutdown()
server.stop(None).wait()
