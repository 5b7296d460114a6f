"""AnnData to gene programmes, shared by two conditions and of each alone, and back."""
import anndata, jax, numpy as np, pandas as pd
import jaxshared as js, jaxshared.anndata as jad
rng = np.random.default_rng(0)
amounts = rng.gamma(2, 10, (60, 3)) * np.repeat([[1, 1, 0], [1, 0, 1]], 30, axis=0)  # in both, treated, control
counts = rng.poisson(amounts @ (np.kron(np.eye(3), np.ones(5)) + 0.02)).astype("float32")
cells = anndata.AnnData(counts, obs=pd.DataFrame({"condition": np.repeat(["treated", "control"], 30)}, index=[f"cell{i}" for i in range(60)]))
jad.fit(js.JSNMF(1, (1, 1), loss="kl"), cells, batch_key="condition", key=jax.random.key(0), restarts=4)
print(jad.top_genes(cells, n_genes=5), cells.obsm["X_jaxshared"][:2])
