"""What a report shows of components: a card for each and a map of all, as plain values for the template.

Every number is a part of a whole, shown in percent. A word's is its part of the sum of its component; a
source's is what the component explains of it; a sample's is the part that the component has in it.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import json
from typing import Any

import numpy as np

from jaxshared.app.layout import by_likeness, by_source, diameters
from jaxshared.app.plot_style import COLOURS
from jaxshared.data.products import zero_filled
from jaxshared.typing import ArrayLike
from jaxshared.uses.factors import Factors

__all__ = ["Card", "Topics", "topics"]

# A word or a sample names the components in which it has at least this part.
TOLD = 0.002


@dataclasses.dataclass(frozen=True)
class Card:
    """One component. Words are (word, part, width of its bar), samples (name, part, number, picture)."""

    number: int
    label: str
    group: str
    energies: tuple  # (source, part explained, width of its bar), of those that use it
    words: tuple  # heaviest first
    own_words: tuple  # those that hardly any other component has first
    examples: tuple  # (source, its samples)
    sure: float | None
    stability: float | None
    lost: bool
    lopsided: bool  # called shared, and hardly in one of its sources
    picture: str | None
    total: float
    shared: float  # 0 for one source alone, 1 for all alike

    @property
    def text(self) -> str:
        """What a search looks at."""
        samples = [name for _, own in self.examples for name, *_ in own]
        words = [word for word, *_ in (*self.words, *self.own_words)]
        return " ".join(map(str, dict.fromkeys([self.label, *words, *samples]))).lower()


@dataclasses.dataclass(frozen=True)
class Topics:
    """All cards, the map, and what hovering tells."""

    cards: tuple
    groups: dict  # name of a basis: its colour
    places: np.ndarray
    likeness: np.ndarray | None
    sizes: np.ndarray
    corners: tuple
    source_names: tuple
    height: float
    hover: str
    views: bool  # every source has features of its own
    kind = "topics"


def topics(
    found: Factors,
    *,
    sources: Any = None,
    image: tuple[int, int] | None = None,
    top: int = 8,
    shown: int = 3,
    sure: ArrayLike | None = None,
    stability: ArrayLike | None = None,
    views: bool = False,
) -> Topics:
    """The :class:`Topics` of ``js.factors(...)``.

    ``sure``, ``stability``: one number per component, in the order of the bases of the result.
    ``image``: the shape of pictures whose pixels are the features; ``sources`` then shows samples.
    ``views``: every source has features of its own, whatever their number.
    """
    energy = np.nan_to_num(np.maximum(found.energy, 0))
    largest = float(energy.max(initial=0)) or 1.0
    views = views and len(found.bases) > 1
    alike = not views and len({len(basis) for basis in found.bases.values()}) == 1
    weights = [_sums_to_one(column) for basis in found.bases.values() for column in basis.T]
    users = {name: sorted(members) for name, (members, *_) in zip(found.bases, found.parts)}
    groups = [name for name, basis in found.bases.items() for _ in range(basis.shape[1])]
    first = min(map(min, users.values()), default=0)
    over = [first if alike else min(users[group]) for group in groups]
    words, own_words, spread = _words(weights, over, found.names.features, top)
    examples, told = _examples(found, shown, sources, image)
    sure, stability = (None if z is None else np.asarray(z)[found.order] for z in (sure, stability))
    cards = tuple(
        Card(
            number=r,
            label=label,
            group=groups[r],
            energies=tuple(
                (found.source_names[i], float(found.energy[r, i]), energy[r, i] / largest)
                for i in users[groups[r]]
                if not np.isnan(found.energy[r, i])
            ),
            words=words[r],
            own_words=own_words[r],
            examples=examples[r],
            sure=None if sure is None or len(users[groups[r]]) < 2 else float(sure[r]),
            stability=None if stability is None else float(stability[r]),
            lost=label in found.lost,
            lopsided=label in found.lopsided,
            picture=None if image is None else _picture(weights[r], image),
            total=float(energy[r].sum()),
            shared=float(energy[r].min() / max(energy[r].mean(), np.finfo(float).tiny)),
        )
        for r, label in enumerate(found.labels)
    )
    places, corners, height = by_source(energy)
    return Topics(
        cards=cards,
        groups={name: COLOURS[n % len(COLOURS)] for n, name in enumerate(dict.fromkeys(groups))},
        places=places,
        likeness=by_likeness(found.coherence, energy, height) if alike else None,
        sizes=diameters(energy),
        corners=corners,
        source_names=found.source_names,
        height=height,
        hover=_inside_html({"labels": found.labels, "words": spread, "samples": told}),
        views=views,
    )


def _sums_to_one(column):
    total = column.sum()
    return column / total if total > 0 else column


def _words(weights, over, features, top):
    """Per component its words in both orders; and per word shown, where else it is.

    ``over``: whose features each component is over; ``features``: their names by source, or None.
    """
    overall = {i: np.sum([w for w, own in zip(weights, over) if own == i], 0) for i in set(over)}
    heaviest, own_words, spread = [], [], {}
    for weight, source in zip(weights, over):
        named, total = features[source], overall[source]
        lift = weight * weight / np.where(total > 0, total, 1)
        for order, out in (
            (np.argsort(-weight, kind="stable"), heaviest),
            (np.argsort(-lift), own_words),
        ):
            chosen = [j for j in order[:top].tolist() if weight[j] > 0]
            called = [f"feature {j}" if named is None else str(named[j]) for j in chosen]
            widest = max((weight[j] for j in chosen), default=1.0)
            out.append(
                tuple(
                    (n, float(weight[j]), float(weight[j] / widest)) for n, j in zip(called, chosen)
                )
            )
            for name, j in zip(called, chosen):
                parts = [w[j] if i == source else 0.0 for w, i in zip(weights, over)]
                spread.setdefault(name, _told(parts))
    return heaviest, own_words, spread


def _told(parts):
    """[number, percent] pairs of the components that have a part worth telling, largest first."""
    order = np.argsort(-np.asarray(parts), kind="stable")
    return [[int(r), round(100 * float(parts[r]), 1)] for r in order[:12] if parts[r] >= TOLD]


def _examples(found, shown, sources, image):
    """Per component (source, best samples); and what the samples shown are made of."""
    place = {label: number for number, label in enumerate(found.labels)}
    best, out, told = found.examples(shown), [[] for _ in found.labels], {}
    for i, source in enumerate(found.source_names):
        share, at = found.sample_shares(source), [place[label] for label in found.columns[source]]
        for label in found.columns[source]:
            rows = []
            for each in best[label][source]:
                code, parts = f"{i}:{each.number}", np.zeros(len(place))
                parts[at] = share[each.number]
                told[code] = _told(parts)
                name = each.sample if isinstance(each.sample, str) else f"sample {each.sample}"
                pixels = (
                    None
                    if image is None or sources is None
                    else zero_filled(sources[i])[:, each.number]
                )
                picture = None if pixels is None else _picture(pixels, image)
                rows.append((name, each.share, code, picture))
            if rows:
                out[place[label]].append((source, tuple(rows)))
    return [tuple(each) for each in out], told


def _picture(pixels, shape):
    from matplotlib import image  # slow to import

    out = io.BytesIO()
    image.imsave(out, np.asarray(pixels, float).reshape(shape), cmap="cividis", format="png")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def _inside_html(value):
    """JSON that no text in it can end early."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
