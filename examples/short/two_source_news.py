"""Headlines of two outlets: which topics do both report, and which only one?"""

import jax

import jaxshared as js

CITY = """council votes on new bus lanes and bike lanes
bus drivers strike over pay in the city
mayor opens new park beside the river
river floods the park after heavy rain
heavy rain and storm close city schools
team wins cup final after extra time
striker scores twice as team wins derby
fans celebrate the cup win in the park
storm warning as rain and wind reach the coast
coach praises striker after the derby win"""

TRADE = """bank raises rates as inflation grows
shares fall after bank warns on inflation
oil price climbs and shares of airlines fall
airline cuts flights as oil price climbs
storm and heavy rain stop flights at the coast
insurers count cost of storm and floods
club shares rise after cup final win
team sells striker to pay debt to bank
rates rise again and house prices fall
heavy rain delays harvest and lifts wheat price"""


def main():
    corpora = [CITY.splitlines(), TRADE.splitlines()]
    words = {"stop_words": "english"}
    texts = js.text.sources_from_documents(corpora, vectorizer_options=words, min_items=2)
    model = js.RJSNMF(shared=2, specific=(1, 1))
    strength = {"coherence": 1.0}
    key = jax.random.key(0)
    result = js.fit(model, texts.sources, key=key, hyper=strength, restarts=10, max_steps=200)

    names = ("city news", "trade news")
    options = {"vocabulary": texts.vocabulary, "names": names, "top": 5}
    print(js.factors(model, result, texts.sources, **options))

    query = js.text.query_vectors(["storm"], texts.vocabulary, idf=texts.idf[1])
    hits = js.retrieval.retrieve(model, result.params, query.vectors, source=1, top=3)
    print("\nNearest trade headlines to 'storm':")
    for item in hits.items[0]:
        print("  ", corpora[1][texts.items[1][int(item)]])


if __name__ == "__main__":
    main()
