#!/bin/sh
# Epilog beside node_prolog.sh: the analysis gets what is left of the job's steps, and then its BB nodes go.
bbflow() { /opt/bbflow/bin/bbflow-slurm --config /etc/slurm/bbflow.yml "$@"; }
# what the job's user has made says nothing here: what was started is in a group of the kernel's
group=bbflow-slurm/$SLURM_JOB_ID-$SLURMD_NODENAME
test -d "/sys/fs/cgroup/$group" || test -d "/sys/fs/cgroup/unified/$group" || exit 0
bbflow host-end "$SLURM_JOB_ID" --uid "$SLURM_JOB_UID" --gid "$(id -g "$SLURM_JOB_UID")" --host "$SLURMD_NODENAME"
exit 0
