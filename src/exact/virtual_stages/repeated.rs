//! Chains in which items repeat, as the blocks of a transformer do: what a run costs follows from where in a repetition it begins and
//! from its size, not from which repetition that is. See the page's *Repeated items*.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::chain::Chain;
use crate::problem::Assignment;
use crate::problem::control::Control;
use crate::problem::cost::Side;
use crate::problem::plan::StoppedBy;
use crate::problem::virtual_stages::VirtualStages;

/// Items of a repetition, and places that are told apart, at most: guesses of where rounds begin multiply.
const LONGEST: usize = 8;
const MOST_PLACES: usize = 20;
/// Rounds whose places and sizes are packed into numbers.
const MOST_ROUNDS: usize = 6;
const BITS_OF_A_PLACE: u32 = 8;
const BITS_OF_A_SIZE: u32 = 20;
/// Steps between two looks at the clock.
const STEPS_BETWEEN_LOOKS: u64 = 1 << 16;

/// Items `from..to` of a chain, in which an item and the cut before it are like those `length` items further on.
#[derive(Clone, Copy, Debug)]
struct Repetition {
    items: usize,
    from: usize,
    to: usize,
    length: usize,
}

impl Repetition {
    /// The one that leaves the fewest places.
    fn of(chain: &Chain) -> Option<Self> {
        let lengths = 1..=LONGEST.min(chain.items() / 2);
        lengths
            .filter_map(|length| Self::of_length(chain, length))
            .min_by_key(Self::places)
            .filter(|found| found.places() <= MOST_PLACES)
    }

    /// The longest one of repetitions of so many items.
    fn of_length(chain: &Chain, length: usize) -> Option<Self> {
        let items = chain.items();
        let (mut longest, mut from) = (0..0, 0);
        for item in 0..items - length {
            let other = item + length;
            if chain.work_ns(item, item + 1) != chain.work_ns(other, other + 1) {
                from = item + 1;
                continue;
            }
            // The cut before the first item is not one within.
            if item > from && chain.paid_ns(item) != chain.paid_ns(other) {
                from = item;
            }
            if item + 1 - from > longest.len() {
                longest = from..item + 1;
            }
        }
        (!longest.is_empty()).then_some(Self {
            items,
            from: longest.start,
            to: longest.end + length,
            length,
        })
    }

    /// Places that are told apart.
    fn places(&self) -> usize {
        usize::from(self.place(self.items)) + 1
    }

    /// The place of a cut: itself outside, and within, how far it is into a repetition.
    fn place(&self, cut: usize) -> u8 {
        let place = match cut {
            cut if cut <= self.from => cut,
            cut if cut >= self.to => self.from + 1 + self.length + (cut - self.to),
            cut => self.from + 1 + (cut - self.from - 1) % self.length,
        };
        place.min(usize::from(u8::MAX)) as u8
    }

    /// Places in the order of the chain; those within are one.
    fn rank(&self, place: u8) -> usize {
        let place = usize::from(place);
        match place {
            place if place <= self.from => place,
            place if place <= self.from + self.length => self.from + 1,
            place => place - self.length + 1,
        }
    }
}

/// A run of items from a place, as it lies somewhere in the chain.
#[derive(Clone, Copy)]
struct Step {
    to_place: u8,
    run: (usize, usize),
    work_ns: u64,
}

/// Places of all rounds, and how many items the devices so far hold.
type State = (u64, usize);

/// How a state is reached at the shortest period: by which state before, and the sizes of the runs.
#[derive(Clone, Copy)]
struct Way {
    period_ns: u64,
    before: State,
    sizes: u128,
}

impl Way {
    /// Notes a way to a state, if none is known that is as good.
    fn keep(self, ways: &mut HashMap<State, Self>, state: State) {
        let known = ways.entry(state).or_insert(self);
        if self.period_ns < known.period_ns {
            *known = self;
        }
    }
}

/// What a device may take from its places: where that leads, with how many items, for which load.
struct Taken {
    places: u64,
    items: usize,
    load_ns: u64,
    sizes: u128,
}

