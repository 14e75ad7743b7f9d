//! Values of what is varied, as people write them.

use crate::app::report::format::count;
use crate::app::report::model::grouped;
use crate::solve::what_if::Parameter;

/// To which side a value is rounded, so that what is said of it stays true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Towards {
    /// The nearest.
    Nearest,
    /// No less.
    Up,
    /// No more.
    Down,
}

/// A value in a sentence.
pub(super) fn amount(parameter: Parameter, at: f64, towards: Towards) -> String {
    match parameter {
        Parameter::Bandwidth | Parameter::Memory => value(parameter, at, towards),
        Parameter::Stages => count(at as usize, "stage"),
        Parameter::Devices => count(at as usize, "device"),
        Parameter::Tokens if at == 1.0 => "1 token".into(),
        Parameter::Tokens => grouped(at as u64) + " tokens",
    }
}

const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// A value with its unit: bandwidths have four significant digits, bytes six, counts all.
pub(super) fn value(parameter: Parameter, at: f64, towards: Towards) -> String {
    match parameter {
        Parameter::Bandwidth => scaled(at, 4, towards) + "B/s",
        Parameter::Memory => scaled(at, 6, towards) + "B",
        Parameter::Stages | Parameter::Devices => format!("{at:.0}"),
        Parameter::Tokens => grouped(at as u64),
    }
}

/// A number above 0 with so many significant digits, no zeros behind them, and a prefix of a unit.
fn scaled(at: f64, significant: i32, towards: Towards) -> String {
    let power = at.log10().floor();
    let step = 10f64.powf(power - f64::from(significant - 1));
    let steps = at / step;
    // Within this of a whole number it is that number.
    const CLOSE: f64 = 1e-7;
    let whole = match towards {
        _ if (steps - steps.round()).abs() < CLOSE => steps.round(),
        Towards::Nearest => steps.round(),
        Towards::Up => steps.ceil(),
        Towards::Down => steps.floor(),
    };
    let rounded = whole * step;
    let mut prefix = 0;
    let mut shown = rounded;
    // 999.99999 is 1000 in doubles that are a little less.
    while shown >= 1000.0 * (1.0 - 1e-12) && prefix + 1 < PREFIXES.len() {
        shown /= 1000.0;
        prefix += 1;
    }
    // Far from all prefixes no one counts digits.
    if !(1e-6..1e6).contains(&shown) {
        return format!("{rounded:e} ");
    }
    let before = shown.log10().floor() as i32 + 1;
    let digits = (significant - before).max(0) as usize;
    let text = format!("{shown:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text} {}", PREFIXES[prefix])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_within_what_is_said_of_them() {
        let rate = |at, towards| value(Parameter::Bandwidth, at, towards);
        assert_eq!(rate(1e9, Towards::Up), "1 GB/s");
        assert_eq!(rate(100e9, Towards::Down), "100 GB/s");
        assert_eq!(rate(12.4501e9, Towards::Up), "12.46 GB/s");
        assert_eq!(rate(12.4599e9, Towards::Down), "12.45 GB/s");
        assert_eq!(rate(999.96e6, Towards::Up), "1 GB/s");
        let size = |at, towards| value(Parameter::Memory, at, towards);
        assert_eq!(size(64_123_905.0, Towards::Up), "64.124 MB");
        assert_eq!(size(64_123_905.0, Towards::Down), "64.1239 MB");
        assert_eq!(size(1250.0, Towards::Up), "1.25 kB");
        assert_eq!(size(7.0, Towards::Down), "7 B");
        assert_eq!(rate(1e300, Towards::Up), "1e300 B/s");
        assert_eq!(rate(2.5e-9, Towards::Up), "2.5e-9 B/s");
        assert_eq!(value(Parameter::Stages, 4.0, Towards::Up), "4");
    }
}
