//! Units, and the one place that converts between them.
//!
//! Files and reports speak milliseconds; everything inside counts whole nanoseconds, so that sums are exact and two
//! programs that agree, agree to the last digit. Sizes are bytes.

/// Nanoseconds in a millisecond.
pub(crate) const NS_PER_MS: f64 = 1e6;

/// No time or size, and no sum over a whole network, may exceed this: the largest range in which every whole number is
/// exact in a double (2^53 ns are 104 days, 2^53 bytes are 8 PiB), so that solver, JSON and integers never disagree.
pub(crate) const LARGEST_EXACT: u64 = 1 << 53;

/// No sum that is formed of whole numbers may exceed this, so that a few of them can be added up without a look at each.
pub(crate) const LARGEST_SUM: u64 = 1 << 62;

/// Milliseconds as whole nanoseconds, rounded to the nearest.
///
/// `None` for what is not a duration: negative, NaN, infinite, or beyond `LARGEST_EXACT`.
pub fn ms_to_ns(ms: f64) -> Option<u64> {
    whole(ms * NS_PER_MS)
}

/// Nanoseconds as milliseconds.
pub fn ns_to_ms(ns: u64) -> f64 {
    ns as f64 / NS_PER_MS
}

/// Time to move `bytes` over a link, in whole nanoseconds; nothing to move takes no time.
pub fn transfer_ns(bytes: u64, bandwidth_bytes_per_s: f64, latency_ns: u64) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let moving_ns = (bytes as f64 / bandwidth_bytes_per_s * 1e9).round();
    latency_ns.saturating_add(moving_ns as u64)
}

/// A non-negative number rounded to a whole one, if it is small enough to be exact.
pub(crate) fn whole(value: f64) -> Option<u64> {
    let exact = value.is_finite() && value >= 0.0 && value <= LARGEST_EXACT as f64;
    exact.then(|| value.round() as u64)
}

/// The greatest common divisor of two numbers; that of 0 and a number is the number.
pub(crate) fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// The least number that fits, found by halving, where more than it fits too: above one that does not, and at most one that does.
///
/// Asks `fits` as often as the logarithm of how far these two are apart.
pub(crate) fn bisect([mut short, mut long]: [u64; 2], fits: impl Fn(u64) -> bool) -> u64 {
    while long - short > 1 {
        let middle = short + (long - short) / 2;
        match fits(middle) {
            true => long = middle,
            false => short = middle,
        }
    }
    long
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_round_to_the_nearest_nanosecond() {
        assert_eq!(ms_to_ns(34.222852), Some(34_222_852));
        assert_eq!(ms_to_ns(-1.0), None);
        assert_eq!(ms_to_ns(f64::NAN), None);
        assert_eq!(ms_to_ns(1e300), None);
    }

    #[test]
    fn an_empty_tensor_costs_no_latency() {
        assert_eq!(transfer_ns(0, 1e9, 500), 0);
        assert_eq!(transfer_ns(1_000, 1e9, 500), 1_500);
    }
}
