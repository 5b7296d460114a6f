"""Consensus of ten restarts beside cNMF's own, on the matrix that cNMF prepares.

    python -m benchmarks.consensus /path/to/python-with-cnmf

A draw of two newsgroup sources side by side: posts are cells, terms are genes. cNMF takes its 1000 most
varied terms at unit variance and factorises them ten times; js.consensus has the same matrix, rank and
number of restarts. Both run with four seeds: seconds of wall and of processor, mean of the runs after the
first (which compiles), and the mean cosine between the components of two runs, over the six pairs.
"""

import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))

RANK, RESTARTS, TERMS, SEEDS = 10, 10, 1000, 4

PEER = """
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import numpy as np, pandas as pd, scanpy as sc
from cnmf import cNMF, save_df_to_npz
folder, rank, restarts, terms, seeds = sys.argv[1], *map(int, sys.argv[2:])
counts = np.load(folder + "/counts.npy")
names = [f"t{i}" for i in range(counts.shape[1])]
cells = [f"c{i}" for i in range(len(counts))]
save_df_to_npz(pd.DataFrame(counts, index=cells, columns=names), folder + "/counts.df.npz")
out = {"seconds": [], "processor": [], "spectra": []}
for seed in range(seeds):
    run = cNMF(output_dir=folder, name=f"run{seed}")
    run.prepare(folder + "/counts.df.npz", components=[rank], n_iter=restarts, seed=seed,
                num_highvar_genes=terms)
    begun = time.perf_counter(), time.process_time()
    run.factorize()
    run.combine()
    run.consensus(rank, density_threshold=2.0, show_clustering=False, build_ref=False)
    out["seconds"].append(time.perf_counter() - begun[0])
    out["processor"].append(time.process_time() - begun[1])
    found = run.load_results(K=rank, density_threshold=2.0)
    table = pd.read_csv(run.paths["consensus_spectra__txt"] % (rank, "2_0"), sep="\\t", index_col=0)
    out["spectra"].append(table.values.tolist())
matrix = sc.read(run.paths["normalized_counts"]).X
matrix = matrix.toarray() if hasattr(matrix, "toarray") else matrix
np.save(folder + "/prepared.npy", np.asarray(matrix, np.float32))
json.dump(out, open(folder + "/peer.json", "w"))
"""


def main(python):
    from real_data import load
    from sharing_study import news_draw

    import jaxshared as js

    text, _, _ = news_draw(load("20news_counts"), 300, 150, 2000)
    counts = np.round(np.hstack([x.toarray() for x in text]).T * 10)
    counts = counts[counts.sum(axis=1) > 0]
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/counts.npy", counts.astype(np.float64))
        sizes = [str(n) for n in (RANK, RESTARTS, TERMS, SEEDS)]
        subprocess.run([python, "-c", PEER, folder, *sizes], check=True, stdout=subprocess.DEVNULL)
        with open(f"{folder}/peer.json") as file:
            peer = json.load(file)
        prepared = np.load(f"{folder}/prepared.npy")
    print(
        f"{prepared.shape[0]} posts, {prepared.shape[1]} terms, {RANK} components, {RESTARTS} restarts"
    )
    show("cNMF", peer["seconds"], peer["processor"], [np.array(z).T for z in peer["spectra"]])
    seconds, processor, bases = [], [], []
    for seed in range(SEEDS):
        begun = time.perf_counter(), time.process_time()
        found = js.consensus(js.NMF(RANK), prepared.T, key=jax.random.key(seed), restarts=RESTARTS)
        bases.append(np.asarray(found.result.params.bases[0]))
        seconds.append(time.perf_counter() - begun[0])
        processor.append(time.process_time() - begun[1])
    show("js.consensus", seconds, processor, bases)


def show(name, seconds, processor, bases):
    """One line: seconds of the first run and of the others, and how far the runs agree."""
    from sharing_study import cosines

    agreed = [cosines(*pair).mean() for pair in itertools.combinations(bases, 2)]
    later = f"{np.mean(seconds[1:]):.1f} s, processor {np.mean(processor[1:]):.1f} s"
    print(
        f"{name}: first run {seconds[0]:.1f} s, later ones {later}; two runs agree to "
        f"{np.mean(agreed):.3f} ± {np.std(agreed):.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1])
