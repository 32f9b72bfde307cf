"""Trains both stages, measures them, and writes the weights.

    python3 train.py DATA MODEL OUT [--quick]

DATA holds `carriers.jsonl` and `attacks.jsonl` (collect.py), MODEL the MiniLM-L6 weights and tokenizer, OUT receives
`injection.weights`, `parity.jsonl.gz` and `report.json`.
"""
import collections
import gzip
import hashlib
import json
import multiprocessing
import pathlib
import random
import struct
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file

import generate
import tokens as tok

LAYERS, HIDDEN, HEADS, FEED = 6, 384, 12, 1536
DEVICE = "cuda"
PIECES = None


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)
        self.norm1 = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.up = nn.Linear(HIDDEN, FEED)
        self.down = nn.Linear(FEED, HIDDEN)
        self.norm2 = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, HEADS, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + F.dropout(self.out(a.transpose(1, 2).reshape(b, t, HIDDEN)), 0.1, self.training))
        return self.norm2(x + F.dropout(self.down(F.gelu(self.up(x))), 0.1, self.training))


class Encoder(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.words = nn.Embedding(30522, HIDDEN)
        self.places = nn.Embedding(tok.PIECES, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(HIDDEN, 1)
        self.load(weights)

    def load(self, weights):
        get = lambda name: next(v for k, v in weights.items() if k.endswith(name)).float()
        with torch.no_grad():
            self.words.weight.copy_(get("embeddings.word_embeddings.weight"))
            kind = get("embeddings.token_type_embeddings.weight")[0]
            self.places.weight.copy_(get("embeddings.position_embeddings.weight")[: tok.PIECES] + kind)
            self.norm.weight.copy_(get("embeddings.LayerNorm.weight"))
            self.norm.bias.copy_(get("embeddings.LayerNorm.bias"))
            for number, layer in enumerate(self.layers):
                at = f"encoder.layer.{number}."
                parts = [f"{at}attention.self.{name}" for name in ("query", "key", "value")]
                layer.qkv.weight.copy_(torch.cat([get(p + ".weight") for p in parts]))
                layer.qkv.bias.copy_(torch.cat([get(p + ".bias") for p in parts]))
                for module, name in ((layer.out, "attention.output.dense"), (layer.norm1, "attention.output.LayerNorm"), (layer.up, "intermediate.dense"), (layer.down, "output.dense"), (layer.norm2, "output.LayerNorm")):
                    full = at + name
                    module.weight.copy_(get(full + ".weight"))
                    module.bias.copy_(get(full + ".bias"))

    def forward(self, ids):
        mask = (ids != 0)
        x = self.norm(self.words(ids) + self.places.weight[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :])
        x = x.float()
        weight = mask.float()[:, :, None]
        return self.head((x * weight).sum(1) / weight.sum(1)).squeeze(-1)


def prepare(row):
    """Windows as piece ids and as n-gram features."""
    parts = tok.windows(tok.basic(row["text"]))[:4]
    return {**row, "ids": [PIECES.encode(part, row["origin"]) for part in parts], "grams": [np.array(tok.features(part, row["origin"]), np.int64) for part in parts]}


def start(path):
    global PIECES
    PIECES = tok.WordPieces(path)


def batches(rows, size, rng=None):
    """Groups of rows; pairs stay together."""
    units, at = [], 0
    while at < len(rows):
        take = 2 if rows[at]["pair"] is not None and at + 1 < len(rows) and rows[at + 1]["pair"] == rows[at]["pair"] else 1
        units.append(rows[at : at + take])
        at += take
    if rng:
        rng.shuffle(units)
    batch = []
    for unit in units:
        batch += unit
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def pad(batch):
    owner = [number for number, row in enumerate(batch) for _ in row["ids"]]
    longest = max(len(ids) for row in batch for ids in row["ids"])
    ids = np.zeros((len(owner), longest), np.int64)
    at = 0
    for row in batch:
        for part in row["ids"]:
            ids[at, : len(part)] = part
            at += 1
    return torch.from_numpy(ids).to(DEVICE), torch.tensor(owner, device=DEVICE)


def by_row(scores, owner, count):
    return torch.full((count,), -1e4, device=DEVICE).scatter_reduce(0, owner, scores.float(), "amax")


def loss_of(scores, batch):
    label = torch.tensor([float(row["label"]) for row in batch], device=DEVICE)
    loss = F.binary_cross_entropy_with_logits(scores, label)
    first = [n for n in range(len(batch) - 1) if batch[n]["pair"] is not None and batch[n]["pair"] == batch[n + 1]["pair"]]
    if first:
        first = torch.tensor(first, device=DEVICE)
        loss = loss + 0.5 * F.softplus(-(scores[first + 1] - scores[first])).mean()
    return loss


def train_encoder(rows, weights, seed, epochs=2):
    torch.manual_seed(seed)
    model = Encoder(weights).to(DEVICE)
    head = list(model.head.parameters())
    body = [p for n, p in model.named_parameters() if not n.startswith("head")]
    optimizer = torch.optim.AdamW([{"params": body, "lr": 5e-5}, {"params": head, "lr": 5e-4}], weight_decay=0.01, fused=True)
    size = 128
    steps = epochs * (len(rows) // size + 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [5e-5, 5e-4], total_steps=steps + 10, pct_start=0.06)
    model.train()
    for epoch in range(epochs):
        for batch in batches(rows, size, random.Random(seed * 31 + epoch)):
            ids, owner = pad(batch)
            with torch.autocast("cuda", torch.bfloat16):
                scores = model(ids)
            loss = loss_of(by_row(scores, owner, len(batch)), batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return model.eval()


@torch.no_grad()
def encode_scores(model, rows):
    found = []
    for batch in batches([{**row, "pair": None} for row in rows], 256):
        ids, owner = pad(batch)
        found += by_row(model(ids), owner, len(batch)).tolist()
    return np.array(found)


class Grams(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.EmbeddingBag(tok.MASK + 1, 1, mode="sum", sparse=False)
        nn.init.zeros_(self.weight.weight)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, batch):
        parts = [part for row in batch for part in row["grams"]]
        owner = [number for number, row in enumerate(batch) for _ in row["grams"]]
        sizes = np.array([len(part) for part in parts])
        offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)[:-1]])).to(DEVICE)
        scale = sizes**-0.5
        raw = self.weight(torch.from_numpy(np.concatenate(parts)).to(DEVICE), offsets).squeeze(-1)
        scores = raw * torch.tensor(scale, device=DEVICE, dtype=torch.float32) + self.bias
        return by_row(scores, torch.tensor(owner, device=DEVICE), len(batch))


