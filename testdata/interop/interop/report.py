"""The table, printed and as docs/compatibility.md."""

from collections import namedtuple
from xml.etree import ElementTree

from world import HERE, Failure

DOCS = HERE.parent.parent / "docs" / "compatibility.md"
Check = namedtuple("Check", "name seconds verdict")
COLUMNS = ("client", "version", "wrote", "read", "also read", "seconds", "verdict")


def table(rows, checks):
    print()
    aligned([COLUMNS, *((r.client.name, r.client.version, r.wrote, r.read, r.crossed, f"{r.seconds:.1f}", r.verdict) for r in rows)])
    print()
    aligned([("check", "seconds", "verdict"), *((c.name, f"{c.seconds:.1f}", c.verdict) for c in checks)])
    failed = sum(r.verdict.startswith("FAILED") for r in rows + checks)
    refused = sum(r.verdict.startswith("REFUSED") for r in rows + checks)
    print(f"\n{len(rows) + len(checks) - failed - refused} passed, {failed} failed, {refused} skipped", flush=True)


def aligned(lines):
    """Prints columns; the last is a text of any length."""
    widths = [max(len(str(line[k])) for line in lines) for k in range(len(lines[0]) - 1)]
    for line in lines:
        print("  ".join(str(v).ljust(w) for v, w in zip(line, widths)) + "  " + str(line[-1]).replace("\n", " "))


def kafka_version():
    pom = ElementTree.parse(HERE / "java" / "pom.xml")
    return pom.find(".//{http://maven.apache.org/POM/4.0.0}kafka.version").text


def verdict_of(row):
    return row.verdict.split(":")[0].lower() if row.verdict.startswith("REFUSED") else row.verdict


def check_line(c):
    return f"| {c.name} | {verdict_of(c)} |"


def update_docs(checks):
    """Replaces the results of the checks that ran; the page keeps the others."""
    lines = DOCS.read_text().splitlines()
    for c in checks:
        at = [k for k, line in enumerate(lines) if line.startswith(f"| {c.name} | ")]
        if len(at) != 1:
            raise Failure(f"{DOCS.name} has {len(at)} lines for {c.name}: write all of it, without --only")
        lines[at[0]] = check_line(c)
    DOCS.write_text("\n".join(lines) + "\n")


def write_docs(rows, checks, n):
    lines = [
        "# Compatibility",
        "",
        "Written by `testdata/interop/run --write-docs`; how it works is in [its page](../testdata/interop/README.md).",
        "",
        "## Clients",
        "",
        f"Each wrote {n:,} records of 0 to 20,000 bytes into four partitions, with keys, headers, null and empty values and",
        "timestamps of its own (kcat: one header, null values), a fifth of them with each codec (kcat: all with one); read them all back",
        "equal, in order and without a gap, as a member of a consumer group whose commit was checked from outside; and read in another",
        "group what the client in the column *also read* had written.",
        "",
        "| client | version | codecs | wrote | read | also read | result |",
        "|---|---|---|---|---|---|---|",
    ]
    notes = []
    for r in rows:
        mark = ""
        if r.client.note:
            notes.append(f"{len(notes) + 1}. {r.client.name}: {r.client.note}.")
            mark = f" ({len(notes)})"
        wrote, read = (f"{v:,}" if isinstance(v, int) else v for v in (r.wrote, r.read))
        lines.append(f"| {r.client.name} | {r.client.version} | {', '.join(r.client.codecs)} | {wrote} | {read} | {r.crossed} | {verdict_of(r)}{mark} |")
    lines += ["", *notes, ""] if notes else [""]
    lines += [
        f"## Kafka's tools, {kafka_version()}",
        "",
        "Each ended with 0 and printed the numbers that the run expected.",
        "",
        "| tool | result |",
        "|---|---|",
        *map(check_line, checks),
        "",
        "*kafka-dump-log* ran with `--deep-iteration`, `--index-sanity-check` and `--verify-index-only` over every partition of the",
        "topic, with `--cluster-metadata-decoder` over `__cluster_metadata-0` and with `--offsets-decoder` over `__consumer_offsets`.",
        "Under kill -9, an idempotent writer went on after the restart and every record was there once. The directories of Kafka's are",
        "those in `testdata/kafka-written` and one that its broker wrote in the run; `seedlog log dump` prints them line by line as",
        "Kafka's tool does.",
        "",
        "The cluster is `seedlog dev --nodes 3`. kafka-metadata-quorum asked for status and replication and removed and added a",
        "controller; kafka-reassign-partitions generated, executed with a throttle, listed, verified and cancelled; kafka-features",
        "upgraded and downgraded, dry and for good, and was refused. One node after the other was killed with -9 and came back 12 s",
        "later while the clients wrote and read as above; then each partition was the same on all three nodes, byte for byte, and",
        "the newest snapshot of the metadata on each node was one that it wrote itself.",
        "",
        "The nodes with configured voters (`controller.quorum.voters`) began at kraft.version 0. kafka-features raised it to 1, dry and",
        "for good, and was refused a downgrade; kafka-metadata-quorum showed the directory ids then, and removed and added a",
        "controller, which it was refused before; kafka-dump-log read the level and the voters in each node's log.",
    ]
    DOCS.write_text("\n".join(lines) + "\n")
