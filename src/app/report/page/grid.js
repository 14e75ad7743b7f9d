// The groups at the top, stages for most plans: side by side in rows, as fits the window, each read from top to bottom. Lines between
// them run in lanes below and above the rows and left of the columns.

const LANE = 6, ROW_GAP = 26, COLUMN_GAP = 30, MOST_OF_LANES = 96;

// As many columns as show everything at the largest scale.
function columnsFor(width, height) {
  let [best, largest] = [1, 0];
  for (let columns = 1; columns <= root.members.length; columns += 1) {
    const { widths, heights } = extents(columns);
    const sum = (sizes, gap) => sizes.reduce((all, size) => all + size + gap, 0);
    const scale = Math.min(width / sum(widths, COLUMN_GAP), height / sum(heights, ROW_GAP), 1);
    if (scale > largest * 1.02) [best, largest] = [columns, scale];
  }
  return best;
}

function extents(columns) {
  const widths = [], heights = [];
  root.members.forEach((node, at) => {
    const [row, column] = [Math.floor(at / columns), at % columns];
    node.cell = { row, column };
    widths[column] = Math.max(widths[column] ?? 0, node.width);
    heights[row] = Math.max(heights[row] ?? 0, node.height);
  });
  return { widths, heights };
}

// Places the members of the root, and the lines between them.
function arrange(columns) {
  const { widths, heights } = extents(columns);
  const ways = waysOf();
  const lanes = { row: heights.concat(0).map(() => new Map()), column: widths.map(() => new Map()) };
  const take = (lane, source) => { if (!lane.has(source)) lane.set(source, lane.size); };
  for (const { source, from, to } of ways) {
    take(lanes.row[from.cell.row + 1], source);
    for (const [{ cell }] of to) {
      if (cell.row === from.cell.row + 1) continue;
      take(lanes.column[cell.column], source);
      take(lanes.row[cell.row], source);
    }
  }
  const space = (lane, gap) => ({ step: Math.min(LANE, MOST_OF_LANES / Math.max(1, lane.size)), gap });
  const rows = lanes.row.map((lane) => ({ lane, ...space(lane, ROW_GAP) }));
  const gutters = lanes.column.map((lane) => ({ lane, ...space(lane, COLUMN_GAP) }));
  const size = ({ lane, step, gap }) => (lane.size > 0 ? gap + step * lane.size : gap / 2);
  let x = 0;
  const lefts = widths.map((width, column) => {
    gutters[column].from = x;
    const left = x + size(gutters[column]);
    x = left + width;
    return left;
  });
  let y = 0;
  const tops = heights.map((height, row) => {
    rows[row].from = y;
    const top = y + size(rows[row]);
    y = top + height;
    return top;
  });
  rows.at(-1).from = y;
  for (const node of root.members) {
    node.x = lefts[node.cell.column];
    node.y = tops[node.cell.row];
  }
  rows.forEach(({ lane }, row) => partLanes(lane, row, ways));
  root.width = x + COLUMN_GAP / 2;
  root.height = y + size(rows.at(-1));
  const at = ({ lane, step, gap, from }, source) => from + gap / 2 + step * lane.get(source);
  root.lines = ways.map((way) => routed(way, (row, source) => at(rows[row], source), (column, source) => at(gutters[column], source)));
}

// Where a line comes down from a box above the place at which another goes down to a box, the first turns aside in a higher lane: they
// would look like one line otherwise. Lines that stand in each other's way both ways keep their order.
function partLanes(lane, row, ways) {
  const middle = (node, shift) => node.x + node.width / 2 + shift;
  const own = ways.filter(({ source }) => lane.has(source));
  const leaving = own.filter(({ from }) => from.cell.row + 1 === row);
  const arrives = (way) => way.to.flatMap(([node], at) => (node.cell.row === row ? [middle(node, way.into[at])] : []));
  const before = new Map(own.map(({ source }) => [source, new Set()]));
  for (const way of own) {
    const ends = arrives(way);
    for (const other of leaving) {
      const x = middle(other.from, other.out);
      if (other !== way && ends.some((end) => Math.abs(end - x) < LANE)) before.get(way.source).add(other.source);
    }
  }
  const left = [...lane.keys()].sort((a, b) => lane.get(a) - lane.get(b));
  for (let at = 0; left.length > 0; at += 1) {
    const free = left.findIndex((source) => !left.some((other) => other !== source && before.get(source).has(other)));
    lane.set(left.splice(Math.max(free, 0), 1)[0], at);
  }
}

// What leaves furthest to the right takes the first lane everywhere, so that lines beside each other do not cross.
function waysOf() {
  const port = (node, side, source) => (node.isOpen ? node.ports[side].get(source) : 0);
  const ways = [...root.links].map(([source, { from, to }]) => ({ source, from, to: [...to], out: port(from, "outward", source) }));
  ways.sort((a, b) => b.from.cell.column - a.from.cell.column || b.out - a.out);
  const arrivals = new Map();
  for (const way of ways) {
    way.into = way.to.map(([node]) => {
      if (node.isOpen) return node.ports.inward.get(way.source);
      const before = arrivals.get(node) ?? 0;
      arrivals.set(node, before + 1);
      return Math.min(before * LANE, node.width / 2 - 8);
    });
  }
  return ways;
}

function routed({ source, from, to, out, into }, rowAt, columnAt) {
  const drawn = { source, light: "", heavy: "" };
  const x = from.x + from.width / 2 + out;
  const lane = rowAt(from.cell.row + 1, source);
  to.forEach(([node, crosses], at) => {
    const end = node.x + node.width / 2 + into[at];
    const points = [[x, from.y + from.height], [x, lane]];
    if (node.cell.row === from.cell.row + 1) {
      points.push([end, lane]);
    } else {
      const [gutter, above] = [columnAt(node.cell.column, source), rowAt(node.cell.row, source)];
      points.push([gutter, lane], [gutter, above], [end, above]);
    }
    points.push([end, node.y]);
    drawn[crosses ? "heavy" : "light"] += rounded(points);
  });
  return drawn;
}

// A line through points, with round corners.
function rounded(points) {
  const f = (value) => value.toFixed(1);
  const radius = 5;
  let path = `M${f(points[0][0])} ${f(points[0][1])}`;
  for (let at = 1; at + 1 < points.length; at += 1) {
    const [before, corner, after] = [points[at - 1], points[at], points[at + 1]];
    const towards = (to) => {
      const length = Math.hypot(to[0] - corner[0], to[1] - corner[1]);
      const part = length === 0 ? 0 : Math.min(radius, length / 2) / length;
      return `${f(corner[0] + (to[0] - corner[0]) * part)} ${f(corner[1] + (to[1] - corner[1]) * part)}`;
    };
    path += `L${towards(before)}Q${f(corner[0])} ${f(corner[1])} ${towards(after)}`;
  }
  const [x, y] = points.at(-1);
  return `${path}L${f(x)} ${f(y)}`;
}
