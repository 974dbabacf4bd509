"""Kafka's tools and clients against a cluster of three, while nodes are killed and come back."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import clients
import dumps
from tools import TOPIC_TOOL, expect
from world import SEEDLOG, Failure, Refused, java, run

NODES = 3
REASSIGN_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECTION_TOOL = "org.apache.kafka.tools.LeaderElectionCommand"
QUORUM_TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURE_TOOL = "org.apache.kafka.tools.FeatureCommand"
CLUSTER_TOOL = "org.apache.kafka.tools.ClusterTool"
# A killed node is fenced while a check looks, and each node writes a snapshot of the metadata, and more than one.
SETTINGS = ["broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500", "replica.lag.time.max.ms=5000",
            "auto.leader.rebalance.enable=false", "metadata.log.max.record.bytes.between.snapshots=10000"]
DOWN_S = 12  # how long a killed node stays away: longer than the checks take that look at it
KILL_RECORDS = 20000


class Cluster:
    """`seedlog dev`: three nodes of their own processes, which come back when they are killed."""

    def __init__(self, directory):
        self.directory = Path(directory)
        base = free_ports()
        self.brokers = [f"127.0.0.1:{base + 2 * i}" for i in range(NODES)]
        self.controllers = ",".join(f"127.0.0.1:{base + 2 * i + 1}" for i in range(NODES))
        self.address = ",".join(self.brokers)
        argv = [SEEDLOG, "dev", "--nodes", NODES, "--port", base, "--data-dir", self.directory / "dev", "--restart", f"{DOWN_S}s"]
        for s in SETTINGS:
            argv += ["--set", s]
        self.log = open(self.directory / "dev.log", "w")
        self.process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        if line.strip() != "bootstrap.servers=" + self.address:
            self.end()
            raise Failure(f"seedlog dev says {line!r}: {self.log_tail()}")

    def node_dir(self, node):
        return self.directory / "dev" / f"node-{node}"

    def pid(self, node):
        """The process of a node by what `seedlog dev` said last of it; None while it is down."""
        said = re.findall(rf"^node {node}(?:: .*process (\d+),| ended)", (self.directory / "dev.log").read_text(), re.M)
        return int(said[-1]) if said[-1] else None

    def kill(self, node):
        os.kill(eventually(f"node {node} runs", lambda: self.pid(node)), signal.SIGKILL)

    def log_tail(self):
        return (self.directory / "dev.log").read_text()[-1500:]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(timeout=60) != 0:
            raise Failure(f"seedlog dev ended with {self.process.returncode}: {self.log_tail()}")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def free_ports():
    """The first of a row of free ports, below those that connections leave from: a killed node's stay free."""
    while True:
        base = random.randrange(10000, 32768 - 2 * NODES)
        if all(_free(base + k) for k in range(2 * NODES)):
            return base


def _free(port):
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def seedlog(cluster, *args):
    return run([SEEDLOG, *args, "-b", cluster.address], timeout=60)


def eventually(what, check, seconds=40):
    """Asks until check returns something true."""
    late = time.monotonic() + seconds
    while True:
        got = check()
        if got:
            return got
        if time.monotonic() > late:
            raise Failure(f"not after {seconds} s: {what}")
        time.sleep(0.3)


