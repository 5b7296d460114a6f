"""The same fit as a Ray Train job: Ray starts the processes and gives them their numbers.

    pip install "ray[train]"
    python examples/many/ray_train.py part-0.npy part-1.npy

Needs Ray, which this library does not: it is only the launcher here.
"""

import os
import sys


def work(config):
    """Runs in every worker."""
    import jax
    import numpy as np
    import ray.train

    import jaxshared as js

    context = ray.train.get_context()
    rank, count = context.get_world_rank(), context.get_world_size()
    js.distributed.initialize(config["coordinator"], count, rank)
    files = np.array_split(config["files"], count)[rank]
    own = np.concatenate([np.load(name) for name in files], axis=1)
    mesh = jax.make_mesh((jax.device_count(),), ("samples",))
    model = js.NMF(config["rank"])
    path = os.path.join(config["folder"], "checkpoint.npz")
    result = js.fit(model, js.shard(own, mesh), key=jax.random.key(0), checkpoint=path)
    js.save(os.path.join(config["folder"], "result.npz"), result, model)
    ray.train.report({"objective": float(result.objective)})


def main(files, workers=2, rank=10):
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.data_parallel_trainer import DataParallelTrainer

    ray.init()
    address = f"{ray.util.get_node_ip_address()}:12345"
    files = [os.path.abspath(name) for name in files]
    config = dict(coordinator=address, files=files, rank=rank, folder=os.path.dirname(files[0]))
    trainer = DataParallelTrainer(
        work,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=workers),
        # a worker that is lost ends the others; Ray starts them again, and they go on from the checkpoint
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    )
    print(trainer.fit().metrics)


if __name__ == "__main__":
    main(sys.argv[1:])
