// The picture as SVG: frames of open groups, then lines, then titles of frames and boxes. Everything has its place in the whole, so that
// what is drawn later lies above what is drawn before: no line runs through a title.

const canvas = document.getElementById("canvas");
const view = document.getElementById("view");
// Boxes by what feeds them, and by what they feed: as drawn now.
let readersOf = new Map();
let producersOf = new Map();

const colours = (node) => {
  const stage = stageOf.get(node.stage);
  return stage ? `--fill:${stage.fill};--edge:${stage.line}` : "";
};

// Lays out what is open now, and draws it.
function draw(columns) {
  readersOf = layOutAll();
  producersOf = new Map();
  for (const [source, targets] of readersOf) {
    for (const target of targets) {
      if (!producersOf.has(target)) producersOf.set(target, []);
      producersOf.get(target).push(source);
    }
  }
  arrange(columns);
  root.X = 0;
  root.Y = 0;
  const frames = [], lines = [], titles = [], boxes = [];
  const busiest = Math.max(...nodes.filter((node) => !node.isOpen && node.parent?.isOpen).map((node) => node.forward + node.backward), 0);
  const inside = (group) => {
    lines.push(linesOf(group));
    for (const node of group.members) {
      [node.X, node.Y] = [group.X + node.x, group.Y + node.y];
      if (node.isOpen) {
        frames.push(frame(node));
        titles.push(title(node));
        inside(node);
      } else {
        boxes.push(box(node, busiest));
      }
    }
  };
  inside(root);
  view.innerHTML = `<g>${frames.join("")}</g><g class="lines">${lines.join("")}</g><g>${titles.join("")}</g><g>${boxes.join("")}</g>`;
  fitTitles();
}

function linesOf(group) {
  const path = ({ source, light, heavy }) => {
    const kinds = [["light", light], ["heavy", heavy]].filter(([, d]) => d);
    return kinds.map(([kind, d]) => `<path class="${kind}" data-from="${source.at}" d="${d}"/>`).join("");
  };
  return `<g transform="translate(${group.X.toFixed(1)} ${group.Y.toFixed(1)})">${group.lines.map(path).join("")}</g>`;
}

function start(node, kind) {
  const classes = ["node", kind, isStage(node) ? "stage" : "", node.isBackward ? "backward" : ""].filter(Boolean).join(" ");
  const open = node.members ? ` aria-expanded="${node.isOpen}"` : "";
  return `<g id="n${node.at}" class="${classes}" role="treeitem" aria-level="${node.depth}"${open} aria-label="${escaped(spoken(node))}"`
    + ` style="${colours(node)}" transform="translate(${node.X.toFixed(1)} ${node.Y.toFixed(1)})">`;
}

function spoken(node) {
  const stage = node.stage && !isStage(node) ? `, stage ${node.stage}` : "";
  const layers = node.members ? `, ${counted(node.layers, "layer")}` : "";
  return `${node.name}${layers}${stage}, ${timeOf(node)}`;
}

function frame(node) {
  return `${start(node, "frame")}<rect class="area" width="${node.width.toFixed(1)}" height="${node.height.toFixed(1)}" rx="6"/></g>`;
}

// The band at the top of a frame: what closes the group.
function title(node) {
  const height = isStage(node) ? STAGE_TITLE : TITLE;
  const [name, load] = titleOf(node).split(" · ");
  const words = isStage(node) ? escaped(name) + `<tspan class="load"> · ${escaped(load)}</tspan>`
    : escaped(shortened(titleOf(node), Math.max(node.width - 30, 40)));
  return `<g class="title${isStage(node) ? " stage" : ""}" data-of="${node.at}" aria-hidden="true" style="${colours(node)}"`
    + ` transform="translate(${node.X.toFixed(1)} ${node.Y.toFixed(1)})">`
    + `<rect x="1" y="1" width="${(node.width - 2).toFixed(1)}" height="${height - 2}" rx="5"/><text x="9" y="${height / 2 + 4}"><tspan class="sign">−</tspan> ${words}</text></g>`;
}

// Titles of stages are written larger from afar, as far as their frames are wide: first without the load, then smaller.
function fitTitles() {
  const larger = Math.min(Math.max(1, 0.8 / seen.scale), 3);
  for (const element of view.querySelectorAll(".title.stage")) {
    const node = nodeOf(element);
    const [name] = titleOf(node).split(" · ");
    const room = node.width - 18;
    const size = (words) => widthOf(`− ${words}`, true) * (13 / 12);
    const most = room / size(name);
    element.classList.toggle("short", size(titleOf(node)) * larger > room);
    element.querySelector("text").style.setProperty("--t", Math.min(larger, most).toFixed(3));
  }
}

function box(node, busiest) {
  const [label, second] = node.words;
  const [width, middle] = [node.width, node.width / 2];
  const back = node.members ? `<rect class="under" x="3" y="3" width="${width.toFixed(1)}" height="${BOX_HEIGHT}" rx="5"/>` : "";
  const other = stageOf.get(node.other);
  const half = other
    ? `<rect class="half" x="${middle.toFixed(1)}" width="${middle.toFixed(1)}" height="${BOX_HEIGHT}" rx="5" style="--fill:${other.fill};--edge:${other.line}"/>` : "";
  const part = busiest > 0 ? (width - 8) * ((node.forward + node.backward) / busiest) : 0;
  return `${start(node, node.members ? "group" : "layer")}${back}<rect class="face" width="${width.toFixed(1)}" height="${BOX_HEIGHT}" rx="5"/>${half}`
    + `<text x="${middle.toFixed(1)}" y="14.5">${escaped(label)}</text><text class="time" x="${middle.toFixed(1)}" y="27">${second}</text>`
    + `<rect class="cost" x="4" y="${BOX_HEIGHT - 5}" width="${Math.max(part, 0).toFixed(1)}" height="2.5" rx="1"/></g>`;
}

const elementOf = (node) => document.getElementById(`n${node.at}`);
const nodeOf = (element) => {
  const found = element.closest?.("g.node, g.title");
  return found ? nodes[Number(found.dataset.of ?? found.id.slice(1))] : null;
};
