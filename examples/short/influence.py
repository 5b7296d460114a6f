"""Which documents hold up a topic? The derivative of its words by the weight of every document."""

import os

import jax
import jax.numpy as jnp
import numpy as np

import jaxshared as js

NEWS = """snow closes mountain roads in the north
heavy snow and wind close the airport
ice and snow delay trains in the north
orchestra plays new symphony at the festival
festival opens with choir and orchestra
choir sings old symphony in new hall
robot harvests apples in the valley orchard
orchard owners test robot for picking apples
snow delays festival in the mountain valley"""

STEPS = 300 if "JAXSHARED_QUICK" in os.environ else 5000
MODEL = js.NMF(3, penalties=(js.L2("coefs", strength=0.05), js.L2("bases", strength=0.05)))


def topics(weights, x, params, hyper):
    """Words of every topic, as shares, when documents count with these weights; no step is made."""
    found = js.solve(MODEL, params, (x * weights,), hyper, max_steps=0).params
    return found.bases[0] / found.bases[0].sum(0)


def main():
    documents = NEWS.splitlines()
    english = {"stop_words": "english"}
    texts = js.text.sources_from_documents([documents], vectorizer_options=english)
    x = js.as_source(np.asarray(texts.sources[0].todense(), np.float32))
    hyper = MODEL.hyper((x,))
    params = js.fit(MODEL, x, key=jax.random.key(0), restarts=5, max_steps=STEPS, tol=0.0).params
    ones = jnp.ones(x.shape[1])
    moved = jax.jacfwd(topics)(ones, x, params, hyper)  # words, topics, documents
    words = np.asarray(texts.vocabulary)
    for topic in range(3):
        top = words[np.argsort(-params.bases[0][:, topic])[:4]]
        influence = jnp.linalg.norm(moved[:, topic], axis=0)
        print(f"\ntopic {topic + 1}: {', '.join(top)}")
        for document in np.argsort(-influence)[:2]:
            gains = words[np.argmax(moved[:, topic, document])]
            print(f"  {influence[document]:.3f}  {documents[document]}  (its gain: '{gains}')")

    # The same by leaving a little of the most influential document out and fitting again.
    first = int(np.argmax(jnp.linalg.norm(moved[:, 0], axis=0)))
    less = ones.at[first].add(-0.01)
    again = js.solve(MODEL, params, (x * less,), hyper, max_steps=STEPS, tol=0.0).params.bases[0]
    change = (params.bases[0] / params.bases[0].sum(0) - again / again.sum(0))[:, 0] / 0.01
    alike = np.corrcoef(change, moved[:, 0, first])[0, 1]
    print(f"\nagainst a fit with 1 % less of it: correlation {alike:.3f}")


if __name__ == "__main__":
    main()
