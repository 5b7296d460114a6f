"""The rank of an NMF by cross-validation, in a Pipeline: one program for all folds and ranks up to eight."""
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from jaxshared.estimators import NMF
pipeline = make_pipeline(MaxAbsScaler(), NMF(random_state=0, max_iter=50))
search = GridSearchCV(pipeline, {"nmf__n_components": [2, 4, 8]}, cv=3).fit(load_digits().data[:600])
print(search.best_params_, search.cv_results_["mean_test_score"].round(3))
