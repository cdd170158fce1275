#!/bin/bash
# A template, not tried on a real cluster: a standalone Spark within a job of Slurm, its burst buffer at /bb, which all nodes
# of the job share.
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=02:00:00
set -e
bb=/bb/$USER/$SLURM_JOB_ID
head=$(hostname)
export SPARK_HOME=${SPARK_HOME:?say where Spark is} SPARK_LOCAL_DIRS=$bb/shuffle

"$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master --host "$head" &
master=$!
srun --overlap "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker \
    --cores "$SLURM_CPUS_PER_TASK" "spark://$head:7077" &
workers=$!

bbflow spark --to "$bb" --capacity 2TiB --listen "$head" --spill "/pfs/$USER/spill-$SLURM_JOB_ID" \
    --policy auto --phases /pfs/phases -- \
    "$SPARK_HOME/bin/spark-submit" --master "spark://$head:7077" \
    --conf spark.cores.max=$((SLURM_NNODES * SLURM_CPUS_PER_TASK)) "$@"

bbflow spark report "$bb/notes" --output "report-$SLURM_JOB_ID.html"
kill $workers $master
