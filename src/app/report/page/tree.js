// The plan's data, as src/report/page/data.rs writes it, and its layers and groups as a tree.
const plan = JSON.parse(document.getElementById("data").textContent);
const stageOf = new Map(plan.stages.map((stage) => [stage.index, stage]));

// Every layer and group, parents before children. The root is never drawn.
const nodes = [];
// Of every layer, by its place.
const leaves = [];

function grow(member, parent) {
  const node = {
    at: nodes.length, parent, depth: parent ? parent.depth + 1 : 0, members: null, layer: null, isOpen: false, layers: 1,
    forward: 0, backward: 0, parameters: 0, stash: 0, resident: 0, stage: 0, other: 0, isBackward: false,
  };
  nodes.push(node);
  if (typeof member === "number") {
    const layer = plan.layers[member];
    Object.assign(node, {
      layer, name: layer.id, forward: layer.forward_ms ?? 0, backward: layer.backward_ms ?? 0, parameters: layer.parameter_bytes,
      stash: layer.stash_bytes, resident: layer.resident_bytes, stage: layer.stage ?? 0, other: layer.backward_stage ?? 0,
      isBackward: Boolean(layer.backward), first: member, last: member,
    });
    leaves[member] = node;
  } else {
    node.name = member.name;
    node.prefix = member.prefix;
    node.members = member.members.map((inner) => grow(inner, node));
    node.layers = 0;
    for (const inner of node.members) {
      for (const sum of ["layers", "forward", "backward", "parameters", "stash", "resident"]) node[sum] += inner[sum];
    }
    const stages = new Set(node.members.map((inner) => inner.stage));
    node.stage = stages.size === 1 ? node.members[0].stage : 0;
    node.isBackward = node.members.every((inner) => inner.isBackward);
    node.first = node.members[0].first;
    node.last = node.members.at(-1).last;
  }
  node.label = labelOf(node);
  return node;
}

// A name without the beginning that its group has already said.
function labelOf(node) {
  const groups = [];
  for (let group = node.parent; group; group = group.parent) groups.push(group);
  const said = groups.map((group) => group.prefix ?? "").find((prefix) => prefix && node.name.startsWith(prefix) && node.name.length > prefix.length);
  return said ? node.name.slice(said.length) : node.name;
}

// Layers that are in no group at the top still need a box to lie in.
const isGrid = plan.groups.every((member) => typeof member !== "number") && (plan.staged || plan.groups.length > 1);
const root = grow({ name: "", prefix: "", members: isGrid ? plan.groups : [{ name: "all layers", prefix: "", members: plan.groups }] }, null);
// Names of a group are known before those of what lies in it only now.
for (const node of nodes) node.label = labelOf(node);
root.isOpen = true;

const isStage = (node) => plan.staged && node.parent === root;

function* visible(node = root) {
  for (const inner of node.members) {
    yield inner;
    if (inner.isOpen) yield* visible(inner);
  }
}

const drawnNow = () => [...visible()].filter((node) => !node.isOpen).length;

// Opens level by level, as long as so many boxes stay readable; stages are open unless there are very many.
function openFirst() {
  const mostOfStages = 160, most = 64;
  let level = root.members;
  for (let depth = 0; level.length > 0; depth += 1) {
    const groups = level.filter((node) => node.members);
    groups.forEach((node) => { node.isOpen = true; });
    if (drawnNow() > (depth === 0 ? mostOfStages : most)) {
      groups.forEach((node) => { node.isOpen = false; });
      return;
    }
    level = groups.flatMap((node) => node.members);
  }
}

function openAll() {
  for (const node of nodes) node.isOpen = node.members !== null;
}

function closeAll() {
  for (const node of nodes) node.isOpen = node === root || (node.parent === root && plan.stages.length <= 16);
}

// What a node stands in, outermost first.
function around(node) {
  const groups = [];
  for (let group = node.parent; group && group !== root; group = group.parent) groups.unshift(group);
  return groups;
}

// Numbers as people read them, as in the reports of the program.
const ms = (value) => value.toFixed(plan.digits);

function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
  let unit = 0;
  for (; value >= 999.5 && unit + 1 < units.length; unit += 1) value /= 1000;
  const digits = unit === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

const counted = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
const escaped = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

// Words as wide as they are drawn, and as much of them as there is room for: names differ at either end.
const pen = document.createElement("canvas").getContext("2d");
const FONT = "12px system-ui, 'DejaVu Sans', sans-serif";
function widthOf(text, bold = false) {
  pen.font = bold ? `600 ${FONT}` : FONT;
  return pen.measureText(text).width;
}

function shortened(text, most) {
  if (widthOf(text) <= most) return text;
  const letters = [...text];
  let [low, high] = [0, letters.length];
  const cut = (kept) => `${letters.slice(0, Math.ceil(kept / 2)).join("")}…${letters.slice(letters.length - Math.floor(kept / 2)).join("")}`;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (widthOf(cut(middle)) <= most) low = middle; else high = middle - 1;
  }
  return cut(low);
}
