"""Makes and checks the records that every interop client writes; README.md has the formula."""

M32 = 0xFFFFFFFF
BASE_TIMESTAMP = 1700000000000


def _table():
    out = bytearray(65536)
    s = 1
    for i in range(65536):
        s = (s * 1664525 + 1013904223) & M32
        out[i] = ord("a") + (s >> 24) % 26
    return bytes(out)


TABLE = _table()


def mix(i, seed):
    x = (i * 2654435761 + seed) & M32
    x ^= x >> 15
    x = (x * 0x2C1B3C6D) & M32
    x ^= x >> 12
    x = (x * 0x297A2D39) & M32
    return x ^ (x >> 15)


def make(i, seed, profile):
    """Returns key, value, headers, timestamp; None is null."""
    x = mix(i, seed)
    kind = x % 100
    if kind < 5 or (kind == 5 and profile == "kcat"):
        value = None
    elif kind == 5:
        value = b""
    else:
        length = (x >> 8) % (20000 if kind == 99 else 2000 if kind >= 90 else 200)
        start = x % 40000
        value = b"%d:" % i + TABLE[start : start + length]
    key = b"key-%d" % i if i % 10 or kind <= 5 else None
    if profile == "kcat":
        return key, value, [("src", b"kcat")], None
    headers = []
    if i % 3 > 0:
        headers.append(("i", b"%d" % i))
    if i % 3 == 2:
        headers.append(("empty", b""))
    return key, value, headers, BASE_TIMESTAMP + i


def runs(n, codecs):
    """The indices that each codec writes."""
    for k, codec in enumerate(codecs):
        yield codec, range(k * n // len(codecs), (k + 1) * n // len(codecs))


class Checker:
    """Compares what a reader receives with what the topic must hold."""

    def __init__(self, n, seed, profile):
        self.n, self.seed, self.profile = n, seed, profile
        self.seen = bytearray(n)
        self.last = {}
        self.count = 0

    def done(self):
        return self.count == self.n

    def add(self, partition, offset, key, value, headers, timestamp):
        i = self._index(key, value)
        at = f"index {i} at {partition}/{offset}"
        assert 0 <= i < self.n, at
        assert not self.seen[i], f"{at} came twice"
        self.seen[i] = 1
        if partition in self.last:
            last_i, last_offset = self.last[partition]
            assert i > last_i and offset == last_offset + 1, f"{at} after index {last_i} at {last_offset}"
        self.last[partition] = i, offset
        self.count += 1
        want = make(i, self.seed, self.profile)
        assert key == want[0], f"{at}: key {key!r}, want {want[0]!r}"
        assert value == want[1], f"{at}: value {value!r:.80}, want {want[1]!r:.80}"
        got = [(k, v if v is None else bytes(v)) for k, v in headers or []]
        assert got == want[2], f"{at}: headers {got!r}, want {want[2]!r}"
        if want[3] is not None:
            assert timestamp == want[3], f"{at}: timestamp {timestamp}, want {want[3]}"

    @staticmethod
    def _index(key, value):
        if key is not None and key.startswith(b"key-"):
            return int(key[4:])
        assert value is not None and b":" in value[:12], f"a record without an index: {key!r} {value!r:.80}"
        return int(value.split(b":", 1)[0])
