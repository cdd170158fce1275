#!/bin/sh
# Prolog on each node, with PrologFlags=Alloc: the job's stream, if it has one, is there when the job begins. A stream that can't be
# had is its user's to hear of, by task_prolog.sh: a prolog that fails would drain the node.
bbflow() { /opt/bbflow/bin/bbflow-slurm --config /etc/slurm/bbflow.yml "$@"; }
DIRECTORY=/bb/jobs # as in bbflow.yml
# looked at as the job's user, who can look into that process: without this one's environment and files, and not for long
gid=$(id -g "$SLURM_JOB_UID")
timeout -s KILL 20 env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv --reuid "$SLURM_JOB_UID" --regid "$gid" --clear-groups --no-new-privs \
  test -d "$DIRECTORY/$SLURM_JOB_ID/.bbflow-stream" </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- || exit 0
hosts=$(scontrol show hostnames "$SLURM_NODELIST" | tr '\n' ' ')
bbflow host-begin "$SLURM_JOB_ID" --uid "$SLURM_JOB_UID" --gid "$gid" --host "$SLURMD_NODENAME" --hosts "$hosts" --restarts "${SLURM_JOB_RESTART_COUNT:-0}"
exit 0
