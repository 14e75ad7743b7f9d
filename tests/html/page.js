// Runs in the report itself, appended by scripts/test-html, and leaves what it found in #outcome.
(async () => {
  const wrong = window.pageErrors;
  const check = (what, holds) => { if (!holds) wrong.push(what); };
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  for (const table of document.querySelectorAll("table")) {
    check(`caption of ${table.dataset.name}`, table.caption && table.caption.textContent);
    check(`scopes of ${table.dataset.name}`, [...table.tHead.querySelectorAll("th")].every((th) => th.scope === "col"));
  }
  // Every number sorts up and down; what does not apply stays last.
  for (const heading of document.querySelectorAll("table thead th")) {
    const table = heading.closest("table");
    for (const direction of ["ascending", "descending"]) {
      heading.firstElementChild.click();
      check("aria-sort", heading.getAttribute("aria-sort") === direction);
      const cells = [...table.tBodies[0].rows].map((row) => row.cells[heading.cellIndex]);
      if (!cells.some((cell) => cell.dataset.v !== undefined)) continue;
      const values = cells.map((cell) => (cell.dataset.v === undefined ? NaN : Number(cell.dataset.v)));
      const sign = direction === "ascending" ? 1 : -1;
      for (let k = 1; k < values.length; k += 1) {
        check(`order of ${table.dataset.name}, ${heading.textContent}`, Number.isNaN(values[k]) || sign * (values[k] - values[k - 1]) >= 0);
      }
    }
  }
  // Plots answer the keyboard and the pointer.
  for (const figure of document.querySelectorAll(".plot")) {
    const svg = figure.querySelector("svg");
    const values = () => [...figure.querySelectorAll(".legend li")].map((entry) => entry.textContent);
    check("plot has a name", svg.getAttribute("aria-label").length > 20);
    check("plot takes the focus", svg.tabIndex === 0);
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
    const last = values();
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: "Home" }));
    check(`place in ${figure.id}`, values()[0] !== last[0] && values()[0].length > 5);
    check(`values of ${figure.id}`, last.slice(1).every((entry) => /\d( %)?$/.test(entry)));
    const box = svg.getBoundingClientRect();
    svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + 20 }));
    check("the line moves", Number(figure.querySelector(".cursor").getAttribute("x1")) > 100);
  }
  // Plots are saved with their titles and legends, and nothing of the page is needed to read them.
  for (const figure of document.querySelectorAll(".plot")) {
    check(`buttons of ${figure.id}`, figure.querySelectorAll(".save:not([hidden]) button").length === 2);
    const saved = new DOMParser().parseFromString(picture(figure).text, "image/svg+xml");
    const words = [...saved.querySelectorAll("text")].map((element) => element.textContent);
    const names = [...figure.querySelectorAll(".legend li[data-name]")].map((entry) => entry.dataset.name);
    check(`picture of ${figure.id}`, !saved.querySelector("parsererror") && !saved.querySelector("[class], [style]")
      && [figure.querySelector("h3").textContent, ...names].every((name) => words.includes(name)));
    await save(figure, "png");
  }
  // Curves that coincide differ in width, and a name that is pointed at makes its own stand out.
  for (const figure of document.querySelectorAll(".plot")) {
    const curves = [...figure.querySelectorAll("path[data-points]:not(.faint)")];
    const widths = new Set(curves.map((curve) => getComputedStyle(curve).strokeWidth));
    check(`widths in ${figure.id}`, curves.length < 2 || widths.size > 1);
    const entry = figure.querySelector(".legend li[data-name]");
    entry.dispatchEvent(new PointerEvent("pointerenter"));
    check(`one stands out in ${figure.id}`, figure.querySelectorAll(".lit").length >= 1);
    entry.dispatchEvent(new PointerEvent("pointerleave"));
  }
  // No column of the methods is lost: a desktop shows all, a phone says that there are more.
  const methods = document.querySelector("[data-name=methods]").parentElement;
  const isWhole = methods.scrollWidth <= methods.clientWidth + 1;
  check("columns of the methods", isWhole || (window.innerWidth < 1000 && methods.closest(".more.right")));
  // Drawings unpack.
  const drawings = [...document.querySelectorAll("details.drawing")];
  for (const details of drawings) details.open = true;
  for (let tries = 0; tries < 100 && document.querySelector("[data-svg]"); tries += 1) await wait(20);
  await wait(200);
  for (const details of drawings) {
    const pictures = [...details.querySelectorAll(".picture")];
    check("drawings of an instance", pictures.length >= 1 && pictures.every((picture) => picture.querySelector("svg")));
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  check("names are unique", new Set(ids).size === ids.length);
  // Nothing is wider than the window but what scrolls by itself.
  const wide = [...document.querySelectorAll("body *")].filter((element) => !element.parentElement.closest(".scroll, svg")
    && element.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
  const named = wide.map((element) => `${element.tagName}.${element.className}`).slice(0, 3).join(", ");
  check(`no sideways scrolling: ${named}`, document.documentElement.scrollWidth <= window.innerWidth + 1);
  // Everything that can be operated is reached by the keyboard and has a name.
  for (const element of document.querySelectorAll("button, a, summary, [tabindex='0']")) {
    check("names of controls", (element.textContent || element.getAttribute("aria-label") || "").trim().length > 0);
  }
  // Text stands out by the ratio that WCAG 2.1 asks for.
  const luminance = (color) => {
    const [r, g, b] = color.match(/[\d.]+/g).map(Number).map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = luminance(getComputedStyle(document.body).backgroundColor);
  for (const element of document.querySelectorAll("p, td, th, a, h1, h2, h3, summary, figcaption, li")) {
    const front = luminance(getComputedStyle(element).color);
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (!element.closest(".picture")) check(`contrast of ${element.tagName}`, ratio >= 4.5);
  }
  const outcome = document.createElement("pre");
  outcome.id = "outcome";
  const look = `${window.innerWidth} pixels ${matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"}`;
  outcome.textContent = wrong.length === 0
    ? `fine: ${look}, ${document.querySelectorAll("table").length} tables, ${document.querySelectorAll(".plot").length} plots, ${drawings.length} drawings`
    : `wrong: ${[...new Set(wrong)].join("; ")}`;
  document.body.append(outcome);
  parent.postMessage(outcome.textContent, "*");
})();