def train_grams(rows, seed, epochs=3):
    torch.manual_seed(seed)
    model = Grams().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * 0.4**epoch
        for batch in batches(rows, 512, random.Random(seed + epoch)):
            loss = loss_of(model(batch), batch) + 1e-6 * model.weight.weight.pow(2).sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def gram_scores(model, rows):
    return np.array([s for batch in batches([{**row, "pair": None} for row in rows], 1024) for s in model(batch).tolist()])


def auroc(positive, negative):
    order = np.argsort(np.concatenate([positive, negative]), kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    return (ranks[: len(positive)].sum() - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative))


def held_out(group, share=20):
    return int(hashlib.sha256(group.encode()).hexdigest(), 16) % 100 < share


def fake_int8(weight, bits):
    most = 2 ** (bits - 1) - 1
    scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-8) / most
    return (weight / scale).round().clamp(-most, most), scale


def quantize(model):
    """Rounds the weights in place to what the file holds, and returns its tensors."""
    tensors = []
    with torch.no_grad():
        whole, scale = fake_int8(model.words.weight, 4)
        # Token embeddings: four bits, one scale for each row.
        packed = (whole + 8).to(torch.uint8).cpu().numpy()
        tensors.append(("words", "i4", (packed[:, 0::2] | (packed[:, 1::2] << 4)).tobytes(), scale.cpu().numpy().astype("<f4").tobytes(), list(whole.shape)))
        model.words.weight.copy_(whole * scale)
        for name, parameter in model.named_parameters():
            if name == "words.weight":
                continue
            if parameter.dim() == 2 and name != "head.weight":
                whole, scale = fake_int8(parameter, 8)
                tensors.append((name, "i8", whole.to(torch.int8).cpu().numpy().tobytes(), scale.cpu().numpy().astype("<f4").tobytes(), list(whole.shape)))
                parameter.copy_(whole * scale)
            else:
                tensors.append((name, "f32", parameter.cpu().numpy().astype("<f4").tobytes(), b"", list(parameter.shape)))
    return tensors


def vocabulary_tensor(path):
    pieces = tok.WordPieces(path).vocabulary
    text = "\n".join(sorted(pieces, key=pieces.get)).encode()
    return [("vocabulary", "text", text, b"", [len(text)])]


