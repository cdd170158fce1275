package bbflow.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileSystem;

/** A file whose parts lie on the burst buffer or at the source; which, is asked when a part is first read. */
final class BlockInputStream extends FSInputStream {
    private final Blocks.Source source;
    private final Blocks.Question question;
    private final FileSystem.Statistics statistics;

    private FSDataInputStream original;
    private FileChannel copy;
    private long position;
    /** What is known holds from here to before the end; nothing is known while they are the same. */
    private long start;
    private long end;

    BlockInputStream(Blocks.Source source, Blocks.Question question, FileSystem.Statistics statistics) {
        this.source = source;
        this.question = question;
        this.statistics = statistics;
    }

    @Override
    public synchronized int read(byte[] buffer, int offset, int length) throws IOException {
        if (length == 0) {
            return 0;
        }
        if (position < start || position >= end) {
            locate();
        }
        int most = (int) Math.min(length, end - position);
        int got = copy == null ? -1 : readCopy(buffer, offset, most);
        if (got <= 0) {
            got = readOriginal(buffer, offset, most);
        }
        position += Math.max(got, 0);
        return got;
    }

    @Override
    public synchronized int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) <= 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public synchronized void seek(long to) throws IOException {
        if (to < 0) {
            throw new EOFException("a position below 0: " + to);
        }
        position = to;
    }

    @Override
    public synchronized long getPos() {
        return position;
    }

    @Override
    public boolean seekToNewSource(long to) {
        return false;
    }

    @Override
    public synchronized void close() throws IOException {
        closeCopy();
        if (original != null) {
            original.close();
            original = null;
        }
    }

    private void locate() throws IOException {
        closeCopy();
        JsonNode found = question.at(position);
        start = position;
        end = found == null ? Long.MAX_VALUE : found.path("end").asLong(Long.MAX_VALUE);
        if (found != null && found.has("path")) {
            start = found.path("start").asLong();
            try {
                copy = FileChannel.open(Paths.get(found.path("path").asText()), StandardOpenOption.READ);
            } catch (IOException gone) {
                copy = null; // it went meanwhile, or this host doesn't see the burst buffer
            }
        }
    }

    /** Reads the copy; nothing if it doesn't hold what it should. */
    private int readCopy(byte[] buffer, int offset, int most) {
        try {
            int got = copy.read(ByteBuffer.wrap(buffer, offset, most), position - start);
            if (got > 0 && statistics != null) {
                statistics.incrementBytesRead(got);
            }
            return got;
        } catch (IOException broken) {
            return -1;
        }
    }

    private int readOriginal(byte[] buffer, int offset, int most) throws IOException {
        if (original == null) {
            original = source.open();
        }
        if (original.getPos() != position) {
            original.seek(position);
        }
        return original.read(buffer, offset, most);
    }

    private void closeCopy() throws IOException {
        if (copy != null) {
            copy.close();
            copy = null;
        }
    }
}
