// Where everything goes in an open group: its members on ranks from top to bottom, and the lines between them. Groups are boxes in
// boxes: each is laid out on its own, from the innermost on, and lines enter at its top and leave at its foot.

const BOX_HEIGHT = 36, LEAST_BOX = 76, MOST_LABEL = 168, PAD = 10, TITLE = 24, STAGE_TITLE = 36, GAP = 14, RANK_GAP = 18;

// The lines that are drawn now: of every group, by the box that they come from, what they come from and go to inside that group. `null`
// is the group's own edge. Tensors of one box are one line, however many boxes read them.
function connect() {
  const shown = new Array(leaves.length);
  for (const node of visible()) {
    node.links = new Map();
    if (!node.isOpen) for (let at = node.first; at <= node.last; at += 1) shown[at] = node;
  }
  root.links = new Map();
  const link = (group, source, from, to, crosses) => {
    let own = group.links.get(source);
    if (!own) group.links.set(source, own = { from, to: new Map() });
    own.to.set(to, crosses || own.to.get(to) === true);
  };
  const fans = new Map();
  for (const tensor of plan.tensors) {
    const source = shown[tensor.from];
    for (const consumer of tensor.to) {
      const target = shown[consumer];
      if (target === source) continue;
      if (!fans.has(source)) fans.set(source, new Set());
      fans.get(source).add(target);
    }
  }
  for (const [source, targets] of fans) {
    for (const target of targets) {
      const crosses = source.stage !== target.stage;
      let [a, b] = [source, target];
      const leave = () => { link(a.parent, source, a, null, crosses); a = a.parent; };
      const enter = () => { link(b.parent, source, null, b, crosses); b = b.parent; };
      while (a.depth > b.depth) leave();
      while (b.depth > a.depth) enter();
      while (a.parent !== b.parent) { leave(); enter(); }
      link(a.parent, source, a, b, crosses);
    }
  }
  return fans;
}

// The size of a box that shows no inside.
function measure(node) {
  const label = shortened(node.label, MOST_LABEL);
  const second = node.members ? `${counted(node.layers, "layer")} · ${timeOf(node)}` : timeOf(node);
  node.words = [label, second];
  node.width = Math.max(LEAST_BOX, widthOf(label, node.members !== null) + 18, widthOf(second) * 0.85 + 18);
  node.height = BOX_HEIGHT;
}

function timeOf(node) {
  if (node.layer && node.layer.forward_ms === undefined) return "cannot run";
  return `${ms(node.forward + node.backward)} ms`;
}

function layOutAll() {
  const fans = connect();
  const inside = (node) => {
    if (!node.isOpen) return measure(node);
    node.members.forEach(inside);
    if (node !== root) layOut(node);
  };
  inside(root);
  return fans;
}

// Vertices of a group: its members, ends of lines at its own edge, and bends where a line passes a rank.
function layOut(group) {
  const vertex = (node, rank, width, height) => ({ node, rank, width, height, above: [], below: [], x: 0 });
  const of = new Map(group.members.map((node) => [node, vertex(node, 1, node.width, node.height)]));
  rankMembers(group, of);
  const last = Math.max(...[...of.values()].map((own) => own.rank));
  const all = [...of.values()];
  const added = (rank) => { const own = vertex(null, rank, 2, 0); all.push(own); return own; };
  const lines = [];
  group.inward = new Map();
  group.outward = new Map();
  for (const [source, { from, to }] of group.links) {
    const start = from ? of.get(from) : added(0);
    if (!from) group.inward.set(source, start);
    const ends = [...to].map(([node, crosses]) => {
      const end = node ? of.get(node) : added(last + 1);
      if (!node) group.outward.set(source, end);
      return { end, crosses, port: node?.isOpen ? node.ports.inward.get(source) : 0 };
    });
    const port = from?.isOpen ? from.ports.outward.get(source) : 0;
    lines.push({ source, pieces: trunk(start, port, ends, added) });
  }
  const ranks = Array.from({ length: last + 2 }, () => []);
  for (const own of all) ranks[own.rank].push(own);
  withFewCrossings(ranks);
  place(ranks, GAP);
  settleGroup(group, ranks, lines);
}

// Longest paths downwards; then what only feeds others, such as a constant, sinks to its readers.
function rankMembers(group, of) {
  // An open group feeds others with several of its boxes.
  const readers = new Map(group.members.map((node) => [node, []]));
  const isFed = new Set();
  for (const { from, to } of group.links.values()) {
    for (const reader of to.keys()) {
      isFed.add(reader);
      if (from && reader) readers.get(from).push(reader);
    }
  }
  for (const node of group.members) {
    for (const reader of readers.get(node)) of.get(reader).rank = Math.max(of.get(reader).rank, of.get(node).rank + 1);
  }
  for (const node of [...group.members].reverse()) {
    const below = readers.get(node);
    if (below.length > 0 && !isFed.has(node)) of.get(node).rank = Math.min(...below.map((reader) => of.get(reader).rank)) - 1;
  }
}

