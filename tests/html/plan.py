"""Opens the page of a plan in Chromium and uses it as a reader does: CHROMIUM PAGE LEAST_LAYERS [FOLDER for pictures].

On a desktop and a phone, light and dark: what is painted within two seconds, groups that open and close, what is told of a box
under the pointer, finding, zooming and panning by mouse, wheel, touch and keys, and a silent console.
"""

import sys
import tempfile
from pathlib import Path

from chromium import Chromium

LOOKS = [(1280, 900, False), (1280, 900, True), (390, 844, False), (390, 844, True)]
MOST_MS = 2000
SHIFT = 8

BOX = """(() => { const box = document.querySelector(%r).getBoundingClientRect();
  return { x: box.left + box.width / 2, y: box.top + Math.min(box.height / 2, 12), width: box.width }; })()"""
VIEW = "document.getElementById('view').getAttribute('transform')"
COUNT = "document.querySelectorAll('g.node').length"
# The scheme must reach everything that is written on the page itself.
CONTRAST = """(() => {
  const luminance = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = luminance(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll('p, td, th, h1, h2, h3, dt, dd, button, .title text')].filter((element) => {
    const style = getComputedStyle(element);
    const front = luminance(element.tagName === 'text' ? style.fill : style.color);
    return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05) < 4.5;
  }).map((element) => element.outerHTML.slice(0, 80));
})()"""


def place(page, selector):
    return page.run(BOX % selector)


def paint_ms(page):
    page.wait("performance.getEntriesByName('first-contentful-paint').length > 0")
    return page.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")


def check_layout(page, width):
    assert page.run("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    assert page.run(CONTRAST) == [], page.run(CONTRAST)
    unnamed = "[...document.querySelectorAll('button, [tabindex=\"0\"]')].filter((e) => !(e.textContent + (e.ariaLabel ?? '')).trim()).length"
    assert page.run(unnamed) == 0, "controls without a name"


def check_groups(page, least):
    """Everything opens, everything closes, and one group opens by a click and closes by its title."""
    page.run("document.getElementById('expand').click()")
    assert page.run("document.querySelectorAll('g.layer').length") >= least
    page.run("document.getElementById('collapse').click()")
    closed = page.run(COUNT)
    assert page.run("document.querySelectorAll('g.layer').length") < least or least < 10
    if page.run("document.querySelectorAll('g.group').length") == 0:
        return
    name = page.run("document.querySelector('g.group').id")
    page.run("document.getElementById('canvas').scrollIntoView({ block: 'center' })")
    page.run(f"reveal(nodeOf(document.getElementById('{name}')), true)")
    at = place(page, f"#{name}")
    page.click(at["x"], at["y"])
    page.wait(f"{COUNT} > {closed}")
    assert page.run(f"document.getElementById('{name}').getAttribute('aria-expanded')") == "true"
    page.run(f"reveal(nodeOf(document.getElementById('{name}')))")
    at = place(page, f'.title[data-of="{name[1:]}"]')
    page.click(at["x"], at["y"])
    page.wait(f"{COUNT} === {closed}")


# Titles that leave their frames, at the scale that is shown.
WIDE = """[...document.querySelectorAll('.title.stage')].filter((title) =>
  title.querySelector('text').getBBox().width > title.querySelector('rect').getBBox().width - 8).map((title) => title.textContent)"""
# Lines between groups that lie on each other: parts that go up or down in one place, of lines from two boxes.
MERGED = """(() => {
  const parts = root.lines.flatMap(({ source, light, heavy }) => [...(light + heavy).matchAll(/M[^M]+/g)].flatMap(([path]) => {
    const points = [...path.matchAll(/(-?[\\d.]+) (-?[\\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
    return points.slice(1).map((to, at) => [points[at], to]).filter(([from, to]) => Math.abs(from[0] - to[0]) < 0.5)
      .map(([[x, a], [, b]]) => ({ source: source.at, x, top: Math.min(a, b), foot: Math.max(a, b) }));
  }));
  const meet = (a, b) => a.source < b.source && Math.abs(a.x - b.x) < 1 && Math.min(a.foot, b.foot) - Math.max(a.top, b.top) > 1;
  return parts.flatMap((a) => parts.filter((b) => meet(a, b)).map((b) => `${nodes[a.source].name} and ${nodes[b.source].name}`));
})()"""


def check_titles(page, has_few_lines):
    """Titles stay in their frames from near and from afar and lie above the lines; lines of few groups lie apart."""
    page.run("document.getElementById('fit').click()")
    for scale in (0.3, 0.5, 0.7, 1, 2):
        page.run(f"zoom({scale} / seen.scale)")
        assert page.run(WIDE) == [], page.run(WIDE)
    order = "[...view.children].map((part) => part.querySelector(':scope > .title') ? 'titles' : part.getAttribute('class')).join()"
    assert "lines,titles" in page.run(order), page.run(order)
    if has_few_lines:
        assert page.run(MERGED) == [], page.run(MERGED)
    page.run("document.getElementById('fit').click()")


def check_telling(page):
    """The pointer over a box tells its times and its stage."""
    page.run("document.activeElement.blur()")
    page.run("openAll(), redrawAll(), openTo(leaves[Math.floor(leaves.length / 2)])")
    page.run("document.getElementById('canvas').scrollIntoView({ block: 'center' })")
    at = place(page, ".current")
    page.mouse("mouseMoved", at["x"], at["y"])
    name = page.run("current.name")
    page.wait(f"document.querySelector('#about h3').textContent === {name!r}")
    told = page.run("document.getElementById('about').textContent")
    assert "Forward" in told and " ms" in told and "Stage" in told, told


def check_finding(page):
    name = page.run("leaves.at(-1).name")
    page.run("closeAll(), redrawAll(), document.getElementById('search').focus()")
    page.call("Input.insertText", text=name)
    page.wait("document.querySelectorAll('#found [role=option]').length > 0")
    page.key("Enter")
    page.wait(f"current.name === {name!r} && document.querySelector('.current') !== null")


def check_moving(page, is_phone):
    """Wheel, drag, pinch and keys change what is seen."""
    page.run("document.getElementById('fit').click(), document.getElementById('canvas').focus()")
    page.run("document.getElementById('canvas').scrollIntoView({ block: 'center' })")
    at = place(page, "#canvas")
    x, y = at["x"], at["y"] + 150
    seen = page.run(VIEW)

    def changes(what):
        nonlocal seen
        page.wait(f"{VIEW} !== {seen!r}")
        now = page.run(VIEW)
        assert now != seen, what
        seen = now

    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120)
    changes("wheel")
    page.drag((x, y), (x + 60, y + 30))
    changes("drag")
    for key in "+-0":
        page.key(key)
        changes(f"key {key}")
    page.key("ArrowRight", SHIFT)
    changes("shift and an arrow")
    before = page.run("current.at")
    page.key("ArrowUp")
    page.wait(f"current.at !== {before}")
    if is_phone:
        page.touch("touchStart", (x - 30, y), (x + 30, y))
        for part in range(1, 6):
            page.touch("touchMove", (x - 30 - 8 * part, y), (x + 30 + 8 * part, y))
        page.touch("touchEnd")
        changes("pinch")


