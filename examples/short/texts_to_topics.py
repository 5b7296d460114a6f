"""A DataFrame of texts from two outlets to topics, and a search over them."""
import jax, numpy as np, pandas as pd
import jaxshared as js
rng, both = np.random.default_rng(0), ["vote", "party", "law"]
words = {"daily": ["match", "goal", "team"], "weekly": ["recipe", "oven", "salt"]}
rows = [(o, f"{o} no. {i}", " ".join(rng.choice(words[o] if i % 2 else both, 6))) for o in words for i in range(30)]
articles = pd.DataFrame(rows, columns=["outlet", "title", "text"])
texts = js.text.from_frame(articles, text="text", outlet="outlet", title="title")
model = js.JSNMF(shared=1, specific=(1, 1))
result = js.fit(model, texts.named(), key=jax.random.key(0), restarts=3)
print(js.factors(model, result, texts.named(), top=3))
print(js.retrieval.find(model, result, "goal", texts=texts, source="daily", top=3))