// The pieces of a line from rank to rank; all readers share its bends.
function trunk(start, port, ends, added) {
  const lowest = Math.max(...ends.map(({ end }) => end.rank));
  const way = [start];
  for (let rank = start.rank + 1; rank < lowest; rank += 1) way.push(added(rank));
  const pieces = [];
  const join = (upper, here, lower, there, crosses) => {
    const isWay = !upper.node && !lower.node;
    const isChain = upper.node && lower.node && ends.length === 1;
    const strength = isWay ? 8 : isChain ? 4 : 1;
    upper.below.push({ other: lower, here, there, strength });
    lower.above.push({ other: upper, here: there, there: here, strength });
    pieces.push({ upper, here, lower, there, crosses });
  };
  for (let at = 1; at < way.length; at += 1) {
    const rank = start.rank + at;
    join(way[at - 1], at === 1 ? port : 0, way[at], 0, ends.some(({ end, crosses }) => crosses && end.rank > rank));
  }
  for (const { end, crosses, port: there } of ends) {
    const from = end.rank - start.rank - 1;
    join(way[from], from === 0 ? port : 0, end, there, crosses);
  }
  return pieces;
}

// Coordinates inside the group: ranks below each other, its title above them.
function settleGroup(group, ranks, lines) {
  const title = isStage(group) ? STAGE_TITLE : TITLE;
  const edges = ranks.flat();
  const left = Math.min(...edges.map((own) => own.x - own.width / 2));
  const right = Math.max(...edges.map((own) => own.x + own.width / 2));
  // Titles of stages are written larger, and larger still from afar.
  const least = widthOf(titleOf(group), true) * (isStage(group) ? 1.5 : 1) + 34;
  const spare = Math.max(0, least - (right - left + 2 * PAD));
  group.width = right - left + 2 * PAD + spare;
  // Lines that come in pass behind the title and part below it.
  const tops = [0], feet = [title];
  let y = title + (group.inward.size > 0 ? PAD : 0);
  for (let rank = 1; rank + 1 < ranks.length; rank += 1) {
    tops.push(y);
    y += Math.max(...ranks[rank].map((own) => own.height), 0);
    feet.push(y);
    y += RANK_GAP;
  }
  group.height = y - RANK_GAP + PAD;
  tops.push(group.height);
  feet.push(group.height);
  for (const own of edges) {
    own.x += PAD + spare / 2 - left;
    own.top = tops[own.rank] + (own.node ? (feet[own.rank] - tops[own.rank] - own.height) / 2 : 0);
    own.foot = own.node ? own.top + own.height : tops[own.rank];
    if (own.node) [own.node.x, own.node.y] = [own.x - own.width / 2, own.top];
  }
  const port = (own) => own.x - group.width / 2;
  group.ports = {
    inward: new Map([...group.inward].map(([source, own]) => [source, port(own)])),
    outward: new Map([...group.outward].map(([source, own]) => [source, port(own)])),
  };
  group.lines = lines.map(({ source, pieces }) => ({
    source,
    light: pieces.filter((piece) => !piece.crosses).map((piece) => curve(piece, feet, tops)).join(""),
    heavy: pieces.filter((piece) => piece.crosses).map((piece) => curve(piece, feet, tops)).join(""),
  }));
}

// From the foot of a vertex to the top of one on the next rank.
function curve({ upper, here, lower, there }, feet, tops) {
  const [x, y, foot] = [upper.x + here, upper.foot, feet[upper.rank]];
  const [nextX, nextY, top] = [lower.x + there, lower.top, tops[lower.rank]];
  const end = lower.node ? nextY : top;
  const middle = (foot + top) / 2;
  const f = (value) => value.toFixed(1);
  if (Math.abs(x - nextX) < 0.5) return `M${f(x)} ${f(y)}V${f(end)}`;
  return `M${f(x)} ${f(y)}V${f(foot)}C${f(x)} ${f(middle)} ${f(nextX)} ${f(middle)} ${f(nextX)} ${f(top)}V${f(end)}`;
}

function titleOf(group) {
  const stage = isStage(group) && stageOf.get(group.stage);
  if (!stage) return `${group.label} · ${timeOf(group)}`;
  return `${group.name[0].toUpperCase()}${group.name.slice(1)} · ${ms(stage.load_ms)} ms`;
}
