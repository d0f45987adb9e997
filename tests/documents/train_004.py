"""Document 004's click-through training with flota's own API: files, a pipe command, a queue data set."""

import os
from types import SimpleNamespace

import torch

import flota

dense_feature_dim = 13
sparse_feature_dim = 10000001

batch_size = 100
thread_num = 10
embedding_size = 10


def data(name, shape, dtype, lod_level=0):
    """A variable as the document declares it."""
    return SimpleNamespace(name=name, shape=shape, dtype=dtype, lod_level=lod_level)


class CtrDnn(torch.nn.Module):
    def __init__(self, sparse_input_ids):
        super().__init__()
        self.names = [variable.name for variable in sparse_input_ids]
        self.embedding = flota.nn.EmbeddingCollection(self.names, embedding_size)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(len(self.names) * embedding_size + dense_feature_dim, 64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, 1),
        )

    def forward(self, batch):
        rows = self.embedding({name: batch[name] for name in self.names}).flatten(1)
        return self.layers(torch.cat([rows, batch["dense_input"]], dim=1))


def main():
    dense_input = data(name="dense_input", shape=[dense_feature_dim], dtype="float32")
    sparse_input_ids = [data(name="C" + str(i), shape=[1], lod_level=1, dtype="int64") for i in range(1, 27)]
    label = data(name="label", shape=[1], dtype="int64")

    dataset = flota.data.QueueDataset()
    dataset.init(
        batch_size=batch_size,
        thread_num=thread_num,
        input_type=0,
        pipe_command="python criteo_reader.py %d" % sparse_feature_dim,  # noqa: UP031
        use_var=[dense_input, *sparse_input_ids, label],
    )

    whole_filelist = ["raw_data/part-%d" % x for x in range(len(os.listdir("raw_data")))]  # noqa: UP031
    dataset.set_filelist(whole_filelist)

    flota.init(flota.PaddleCloudRoleMaker())
    model = CtrDnn(sparse_input_ids)
    strategy = flota.DistributedStrategy()
    strategy.a_sync = True
    flota.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=0.05), strategy)
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    samples = 0
    for _ in range(2):
        trained = flota.train_from_dataset(
            model,
            dataset,
            loss=torch.nn.BCEWithLogitsLoss(),
            fetch_list=["auc"],
            fetch_info=["auc"],
            print_period=10,
            debug=False,
        )
        samples += trained.samples
    print(f"{samples} samples, AUC {trained.auc_metric.compute_global():.4f}", flush=True)
    flota.stop_worker()


if __name__ == "__main__":
    main()
