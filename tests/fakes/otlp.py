"""A receiver of OTLP over HTTP in its JSON form, on the messages of opentelemetry-proto. It prints its port, then a line for
each request that it takes. A request that the messages do not describe is refused with 400 and the reason."""

import base64
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service

IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def with_ids(value):
    """OTLP writes ids in hexadecimal, protobuf's own JSON in base64."""
    if isinstance(value, list):
        return [with_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    changed = {}
    for key, inner in value.items():
        if key in IDS and inner:
            raw = bytes.fromhex(inner)
            assert len(raw) == IDS[key], f"{key} has {len(raw)} bytes"
            inner = base64.b64encode(raw).decode()
        changed[key] = with_ids(inner)
    return changed


def check_spans(request):
    spans = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
    ids = {span.span_id for span in spans}
    assert len(ids) == len(spans), "an id is used twice"
    roots = [span for span in spans if not span.parent_span_id]
    for span in spans:
        assert len(span.trace_id) == 16 and span.name and span.kind, f"incomplete: {span}"
        assert not span.parent_span_id or span.parent_span_id in ids, f"{span.name} has no parent"
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, f"{span.name} ends before it starts"
    return f"{len(spans)} spans, {len(roots)} root"


def check_metrics(request):
    metrics = [metric for one in request.resource_metrics for scope in one.scope_metrics for metric in scope.metrics]
    for metric in metrics:
        data = getattr(metric, metric.WhichOneof("data"))
        assert data.aggregation_temporality and data.data_points, f"incomplete: {metric}"
        for point in data.data_points:
            assert 0 < point.start_time_unix_nano <= point.time_unix_nano
            if metric.HasField("histogram"):
                assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                assert sum(point.bucket_counts) == point.count > 0
    return f"{len(metrics)} metrics"


SIGNALS = {
    "/v1/traces": (trace_service.ExportTraceServiceRequest, trace_service.ExportTraceServiceResponse, check_spans),
    "/v1/metrics": (metrics_service.ExportMetricsServiceRequest, metrics_service.ExportMetricsServiceResponse, check_metrics),
}


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = 200, b"{}"
        try:
            assert self.headers["Content-Type"] == "application/json"
            request, response, check = SIGNALS[self.path]
            parsed = json_format.ParseDict(with_ids(json.loads(body)), request())
            print(self.path, check(parsed), flush=True)
            answer = json_format.MessageToJson(response()).encode()
        except Exception as why:  # whatever is wrong with it is the sender's mistake
            print(self.path, "refused", repr(why), flush=True)
            status, answer = 400, repr(why).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
