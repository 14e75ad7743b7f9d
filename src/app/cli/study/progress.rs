//! How far a study has come, in a line.

use std::time::Duration;

use crate::app::cli::progress::bar;
use crate::app::study::runner::Tally;

/// The tally in words, with the time that is left at the pace so far.
pub(super) fn of_study(tally: Tally, elapsed: Duration) -> String {
    let Tally {
        before,
        done,
        running,
        failed,
        total,
    } = tally;
    let finished = before + done;
    let bar = bar(finished, total);
    let left = match done {
        0 => "ETA unknown".into(),
        _ => format!(
            "ETA {}",
            clock(elapsed.mul_f64((total - finished) as f64 / done as f64))
        ),
    };
    format!(
        "{bar} {finished} of {total} done  {running} running  {failed} failed  {left}  Ctrl-C keeps the results"
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
        let line = of_study(tally, Duration::from_secs(20));
        assert!(
            line.contains("20 of 80 done  2 running  1 failed  ETA 2:00"),
            "{line}"
        );
        assert_eq!(clock(Duration::from_secs(3_725)), "1:02:05");
    }
}
