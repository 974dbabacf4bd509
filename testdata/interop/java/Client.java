import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** The interop client on Kafka's own: write BROKER TOPIC N SEED CODECS | read BROKER TOPIC N SEED PROFILE GROUP. */
public final class Client {
    private static final long LIMIT_MS = 120_000;

    public static void main(String[] args) throws Exception {
        String broker = args[1];
        String topic = args[2];
        int n = Integer.parseInt(args[3]);
        int seed = Integer.parseUnsignedInt(args[4]);
        if (args[0].equals("write")) {
            String[] codecs = args[5].split(",");
            for (int k = 0; k < codecs.length; k++) {
                write(broker, topic, seed, codecs[k], k * n / codecs.length, (k + 1) * n / codecs.length);
            }
        } else {
            read(broker, topic, n, seed, args[5], args[6]);
        }
        System.out.println("{\"version\": \"" + AppInfoParser.getVersion() + "\", \"records\": " + n + "}");
    }

    private static void write(String broker, String topic, int seed, String codec, int from, int to) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", broker);
        p.put("compression.type", codec);
        p.put("linger.ms", "5");
        p.put("key.serializer", ByteArraySerializer.class.getName());
        p.put("value.serializer", ByteArraySerializer.class.getName());
        AtomicReference<Exception> failed = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p)) {
            for (int i = from; i < to; i++) {
                Gen.Rec r = Gen.make(i, seed, "full");
                producer.send(new ProducerRecord<>(topic, null, r.timestamp(), r.key(), r.value(), r.headers()), (m, e) -> {
                    if (e != null) {
                        failed.compareAndSet(null, e);
                    }
                });
            }
        }
        if (failed.get() != null) {
            throw failed.get();
        }
    }

    private static void read(String broker, String topic, int n, int seed, String profile, String group) {
        Properties p = new Properties();
        p.put("bootstrap.servers", broker);
        p.put("group.id", group);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(List.of(topic));
            Gen.Checker check = new Gen.Checker(n, seed, profile);
            long late = System.currentTimeMillis() + LIMIT_MS;
            while (!check.done()) {
                if (System.currentTimeMillis() > late) {
                    throw new IllegalStateException(check.count + " of " + n + " records in time");
                }
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
                    check.add(r);
                }
            }
            consumer.commitSync();
        }
    }
}