class ClusterTools:
    """One cluster, one check per tool."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.rounds = 0

    def ask(self, main, *args, ok=True):
        argv = java(main, "--bootstrap-server", self.cluster.address, *args)
        if ok:
            return run(argv, timeout=90)
        p = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=90)
        expect(p.returncode != 0, f"{main} {args} should fail, and said {p.stdout}")
        return p.stdout + p.stderr

    def healthy(self):
        def ask():
            p = subprocess.run([str(SEEDLOG), "cluster", "health", "-b", self.cluster.address], capture_output=True, text=True, timeout=60)
            return p.returncode == 0 and "Healthy" in p.stdout

        eventually("the cluster is healthy", ask, 90)

    def topics(self):
        self.ask(TOPIC_TOOL, "--create", "--topic", "moved", "--partitions", 6, "--replication-factor", 3)
        out = self.ask(TOPIC_TOOL, "--describe", "--topic", "moved")
        expect("ReplicationFactor: 3" in out and len(re.findall(r"Isr: \d,\d,\d", out)) == 6, out)
        first = re.findall(r"Leader: (\d)\s+Replicas: (\d)", out)
        expect(sorted(leader for leader, _ in first) == ["1", "1", "2", "2", "3", "3"] and all(a == b for a, b in first), f"leaders and first replicas {first}")
        expect(self.ask(TOPIC_TOOL, "--describe", "--under-replicated-partitions").strip() == "", "something is under-replicated")
        self.cluster.kill(3)
        lost = lambda: self.ask(TOPIC_TOOL, "--describe", "--topic", "moved", "--under-replicated-partitions").count("Partition: ") == 6
        eventually("six partitions are under-replicated", lost)
        out = self.ask(TOPIC_TOOL, "--describe", "--topic", "moved", "--at-min-isr-partitions")
        expect(out.count("Partition: ") == 6, out)
        expect(self.ask(TOPIC_TOOL, "--describe", "--unavailable-partitions").strip() == "", "something has no leader")
        self.healthy()
        expect(self.ask(TOPIC_TOOL, "--describe", "--under-replicated-partitions").strip() == "", "something is under-replicated")

    def election(self):
        def elsewhere():
            """The partitions that are not led by their first replica."""
            rows = re.findall(r"Partition: (\d)\s+Leader: (\d)\s+Replicas: (\d)", self.ask(TOPIC_TOOL, "--describe", "--topic", "moved"))
            expect(len(rows) == 6, rows)
            return [f"moved-{p}" for p, leader, first in rows if leader != first]

        moved = elsewhere()  # node 3 was away and leads nothing
        expect(len(moved) == 2, f"not led by the first replica: {moved}")
        out = self.ask(ELECTION_TOOL, "--election-type", "preferred", "--all-topic-partitions")
        done = re.search(r"Successfully completed leader election \(PREFERRED\) for partitions (.*)", out)
        expect(done and all(p in done[1] for p in moved), out)
        expect(elsewhere() == [], "not led by the first replica")
        out = self.ask(ELECTION_TOOL, "--election-type", "preferred", "--topic", "moved", "--partition", 0)
        expect("Valid replica already elected" in out, out)

    def write_plan(self, directory, replicas):
        path = Path(directory) / "plan.json"
        path.write_text(json.dumps({"version": 1, "partitions": [
            {"topic": "smaller", "partition": p, "replicas": r} for p, r in enumerate(replicas)]}))
        return path

    def reassign(self):
        self.ask(TOPIC_TOOL, "--create", "--topic", "smaller", "--partitions", 2, "--replication-factor", 1)
        run(java("org.apache.kafka.tools.ProducerPerformance", "--topic", "smaller", "--num-records", 20000, "--record-size", 500,
                 "--throughput", -1, "--producer-props", "bootstrap.servers=" + self.cluster.address, "acks=all"))
        with tempfile.TemporaryDirectory() as tmp:
            move = Path(tmp) / "topics.json"
            move.write_text(json.dumps({"version": 1, "topics": [{"topic": "smaller"}]}))
            out = self.ask(REASSIGN_TOOL, "--generate", "--topics-to-move-json-file", move, "--broker-list", "1,2,3")
            expect("Proposed partition reassignment configuration" in out and out.count('"topic":"smaller"') == 4, out)
            plan = self.write_plan(tmp, [[1, 2, 3], [2, 3, 1]])
            out = self.ask(REASSIGN_TOOL, "--execute", "--reassignment-json-file", plan, "--throttle", 2000000)
            expect("Successfully started partition reassignments for smaller-0,smaller-1" in out, out)
            expect("moved" not in self.ask(REASSIGN_TOOL, "--list"), "a topic that nobody moves is being moved")
            done = lambda: self.ask(REASSIGN_TOOL, "--verify", "--reassignment-json-file", plan, "--preserve-throttles").count("is completed.") == 2
            eventually("both partitions are moved", done, 60)
            out = self.ask(REASSIGN_TOOL, "--verify", "--reassignment-json-file", plan)
            expect("Clearing broker-level throttles" in out and "Clearing topic-level throttles" in out, out)
            out = self.ask(TOPIC_TOOL, "--describe", "--topic", "smaller")
            expect("Replicas: 1,2,3" in out and "Replicas: 2,3,1" in out and len(re.findall(r"Isr: \d,\d,\d", out)) == 2, out)
            # A move that the throttle holds up can be ended.
            back = self.write_plan(tmp, [[3], [1]])
            self.ask(REASSIGN_TOOL, "--execute", "--reassignment-json-file", back)
            eventually("both partitions shrink", lambda: self.ask(REASSIGN_TOOL, "--verify", "--reassignment-json-file", back).count("is completed.") == 2, 60)
            slow = self.write_plan(tmp, [[2], [3]])
            self.ask(REASSIGN_TOOL, "--execute", "--reassignment-json-file", slow, "--throttle", 1000)
            expect("smaller-0" in self.ask(REASSIGN_TOOL, "--list"), "the move is not listed")
            out = self.ask(REASSIGN_TOOL, "--cancel", "--reassignment-json-file", slow)
            expect("Successfully cancelled partition reassignments for: smaller-0,smaller-1" in out, out)
            out = self.ask(TOPIC_TOOL, "--describe", "--topic", "smaller")
            expect(re.search(r"Partition: 0\s.*Replicas: 3\s", out) and re.search(r"Partition: 1\s.*Replicas: 1\s", out), out)

    def ours(self):
        """The same by our own command line."""
        plan = seedlog(self.cluster, "topic", "reassign", "--generate", "--topics", "smaller", "--broker-list", "2,3")
        with tempfile.TemporaryDirectory() as tmp:
            path = Path(tmp) / "plan.json"
            path.write_text(plan)
            seedlog(self.cluster, "topic", "reassign", "--execute", "--reassignment-json-file", path, "--throttle", "50000000")

            def verify():
                p = subprocess.run([str(SEEDLOG), "topic", "reassign", "--verify", "--reassignment-json-file", str(path), "-b", self.cluster.address], capture_output=True, text=True, timeout=60)
                return p.returncode == 0 and p.stdout.count("is where the plan wants it.") == 2

            eventually("both partitions are moved", verify, 60)
        seedlog(self.cluster, "topic", "elect-leaders", "--all-topic-partitions")
        info = json.loads(seedlog(self.cluster, "cluster", "info", "--format", "json"))
        expect([b["id"] for b in info["brokers"]] == [1, 2, 3] and not any(b["fenced"] for b in info["brokers"]), info)
        quorum = json.loads(seedlog(self.cluster, "quorum", "describe", "--format", "json"))
        expect(sorted(r["status"] for r in quorum["replicas"]) == ["follower", "follower", "leader"], quorum)

    def quorum(self):
        out = self.ask(QUORUM_TOOL, "describe", "--status")
        expect(re.search(r"LeaderId:\s+[123]\n", out) and all(f'"id": {n}' in out for n in (1, 2, 3)) and "CONTROLLER://127.0.0.1" in out, out)
        out = self.ask(QUORUM_TOOL, "describe", "--replication", "--human-readable")
        expect(out.count("Follower") == 2 and out.count("Leader") == 1, out)
        directory = next(l.split()[1] for l in out.splitlines() if l.startswith("3 ") or l.startswith("3\t"))
        self.ask(QUORUM_TOOL, "remove-controller", "--controller-id", 3, "--controller-directory-id", directory)
        out = self.ask(QUORUM_TOOL, "describe", "--replication")
        expect(len(re.findall(r"^3\s.*Observer", out, re.M)) == 1, out)
        config = self.cluster.node_dir(3) / "server.properties"
        run(java(QUORUM_TOOL, "--bootstrap-server", self.cluster.address, "--command-config", config, "add-controller"), timeout=90)
        out = self.ask(QUORUM_TOOL, "describe", "--replication")
        expect(not re.search(r"^3\s.*Observer", out, re.M), out)
        self.ask(QUORUM_TOOL, "remove-controller", "--controller-id", 2, "--controller-directory-id", directory, ok=False)

    def cluster_tool(self):
        out = run(java(CLUSTER_TOOL, "list-endpoints", "--bootstrap-server", self.cluster.address))
        expect(out.count("unfenced") == 3, out)
        out = run(java(CLUSTER_TOOL, "list-endpoints", "--bootstrap-controller", self.cluster.controllers))
        expect(out.count("127.0.0.1") == 3, out)
        identifier = lambda *args: run(java(CLUSTER_TOOL, "cluster-id", *args)).split("Cluster ID: ")[1].strip()
        expect(identifier("--bootstrap-server", self.cluster.address) == identifier("--bootstrap-controller", self.cluster.controllers), "two cluster ids")

    def features(self):
        level = lambda: int(re.search(r"Feature: eligible.leader.replicas.version\s.*FinalizedVersionLevel: (\d)", self.ask(FEATURE_TOOL, "describe"))[1])
        elr = "eligible.leader.replicas.version="
        if level() == 0:
            out = self.ask(FEATURE_TOOL, "upgrade", "--feature", elr + "1", "--dry-run")
            expect("can be upgraded to 1" in out and level() == 0, out)
            out = self.ask(FEATURE_TOOL, "upgrade", "--feature", elr + "1")
            expect("was upgraded to 1" in out and level() == 1, out)
        out = self.ask(FEATURE_TOOL, "downgrade", "--feature", elr + "0", "--dry-run")
        expect("can be downgraded to 0" in out and level() == 1, out)
        out = self.ask(FEATURE_TOOL, "downgrade", "--feature", elr + "0")
        expect("was downgraded to 0" in out and level() == 0, out)
        self.ask(FEATURE_TOOL, "upgrade", "--feature", elr + "1")
        out = self.ask(FEATURE_TOOL, "upgrade", "--feature", "metadata.version=99", ok=False)
        expect("99" in out, out)

    def under_kills(self):
        """franz-go, kcat and the Java client write and read, one round after the other, until each node was killed once."""
        ring = [c for c in clients.everyone() if c.name in ("franz-go", "kcat-zstd", "java")]
        for c in ring:
            c.idempotent = True  # kcat alone is not by itself
        killed, ended = [], threading.Event()

        def killer():
            for node in range(1, NODES + 1):
                if ended.wait(2):
                    return
                self.cluster.kill(node)
                killed.append(node)
                if not ended.wait(DOWN_S):
                    self.healthy()  # the next one goes when this one is in sync again: two of three are always there

        t = threading.Thread(target=killer)
        t.start()
        try:
            while t.is_alive():
                self.rounds += 1
                rows = clients.run_clients(self.cluster, ring, KILL_RECORDS, lambda line: None, prefix=f"kills-{self.rounds}-")
                refused = [r.verdict.removeprefix("REFUSED: ") for r in rows if r.verdict.startswith("REFUSED")]
                if refused:
                    raise Refused("; ".join(refused))
                bad = [f"{r.client.name}: {r.verdict}" for r in rows if r.verdict != "ok"]
                expect(not bad, f"round {self.rounds}, killed so far {killed}: " + "; ".join(bad))
        finally:
            ended.set()
            t.join()
        expect(killed == [1, 2, 3], f"killed only {killed}")
        self.healthy()

    def metadata_dump(self):
        for node in range(1, NODES + 1):
            data = self.cluster.node_dir(node) / "data"
            dumps.kafka_reads_metadata(data)
            dumps.kafka_reads_snapshot(data)

    def replicas(self):
        """What was written while nodes were killed is on all three, byte for byte, and Kafka's tool counts it."""
        names = [f"kills-{r}-{c}" for r in range(1, self.rounds + 1) for c in ("franz-go", "kcat-zstd", "java")]
        expect(self.rounds > 0, "nothing was written")
        counted = [f for n in range(1, NODES + 1) for p in range(clients.PARTITIONS) for f in dumps.logs_of(self.cluster.node_dir(n) / "data", f"{names[0]}-{p}")]
        for partition in (f"{name}-{p}" for name in names for p in range(clients.PARTITIONS)):
            copies = {b"".join(f.read_bytes() for f in dumps.logs_of(self.cluster.node_dir(n) / "data", partition)) for n in range(1, NODES + 1)}
            expect(len(copies) == 1 and copies != {b""}, f"{len(copies)} different copies of {partition}")
        out = dumps.kafka_dump(counted, "--deep-iteration")
        seen = sum(line.startswith("| offset: ") for line in out.splitlines())
        expect(seen == NODES * KILL_RECORDS, f"kafka-dump-log counts {seen} records of {names[0]} on {NODES} nodes")


def checks(cluster, tools, kills):
    """(name, check) of the tools and of the kills, in the order in which they build on each other."""
    t = ClusterTools(cluster)
    with_tools = [
        ("kafka-topics", t.topics),
        ("kafka-leader-election", t.election),
        ("kafka-reassign-partitions", t.reassign),
        ("seedlog topic reassign, elect-leaders, cluster, quorum", t.ours),
        ("kafka-metadata-quorum", t.quorum),
        ("kafka-cluster", t.cluster_tool),
        ("kafka-features", t.features),
    ]
    under_kills = [
        ("franz-go, kcat and java while nodes are killed", t.under_kills),
        ("seedlog dev stops cleanly", cluster.stop),
        ("kafka-dump-log of the replicas, which are equal", t.replicas),
        ("kafka-dump-log --cluster-metadata-decoder", t.metadata_dump),
    ]
    return with_tools * tools + under_kills * kills
