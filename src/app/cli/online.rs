//! `online`.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::Instant;

use crate::app::flags::as_flags;
use crate::input::intake;
use crate::input::sealed::{opened, sealed};
use crate::model::fault::InputError;
use crate::online::controller::{self, Asked, Lines, OnlineError};
use crate::online::record::Line;
use crate::online::scenario::Scenario;

use super::args::OnlineArgs;
use super::progress::{StatusLine, bar, catch_interrupts, interrupt_control};
use super::{CliError, Ending, output};

/// Runs the policies over the scenario's slots and writes a line for each, as it goes.
pub(super) fn online(args: &OnlineArgs) -> Result<Ending, CliError> {
    output::check_path(args.output.as_deref())?;
    output::format(args.output.as_deref(), None, (), &[("jsonl", ())])?;
    let scenario = Scenario::read(&args.scenario)?;
    if !args.quiet {
        scenario
            .notes
            .iter()
            .for_each(|note| output::note(&note.written(as_flags)));
    }
    let asked = Asked {
        policies: args.policies.clone(),
        slots: args.slots.unwrap_or(scenario.spec.slots),
        seed: args.seed.unwrap_or(scenario.spec.seed),
        time_weight: args.time_weight.unwrap_or(scenario.spec.time_weight),
    };
    if let Some(fault) = scenario.slots_fault(asked.slots) {
        return Err(InputError::option("--slots", fault.kind).into());
    }
    let (done, mut sink) = match &args.output {
        None => (Vec::new(), Sink::Stdout),
        Some(path) => open(path, args.resume)?,
    };
    catch_interrupts();
    let control = interrupt_control();
    let status = StatusLine::new(args.quiet);
    let total = asked.policies.len() * asked.slots;
    let started = Instant::now();
    let decided = RefCell::new(0);
    let progress = |policy: &str, slot: usize| {
        let before = asked.policies.iter().take_while(|p| p.name != policy).count() * asked.slots + slot;
        *decided.borrow_mut() += 1;
        status.show(|| format!("{} {before}/{total}  {policy}, slot {slot}", bar(before, total)));
    };
    let mut write = |line: &Line| sink.write(line);
    let lines = Lines::new(&done, &mut write);
    let result = controller::run(&scenario, &asked, lines, &control, &progress);
    status.clear();
    match result {
        Ok(()) => {}
        // A reader that closes the pipe early, such as `head`, is no error.
        Err(OnlineError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => return Ok(Ending::Done),
        Err(error) => return Err(failed(error, args.output.as_deref())),
    }
    if !args.quiet {
        let slots = *decided.borrow();
        let seconds = started.elapsed().as_secs_f64();
        output::note(&format!("{slots} slots decided in {seconds:.1} s"));
        if control.must_stop().is_some() {
            output::note("stopped early; `--resume` goes on from the lines that are written");
        }
    }
    Ok(Ending::Done)
}

fn failed(error: OnlineError, path: Option<&Path>) -> CliError {
    match error {
        OnlineError::Solver(error) => CliError::Solver(error),
        OnlineError::TooMany(_) | OnlineError::OtherRun(_) => CliError::Usage(error.to_string().into()),
        OnlineError::Broken(text) => CliError::bad_plan(text),
        OnlineError::Write(error) => CliError::write(path.unwrap_or(Path::new("stdout")), error),
    }
}

/// Where lines go.
enum Sink {
    Stdout,
    File(File),
}

impl Sink {
    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        let text = sealed(line.text().trim_end()) + "\n";
        match self {
            Self::Stdout => output::say_line(&text),
            // One write a line, so that a killed run leaves whole lines and at most one broken one, the last.
            Self::File(file) => file.write_all(text.as_bytes()).inspect_err(|_| {
                // It is not lost, at least; where that fails, too, the error is told all the same.
                let _ = output::say_line(&text);
            }),
        }
    }
}

/// The lines of a file to go on from, and the file behind the last whole one; an empty file without `resume`.
fn open(path: &Path, resume: bool) -> Result<(Vec<Line>, Sink), CliError> {
    let failed = |error| CliError::write(path, error);
    if !resume {
        return Ok((Vec::new(), Sink::File(File::create(path).map_err(failed)?)));
    }
    let text = match intake::read_large_text(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        text => text.map_err(failed)?,
    };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text[..whole].lines()) {
        let object = opened(line).map_err(|altered| altered.to_string());
        let read = object.and_then(|object| serde_json::from_str(&object).map_err(|error| error.to_string()));
        lines.push(read.map_err(|what| {
            CliError::Usage(format!(
                "line {number} of `{}` is none of `stagecut online`: {what}; without it and what follows, `--resume` decides them again",
                path.display()
            ).into())
        })?);
    }
    if whole < text.len() {
        let number = lines.len() + 1;
        output::note(&format!(
            "line {number} of `{}` is torn, and is decided again",
            path.display()
        ));
    }
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).open(path).map_err(failed)?;
    file.set_len(whole as u64).map_err(failed)?;
    Ok((lines, Sink::File(file)))
}
