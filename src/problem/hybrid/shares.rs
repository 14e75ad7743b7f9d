//! Closed forms of the data shares: who takes how many samples, and how long that takes.

/// Relative difference that a few divisions of doubles may make: rooms that hold all samples exactly are enough.
const ROUNDING: f64 = 1e-12;

/// One that takes samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taker {
    /// Time of a sample, in ms; positive.
    pub sample_ms: f64,
    /// The most samples it has room for.
    pub room: f64,
}

/// The least time in which so many samples can be done, in ms; infinite where there is no room for them.
///
/// Without `whole` this is the optimum of the linear program `min T: d_i s_i <= T, d_i <= room_i, Σ d_i = samples`: at time
/// `T` taker `i` does `min(T/s_i, room_i)` samples, and the sum grows with `T` until it reaches `samples`. With `whole`,
/// samples are handed out one by one to whoever would finish first, which is optimal as times grow with samples. Time
/// O(n log n) for n takers.
pub(crate) fn time_ms(takers: &[Taker], samples: u32, whole: bool) -> f64 {
    let times = divide(takers, samples, whole);
    match times {
        None => f64::INFINITY,
        Some(shares) => finish(takers, &shares),
    }
}

/// The shares that reach [`time_ms`]; `None` where there is no room.
pub(crate) fn divide(takers: &[Taker], samples: u32, whole: bool) -> Option<Vec<f64>> {
    let shares = fluid(takers, f64::from(samples));
    match whole {
        false => shares,
        true => rounded(takers, samples, shares),
    }
}

/// When the last one is done, in ms.
pub(crate) fn finish(takers: &[Taker], shares: &[f64]) -> f64 {
    let times = takers
        .iter()
        .zip(shares)
        .map(|(taker, share)| taker.sample_ms * share);
    times.fold(0.0, f64::max)
}

/// Shares in real numbers: those whose room ends first are filled, the others share the rest by speed.
fn fluid(takers: &[Taker], samples: f64) -> Option<Vec<f64>> {
    let mut order: Vec<usize> = (0..takers.len()).collect();
    let full_ms = |taker: &Taker| taker.sample_ms * taker.room;
    order.sort_by(|&a, &b| full_ms(&takers[a]).total_cmp(&full_ms(&takers[b])));
    let mut shares = vec![0.0; takers.len()];
    let mut left = samples;
    for at in 0..order.len() {
        let rest = order[at..].iter().map(|&i| 1.0 / takers[i].sample_ms);
        let time_ms = left / rest.sum::<f64>();
        if time_ms <= full_ms(&takers[order[at]]) * (1.0 + ROUNDING) {
            for &i in &order[at..] {
                shares[i] = (time_ms / takers[i].sample_ms).min(takers[i].room);
            }
            return Some(shares);
        }
        shares[order[at]] = takers[order[at]].room;
        left -= takers[order[at]].room;
    }
    None
}

/// Whole shares: the real ones rounded down, and what is left one by one.
fn rounded(takers: &[Taker], samples: u32, start: Option<Vec<f64>>) -> Option<Vec<f64>> {
    let mut shares: Vec<f64> = start?.iter().map(|share| share.floor()).collect();
    let mut left = f64::from(samples) - shares.iter().sum::<f64>();
    while left > 0.0 {
        let next_ms = |i: usize| takers[i].sample_ms * (shares[i] + 1.0);
        let open = (0..takers.len()).filter(|&i| shares[i] + 1.0 <= takers[i].room);
        let next = open.min_by(|&a, &b| next_ms(a).total_cmp(&next_ms(b)))?;
        shares[next] += 1.0;
        left -= 1.0;
    }
    Some(shares)
}

/// The most whole samples that are done in a time.
pub(crate) fn whole_within(sample_ms: f64, time_ms: f64) -> f64 {
    let guess = (time_ms / sample_ms).floor();
    // The quotient is rounded; products decide, as they do for the time of a plan.
    let fits = |samples: f64| samples * sample_ms <= time_ms;
    match (fits(guess), fits(guess + 1.0)) {
        (_, true) => guess + 1.0,
        (true, false) => guess,
        (false, false) => guess - 1.0,
    }
}
