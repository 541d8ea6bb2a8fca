"""Checks what a collector took of runs of the demo: names, parents and values.

usage: check_telemetry.py FILE PROTOCOL...    the protocols that must be there
"""

import json
import sys

SCHEMA = "https://opentelemetry.io/schemas/gen-ai/1.42.0"
OPERATIONS = {"invoke_workflow", "invoke_agent", "plan", "chat", "execute_tool"}
PARENTS = {
    "invoke_agent": {"invoke_workflow"},
    "plan": {"invoke_workflow"},
    "execute_tool": {"invoke_agent"},
    "chat": {"invoke_agent", "plan", "invoke_workflow"},
}
METRICS = {
    "gen_ai.client.operation.duration",
    "gen_ai.client.token.usage",
    "gen_ai.execute_tool.duration",
    "gen_ai.invoke_agent.duration",
    "gen_ai.workflow.duration",
}


def value(any_value):
    (kind, content), = any_value.items()
    if kind == "intValue":
        return int(content)
    if kind == "arrayValue":
        return [value(item) for item in content.get("values", [])]
    return content


def attributes(holder):
    return {pair["key"]: value(pair["value"]) for pair in holder.get("attributes", [])}


def check_spans(requests):
    spans = {}
    for request in requests:
        for resource in request["message"]["resourceSpans"]:
            assert attributes(resource["resource"])["service.name"] == "rawko-demo", resource["resource"]
            for scope in resource["scopeSpans"]:
                assert scope["schemaUrl"] == SCHEMA, scope["schemaUrl"]
                for span in scope["spans"]:
                    assert span["spanId"] not in spans, f"twice: {span['name']}"
                    spans[span["spanId"]] = span
    assert len({span["traceId"] for span in spans.values()}) == 1
    seen = set()
    for span in spans.values():
        has = attributes(span)
        operation = has.get("gen_ai.operation.name")
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]), span
        if operation is None:
            assert span["name"].startswith("rawko."), span["name"]
            continue
        seen.add(operation)
        named = {
            "invoke_workflow": "gen_ai.workflow.name",
            "invoke_agent": "gen_ai.agent.name",
            "plan": "gen_ai.agent.name",
            "chat": "gen_ai.request.model",
            "execute_tool": "gen_ai.tool.name",
        }[operation]
        assert span["name"] == f"{operation} {has[named]}", span["name"]
        assert span["kind"] == ("SPAN_KIND_CLIENT" if operation == "chat" else "SPAN_KIND_INTERNAL"), span
        assert not any(key.endswith(".messages") for key in has), "content without being asked"
        if operation == "invoke_workflow":
            assert "parentSpanId" not in span and has["rawko.status"] == "verified", has
            continue
        parent = spans[span["parentSpanId"]]
        assert attributes(parent)["gen_ai.operation.name"] in PARENTS[operation], (span["name"], parent["name"])
        assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"]), (span["name"], parent["name"])
        assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"]), (span["name"], parent["name"])
        if operation == "chat":
            assert has["gen_ai.response.finish_reasons"], has
            assert has["gen_ai.usage.input_tokens"] >= 0 and has["gen_ai.usage.output_tokens"] >= 0, has
    assert seen == OPERATIONS, seen
    return spans


def check_metrics(requests, spans):
    metrics = requests[-1]["message"]["resourceMetrics"][0]["scopeMetrics"][0]
    assert metrics["schemaUrl"] == SCHEMA
    found = {metric["name"]: metric for metric in metrics["metrics"]}
    assert METRICS <= set(found), set(found)

    def count(name):
        return sum(int(point["count"]) for point in found[name]["histogram"]["dataPoints"])

    def operations(operation):
        return sum(attributes(span).get("gen_ai.operation.name") == operation for span in spans.values())

    assert count("gen_ai.workflow.duration") == 1
    assert count("gen_ai.invoke_agent.duration") == operations("invoke_agent")
    assert count("gen_ai.execute_tool.duration") == operations("execute_tool")
    assert count("gen_ai.client.token.usage") == 2 * operations("chat")


with open(sys.argv[1], encoding="utf-8") as file:
    requests = [json.loads(line) for line in file]
for protocol in sys.argv[2:]:
    of = [request for request in requests if request["how"] == protocol]
    assert all(request["headers"]["x-team"] == "a" for request in of), "a header is missing"
    spans = check_spans([request for request in of if "resourceSpans" in request["message"]])
    check_metrics([request for request in of if "resourceMetrics" in request["message"]], spans)
    print(f"{protocol}: {len(spans)} spans and their metrics are right")
