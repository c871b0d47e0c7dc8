#!/usr/bin/env bash
#SBATCH --job-name=tau-train
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --signal=B:INT@180
# Actors on the nodes of one job; the first node learns. The words are those of tau-train, without --cluster:
#   sbatch --nodes=5 tools/deploy/slurm.sh learn 3DBall --env /shared/3DBall --actors 32
# tau-train and ray are those on PATH here, at the same path on every node. Three minutes before its end the run is asked
# to finish as by Ctrl-C: it is saved, and `--resume` goes on.
set -euo pipefail

if [ $# -eq 0 ] || [ -z "${SLURM_JOB_NODELIST:-}" ]; then
    echo "usage: sbatch [--nodes=N] $0 learn|parallel|batch CONFIG [flags of tau-train]" >&2
    exit 2
fi

# Of this job alone. Slurm hands the environment on to its steps; no command line has it.
RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0 RAY_worker_niceness=0

cores=${SLURM_CPUS_PER_TASK:-1}
others=$((SLURM_JOB_NUM_NODES - 1))
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
ip=${TAU_HEAD_IP:-$(srun --overlap --nodes=1 --ntasks=1 --nodelist="$first" hostname --ip-address |
    tr ' ' '\n' | sed -n '/^127\./!{p;q;}')}
if [ -z "$ip" ]; then
    echo "error: $first knows itself by a loopback address alone; set TAU_HEAD_IP to what the other nodes reach it by" >&2
    exit 2
fi
port=$((20000 + 2 * (SLURM_JOB_ID % 10000))) # two jobs on one node have a Ray each; the next port is Ray Client's
export TAU_HEAD="$ip:$port"
home=/tmp/tau-$SLURM_JOB_ID # short: sockets lie in it

# Never `ray stop`: it would end every Ray of a node, other jobs' too. Slurm ends the steps with the job.
step=(srun --overlap --export=ALL --ntasks-per-node=1 --cpus-per-task="$cores")
# Ray opens its own folder to every user of a node, so that lies in one that this user alone can enter.
private='{ mkdir -m 700 "$0" 2>/dev/null || { [ -O "$0" ] && [ ! -L "$0" ] && chmod 700 "$0"; }; } && exec "$@"
    echo "error: $0 belongs to somebody else; remove it" >&2; exit 1'
start=(sh -c "$private" "$home" ray start --block --disable-usage-stats --temp-dir="$home/r")
head_cores=0 # its cores are the learner's
[ "$others" -gt 0 ] || head_cores=$cores
"${step[@]}" --nodes=1 --nodelist="$first" "${start[@]}" --head --node-ip-address="$ip" --port="$port" \
    --ray-client-server-port="$((port + 1))" --num-cpus="$head_cores" --include-dashboard=false &
if [ "$others" -gt 0 ]; then
    # They try for a while to reach the first.
    "${step[@]}" --nodes="$others" --exclude="$first" "${start[@]}" --address="$TAU_HEAD" --num-cpus="$cores" &
fi

python3 - "$SLURM_JOB_NUM_NODES" <<'PYTHON'
import os, sys, time
import ray

limit, wanted = time.monotonic() + 300, int(sys.argv[1])
alive = 0
while alive < wanted:
    if time.monotonic() > limit:
        sys.exit(f"error: {alive} of {wanted} nodes had joined the cluster after five minutes")
    try:
        if not ray.is_initialized():
            ray.init(os.environ["TAU_HEAD"], logging_level="ERROR", log_to_driver=False)
        alive = sum(node["Alive"] for node in ray.nodes())
    except ConnectionError:
        pass
    time.sleep(2)
PYTHON

# In the background, so that the shell hears what Slurm says meanwhile.
tau-train "$@" --cluster "$TAU_HEAD" &
training=$!
asked=
trap 'asked=1; kill -INT "$training" 2>/dev/null || true' INT TERM
code=0
wait "$training" || code=$?
while [ -n "$asked" ]; do # a signal ends a wait, and not the run, whose code is kept though it has ended meanwhile
    asked= code=0
    wait "$training" || code=$?
done
kill $(jobs -p) 2>/dev/null || true
wait || true
"${step[@]}" --nodes="$SLURM_JOB_NUM_NODES" rm -rf "$home" || true
exit "$code"
