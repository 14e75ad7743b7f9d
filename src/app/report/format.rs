//! Numbers and names as a person reads them.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::model::fault::{is_obeyed, visible};

/// Times of one report, all with the same digits after the point, so that columns can be compared at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digits(usize);

impl Digits {
    /// Six significant digits for a time of this size, never finer than a nanosecond (six digits of a ms) and never
    /// without a digit after the point.
    pub(crate) fn for_ms(ms: f64) -> Self {
        const SIGNIFICANT: i32 = 6;
        const FINEST: i32 = 6;
        if !ms.is_finite() || ms <= 0.0 {
            return Self(3);
        }
        let before_point = ms.log10().floor() as i32 + 1;
        Self((SIGNIFICANT - before_point).clamp(1, FINEST) as usize)
    }

    /// Digits after the point.
    pub(crate) fn after_point(self) -> usize {
        self.0
    }

    /// A time without its unit.
    pub(crate) fn ms(self, ms: f64) -> String {
        format!("{ms:.digits$}", digits = self.0)
    }
}

const BYTE_UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

/// Bytes in decimal units with three significant digits, such as `1.23 GB`. Decimal, because that is how bandwidths and
/// `--memory-limit 16e9` are written.
pub(crate) fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    // 999.5 would be shown as 1000, hence the step before that.
    while value >= 999.5 && unit + 1 < BYTE_UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", BYTE_UNITS[unit])
}

/// A fraction as a percentage with two digits; what is not zero is never shown as zero.
pub(crate) fn percent(fraction: f64) -> String {
    const SMALLEST: f64 = 0.005;
    let value = 100.0 * fraction;
    match value {
        v if v > 0.0 && v < SMALLEST => "< 0.01 %".into(),
        v => format!("{v:.2} %"),
    }
}

/// Seconds with three digits after the point; what is not zero is never shown as zero.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s > 0.0 && s < 0.0005 => "<0.001".into(),
        s => format!("{s:.3}"),
    }
}

/// `1 stage`, `2 stages`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

/// Columns that a text takes in a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text in at most `most` columns: both ends are kept, since names of layers differ at either.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(1);
    let tail_room = room / 2;
    let head = take(text.chars(), room - tail_room);
    let tail: String = take(text.chars().rev(), tail_room).chars().rev().collect();
    let mark = if most == 0 { "" } else { "…" };
    format!("{head}{mark}{tail}")
}

/// Devices `kind:number`, those of one kind whose numbers follow on each other as `kind:first..last`.
pub(crate) fn devices(names: &[String]) -> String {
    let mut runs: Vec<(&str, usize, usize)> = Vec::new();
    for name in names {
        let Some((kind, number)) = name
            .rsplit_once(':')
            .and_then(|(k, n)| Some((k, n.parse().ok()?)))
        else {
            return names.join(" ");
        };
        match runs.last_mut() {
            Some((last, _, end)) if *last == kind && *end + 1 == number => *end = number,
            _ => runs.push((kind, number, number)),
        }
    }
    let run = |&(kind, first, last): &(&str, usize, usize)| match first == last {
        true => format!("{kind}:{first}"),
        false => format!("{kind}:{first}..{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(" ")
}

/// As many characters as fit into `room` columns.
fn take(characters: impl Iterator<Item = char>, room: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= room
        })
        .collect()
}

/// Words in lines of at most `columns` columns, later lines indented; a word longer than a line stands alone. A number
/// and its unit stay together, and no name of an input drives a terminal: see [`visible`].
pub(crate) fn wrap(text: &str, columns: usize, indent: usize) -> String {
    let text = visible(text);
    let mut out = String::new();
    let mut used = 0;
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        let mut word = word.to_owned();
        while let Some(unit) = words.next_if(|next| is_unit(next)) {
            word.push(' ');
            word.push_str(unit);
        }
        let needed = width(&word);
        if used == 0 {
            used = needed;
        } else if used + 1 + needed <= columns {
            out.push(' ');
            used += 1 + needed;
        } else {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            used = indent + needed;
        }
        out.push_str(&word);
    }
    out
}

fn is_unit(word: &str) -> bool {
    let bare = word.trim_end_matches([',', '.', ':', ';', ')']);
    let bare = bare.strip_suffix("/s").unwrap_or(bare);
    BYTE_UNITS.contains(&bare) || ["ms", "s", "%"].contains(&bare)
}

/// Text for XML: element content and attribute values alike. Characters that XML 1.0 has no way to write become U+FFFD, and what
/// would be obeyed is written out, as by [`visible`].
pub(crate) fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // A line break in an attribute would be read as a space.
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\r' => out.push_str("&#13;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if is_obeyed(c) => out.extend(c.escape_default()),
            _ => out.push(c),
        }
    }
    out
}

/// A sentence in which names stand in backticks, for HTML.
pub(crate) fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let part = |(at, part): (usize, &str)| match at % 2 {
        0 => escape_xml(part),
        _ => format!("<code>{}</code>", escape_xml(part)),
    };
    parts.map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_the_magnitude() {
        assert_eq!(Digits::for_ms(34.222852).ms(34.222852), "34.2229");
        assert_eq!(Digits::for_ms(0.05).ms(0.0123456), "0.012346");
        assert_eq!(Digits::for_ms(2_345_678.9).ms(2_345_678.9), "2345678.9");
        assert_eq!(Digits::for_ms(0.0).ms(0.0), "0.000");
    }

    #[test]
    fn bytes_keep_three_digits() {
        let shown = [0, 999, 1000, 999_499, 999_500, 16_000_000_000, u64::MAX].map(bytes);
        assert_eq!(
            shown,
            [
                "0 B", "999 B", "1.00 kB", "999 kB", "1.00 MB", "16.0 GB", "18.4 EB"
            ]
        );
    }

    #[test]
    fn a_small_gap_is_not_zero() {
        assert_eq!(percent(0.0), "0.00 %");
        assert_eq!(percent(1e-9), "< 0.01 %");
        assert_eq!(percent(0.0345), "3.45 %");
        assert_eq!(seconds(0.0), "0.000");
        assert_eq!(seconds(1e-4), "<0.001");
        assert_eq!(seconds(0.0123), "0.012");
    }

    #[test]
    fn names_keep_both_ends() {
        assert_eq!(shorten("inception_3a/1x1", 16), "inception_3a/1x1");
        assert_eq!(shorten("inception_3a/1x1", 9), "ince…/1x1");
        assert_eq!(shorten("層層層層", 5), "層…層");
        assert_eq!(shorten("abc", 0), "");
    }

    #[test]
    fn devices_that_follow_on_each_other_are_a_range() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(devices(&names("a:1 b:2 b:3 b:4 b:6")), "a:1 b:2..4 b:6");
        assert_eq!(devices(&names("host")), "host");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7, 2), "one two\n  three");
        assert_eq!(wrap("takes 15.0 ms, or so", 10, 0), "takes\n15.0 ms,\nor so");
    }
}
