//! A line on stderr that shows how far a study has come.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::study::runner::Tally;

/// How often the line changes.
const INTERVAL: Duration = Duration::from_millis(100);
/// Columns of the bar.
const BAR: usize = 24;

/// The line; nothing where stderr is no terminal.
pub struct Line {
    shown: bool,
    started: Instant,
    last: Mutex<Option<Instant>>,
}

impl Line {
    /// A line that is shown on a terminal unless `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self {
            shown: !quiet && std::io::stderr().is_terminal(),
            started: Instant::now(),
            last: Mutex::new(None),
        }
    }

    /// Shows a tally, at most ten times a second.
    pub fn show(&self, tally: Tally) {
        let Ok(mut last) = self.last.lock() else { return };
        if !self.shown || last.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{}", text(tally, self.started.elapsed()));
        let _ = stderr.flush();
    }

    /// Clears the line, so that what follows starts on a clean one.
    pub fn clear(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// The tally in words, with the time that is left at the pace so far.
fn text(tally: Tally, elapsed: Duration) -> String {
    let Tally {
        before,
        done,
        running,
        failed,
        total,
    } = tally;
    let finished = before + done;
    let filled = BAR * finished / total.max(1);
    let bar = format!("{}{}", "━".repeat(filled), "─".repeat(BAR - filled));
    let left = match done {
        0 => "ETA unknown".into(),
        _ => format!(
            "ETA {}",
            clock(elapsed.mul_f64((total - finished) as f64 / done as f64))
        ),
    };
    format!(
        "{bar} {finished} of {total} done  {running} running  {failed} failed  {left}  (Ctrl-C keeps the results)"
    )
}

/// Hours, minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_and_estimates() {
        let tally = Tally {
            before: 10,
            done: 10,
            running: 2,
            failed: 1,
            total: 80,
        };
        let line = text(tally, Duration::from_secs(20));
        assert!(
            line.contains("20 of 80 done  2 running  1 failed  ETA 2:00"),
            "{line}"
        );
        assert_eq!(clock(Duration::from_secs(3_725)), "1:02:05");
    }
}
