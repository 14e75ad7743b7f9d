"""Processor time and memory of the exact engine on generated transformer training graphs of growing size, as a table and a plot."""
import json
import math
import os
import subprocess
import tempfile

STAGES, LIMIT_S = 32, 60


def measure(stagecut, sizes):
    """A row a size: operators, items, seconds of processor time of the whole command, peak MiB, status, gap."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            instance = os.path.join(folder, "transformer.json")
            subprocess.run([stagecut, "generate", "transformer", "--operators", str(size), "--attention", "materialised", "--spread", "0.1", "--output", instance], check=True)
            command = [stagecut, "solve", instance, "--stages", str(STAGES), "--time-limit", str(LIMIT_S), "--quiet", "--format", "json"]
            child = subprocess.Popen(command, stdout=subprocess.PIPE)
            plan = json.loads(child.stdout.read())
            _, _, usage = os.wait4(child.pid, 0)
            # Of the processor: whoever else is on the machine changes little.
            seconds = usage.ru_utime + usage.ru_stime
            with open(instance) as file:
                operators = len(json.load(file)["network"]["layers"])
            rows.append((operators, plan["statistics"]["items"], seconds, usage.ru_maxrss / 1024, plan["status"], plan["gap"]))
            print(rows[-1], flush=True)
    return rows


def table(rows):
    lines = ["| operators | items | processor, s | peak MiB | status | gap |", "|---:|---:|---:|---:|---|---:|"]
    for operators, items, seconds, mib, status, gap in rows:
        lines.append(f"| {operators} | {items} | {seconds:.2f} | {mib:.0f} | {status} | {100 * gap:.3f} % |")
    return lines


def plot(rows):
    """A log-log plot as SVG, readable on light and dark pages."""
    width, height, left, bottom = 640, 360, 70, 50
    xs, ys = [r[0] for r in rows], [max(r[2], 0.01) for r in rows]
    x_range = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)))
    y_range = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def place(value, low, high, start, end):
        return start + (math.log10(value) - low) / (high - low) * (end - start)

    def x(value):
        return place(value, *x_range, left, width - 40)

    def y(value):
        return place(value, *y_range, height - bottom, 20)

    marks = ['<rect width="100%" height="100%" fill="white"/>']
    for power in range(x_range[0], x_range[1] + 1):
        at = x(10**power)
        marks.append(f'<line x1="{at:.1f}" y1="20" x2="{at:.1f}" y2="{height - bottom}" stroke="#ddd"/>')
        marks.append(f'<text x="{at:.1f}" y="{height - bottom + 18}" text-anchor="middle">{10**power:,}</text>')
    for power in range(y_range[0], y_range[1] + 1):
        at = y(10.0**power)
        marks.append(f'<line x1="{left}" y1="{at:.1f}" x2="{width - 40}" y2="{at:.1f}" stroke="#ddd"/>')
        marks.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>')
    path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(xs, ys))
    marks.append(f'<polyline points="{path}" fill="none" stroke="#0072b2" stroke-width="2"/>')
    marks += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="4" fill="#0072b2"><title>{a} operators: {b:.2f} s</title></circle>' for a, b in zip(xs, ys)]
    marks.append(f'<text x="{(left + width) / 2}" y="{height - 10}" text-anchor="middle">operators</text>')
    title = f"Seconds of processor time to a proved plan in {STAGES} stages"
    marks.append(f'<text x="{left}" y="14">{title}</text>')
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">{"".join(marks)}</svg>\n'
