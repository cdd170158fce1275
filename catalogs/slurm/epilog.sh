#!/bin/sh
# EpilogSlurmctld beside prolog.sh: outputs go to their places, and then the job's directory goes. What can't be copied out stays.
set -eu
bbflow() { /opt/bbflow/bin/bbflow-slurm --config /etc/slurm/bbflow.yml "$@"; }
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
scontrol write batch_script "$SLURM_JOB_ID" "$folder/script" >/dev/null 2>&1 || exit 0
grep -q '^#BB_LUA[[:space:]]' "$folder/script" || exit 0
bbflow hosts-end "$SLURM_JOB_ID" || : # its words are in the log; what the job made goes to its place anyway
bbflow stage-out "$SLURM_JOB_ID" "$folder/script"
bbflow teardown "$SLURM_JOB_ID"
