// What the reader does with the drawing: open and close groups, point, go from box to box, find.

const about = document.getElementById("about");
const search = document.getElementById("search");
const found = document.getElementById("found");
let columns = 1;
let current = null;

// Draws anew; `still` is a box that stays where it is on the screen.
function redraw(still) {
  const before = still && still.X !== undefined ? { x: still.X, y: still.Y } : null;
  draw(columns);
  if (before) pan((before.x - still.X) * seen.scale, (before.y - still.Y) * seen.scale);
  if (current) focusOn(current, false);
}

function redrawAll() {
  layOutAll();
  const { width } = room();
  const tallest = Math.min(Math.max(innerHeight * 0.74, 420), 840);
  // A narrow window is read downwards.
  columns = width < 600 ? 1 : columnsFor(width - 16, tallest - 16);
  redraw();
  const needed = root.height * Math.min(1.25, (width - 16) / root.width) + 16;
  canvas.style.height = `${Math.round(Math.min(tallest, Math.max(needed, 300)))}px`;
  fitFirst();
  if (!current) aboutNothing();
}

function toggle(node) {
  node.isOpen = !node.isOpen;
  redraw(node);
}

// The box that keys act on and that the words beside the drawing are about.
function focusOn(node, isNear = true) {
  while (around(node).some((group) => !group.isOpen)) node = around(node).find((group) => !group.isOpen);
  document.querySelector(".node.current")?.classList.remove("current");
  current = node;
  elementOf(node).classList.add("current");
  canvas.setAttribute("aria-activedescendant", `n${node.at}`);
  if (isNear) reveal(node);
  tell(node);
}

function openTo(node) {
  around(node).forEach((group) => { group.isOpen = true; });
  redraw(current ?? undefined);
  focusOn(node, false);
  reveal(node, true);
}

// Lines of what is under the pointer stand out.
function mark(node) {
  document.querySelectorAll(".lines .on, .node.near").forEach((element) => element.classList.remove("on", "near"));
  if (!node || node.isOpen) return;
  const sources = [...(producersOf.get(node) ?? []), node];
  for (const source of sources) {
    document.querySelectorAll(`.lines [data-from="${source.at}"]`).forEach((line) => line.classList.add("on"));
  }
  for (const other of [...sources, ...(readersOf.get(node) ?? [])]) elementOf(other)?.classList.add("near");
}

function tell(node) {
  mark(node);
  const rows = isStage(node) ? aboutStage(node) : node.members ? aboutGroup(node) : aboutLayer(node);
  const way = around(node).map((group) => `<button type="button" data-close="${group.at}" title="Close this group">${escaped(group.label)}</button>`);
  const list = rows.filter(([, value]) => value).map(([label, value]) => `<dt>${label}</dt><dd>${escaped(value)}</dd>`);
  const action = node.members ? `<button type="button" data-toggle="${node.at}">${node.isOpen ? "Close" : "Open"}</button>` : "";
  about.innerHTML = `<h3>${escaped(node.name)}</h3>${way.length ? `<p class="way">in ${way.join(" ")}</p>` : ""}<dl>${list.join("")}</dl>${action}`;
}

function aboutNothing() {
  const stages = plan.staged ? ` in ${counted(plan.stages.length, "stage")}` : "";
  const slowest = [...leaves].sort((a, b) => b.forward + b.backward - a.forward - a.backward).slice(0, 3);
  const costs = slowest.map((node) => `<li><button type="button" data-go="${node.at}">${escaped(node.name)}</button> ${timeOf(node)}</li>`);
  about.innerHTML = `<h3>${counted(leaves.length, "layer")}${stages}</h3><p>Point at a box for its times, bytes, stage and device.</p>`
    + `<p>The layers that take longest:</p><ol>${costs.join("")}</ol>`;
}

function sizes(node) {
  return [
    ["Parameters", node.parameters > 0 && bytes(node.parameters)], ["Stash", node.stash > 0 && bytes(node.stash)],
    ["Resident", node.resident > 0 && bytes(node.resident)],
  ];
}

function where(node) {
  if (node.other) return `${node.stage} forward, ${node.other} backward`;
  const stage = stageOf.get(node.stage);
  return stage ? `${stage.index} on ${stage.devices}` : "";
}

