"""Amazon S3 in memory, as AWS's public documentation describes it: it checks the signature of every request (SigV4), the
hash of its body or the checksum behind its chunks, and its date. Objects can be put, read (also in part), listed and
deleted. There is every bucket but `no-such-bucket`.

With a file as its argument it also fails: the words in the file, one for each request, say how. `busy` is answered with 503,
`cut` breaks off in the middle of the body, `changed` sends other bytes, `slow` waits for a minute, `ok` does nothing.

It is also the metadata server of an EC2 instance with the role `fleet`, which answers nothing without the token that a PUT got.

Prints its port. Every request is one JSON line on standard output, with `problem` where a rule is broken; such a request gets
an error as S3 writes it.
"""
import base64
import datetime
import hashlib
import hmac
import json
import re
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote

KEYS = {"AKIAFAKEFAKEFAKE0002": "secret/of+the-fake-key-for-the-tests-0002"}
SESSION = "session-token-of-the-fake-s3"
FORM = re.compile(
    r"^AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<date>\d{8})/(?P<region>[a-z0-9-]+)/(?P<service>[a-z0-9-]+)/aws4_request, "
    r"SignedHeaders=(?P<names>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})$"
)
OBJECTS = {}
FAULTS = sys.argv[1] if len(sys.argv) > 1 else None
LOCK = threading.Lock()


def next_fault():
    """Takes the first word of the file."""
    if not FAULTS:
        return "ok"
    with LOCK, open(FAULTS, "r+") as file:
        words = file.read().split()
        file.seek(0)
        file.truncate()
        # The word `always` makes the one before it stay.
        if words[1:2] != ["always"]:
            words, first = words[1:], (words or ["ok"])[0]
        else:
            first = words[0]
        file.write(" ".join(words))
    return first


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def canonical_query(query):
    pairs = parse_qsl(query, keep_blank_values=True)
    return "&".join(f"{quote(n, safe='-._~')}={quote(v, safe='-._~')}" for n, v in sorted(pairs))


def problem(handler, raw):
    """What is wrong with the signature."""
    form = FORM.match(handler.headers["authorization"] or "")
    if not form or form["id"] not in KEYS:
        return "InvalidAccessKeyId"
    if (form["service"], form["region"]) != ("s3", "eu-west-1"):
        return "AuthorizationHeaderMalformed"
    names = form["names"].split(";")
    sent = {name.lower() for name in handler.headers.keys()}
    must = {"host", *(name for name in sent if name.startswith("x-amz-"))}
    if names != sorted(names) or not must <= set(names):
        return "AccessDenied: headers are not signed: " + ", ".join(sorted(must - set(names)))
    if handler.headers["x-amz-security-token"] != SESSION:
        return "InvalidToken"
    date = handler.headers["x-amz-date"]
    then = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    if abs((datetime.datetime.now(datetime.timezone.utc) - then).total_seconds()) > 300 or form["date"] != date[:8]:
        return "RequestTimeTooSkewed"
    path, _, query = handler.path.partition("?")
    path = "/".join(quote(unquote(part), safe="-._~") for part in path.split("/"))
    lines = "".join(f"{n}:{' '.join(','.join(handler.headers.get_all(n)).split())}\n" for n in names)
    stated = handler.headers["x-amz-content-sha256"]
    canonical = "\n".join([handler.command, path, canonical_query(query), lines, form["names"], stated])
    scope = f"{form['date']}/{form['region']}/{form['service']}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + KEYS[form["id"]]).encode()
    for part in scope.split("/"):
        key = mac(key, part)
    if mac(key, text).hex() != form["signature"]:
        return "SignatureDoesNotMatch"
    if stated not in ("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER") and stated != hashlib.sha256(raw).hexdigest():
        return "XAmzContentSHA256Mismatch"
    return None


def unchunked(raw):
    """The body within `aws-chunked`, and its trailer."""
    body = b""
    while True:
        size, raw = raw.split(b"\r\n", 1)
        size = int(size.split(b";")[0], 16)
        if size == 0:
            trailer = dict(line.split(b":", 1) for line in raw.split(b"\r\n") if line)
            return body, {k.decode(): v.strip().decode() for k, v in trailer.items()}
        body, raw = body + raw[:size], raw[size + 2:]


