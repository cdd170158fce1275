package bbflow.spark;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.lib.input.CombineFileSplit;
import org.apache.spark.Dependency;
import org.apache.spark.NarrowDependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.HadoopPartition;
import org.apache.spark.rdd.NewHadoopPartition;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition;
import scala.collection.IterableOnce;
import scala.jdk.javaapi.CollectionConverters;

/** Which parts of which files a partition of a stage reads: those of the partitions that it is made of. */
final class Inputs {
    /** A part of a file. */
    static final class Range {
        final String url;
        final long start;
        final long length;

        Range(Path path, long start, long length) {
            this.url = Blocks.url(path);
            this.start = start;
            this.length = length;
        }
    }

    private final SparkContext spark;
    private final Map<Integer, Object> cached = new HashMap<>();

    Inputs(SparkContext spark) {
        this.spark = spark;
    }

    /** Returns the parts in the order in which they are read. */
    List<Range> of(RDD<?> rdd, int index) {
        List<Range> found = new ArrayList<>();
        collect(rdd, index, found);
        return found;
    }

    private void collect(RDD<?> rdd, int index, List<Range> found) {
        if (isCached(rdd, index)) {
            return;
        }
        Partition partition = rdd.partitions()[index];
        if (partition instanceof HadoopPartition) {
            add(((HadoopPartition) partition).inputSplit().value(), found);
        } else if (partition instanceof NewHadoopPartition) {
            add(((NewHadoopPartition) partition).serializableHadoopSplit().value(), found);
        } else if (partition instanceof FilePartition) {
            add((FilePartition) partition, found);
        } else if (partition instanceof DataSourceRDDPartition) {
            for (Object part : parts((DataSourceRDDPartition) partition)) {
                add(part, found);
            }
        }
        for (Dependency<?> dependency : CollectionConverters.asJava(rdd.dependencies())) {
            if (dependency instanceof NarrowDependency) {
                NarrowDependency<?> narrow = (NarrowDependency<?>) dependency;
                for (Object parent : CollectionConverters.asJava(narrow.getParents(index))) {
                    collect(narrow.rdd(), (Integer) parent, found);
                }
            }
        }
    }

    /** Returns what a partition of a data source reads: several parts in Spark 4.0, one at most in later ones. */
    private static Iterable<?> parts(DataSourceRDDPartition partition) {
        for (Method method : DataSourceRDDPartition.class.getMethods()) {
            if (method.getName().matches("inputPartitions?")) {
                try {
                    return CollectionConverters.asJava(((IterableOnce<?>) method.invoke(partition)).iterator().toList());
                } catch (ReflectiveOperationException error) {
                    throw new IllegalStateException(error);
                }
            }
        }
        throw new IllegalStateException("this Spark doesn't say what a data source reads");
    }

    private boolean isCached(RDD<?> rdd, int index) {
        if (!rdd.getStorageLevel().isValid()) {
            return false;
        }
        @SuppressWarnings("unchecked")
        scala.collection.immutable.IndexedSeq<scala.collection.immutable.Seq<?>> places =
                (scala.collection.immutable.IndexedSeq<scala.collection.immutable.Seq<?>>)
                        cached.computeIfAbsent(rdd.id(), id -> spark.dagScheduler().getCacheLocs(rdd));
        return places.apply(index).nonEmpty();
    }

    private static void add(Object split, List<Range> found) {
        if (split instanceof org.apache.hadoop.mapred.FileSplit) {
            org.apache.hadoop.mapred.FileSplit file = (org.apache.hadoop.mapred.FileSplit) split;
            found.add(new Range(file.getPath(), file.getStart(), file.getLength()));
        } else if (split instanceof org.apache.hadoop.mapreduce.lib.input.FileSplit) {
            org.apache.hadoop.mapreduce.lib.input.FileSplit file = (org.apache.hadoop.mapreduce.lib.input.FileSplit) split;
            found.add(new Range(file.getPath(), file.getStart(), file.getLength()));
        } else if (split instanceof CombineFileSplit) {
            CombineFileSplit files = (CombineFileSplit) split;
            for (int number = 0; number < files.getNumPaths(); number++) {
                found.add(new Range(files.getPath(number), files.getOffset(number), files.getLength(number)));
            }
        } else if (split instanceof FilePartition) {
            for (PartitionedFile file : ((FilePartition) split).files()) {
                found.add(new Range(file.toPath(), file.start(), file.length()));
            }
        }
    }
}
