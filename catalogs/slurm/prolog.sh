#!/bin/sh
# PrologSlurmctld for a site without burst_buffer/lua: files are fetched when the job has its nodes, before it begins.
# A prolog that fails has the job queued again, and its words are in slurmctld's log.
set -eu
bbflow() { /opt/bbflow/bin/bbflow-slurm --config /etc/slurm/bbflow.yml "$@"; }
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
scontrol write batch_script "$SLURM_JOB_ID" "$folder/script" >/dev/null 2>&1 || exit 0 # no batch job
grep -q '^#BB_LUA[[:space:]]' "$folder/script" || exit 0
bbflow check "$folder/script" --uid "$SLURM_JOB_UID" --gid "$SLURM_JOB_GID"
bbflow setup "$SLURM_JOB_ID" --uid "$SLURM_JOB_UID" --gid "$SLURM_JOB_GID"
bbflow stage-in "$SLURM_JOB_ID" "$folder/script"
bbflow hosts-begin "$SLURM_JOB_ID"
