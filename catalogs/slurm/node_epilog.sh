#!/bin/sh
# Epilog beside node_prolog.sh: the analysis gets what is left of the job's steps, and then its BB nodes go.
PROGRAM=${BBFLOW_SLURM:-/opt/bbflow/bin/bbflow-slurm}
DIRECTORY=/bb/jobs # as in bbflow.yml
test -d "$DIRECTORY/$SLURM_JOB_ID/.bbflow-stream" || exit 0
$PROGRAM host-end "$SLURM_JOB_ID" --host "$SLURMD_NODENAME"
exit 0
