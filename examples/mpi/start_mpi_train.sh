#!/usr/bin/env bash
# What mpirun starts as every rank: word2vec on the shards of this rank alone, which no other host needs to have.
#
#   python examples/word2vec/prepare.py --shards 3          # on one host; then, to host N of the file machines:
#   scp word2vec_data/{train,test}.txt-0000N word2vec_data/word_dict.json hostN:word2vec_data/
#   mpirun -hostfile machines -n 3 --bind-to none examples/mpi/start_mpi_train.sh word2vec_data --mode async
#
# Every rank is a worker, and starts the script once more as a server. PYTHON names another Python than `python`.
set -euo pipefail

data=${1:?name the folder of the shards}
rank=${OMPI_COMM_WORLD_RANK:?is not set: mpirun starts this}
shard=$data/train.txt-$(printf %05d "$rank")
[[ -e $shard ]] || { echo "rank $rank on $(hostname) has no $shard" >&2; exit 2; }

mkdir -p logs
# exec: the rank is then the training itself, and not a shell before it.
exec "${PYTHON:-python}" "$(dirname "$0")/../word2vec/train.py" --data "$data" "${@:2}" >"logs/rank-$rank.log" 2>&1