class S3(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def body(self):
        if "chunked" in (self.headers["transfer-encoding"] or ""):
            whole = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                whole += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    return whole
        return self.rfile.read(int(self.headers["content-length"] or 0))

    def send(self, status, body=b"", **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        # As S3 does: the error repeats the id of the key.
        form = FORM.match(self.headers["authorization"] or "")
        said = f"<AWSAccessKeyId>{form['id']}</AWSAccessKeyId>" if form else ""
        text = f"<?xml version='1.0'?><Error><Code>{code.split(':')[0]}</Code><Message>{code}</Message>{said}</Error>"
        self.send(status, text.encode(), content_type="application/xml")

    def serve_metadata(self):
        print(json.dumps({"method": self.command, "path": self.path}) + "\n", end="", flush=True)
        if (self.command, self.path) == ("PUT", "/latest/api/token"):
            lifetime = self.headers["x-aws-ec2-metadata-token-ttl-seconds"] or "0"
            return self.send(200, b"opened") if 1 <= int(lifetime) <= 21600 else self.send(400)
        if self.headers["x-aws-ec2-metadata-token"] != "opened":
            return self.send(401)
        roles = "/latest/meta-data/iam/security-credentials/"
        if self.path == roles:
            return self.send(200, b"fleet")
        if self.path != roles + "fleet":
            return self.send(404)
        until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=6)
        key_id, secret = next(iter(KEYS.items()))
        key = {"Code": "Success", "AccessKeyId": key_id, "SecretAccessKey": secret, "Token": SESSION}
        return self.send(200, json.dumps(key | {"Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ")}).encode())

    def serve(self):
        raw = self.body()
        if self.path.startswith("/latest/"):
            return self.serve_metadata()
        fault = next_fault()
        wrong = problem(self, raw)
        line = {"method": self.command, "path": self.path, "headers": dict(self.headers), "problem": wrong, "fault": fault}
        print(json.dumps(line) + "\n", end="", flush=True)
        if wrong:
            return self.refuse(403, wrong)
        if fault == "busy":
            return self.refuse(503, "SlowDown: Please reduce your request rate.")
        if fault == "slow":
            time.sleep(60)
        path, _, query = self.path.partition("?")
        key = unquote(path)
        if key.startswith("/no-such-bucket/"):
            return self.refuse(404, "NoSuchBucket: The specified bucket does not exist")
        if self.command == "PUT":
            body = raw
            if self.headers["x-amz-content-sha256"].startswith("STREAMING-"):
                body, trailer = unchunked(raw)
                crc = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
                if trailer.get("x-amz-checksum-crc32") != crc:
                    return self.refuse(400, "BadDigest")
            OBJECTS[key] = body
            return self.send(200, etag='"%s"' % hashlib.md5(body).hexdigest())
        if "list-type" in query:
            names = "".join(f"<Contents><Key>{k.split('/', 2)[2]}</Key></Contents>" for k in sorted(OBJECTS))
            text = f"<?xml version='1.0'?><ListBucketResult>{names}</ListBucketResult>"
            return self.send(200, text.encode(), content_type="application/xml")
        if key not in OBJECTS:
            return self.refuse(404, "NoSuchKey")
        if self.command == "DELETE":
            del OBJECTS[key]
            return self.send(204)
        body = OBJECTS[key] if fault != "changed" else b"other bytes"
        if fault == "cut":
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.close_connection = True
            return self.connection.shutdown(2)
        part = re.match(r"bytes=(\d+)-(\d+)$", self.headers["range"] or "")
        if part:
            first, last = int(part[1]), min(int(part[2]), len(body) - 1)
            return self.send(206, body[first:last + 1], content_range=f"bytes {first}-{last}/{len(body)}")
        return self.send(200, body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = serve


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), S3)
    print(server.server_port, flush=True)
    server.serve_forever()
