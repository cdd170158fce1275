package edu.isi.pegasus.planner.refiner.cleanup;

import bbflow.pegasus.Implied;
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
        Set<String> others = namesIn(workflow);
        ADag changed = (ADag) super.addCleanupJobs(workflow);
        Set<String> theirs = namesIn(changed);
        theirs.removeAll(others);
        for (Map.Entry<String, List<String>> cleanUp : layout.cleanUps.entrySet()) {
            changed.add(cleanUp(changed, cleanUp.getKey(), cleanUp.getValue(), layout));
        }
        for (String[] edge : layout.edges) {
            if (layout.cleanUps.containsKey(edge[0]) || layout.cleanUps.containsKey(edge[1])) {
                changed.addEdge(edge[0], edge[1]);
            }
        }
        Implied.remove(changed, theirs);
        return changed;
    }

    private static Set<String> namesIn(Graph workflow) {
        Set<String> names = new HashSet<>();
        for (Iterator<GraphNode> nodes = workflow.nodeIterator(); nodes.hasNext(); ) {
            names.add(nodes.next().getID());
        }
        return names;
    }

    /** Leaves it to {@link Implied}: this would walk through all waves before, for each cleanup job. */
    @Override
    protected void reduceDependency(GraphNode node) {}

    /** Keeps Pegasus's own jobs from removing files. */
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
                return mCleanups.createCleanupJob(name, files, user(workflow.getNode(edge[0]), layout));
            }
        }
        throw new IllegalStateException(name + " waits for no job");
    }

    /** Returns the job itself, or one whose results it copies out. */
    private static Job user(GraphNode node, Layout layout) {
        boolean stagesOut = layout.waves.stream().noneMatch(wave -> wave.contains(node.getID()));
        return stagesOut ? user(node.getParents().iterator().next(), layout) : (Job) node.getContent();
    }
}
