"""Kafka's own tools against our broker: each exits with 0 and prints the expected numbers."""

import json
import re
import tempfile
import time
from pathlib import Path

from world import Broker, Failure, java, need, run

TOPIC_TOOL = "org.apache.kafka.tools.TopicCommand"
CONFIG_TOOL = "kafka.admin.ConfigCommand"
OFFSETS_TOOL = "org.apache.kafka.tools.GetOffsetShell"
GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PERF_RECORDS = 50000
PERF_SIZE = 200


class Tools:
    """One broker, one check per tool."""

    def __init__(self, broker):
        self.broker = broker

    def ask(self, main, *args, stdin=None):
        return run(java(main, "--bootstrap-server", self.broker.address, *args), timeout=90, stdin=stdin)

    def topics(self):
        self.ask(TOPIC_TOOL, "--create", "--topic", "tools", "--partitions", 3, "--replication-factor", 1, "--config", "retention.ms=3600000")
        expect("tools" in self.ask(TOPIC_TOOL, "--list").split(), "the list has no topic tools")
        out = self.ask(TOPIC_TOOL, "--describe", "--topic", "tools")
        expect("PartitionCount: 3" in out and "retention.ms=3600000" in out and out.count("Leader: 1") == 3, out)
        self.ask(TOPIC_TOOL, "--alter", "--topic", "tools", "--partitions", 5)
        out = self.ask(TOPIC_TOOL, "--describe", "--topic", "tools")
        expect("PartitionCount: 5" in out and out.count("Isr: 1") == 5, out)
        self.ask(TOPIC_TOOL, "--create", "--topic", "tools-gone")
        self.ask(TOPIC_TOOL, "--delete", "--topic", "tools-gone")
        expect("tools-gone" not in self.ask(TOPIC_TOOL, "--list").split(), "tools-gone is still listed")

    def configs(self):
        topic = ["--entity-type", "topics", "--entity-name", "tools"]
        self.ask(CONFIG_TOOL, *topic, "--alter", "--add-config", "max.message.bytes=2000000,segment.bytes=2097152")
        out = self.ask(CONFIG_TOOL, *topic, "--describe")
        expect("max.message.bytes=2000000" in out and "DYNAMIC_TOPIC_CONFIG:segment.bytes=2097152" in out, out)
        self.ask(CONFIG_TOOL, *topic, "--alter", "--delete-config", "max.message.bytes")
        out = self.ask(CONFIG_TOOL, *topic, "--describe", "--all")
        expect("max.message.bytes=1048588" in out and "cleanup.policy=delete" in out, out)
        brokers = ["--entity-type", "brokers"]
        self.ask(CONFIG_TOOL, *brokers, "--entity-default", "--alter", "--add-config", "log.retention.ms=7200000")
        expect("log.retention.ms=7200000" in self.ask(CONFIG_TOOL, *brokers, "--entity-default", "--describe"), "no default of brokers")
        out = self.ask(CONFIG_TOOL, *brokers, "--entity-name", 1, "--describe", "--all")
        expect("DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7200000" in out and "num.partitions=1" in out, out)
        self.ask(CONFIG_TOOL, *brokers, "--entity-default", "--alter", "--delete-config", "log.retention.ms")
        expect("log.retention.ms" not in self.ask(CONFIG_TOOL, *brokers, "--entity-default", "--describe"), "the default of brokers stays")

    def console(self):
        lines = "".join(f"k{i}:value {i}\n" for i in range(500))
        self.ask("org.apache.kafka.tools.ConsoleProducer", "--topic", "tools", "--property", "parse.key=true",
                 "--property", "key.separator=:", "--compression-codec", "zstd", stdin=lines)
        out = self.ask("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", "tools", "--from-beginning", "--max-messages", 500,
                       "--group", "console", "--property", "print.key=true", "--property", "key.separator=:", "--timeout-ms", 30000)
        expect(sorted(out.splitlines()) == sorted(lines.splitlines()), f"{len(out.splitlines())} lines came back other than they went")
        out = self.ask(GROUP_TOOL, "--describe", "--group", "console")
        rows = [l.split() for l in out.splitlines() if l.startswith("console")]
        expect(sum(int(r[3]) for r in rows) == 500 and all(r[5] == "0" for r in rows), out)
        expect("console" in self.ask(GROUP_TOOL, "--list").split(), "the group console is not listed")

    def perf(self):
        self.ask(TOPIC_TOOL, "--create", "--topic", "tools-perf", "--partitions", 2)
        out = run(java("org.apache.kafka.tools.ProducerPerformance", "--topic", "tools-perf", "--num-records", PERF_RECORDS, "--record-size", PERF_SIZE,
                       "--throughput", -1, "--producer-props", "bootstrap.servers=" + self.broker.address, "acks=all"))
        expect(f"{PERF_RECORDS} records sent" in out, out)

    def perf_read(self):
        out = self.ask("org.apache.kafka.tools.ConsumerPerformance", "--topic", "tools-perf", "--messages", PERF_RECORDS)
        row = out.splitlines()[-1].split(", ")
        expect(int(row[4]) == PERF_RECORDS and abs(float(row[2]) - PERF_RECORDS * PERF_SIZE / 2**20) < 0.001, out)

    def offsets_of(self, *args):
        out = self.ask(OFFSETS_TOOL, "--topic", "tools-perf", *args)
        return {int(p): int(o) for _, p, o in (l.split(":") for l in out.split())}

    def get_offsets(self):
        ends = self.offsets_of()
        expect(sum(ends.values()) == PERF_RECORDS, ends)
        expect(self.offsets_of("--time", "earliest") == {0: 0, 1: 0}, "earliest is not 0")
        newest = self.offsets_of("--time", "max-timestamp")
        expect(all(0 <= newest[p] < ends[p] for p in ends), newest)
        expect(self.offsets_of("--time", 1000) == {0: 0, 1: 0}, "the first record after 1970 is not at 0")
        expect(self.offsets_of("--time", int(time.time() * 1000) + 10**6) == {}, "a record from the future")

    def delete_records(self):
        end = self.offsets_of()[1]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump({"version": 1, "partitions": [{"topic": "tools-perf", "partition": 0, "offset": 100},
                                                    {"topic": "tools-perf", "partition": 1, "offset": -1}]}, f)
            f.flush()
            out = self.ask("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", f.name)
        expect("partition: tools-perf-0\tlow_watermark: 100" in out and f"partition: tools-perf-1\tlow_watermark: {end}" in out, out)
        expect(self.offsets_of("--time", "earliest") == {0: 100, 1: end}, "the log starts elsewhere")

    def log_dirs(self):
        out = self.ask("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", "tools-perf")
        dirs = json.loads(out.splitlines()[-1])["brokers"][0]["logDirs"]
        sizes = {p["partition"]: p["size"] for d in dirs for p in d["partitions"]}
        real = {p.name: sum(f.stat().st_size for f in p.glob("*.log")) for p in self.broker.data.glob("tools-perf-?")}
        expect(sizes == real and len(real) == 2, f"{sizes}, on disk {real}")

    def api_versions(self):
        out = self.ask("org.apache.kafka.tools.BrokerApiVersionsCommand")
        for api in ("Produce(0): 0 to 13", "Fetch(1): 4 to ", "Metadata(3): 0 to 13", "ApiVersions(18): 0 to 4"):
            expect(api in out, f"no {api}")
        expect("UNSUPPORTED" in out and re.search(r"id: 1 rack: null", out), "no node 1")

    def cluster(self):
        out = self.cluster_tool("cluster-id")
        props = dict(l.split("=", 1) for l in (self.broker.data / "meta.properties").read_text().splitlines() if "=" in l)
        identifier = out.split("Cluster ID: ")[1].strip()
        expect(props["cluster.id"].replace("\\", "") == identifier, f"{identifier}, in meta.properties {props['cluster.id']}")
        out = self.cluster_tool("list-endpoints")
        expect(str(self.broker.port) in out and "unfenced" in out, out)

    def cluster_tool(self, verb):
        return run(java("org.apache.kafka.tools.ClusterTool", verb, "--bootstrap-server", self.broker.address))

    def features(self):
        out = self.ask("org.apache.kafka.tools.FeatureCommand", "describe")
        expect(re.search(r"Feature: kraft.version\s.*FinalizedVersionLevel: 1\s", out), out)
        expect(re.search(r"Feature: group.version\s.*FinalizedVersionLevel: 0\s", out), out)


