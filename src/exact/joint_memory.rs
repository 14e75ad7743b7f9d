//! What the stages at the end of a pipeline hold, where that depends on stages that are not taken yet.
//!
//! Where the passes of a layer may lie apart, the stage of its backward pass holds a stash for every micro-batch between the two, and
//! weight versions likewise: the more, the earlier the forward pass lies (`formulations/cuts.md`). A search that takes stages off the end
//! meets the backward pass first, so that an ideal alone does not say what its stage will hold. A [`Ledger`] does: for each stage taken,
//! the bytes that are left of the limit, and the layers whose forward pass is still to come.
//!
//! **Example.** Two layers of a stash of 3 MB on devices of 8 MB, with 1F1B in 3 stages. The last stage takes both backward passes, and
//! one micro-batch of each is in flight there: 6 MB, with 2 MB left. With a forward pass in the second stage from the end it would hold
//! 3 MB more: both must be in the last stage too, and the ledger rules out any other plan as soon as the last stage is closed.

use std::collections::HashMap;

use crate::exact::bits;
use crate::problem::switches::Switches;
use crate::problem::{Pair, Problem};

/// Whether plans over ideals keep to memory: by itself, or because it is accounted for.
pub(crate) fn allows_ideals(problem: &Problem, switches: &Switches) -> bool {
    !problem.memory_is_joint() || switches.joint_memory && is_accountable(problem)
}

/// Whether memory that ties stages together can be accounted for while stages are taken off the end: a stage holds more the earlier forward
/// passes lie, and as much wherever they lie behind it.
fn is_accountable(problem: &Problem) -> bool {
    let settings = &problem.settings;
    let from_end = || 1..=problem.stages();
    let in_flight = |forward, backward| settings.in_flight_between(forward, backward);
    let grows = |backward| {
        from_end().all(|forward| match forward <= backward {
            true => in_flight(forward, backward) == in_flight(backward, backward),
            false => in_flight(forward, backward) >= in_flight(forward - 1, backward),
        })
    };
    from_end().all(grows)
}

/// The memory of a problem in which it ties stages together.
pub(crate) struct JointMemory<'a> {
    problem: &'a Problem,
    limit_bytes: u64,
    /// For each item, the pairs of passes that have one end there, and the other elsewhere.
    pairs_of: Vec<Vec<usize>>,
}

impl<'a> JointMemory<'a> {
    /// `None` where the memory of a stage depends on its items alone.
    pub(crate) fn new(problem: &'a Problem) -> Option<Self> {
        let limit_bytes = problem
            .settings
            .memory_limit
            .filter(|_| problem.memory_is_joint())?;
        let mut pairs_of = vec![Vec::new(); problem.items.len()];
        let apart = |(_, pair): &(usize, &Pair)| pair.forward != pair.backward;
        for (at, pair) in problem.pairs.iter().enumerate().filter(apart) {
            pairs_of[pair.forward].push(at);
            pairs_of[pair.backward].push(at);
        }
        Some(Self {
            problem,
            limit_bytes,
            pairs_of,
        })
    }

    /// What is known of all stages with one more: `stage` holds its items, `taken` these and those of the stages behind it, which lie
    /// up to `from_end` stages from the end. `None` where some stage holds too much, wherever the rest lies.
    pub(crate) fn with_stage(
        &self,
        ledger: &Ledger,
        stage: &[u64],
        taken: &[u64],
        from_end: usize,
    ) -> Option<Ledger> {
        let problem = self.problem;
        let mut accounts = ledger.accounts.clone();
        let mut bytes = 0;
        let mut open = vec![0; bits::words(problem.pairs.len())];
        for item in bits::iter(stage) {
            bytes += problem.memory_bytes(&problem.items[item], from_end);
            for &at in &self.pairs_of[item] {
                let pair = &problem.pairs[at];
                if pair.backward == item && !bits::contains(taken, pair.forward) {
                    bits::insert(&mut open, at);
                }
                if pair.forward == item && !bits::contains(stage, pair.backward) {
                    bytes += pair.weight_bytes;
                    self.settle(&mut accounts, at, from_end)?;
                }
            }
        }
        accounts.push(Account {
            from_end,
            room_bytes: self.limit_bytes.checked_sub(bytes)?,
            open: open.into(),
        });
        let next = (from_end + 1).min(problem.stages());
        let holds = |account: &Account| self.still_to_come(account, next) <= account.room_bytes;
        if !accounts.iter().all(holds) {
            return None;
        }
        // With room for all that may come, a stage is of no more interest.
        let may_break =
            |account: &Account| self.still_to_come(account, problem.stages()) > account.room_bytes;
        accounts.retain(may_break);
        Some(Ledger { accounts })
    }

