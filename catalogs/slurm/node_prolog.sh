#!/bin/sh
# Prolog on each node, with PrologFlags=Alloc: the job's stream, if it has one, is there when the job begins. A stream that can't be
# had is its user's to hear of, by task_prolog.sh: a prolog that fails would drain the node.
PROGRAM=${BBFLOW_SLURM:-/opt/bbflow/bin/bbflow-slurm}
DIRECTORY=/bb/jobs # as in bbflow.yml
test -d "$DIRECTORY/$SLURM_JOB_ID/.bbflow-stream" || exit 0
hosts=$(scontrol show hostnames "$SLURM_NODELIST" | tr '\n' ' ')
$PROGRAM host-begin "$SLURM_JOB_ID" --host "$SLURMD_NODENAME" --hosts "$hosts" --restarts "${SLURM_JOB_RESTART_COUNT:-0}"
exit 0
