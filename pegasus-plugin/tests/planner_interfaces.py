"""What the refiner uses of the planner, as 5.0 and 5.1 have it: so it can be compiled where no Pegasus is."""

import re
from pathlib import Path

PLANNER = "edu.isi.pegasus.planner"
INTERFACES = {
    "catalog.site.classes.GridGateway": "class # { public enum JOB_TYPE { auxillary } }",
    "classes.ADag": """class # implements @partitioner.graph.Graph {
        public java.util.Iterator<@partitioner.graph.GraphNode> nodeIterator() { return null; }
        public java.util.Iterator<@partitioner.graph.GraphNode> topologicalSortIterator() { return null; }
        public @partitioner.graph.GraphNode getNode(String id) { return null; }
        public void add(Job job) {}
        public void addEdge(String parent, String child) {}
    }""",
    "classes.FileTransfer": """class # extends PegasusFile {
        public NameValue<String, String> getSourceURL() { return null; }
        public void setPriority(int priority) {}
    }""",
    "classes.Job": """class # {
        public static final int STAGE_IN_JOB = 2, CHMOD_JOB = 9;
        public @namespace.Dagman dagmanVariables;
        public @namespace.Pegasus vdsNS;
        public String getName() { return null; }
        public void setName(String name) {}
        public int getLevel() { return 0; }
        public void setLevel(int level) {}
        public String getStagingSiteHandle() { return null; }
        public void setStagingSiteHandle(String site) {}
        public void setSiteHandle(String site) {}
        public void setTransformation(String namespace, String name, String version) {}
        public void setDerivation(String namespace, String name, String version) {}
        public void setUniverse(String universe) {}
        public void setRemoteExecutable(String executable) {}
        public void setJobType(int type) {}
        public void setRelativeSubmitDirectory(java.io.File directory) {}
        public java.util.Set getInputFiles() { return null; }
        public java.util.Set getOutputFiles() { return null; }
    }""",
    "classes.NameValue": "class #<K, V> { public V getValue() { return null; } }",
    "classes.PegasusBag": "class # { public PlannerOptions getPlannerOptions() { return null; } }",
    "classes.PegasusFile": """class # {
        public #() {}
        public #(String name) {}
        public String getLFN() { return null; }
        public String getMetadata(String key) { return null; }
        public boolean getTransientTransferFlag() { return false; }
        public void setForCleanup(boolean value) {}
    }""",
    "classes.PlannerOptions": """class # {
        public enum CLEANUP_OPTIONS { none, inplace, leaf, constraint }
        public CLEANUP_OPTIONS getCleanup() { return null; }
        public void setCleanup(CLEANUP_OPTIONS cleanup) {}
        public void setCleanup(String cleanup) {}
        public String getSubmitDirectory() { return null; }
        public String getJobnamePrefix() { return null; }
    }""",
    "code.GridStartFactory": """class # {
        public static final String[] GRIDSTART_SHORT_NAMES = {};
        public static final int NO_GRIDSTART_INDEX = 2;
    }""",
    "common.PegasusConfiguration": """class # {
        public boolean jobSetupForWorkerNodeExecution(@classes.Job job) { return true; }
    }""",
    "common.PegasusProperties": """class # {
        public String getProperty(String key) { return null; }
        public Object setProperty(String key, String value) { return null; }
    }""",
    "mapper.SubmitMapper": "interface # { java.io.File getRelativeDir(@classes.Job job); }",
    "namespace.Dagman": """class # {
        public static final String NOOP_KEY = "NOOP";
        public void construct(String key, String value) {}
    }""",
    "namespace.Pegasus": """class # {
        public static final String GRIDSTART_KEY = "gridstart";
        public void checkKeyInNS(String key, String value) {}
    }""",
    "partitioner.graph.Graph": """interface # {
        java.util.Iterator<GraphNode> nodeIterator();
        java.util.Iterator<GraphNode> topologicalSortIterator();
    }""",
    "partitioner.graph.GraphNode": """class # {
        public Object getContent() { return null; }
        public String getID() { return null; }
        public java.util.Collection<GraphNode> getParents() { return null; }
        public void removeParent(GraphNode parent) {}
        public void removeChild(GraphNode child) {}
    }""",
    "refiner.ReplicaCatalogBridge": "class # {}",
    "refiner.cleanup.CleanupImplementation": """interface # {
        @classes.Job createCleanupJob(String id, java.util.List files, @classes.Job job);
    }""",
    "refiner.cleanup.InPlace": """class # {
        public void initialize(@classes.PegasusBag bag, CleanupImplementation implementation) {}
        public @partitioner.graph.Graph addCleanupJobs(@partitioner.graph.Graph workflow) { return workflow; }
        protected void reduceDependency(@partitioner.graph.GraphNode node) {}
    }""",
    "transfer.Implementation": """interface # {
        @classes.Job createTransferJob(@classes.Job job, String site, java.util.Collection files,
            java.util.Collection execFiles, String name, int type);
    }""",
    "transfer.refiner.Cluster": """class # {
        protected class BundleValue {}
        protected @common.PegasusProperties mProps;
        protected @classes.PlannerOptions mPOptions;
        protected @common.PegasusConfiguration mPegasusConfiguration;
        protected @mapper.SubmitMapper mSubmitDirFactory;
        protected @transfer.Implementation mTXStageInImplementation;
        public #(@classes.ADag dag, @classes.PegasusBag bag) {}
        public void addStageInXFERNodes(@classes.Job job, java.util.Collection<@classes.FileTransfer> local,
            java.util.Collection<@classes.FileTransfer> remote) {}
        public void addStageOutXFERNodes(@classes.Job job, java.util.Collection<@classes.FileTransfer> files,
            @refiner.ReplicaCatalogBridge bridge, boolean local, boolean deletedLeaf) {}
        protected int getStageOutBundleValue(BundleValue value, @classes.Job job) { return 1; }
        protected int getJobPriority(@classes.Job job) { return 0; }
        protected void constructCondorKey(@classes.Job job, String key, String value) {}
        protected void resetStageOutMaps() {}
        public void addJob(@classes.Job job) {}
        public void addRelation(String parent, String child) {}
        public void done() {}
        public String getDescription() { return null; }
    }""",
}


def write_interfaces(directory: Path) -> list[Path]:
    """Write them as Java, and return the files."""
    written = []
    for name, declaration in INTERFACES.items():
        package, _, simple = f"{PLANNER}.{name}".rpartition(".")
        text = re.sub(r"@(?=[a-z])", f"{PLANNER}.", declaration).replace("#", simple)
        path = directory / package.replace(".", "/") / f"{simple}.java"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"package {package};\npublic {text}\n")
        written.append(path)
    return written
