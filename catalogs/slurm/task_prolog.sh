#!/bin/sh
# TaskProlog beside prolog.sh, on each node: where the job's files are. DIRECTORY is that of bbflow.yml.
DIRECTORY=/bb/jobs
test ! -d "$DIRECTORY/$SLURM_JOB_ID" || echo "export BBFLOW_BB=$DIRECTORY/$SLURM_JOB_ID"
