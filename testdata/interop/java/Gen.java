import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Makes and checks the records that every interop client writes; README.md has the formula. */
final class Gen {
    static final long BASE_TIMESTAMP = 1700000000000L;
    private static final byte[] TABLE = table();

    record Rec(byte[] key, byte[] value, List<Header> headers, Long timestamp) {}

    private static byte[] table() {
        byte[] b = new byte[65536];
        int s = 1;
        for (int i = 0; i < b.length; i++) {
            s = s * 1664525 + 1013904223;
            b[i] = (byte) ('a' + (s >>> 24) % 26);
        }
        return b;
    }

    private static int mix(int i, int seed) {
        int x = (int) (i * 2654435761L) + seed;
        x ^= x >>> 15;
        x *= 0x2c1b3c6d;
        x ^= x >>> 12;
        x *= 0x297a2d39;
        return x ^ (x >>> 15);
    }

    static Rec make(int i, int seed, String profile) {
        int x = mix(i, seed);
        int kind = Integer.remainderUnsigned(x, 100);
        boolean kcat = profile.equals("kcat");
        byte[] value = null;
        if (kind == 5 && !kcat) {
            value = new byte[0];
        }
        if (kind > 5) {
            int length = (x >>> 8) % (kind == 99 ? 20000 : kind >= 90 ? 2000 : 200);
            int start = Integer.remainderUnsigned(x, 40000);
            byte[] prefix = ascii(i + ":");
            value = Arrays.copyOf(prefix, prefix.length + length);
            System.arraycopy(TABLE, start, value, prefix.length, length);
        }
        byte[] key = i % 10 != 0 || kind <= 5 ? ascii("key-" + i) : null;
        if (kcat) {
            return new Rec(key, value, List.of(new RecordHeader("src", ascii("kcat"))), null);
        }
        List<Header> headers = new ArrayList<>();
        if (i % 3 > 0) {
            headers.add(new RecordHeader("i", ascii(Integer.toString(i))));
        }
        if (i % 3 == 2) {
            headers.add(new RecordHeader("empty", new byte[0]));
        }
        return new Rec(key, value, headers, BASE_TIMESTAMP + i);
    }

    private static byte[] ascii(String s) {
        return s.getBytes(StandardCharsets.US_ASCII);
    }

    /** Compares what a reader receives with what the topic must hold. */
    static final class Checker {
        private final int n;
        private final int seed;
        private final String profile;
        private final boolean[] seen;
        private final Map<Integer, long[]> last = new HashMap<>();
        int count;

        Checker(int n, int seed, String profile) {
            this.n = n;
            this.seed = seed;
            this.profile = profile;
            this.seen = new boolean[n];
        }

        boolean done() {
            return count == n;
        }

        void add(ConsumerRecord<byte[], byte[]> r) {
            int i = index(r);
            String at = "index " + i + " at " + r.partition() + "/" + r.offset();
            require(i >= 0 && i < n, at);
            require(!seen[i], at + " came twice");
            seen[i] = true;
            long[] before = last.put(r.partition(), new long[] {i, r.offset()});
            require(before == null || (i > before[0] && r.offset() == before[1] + 1), at + " after " + Arrays.toString(before));
            count++;
            Rec want = make(i, seed, profile);
            require(Arrays.equals(want.key, r.key()), at + ": key");
            require(Arrays.equals(want.value, r.value()), at + ": value");
            require(want.headers.equals(Arrays.asList(r.headers().toArray())), at + ": headers " + r.headers());
            require(want.timestamp == null || want.timestamp == r.timestamp(), at + ": timestamp " + r.timestamp());
        }

        private static int index(ConsumerRecord<byte[], byte[]> r) {
            if (r.key() != null) {
                return Integer.parseInt(new String(r.key(), 4, r.key().length - 4, StandardCharsets.US_ASCII));
            }
            String head = new String(r.value(), 0, Math.min(12, r.value().length), StandardCharsets.US_ASCII);
            return Integer.parseInt(head.substring(0, head.indexOf(':')));
        }

        private static void require(boolean ok, String what) {
            if (!ok) {
                throw new IllegalStateException(what);
            }
        }
    }
}
