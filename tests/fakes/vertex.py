"""Claude on Vertex AI, and Google's token service, as their public documentation describes them.

Arguments: the RSA modulus of the service account's key in hexadecimal, the result that it hands in, and how many of the tokens
that it makes it revokes at once. Prints its port. Every request that it takes is one JSON line on standard output; a request that breaks a rule gets an error as Google writes
it.
"""
import base64
import hashlib
import json
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from claude import answer, events

MODULUS = int(sys.argv[1], 16)
EXPONENT = 65537
TOKEN = "ya29.made-by-the-fake-token-service"
REVOKED = int(sys.argv[3]) if len(sys.argv) > 3 else 0
MADE = []
SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
MODEL = re.compile(
    r"^/v1/projects/(?P<project>[a-z0-9-]+)/locations/(?P<region>[a-z0-9-]+)/publishers/anthropic/models/"
    r"(?P<model>[a-z0-9.@-]+):(?P<method>rawPredict|streamRawPredict)$"
)


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def signature_is_right(signed, signature):
    length = (MODULUS.bit_length() + 7) // 8
    if len(signature) != length:
        return False
    block = pow(int.from_bytes(signature, "big"), EXPONENT, MODULUS).to_bytes(length, "big")
    digest = SHA256_PREFIX + hashlib.sha256(signed.encode()).digest()
    return block == b"\x00\x01" + b"\xff" * (length - 3 - len(digest)) + b"\x00" + digest


def assertion_problem(assertion, audience):
    header, claims, signature = assertion.split(".")
    if json.loads(decoded(header))["alg"] != "RS256":
        return "the algorithm is not RS256"
    if not signature_is_right(f"{header}.{claims}", decoded(signature)):
        return "Invalid JWT Signature."
    claims = json.loads(decoded(claims))
    now = time.time()
    if claims["iss"] != "runner@example.iam.gserviceaccount.com" or claims["aud"] != audience:
        return "Invalid issuer or audience."
    if claims["scope"] != "https://www.googleapis.com/auth/cloud-platform":
        return "Invalid scope."
    if not claims["iat"] - 60 <= now < claims["exp"] <= claims["iat"] + 3600:
        return "Invalid JWT: Token must be a short-lived token (60 minutes)."
    return None


RESULT = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {"summary": "done by Vertex"}


class Vertex(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, words):
        error = {"error": {"code": status, "message": words, "status": "REFUSED"}}
        self.send(status, "application/json", json.dumps(error).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        print(json.dumps({"path": self.path, "headers": dict(self.headers), "body": body.decode()}) + "\n", end="", flush=True)
        if self.path == "/token":
            return self.token(parse_qs(body.decode(), strict_parsing=True))
        found = MODEL.match(self.path)
        if not found:
            return self.refuse(404, "no such method")
        valid = [f"Bearer {token}" for token in MADE[REVOKED:]]
        if self.headers["authorization"] not in valid or "x-api-key" in self.headers:
            return self.refuse(401, "Request had invalid authentication credentials.")
        request = json.loads(body)
        if request.get("anthropic_version") != "vertex-2023-10-16" or "model" in request:
            return self.refuse(400, "anthropic_version: Field required")
        if (found["method"] == "streamRawPredict") != bool(request.get("stream")):
            return self.refuse(400, "the method and `stream` differ")
        if not request.get("stream"):
            return self.send(200, "application/json", json.dumps(answer(request, RESULT)).encode())
        whole = answer(request, RESULT)
        frames = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events(whole))
        return self.send(200, "text/event-stream; charset=utf-8", frames.encode())

    def token(self, form):
        if form.get("grant_type") == ["refresh_token"]:
            user = [form[name][0] for name in ("client_id", "client_secret", "refresh_token")]
            problem = None if user == ["client-1", "secret-1", "refresh-1"] else "Bad Request"
        else:
            audience = f"http://{self.headers['host']}/token"
            problem = assertion_problem(form["assertion"][0], audience)
        if problem:
            error = {"error": "invalid_grant", "error_description": problem}
            return self.send(400, "application/json", json.dumps(error).encode())
        MADE.append(f"{TOKEN}-{len(MADE)}")
        grant = {"access_token": MADE[-1], "expires_in": 3599, "token_type": "Bearer"}
        return self.send(200, "application/json", json.dumps(grant).encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Vertex)
print(server.server_port, flush=True)
server.serve_forever()
