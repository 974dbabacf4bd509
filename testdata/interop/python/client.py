"""The interop clients in Python: client.py LIBRARY write BROKER TOPIC N SEED CODECS | LIBRARY read BROKER TOPIC N SEED PROFILE GROUP."""

import asyncio
import json
import sys
import time

import gen

LIMIT_SECONDS = 150


def confluent_write(broker, topic, n, seed, codecs):
    import confluent_kafka

    failed = []

    def delivered(err, _msg):
        if err is not None:
            failed.append(err)

    for codec, indices in gen.runs(n, codecs):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5,
             "queue.buffering.max.messages": 1000000}
        )
        for i in indices:
            key, value, headers, timestamp = gen.make(i, seed, "full")
            producer.produce(topic, value=value, key=key, headers=headers, timestamp=timestamp, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(60) == 0, "not all was delivered in time"
        assert not failed, failed[0]


def confluent_read(broker, topic, n, seed, profile, group):
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    check, late = gen.Checker(n, seed, profile), time.monotonic() + LIMIT_SECONDS
    while not check.done():
        assert time.monotonic() < late, f"{check.count} of {n} records in time"
        for m in consumer.consume(1000, 0.2):
            assert m.error() is None, m.error()
            check.add(m.partition(), m.offset(), m.key(), m.value(), m.headers(), m.timestamp()[1])
    consumer.commit(asynchronous=False)
    consumer.close()


def kafka_python_write(broker, topic, n, seed, codecs):
    import kafka

    for codec, indices in gen.runs(n, codecs):
        producer = kafka.KafkaProducer(
            bootstrap_servers=broker, compression_type=None if codec == "none" else codec, acks="all", linger_ms=5
        )
        sent = []
        for i in indices:
            key, value, headers, timestamp = gen.make(i, seed, "full")
            sent.append(producer.send(topic, value=value, key=key, headers=headers, timestamp_ms=timestamp))
        producer.flush(timeout=60)
        for future in sent:
            future.get(timeout=1)
        producer.close()


def kafka_python_read(broker, topic, n, seed, profile, group):
    import kafka

    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=broker, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    check, late = gen.Checker(n, seed, profile), time.monotonic() + LIMIT_SECONDS
    while not check.done():
        assert time.monotonic() < late, f"{check.count} of {n} records in time"
        for records in consumer.poll(timeout_ms=200, max_records=2000).values():
            for m in records:
                check.add(m.partition, m.offset, m.key, m.value, m.headers, m.timestamp)
    consumer.commit()
    consumer.close()


async def aiokafka_write(broker, topic, n, seed, codecs):
    import aiokafka

    for codec, indices in gen.runs(n, codecs):
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker, compression_type=None if codec == "none" else codec, enable_idempotence=True, linger_ms=2,
            max_batch_size=65536
        )
        await producer.start()
        sent = []
        for i in indices:
            key, value, headers, timestamp = gen.make(i, seed, "full")
            sent.append(await producer.send(topic, value=value, key=key, headers=headers, timestamp_ms=timestamp))
        await asyncio.wait_for(producer.flush(), 60)
        for future in sent:
            await future
        await producer.stop()


async def aiokafka_read(broker, topic, n, seed, profile, group):
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=broker, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    check, late = gen.Checker(n, seed, profile), time.monotonic() + LIMIT_SECONDS
    while not check.done():
        assert time.monotonic() < late, f"{check.count} of {n} records in time"
        for records in (await consumer.getmany(timeout_ms=200, max_records=2000)).values():
            for m in records:
                check.add(m.partition, m.offset, m.key, m.value, m.headers, m.timestamp)
    await consumer.commit()
    await consumer.stop()


def version(library):
    if library == "confluent-kafka":
        import confluent_kafka

        return f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})".replace("('", "").replace("',)", "")
    from importlib.metadata import version as of

    return of(library)


LIBRARIES = {
    "confluent-kafka": (confluent_write, confluent_read),
    "kafka-python": (kafka_python_write, kafka_python_read),
    "aiokafka": (aiokafka_write, aiokafka_read),
}


def main():
    library, verb, broker, topic, n, seed = sys.argv[1:7]
    rest = sys.argv[7:]
    if verb == "write":
        rest = [rest[0].split(",")]
    result = LIBRARIES[library][verb == "read"](broker, topic, int(n), int(seed), *rest)
    if asyncio.iscoroutine(result):
        asyncio.run(result)
    print(json.dumps({"version": version(library), "records": int(n)}))


main()
