"""Tags of two sites as sets: which groups of tags go together on both, and which on one alone?"""

import jax
import numpy as np

import jaxshared as js

PETS = ["dog", "cat", "puppy", "leash"]
CODE = ["python", "jax", "array", "gpu"]
FOOD = ["bread", "oven", "flour", "yeast"]


def items(groups, count, rng):
    """Every item has all tags of one or two groups, and now and then one is missing."""
    chosen = [rng.choice(len(groups), rng.integers(1, 3), replace=False) for _ in range(count)]
    return [
        [tag for g in own for tag in groups[g] if rng.random() < 0.95] or [groups[own[0]][0]]
        for own in chosen
    ]


def main():
    rng = np.random.default_rng(0)
    sites = [items((PETS, CODE), 40, rng), items((CODE, FOOD), 30, rng)]
    counts = [js.text.count_terms(each) for each in sites]
    aligned, terms = js.text.align([c.source for c in counts], [c.vocabulary for c in counts])
    sources = tuple(x.toarray() > 0 for x in aligned)

    model = js.JSBMF(shared=1, specific=(1, 1), method="shared_asso")
    result = js.fit(model, sources, key=jax.random.key(0))
    wrong = sum(int(np.sum(a != b)) for a, b in zip(model.reconstruct(result.params), sources))
    print(f"{wrong} of {sum(x.size for x in sources)} cells are wrong")
    for name, basis in zip(("both sites", "site 1", "site 2"), result.params.bases):
        for column in np.asarray(basis).T:
            print(f"{name}: {', '.join(terms[column.astype(bool)])}")


if __name__ == "__main__":
    main()
