//! Assembly lines. To balance one is to cut a pipeline without transfers: a task is a layer, a station a stage, the cycle time
//! the period, and a precedence a tensor of no bytes.
//!
//! * `.IN2`, stations alike: A. Scholl, *Data of assembly line balancing problems*, Schriften zur Quantitativen
//!   Betriebswirtschaftslehre 16/93, TU Darmstadt, 1993.
//! * Workers that differ, each at one station at most: A. Chaves, C. Miralles, L. Lorena, *Clustering search approach for the
//!   assembly line worker assignment and balancing problem*, ICC&IE 2007.
//!
//! Both are lines: the number of tasks; for each task its time, or one for every worker, `Inf` where that one cannot do it; then
//! precedences, `i,j` or `i j` for task i before task j, up to the mark `-1,-1` or the end of the file. Tasks are numbered from 1.
//! Remarks may follow the mark, in whatever encoding.

use super::{Imported, Source, has_extension};
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::{Communication, Mode, PipelineOptions};
use crate::model::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, NetworkSpec, TensorSpec, TimesSpec,
};
use crate::model::words::Words;

/// Whether the file has the extension of lines with stations alike.
pub(super) fn detect(source: &Source) -> bool {
    has_extension(source.path, "in2")
}

/// Whether a number of tasks stands before times of several workers.
pub(super) fn detect_workers(source: &Source) -> bool {
    workers(&text(source)).is_some()
}

/// Reads a line with stations alike.
pub(super) fn read(source: &Source) -> Imported {
    let line = Line::read(&text(source), 1)?;
    let layer = |times: &[Option<f64>]| LayerSpec {
        forward_ms: times[0],
        ..Default::default()
    };
    Ok((line.spec(None, layer), notes()))
}

/// Reads a line with workers that differ: a device kind of one device for each.
pub(super) fn read_workers(source: &Source) -> Imported {
    let text = text(source);
    // Detection has seen that there are some.
    let workers = workers(&text).unwrap_or(1);
    let line = Line::read(&text, workers)?;
    let name = |worker| format!("worker{}", worker + 1);
    let layer = |times: &[Option<f64>]| LayerSpec {
        times: (times.iter().enumerate())
            .filter(|(_, forward_ms)| forward_ms.is_some())
            .map(|(worker, &forward_ms)| {
                let times = TimesSpec {
                    forward_ms,
                    ..TimesSpec::default()
                };
                (name(worker), times)
            })
            .collect(),
        ..Default::default()
    };
    let kind = |worker| DeviceKindSpec {
        name: name(worker),
        count: Some(1),
        ..Default::default()
    };
    let cluster = ClusterSpec {
        device_kinds: (0..workers).map(kind).collect(),
        ..Default::default()
    };
    Ok((line.spec(Some(cluster), layer), notes()))
}

fn notes() -> Vec<Words> {
    vec!["the file has no units: times are taken for ms".into()]
}

/// The file as text, a character a byte: what is not ASCII is a remark.
fn text(source: &Source) -> String {
    source.bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// A line of the file that is not empty.
struct Row<'a> {
    /// Its number.
    line: usize,
    words: Vec<&'a str>,
}

/// The rows before the mark.
fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    (1..)
        .zip(text.lines())
        .map(|(number, line)| Row::new(number, line))
        .filter(|row| !row.words.is_empty())
        .take_while(|row| !row.words.starts_with(&["-1", "-1"]))
}

/// The number of workers, if the file begins like a line of several.
fn workers(text: &str) -> Option<usize> {
    let mut rows = rows(text);
    let (count, times) = (rows.next()?, rows.next()?);
    let is_line = count.count().is_ok() && time(times.words[0]).is_some();
    (is_line && times.words.len() > 1).then_some(times.words.len())
}

/// A time in ms; `Some(None)` where a worker cannot do the task.
fn time(word: &str) -> Option<Option<f64>> {
    match word {
        "Inf" => Some(None),
        _ => word.parse().ok().map(|ms: u64| Some(ms as f64)),
    }
}

impl<'a> Row<'a> {
    fn new(line: usize, text: &'a str) -> Self {
        let words = text.split(|c: char| c == ',' || c.is_whitespace());
        Self {
            line,
            words: words.filter(|word| !word.is_empty()).collect(),
        }
    }

