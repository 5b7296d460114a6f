"""What jaxshared.anndata writes, through scanpy's own functions (needs scanpy, which is no dependency).

python examples/with_scanpy.py [FOLDER for the pictures]
"""

import pathlib
import sys
import tempfile

import anndata
import jax
import matplotlib
import numpy as np
import pandas as pd
import scipy.sparse

import jaxshared as js
import jaxshared.anndata as jad


def planted(rng):
    """Counts of 200 genes in two conditions: one programme in both, one in each alone."""
    programmes = np.zeros((3, 200))
    for k in range(3):
        programmes[k, 15 * k : 15 * k + 15] = rng.gamma(3.0, size=15)
    use = rng.gamma(0.7, 2.0, (300, 3)) * np.repeat([[1, 1, 0], [1, 0, 1]], 150, axis=0)
    counts = rng.poisson(use @ programmes + rng.gamma(0.3, 0.3, 200)).astype(np.float32)
    kinds = ("BOTH", "HIGH", "LOW")
    genes = [f"{kind}{n}" for kind in kinds for n in range(15)] + [f"G{n}" for n in range(155)]
    dose = pd.Categorical(np.repeat(["high", "low"], 150))
    obs = pd.DataFrame({"dose": dose}, index=[f"cell{n}" for n in range(300)])
    return anndata.AnnData(scipy.sparse.csr_matrix(counts), obs, pd.DataFrame(index=genes))


def main(folder):
    import scanpy as sc

    matplotlib.use("agg")
    sc.settings.figdir = folder
    cells = planted(np.random.default_rng(0))
    cells.layers["counts"] = cells.X.copy()
    sc.pp.normalize_total(cells)
    sc.pp.log1p(cells)  # scanpy's habit: .X is for its plots, the layer is for the fit
    model = js.JSNMF(2, (1, 1), loss="kl")  # one shared component more, for what all cells have
    options = dict(batch_key="dose", layer="counts", key=jax.random.key(0), to_obs=True)
    jad.fit(model, cells, **options)
    labels = list(cells.uns["jaxshared"]["labels"])
    best = jad.top_genes(cells, n_genes=5)
    print(best.groupby("group", sort=False)["names"].agg(", ".join).to_string())

    colours = [name for name in cells.obs if name.startswith("jaxshared")]
    sc.pp.neighbors(cells, use_rep="X_jaxshared")
    sc.tl.umap(cells)
    sc.pl.umap(cells, color=["dose", *colours], show=False, save="_programmes.png")
    sc.pl.embedding(cells, "jaxshared", color="dose", show=False, save="_dose.png")
    genes = {label: own.tolist() for label, own in best.groupby("group", sort=False)["names"]}
    sc.pl.dotplot(cells, genes, groupby="dose", show=False, save="genes.png")
    sc.pl.ranking(cells, "varm", "jaxshared", indices=range(len(labels)), labels=cells.var_names)
    matplotlib.pyplot.savefig(folder / "ranking.png")
    print(sc.get.obs_df(cells, ["dose"], [("X_jaxshared", 0)]).head(2).to_string())
    print("pictures:", ", ".join(sorted(path.name for path in folder.glob("*.png"))))

    path = folder / "cells.h5ad"  # and from a file that stays on disk
    cells.write_h5ad(path)
    backed = anndata.read_h5ad(path, backed="r")
    again = js.fit(model, jad.sources(backed, batch_key="dose", layer="counts"), key=options["key"])
    found = js.factors(model, again, norm="l1")
    close = [np.allclose(b.sum(0), 1, atol=1e-4) for b in found.bases.values()]
    print("backed:", again.names, all(close))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            main(pathlib.Path(place))
