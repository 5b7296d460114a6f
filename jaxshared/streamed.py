r"""The fit of sources that are larger than memory: one pass over the data per step.

A step moves the bases and then the coefs. The coefs of a sample need the bases and that sample alone; the
bases need :math:`X H` and :math:`H^\top H`, sums over the samples. So one pass updates the coefs block after
block and adds up what the next move of the bases needs: the steps of a fit in memory, whatever the blocks.

With ``forget`` the bases move after every block instead, on sums in which what is older counts less (Mairal
et al. 2010; for INMF, Gao et al. 2021): far fewer passes, but no exact objective on the way, no proof of
descent, and a result that depends on the order of the samples.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Result, Status, block_of
from jaxshared.checkpoint import digest, kept_at
from jaxshared.data.blocks import along_features, block_bytes, made_now, on_device, ready
from jaxshared.data.look import look
from jaxshared.data.order import named_sources
from jaxshared.data.stream import ahead
from jaxshared.data.summary import Summary
from jaxshared.endings import basis_residual, coef_residual, end_of, status_of
from jaxshared.passes import added, drawn, drawn_rows, move_bases, move_rows, root_of
from jaxshared.problem import checked_hyper
from jaxshared.shelf import Shelf, check_unused
from jaxshared.solvers import HALS
from jaxshared.streamable import check_streamable
from jaxshared.terms import put_block

__all__ = ["fit_stream"]

# A block of the mini-batch mode is moved so often before the bases are.
INNER = 5


class _Sums(NamedTuple):
    """Per source X H; per coef H^T H and the column sums. On the host, in double precision."""

    products: tuple
    grams: tuple
    totals: tuple


def fit_stream(model, sources, *, key, hyper, solver, max_steps, tol, progress, checkpoint):
    """:func:`jaxshared.fit` for streamed sources."""
    sources = tuple(sources) if isinstance(sources, (tuple, list)) else (sources,)
    coefs = next((s.coefs for s in sources if getattr(s, "coefs", None)), None)
    forget = next((s.forget for s in sources if getattr(s, "forget", None) is not None), None)
    solver = HALS() if solver is None else solver
    check_streamable(model, sources, solver, forget)
    _, names = named_sources([source.names for source in sources], model.aligned)
    if coefs is not None and not (checkpoint is not None and os.path.exists(checkpoint)):
        check_unused(coefs)  # before a pass over the data
    facts = [look(source, f"sources[{i}]") for i, source in enumerate(sources)]
    run = _Run(model, sources, facts, key, hyper, solver, coefs, forget)
    told = [(f.features, f.samples, f.total, f.squares) for f in facts]
    problem = ("stream", model, solver, max_steps, tol, forget, key, told, run.hyper)
    kept = kept_at(checkpoint, *problem)
    found = kept.load() if kept else None
    run.open(found is not None, digest(*problem, checkpoint and os.path.abspath(checkpoint)))
    return run.result(max_steps, tol, progress, kept, found)._replace(names=names)


class _Run:
    """One streamed fit on its way."""

    def __init__(self, model, sources, facts, key, hyper, solver, folder, forget):
        self.model, self.sources, self.facts, self.key = model, sources, facts, key
        self.solver, self.forget, self.folder = solver, forget, folder
        self.dtype = np.result_type(*(f.dtype for f in facts))
        empty = tuple(self._summary(i, np.zeros((f.features, 0))) for i, f in enumerate(facts))
        self.hyper = checked_hyper(model, empty, hyper)
        self.groups: dict[Any, list[int]] = {}
        for term in model.terms(len(sources)):
            (ref,) = term.coef.blocks
            self.groups.setdefault(ref, []).append(term.source)
        self.drawing = (model, tuple((f.features, f.samples) for f in facts), self.dtype)
        self.like = jax.eval_shape(lambda: drawn(*self.drawing, key))

    def open(self, again, run):
        """Places for the coefs: those of the run that a checkpoint restores, else new ones."""
        shapes = {
            ref: (self.facts[members[0]].samples, self._rank(ref))
            for ref, members in self.groups.items()
        }
        self.coefs = Shelf(self.folder, shapes, self.dtype, again, run)

    def _rank(self, ref):
        return block_of(self.like, ref).shape[1]

    def _size(self, ref):
        """Places of a block: samples of the largest one."""
        return self.facts[self.groups[ref][0]].rows

    def _summary(self, i, product, total=None):
        fact = self.facts[i]
        total = fact.total if total is None else total
        numbers = (jnp.asarray(each, self.dtype) for each in (product, fact.squares, total))
        product, squares, total = numbers
        return Summary(product, None, squares, total, (fact.features, fact.samples))

    def _blocks(self, members):
        """(first sample, how many, sources on the device) of every block, read ahead."""
        begin = 0

        def prepared(blocks):
            sizes = {block.shape[0] for block in blocks}
            if len(sizes) > 1:
                raise ValueError(
                    f"views came in blocks of {sizes} samples: use one block= for all."
                )
            for block, i in zip(blocks, members):
                fact = self.facts[i]
                if block.shape[0] > fact.rows or block.shape[1] != fact.features:
                    raise _changed(
                        f"a block of shape {block.shape}",
                        f"at most {fact.rows} samples and {fact.features} features",
                    )
            pairs = zip(blocks, members)
            return sizes.pop(), [ready(block, self.facts[i], self.dtype) for block, i in pairs]

        streams = zip(*(self.sources[i].blocks() for i in members), strict=True)
        # one thread reads, another prepares
        for count, arrays in ahead(ahead(streams, lambda blocks: blocks, depth=1), prepared):
            if begin + count > self.facts[members[0]].samples:
                raise _changed(f"{begin + count} samples", str(self.facts[members[0]].samples))
            yield begin, count, [on_device(each) for each in arrays]
            begin += count
        first = self.facts[members[0]].samples
        if begin != first:
            raise _changed(f"{begin} samples", str(first))

    def _pass(self, move, bar, bases=None):
        """All coefs moved once by ``move(ref, begin, count, arrays, crosses)``, and what they add up to.

        ``crosses``: X^T B of the block, if ``bases`` are given. While a block is moved, X^T B of the next
        one and X H of the one before it are under way.
        """
        products = [np.zeros((f.features, 0)) for f in self.facts]
        grams, totals = {}, {}
        for ref, members in self.groups.items():
            rank = self._rank(ref)
            gram, sums = np.zeros((rank, rank)), np.zeros(rank)
            for i in members:
                products[i] = np.zeros((self.facts[i].features, rank))
            before = []
            for block, crosses in self._crossed(ref, bases):
                rows, made, own = move(ref, *block, crosses)
                self.coefs.write(ref, block[0], np.asarray(rows)[: block[1]])
                gram += np.asarray(own[0], np.float64)
                sums += np.asarray(own[1], np.float64)
                _add_up(products, members, before)
                before = made
                bar.update(sum(map(block_bytes, block[2])))
            _add_up(products, members, before)
            if not all(np.isfinite(products[i]).all() for i in members):
                raise _changed("entries that are not finite", "none")
            grams[ref], totals[ref] = gram, sums
        return _Sums(tuple(products), tuple(grams.values()), tuple(totals.values()))

    def _crossed(self, ref, bases):
        """Every block, and its X^T B if there are bases: begun while the block before it is used."""
        last = None
        for block in self._blocks(self.groups[ref]):
            crosses = None if bases is None else self._crosses(ref, block[2], self._without(bases))
            if last is not None:
                yield last
            last = block, crosses
        if last is not None:
            yield last

    def _begin(self, bar):
        """The start of a fit in memory: drawn block by block, brought to scale by the sums."""

        def move(ref, begin, count, arrays, _):
            size = self._size(ref)
            numbers = np.where(np.arange(size) < count, begin + np.arange(size), -1)
            rows = drawn_rows(*self.drawing, ref, self.key, jnp.asarray(numbers, jnp.int32))
            return rows, *added(arrays, rows)

        sums = self._pass(move, bar)
        start = drawn(*self.drawing, self.key)
        for ref, total in zip(self.groups, sums.totals):
            start = put_block(start, ref, jnp.asarray(total[None], self.dtype))
        scaled = self.model.rescale(start, self._summaries(sums))
        by = []
        for ref, total in zip(self.groups, sums.totals):
            row = np.asarray(block_of(scaled, ref), np.float64)[0]
            by.append(np.where(total > 0, row / np.where(total > 0, total, 1), 1))
            self.coefs.multiply(ref, by[-1])
        at = dict(zip(self.groups, by))
        products = [
            p * at[ref] for ref, m in self.groups.items() for p in [sums.products[i] for i in m]
        ]
        order = [i for members in self.groups.values() for i in members]
        products = tuple(products[order.index(i)] for i in range(len(self.facts)))
        grams = tuple(gram * np.outer(c, c) for gram, c in zip(sums.grams, by))
        return scaled.bases, _Sums(products, grams, sums.totals)

    def _summaries(self, sums):
        return tuple(self._summary(i, product) for i, product in enumerate(sums.products))

    def _at(self, bases, sums):
        """Factors with the bases, and in place of the coefs what has their Gram matrices."""
        params = self.like._replace(bases=tuple(bases))
        for ref, gram in zip(self.groups, sums.grams):
            params = put_block(params, ref, jnp.asarray(root_of(gram), self.dtype))
        return params

    def _objective(self, bases, sums):
        params, loss = self._at(bases, sums), 0.0
        grams = dict(zip(self.groups, sums.grams))
        for weight, term in zip(
            self.model.term_weights(self.hyper), self.model.terms(len(self.facts))
        ):
            basis = np.asarray(term.basis.of(params), np.float64)
            (ref,) = term.coef.blocks
            cross = np.sum(basis * sums.products[term.source])
            gap = np.sum((basis.T @ basis) * grams[ref]) - 2 * cross
            loss += float(weight) * (self.facts[term.source].squares + gap)
        summaries = self._summaries(sums)
        penalties = self.model.all_penalties
        return loss + sum(
            float(p.value(self.model, params, summaries, self.hyper)) for p in penalties
        )

    def _moved(self, bases, sums):
        params = self._at(bases, sums)
        return move_bases(self.model, self.solver, params, self._summaries(sums), self.hyper)

    def _step(self, bases, sums, bar):
        """Bases, then coefs in one pass."""
        bases = self._moved(bases, sums)
        self.coefs.turn()

        def move(ref, begin, count, arrays, crosses):
            moved = self._moved_rows(ref, begin, count, crosses, bases, 1)
            return moved, *added(arrays, moved)

        return bases, self._pass(move, bar, bases)

    def _moved_rows(self, ref, begin, count, crosses, bases, passes):
        """The coefs of a block, from where the last pass left them."""
        rows = self.coefs.read(ref, begin, count, self._size(ref))
        problem = (self._without(bases), rows, count, made_now(crosses), self.hyper)
        return move_rows(self.model, self.solver, ref, passes, *problem)

    def _online(self, bases, sums, bar):
        """One pass in which the bases move after every block, on sums that forget."""
        share = [None]

        def move(ref, begin, count, arrays, _):
            members, at = self.groups[ref], list(self.groups).index(ref)
            crosses = self._crosses(ref, arrays, self._without(share[0][0]))
            moved = self._moved_rows(ref, begin, count, crosses, share[0][0], INNER)
            made, own = added(arrays, moved)
            keep = self.forget
            new = (1 - keep) * self.facts[members[0]].samples / count  # as if all were like these
            products, grams = list(share[0][1].products), list(share[0][1].grams)
            for i, product in zip(members, made):
                products[i] = keep * products[i] + new * np.asarray(product, np.float64)
            grams[at] = keep * grams[at] + new * np.asarray(own[0], np.float64)
            now = _Sums(tuple(products), tuple(grams), share[0][1].totals)
            share[0] = (self._moved(share[0][0], now), now)
            return moved, made, own

        share[0] = (bases, sums)
        self.coefs.turn()
        exact = self._pass(move, bar)
        return share[0][0], share[0][1], exact

    def _without(self, bases):
        """Factors without any coef."""
        params = self.like._replace(bases=tuple(bases))
        for ref in self.groups:
            params = put_block(params, ref, jnp.zeros((0, self._rank(ref)), self.dtype))
        return params

    def result(self, max_steps, tol, progress, kept, found):
        """All passes, from the beginning or from where a checkpoint stands."""
        from tqdm.auto import tqdm

        size = sum(fact.bytes for fact in self.facts)
        bar = tqdm(total=(max_steps + 1) * size, unit="B", unit_scale=True, disable=not progress)
        with bar:
            if found is None:
                bases, sums = self._begin(bar)
                history, done, status = [self._objective(bases, sums)], 0, Status.MAX_STEPS
            else:
                bases, sums, history, done, status = self._restored(*found)
            while done < max_steps and status is Status.MAX_STEPS:
                if self.forget is None:
                    bases, sums = self._step(bases, sums, bar)
                    value = self._objective(bases, sums)
                else:
                    bases, sums, exact = self._online(bases, sums, bar)
                    value = self._objective(bases, exact)
                done += 1
                history.append(value)
                bar.set_postfix_str(f"objective {value:.6g}", refresh=False)
                status = status_of(history, done, tol)
                ended = done == max_steps or status is not Status.MAX_STEPS
                if kept and (ended or self.folder or kept.due()):
                    self._save(kept, bases, sums, history, done, status)
        params = self.like._replace(bases=tuple(bases))
        for ref, coef in self.coefs.end().items():
            params = put_block(params, ref, coef)
        left = self._violation(bases, params)
        status = end_of(status, left, history, self._zero())
        curve = jnp.asarray(np.array(history), self.dtype)
        left = jnp.asarray(left, self.dtype)
        return Result(params, curve[-1], curve, done, status, left, jnp.arange(done + 1))

    def _zero(self):
        """The objective of factors of zero."""
        weights = self.model.term_weights(self.hyper)
        return sum(float(w) * f.squares for w, f in zip(weights, self.facts))

    def _violation(self, bases, end):
        """That of a fit in memory, from one pass more; ``end``: the factors of the last one."""
        params = self._without(bases)
        products, grams, residuals = [None] * len(self.facts), [], []
        for ref, members in self.groups.items():
            coef = block_of(end, ref)
            made = {i: np.zeros((self.facts[i].features, coef.shape[1])) for i in members}
            gram, total = np.zeros((coef.shape[1],) * 2), np.zeros(coef.shape[1])
            for begin in range(0, len(coef), 2**16):
                total += np.sum(coef[begin : begin + 2**16], axis=0, dtype=np.float64)

            def blocks(ref=ref, members=members, coef=coef, made=made, gram=gram):
                for begin, count, arrays in self._blocks(members):
                    rows = np.zeros((self._size(ref), coef.shape[1]), self.dtype)
                    rows[:count] = coef[begin : begin + count]
                    found, own = added(arrays, rows)
                    gram += np.asarray(own[0], np.float64)
                    for i, product in zip(members, found):
                        made[i] += np.asarray(product, np.float64)
                    yield rows, count, made_now(self._crosses(ref, arrays, params))

            once = [np.asarray(self.facts[i].sums[None], self.dtype) for i in members]
            sums = self._crosses(ref, once, params, size=1)
            total = jnp.asarray(total, self.dtype)
            given = (params, total, sums, blocks(), self.hyper)
            residuals.append(coef_residual(self.model, ref, *given))
            grams.append(gram)
            for i in members:
                products[i] = made[i]
        sums = _Sums(tuple(products), tuple(grams), ())
        at, summaries = self._at(bases, sums), self._summaries(sums)
        residuals.append(basis_residual(self.model, at, summaries, self.hyper))
        return max(residuals) if np.isfinite(residuals).all() else float("nan")

    def _crosses(self, ref, arrays, params, size=None):
        """X^T B of each source that the coef ``ref`` is of, None for the others."""
        terms = {term.source: term for term in self.model.terms(len(self.facts))}
        size = self._size(ref) if size is None else size
        crosses = [None] * len(self.facts)
        for i, array in zip(self.groups[ref], arrays):
            crosses[i] = along_features(array, terms[i].basis.of(params), size)
        return tuple(crosses)

    def _save(self, kept, bases, sums, history, done, status):
        trees = dict(
            bases=tuple(bases), products=sums.products, grams=sums.grams, history=np.array(history)
        )
        trees["coefs"] = self.coefs.kept()
        kept.save({"done": done, "status": int(status)}, trees)

    def _restored(self, facts, arrays):
        if facts["done"] % 2 == 1:  # the files change places with every pass
            self.coefs.turn()
        self.coefs.restore(arrays["coefs"])
        bases = tuple(jnp.asarray(each) for each in arrays["bases"])
        sums = _Sums(tuple(arrays["products"]), tuple(arrays["grams"]), ())
        history = arrays["history"][0].tolist()
        return bases, sums, history, facts["done"], Status(facts["status"])


def _add_up(products, members, made):
    for i, product in zip(members, made):
        products[i] += np.asarray(product, np.float64)


def _changed(now, before):
    return ValueError(
        f"a pass had {now}, and the first look {before}: a stream is read again in every pass, so give a "
        f"function that begins anew each time, with the same blocks."
    )