function aboutLayer(node) {
  const { layer, first } = node;
  const runs = layer.forward_ms !== undefined;
  const moved = plan.tensors.filter((tensor) => tensor.from === first);
  const to = [...new Set(moved.flatMap((tensor) => tensor.to))].map((at) => plan.layers[at].id);
  const size = moved.map((tensor) => `${tensor.bytes === undefined ? "" : `${bytes(tensor.bytes)}, `}${ms(tensor.ms)} ms to move`);
  return [
    ["Operator", layer.operator], ["Stage", where(node)],
    ["Forward", runs ? `${ms(node.forward)} ms on ${layer.kind}` : `cannot run on ${layer.kind}`],
    ["Backward", runs && `${ms(node.backward)} ms`], ["Recomputed", layer.recompute], ...sizes(node),
    ["Output", [...new Set(size)].join("; ")],
    ["Read by", to.length > 4 ? `${to.slice(0, 4).join(", ")} and ${to.length - 4} more` : to.join(", ")],
  ];
}

function aboutGroup(node) {
  const operators = new Map();
  for (let at = node.first; at <= node.last; at += 1) {
    const name = (plan.layers[at].operator ?? "").split("(")[0];
    if (name) operators.set(name, (operators.get(name) ?? 0) + 1);
  }
  const most = [...operators].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([name, n]) => `${n} ${name}`);
  return [
    ["Layers", `${node.layers}${most.length ? `: ${most.join(", ")}${operators.size > 4 ? ", …" : ""}` : ""}`], ["Stage", where(node)],
    ["Forward", `${ms(node.forward)} ms`], ["Backward", `${ms(node.backward)} ms`], ...sizes(node),
  ];
}

function aboutStage(node) {
  const stage = stageOf.get(node.stage);
  return [
    ["Device", stage.devices], ["Layers", String(node.layers)], ["Load", `${ms(stage.load_ms)} ms`], ["Forward", `${ms(stage.forward_ms)} ms`],
    ["Backward", `${ms(stage.backward_ms)} ms`], ["Transfers", `${ms(stage.communication_ms)} ms`], ["Memory", bytes(stage.memory_bytes)],
  ];
}

// The pointer: moving tells, a click on a group or on the title of an open one opens or closes it.
canvas.addEventListener("pointerover", (event) => {
  const node = nodeOf(event.target);
  if (pointers.size > 0 || event.pointerType === "touch" || !node) return;
  // The inside of a stage says nothing new while some box is being looked at.
  if (!node.isOpen || event.target.closest(".title")) tell(node);
});
canvas.addEventListener("pointerleave", () => { if (current) tell(current); else { mark(null); aboutNothing(); } });
canvas.addEventListener("click", (event) => {
  canvas.focus({ preventScroll: true });
  if (moved > 4) return;
  const node = nodeOf(event.target);
  if (!node || (node.isOpen && !event.target.closest(".title"))) return;
  focusOn(node, false);
  if (node.members) toggle(node);
});

// Keys, as in any tree of items.
canvas.addEventListener("focus", () => { if (!current) focusOn(root.members[0], false); });
canvas.addEventListener("keydown", (event) => {
  const step = 80;
  const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
  const isArrow = event.key in moves;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isArrow && event.shiftKey) pan(...moves[event.key]);
  else if (event.key === "+" || event.key === "=") zoom(1.25);
  else if (event.key === "-" || event.key === "_") zoom(0.8);
  else if (event.key === "0") fit();
  else if (!walk(event.key)) return;
  event.preventDefault();
});

function walk(key) {
  const order = [...visible()];
  const at = order.indexOf(current);
  const go = (node) => { if (node) focusOn(node); };
  if (key === "ArrowDown") go(order[Math.min(at + 1, order.length - 1)]);
  else if (key === "ArrowUp") go(order[Math.max(at - 1, 0)]);
  else if (key === "Home") go(order[0]);
  else if (key === "End") go(order.at(-1));
  else if (key === "ArrowRight") { if (current.members && !current.isOpen) toggle(current); else if (current.isOpen) go(current.members[0]); }
  else if (key === "ArrowLeft") { if (current.isOpen) toggle(current); else if (current.parent !== root) go(current.parent); }
  else if (key === "Enter" || key === " ") { if (current.members) toggle(current); }
  else return false;
  return true;
}