def quantize_grams(model):
    with torch.no_grad():
        weight = model.weight.weight.squeeze(-1)
        scale = weight.abs().max() / 127
        whole = (weight / scale).round()
        model.weight.weight.copy_((whole * scale)[:, None])
    return [("grams", "i8", whole.to(torch.int8).cpu().numpy().tobytes(), np.array([scale.item()], "<f4").tobytes(), [tok.MASK + 1]), ("grams.bias", "f32", model.bias.detach().cpu().numpy().astype("<f4").tobytes(), b"", [1])]


def write(path, tensors, about):
    """Magic, length of the JSON header, header, then the bytes it names."""
    entries, blob = [], b""
    for name, kind, data, scale, shape in tensors:
        entries.append({"name": name, "kind": kind, "shape": shape, "at": len(blob), "bytes": len(data), "scale_at": len(blob) + len(data), "scale_bytes": len(scale)})
        blob += data + scale
        blob += b"\0" * (-len(blob) % 4)
    header = json.dumps({"version": 1, **about, "tensors": entries}).encode()
    header += b" " * (-len(header) % 4)
    path.write_bytes(b"FSINJ001" + struct.pack("<I", len(header)) + header + blob)


def main():
    data, base, out = (pathlib.Path(word) for word in sys.argv[1:4])
    quick = "--quick" in sys.argv
    began = time.time()
    say = lambda *words: print(f"{time.time() - began:6.0f}s", *words, flush=True)
    carriers = [json.loads(line) for line in open(data / "carriers.jsonl")]
    attacks = [json.loads(line) for line in open(data / "attacks.jsonl")]
    weights = load_file(base / "model.fp16.safetensors")
    pool = multiprocessing.Pool(16, start, (str(base / "tokenizer.json"),))
    prepared = lambda rows: pool.map(prepare, rows, 256)
    rng = random.Random(5)
    for carrier in carriers:
        carrier["held"] = held_out(carrier["group"])
    train_carriers = [c for c in carriers if not c["held"]]
    test_carriers = [c for c in carriers if c["held"]]
    rng.shuffle(test_carriers)
    count = 8000 if quick else 90000
    benign_rows = lambda group: [{"text": c["text"], "label": 0, "origin": generate.ORIGIN.get(c["kind"], "tool"), "family": c["source"] + "/" + c["kind"], "source": c["source"], "pair": None} for c in group]
    benign = prepared(benign_rows(test_carriers[:3000]))
    own_families = ["passive", "conditional", "procedure"]
    unseen = [r for r in generate.rows(test_carriers, [], 99, 6000, own_families) if r["label"] == 1 and r["family"] in own_families][:1000]
    own = prepared(unseen)
    chats = prepared([r for r in generate.rows(test_carriers, [], 77, 6000) if r["family"] in ("chat", "hard_negative")][:800])
    report = {"sources": {}, "carriers": len(carriers), "attacks": len(attacks)}

    def measure(name, grams, encoder, positive):
        positive_g, negative_g, chat_g = gram_scores(grams, positive), gram_scores(grams, benign), gram_scores(grams, chats)
        row = {}
        sets = {"grams": (positive_g, negative_g, chat_g)}
        if encoder is not None:
            sets["encoder"] = tuple(encode_scores(encoder, group) for group in (positive, benign, chats))
        for stage, (p, n, c) in sets.items():
            row[stage] = {"auroc": round(float(auroc(p, n)), 4)}
            for share in (0.01, 0.001):
                threshold = np.quantile(n, 1 - share)
                row[stage][f"recall@{share}"] = round(float((p > threshold).mean()), 4)
                row[stage][f"chat@{share}"] = round(float((c > threshold).mean()), 4)
        report["sources"][name] = {"rows": len(positive), **row}
        say(name, len(positive), json.dumps(row))
        return row

    # Leave one source out: neither its attacks nor its words are in training.
    sources = ["llmail-inject", "satml-ctf-2024", "lakera/gandalf", "jackhhao/jailbreak", "pyrit", "bipia", "own", "benign"]
    chosen = [word.removeprefix("--sources=").split(",") for word in sys.argv if word.startswith("--sources=")]
    sources = [] if quick else [name for name in sources if not chosen or name in chosen[0]]
    for number, source in enumerate(sources):
        families = [name for name in generate.PHRASINGS if name not in own_families] if source == "own" else None
        known = [a for a in attacks if a["source"] != source]
        left_out = {"benign": {"npm", "pypi"}, "own": set()}.get(source, {source})
        rows = prepared(list(generate.rows([c for c in train_carriers if c["source"] not in left_out], known, 1000 + number, 45000, families)))
        if source == "benign":
            # Text of packages that training never saw: how many are flagged at a threshold that does not know them.
            strangers = prepared(benign_rows([c for c in carriers if c["source"] in left_out]))
            near = [r for r in benign if r["source"] not in left_out]
            for stage, score in (("grams", (lambda m: lambda r: gram_scores(m, r))(train_grams(rows, 3))), ("encoder", (lambda m: lambda r: encode_scores(m, r))(train_encoder(rows, weights, 3)))):
                threshold = {share: np.quantile(score(near), 1 - share) for share in (0.01, 0.001)}
                flagged = score(strangers)
                report["sources"].setdefault("benign npm+pypi", {"rows": len(strangers)})[stage] = {f"flagged@{share}": round(float((flagged > limit).mean()), 4) for share, limit in threshold.items()}
            say("benign npm+pypi", report["sources"]["benign npm+pypi"])
            continue
        if source == "own":
            positive = own
        else:
            texts = [a for a in attacks if a["source"] == source]
            rng.shuffle(texts)
            placed = []
            for a in texts[:800]:
                text = a["text"]
                if source == "bipia":
                    text = generate.insert(generate.window(rng.choice(test_carriers)["text"], rng), text, rng)
                placed.append({"text": text, "label": 1, "origin": "tool" if source == "bipia" else "prompt", "family": source, "source": source, "pair": None})
            positive = prepared(placed)
        measure(source, train_grams(rows, 3), train_encoder(rows, weights, 3), positive)

    rows = prepared(list(generate.rows(train_carriers, attacks, 4242, count)))
    say("final rows", len(rows))
    grams, encoder = train_grams(rows, 7), train_encoder(rows, weights, 7, 2)
    measure("final/own-unseen-carriers", grams, encoder, own)
    before = encode_scores(encoder, own + benign)
    tensors = quantize(encoder) + quantize_grams(grams) + vocabulary_tensor(str(base / "tokenizer.json"))
    after = encode_scores(encoder, own + benign)
    report["quantized"] = {"mean_difference": float(np.abs(before - after).mean()), "auroc": float(auroc(after[: len(own)], after[len(own) :]))}
    measure("quantized/own-unseen-carriers", grams, encoder, own)

    # Calibration on what was held out: Platt scaling of the encoder's score; thresholds by share of benign text.
    mixed = prepared(list(generate.rows(test_carriers, attacks, 55, 8000)))
    scores, labels = encode_scores(encoder, mixed + benign), np.array([r["label"] for r in mixed + benign], float)
    a, b = torch.ones(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    fit = torch.optim.LBFGS([a, b], max_iter=200)
    x, y = torch.tensor(scores, dtype=torch.float32), torch.tensor(labels, dtype=torch.float32)

    def closure():
        fit.zero_grad()
        loss = F.binary_cross_entropy_with_logits(a * x + b, y)
        loss.backward()
        return loss

    fit.step(closure)
    negative = encode_scores(encoder, benign)
    gram_negative, gram_positive = gram_scores(grams, benign), gram_scores(grams, [r for r in mixed if r["label"] == 1])
    about = {"window": tok.WINDOW, "stride": tok.STRIDE, "pieces": tok.PIECES, "layers": LAYERS, "heads": HEADS, "scale": a.item(), "shift": b.item(),
             "clear_below": float(np.quantile(gram_positive, 0.02)), "thresholds": {str(s): float(1 / (1 + np.exp(-(a.item() * np.quantile(negative, 1 - s) + b.item())))) for s in (0.01, 0.005, 0.001)}}
    by_origin = collections.defaultdict(list)
    for row, score in zip(benign, negative):
        by_origin[row["origin"]].append(score)
    about["by_origin"] = {o: float(1 / (1 + np.exp(-(a.item() * np.quantile(s, 0.995) + b.item())))) for o, s in by_origin.items()}
    report.update(about, cleared_benign=float((gram_negative < about["clear_below"]).mean()))
    write(out / "injection.weights", tensors, about)
    parity = (benign[:400] + own[:400] + chats[:200])
    with gzip.open(out / "parity.jsonl.gz", "wt") as file:
        for row, e, g in zip(parity, encode_scores(encoder, parity), gram_scores(grams, parity)):
            file.write(json.dumps({"text": row["text"], "origin": row["origin"], "label": row["label"], "encoder": round(float(e), 5), "grams": round(float(g), 5)}) + "\n")
    (out / "report.json").write_text(json.dumps(report, indent=1))
    say(json.dumps(report)[:6000])


main()
