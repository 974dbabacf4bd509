"""Kafka's dump tool on our directories, and our dump on Kafka's."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from clients import PARTITIONS, helper
from world import HERE, SEEDLOG, WORK, Failure, Kafka, java, run

DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
GOLDEN = HERE.parent / "kafka-written"
DUMP_TOOL = "kafka.tools.DumpLogSegments"
BAD = ("isvalid: false", "mismatch", "Mismatch", "not found", "invalid bytes", "xception", "out of order", "corrupt")
CRASH_RECORDS = 400000
CRASH_AFTER_BYTES = 20 << 20


def kafka_dump(files, *flags):
    out = run(java(DUMP_TOOL, *flags, "--files", ",".join(map(str, files))), timeout=120)
    for line in out.splitlines():
        if any(word in line for word in BAD):
            raise Failure(f"kafka-dump-log {' '.join(flags)}: {line}"[:600])
    return out


def our_dump(files, *flags):
    return run([SEEDLOG, "log", "dump", *flags, "--files", ",".join(map(str, files))], timeout=120)


def files_of(directory, *suffixes):
    return sorted(p for p in Path(directory).iterdir() if p.suffix in suffixes)


def kafka_reads(data, topics, records):
    """Kafka's tool goes through the logs, indexes and snapshots of the topics of a stopped node."""
    seen = 0
    for directory in sorted(d for d in Path(data).iterdir() if d.name.rpartition("-")[0] in topics):
        logs, indexes = files_of(directory, ".log"), files_of(directory, ".index", ".timeindex")
        out = kafka_dump(logs, "--deep-iteration")
        seen += sum(line.startswith("| offset: ") for line in out.splitlines())
        sane = kafka_dump(indexes, "--index-sanity-check")
        if sane.count("passed sanity check") != len(indexes):
            raise Failure(f"{directory.name}: {sane}"[:600])
        kafka_dump([*files_of(directory, ".index"), *files_of(directory, ".timeindex"), *files_of(directory, ".snapshot")], "--verify-index-only")
    if seen != records:
        raise Failure(f"kafka-dump-log counts {seen} records, want {records}")


METADATA_KINDS = ("FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD")


def logs_of(data, partition):
    return files_of(Path(data) / partition, ".log")


def kafka_reads_metadata(data):
    directory = Path(data) / "__cluster_metadata-0"
    out = kafka_dump(files_of(directory, ".log") + files_of(directory, ".checkpoint"), "--cluster-metadata-decoder")
    for kind in METADATA_KINDS:
        if kind not in out:
            raise Failure(f"no {kind} in the metadata log")


def kafka_reads_snapshot(data):
    """The newest snapshot is one that the node wrote, whole by itself, and our dump prints the same of it."""
    newest = files_of(Path(data) / "__cluster_metadata-0", ".checkpoint")[-1]
    if newest.name.startswith("0" * 20):
        raise Failure(f"no snapshot in {data} but the one that formatting wrote")
    theirs = kafka_dump([newest], "--cluster-metadata-decoder")
    for kind in (*METADATA_KINDS, "KRaftVoters", "SnapshotFooter"):
        if kind not in theirs:
            raise Failure(f"no {kind} in {newest}")
    if comparable(our_dump([newest], "--cluster-metadata-decoder")) != comparable(theirs):
        raise Failure(f"seedlog log dump prints another {newest} than Kafka's tool")


def kafka_reads_offsets(data):
    logs = [f for d in Path(data).glob("__consumer_offsets-*") for f in files_of(d, ".log") if f.stat().st_size > 0]
    out = kafka_dump(logs, "--offsets-decoder")
    if '"group":"dumps"' not in out:
        raise Failure("the group is not in the offsets topic")


def same_dump(directory, *flags):
    """Our dump prints what Kafka's tool prints."""
    files = files_of(directory, *DUMPED)
    ours, theirs = (comparable(f(files, *flags)) for f in (our_dump, kafka_dump))
    if ours == theirs:
        return
    for k, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            raise Failure(f"{directory.name}: line {k + 1} is\n  {a}\nand Kafka's\n  {b}"[:1500])
    raise Failure(f"{directory.name}: {len(ours)} lines, Kafka's tool prints {len(theirs)}")


