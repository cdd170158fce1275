package edu.isi.pegasus.planner.refiner.cleanup;

import bbflow.pegasus.Layout;
import edu.isi.pegasus.planner.classes.ADag;
import edu.isi.pegasus.planner.classes.Job;
import edu.isi.pegasus.planner.classes.PegasusBag;
import edu.isi.pegasus.planner.classes.PegasusFile;
import edu.isi.pegasus.planner.partitioner.graph.Graph;
import edu.isi.pegasus.planner.partitioner.graph.GraphNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Removes the files whose room a later wave needs by jobs that this wave waits for; the rest is Pegasus's own in-place
 * cleanup's.
 *
 * <p>Cleanup jobs can't be made before the planner knows where files lie on each site, so the refiner can't make them. The
 * planner looks for strategies in this package only.
 */
public class BurstBuffer extends InPlace {

    private CleanupImplementation mCleanups;

    @Override
    public void initialize(PegasusBag bag, CleanupImplementation implementation) {
        super.initialize(bag, implementation);
        mCleanups = implementation;
    }

    @Override
    public Graph addCleanupJobs(Graph workflow) {
        Layout layout = Layout.current();
        Set<String> ours = new HashSet<>();
        layout.cleanUps.values().forEach(ours::addAll);
        for (Iterator<GraphNode> nodes = workflow.nodeIterator(); nodes.hasNext(); ) {
            Job job = (Job) nodes.next().getContent();
            leave(job.getInputFiles(), ours);
            leave(job.getOutputFiles(), ours);
        }
        ADag changed = (ADag) super.addCleanupJobs(workflow);
        for (Map.Entry<String, List<String>> cleanUp : layout.cleanUps.entrySet()) {
            changed.add(cleanUp(changed, cleanUp.getKey(), cleanUp.getValue(), layout));
        }
        for (String[] edge : layout.edges) {
            if (layout.cleanUps.containsKey(edge[0]) || layout.cleanUps.containsKey(edge[1])) {
                changed.addEdge(edge[0], edge[1]);
            }
        }
        return changed;
    }

    /** Leaves edges that say what others imply: looking for them walks through all waves before, for each cleanup job. */
    @Override
    protected void reduceDependency(GraphNode node) {}

    /** Lets Pegasus's own jobs leave files alone. */
    private static void leave(Collection<?> files, Set<String> ours) {
        for (Object each : files) {
            PegasusFile file = (PegasusFile) each;
            if (ours.contains(file.getLFN())) {
                file.setForCleanup(false);
            }
        }
    }

    private Job cleanUp(ADag workflow, String name, List<String> names, Layout layout) {
        List<PegasusFile> files = new ArrayList<>();
        names.forEach(file -> files.add(new PegasusFile(file)));
        for (String[] edge : layout.edges) {
            if (edge[1].equals(name)) {
                return mCleanups.createCleanupJob(name, files, (Job) workflow.getNode(edge[0]).getContent());
            }
        }
        throw new IllegalStateException(name + " waits for no job");
    }
}
