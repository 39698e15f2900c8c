"""Estimators on a dask.dataframe: what comes in as one goes out as one, and rows stay on the workers."""

import pickle
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import heterps as hps
from heterps.errors import ClusterError, DataError

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = [pytest.mark.cluster, pytest.mark.full]

SIZES = (400, 0, 1, 700)


def part(i: int) -> pd.DataFrame:
    rng = np.random.default_rng(i)
    city, age = rng.choice(["Oslo", "Rome", "Bonn"], SIZES[i]), rng.normal(40, 12, SIZES[i])
    answer = np.where((city == "Oslo") ^ (age > 40), "yes", "no")
    columns = {"city": pd.Categorical(city), "age": age, "answer": answer, "worth": 100 + 3 * age}
    return pd.DataFrame(columns, index=pd.Index(np.arange(SIZES[i]) + 10_000 * i, name="row"))


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def frame() -> object:
    divisions = (*(10_000 * i for i in range(len(SIZES))), 40_000)
    return dd.from_map(part, range(len(SIZES)), meta=part(2).iloc[:0], divisions=divisions)


def test_a_classifier_answers_with_a_dask_frame(client) -> None:  # type: ignore[no-untyped-def]
    ddf = frame()
    x, y = ddf[["city", "age"]], ddf["answer"]
    with hps.Classifier(client=client, epochs=30, batch_size=64, class_weight="balanced") as model:
        model.fit(x, y)
        predicted, shares = model.predict(x), model.predict_proba(x)
        assert predicted.npartitions == shares.npartitions == len(SIZES)
        assert predicted.divisions == x.divisions
        assert list(shares.columns) == ["no", "yes"]
        kept = {key for keys in client.has_what().values() for key in keys if str(key).startswith("heterps-infer")}
        assert len(kept) == 2 * len(SIZES)  # they are there already, on workers
        whole = pd.concat([part(i) for i in range(len(SIZES))])
        found = client.compute(predicted, sync=True)
        assert found.index.equals(whole.index)
        assert (found == whole["answer"]).mean() > 0.95
        assert np.allclose(client.compute(shares, sync=True).sum(axis=1), 1)
        local = model.predict(whole[["city", "age"]])  # rows in memory, the model on the cluster
        assert local.tolist() == found.tolist()
        again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    assert again.predict(whole[["city", "age"]]).tolist() == local.tolist()


def test_a_regressor_and_what_does_not_fit(client) -> None:  # type: ignore[no-untyped-def]
    ddf = frame()
    with hps.Regressor("linear", client=client, epochs=20, batch_size=32) as model:
        found = client.compute(model.fit(ddf[["age"]], ddf["worth"]).predict(ddf[["age"]]), sync=True)
        whole = pd.concat([part(i) for i in range(len(SIZES))])
        assert np.corrcoef(found, whole["worth"])[0, 1] > 0.99
        worth = model.set_params(epochs=2).fit(ddf[["age"]], ddf["worth"], eval_set=(ddf[["age"]], ddf["worth"]))
        assert len(worth.evals_result_["validation_0"]["rmse"]) == 2
        with pytest.raises(DataError, match=r"beside a dask\.dataframe it is a dask Series"):
            model.fit(ddf[["age"]], np.arange(3))
        with pytest.raises(DataError, match="X has 4 partitions and y has 1"):
            model.fit(ddf[["age"]], ddf["worth"].repartition(npartitions=1))
    with pytest.raises(DataError, match="a Regressor predicts numbers"):
        hps.Classifier(client=client).fit(ddf[["city"]], ddf["worth"])
    with pytest.raises(ClusterError, match="needs a cluster"):
        hps.Classifier().fit(ddf[["age"]], ddf["answer"])
