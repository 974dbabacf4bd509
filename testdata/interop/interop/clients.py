"""The client libraries and kcat: what each writes, and who reads it."""

import json
import subprocess
import sys
import threading
import time

from world import HERE, WORK, Failure, Refused, java, need, run, tail

sys.path.insert(0, str(HERE / "python"))
import gen  # noqa: E402

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PARTITIONS = 4
PYTHON = [WORK / "venv" / "bin" / "python", "python/client.py"]


class Library:
    """A client program with the verbs write and read."""

    last_words = ""
    profile = "full"
    codecs = CODECS

    def __init__(self, name, installer, argv, note=""):
        self.name, self.installer, self.argv, self.note = name, installer, argv, note
        self.version = ""

    def write(self, broker, topic, n, seed):
        self._run("write", broker.address, topic, n, seed, ",".join(self.codecs))

    def read(self, broker, topic, n, seed, profile, group):
        self._run("read", broker.address, topic, n, seed, profile, group)

    def _run(self, *args):
        out = run([*self.argv, *args])
        self.version = json.loads(out.splitlines()[-1])["version"].removeprefix("v")


class Kcat:
    """kcat with one codec; its consumer is -G, a balanced group."""

    last_words = ""
    profile = "kcat"
    installer = "kcat"
    note = ""
    idempotent = False  # as kcat is by itself: what it sends again after a lost answer is there twice

    def __init__(self, codec):
        self.name = "kcat-" + codec
        self.codec = codec
        self.codecs = [codec]
        self.version = ""

    def write(self, broker, topic, n, seed):
        self._find_version()
        lines = []
        for i in range(n):
            key, value, _, _ = gen.make(i, seed, "kcat")
            lines.append((key or b"") + b"\t" + (value or b"") + b"\n")
        argv = ["kcat", "-P", "-b", broker.address, "-t", topic, "-K", "\t", "-Z", "-z", self.codec, "-H", "src=kcat", "-X", "acks=all"]
        argv += ["-X", "enable.idempotence=true"] if self.idempotent else []
        p = subprocess.run(argv, input=b"".join(lines), capture_output=True, timeout=120)
        if p.returncode != 0:
            raise Failure(f"kcat -P: exit {p.returncode}: {tail(p.stderr)}")

    def _find_version(self):
        words = run(["kcat", "-V"]).split()
        librdkafka = words[words.index("librdkafka") + 1] if "librdkafka" in words else "?"
        self.version = f"{words[words.index('Version') + 1]} (librdkafka {librdkafka})"

    def read(self, broker, topic, n, seed, profile, group):
        argv = ["kcat", "-u", "-b", broker.address, "-G", group, "-X", "auto.offset.reset=earliest", "-f", "%p %o %T %K %S %h\n%k%s\n", topic]
        p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        watch = threading.Timer(90, p.kill)
        watch.start()
        check = gen.Checker(n, seed, profile)
        try:
            while not check.done():
                head = p.stdout.readline()
                if not head:
                    raise Failure(f"kcat -G ended after {check.count} records: {tail(p.stderr.read())}")
                self._one(check, head, p.stdout)
        except AssertionError as e:
            raise Failure(str(e)) from e
        finally:
            watch.cancel()
            p.terminate()  # kcat commits and leaves its group on the way out
            self.last_words = tail(p.communicate(timeout=60)[1])

    @staticmethod
    def _one(check, head, stream):
        partition, offset, timestamp, key_size, value_size, *headers = head.decode().rstrip("\n").split(" ")
        key, value = (None if int(size) < 0 else stream.read(int(size)) for size in (key_size, value_size))
        stream.readline()
        pairs = [tuple(h.split("=", 1)) for h in headers[0].split(",")] if headers and headers[0] else []
        check.add(int(partition), int(offset), key, value, [(k, v.encode()) for k, v in pairs], int(timestamp))


def everyone():
    """The ring: each reads its own topic and that of the one before."""
    one_empty = "its reader gives the same for a null and an empty value; what it writes keeps them apart"
    return [
        Library("franz-go", "go", [WORK / "bin" / "franz"]),
        Kcat("none"),
        Library("sarama", "go", [WORK / "bin" / "sarama"]),
        Kcat("gzip"),
        Library("kafka-go", "go", [WORK / "bin" / "segmentio"], one_empty),
        Kcat("snappy"),
        Library("confluent-kafka", "python", [*PYTHON, "confluent-kafka"]),
        Kcat("lz4"),
        Library("kafka-python", "python", [*PYTHON, "kafka-python"]),
        Kcat("zstd"),
        Library("aiokafka", "python", [*PYTHON, "aiokafka"]),
        Library("kafkajs", "js", ["node", "js/client.js"]),
        Library("java", "java", java("Client")),
    ]


class Row:
    """What a client did, for the table."""

    def __init__(self, client):
        self.client = client
        self.wrote = self.read = self.crossed = "-"
        self.seconds = 0.0
        self.verdict = "ok"


def run_clients(broker, clients, n, say, prefix="interop-"):
    """Lets each client write and read back, then read what the one before it wrote; the prefix is that of topics and groups."""
    rows = {c.name: Row(c) for c in clients}
    topics = {}
    for c in clients:
        _guard(rows[c.name], lambda c=c: _own(broker, c, n, rows[c.name], topics, prefix), say, "wrote and read")
    for k, c in enumerate(clients):
        before = [clients[(k - j) % len(clients)] for j in range(1, len(clients))]
        donor = next((d for d in before if d.name in topics), None)
        if rows[c.name].verdict == "ok" and donor:
            _guard(rows[c.name], lambda c=c, d=donor: _cross(broker, c, d, n, rows[c.name], topics, prefix), say, f"read {donor.name}'s")
    return list(rows.values())


def _guard(row, work, say, what):
    began = time.monotonic()
    try:
        work()
    except Refused as e:
        row.verdict = f"REFUSED: {e}"
    except (Failure, OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError) as e:
        row.verdict = f"FAILED: {e}"
    row.seconds += time.monotonic() - began
    say(f"{row.client.name}: {what}: {row.verdict} ({time.monotonic() - began:.1f} s)")


def _seed(client):
    return sum(client.name.encode()) * 7919


def _own(broker, c, n, row, topics, prefix):
    need(c.installer, {"js": "node", "java": "java", "kcat": "kcat"}.get(c.installer))
    need(c.name)
    topic, group = prefix + c.name, prefix + "own-" + c.name
    helper(broker, "create", topic, PARTITIONS)
    c.write(broker, topic, n, _seed(c))
    row.wrote = n
    topics[c.name] = topic
    c.read(broker, topic, n, _seed(c), c.profile, group)
    _committed(broker, c, topic, n, group)
    row.read = n


def _cross(broker, c, donor, n, row, topics, prefix):
    group = prefix + "cross-" + c.name
    c.read(broker, topics[donor.name], n, _seed(donor), donor.profile, group)
    _committed(broker, c, topics[donor.name], n, group)
    row.crossed = donor.name


def _committed(broker, c, topic, n, group):
    try:
        helper(broker, "committed", topic, n, group)
    except Failure as e:
        raise Failure(f"{e}; the client said: {c.last_words or 'nothing'}") from e


def helper(broker, verb, topic, n, group="-"):
    """What the harness itself asks of the broker goes through franz-go."""
    need("go")
    run([WORK / "bin" / "franz", verb, broker.address, topic, n, 0, "-", group])
