"""Checks what a collector took of runs of the demo: names, parents and values.

usage: check_telemetry.py FILE PROTOCOL=TEAM...    the protocols that must be there, with the header `x-team` of their requests;
                                                   those of the team `older` have the older names
"""

import json
import sys

OPERATIONS = {"invoke_workflow", "invoke_agent", "plan", "chat", "execute_tool"}
PARENTS = {
    "invoke_agent": {"invoke_workflow"},
    "plan": {"invoke_workflow"},
    "execute_tool": {"invoke_agent"},
    "chat": {"invoke_agent", "plan", "invoke_workflow"},
}


class Names:
    """The names of a version of the conventions."""

    def __init__(self, is_older):
        self.is_older = is_older
        self.schema = f"https://opentelemetry.io/schemas/gen-ai/{'1.42.0' if is_older else '0.1.0'}"
        self.workflow = "gen_ai.workflow.name" if is_older else "gen_ai.agent.name"
        self.calls = "gen_ai.client.operation.duration" if is_older else "gen_ai.client.inference.duration"
        self.cache_write = f"gen_ai.usage.cache_{'creation' if is_older else 'write'}.input_tokens"


def value(any_value):
    (kind, content), = any_value.items()
    if kind == "intValue":
        return int(content)
    if kind == "arrayValue":
        return [value(item) for item in content.get("values", [])]
    return content


def attributes(holder):
    return {pair["key"]: value(pair["value"]) for pair in holder.get("attributes", [])}


def check_spans(requests, names):
    spans = {}
    for request in requests:
        for resource in request["message"]["resourceSpans"]:
            assert attributes(resource["resource"])["service.name"] == "rawko-demo", resource["resource"]
            for scope in resource["scopeSpans"]:
                assert scope["schemaUrl"] == names.schema, scope["schemaUrl"]
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
            "invoke_workflow": names.workflow,
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
            assert has[names.cache_write] >= 0, has
    assert seen == OPERATIONS, seen
    return spans


def check_metrics(requests, spans, names):
    metrics = requests[-1]["message"]["resourceMetrics"][0]["scopeMetrics"][0]
    assert metrics["schemaUrl"] == names.schema
    found = {metric["name"]: metric for metric in metrics["metrics"]}

    def count(name):
        return sum(int(point["count"]) for point in found[name]["histogram"]["dataPoints"])

    def total(name):
        assert found[name]["sum"]["isMonotonic"], found[name]
        return sum(int(point["asInt"]) for point in found[name]["sum"]["dataPoints"])

    def tokens(kind):
        return sum(attributes(span)[f"gen_ai.usage.{kind}_tokens"] for span in spans.values() if span["name"].startswith("chat "))

    def operations(operation):
        return sum(attributes(span).get("gen_ai.operation.name") == operation for span in spans.values())

    assert count("gen_ai.execute_tool.duration") == operations("execute_tool")
    assert count(names.calls) == operations("chat")
    if names.is_older:
        assert count("gen_ai.workflow.duration") == 1
        assert count("gen_ai.invoke_agent.duration") == operations("invoke_agent")
        assert count("gen_ai.client.token.usage") == 2 * operations("chat")
        return
    assert count("gen_ai.invoke_agent.duration") == operations("invoke_agent") + 1
    for kind in ("input", "output"):
        assert count(f"gen_ai.client.inference.operation.{kind}_tokens") == operations("chat")
        assert total(f"gen_ai.client.inference.usage.{kind}_tokens") == tokens(kind), kind
    # The demo's model counts no input.
    assert tokens("output") > 0
    assert not [name for name in found if name in ("gen_ai.workflow.duration", "gen_ai.client.token.usage")], set(found)


with open(sys.argv[1], encoding="utf-8") as file:
    requests = [json.loads(line) for line in file]
for argument in sys.argv[2:]:
    protocol, team = argument.split("=")
    names = Names(team == "older")
    of = [request for request in requests if request["how"] == protocol and request["headers"].get("x-team") == team]
    spans = check_spans([request for request in of if "resourceSpans" in request["message"]], names)
    check_metrics([request for request in of if "resourceMetrics" in request["message"]], spans, names)
    print(f"{argument}: {len(spans)} spans and their metrics are right")
