//! The most tokens a second of a placement problem, by looking at every placement: what each machine holds, or nothing, and for each the maximum
//! flow by paths found depth first. It knows of the library only what a file says.

use stagecut::placement::PlacementSpec;

/// Nodes of the flow: the coordinator's two sides, and two of each machine.
const MOST_NODES: usize = 14;

type Capacities = [[u64; MOST_NODES]; MOST_NODES];

/// A machine with what it may hold: first layer, layer behind the last, rate.
struct Machine {
    kind: String,
    choices: Vec<(usize, usize, u64)>,
}

struct Search<'a> {
    spec: &'a PlacementSpec,
    machines: Vec<Machine>,
    chosen: Vec<Option<usize>>,
    best: u64,
}

/// Placements of a problem, about.
pub fn placements(spec: &PlacementSpec) -> f64 {
    machines(spec)
        .iter()
        .map(|machine| 1.0 + machine.choices.len() as f64)
        .product()
}

/// The most that any placement carries, in millionths of a token a second; 0 where there is none.
pub fn best(spec: &PlacementSpec) -> u64 {
    let machines = machines(spec);
    assert!(2 + 2 * machines.len() <= MOST_NODES, "too many machines");
    let mut search = Search {
        spec,
        chosen: vec![None; machines.len()],
        machines,
        best: 0,
    };
    search.choose(0);
    search.best
}

fn parts(tokens: f64) -> u64 {
    (tokens * 1e6).round() as u64
}

fn machines(spec: &PlacementSpec) -> Vec<Machine> {
    let mut machines = Vec::new();
    for (kind, &count) in &spec.machines {
        let mut choices = Vec::new();
        for (layers, &tokens) in spec.tokens_per_s_at_layers.get(kind).into_iter().flatten() {
            let layers: usize = layers.parse().expect("a number");
            for start in 0..spec.layers {
                if start + layers <= spec.layers && tokens > 0.0 {
                    choices.push((start, start + layers, parts(tokens)));
                }
            }
        }
        for _ in 0..count {
            let (kind, choices) = (kind.clone(), choices.clone());
            machines.push(Machine { kind, choices });
        }
    }
    machines
}

impl Search<'_> {
    fn choose(&mut self, machine: usize) {
        if machine == self.machines.len() {
            self.best = self.best.max(self.flow());
            return;
        }
        let choices = self.machines[machine].choices.len();
        for choice in std::iter::once(None).chain((0..choices).map(Some)) {
            // Of machines that are alike, the order does not matter.
            let is_alike = machine > 0 && self.machines[machine - 1].kind == self.machines[machine].kind;
            if is_alike && choice < self.chosen[machine - 1] {
                continue;
            }
            self.chosen[machine] = choice;
            self.choose(machine + 1);
        }
        self.chosen[machine] = None;
    }

    /// What a link carries: the last entry that names it, else the smallest of its sort.
    fn link(&self, from: &str, to: &str) -> u64 {
        let own = self
            .spec
            .links
            .iter()
            .rev()
            .find(|link| link.from == from && link.to == to);
        let smallest = self.spec.smallest_link_tokens_per_s;
        let smallest = || {
            smallest.map_or(1e9, |of| match (from, to) {
                ("source", _) => of.from_source,
                (_, "sink") => of.to_sink,
                _ => of.between_machines,
            })
        };
        parts(own.map_or_else(smallest, |link| link.tokens_per_s))
    }

    fn flow(&self) -> u64 {
        let mut left: Capacities = [[0; MOST_NODES]; MOST_NODES];
        let held: Vec<(usize, &str, (usize, usize, u64))> = (0..self.machines.len())
            .filter_map(|i| {
                Some((
                    i,
                    self.machines[i].kind.as_str(),
                    self.machines[i].choices[self.chosen[i]?],
                ))
            })
            .collect();
        for &(i, kind, (start, end, rate)) in &held {
            left[2 + 2 * i][3 + 2 * i] = rate;
            if start == 0 {
                left[0][2 + 2 * i] = self.link("source", kind);
            }
            if end == self.spec.layers {
                left[3 + 2 * i][1] = self.link(kind, "sink");
            }
            for &(j, other, (begins, ..)) in &held {
                if begins == end {
                    left[3 + 2 * i][2 + 2 * j] = self.link(kind, other);
                }
            }
        }
        let mut total = 0;
        loop {
            let sent = path(&mut left, 0, u64::MAX, &mut [false; MOST_NODES]);
            if sent == 0 {
                return total;
            }
            total += sent;
        }
    }
}

fn path(left: &mut Capacities, node: usize, most: u64, seen: &mut [bool; MOST_NODES]) -> u64 {
    if node == 1 {
        return most;
    }
    seen[node] = true;
    for next in 0..MOST_NODES {
        if left[node][next] > 0 && !seen[next] {
            let sent = path(left, next, most.min(left[node][next]), seen);
            if sent > 0 {
                left[node][next] -= sent;
                left[next][node] += sent;
                return sent;
            }
        }
    }
    0
}
