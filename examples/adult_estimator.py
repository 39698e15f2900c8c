"""The census data as a frame, with scikit-learn's methods: no schema, no graph, no session to be written."""

import pandas as pd
from sklearn.metrics import roc_auc_score

import heterps as hps

EPOCHS = 3


def main() -> None:
    train, test = (pd.read_csv(hps.adult(part).paths[0], skipinitialspace=True) for part in ("train", "test"))
    features = [name for name in train.columns if name not in ("income", "fnlwgt")]
    with hps.Classifier("wide_deep", epochs=EPOCHS, batch_size=256) as model:
        model.fit(train[features], train["income"], eval_set=(test[features], test["income"]))
        shares = model.predict_proba(test[features])
        losses = ", ".join(f"{loss:.4f}" for loss in model.evals_result_["validation_0"]["logloss"])
        print(f"logloss of adult.test after each pass: {losses}")
        auc = roc_auc_score(test["income"] == model.classes_[1], shares[model.classes_[1]])
        print(f"adult.test: AUC {auc:.4f}, accuracy {model.score(test[features], test['income']):.4f}")


if __name__ == "__main__":
    main()
