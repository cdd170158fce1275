package bbflow.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BufferedFSInputStream;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/** Opens files for tasks: what the prefetcher has brought is read from the burst buffer, the rest from its source. */
final class Blocks {
    /** Opens the source itself. */
    interface Source {
        FSDataInputStream open() throws IOException;
    }

    private Blocks() {}

    /** Opens a file; outside of a task, and without a prefetcher, this is the source. */
    static FSDataInputStream open(
            Source source, Path path, int buffer, Configuration conf, FileSystem.Statistics statistics) throws IOException {
        TaskContext task = TaskContext.get();
        Prefetcher prefetcher = task == null ? null : Prefetcher.of(conf.get(Contact.PROPERTY));
        if (prefetcher == null) {
            return source.open();
        }
        Question question = new Question(prefetcher, task, url(path));
        return new FSDataInputStream(
                new BufferedFSInputStream(new BlockInputStream(source, question, statistics), Math.max(buffer, 1 << 16)));
    }

    /** Names a file as the prefetcher does: a path where Hadoop has file:, else the URL. */
    static String url(Path path) {
        String scheme = path.toUri().getScheme();
        return scheme == null || scheme.equals("file") ? path.toUri().getPath() : path.toString();
    }

    /** What a task asks of one file. */
    static final class Question {
        private final Prefetcher prefetcher;
        private final ObjectNode message;

        Question(Prefetcher prefetcher, TaskContext task, String url) {
            this.prefetcher = prefetcher;
            this.message = about(SparkEnv.get().conf().getAppId(), task.stageId(), task.stageAttemptNumber())
                    .put("op", "ask")
                    .put("partition", task.partitionId())
                    .put("url", url);
        }

        /** Returns where the bytes from a position on are; null for the source, as far as anybody knows. */
        JsonNode at(long position) {
            return prefetcher.say(message.deepCopy().put("at", position));
        }
    }

    /** Begins a message about a stage. */
    static ObjectNode about(String application, int stage, int attempt) {
        return Contact.JSON.createObjectNode().put("app", application).put("stage", stage).put("attempt", attempt);
    }
}
