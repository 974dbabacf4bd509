"""Kafka's tools against three nodes whose voters are configured, which get kraft.version 1 while they run."""

import re
import signal
import subprocess
import tempfile
from pathlib import Path

import dumps
from cluster import FEATURE_TOOL, NODES, QUORUM_TOOL, eventually, free_ports
from tools import expect
from world import SEEDLOG, Failure, java, need, run, wait_for_port

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class Node:
    """A node of its own process, with controller.quorum.voters in its settings."""

    def __init__(self, directory, number, ports, voters):
        self.directory = Path(directory) / f"node-{number}"
        self.directory.mkdir()
        self.data = self.directory / "data"
        self.port = ports[number - 1]
        self.process = None
        controller = f"127.0.0.1:{self.port + 1}"
        self.properties = self.directory / "server.properties"
        self.properties.write_text(
            f"""process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://{controller}
controller.listener.names=CONTROLLER
log.dirs={self.data}
"""
        )
        run([SEEDLOG, "storage", "format", "--config", self.properties, "--cluster-id", CLUSTER_ID])

    def start(self):
        self.log = open(self.directory / "node.log", "a")
        self.process = subprocess.Popen([str(SEEDLOG), "start", "--config", str(self.properties)], stdout=self.log, stderr=self.log)

    def serves(self):
        wait_for_port(self.port, self.process, 60)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(timeout=60) != 0:
            raise Failure(f"node ended with {self.process.returncode}: {(self.directory / 'node.log').read_text()[-1500:]}")

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def upgrade():
    """kraft.version is raised, dry and for good, is never lowered, and the voters can be changed then."""
    need("java", "java")
    with tempfile.TemporaryDirectory(prefix="seedlog-interop-") as tmp:
        base = free_ports()
        ports = [base + 2 * i for i in range(NODES)]
        voters = ",".join(f"{i + 1}@127.0.0.1:{p + 1}" for i, p in enumerate(ports))
        nodes = [Node(tmp, i + 1, ports, voters) for i in range(NODES)]
        try:
            for n in nodes:
                n.start()
            for n in nodes:
                n.serves()
            _upgrade(nodes)
        finally:
            for n in nodes:
                n.end()


def _upgrade(nodes):
    address = ",".join(f"127.0.0.1:{n.port}" for n in nodes)

    def ask(main, *args):
        p = subprocess.run([str(a) for a in java(main, "--bootstrap-server", address, *args)], capture_output=True, text=True, timeout=90)
        return p.returncode == 0, p.stdout + p.stderr

    def said(main, *args):
        ok, out = ask(main, *args)
        expect(ok, out)
        return out

    level = lambda: int(re.search(r"Feature: kraft.version\s.*FinalizedVersionLevel: (\d)", said(FEATURE_TOOL, "describe"))[1])
    replication = lambda: said(QUORUM_TOOL, "describe", "--replication")
    remove = lambda node, directory: ask(QUORUM_TOOL, "remove-controller", "--controller-id", node, "--controller-directory-id", directory)
    directories = [re.search(r"directory.id=(\S+)", (n.data / "meta.properties").read_text())[1].replace("\\", "") for n in nodes]

    expect(level() == 0, "kraft.version is not 0 where the voters are configured")
    ok, out = remove(3, directories[2])
    expect(not ok, f"a configured voter was removed: {out}")
    # Every voter tells the leader its directory, soon after it hears of it, and registers.
    eventually("a dry run", lambda: "can be upgraded to 1" in ask(FEATURE_TOOL, "upgrade", "--feature", "kraft.version=1", "--dry-run")[1])
    expect(level() == 0, "a dry run raised it")
    expect("was upgraded to 1" in said(FEATURE_TOOL, "upgrade", "--feature", "kraft.version=1"), "it was not raised")
    expect(level() == 1, "it is not shown")
    out = replication()
    expect(all(d in out for d in directories) and "Observer" not in out, out)
    ok, out = ask(FEATURE_TOOL, "downgrade", "--feature", "kraft.version=0")
    expect(not ok and "kraft.version" in out, out)
    ok, out = remove(3, directories[2])
    expect(ok, out)
    eventually("node 3 is an observer", lambda: re.search(r"^3\s.*Observer", replication(), re.M))
    run(java(QUORUM_TOOL, "--bootstrap-server", address, "--command-config", nodes[2].properties, "add-controller"), timeout=90)
    expect(not re.search(r"^3\s.*Observer", replication(), re.M), "node 3 did not come back")
    for n in nodes:
        n.stop()
        n.start()
        n.serves()
    expect(level() == 1 and all(d in replication() for d in directories), "a restart changes it")
    for n in nodes:
        n.stop()
        out = dumps.kafka_dump(dumps.logs_of(n.data, "__cluster_metadata-0"), "--cluster-metadata-decoder")
        expect("KRaftVersion" in out and out.count("KRaftVoters") == 3, out[-1500:])
