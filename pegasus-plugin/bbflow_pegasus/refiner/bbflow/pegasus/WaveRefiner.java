package bbflow.pegasus;

import edu.isi.pegasus.planner.catalog.site.classes.GridGateway;
import edu.isi.pegasus.planner.classes.ADag;
import edu.isi.pegasus.planner.classes.FileTransfer;
import edu.isi.pegasus.planner.classes.Job;
import edu.isi.pegasus.planner.classes.PegasusBag;
import edu.isi.pegasus.planner.classes.PegasusFile;
import edu.isi.pegasus.planner.classes.PlannerOptions;
import edu.isi.pegasus.planner.code.GridStartFactory;
import edu.isi.pegasus.planner.namespace.Dagman;
import edu.isi.pegasus.planner.namespace.Pegasus;
import edu.isi.pegasus.planner.partitioner.graph.GraphNode;
import edu.isi.pegasus.planner.refiner.ReplicaCatalogBridge;
import edu.isi.pegasus.planner.transfer.refiner.Cluster;
import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Stages inputs to a burst buffer in waves.
 *
 * <p>It only collects what is to be transferred to, and from, the burst buffer's site, asks {@link Layout} which jobs and
 * edges make the waves of it, and adds these. Everything else is Pegasus's own Cluster refiner's.
 */
public class WaveRefiner extends Cluster {

    /** The cleanup strategy that adds the layout's cleanup jobs. */
    private static final String CLEANUP_STRATEGY = "BurstBuffer";

    private final ADag mWorkflow;
    private final String mSite;
    private final int mTransfers;

    /** By name, the jobs that aren't Pegasus's own. */
    private final Map<String, Job> mJobs = new LinkedHashMap<>();

    /** By logical name, what comes from elsewhere. */
    private final Map<String, FileTransfer> mStaged = new LinkedHashMap<>();

    /** By job, logical names of what it reads that comes from elsewhere. */
    private final Map<String, List<String>> mReads = new LinkedHashMap<>();

    /** By job, how its results are staged out. */
    private final Map<String, StageOut> mStageOuts = new LinkedHashMap<>();

    /** Files whose transfers would run at the burst buffer's site itself. */
    private int mRemote;

    private static final class StageOut {
        private final Collection<FileTransfer> files;
        private final ReplicaCatalogBridge catalog;

        private StageOut(Collection<FileTransfer> files, ReplicaCatalogBridge catalog) {
            this.files = files;
            this.catalog = catalog;
        }
    }

    /**
     * Reads the jobs, before any of Pegasus's own are added.
     *
     * @param workflow that gets waves
     * @param bag where the planner's parts are found
     */
    public WaveRefiner(ADag workflow, PegasusBag bag) {
        super(workflow, bag);
        mWorkflow = workflow;
        mSite = Layout.property(mProps, "site", "bb");
        mTransfers = Integer.parseInt(Layout.property(mProps, "transfers", "2"));
        for (Iterator<GraphNode> nodes = workflow.nodeIterator(); nodes.hasNext(); ) {
            Job job = (Job) nodes.next().getContent();
            mJobs.put(job.getName(), job);
        }
        requireCleanup(bag.getPlannerOptions());
    }

    /** Waves need room back, so files must go when their last users are done. */
    private void requireCleanup(PlannerOptions options) {
        PlannerOptions.CLEANUP_OPTIONS asked = options.getCleanup();
        if (asked != null && asked != PlannerOptions.CLEANUP_OPTIONS.inplace) {
            throw new IllegalArgumentException(
                    "waves need the room that in-place cleanup gives back: plan without --cleanup " + asked);
        }
        options.setCleanup((PlannerOptions.CLEANUP_OPTIONS) null);
        mProps.setProperty("pegasus.file.cleanup.strategy", CLEANUP_STRATEGY);
    }

    @Override
    public void addStageInXFERNodes(Job job, Collection<FileTransfer> local, Collection<FileTransfer> remote) {
        if (!isOurs(job)) {
            super.addStageInXFERNodes(job, local, remote);
            return;
        }
        List<String> reads = mReads.computeIfAbsent(job.getName(), name -> new ArrayList<>());
        for (FileTransfer file : local) {
            if (!file.getTransientTransferFlag()) {
                file.setPriority(getJobPriority(job));
                mStaged.putIfAbsent(file.getLFN(), file);
                reads.add(file.getLFN());
            }
        }
        mRemote += remote.size();
        super.addStageInXFERNodes(job, new ArrayList<>(), remote);
    }

    @Override
    public void addStageOutXFERNodes(
            Job job, Collection<FileTransfer> files, ReplicaCatalogBridge catalog, boolean local, boolean deleted) {
        if (isOurs(job) && local && !deleted) {
            if (!files.isEmpty()) {
                mStageOuts.put(job.getName(), new StageOut(files, catalog));
            }
        } else {
            super.addStageOutXFERNodes(job, files, catalog, local, deleted);
        }
    }

    /** Whether a job's files pass through the burst buffer to where the job runs. */
    private boolean isOurs(Job job) {
        return mSite.equals(job.getStagingSiteHandle()) && mPegasusConfiguration.jobSetupForWorkerNodeExecution(job);
    }

