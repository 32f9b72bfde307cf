#!/usr/bin/env python3
"""Answers the agent's questions about one issue; the token stays on this side."""
import http.server
import json
import os
import urllib.request

REPO, ISSUE = os.environ.get("REPO_FULL_NAME", ""), os.environ.get("ISSUE_NUMBER", "")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        # Everybody on the host can connect; only the run's own proxy knows the token.
        if self.headers.get("Authorization") != "Bearer " + os.environ["FULLSEND_API_TOKEN"]:
            return self.reply(401, {"error": "who are you?"})
        if self.path == "/health":
            return self.reply(200, {"ok": True})
        if self.path != "/issue":
            return self.reply(404, {"error": "only /issue is served"})
        url = f"https://api.github.com/repos/{REPO}/issues/{ISSUE}"
        request = urllib.request.Request(url, headers={"Authorization": "Bearer " + os.environ["GH_TOKEN"]})
        with urllib.request.urlopen(request, timeout=20) as answer:
            self.reply(200, json.load(answer))

    def reply(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
