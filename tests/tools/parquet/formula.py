"""The values of the Parquet files of this folder: a column's name and the number of a row in, a number out."""
COLUMNS, ROWS = ("a", "b", "c", "d", "e", "u", "k", "label"), 300
WIDE = tuple(f"w{j}" for j in range(19))  # of wide.parquet: whole numbers of 32 bits


def value_of(column, i):
    return {"a": i * 37 % 1000 - 500, "b": i * i - 7, "c": i / 8 - 3, "d": i / 3, "e": i % 3 == 0, "u": 4294967295 - i,
            "k": i // 7 % 5, "label": i % 3}[column]


def wide_value_of(column, i):
    return (int(column[1:]) * 100003 + i * 7919) % 2**32 - 2**31
