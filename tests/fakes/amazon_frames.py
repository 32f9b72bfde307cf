"""The frames in which Amazon's services stream events, as AWS's public documentation describes them."""
import base64
import json
import struct
import zlib


def framed(event):
    payload = json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "abcd"}).encode()
    headers = b""
    for name, value in {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}.items():
        headers += struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
    start = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = start + struct.pack("!I", zlib.crc32(start)) + headers + payload
    return message + struct.pack("!I", zlib.crc32(message))
