package bbflow.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.HexFormat;

/** One connection to the prefetcher: a line of JSON there, one back, after both sides have shown that they know the key. */
final class Connection implements Closeable {
    static final int VERSION = 4;
    private static final int CONNECT_MS = 2000;
    /** A prefetcher that lives says something at least each second. */
    private static final int SILENCE_MS = 5000;

    private final Socket socket = new Socket();
    private final BufferedReader lines;
    private final OutputStream out;
    private Seal said;
    private Seal heard;

    Connection(Contact contact) throws IOException {
        try {
            socket.connect(contact.address, CONNECT_MS);
            socket.setSoTimeout(SILENCE_MS);
            socket.setTcpNoDelay(true);
            lines = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            out = socket.getOutputStream();
            shakeHands(contact.key);
        } catch (IOException | RuntimeException error) {
            socket.close();
            throw error;
        }
    }

    /** Sends a message and returns the reply; lines that only tell that the prefetcher lives are passed over. */
    JsonNode exchange(ObjectNode message) throws IOException {
        say(message);
        return hear();
    }

    private void say(ObjectNode message) throws IOException {
        String text = message.toString();
        out.write(bytes((said == null ? "" : tag(said, text) + " ") + text + "\n"));
        out.flush();
    }

    private JsonNode hear() throws IOException {
        while (true) {
            String line = lines.readLine();
            if (line == null) {
                throw new IOException("the prefetcher has gone");
            }
            JsonNode reply = Contact.JSON.readTree(heard == null ? line : opened(line));
            if (!reply.path("wait").asBoolean()) {
                return reply;
            }
        }
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }

    private void shakeHands(String key) throws IOException {
        byte[] dice = new byte[16];
        new SecureRandom().nextBytes(dice);
        String nonce = HexFormat.of().formatHex(dice);
        ObjectNode hello = Contact.JSON.createObjectNode().put("op", "hello").put("nonce", nonce);
        hello.putArray("versions").add(VERSION).add(VERSION);
        JsonNode answer = accepted(exchange(hello));
        String theirs = answer.path("nonce").asText();
        if (!MessageDigest.isEqual(bytes(answer.path("proof").asText()), bytes(prove(key, "node", nonce, theirs)))) {
            throw new IOException("who answers doesn't know the contact file's key");
        }
        ObjectNode proof = Contact.JSON.createObjectNode().put("op", "prove");
        say(proof.put("proof", prove(key, "peer", nonce, theirs)));
        try {
            said = new Seal(HexFormat.of().parseHex(key), nonce + theirs, "peer");
            heard = new Seal(HexFormat.of().parseHex(key), nonce + theirs, "node");
        } catch (GeneralSecurityException error) {
            throw new IOException("this Java has no HMAC-SHA-256", error);
        }
        accepted(hear());
    }

    /** Returns what a line says, if it wasn't changed on the way. */
    private String opened(String line) throws IOException {
        int space = Math.max(line.indexOf(' '), 0);
        String text = line.substring(Math.min(space + 1, line.length()));
        if (!MessageDigest.isEqual(bytes(line.substring(0, space)), bytes(tag(heard, text)))) {
            throw new IOException("a line of the prefetcher was damaged on its way, or isn't the next one that it said");
        }
        return text;
    }

    private static String tag(Seal seal, String text) throws IOException {
        try {
            return seal.next(bytes(text));
        } catch (GeneralSecurityException error) {
            throw new IOException("this Java has no AES in Galois/Counter Mode", error);
        }
    }

    private static JsonNode accepted(JsonNode reply) throws IOException {
        if (!reply.path("ok").asBoolean()) {
            throw new IOException(reply.path("error").asText("the prefetcher refuses"));
        }
        return reply;
    }

    private static String prove(String key, String side, String ours, String theirs) throws IOException {
        try {
            return HexFormat.of().formatHex(Seal.hmac(HexFormat.of().parseHex(key), bytes(side + ours + theirs)));
        } catch (GeneralSecurityException | IllegalArgumentException error) {
            throw new IOException("the contact file's key can't be used", error);
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
