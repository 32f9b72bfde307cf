"""A company's proxy, as RFC 9110 describes CONNECT: it asks for a user and a password, and may itself be reached over TLS.

Argument: JSON with `user` (`name:password`), `routes` (HOST:PORT to a port of this machine), and optionally `tls` (the files of
a certificate and its key for the proxy itself) and `serve` (the same for hosts: the proxy ends their TLS here, before a server
that speaks plain HTTP). Prints its port. Every CONNECT is one JSON line on standard output.
"""
import base64
import json
import socket
import ssl
import sys
import threading

SETTINGS = json.loads(sys.argv[1])
EXPECTED = "Basic " + base64.b64encode(SETTINGS["user"].encode()).decode()


def context(files):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*files)
    return made


def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def join(one, other):
    back = threading.Thread(target=copy, args=(other, one), daemon=True)
    back.start()
    copy(one, other)
    back.join()
    one.close()
    other.close()


def serve_host(client, port):
    """The host that the client asked for: TLS with a certificate of its own."""
    try:
        secured = context(SETTINGS["serve"]).wrap_socket(client, server_side=True)
    except (OSError, ssl.SSLError):
        return
    join(secured, socket.create_connection(("127.0.0.1", port)))


def reach(place):
    port = SETTINGS["routes"].get(place)
    if port is None:
        return None
    if "serve" not in SETTINGS:
        return socket.create_connection(("127.0.0.1", port))
    near, far = socket.socketpair()
    threading.Thread(target=serve_host, args=(far, port), daemon=True).start()
    return near


def serve(client):
    try:
        if "tls" in SETTINGS:
            client = context(SETTINGS["tls"]).wrap_socket(client, server_side=True)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = client.recv(1)
            if not byte or len(head) > 16384:
                return
            head += byte
    except (OSError, ssl.SSLError):
        return
    lines = head.decode().split("\r\n")
    method, place, _ = lines[0].split(" ")
    headers = dict(line.lower().split(": ", 1) if ": " in line else (line, "") for line in lines[1:] if line)
    given = [line.split(": ", 1)[1] for line in lines[1:] if line.lower().startswith("proxy-authorization:")]
    is_known = given == [EXPECTED]
    print(json.dumps({"path": place, "method": method, "host": headers.get("host"), "known": is_known}), flush=True)
    if not is_known:
        client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm=\"company\"\r\n\r\n")
        return client.close()
    server = reach(place) if method == "CONNECT" else None
    if server is None:
        client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        return client.close()
    client.sendall(b"HTTP/1.1 200 Connection established\r\nvia: company\r\n\r\n")
    join(client, server)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    accepted, _ = listener.accept()
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
