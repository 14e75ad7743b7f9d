// Tables: a heading's button sorts its column; numbers by value, the rest by text.
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    heading.firstElementChild.addEventListener("click", () => {
      const body = table.tBodies[0];
      const rows = [...body.rows];
      const isNumber = rows.some((row) => row.cells[column].dataset.v !== undefined);
      const down = heading.getAttribute("aria-sort") === "ascending";
      const key = (row) => {
        const cell = row.cells[column];
        if (!isNumber) return cell.textContent;
        return cell.dataset.v === undefined ? NaN : Number(cell.dataset.v);
      };
      const sign = down ? -1 : 1;
      rows.sort((a, b) => {
        const x = key(a), y = key(b);
        if (!isNumber) return sign * x.localeCompare(y, "en", { numeric: true });
        // What does not apply stays at the end.
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return sign * (x - y);
      });
      body.append(...rows);
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}

// Plots: the pointer, or the arrow keys, move a line; the legend shows the values of all curves there.
for (const figure of document.querySelectorAll(".plot")) {
  const svg = figure.querySelector("svg");
  const [left, top, right, bottom] = svg.dataset.frame.split(" ").map(Number);
  const [from, to, logarithmic] = svg.dataset.x.split(" ").map(Number);
  const [partX, partY] = svg.dataset.part.split(" ").map(Number);
  const [titleX] = svg.dataset.titles.split("|");
  const cursor = svg.querySelector(".cursor");
  const where = figure.querySelector(".at");
  const curves = [...svg.querySelectorAll("path[data-points]")].map((path) => ({
    name: path.dataset.name,
    faint: path.classList.contains("faint"),
    steps: path.dataset.steps === "1",
    points: path.dataset.points.split(";").filter(Boolean).map((pair) => pair.split(" ").map(Number)),
  }));
  const text = (value, part) => (part ? `${(100 * value).toPrecision(3)} %` : `${Number(value.toPrecision(4))}`);
  let at = 0;
  const at_x = (place) => (logarithmic ? from * (to / from) ** place : from + (to - from) * place);
  const show = (place) => {
    at = Math.min(1, Math.max(0, place));
    const x = at_x(at);
    const pixel = left + (right - left) * at;
    for (const [name, value] of [["x1", pixel], ["x2", pixel], ["y1", top], ["y2", bottom]]) cursor.setAttribute(name, value);
    cursor.removeAttribute("hidden");
    where.textContent = `${titleX} ${text(x, partX)}`;
    for (const entry of figure.querySelectorAll("[data-name] > .value")) {
      const own = curves.filter((curve) => curve.name === entry.parentElement.dataset.name);
      own.sort((a, b) => a.faint - b.faint);
      const values = own.map((curve) => (curve.steps ? before(curve.points, x) : nearest(curve.points, x)));
      const words = values.filter((value) => value !== undefined).map((value) => text(value, partY));
      entry.textContent = [...new Set(words)].join(" to ");
    }
  };
  const before = (points, x) => {
    let value = 0;
    for (const point of points) {
      if (point[0] > x * (1 + 1e-9)) break;
      value = point[1];
    }
    return value;
  };
  const nearest = (points, x) => {
    let best;
    for (const point of points) {
      if (best === undefined || Math.abs(point[0] - x) < Math.abs(best[0] - x)) best = point;
    }
    return best && best[1];
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const pixel = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    show((pixel - left) / (right - left));
  });
  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: at - 0.02, ArrowRight: at + 0.02, Home: 0, End: 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key]);
  });
}

// A curve whose name is pointed at stands out; where curves coincide it is drawn last.
for (const figure of document.querySelectorAll(".plot")) {
  const svg = figure.querySelector("svg");
  const choose = (name) => {
    svg.classList.toggle("chosen", name !== null);
    for (const path of svg.querySelectorAll("path[data-points]")) path.classList.toggle("lit", path.dataset.name === name);
  };
  for (const entry of figure.querySelectorAll(".legend li[data-name]")) {
    for (const kind of ["pointerenter", "focus"]) entry.addEventListener(kind, () => choose(entry.dataset.name));
    for (const kind of ["pointerleave", "blur"]) entry.addEventListener(kind, () => choose(null));
  }
}

// Plots as files: styles become attributes, and the legend and the title go into the picture.
function picture(figure) {
  const svg = figure.querySelector("svg");
  const copy = svg.cloneNode(true);
  const own = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, at) => {
    const style = getComputedStyle(own[at]);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size"]) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["style", "tabindex", "class", ...Object.keys(element.dataset).map((key) => `data-${key}`)]) element.removeAttribute(name);
  });
  copy.querySelector("line[hidden]")?.remove();
  const space = "http://www.w3.org/2000/svg";
  const { width, height } = svg.viewBox.baseVal;
  const ink = getComputedStyle(document.body);
  const entries = [...figure.querySelectorAll(".legend li[data-name]")];
  const columns = 3, line = 20, top = 30;
  const whole = top + height + Math.ceil(entries.length / columns) * line + 12;
  const add = (name, attributes, text = "") => {
    const element = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    copy.append(element);
    return element;
  };
  const inner = document.createElementNS(space, "g");
  inner.setAttribute("transform", `translate(0 ${top})`);
  inner.append(...copy.childNodes);
  add("rect", { width, height: whole, fill: ink.backgroundColor });
  copy.append(inner);
  add("text", { x: 12, y: 20, fill: ink.color, "font-size": 15, "font-weight": 600 }, figure.querySelector("h3").textContent);
  entries.forEach((entry, at) => {
    const [x, y] = [20 + (at % columns) * (width / columns - 6), top + height + Math.floor(at / columns) * line + 8];
    const style = getComputedStyle(entry.querySelector("path"));
    add("path", { d: `M${x} ${y}h26`, stroke: style.stroke, "stroke-width": 2, "stroke-dasharray": style.strokeDasharray });
    add("text", { x: x + 32, y: y + 4, fill: ink.color, "font-size": 12 }, entry.dataset.name);
  });
  for (const [key, value] of Object.entries({ xmlns: space, viewBox: `0 0 ${width} ${whole}`, width, height: whole, "font-family": "system-ui, 'DejaVu Sans', sans-serif" })) copy.setAttribute(key, value);
  return { text: new XMLSerializer().serializeToString(copy), width, height: whole };
}

async function save(figure, kind) {
  const { text, width, height } = picture(figure);
  let blob = new Blob([text], { type: "image/svg+xml" });
  if (kind === "png") {
    const image = new Image();
    image.setAttribute("src", `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`);
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    blob = await new Promise((done) => { canvas.toBlob(done, "image/png"); });
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${figure.id}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

for (const button of document.querySelectorAll("[data-save]")) {
  button.parentElement.hidden = false;
  button.addEventListener("click", () => save(button.closest(".plot"), button.dataset.save));
}

// Drawings: unpacked when they are opened for the first time.
let drawn = 0;
for (const details of document.querySelectorAll("details.drawing")) {
  details.addEventListener("toggle", async () => {
    for (const picture of details.querySelectorAll("[data-svg]")) {
      const bytes = Uint8Array.from(atob(picture.dataset.svg), (letter) => letter.charCodeAt(0));
      picture.removeAttribute("data-svg");
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      const svg = await new Response(stream).text();
      drawn += 1;
      // Drawings name their parts alike; in one page every name must differ.
      const own = svg.replaceAll('id="title"', `id="title${drawn}"`).replaceAll('id="desc"', `id="desc${drawn}"`)
        .replaceAll('aria-labelledby="title desc"', `aria-labelledby="title${drawn} desc${drawn}"`);
      picture.innerHTML = own;
    }
  });
}