/// A search for the plan of the shortest period whose memory is not looked at.
pub(super) struct RepeatedSearch<'a> {
    chain: &'a Chain<'a>,
    of: &'a VirtualStages,
    control: &'a Control<'a>,
    repetition: Repetition,
    rounds: usize,
    /// Whether every chunk holds an item.
    all_stages: bool,
    left: u64,
    /// Longer periods are of no interest.
    limit_ns: u64,
    /// Runs from each place, to the end of the chain and to its beginning.
    steps: [Vec<Vec<Step>>; 2],
    /// By what the chunks of a device are to each other, and its places.
    taken: HashMap<(Vec<bool>, u64), Rc<Vec<Taken>>>,
    best: Option<(u64, Assignment)>,
}

impl<'a> RepeatedSearch<'a> {
    /// A search that gives up after so many steps; `None` for chains that repeat too little, whose transfers skip items, and for more
    /// rounds than it can take.
    pub(super) fn new(
        chain: &'a Chain<'a>,
        of: &'a VirtualStages,
        control: &'a Control<'a>,
        most_steps: u64,
    ) -> Option<Self> {
        let rounds = of.chunks() / of.devices;
        let is_small = rounds <= MOST_ROUNDS && chain.items() < 1 << BITS_OF_A_SIZE && !chain.has_skips();
        let repetition = Repetition::of(chain).filter(|_| is_small)?;
        Some(Self {
            chain,
            of,
            control,
            repetition,
            rounds,
            all_stages: chain.all_stages(),
            left: most_steps,
            limit_ns: 0,
            steps: Default::default(),
            taken: HashMap::new(),
            best: None,
        })
    }

    /// The least period, if it is at most so long, and a plan of it.
    pub(super) fn best(&mut self, limit_ns: u64) -> Result<Option<(u64, Assignment)>, StoppedBy> {
        self.limit_ns = limit_ns;
        self.list_steps()?;
        let first = self.repetition.place(0);
        self.place_rounds(&mut vec![first])?;
        Ok(self.best.take())
    }

    /// Lists the runs of work that a device has time for, one for all that cost the same.
    fn list_steps(&mut self) -> Result<(), StoppedBy> {
        let (places, items) = (self.repetition.places(), self.repetition.items);
        self.steps = [0, 1].map(|_| (0..places).map(|_| Vec::new()).collect());
        let mut known = HashSet::new();
        for from in 0..=items {
            for to in from + usize::from(self.all_stages)..=items {
                self.control.take_step(&mut self.left, STEPS_BETWEEN_LOOKS)?;
                let work_ns = self.chain.work_ns(from, to);
                if work_ns > self.limit_ns {
                    break;
                }
                let [begin, end] = [from, to].map(|cut| self.repetition.place(cut));
                if !known.insert((begin, end, to - from)) {
                    continue;
                }
                for (which, [place, to_place]) in [[begin, end], [end, begin]].into_iter().enumerate() {
                    self.steps[which][usize::from(place)].push(Step {
                        to_place,
                        run: (from, to),
                        work_ns,
                    });
                }
            }
        }
        Ok(())
    }

    /// Tries every place where the next round may begin, and the devices once all rounds have one.
    fn place_rounds(&mut self, begins: &mut Vec<u8>) -> Result<(), StoppedBy> {
        let last = self.repetition.place(self.repetition.items);
        if begins.len() == self.rounds {
            begins.push(last);
            let done = self.along_devices(begins);
            begins.pop();
            return done;
        }
        let from = self.repetition.rank(begins[begins.len() - 1]);
        for begin in 0..=last {
            if self.repetition.rank(begin) >= from {
                begins.push(begin);
                let done = self.place_rounds(begins);
                begins.pop();
                done?;
            }
        }
        Ok(())
    }

