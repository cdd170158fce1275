package bbflow.spark;

import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.util.LambdaUtils;

/** Takes the place of file: Hadoop wants a LocalFileSystem there. Only reading is different. */
public final class LocalBlocks extends LocalFileSystem {
    @Override
    @SuppressWarnings("deprecation") // Hadoop's own local file system has none of its own, and Spark asks for these
    public FSDataInputStream open(Path path, int buffer) throws IOException {
        Statistics read = getStatistics(getScheme(), getClass());
        return Blocks.open(() -> super.open(path, buffer), makeQualified(path), buffer, getConf(), read);
    }

    @Override
    public FutureDataInputStreamBuilder openFile(Path path) {
        return createDataInputStreamBuilder(this, path);
    }

    @Override
    protected CompletableFuture<FSDataInputStream> openFileWithOptions(Path path, OpenFileParameters parameters) {
        return LambdaUtils.eval(new CompletableFuture<>(), () -> open(path, parameters.getBufferSize()));
    }
}