def comparable(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def clean_stop(broker_of):
    """What the broker wrote, read by Kafka's tool after a clean stop."""
    with tempfile.TemporaryDirectory(prefix="seedlog-interop-") as tmp:
        broker = broker_of(tmp)
        try:
            written(broker, "dumps", 20000)
            broker.stop()
            kafka_reads(broker.data, ["dumps"], 20000)
            kafka_reads_metadata(broker.data)
            kafka_reads_offsets(broker.data)
            same_dump(broker.data / "dumps-0", "--deep-iteration")
            same_dump(broker.data / "__cluster_metadata-0", "--cluster-metadata-decoder")
        finally:
            broker.end()


def written(broker, topic, n):
    helper(broker, "create", topic, PARTITIONS)
    run([WORK / "bin" / "franz", "write", broker.address, topic, n, 5, "none,gzip,snappy,lz4,zstd"])
    run([WORK / "bin" / "franz", "read", broker.address, topic, n, 5, "full", topic])


def killed(broker_of):
    """A kill -9 under an idempotent writer that goes on after the restart; then a clean stop."""
    with tempfile.TemporaryDirectory(prefix="seedlog-interop-") as tmp:
        broker = broker_of(tmp)
        try:
            helper(broker, "create", "crash", PARTITIONS)
            writer = subprocess.Popen([str(a) for a in [WORK / "bin" / "franz", "write", broker.address, "crash", CRASH_RECORDS, 6, "none"]],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            wait_until(lambda: sum(f.stat().st_size for f in broker.data.glob("crash-*/*.log")) > CRASH_AFTER_BYTES)
            broker.kill()
            if writer.poll() is not None:
                raise Failure("the writer was done before the kill")
            broker.start()
            _, err = writer.communicate(timeout=90)
            if writer.returncode != 0:
                raise Failure(f"the writer over a kill -9: {err.decode()}")
            run([WORK / "bin" / "franz", "read", broker.address, "crash", CRASH_RECORDS, 6, "full", "dumps"])
            broker.stop()
            kafka_reads(broker.data, ["crash"], CRASH_RECORDS)
            kafka_reads_metadata(broker.data)
        finally:
            broker.end()


def wait_until(condition, seconds=30):
    late = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > late:
            raise Failure(f"waited {seconds} s in vain")
        time.sleep(0.01)


def golden_check(directory):
    """Our dump reads what Kafka wrote, each kind of file, clean and killed."""
    partitions = sorted(d for d in Path(directory).iterdir() if d.is_dir() and d.name != "dumps")
    if not partitions:
        raise Failure(f"nothing in {directory}")
    for d in partitions:
        run([SEEDLOG, "log", "dump", d])
    out = our_dump(files_of(directory / "codecs-0", ".log"), "--deep-iteration")
    records = sum(line.startswith("| offset: ") for line in out.splitlines())
    codecs = {c for c in ("none", "gzip", "snappy", "lz4", "zstd") if f"compresscodec: {c} " in out}
    if records != 100 or len(codecs) != 5:
        raise Failure(f"{records} records with {codecs} in codecs-0, want 100 with 5 codecs")


GOLDEN_FLAGS = {
    "append-time-0": ["--deep-iteration", "--print-data-log"],
    "codecs-0": ["--deep-iteration", "--print-data-log"],
    "txn-0": ["--deep-iteration", "--print-data-log"],
    "__cluster_metadata-0": ["--cluster-metadata-decoder"],
    "__consumer_offsets-0": ["--offsets-decoder"],
    "__transaction_state-0": ["--transaction-log-decoder"],
}


def golden_compare(directory):
    """The same lines as Kafka's tool, on Kafka's own files."""
    for name, flags in GOLDEN_FLAGS.items():
        same_dump(directory / name, *flags)


def kafka_writes(target):
    """Starts Apache Kafka and lets it fill a directory: cleanly stopped, and unclean-0 of a second life that is killed."""
    with tempfile.TemporaryDirectory(prefix="kafka-written-") as tmp:
        kafka = Kafka(tmp).start()
        try:
            run(java("Golden", "clean", kafka.address))
            kafka.stop()
            shutil.copytree(kafka.data, target, ignore=shutil.ignore_patterns(".lock", ".kafka_cleanshutdown", "unclean-0"))
            kafka.start()
            run(java("Golden", "unclean", kafka.address))
        finally:
            kafka.kill()
        shutil.copytree(kafka.data / "unclean-0", target / "unclean-0")


def write_golden():
    """Replaces the stored directory."""
    readme = (GOLDEN / "README.md").read_text()
    shutil.rmtree(GOLDEN)
    kafka_writes(GOLDEN)
    write_golden_dumps()
    (GOLDEN / "README.md").write_text(readme)


def write_golden_dumps():
    """What Kafka's tool says of the directory, for the tests of ours that run without Java."""
    (GOLDEN / "dumps").mkdir(exist_ok=True)
    for name, flags in GOLDEN_FLAGS.items():
        out = kafka_dump(files_of(GOLDEN / name, *DUMPED), *flags).replace(str(GOLDEN), "kafka-written")
        (GOLDEN / "dumps" / (name + ".txt")).write_text(out)


def kafka_written():
    """The stored directory, and one that Kafka writes now."""
    golden_check(GOLDEN)
    with tempfile.TemporaryDirectory(prefix="seedlog-interop-") as tmp:
        fresh = Path(tmp) / "written"
        kafka_writes(fresh)
        golden_check(fresh)
        golden_compare(fresh)
