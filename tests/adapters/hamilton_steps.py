"""The functions of Hamilton's own "hello world", and what its other pages add."""

import pandas as pd
from hamilton.function_modifiers import config, extract_columns, parameterize, value


@extract_columns("signups", "spend")
def raw(rows: int) -> pd.DataFrame:
    spend = [10.0, 10, 20, 40, 40, 50]
    return pd.DataFrame({"signups": [1.0, 10, 50, 100, 200, 400][:rows], "spend": spend[:rows]})


def avg_3wk_spend(spend: pd.Series) -> pd.Series:
    return spend.rolling(3).mean()


def spend_per_signup(spend: pd.Series, signups: pd.Series) -> pd.Series:
    return spend / signups


def spend_mean(spend: pd.Series) -> float:
    return spend.mean()


def spend_zero_mean(spend: pd.Series, spend_mean: float) -> pd.Series:
    return spend - spend_mean


def spend_std_dev(spend: pd.Series, scale: float = 1.0) -> float:
    return spend.std() * scale


def spend_zero_mean_unit_variance(spend_zero_mean: pd.Series, spend_std_dev: float) -> pd.Series:
    return spend_zero_mean / spend_std_dev


@parameterize(lag_1={"by": value(1)}, lag_2={"by": value(2)})
def lagged(spend: pd.Series, by: int) -> pd.Series:
    return spend.shift(by)


def failing(spend_mean: float) -> float:
    raise ValueError(f"on purpose: {spend_mean}")


def after_failing(failing: float) -> float:
    return failing


@config.when(choice="this")
def chosen__this(rows: int) -> int:
    return rows


def after_chosen(chosen: int) -> int:
    return chosen


async def later(rows: int) -> int:
    return rows