    /// Gives every device its runs, from each state that those before it lead to.
    fn along_devices(&mut self, begins: &[u8]) -> Result<(), StoppedBy> {
        let ends = (0..self.rounds).map(|round| match self.goes_back(round) {
            true => [begins[round + 1], begins[round]],
            false => [begins[round], begins[round + 1]],
        });
        let [start, goal] = [0, 1].map(|end| pack(ends.clone().map(|ends| ends[end])));
        let items = self.repetition.items;
        let here = Way {
            period_ns: 0,
            before: (start, 0),
            sizes: 0,
        };
        let mut reached: Vec<HashMap<State, Way>> = vec![HashMap::from([((start, 0), here)])];
        for device in 0..self.of.devices {
            reached.push(self.pass_device(device, &reached[device], goal)?);
        }
        let goal = (goal, items);
        let way = reached[self.of.devices].get(&goal);
        if let Some(period_ns) = way.map(|way| way.period_ns)
            && self.best.as_ref().is_none_or(|(best_ns, _)| period_ns < *best_ns)
        {
            self.limit_ns = period_ns;
            self.best = Some((period_ns, self.unwind(&reached, goal)));
        }
        Ok(())
    }

    /// The states that a device leads to, each by the way of the shortest period.
    fn pass_device(
        &mut self,
        device: usize,
        reached: &HashMap<State, Way>,
        goal: u64,
    ) -> Result<HashMap<State, Way>, StoppedBy> {
        let behind = self.of.devices - 1 - device;
        let items = self.repetition.items;
        // The devices behind must have time for the rest.
        let least = items.saturating_sub(behind.saturating_mul(self.most_items()));
        let mut states: Vec<(State, u64)> = reached
            .iter()
            .map(|(state, way)| (*state, way.period_ns))
            .collect();
        // The first of equal ways is kept, whatever the order of the map.
        states.sort_unstable();
        let mut next = HashMap::new();
        for (before, period_ns) in states {
            for taken in self.taken_from(device, before.0)?.iter() {
                self.control.take_step(&mut self.left, STEPS_BETWEEN_LOOKS)?;
                let held = before.1 + taken.items;
                let is_astray = behind == 0 && taken.places != goal;
                let way = Way {
                    period_ns: period_ns.max(taken.load_ns),
                    before,
                    sizes: taken.sizes,
                };
                if !is_astray && (least..=items).contains(&held) && way.period_ns <= self.limit_ns {
                    way.keep(&mut next, (taken.places, held));
                }
            }
        }
        Ok(next)
    }

    /// More items than this no device has time for.
    fn most_items(&self) -> usize {
        let mut works: Vec<u64> = (0..self.repetition.items)
            .map(|item| self.chain.work_ns(item, item + 1))
            .collect();
        works.sort_unstable();
        let sums = works.iter().scan(0, |sum: &mut u64, work| {
            *sum += work;
            Some(*sum)
        });
        sums.take_while(|&sum| sum <= self.limit_ns).count()
    }

    /// Whether a round goes through the devices backwards.
    fn goes_back(&self, round: usize) -> bool {
        self.of.devices > 1 && self.of.device_of[round * self.of.devices] != 0
    }

    /// What a device may take from its places: of all ways to the same places with as many items the one of least load.
    fn taken_from(&mut self, device: usize, places: u64) -> Result<Rc<Vec<Taken>>, StoppedBy> {
        let chunks = &self.of.chunks_of[device];
        let meets: Vec<bool> = chunks.windows(2).map(|pair| pair[0] + 1 == pair[1]).collect();
        let key = (meets, places);
        if let Some(known) = self.taken.get(&key) {
            return Ok(known.clone());
        }
        let mut runs = Runs {
            meets: &key.0,
            places: unpack(places, self.rounds),
            runs: Vec::with_capacity(self.rounds),
            work_ns: 0,
            found: HashMap::new(),
        };
        self.take_runs(&mut runs)?;
        let mut found: Vec<Taken> = runs.found.into_values().collect();
        found.sort_unstable_by_key(|taken| (taken.places, taken.items));
        let found = Rc::new(found);
        self.taken.insert(key, found.clone());
        Ok(found)
    }

    /// Tries every run of the next round, and keeps what all rounds come to.
    fn take_runs(&mut self, runs: &mut Runs) -> Result<(), StoppedBy> {
        self.control.take_step(&mut self.left, STEPS_BETWEEN_LOOKS)?;
        let round = runs.runs.len();
        if round == self.rounds {
            let load_ns = self.load_ns(runs);
            if load_ns <= self.limit_ns {
                runs.keep(load_ns);
            }
            return Ok(());
        }
        let place = runs.places[round];
        let direction = usize::from(self.goes_back(round));
        for at in 0..self.steps[direction][usize::from(place)].len() {
            let step = self.steps[direction][usize::from(place)][at];
            if runs.work_ns + step.work_ns > self.limit_ns {
                continue;
            }
            runs.runs.push(step.run);
            runs.places[round] = step.to_place;
            runs.work_ns += step.work_ns;
            let taken = self.take_runs(runs);
            runs.work_ns -= step.work_ns;
            runs.places[round] = place;
            runs.runs.pop();
            taken?;
        }
        Ok(())
    }

