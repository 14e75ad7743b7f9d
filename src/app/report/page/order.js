// Orders of the vertices on ranks with few crossings, and their places from left to right. As src/report/order.rs and layout.rs
// draw a whole network once, in the steps of Sugiyama, Tagawa and Toda, 1981; here for one group at a time.

// Sorts every rank by the mean place of the neighbours, down and up in turn, and keeps the order with the fewest crossings.
function withFewCrossings(ranks) {
  const sweeps = 12;
  const number = () => ranks.forEach((rank) => rank.forEach((vertex, at) => { vertex.place = at; }));
  const mean = (vertex, side) => {
    const near = vertex[side];
    if (near.length === 0) return vertex.place;
    return near.reduce((sum, line) => sum + line.other.place + line.there / 1e4, 0) / near.length;
  };
  number();
  let fewest = crossings(ranks);
  let best = ranks.map((rank) => [...rank]);
  for (let sweep = 0; sweep < sweeps && fewest > 0; sweep += 1) {
    const side = sweep % 2 === 0 ? "above" : "below";
    const order = side === "above" ? ranks : [...ranks].reverse();
    for (const rank of order) {
      const keys = new Map(rank.map((vertex) => [vertex, mean(vertex, side)]));
      rank.sort((a, b) => keys.get(a) - keys.get(b));
      rank.forEach((vertex, at) => { vertex.place = at; });
    }
    const found = crossings(ranks);
    if (found < fewest) [fewest, best] = [found, ranks.map((rank) => [...rank])];
  }
  best.forEach((rank, at) => { ranks[at] = rank; });
  number();
}

// Pairs of lines that cross: inversions of their lower ends, counted with a Fenwick tree.
function crossings(ranks) {
  let total = 0;
  for (let at = 1; at < ranks.length; at += 1) {
    const size = ranks[at].length;
    const tree = new Int32Array(size + 1);
    let before = 0;
    for (const vertex of ranks[at - 1]) {
      const ends = vertex.below.map((line) => line.other.place).sort((a, b) => a - b);
      for (const end of ends) {
        let notLarger = 0;
        for (let i = end + 1; i > 0; i &= i - 1) notLarger += tree[i];
        total += before - notLarger;
        for (let i = end + 1; i <= size; i += i & -i) tree[i] += 1;
        before += 1;
      }
    }
  }
  return total;
}

// Moves every rank as near as its order and the gaps allow to where its lines come from and go to.
function place(ranks, gap) {
  const sweeps = 14, balancing = 4;
  for (const rank of ranks) {
    let at = 0;
    for (const vertex of rank) {
      vertex.offset = at + vertex.width / 2;
      at += vertex.width + gap;
    }
    const middle = (at - gap) / 2;
    for (const vertex of rank) vertex.x = vertex.offset - middle;
  }
  for (let sweep = 0; sweep < sweeps; sweep += 1) {
    const both = sweep >= sweeps - balancing;
    const down = sweep % 2 === 0;
    for (const rank of down ? ranks : [...ranks].reverse()) {
      settle(rank, rank.map((vertex) => wish(vertex, both || down, both || !down)));
    }
  }
}

// Where a vertex wants to be, and how much: the weighted mean of its neighbours.
function wish(vertex, up, down) {
  let [sum, weight] = [0, 0];
  const look = (lines) => {
    for (const line of lines) {
      sum += (line.other.x + line.there - line.here) * line.strength;
      weight += line.strength;
    }
  };
  if (up || vertex.below.length === 0) look(vertex.above);
  if (down || vertex.above.length === 0) look(vertex.below);
  return weight === 0 ? [vertex.x, 0.01] : [sum / weight, weight];
}

// Centres nearest to the wishes in weighted squares, by pooling adjacent violators (M. Ayer et al., 1955).
function settle(rank, wishes) {
  const blocks = [];
  wishes.forEach(([at, weight], i) => {
    let block = [at - rank[i].offset, weight, 1];
    while (blocks.length > 0 && blocks.at(-1)[0] >= block[0]) {
      const [mean, before, members] = blocks.pop();
      const total = before + block[1];
      block = [(mean * before + block[0] * block[1]) / total, total, members + block[2]];
    }
    blocks.push(block);
  });
  let i = 0;
  for (const [start, , members] of blocks) {
    for (let k = 0; k < members; k += 1, i += 1) rank[i].x = start + rank[i].offset;
  }
}