def between_directories():
    """Kafka's tool moves replicas between the two log directories of a broker, at a rate and without, and back."""
    with tempfile.TemporaryDirectory(prefix="seedlog-interop-") as tmp:
        data, more = Path(tmp) / "data", Path(tmp) / "more"
        broker = Broker(tmp, [f"log.dirs={data},{more}"]).start()
        try:
            _move_all(broker, Path(tmp), data, more)
        finally:
            broker.end()


def _move_all(broker, tmp, data, more):
    ask = lambda tool, *args: run(java(tool, "--bootstrap-server", broker.address, *args))
    reassign = lambda verb, plan, *args: ask("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", verb, "--reassignment-json-file", plan, *args)

    def plan(directory):
        path = tmp / "plan.json"
        path.write_text(json.dumps({"version": 1, "partitions": [
            {"topic": "kept", "partition": p, "replicas": [1], "log_dirs": [str(directory)]} for p in range(4)]}))
        return path

    def logs():
        out = ask("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", "kept")
        return [(d["logDir"], p["isFuture"]) for d in json.loads(out.splitlines()[-1])["brokers"][0]["logDirs"] for p in d["partitions"]]

    def arrived(path):
        late = time.monotonic() + 60
        while reassign("--verify", path, "--preserve-throttles").count("completed successfully") != 4:
            if time.monotonic() > late:
                raise Failure(f"not after 60 s: {logs()}")
            time.sleep(0.3)

    ask(TOPIC_TOOL, "--create", "--topic", "kept", "--partitions", 4)
    run(java("org.apache.kafka.tools.ProducerPerformance", "--topic", "kept", "--num-records", 40000, "--record-size", 500,
             "--throughput", -1, "--producer-props", "bootstrap.servers=" + broker.address, "acks=all"))
    there = plan(more)
    out = reassign("--execute", there, "--replica-alter-log-dirs-throttle", 1000)
    expect(f"Successfully started moving log directory to {more} for replica kept-0 with broker 1" in out, out)
    expect(any(future for _, future in logs()), f"no copy is shown: {logs()}")
    expect("is still in progress" in reassign("--verify", there, "--preserve-throttles"), "a move that is throttled is not in progress")
    reassign("--execute", there, "--additional", "--replica-alter-log-dirs-throttle", 1000000000)
    arrived(there)
    expect(logs() == [(str(more), False)] * 4, logs())
    expect("Clearing broker-level throttles" in reassign("--verify", there), "the throttle stays")
    back = plan(data)
    reassign("--execute", back)
    arrived(back)
    broker.stop()
    broker.start()
    expect(logs() == [(str(data), False)] * 4, logs())
    out = run(java(OFFSETS_TOOL, "--bootstrap-server", broker.address, "--topic", "kept"))
    expect(sum(int(line.rsplit(":", 1)[1]) for line in out.splitlines() if line.startswith("kept:")) == 40000, out)
    expect([p.name for p in more.glob("kept-?")] == [], "a replica is in both directories")


def expect(ok, otherwise):
    if not ok:
        raise Failure(f"unexpected: {otherwise}"[:1500])


def checks(broker):
    """(name, check) in the order in which they build on each other."""
    t = Tools(broker)
    return [
        ("kafka-topics", t.topics),
        ("kafka-configs", t.configs),
        ("kafka-console-producer/consumer, kafka-consumer-groups", t.console),
        ("kafka-producer-perf-test", t.perf),
        ("kafka-consumer-perf-test", t.perf_read),
        ("kafka-get-offsets", t.get_offsets),
        ("kafka-delete-records", t.delete_records),
        ("kafka-log-dirs", t.log_dirs),
        ("kafka-broker-api-versions", t.api_versions),
        ("kafka-cluster", t.cluster),
        ("kafka-features", t.features),
    ]


def ready():
    need("java", "java")
