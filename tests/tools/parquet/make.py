#!/usr/bin/env python3
"""make.py [FOLDER]: writes the Parquet files of this folder with pyarrow 26, which have what formula.py says."""
import decimal
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from formula import COLUMNS, ROWS, WIDE, value_of, wide_value_of  # noqa: E402

TYPES = {"a": pa.int32(), "b": pa.int64(), "c": pa.float32(), "d": pa.float64(), "e": pa.bool_(), "u": pa.uint32(),
         "k": pa.int16(), "label": pa.int64()}
FILES = {
    "plain": dict(compression="none", use_dictionary=False, row_group_size=70),
    "snappy": dict(compression="snappy", row_group_size=70),
    "gzip": dict(compression="gzip", row_group_size=300, data_page_size=200),
    "zstd_v2": dict(compression="zstd", row_group_size=128, data_page_version="2.0", data_page_size=256),
    "deltas": dict(compression="none", use_dictionary=False, data_page_version="2.0", row_group_size=128,
                   column_encoding={"a": "DELTA_BINARY_PACKED", "b": "DELTA_BINARY_PACKED", "u": "DELTA_BINARY_PACKED",
                                    "k": "DELTA_BINARY_PACKED", "label": "DELTA_BINARY_PACKED",
                                    "c": "BYTE_STREAM_SPLIT", "d": "BYTE_STREAM_SPLIT", "e": "RLE"}),
}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    columns = {name: pa.array([value_of(name, i) for i in range(ROWS)], TYPES[name]) for name in COLUMNS}
    fields = [pa.field(name, TYPES[name], nullable=name != "c") for name in COLUMNS]
    for name, how in FILES.items():
        pq.write_table(pa.table(columns, pa.schema(fields)), os.path.join(folder, name + ".parquet"), **how)
    wide = {name: pa.array([wide_value_of(name, i) for i in range(ROWS)], pa.int32()) for name in WIDE}
    pq.write_table(pa.table(wide), os.path.join(folder, "wide.parquet"), compression="gzip", row_group_size=128,
                   use_dictionary=list(WIDE[::2]))
    few = {
        "x": pa.array([1.0, None, 3.0]),
        "text": pa.array(["one", "two", "three"]),
        "pairs": pa.array([[1, 2], [3, 4], [5, 6]]),
        "inner": pa.array([{"y": 1}, {"y": 2}, {"y": 3}]),
        "price": pa.array([decimal.Decimal("1.5")] * 3, pa.decimal128(5, 2)),
        "whole": pa.array([7, 8, 9]),
    }
    pq.write_table(pa.table(few), os.path.join(folder, "odd.parquet"), compression="none")
    pq.write_table(pa.table({"x": [1.0, 2.0]}), os.path.join(folder, "brotli.parquet"), compression="brotli")


main()
