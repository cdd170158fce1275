#!/bin/sh
# Prolog on each node, with PrologFlags=Alloc: the job's stream, if it has one, is there when the job begins. A stream that can't be
# had is its user's to hear of, by task_prolog.sh: a prolog that fails would drain the node.
bbflow() { /opt/bbflow/bin/bbflow-slurm --config /etc/slurm/bbflow.yml "$@"; }
DIRECTORY=/bb/jobs # as in bbflow.yml
# looked at as the job's user, and not for long: what is there is the user's
gid=$(id -g "$SLURM_JOB_UID")
timeout -s KILL 20 setpriv --reuid "$SLURM_JOB_UID" --regid "$gid" --clear-groups test -d "$DIRECTORY/$SLURM_JOB_ID/.bbflow-stream" || exit 0
hosts=$(scontrol show hostnames "$SLURM_NODELIST" | tr '\n' ' ')
bbflow host-begin "$SLURM_JOB_ID" --uid "$SLURM_JOB_UID" --gid "$gid" --host "$SLURMD_NODENAME" --hosts "$hosts" --restarts "${SLURM_JOB_RESTART_COUNT:-0}"
exit 0
