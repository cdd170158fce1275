package bbflow.pegasus;

import edu.isi.pegasus.planner.partitioner.graph.Graph;
import edu.isi.pegasus.planner.partitioner.graph.GraphNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Edges that say only what others imply: the planner waits for 5 ms for each that it draws. */
public final class Implied {

    /** Jobs whose descendants are looked for at once, a bit each, so that a long workflow takes little memory. */
    private static final int BLOCK = 4096;

    private final List<GraphNode> order = new ArrayList<>();
    private final Map<String, Integer> places = new HashMap<>();

    private Implied(Graph workflow) {
        for (Iterator<GraphNode> nodes = workflow.topologicalSortIterator(); nodes.hasNext(); ) {
            GraphNode node = nodes.next();
            places.put(node.getID(), order.size());
            order.add(node);
        }
    }

    /**
     * Removes edges to which a longer path leads.
     *
     * @param workflow of which they are
     * @param children names of the jobs whose parents may become fewer
     */
    public static void remove(Graph workflow, Set<String> children) {
        Implied implied = new Implied(workflow);
        List<GraphNode[]> found = new ArrayList<>();
        for (int start = 0; start < implied.order.size(); start += BLOCK) {
            implied.find(start, children, found);
        }
        for (GraphNode[] edge : found) {
            edge[0].removeChild(edge[1]);
            edge[1].removeParent(edge[0]);
        }
    }

    /** Looks among edges from the jobs of one block. */
    private void find(int start, Set<String> children, List<GraphNode[]> found) {
        long[][] above = new long[order.size()][];
        for (int place = start; place < order.size(); place++) {
            GraphNode node = order.get(place);
            long[] far = new long[BLOCK / Long.SIZE];
            for (GraphNode parent : node.getParents()) {
                long[] theirs = above[places.get(parent.getID())];
                for (int word = 0; theirs != null && word < far.length; word++) {
                    far[word] |= theirs[word];
                }
            }
            above[place] = Arrays.copyOf(far, far.length);
            for (GraphNode parent : node.getParents()) {
                int bit = places.get(parent.getID()) - start;
                if (bit >= 0 && bit < BLOCK) {
                    above[place][bit / Long.SIZE] |= 1L << bit;
                    if ((far[bit / Long.SIZE] & 1L << bit) != 0 && children.contains(node.getID())) {
                        found.add(new GraphNode[] {parent, node});
                    }
                }
            }
        }
    }
}