def check_scheme(page, dark):
    """The button turns the scheme round."""
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.run(colour)
    page.run("document.getElementById('theme').click()")
    assert page.run(colour) != before
    page.run("document.getElementById('theme').click()")
    assert page.run(colour) == before
    assert (before != "rgb(255, 255, 255)") == dark, before


def main():
    program, path, least = sys.argv[1], sys.argv[2], int(sys.argv[3])
    pictures = Path(sys.argv[4]) if len(sys.argv) > 4 else None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, Chromium(program, profile) as browser:
        for width, height, dark in LOOKS:
            page = browser.page(path, width, height, dark)
            page.wait("document.documentElement.dataset.ready === 'true'")
            painted = paint_ms(page)
            assert painted < MOST_MS, f"first paint after {painted} ms"
            look = f"{width} x {height}, {'dark' if dark else 'light'}"
            boxes = page.run(COUNT)
            if pictures:
                pictures.mkdir(parents=True, exist_ok=True)
                page.picture(pictures / f"{Path(path).stem}-{width}-{'dark' if dark else 'light'}.png")
                page.paper(pictures / f"{Path(path).stem}.pdf")
            check_layout(page, width)
            check_titles(page, least < 1000)
            check_groups(page, least)
            check_telling(page)
            check_layout(page, width)
            check_finding(page)
            check_moving(page, width < 600)
            check_scheme(page, dark)
            assert browser.console == [], browser.console
            print(f"test-html: {Path(path).name}, {look}: fine, painted after {painted:.0f} ms, {boxes} boxes at first")
            page.close()


if __name__ == "__main__":
    main()