    @Override
    protected int getStageOutBundleValue(BundleValue value, Job job) {
        return isOurs(job) ? mTransfers : super.getStageOutBundleValue(value, job);
    }

    @Override
    public void done() {
        Layout layout = Layout.ask(question(), mProps, new File(mPOptions.getSubmitDirectory()));
        layout.stageIns.forEach(this::stageIn);
        layout.noOps.forEach(name -> addJob(noOp(name)));
        for (int wave = 0; wave < layout.waves.size(); wave++) {
            stageOut(wave, layout.waves.get(wave));
        }
        for (String[] edge : layout.edges) {
            if (!layout.cleanUps.containsKey(edge[0]) && !layout.cleanUps.containsKey(edge[1])) {
                addRelation(edge[0], edge[1]);
            }
        }
        super.done();
    }

    /** Adds a job that copies files to the burst buffer. */
    private void stageIn(String name, List<String> files) {
        List<FileTransfer> transfers = new ArrayList<>();
        files.forEach(file -> transfers.add(mStaged.get(file)));
        Job job = mTXStageInImplementation.createTransferJob(
                atSite(), "local", transfers, null, name, Job.STAGE_IN_JOB);
        job.setJobType(Job.STAGE_IN_JOB);
        addJob(job);
    }

    private Job atSite() {
        Job job = new Job();
        job.setSiteHandle(mSite);
        job.setStagingSiteHandle(mSite);
        return job;
    }

    /** Has Pegasus bundle the results of a wave's jobs; it takes the wave for a level of the workflow. */
    private void stageOut(int wave, List<String> jobs) {
        resetStageOutMaps();
        for (String name : jobs) {
            StageOut out = mStageOuts.get(name);
            if (out != null) {
                Job job = mJobs.get(name);
                int level = job.getLevel();
                job.setLevel(wave);
                super.addStageOutXFERNodes(job, out.files, out.catalog, true, false);
                job.setLevel(level);
            }
        }
        resetStageOutMaps();
    }

    /** Makes a job that DAGMan doesn't submit, as Pegasus itself would. */
    private Job noOp(String name) {
        Job job = new Job();
        job.setName(name);
        job.setTransformation("pegasus", "noop", "1.0");
        job.setDerivation("pegasus", "noop", "1.0");
        job.setUniverse(GridGateway.JOB_TYPE.auxillary.toString());
        job.setRemoteExecutable("/bin/true");
        job.setSiteHandle("local");
        job.setStagingSiteHandle(mSite);
        job.setJobType(Job.CHMOD_JOB);
        job.setRelativeSubmitDirectory(mSubmitDirFactory.getRelativeDir(job));
        job.dagmanVariables.construct(Dagman.NOOP_KEY, "true");
        constructCondorKey(job, "noop_job", "true");
        constructCondorKey(job, "noop_job_exit_code", "0");
        job.vdsNS.checkKeyInNS(
                Pegasus.GRIDSTART_KEY, GridStartFactory.GRIDSTART_SHORT_NAMES[GridStartFactory.NO_GRIDSTART_INDEX]);
        return job;
    }

    /** Tells all that is known of the workflow: one thing a line, its parts with tabs between them. */
    private List<String> question() {
        List<String> lines = new ArrayList<>();
        if (mPOptions.getJobnamePrefix() != null) {
            line(lines, "limit", "prefix", mPOptions.getJobnamePrefix());
        }
        line(lines, "remote", String.valueOf(mRemote));
        for (FileTransfer file : mStaged.values()) {
            String size = file.getMetadata("size");
            line(lines, "source", file.getLFN(), size == null ? "" : size, file.getSourceURL().getValue());
        }
        for (Job job : mJobs.values()) {
            line(lines, "job", job.getName());
            for (GraphNode parent : mWorkflow.getNode(job.getName()).getParents()) {
                if (mJobs.containsKey(parent.getID())) {
                    line(lines, "parent", parent.getID());
                }
            }
            if (isOurs(job)) {
                filesOf(job, lines);
            }
        }
        return lines;
    }

    private void filesOf(Job job, List<String> lines) {
        mReads.getOrDefault(job.getName(), new ArrayList<>()).forEach(file -> line(lines, "input", file));
        for (Object each : job.getInputFiles()) {
            String name = ((PegasusFile) each).getLFN();
            if (!mStaged.containsKey(name)) {
                line(lines, "input", name);
            }
        }
        for (Object each : job.getOutputFiles()) {
            PegasusFile file = (PegasusFile) each;
            String size = file.getMetadata("size");
            line(lines, "output", file.getLFN(), size == null ? "" : size);
        }
        StageOut out = mStageOuts.get(job.getName());
        if (out != null) {
            for (FileTransfer file : out.files) {
                if (!file.getTransientTransferFlag()) {
                    line(lines, "result", file.getLFN());
                }
            }
        }
    }

    private static void line(List<String> lines, String... parts) {
        if (Arrays.stream(parts).anyMatch(part -> part.indexOf('\t') >= 0 || part.indexOf('\n') >= 0)) {
            throw new IllegalArgumentException("a file name with a tab or a line break can't be staged: " + parts[1]);
        }
        lines.add(String.join("\t", parts));
    }

    @Override
    public String getDescription() {
        return "Waves of bbflow: inputs come to site " + mSite + " as jobs need them, within its capacity";
    }
}