about.addEventListener("click", (event) => {
  const { close, toggle: other, go } = event.target.dataset;
  if (go !== undefined) openTo(nodes[Number(go)]);
  if (close === undefined && other === undefined) return;
  const node = nodes[Number(close ?? other)];
  if (close !== undefined) {
    node.isOpen = false;
    current = node;
    redraw(node);
  } else {
    toggle(node);
  }
  focusOn(node);
});

// Finding: names that contain the words, those that begin with them first.
let hits = [];
function find() {
  const words = search.value.trim().toLowerCase();
  const named = words ? nodes.filter((node) => node.parent && node.name.toLowerCase().includes(words)) : [];
  const starts = (node) => Number(!node.name.toLowerCase().startsWith(words));
  hits = named.sort((a, b) => starts(a) - starts(b) || a.name.length - b.name.length || a.at - b.at);
  const most = 8;
  const rest = hits.length - most;
  hits = hits.slice(0, most);
  const item = (node, at) => `<li role="option" id="f${at}" aria-selected="${at === 0}">${escaped(node.name)}${node.members ? ` <i>${counted(node.layers, "layer")}</i>` : ""}</li>`;
  const more = rest > 0 ? `<li class="rest">and ${rest} more</li>` : "";
  found.innerHTML = words ? hits.map(item).join("") + more || '<li class="rest">nothing of that name</li>' : "";
  found.hidden = !words;
  search.setAttribute("aria-expanded", String(!found.hidden));
  choose(0);
}
let chosen = 0;
function choose(at) {
  chosen = Math.max(0, Math.min(at, hits.length - 1));
  [...found.querySelectorAll("[role=option]")].forEach((item, i) => item.setAttribute("aria-selected", String(i === chosen)));
  if (hits.length > 0) search.setAttribute("aria-activedescendant", `f${chosen}`); else search.removeAttribute("aria-activedescendant");
}
function take(node) {
  found.hidden = true;
  search.setAttribute("aria-expanded", "false");
  if (node) openTo(node);
}
search.addEventListener("input", find);
search.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen - 1);
  else if (event.key === "Enter") take(hits[chosen]);
  else if (event.key === "Escape") take(null);
  else return;
  event.preventDefault();
});
search.addEventListener("blur", () => setTimeout(() => take(null), 150));
found.addEventListener("pointerdown", (event) => {
  event.preventDefault();
  const item = event.target.closest("[role=option]");
  if (item) take(hits[Number(item.id.slice(1))]);
});

// Buttons, and stages by name in the table.
const press = (name, does) => document.getElementById(name).addEventListener("click", does);
press("in", () => zoom(1.25));
press("out", () => zoom(0.8));
press("fit", fit);
press("expand", () => { openAll(); redrawAll(); });
press("collapse", () => { closeAll(); redrawAll(); });
for (const button of document.querySelectorAll("button.stage")) {
  button.addEventListener("click", () => {
    const node = root.members.find((group) => isStage(group) && group.stage === Number(button.dataset.stage));
    if (!node) return;
    canvas.scrollIntoView({ block: "nearest" });
    focusOn(node, false);
    reveal(node);
  });
}

// The timeline tells what lies under the pointer.
const line = document.getElementById("event");
const said = line?.textContent;
document.querySelector(".lanes")?.addEventListener("pointerover", (event) => {
  line.textContent = event.target.closest("g, rect")?.querySelector(":scope > title")?.textContent ?? said;
});

// The page is painted before the picture is laid out.
requestAnimationFrame(() => setTimeout(() => {
  for (const hidden of document.querySelectorAll("#network > [hidden]")) hidden.hidden = false;
  openFirst();
  redrawAll();
  let width = room().width;
  new ResizeObserver(() => {
    if (room().width === width) return;
    width = room().width;
    redrawAll();
  }).observe(canvas);
  document.documentElement.dataset.ready = "true";
}));
