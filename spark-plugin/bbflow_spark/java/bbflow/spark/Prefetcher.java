package bbflow.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The prefetcher as this process sees it: connections that are kept, and patience with one that is dead. */
final class Prefetcher {
    private static final Logger LOG = LoggerFactory.getLogger(Prefetcher.class);
    private static final Map<String, Prefetcher> BY_CONTACT = new ConcurrentHashMap<>();
    private static final long SULK_NS = 5_000_000_000L;

    private final String path;
    private final ConcurrentLinkedDeque<Connection> idle = new ConcurrentLinkedDeque<>();
    private volatile long notBefore = System.nanoTime();

    private Prefetcher(String path) {
        this.path = path;
    }

    /** Returns the one behind a contact file, for tasks; null if none is configured. */
    static Prefetcher of(String path) {
        return isNone(path) ? null : BY_CONTACT.computeIfAbsent(path, Prefetcher::new);
    }

    /** Returns the one behind a contact file, for a driver: when its connections end, its application has ended. */
    static Prefetcher forDriver(String path) {
        return isNone(path) ? null : new Prefetcher(path);
    }

    private static boolean isNone(String path) {
        return path == null || path.isEmpty();
    }

    /** Sends a message and returns the reply; null if the prefetcher is dead, refuses or is silent. */
    JsonNode say(ObjectNode message) {
        if (System.nanoTime() - notBefore < 0) {
            return null;
        }
        try {
            Connection kept = idle.poll();
            if (kept != null) {
                try {
                    return reply(kept, message);
                } catch (SocketTimeoutException silent) {
                    throw silent;
                } catch (IOException stale) {
                    LOG.debug("a kept connection has ended", stale);
                }
            }
            return reply(new Connection(Contact.read(path)), message);
        } catch (IOException | RuntimeException error) {
            LOG.warn("bbflow: no prefetcher behind {} ({}): inputs are read from their source", path, error.toString());
            notBefore = System.nanoTime() + SULK_NS;
            return null;
        }
    }

    private JsonNode reply(Connection connection, ObjectNode message) throws IOException {
        try {
            JsonNode reply = connection.exchange(message);
            idle.push(connection);
            return reply;
        } catch (IOException error) {
            connection.close();
            throw error;
        }
    }
}
