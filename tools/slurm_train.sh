#!/usr/bin/env bash
# Train on a Slurm cluster, one process per GPU.
#   tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [arguments of tools/train.py]
# GPUS (8), GPUS_PER_NODE (8), CPUS_PER_TASK (5) and SRUN_ARGS change the allocation; GPUS_PER_NODE=0 asks for none and
# runs GPUS processes on CPUs, TASKS_PER_NODE (1) on each node.
set -euo pipefail
if [ $# -lt 4 ]; then
    echo "usage: $0 PARTITION JOB_NAME CONFIG WORK_DIR [arguments of tools/train.py]" >&2
    exit 2
fi
PARTITION=$1
JOB_NAME=$2
CONFIG=$3
WORK_DIR=$4
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
HERE=$(cd "$(dirname "$0")" && pwd)

if [ "$GPUS_PER_NODE" -gt 0 ]; then
    ALLOCATION=("--gres=gpu:$GPUS_PER_NODE" "--ntasks-per-node=$GPUS_PER_NODE")
else
    ALLOCATION=("--ntasks-per-node=${TASKS_PER_NODE:-1}")
fi

# SRUN_ARGS is a list of words
# shellcheck disable=SC2086
PYTHONPATH="$HERE/..:${PYTHONPATH:-}" exec srun --partition="$PARTITION" --job-name="$JOB_NAME" \
    --ntasks="${GPUS:-8}" --cpus-per-task="${CPUS_PER_TASK:-5}" --kill-on-bad-exit=1 "${ALLOCATION[@]}" \
    ${SRUN_ARGS:-} \
    "${PYTHON:-python}" -u "$HERE/train.py" "$CONFIG" --work-dir "$WORK_DIR" --launcher slurm "${@:5}"
