package bbflow.spark;

import java.io.IOException;
import java.net.URI;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.util.LambdaUtils;

/** Takes the place of any other scheme's file system, such as s3a, which does everything but reading what is prefetched. */
public final class RemoteBlocks extends FilterFileSystem {
    /** Hadoop's property with the class whose place is taken, for a scheme; by default Hadoop's own. */
    private static final String SOURCE = "bbflow.source.%s.impl";

    private String scheme;

    @Override
    public void initialize(URI name, Configuration conf) throws IOException {
        scheme = name.getScheme();
        fs = FileSystem.newInstance(name, own(conf));
        super.initialize(name, conf);
    }

    /** Returns a configuration in which the scheme has its own class. */
    private Configuration own(Configuration conf) {
        String property = "fs." + scheme + ".impl";
        String original = conf.get(String.format(SOURCE, scheme), new Configuration().get(property));
        Configuration own = new Configuration(conf);
        if (original == null || original.equals(getClass().getName())) {
            own.unset(property);
        } else {
            own.set(property, original);
        }
        return own;
    }

    @Override
    public String getScheme() {
        return scheme;
    }

    @Override
    public FSDataInputStream open(Path path, int buffer) throws IOException {
        return opened(path, buffer, () -> fs.open(path, buffer));
    }

    @Override
    public FutureDataInputStreamBuilder openFile(Path path) {
        return createDataInputStreamBuilder(this, path);
    }

    @Override
    protected CompletableFuture<FSDataInputStream> openFileWithOptions(Path path, OpenFileParameters parameters) {
        FileStatus status = parameters.getStatus();
        Blocks.Source source = () -> status == null
                ? fs.open(path, parameters.getBufferSize())
                : opened(fs.openFile(path).withFileStatus(status).build());
        return LambdaUtils.eval(
                new CompletableFuture<>(), () -> opened(path, parameters.getBufferSize(), source));
    }

    private static FSDataInputStream opened(CompletableFuture<FSDataInputStream> future) throws IOException {
        return org.apache.hadoop.util.functional.FutureIO.awaitFuture(future);
    }

    private FSDataInputStream opened(Path path, int buffer, Blocks.Source source) throws IOException {
        return Blocks.open(source, makeQualified(path), buffer, getConf(), statistics);
    }
}
