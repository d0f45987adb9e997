"""A Ray cluster of several raylets on one host, by ray.cluster_utils, told by its input which node to kill or add.

    python ray_nodes.py CPUS ADDRESS ADDRESS …     # a node at each address; the head, at the first, runs nothing

It says what it has done: ``ready HOST:PORT``, ``killed ADDRESS``, ``added ADDRESS``. All of it ends with its input.
"""

import sys

from ray.cluster_utils import Cluster

STORE = 80 << 20  # bytes; the least that Ray takes


def main() -> None:
    cpus, first, *others = int(sys.argv[1]), *sys.argv[2:]
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE, "node_ip_address": first,
        },
    )  # fmt: skip
    nodes = {}

    def add(address: str) -> None:
        nodes[address] = cluster.add_node(num_cpus=cpus, object_store_memory=STORE, node_ip_address=address)

    for address in others:
        add(address)
    print("ready", cluster.address, flush=True)
    for line in sys.stdin:
        word, address = line.split()
        if word == "kill":
            cluster.remove_node(nodes.pop(address), allow_graceful=False)
            print("killed", address, flush=True)
        else:
            add(address)
            print("added", address, flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
