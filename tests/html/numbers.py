"""Compares the numbers of a study's page with its CSV files: FOLDER of `stagecut study report --output`.

Every row of every table, as it is shown and as it is sorted, and every point of every plot. Prints what it compared.
"""

import csv
import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

MOST_BYTES = 5_000_000
UNITS = {"%": 0.01, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
# What is not zero is never shown as zero.
TINY = "< 0.01 %"
SMALL_PROBABILITY = "< 0.001"
SHOWN = re.compile(r"(-?[\d.]+)\s*(%|µs|ms|s|)")


def read(folder, name):
    with open(folder / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def text(element):
    return "".join(element.itertext())


def check_shown(where, shown, values, is_ms):
    """Whether people read the value, to the digits that they read."""
    if " / " in shown:
        assert shown.split(" / ") == values, (where, shown, values)
        return
    parts = shown.split(" to ")
    # Ends that are read alike are shown once.
    parts = parts * 2 if len(parts) < len(values) else parts
    assert len(parts) == len(values), (where, shown, values)
    for part, value in zip(parts, values):
        if part == TINY:
            assert 0 <= float(value) < 1e-4, (where, shown, values)
            continue
        if part == SMALL_PROBABILITY:
            assert 0 <= float(value) < 1e-3, (where, shown, values)
            continue
        digits, unit = SHOWN.fullmatch(part).groups()
        scale = 1.0 if is_ms and unit == "ms" else UNITS[unit]
        last = 0.5 * 10.0 ** -len(digits.partition(".")[2])
        assert abs(float(digits) - float(value) / scale) <= last * (1 + 1e-6), (where, shown, values)


def check_table(folder, table):
    """Rows of a table that are shown, and those that only the file has."""
    name = table.get("data-name")
    expected = read(folder, name)
    rows = [list(row) for row in table.find("tbody")]
    for row, of in zip(rows, expected):
        left = list(of.items())
        for cell in row:
            shown = text(cell)
            keys = ("data-low", "data-v", "data-ties", "data-losses")
            sorted_by = [cell.get(key) for key in keys if cell.get(key) is not None]
            column, value = left.pop(0)
            if column.endswith("_low"):
                value = (value, left.pop(0)[1])
            elif column.endswith("_wins"):
                value = (value, left.pop(0)[1], left.pop(0)[1])
            values = [value] if isinstance(value, str) else list(value)
            if not any(values):
                assert shown in ("", "-") and not sorted_by, (name, column, shown)
            elif sorted_by:
                assert sorted_by == values, (name, column, sorted_by, values)
                check_shown((name, column), shown, values, column.endswith("_ms"))
            else:
                # What stands in backticks is code on the page.
                assert shown == values[0].replace("`", ""), (name, column, shown, values)
        assert not left, (name, left)
    return len(rows), len(expected) - len(rows)


def short(value):
    """Five significant digits, as points of plots have."""
    return float(f"{float(value):.4e}")


def points_of(folder, name):
    """Points that a plot may have, from its CSV: by method and by which of its two curves, pairs of x and y."""
    points = defaultdict(set)
    if name in ("quality", "speed", "gaps"):
        x = "gap" if name == "gaps" else "ratio"
        for row in read(folder, name):
            points[row["method"], ""].add((short(row[x]), short(row["share_low"])))
            points[row["method"], "faint"].add((short(row[x]), short(row["share_high"])))
        return points
    sums = defaultdict(lambda: [0.0, 0.0])
    for row in read(folder, name):
        # Layers are drawn by powers of two.
        x = row["stages"] if name == "by-stages" else 2 ** (int(row["layers"]).bit_length() - 1)
        place = sums[row["method"], x]
        place[0] += float(row["mean_gap_high"]) * float(row["runs"])
        place[1] += float(row["runs"])
    for (method, x), (total, runs) in sums.items():
        points[method, ""].add((short(x), total / runs))
    return points


def check_plot(folder, figure):
    name = figure.get("id").removeprefix("plot-")
    expected = points_of(folder, name)
    count = 0
    for curve in figure.iter():
        key = curve.get("data-name"), "faint" if "faint" in (curve.get("class") or "") else ""
        for pair in filter(None, (curve.get("data-points") or "").split(";")):
            x, y = map(float, pair.split())
            near = [of for at, of in expected[key] if at == x]
            assert any(math.isclose(y, of, rel_tol=1e-4, abs_tol=1e-9) for of in near), (name, key, x, y, near)
            count += 1
    assert count > 0, name
    return count


def main():
    folder = Path(sys.argv[1])
    page = (folder / "report.html").read_text(encoding="utf-8")
    size = len(page.encode())
    assert size < MOST_BYTES, f"the page has {size} bytes"
    assert not any(word in page for word in ("src=", "@import", "url(")), "the page needs other files"
    document = ElementTree.fromstring(page)
    shown, left_out = zip(*(check_table(folder, table) for table in document.iter("table")))
    points = [check_plot(folder, figure) for figure in document.iter("figure")]
    for rows in filter(None, left_out):
        assert f"{rows} more rows are in" in page, rows
    print(
        f"test-html: numbers agree: {sum(shown)} rows of {len(shown)} tables, {sum(points)} points of {len(points)} plots, {size / 1e6:.2f} MB"
    )


if __name__ == "__main__":
    main()
