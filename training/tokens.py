"""Text into basic tokens, windows and word pieces. The Rust crate does the same, step by step; `parity.jsonl` compares them."""
import json
import unicodedata

WINDOW, STRIDE, PIECES = 128, 96, 256
HIDDEN = {0x00AD, 0xFEFF} | set(range(0x200B, 0x2010)) | set(range(0x202A, 0x202F)) | set(range(0x2060, 0x2070)) | set(range(0xE0000, 0xE0080))


def normalize(text):
    kept = "".join(c for c in text if ord(c) not in HIDDEN)
    plain = unicodedata.normalize("NFKD", kept)
    return "".join(c for c in plain if unicodedata.category(c)[0] != "M").lower()


def is_word(c):
    return unicodedata.category(c)[0] in "LN"


def is_ideograph(c):
    return 0x3400 <= ord(c) <= 0x9FFF or 0x3040 <= ord(c) <= 0x30FF or 0xF900 <= ord(c) <= 0xFAFF or 0x20000 <= ord(c) <= 0x2FA1F


def basic(text):
    """Runs of letters and digits, and every other visible character by itself."""
    tokens, run = [], ""
    for c in normalize(text):
        if is_word(c) and not is_ideograph(c):
            run += c
            continue
        if run:
            tokens.append(run)
            run = ""
        if not c.isspace() and unicodedata.category(c) != "Cc":
            tokens.append(c)
    if run:
        tokens.append(run)
    return tokens


def windows(tokens):
    """Overlapping windows; a short text is one window."""
    if len(tokens) <= WINDOW:
        return [tokens]
    starts = list(range(0, len(tokens) - WINDOW, STRIDE)) + [len(tokens) - WINDOW]
    return [tokens[start : start + WINDOW] for start in starts]


MASK = (1 << 18) - 1


def fnv(data, start=0x811C9DC5):
    value = start
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def features(tokens, origin):
    """Hashed n-grams: words, pairs and triples of words, and four characters of a padded word."""
    found = set()
    encoded = [token.encode("utf-8") for token in tokens]
    for at, token in enumerate(encoded):
        found.add(fnv(b"1" + token) & MASK)
        if at + 1 < len(encoded):
            pair = token + b" " + encoded[at + 1]
            found.add(fnv(b"2" + pair) & MASK)
            if at + 2 < len(encoded):
                found.add(fnv(b"3" + pair + b" " + encoded[at + 2]) & MASK)
        padded = b"<" + token[:24] + b">"
        for start in range(len(padded) - 3):
            found.add(fnv(b"c" + padded[start : start + 4]) & MASK)
    found.add(fnv(b"o" + origin.encode()) & MASK)
    return sorted(found)


class WordPieces:
    def __init__(self, path):
        model = json.load(open(path))["model"]
        self.vocabulary = model["vocab"]
        self.unknown, self.start, self.end = (self.vocabulary[word] for word in ("[UNK]", "[CLS]", "[SEP]"))

    def pieces(self, token):
        if len(token) > 64:
            return [self.unknown]
        found, start = [], 0
        while start < len(token):
            end = len(token)
            while end > start:
                piece = ("##" if start else "") + token[start:end]
                if piece in self.vocabulary:
                    break
                end -= 1
            if end == start:
                return [self.unknown]
            found.append(self.vocabulary[piece])
            start = end
        return found

    def encode(self, tokens, origin):
        """[CLS] origin : text [SEP], at most PIECES."""
        ids = [self.start] + self.pieces(origin) + [self.vocabulary[":"]]
        for token in tokens:
            ids += self.pieces(token)
            if len(ids) >= PIECES - 1:
                break
        return ids[: PIECES - 1] + [self.end]
