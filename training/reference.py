"""Scores texts with a weights file in plain 32-bit arithmetic: the reference that the Rust crate is compared with.

    python3 training/reference.py models/injection.weights models/parity.jsonl.gz [OUTPUT.jsonl.gz]

Training scores come from an accelerator, which rounds products differently. This program reads the same rounded weights as
the Rust crate does. It needs NumPy alone. With OUTPUT it writes the rows again with its own scores.
"""

import gzip
import json
import math
import struct
import sys

import numpy as np

import tokens as tok

LAYERS, HEADS = 6, 12


def load(path):
    """The tensors of a weights file as floats, and its header."""
    data = open(path, "rb").read()
    assert data[:8] == b"FSINJ001"
    (length,) = struct.unpack("<I", data[8:12])
    header, blob = json.loads(data[12 : 12 + length]), data[12 + length :]
    tensors = {}
    for entry in header["tensors"]:
        raw = blob[entry["at"] : entry["at"] + entry["bytes"]]
        scale = np.frombuffer(blob[entry["scale_at"] : entry["scale_at"] + entry["scale_bytes"]], "<f4")
        if entry["kind"] == "text":
            tensors[entry["name"]] = raw.decode()
            continue
        if entry["kind"] == "f32":
            tensors[entry["name"]] = np.frombuffer(raw, "<f4").reshape(entry["shape"])
            continue
        values = np.frombuffer(raw, np.uint8 if entry["kind"] == "i4" else np.int8)
        if entry["kind"] == "i4":
            values = np.stack([values & 15, values >> 4], 1).reshape(-1).astype(np.int8) - 8
        values = values.reshape(entry["shape"]).astype(np.float32)
        tensors[entry["name"]] = values * (scale[:, None] if len(entry["shape"]) == 2 else scale)
    return tensors, header


def norm(x, weight, bias):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12) * weight + bias


ERF = np.vectorize(math.erf, otypes=[np.float32])


def encode(tensors, ids):
    x = norm(tensors["words"][ids] + tensors["places.weight"][: len(ids)], tensors["norm.weight"], tensors["norm.bias"])
    for number in range(LAYERS):
        get = lambda name: tensors[f"layers.{number}.{name}"]
        query, key, value = np.split(x @ get("qkv.weight").T + get("qkv.bias"), 3, axis=1)
        cut = lambda part: part.reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
        scores = cut(query) @ cut(key).transpose(0, 2, 1) / math.sqrt(query.shape[1] // HEADS)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        attended = (scores @ cut(value)).transpose(1, 0, 2).reshape(len(ids), -1)
        x = norm(x + attended @ get("out.weight").T + get("out.bias"), get("norm1.weight"), get("norm1.bias"))
        wide = x @ get("up.weight").T + get("up.bias")
        wide = 0.5 * wide * (1 + ERF(wide / math.sqrt(2)))
        x = norm(x + wide @ get("down.weight").T + get("down.bias"), get("norm2.weight"), get("norm2.bias"))
    return float(x.mean(0) @ tensors["head.weight"].reshape(-1) + tensors["head.bias"][0])


def grams(tensors, part, origin):
    features = tok.features(part, origin)
    return float(tensors["grams"].reshape(-1)[features].sum() / math.sqrt(len(features)) + tensors["grams.bias"][0])


def main():
    tensors, _ = load(sys.argv[1])
    pieces = tok.WordPieces.__new__(tok.WordPieces)
    pieces.vocabulary = {piece: number for number, piece in enumerate(tensors["vocabulary"].split("\n"))}
    pieces.unknown, pieces.start, pieces.end = (pieces.vocabulary[word] for word in ("[UNK]", "[CLS]", "[SEP]"))
    rows, worst = [json.loads(line) for line in gzip.open(sys.argv[2], "rt")], 0.0
    for row in rows:
        parts = tok.windows(tok.basic(row["text"]))
        score = max(encode(tensors, pieces.encode(part, row["origin"])) for part in parts)
        worst = max(worst, abs(score - row["encoder"]))
        row["encoder"] = round(score, 5)
        row["grams"] = round(max(grams(tensors, part, row["origin"]) for part in parts), 5)
    print(f"{len(rows)} rows, largest difference of the encoder's score: {worst:.5f}")
    if len(sys.argv) > 3:
        with gzip.open(sys.argv[3], "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
