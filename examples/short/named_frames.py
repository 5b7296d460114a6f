"""Two DataFrames whose rows are in different order: the fit is the one of the aligned ones."""
import jax, numpy as np, pandas as pd
import jaxshared as js
rng, terms = np.random.default_rng(0), ["sea", "ship", "car", "road", "vote"]
news = pd.DataFrame(rng.random((5, 8)), index=terms, columns=[f"news {i}" for i in range(8)])
blogs = pd.DataFrame(rng.random((5, 6)), index=terms, columns=[f"blog {i}" for i in range(6)])
model, key = js.JSNMF(shared=1, specific=(1, 1)), jax.random.key(0)
one = js.fit(model, {"news": news, "blogs": blogs}, key=key)
two = js.fit(model, {"news": news, "blogs": blogs.sample(frac=1, random_state=0)}, key=key)
assert one.objective == two.objective and one.names == two.names
print(js.factors(model, two).frames().coefs["blogs"].round(2))