    fn fault(&self, found: String, expected: &str) -> Fault {
        let kind = FaultKind::Syntax {
            found,
            expected: expected.into(),
        };
        Fault::new(format!("line {}", self.line), kind)
    }

    /// The number of tasks.
    fn count(&self) -> Result<usize, Fault> {
        let count = match self.words[..] {
            [word] => word.parse().ok(),
            _ => None,
        };
        count.ok_or_else(|| self.fault(format!("`{}`", self.words.join(" ")), "the number of tasks"))
    }

    /// The times of a task.
    fn times(&self, workers: usize) -> Result<Vec<Option<f64>>, Fault> {
        let read = |word: &&str| {
            time(word).ok_or_else(|| self.fault(format!("`{word}`"), "a time: a whole number, or `Inf`"))
        };
        let times: Vec<_> = self.words.iter().map(read).collect::<Result<_, _>>()?;
        match times.len() == workers {
            true => Ok(times),
            false => Err(self.fault(format!("{} times", times.len()), &format!("{workers} a task"))),
        }
    }

    /// The positions of two of so many tasks, the first before the second.
    fn precedence(&self, tasks: usize) -> Result<[usize; 2], Fault> {
        let position = |word: &str| match word.parse::<usize>() {
            Ok(number @ 1..) if number <= tasks => Ok(number - 1),
            _ => Err(self.fault(
                format!("`{word}`"),
                &format!("the number of a task, from 1 to {tasks}"),
            )),
        };
        match self.words[..] {
            [before, after] => Ok([position(before)?, position(after)?]),
            _ => Err(self.fault(
                format!("`{}`", self.words.join(" ")),
                "two tasks, the first before the second, or the mark `-1,-1`",
            )),
        }
    }
}

/// What a file of either format says.
struct Line {
    /// Times of each task in ms, one a worker, or one where stations are alike.
    times: Vec<Vec<Option<f64>>>,
    /// Positions of tasks, the first before the second.
    precedences: Vec<[usize; 2]>,
}

impl Line {
    fn read(text: &str, workers: usize) -> Result<Self, Vec<Fault>> {
        let mut rows = rows(text);
        let tasks = match rows.next() {
            Some(first) => first.count().map_err(|fault| vec![fault])?,
            None => 0,
        };
        let times: Vec<_> = rows.by_ref().take(tasks).map(|row| row.times(workers)).collect();
        let precedences: Vec<_> = rows.map(|row| row.precedence(tasks)).collect();
        let mut faults = Vec::new();
        if times.len() < tasks {
            let kind = FaultKind::Contradiction {
                found: format!("{tasks} tasks and the times of {}", times.len()).into(),
                expected: "those of every task, on a line each".into(),
            };
            faults.push(Fault::new("the file", kind));
        }
        let line = Self {
            times: kept(times, &mut faults),
            precedences: kept(precedences, &mut faults),
        };
        match faults.is_empty() {
            true => Ok(line),
            false => Err(faults),
        }
    }

    fn spec(
        &self,
        cluster: Option<ClusterSpec>,
        layer: impl Fn(&[Option<f64>]) -> LayerSpec,
    ) -> InstanceSpec {
        let name = |task: usize| (task + 1).to_string();
        let layers = self.times.iter().enumerate().map(|(task, times)| LayerSpec {
            id: name(task),
            ..layer(times)
        });
        let tensors = self.precedences.iter().map(|&[before, after]| TensorSpec {
            producer: name(before),
            consumers: vec![name(after)],
            ..Default::default()
        });
        InstanceSpec {
            network: NetworkSpec {
                layers: layers.collect(),
                tensors: tensors.collect(),
                ..Default::default()
            },
            cluster,
            pipeline: PipelineOptions {
                mode: Some(Mode::Inference),
                communication: Some(Communication::Ignored),
                ..Default::default()
            },
            ..Default::default()
        }
    }
}

/// What could be read; the rest goes to the faults.
fn kept<T>(rows: Vec<Result<T, Fault>>, faults: &mut Vec<Fault>) -> Vec<T> {
    rows.into_iter()
        .filter_map(|row| row.map_err(|fault| faults.push(fault)).ok())
        .collect()
}