    /// The busiest of load, link in and link out of a device that holds these runs. Runs of chunks that follow each other meet; others are
    /// taken to pay at both ends, which is true where nothing but empty chunks lies between two runs of a device only if these are not
    /// moved together.
    fn load_ns(&self, runs: &Runs) -> u64 {
        let mut busy = [runs.work_ns, 0, 0];
        let is_filled = |round: usize| runs.runs.get(round).is_some_and(|run| run.0 < run.1);
        let meets = |round: usize| runs.meets.get(round).copied().unwrap_or(false);
        for (round, &(from, to)) in runs
            .runs
            .iter()
            .enumerate()
            .filter(|&(round, _)| is_filled(round))
        {
            let before = round
                .checked_sub(1)
                .is_some_and(|before| meets(before) && is_filled(before));
            let after = meets(round) && is_filled(round + 1);
            let sides = [(from, Side::Consumer, before), (to, Side::Producer, after)];
            for (cut, side, is_within) in sides {
                if !is_within && 0 < cut && cut < self.repetition.items {
                    let paid = self.chain.paid_ns(cut)[side as usize];
                    (0..3).for_each(|resource| busy[resource] += paid[resource]);
                }
            }
        }
        busy.into_iter().max().unwrap_or(0)
    }

    /// The plan that leads to the goal: sizes of runs, from which their places follow in the order of the chunks.
    fn unwind(&self, reached: &[HashMap<State, Way>], goal: State) -> Assignment {
        let mut sizes = vec![0; self.of.chunks()];
        let mut state = goal;
        for device in (0..self.of.devices).rev() {
            let Some(way) = reached[device + 1].get(&state) else {
                break;
            };
            for (round, &chunk) in self.of.chunks_of[device].iter().enumerate() {
                sizes[chunk] = size_of(way.sizes, round);
            }
            state = way.before;
        }
        let chunks = sizes.into_iter().enumerate();
        chunks
            .flat_map(|(chunk, size)| std::iter::repeat_n(chunk, size))
            .collect()
    }
}

/// The runs that a device is given.
struct Runs<'a> {
    /// Whether the chunk of a round is followed by that of the next.
    meets: &'a [bool],
    /// Where rounds have come to.
    places: Vec<u8>,
    /// Those of the first rounds.
    runs: Vec<(usize, usize)>,
    work_ns: u64,
    found: HashMap<State, Taken>,
}

impl Runs<'_> {
    fn keep(&mut self, load_ns: u64) {
        let sizes = self.runs.iter().map(|run| run.1 - run.0);
        let taken = Taken {
            places: pack(self.places.iter().copied()),
            items: sizes.clone().sum(),
            load_ns,
            sizes: sizes
                .rev()
                .fold(0, |packed, size| packed << BITS_OF_A_SIZE | size as u128),
        };
        let key = (taken.places, taken.items);
        match self.found.get(&key) {
            Some(known) if known.load_ns <= load_ns => (),
            _ => {
                self.found.insert(key, taken);
            }
        }
    }
}

fn size_of(sizes: u128, round: usize) -> usize {
    (sizes >> (BITS_OF_A_SIZE * round as u32)) as usize & ((1 << BITS_OF_A_SIZE) - 1)
}

fn pack(places: impl Iterator<Item = u8>) -> u64 {
    places.fold(0, |packed, place| packed << BITS_OF_A_PLACE | u64::from(place))
}

fn unpack(packed: u64, rounds: usize) -> Vec<u8> {
    let shift = |round: usize| BITS_OF_A_PLACE * (rounds - 1 - round) as u32;
    (0..rounds).map(|round| (packed >> shift(round)) as u8).collect()
}
