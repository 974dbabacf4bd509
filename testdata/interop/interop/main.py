"""Runs the interop clients and tools, prints the table, and says by its exit code whether all is well."""

import argparse
import sys
import tempfile
import time
import traceback

import clients
import cluster
import configured
import dumps
import report
import tools
from world import Broker, Failure, Refused, need

RECORDS = 100000


def say(line):
    print(f"-- {line}", flush=True)


def arguments():
    p = argparse.ArgumentParser(prog="run", description=__doc__)
    p.add_argument("--only", default="", help="names of clients, or of the parts kafka-tools, kafka-dump-log, kafka-written, cluster, cluster-tools and cluster-kills; separated by commas")
    p.add_argument("--records", type=int, default=RECORDS)
    p.add_argument("--write-docs", action="store_true", help="write docs/compatibility.md; with --only, the results of the tools that ran")
    p.add_argument("--write-golden", action="store_true", help="let Apache Kafka write testdata/kafka-written anew")
    return p.parse_args()


def check(name, work):
    """A check that is no client: its line and its verdict."""
    began, verdict = time.monotonic(), "ok"
    try:
        work()
    except Refused as e:
        verdict = f"REFUSED: {e}"
    except Failure as e:
        verdict = f"FAILED: {e}"
    except Exception:  # a harness that breaks is red, and the rest still runs
        verdict = f"FAILED: {traceback.format_exc(limit=3)}"
    seconds = time.monotonic() - began
    say(f"{name}: {verdict} ({seconds:.1f} s)")
    return report.Check(name, seconds, verdict)


def broker_in(directory):
    return Broker(directory).start()


def run_tools(broker):
    need("java", "java")
    return [check(name, work) for name, work in tools.checks(broker)]


def between_directories():
    need("java", "java")
    tools.between_directories()


def run_dumps():
    def with_java(work):
        need("java", "java")
        work()

    return [
        check("kafka-dump-log after a clean stop", lambda: with_java(lambda: dumps.clean_stop(broker_in))),
        check("kafka-dump-log after kill -9 under a writer", lambda: with_java(lambda: dumps.killed(broker_in))),
    ]


def run_written():
    def work():
        dumps.golden_check(dumps.GOLDEN)
        need("java", "java")
        dumps.kafka_written()

    return [check("seedlog log dump of Kafka's directories", work)]


def run_cluster(with_tools, kills):
    """A cluster of three nodes and its checks; it is ended even if it does not come up."""
    with tempfile.TemporaryDirectory(prefix="seedlog-interop-") as tmp:
        try:
            need("java", "java")
            three = cluster.Cluster(tmp)
        except Refused as e:
            return [report.Check("cluster of three", 0.0, f"REFUSED: {e}")]
        except Failure as e:
            return [report.Check("cluster of three", 0.0, f"FAILED: {e}")]
        try:
            return [check("cluster of three: " + name, work) for name, work in cluster.checks(three, with_tools, kills)]
        finally:
            three.end()


def main():
    args = arguments()
    if args.write_golden:
        dumps.write_golden()
    only = [name for name in args.only.split(",") if name]
    ring = clients.everyone()
    parts = {"kafka-tools", "kafka-dump-log", "kafka-written", "cluster", "cluster-tools", "cluster-kills"}
    unknown = set(only) - parts - {c.name for c in ring}
    if unknown:
        sys.exit(f"no such client or part: {sorted(unknown)}; there are {sorted(parts)} and {[c.name for c in ring]}")
    wanted = lambda name: not only or name in only
    rows, checks = [], []
    with tempfile.TemporaryDirectory(prefix="seedlog-interop-") as tmp:
        broker = broker_in(tmp)
        try:
            rows = clients.run_clients(broker, [c for c in ring if wanted(c.name)], args.records, say)
            if wanted("kafka-tools"):
                checks += run_tools(broker)
                checks.append(check("kafka-reassign-partitions between directories", between_directories))
            checks.append(check("the broker lives, and stops cleanly", broker.stop))
        finally:
            if any(r.verdict.startswith("FAILED") for r in rows + checks):
                print("\n".join(broker.log_tail()), file=sys.stderr)
            broker.end()
    if wanted("kafka-dump-log"):
        checks += run_dumps()
    if wanted("kafka-written"):
        checks += run_written()
    with_tools, kills = wanted("cluster") or "cluster-tools" in only, wanted("cluster") or "cluster-kills" in only
    if with_tools or kills:
        checks += run_cluster(with_tools, kills)
    if with_tools:
        checks.append(check("cluster of configured voters: kafka-features, kafka-metadata-quorum", configured.upgrade))
    report.table(rows, checks)
    if args.write_docs and only:
        report.update_docs(checks)
    elif args.write_docs:
        report.write_docs(rows, checks, args.records)
    return 1 if any(r.verdict.startswith("FAILED") for r in rows + checks) else 0


sys.exit(main())
