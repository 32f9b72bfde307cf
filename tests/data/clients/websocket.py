# A websocket by hand, through the proxy where there is one: says hello and tells what came back.
import base64
import os
import socket
import ssl
import sys
from urllib.parse import urlparse

url = urlparse(sys.argv[1])
proxy = urlparse(os.environ.get("HTTPS_PROXY", ""))
if proxy.hostname:
    plain = socket.create_connection((proxy.hostname, proxy.port), 20)
    plain.sendall(f"CONNECT {url.netloc} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
    answer = plain.recv(4096)
    if b" 200 " not in answer:
        sys.exit(answer.decode())
else:
    plain = socket.create_connection((url.hostname, url.port), 20)
stream = ssl.create_default_context().wrap_socket(plain, server_hostname=url.hostname)
key = base64.b64encode(os.urandom(16)).decode()
stream.sendall((f"GET {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
reader = stream.makefile("rb")
status = reader.readline().decode().strip()
print(status)
while reader.readline().strip():
    pass
if " 101 " not in status:
    print(reader.read().decode())
    sys.exit(1)
mask = os.urandom(4)
text = b"hello"
stream.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(text)))
first, length = reader.read(2)
payload = reader.read(length)
if first == 0x81:
    print("heard", payload.decode())
else:
    print("closed", int.from_bytes(payload[:2], "big"), payload[2:].decode())
