package bbflow.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;

/** Where the prefetcher is, and the key that lets in: the contact file. */
final class Contact {
    /** Hadoop's property that names the file; Spark's has the prefix spark.hadoop. */
    static final String PROPERTY = "bbflow.contact";

    static final ObjectMapper JSON = new ObjectMapper();

    final InetSocketAddress address;
    final String key;

    private Contact(InetSocketAddress address, String key) {
        this.address = address;
        this.key = key;
    }

    /** Reads a contact file; an IOException says that no prefetcher has written one. */
    static Contact read(String path) throws IOException {
        JsonNode content = JSON.readTree(new File(path));
        JsonNode nodes = content.path("nodes");
        String place = nodes.path(0).path("tcp").asText("");
        int colon = place.lastIndexOf(':');
        if (colon < 0) {
            throw new IOException(path + " names no prefetcher");
        }
        int port = Integer.parseInt(place.substring(colon + 1));
        return new Contact(new InetSocketAddress(place.substring(0, colon), port), content.path("key").asText());
    }
}