    /// Takes what the forward pass of a pair adds to the stage of its backward pass, if that is listed; `None` where that has no room for it.
    fn settle(&self, accounts: &mut [Account], at: usize, forward: usize) -> Option<()> {
        let is_open = |account: &&mut Account| bits::contains(&account.open, at);
        if let Some(account) = accounts.iter_mut().find(is_open) {
            bits::remove(&mut account.open, at);
            let more = self.more_bytes(&self.problem.pairs[at], forward, account.from_end);
            account.room_bytes = account.room_bytes.checked_sub(more)?;
        }
        Some(())
    }

    /// What the open pairs of a stage will add if all their forward passes lie so many stages from the end.
    fn still_to_come(&self, account: &Account, forward: usize) -> u64 {
        let open = bits::iter(&account.open).map(|at| &self.problem.pairs[at]);
        open.map(|pair| self.more_bytes(pair, forward, account.from_end))
            .sum()
    }

    /// What the stage of a backward pass holds more than if the forward pass lay there too.
    fn more_bytes(&self, pair: &Pair, forward: usize, backward: usize) -> u64 {
        let (bytes, _) = self.problem.bytes_apart(pair, forward, backward);
        bytes.unsigned_abs()
    }
}

/// What later stages must know of the memory of those taken. A stage that nothing to come can fill is not listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    accounts: Vec<Account>,
}

/// A stage whose memory is not settled.
#[derive(Clone, Debug)]
struct Account {
    from_end: usize,
    /// What is left of the limit.
    room_bytes: u64,
    /// Pairs with their backward pass here, and their forward pass still to come.
    open: Box<[u64]>,
}

impl Ledger {
    /// Whether whatever stages complete a plan behind the other complete one behind this too.
    fn is_no_worse(&self, other: &Self) -> bool {
        self.accounts.iter().all(|own| {
            let has_less = |its: &Account| {
                its.from_end == own.from_end
                    && its.room_bytes <= own.room_bytes
                    && bits::is_subset(&own.open, &its.open)
            };
            other.accounts.iter().any(has_less)
        })
    }
}

/// Sets of items that have been reached, each with the ledgers that are worth going on from.
#[derive(Default)]
pub(crate) struct Seen {
    /// No ledger is listed where one leaves nothing to account for.
    ledgers: HashMap<Box<[u64]>, Vec<Ledger>>,
    /// Sets and ledgers taken in.
    count: usize,
}

impl Seen {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.ledgers.clear();
    }

    /// How many have been taken in.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether a set has been reached with a ledger that is no worse.
    pub(crate) fn contains(&self, set: &[u64], ledger: &Ledger) -> bool {
        let is_known =
            |known: &Vec<Ledger>| known.is_empty() || known.iter().any(|known| known.is_no_worse(ledger));
        self.ledgers.get(set).is_some_and(is_known)
    }

    /// Takes in a set that is not contained with such a ledger.
    pub(crate) fn insert(&mut self, set: &[u64], ledger: &Ledger) {
        self.count += 1;
        let known = self.ledgers.entry(set.into()).or_default();
        match ledger.accounts.is_empty() {
            true => known.clear(),
            false => {
                known.retain(|known| !ledger.is_no_worse(known));
                known.push(ledger.clone());
            }
        }
    }
}
