"""Claude on Amazon Bedrock, as AWS's public documentation describes it: it checks the signature of every request (SigV4),
its date, the form of the body, and answers in the event stream's framing.

Argument: the result that it hands in. Prints its port. Every request that it takes is one JSON line on standard output; a
request that breaks a rule gets an error as AWS writes it.
"""
import datetime
import hashlib
import hmac
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

from amazon_frames import framed
from claude import answer, events

KEYS = {"AKIAFAKEFAKEFAKE0001": "secret/of+the-fake-key-for-the-tests-0001"}
SESSION = "session-token-of-the-fake"
BEARER = "bedrock-api-key-of-the-fake"
MODEL = re.compile(r"^/model/(?P<model>[^/]+)/(?P<method>invoke|invoke-with-response-stream)$")
FORM = re.compile(
    r"^AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<date>\d{8})/(?P<region>[a-z0-9-]+)/(?P<service>[a-z]+)/aws4_request, "
    r"SignedHeaders=(?P<names>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})$"
)


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def problem(handler, body):
    header = handler.headers["authorization"] or ""
    if header == f"Bearer {BEARER}":
        return None
    form = FORM.match(header)
    if not form or form["id"] not in KEYS:
        return "The security token included in the request is invalid."
    names = form["names"].split(";")
    if names != sorted(names) or "host" not in names or "x-amz-date" not in names:
        return "the signed headers are not complete"
    if handler.headers["x-amz-security-token"] != SESSION or "x-amz-security-token" not in names:
        return "The security token included in the request is expired"
    time = handler.headers["x-amz-date"]
    sent = datetime.datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    if abs((datetime.datetime.now(datetime.timezone.utc) - sent).total_seconds()) > 300 or form["date"] != time[:8]:
        return "Signature expired"
    if form["service"] != "bedrock" or form["region"] != "eu-west-1":
        return "Credential should be scoped to a valid region."
    lines = "".join(f"{name}:{' '.join(handler.headers[name].split())}\n" for name in names)
    path = quote(handler.path, safe="/-._~")
    canonical = "\n".join(["POST", path, "", lines, form["names"], hashlib.sha256(body).hexdigest()])
    scope = f"{form['date']}/{form['region']}/{form['service']}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + KEYS[form["id"]]).encode()
    for part in scope.split("/"):
        key = mac(key, part)
    if mac(key, text).hex() != form["signature"]:
        return "The request signature we calculated does not match the signature you provided."
    return None


RESULT = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {"summary": "done by Bedrock"}


class Bedrock(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("x-amzn-requestid", "11112222")
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, words):
        self.send(status, "application/json", json.dumps({"message": words}).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        print(json.dumps({"path": self.path, "headers": dict(self.headers), "body": body.decode()}) + "\n", end="", flush=True)
        found = MODEL.match(self.path)
        if not found:
            return self.refuse(404, "UnknownOperationException")
        wrong = problem(self, body)
        if wrong:
            return self.refuse(403, wrong)
        request = json.loads(body)
        if request.get("anthropic_version") != "bedrock-2023-05-31" or {"model", "stream"} & set(request):
            return self.refuse(400, "Malformed input request")
        if "anthropic-beta" in self.headers:
            return self.refuse(400, "betas belong into the body")
        if found["method"] == "invoke":
            return self.send(200, "application/json", json.dumps(answer(request, RESULT)).encode())
        frames = b"".join(framed(event) for event in events(answer(request, RESULT)))
        return self.send(200, "application/vnd.amazon.eventstream", frames)


server = ThreadingHTTPServer(("127.0.0.1", 0), Bedrock)
print(server.server_port, flush=True)
server.serve_forever()
