import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Makes Apache Kafka write the directories that Seedlog must read: "Golden clean BROKER" before a clean stop,
 * "Golden unclean BROKER" before a kill.
 */
public final class Golden {
    private static final long BASE = Gen.BASE_TIMESTAMP;
    private static final long HOUR_MS = 3_600_000;

    public static void main(String[] args) throws Exception {
        String broker = args[1];
        if (args[0].equals("clean")) {
            topics(broker);
            codecs(broker);
            unclean(broker, 0);
            transactions(broker);
            plain(broker);
            commit(broker);
        } else {
            unclean(broker, 1000);
        }
    }

    private static void topics(String broker) throws Exception {
        Map<String, String> small = Map.of("retention.ms", "-1", "segment.ms", "60000", "segment.index.bytes", "1024", "index.interval.bytes", "256");
        Map<String, String> append = Map.of("retention.ms", "-1", "message.timestamp.type", "LogAppendTime", "segment.index.bytes", "1024");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker))) {
            admin.createTopics(List.of(topic("codecs", small), topic("txn", small), topic("unclean", small), topic("append-time", append))).all().get();
        }
    }

    private static NewTopic topic(String name, Map<String, String> configs) {
        return new NewTopic(name, Optional.of(1), Optional.empty()).configs(configs);
    }

    private static KafkaProducer<String, String> producer(String broker, Map<String, String> more) {
        Properties p = new Properties();
        p.put("bootstrap.servers", broker);
        p.put("key.serializer", StringSerializer.class.getName());
        p.put("value.serializer", StringSerializer.class.getName());
        p.putAll(more);
        return new KafkaProducer<>(p);
    }

    private static void send(KafkaProducer<String, String> producer, String topic, int i, long timestamp) throws Exception {
        Gen.Rec r = Gen.make(i, 3, "full");
        String value = r.value() == null ? null : new String(r.value(), 0, Math.min(60, r.value().length), StandardCharsets.US_ASCII);
        String key = r.key() == null ? null : new String(r.key(), StandardCharsets.US_ASCII);
        producer.send(new ProducerRecord<>(topic, 0, timestamp, key, value, r.headers()));
        if (i % 5 == 4) {
            producer.flush();
        }
    }

    /** A segment for each codec, for their timestamps are hours apart. */
    private static void codecs(String broker) throws Exception {
        int i = 0;
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            try (KafkaProducer<String, String> producer = producer(broker, Map.of("compression.type", codec, "linger.ms", "1000"))) {
                for (int end = i + 20; i < end; i++) {
                    send(producer, "codecs", i, BASE + i + (i / 20) * HOUR_MS);
                }
            }
        }
    }

    private static void transactions(String broker) throws Exception {
        try (KafkaProducer<String, String> producer = producer(broker, Map.of("transactional.id", "golden", "linger.ms", "1000"))) {
            producer.initTransactions();
            for (int txn = 0; txn < 4; txn++) {
                producer.beginTransaction();
                for (int i = 0; i < 5; i++) {
                    send(producer, "txn", 5 * txn + i, BASE + txn * 1000 + i);
                }
                if (txn % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    private static void plain(String broker) throws Exception {
        try (KafkaProducer<String, String> producer = producer(broker, Map.of("enable.idempotence", "false", "acks", "1"))) {
            for (int i = 0; i < 10; i++) {
                send(producer, "append-time", i, BASE + i);
            }
        }
    }

    private static void unclean(String broker, int from) throws Exception {
        try (KafkaProducer<String, String> producer = producer(broker, Map.of("linger.ms", "1000"))) {
            for (int i = from; i < from + 20; i++) {
                send(producer, "unclean", i, BASE + i);
            }
        }
    }

    private static void commit(String broker) {
        Properties p = new Properties();
        p.put("bootstrap.servers", broker);
        p.put("group.id", "golden");
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("key.deserializer", StringDeserializer.class.getName());
        p.put("value.deserializer", StringDeserializer.class.getName());
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(List.of("codecs"));
            int n = 0;
            while (n < 100) {
                n += consumer.poll(Duration.ofMillis(200)).count();
            }
            consumer.commitSync();
        }
    }
}
