package bbflow.spark;

import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/** What spark.plugins names: tells the prefetcher what Spark is going to read. */
public final class Plugin implements SparkPlugin {
    @Override
    public DriverPlugin driverPlugin() {
        return new DriverPlugin() {
            @Override
            public Map<String, String> init(SparkContext spark, PluginContext context) {
                Prefetcher prefetcher = Prefetcher.forDriver(spark.hadoopConfiguration().get(Contact.PROPERTY));
                if (prefetcher != null) {
                    spark.addSparkListener(new Stages(spark, prefetcher));
                }
                return Map.of();
            }
        };
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return null;
    }
}
