#!/bin/sh
# EpilogSlurmctld beside prolog.sh: outputs go to their places, and then the job's directory goes. What can't be copied out stays.
set -eu
PROGRAM=${BBFLOW_SLURM:-/opt/bbflow/bin/bbflow-slurm}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
scontrol write batch_script "$SLURM_JOB_ID" "$folder/script" >/dev/null 2>&1 || exit 0
grep -q '^#BB_LUA[[:space:]]' "$folder/script" || exit 0
$PROGRAM hosts-end "$SLURM_JOB_ID"
$PROGRAM stage-out "$SLURM_JOB_ID" "$folder/script"
$PROGRAM teardown "$SLURM_JOB_ID"
