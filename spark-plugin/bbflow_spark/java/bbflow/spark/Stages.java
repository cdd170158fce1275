package bbflow.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.Stage;
import org.apache.spark.scheduler.StageInfo;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/** Listens to the scheduler: which partitions of a stage read what, in their order, and which of them have ended. */
final class Stages extends SparkListener {
    private static final Logger LOG = LoggerFactory.getLogger(Stages.class);
    private static final int TRIES = 5;

    private final SparkContext spark;
    private final Prefetcher prefetcher;
    private final java.util.Map<String, Integer> cores = new java.util.HashMap<>();

    Stages(SparkContext spark, Prefetcher prefetcher) {
        this.spark = spark;
        this.prefetcher = prefetcher;
    }

    @Override
    public void onStageSubmitted(SparkListenerStageSubmitted event) {
        StageInfo info = event.stageInfo();
        ObjectNode plan = about("plan", info.stageId(), info.attemptNumber()).put("slots", slots());
        ArrayNode partitions = plan.putArray("partitions");
        try {
            Stage stage = stage(info.stageId());
            for (Object index : scala.jdk.javaapi.CollectionConverters.asJava(stage.findMissingPartitions())) {
                List<Inputs.Range> ranges = new Inputs(spark).of(stage.rdd(), (Integer) index);
                if (!ranges.isEmpty()) {
                    ArrayNode partition = partitions.addArray().add((Integer) index);
                    ArrayNode all = partition.addArray();
                    ranges.forEach(range -> all.addArray().add(range.url).add(range.start).add(range.length));
                }
            }
        } catch (RuntimeException | LinkageError error) {
            // What it looks into is Spark's own, and may be otherwise in another version.
            LOG.warn("bbflow: the inputs of stage {} aren't prefetched: {}", info.stageId(), error.toString());
            partitions.removeAll();
        }
        // An empty one too: tasks wait for their stage's plan before they read by themselves.
        prefetcher.say(plan);
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd event) {
        if (event.taskInfo() != null && event.taskInfo().successful()) {
            ObjectNode done = about("done", event.stageId(), event.stageAttemptId());
            prefetcher.say(done.put("partition", event.taskInfo().partitionId()));
        }
    }

    @Override
    public void onStageCompleted(SparkListenerStageCompleted event) {
        StageInfo info = event.stageInfo();
        prefetcher.say(about("over", info.stageId(), info.attemptNumber()));
    }

    @Override
    public void onApplicationEnd(SparkListenerApplicationEnd event) {
        prefetcher.say(about("end", 0, 0));
    }

    @Override
    public void onExecutorAdded(SparkListenerExecutorAdded event) {
        cores.put(event.executorId(), event.executorInfo().totalCores());
    }

    @Override
    public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
        cores.remove(event.executorId());
    }

    private ObjectNode about(String operation, int stage, int attempt) {
        return Blocks.about(spark.applicationId(), stage, attempt).put("op", operation);
    }

    /** Tasks that can run at once: by the executors that are there, or those that are asked for if they are more. */
    private int slots() {
        SparkConf conf = spark.conf();
        int there = cores.values().stream().mapToInt(Integer::intValue).sum();
        int wanted = Math.max(
                conf.getInt("spark.cores.max", 0),
                conf.getInt("spark.executor.instances", 0) * conf.getInt("spark.executor.cores", 1));
        int all = Math.max(there, wanted);
        return Math.max(1, (all == 0 ? spark.defaultParallelism() : all) / conf.getInt("spark.task.cpus", 1));
    }

    /** Returns a stage of the scheduler, which other threads alter: a look that fails is tried again. */
    private Stage stage(int id) {
        for (int left = TRIES; ; left--) {
            try {
                Option<Stage> found = spark.dagScheduler().stageIdToStage().get(id);
                if (found.isDefined()) {
                    return found.get();
                }
            } catch (RuntimeException altered) {
                LOG.debug("the scheduler's stages were altered", altered);
            }
            if (left == 0) {
                throw new IllegalStateException("the scheduler doesn't know it any more");
            }
            Thread.yield();
        }
    }
}
