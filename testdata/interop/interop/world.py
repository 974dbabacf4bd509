"""The broker under test, the commands around it, and what is installed."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
WORK = HERE / ".work"
SEEDLOG = WORK / "bin" / "seedlog"
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m"]


class Failure(Exception):
    """What a client or a tool did wrong, in a line."""


def refused(installer):
    """The last words of the installer whose registry refused it, or None."""
    path = WORK / "refused" / installer
    return path.read_text().strip() or "no reason given" if path.exists() else None


def java(main, *args):
    return [*JAVA, "-cp", f"{WORK}/java/classes:{WORK}/java/lib/*", main, *map(str, args)]


def run(argv, timeout=150, stdin=None):
    """Returns standard output of a command that must exit with 0."""
    env = dict(os.environ, NODE_PATH=str(WORK / "js" / "node_modules"), KAFKAJS_NO_PARTITIONER_WARNING="1")
    try:
        p = subprocess.run([str(a) for a in argv], input=stdin, capture_output=True, text=True, timeout=timeout, env=env, cwd=HERE)
    except subprocess.TimeoutExpired as e:
        raise Failure(f"not done after {timeout} s: {tail(e.stderr)}") from e
    if p.returncode != 0:
        raise Failure(f"exit {p.returncode}: {tail(p.stderr) or tail(p.stdout)}")
    return p.stdout


def tail(text, lines=4):
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    kept = [l for l in (text or "").splitlines() if l.strip() and "SLF4J" not in l]
    return " / ".join(kept[-lines:])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_port(port, process, seconds):
    late = time.monotonic() + seconds
    while time.monotonic() < late:
        if process.poll() is not None:
            raise Failure(f"the broker ended with {process.returncode} before it served")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise Failure(f"the broker does not serve after {seconds} s")


class Broker:
    """A Seedlog node of its own process, on a free port."""

    def __init__(self, directory, settings=()):
        self.directory = Path(directory)
        self.data = self.directory / "data"
        self.settings = list(settings)
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        argv = [SEEDLOG, "start", "--data-dir", self.data, "--listen", self.address]
        for s in self.settings:
            argv += ["--set", s]
        self.log = open(self.directory / "broker.log", "a")
        self.process = subprocess.Popen([str(a) for a in argv], stdout=self.log, stderr=self.log)
        wait_for_port(self.port, self.process, 30)
        return self

    def stop(self):
        """A clean stop."""
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(timeout=30) != 0:
            raise Failure(f"the broker ended with {self.process.returncode} on SIGTERM")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def end(self):
        if self.alive():
            self.kill()

    def log_tail(self, lines=15):
        text = (self.directory / "broker.log").read_text(errors="replace").splitlines()
        return "\n".join(l for l in text if "group-shard" not in l and "log-created" not in l)[-4000:].splitlines()[-lines:]


class Kafka:
    """Apache Kafka's own broker, a quorum of one, to write directories for Seedlog to read."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.data = self.directory / "data"
        self.port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.properties = self.directory / "kafka.properties"
        self.properties.write_text(
            f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={self.data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.segment.bytes=1048576
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.cleaner.enable=false
log.index.size.max.bytes=1024
group.initial.rebalance.delay.ms=0
"""
        )
        run(java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", self.properties))

    def start(self):
        self.log = open(self.directory / "kafka.log", "a")
        self.process = subprocess.Popen(java("kafka.Kafka", self.properties), stdout=self.log, stderr=self.log, cwd=self.directory)
        wait_for_port(self.port, self.process, 60)
        return self

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)

    def kill(self):
        self.process.kill()
        self.process.wait()


def need(installer, program=None):
    """Raises Refused unless what the installer installs is there."""
    reason = refused(installer)
    if reason:
        raise Refused(reason)
    if program and not shutil.which(program):
        raise Refused(f"no {program} on this machine")


class Refused(Exception):
    """A registry refused what a part needs."""
