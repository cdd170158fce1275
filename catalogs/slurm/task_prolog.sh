#!/bin/sh
# TaskProlog on each node: where the job's files are, and what its programs find its BB nodes by. A job whose stream can't be had
# ends here, and its output says why.
DIRECTORY=/bb/jobs # as in bbflow.yml
own=$DIRECTORY/$SLURM_JOB_ID
test -d "$own" || exit 0
echo "export BBFLOW_BB=$own"
stream=$own/.bbflow-stream
test -d "$stream" || exit 0
if ! test -f "$stream/ready"; then
  echo "print bbflow-slurm: the job's stream: $(cat "$stream/failed" 2>/dev/null || echo "the node's prolog did not start it")"
  exit 1
fi
while IFS= read -r line; do
  case $line in
    ADIOS2_PLUGIN_PATH=*) line=$line${ADIOS2_PLUGIN_PATH:+:$ADIOS2_PLUGIN_PATH} ;;
    LD_PRELOAD=*) line=$line${LD_PRELOAD:+:$LD_PRELOAD} ;;
  esac
  echo "export $line"
done <"$stream/ready"
