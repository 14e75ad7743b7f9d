//! Shape inference in a process of its own, with limits on memory, stack and time.
//!
//! tract trusts a model: a few bytes can make it allocate 86 GB, recurse without end or count to 2^60, and none of these can be
//! caught in the process where they happen. So the program asks another copy of itself, see [`program`], which tells the node
//! that it works on. If it dies, the model is refused at that node and nothing else is lost.
//!
//! ```text
//! to the child:    length of the message (8 bytes), ModelProto with claims as `value_info`
//! from the child:  {"at": 0}   {"at": 1}   ...   {"done": {"Ok": {"sizes": ...}}}, a line each
//! ```

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prost::Message;
use serde::{Deserialize, Serialize};
use tract_onnx::pb::type_proto::Value::TensorType;
use tract_onnx::pb::{ModelProto, TypeProto, ValueInfoProto};

use super::check::{Checked, node_name};
use super::shapes::{self, Inferred};
use crate::input::program;
use crate::model::fault::{Fault, FaultKind};

/// Address space of the child: the program itself, its threads' arenas, and what tract needs, which is a tenth of this for
/// models of 10,000 nodes.
const MEMORY_BYTES: u64 = 1 << 30;

/// Stack of the thread that infers.
const STACK_BYTES: usize = 64 << 20;

/// Time of the processor for a model, and what a megabyte of it may take beyond; weights are not sent and do not count.
/// Networks of `instances/` take a hundredth of it.
const ALLOWED: Duration = Duration::from_millis(600);
const ALLOWED_PER_MEGABYTE: Duration = Duration::from_millis(1_000);

/// How many times as long by the clock: the machine may be busy, but nobody waits for ever.
const PATIENCE: u32 = 20;

/// How often the child looks at its time.
const LOOK: Duration = Duration::from_millis(20);

/// The exit code of a child that ran out of time.
const OUT_OF_TIME: i32 = 75;

/// The hidden command of the program that serves.
pub(crate) const COMMAND: &str = "infer-shapes";

/// Children that wait for the next model, so that many imports cost one start.
static IDLE: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// Infers all it can, in a child where it is known how to start one: see [`program::is`], which the command line calls. A library
/// cannot know; where nobody has told, shapes are inferred in the calling process, and a hostile model can end it.
pub(crate) fn infer(checked: &Checked) -> Result<Inferred, Vec<Fault>> {
    let refused = |reason: String| {
        vec![Fault::new(
            "the graph",
            FaultKind::Unsupported {
                found: format!("a graph that tract cannot read ({reason})").into(),
                expected: "one that it can infer shapes for".into(),
            },
        )]
    };
    let Some(command) = program::known() else {
        return shapes::infer(checked).map_err(refused);
    };
    let waiting = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut server = match waiting.map_or_else(|| Server::start(command), Ok) {
        Ok(server) => server,
        Err(error) => {
            let kind = FaultKind::Unreadable {
                reason: format!("`stagecut`, which infers shapes, does not start: {error}"),
                similar: None,
            };
            return Err(vec![Fault::new("the graph", kind)]);
        }
    };
    match server.ask(&message(checked)) {
        Ok(inferred) => {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(server);
            inferred.map_err(refused)
        }
        Err(death) => Err(vec![death.fault(checked)]),
    }
}

/// The model with its claims, as [`received`] takes it apart.
fn message(checked: &Checked) -> Vec<u8> {
    let mut model = checked.model.clone();
    let claim = |(name, tensor): (&String, _)| ValueInfoProto {
        name: name.clone(),
        r#type: Some(TypeProto {
            value: Some(TensorType(tensor)),
            ..Default::default()
        }),
        ..Default::default()
    };
    let claims = checked.claims.iter().map(|(name, tensor)| (name, tensor.clone()));
    if let Some(graph) = &mut model.graph {
        graph.value_info = claims.map(claim).collect();
    }
    model.encode_to_vec()
}

/// What [`message`] was made of, as far as inference looks at it.
fn received(bytes: &[u8]) -> io::Result<Checked> {
    let mut model = ModelProto::decode(bytes).map_err(io::Error::other)?;
    let infos = model
        .graph
        .as_mut()
        .map(|graph| std::mem::take(&mut graph.value_info));
    let claim = |info: ValueInfoProto| {
        let TensorType(tensor) = info.r#type?.value?;
        Some((info.name, tensor))
    };
    Ok(Checked {
        claims: infos.into_iter().flatten().filter_map(claim).collect(),
        model,
        constants: Default::default(),
        inputs: Default::default(),
        bodies: Default::default(),
    })
}

/// A line of the child.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// The position of the node that it works on.
    At(usize),
    /// What came of the model.
    Done(Result<Inferred, String>),
}

impl Line {
    fn write(&self, mut to: impl Write) -> io::Result<()> {
        let text = serde_json::to_string(self)? + "\n";
        to.write_all(text.as_bytes())
    }
}

/// A child as the program that asks sees it.
struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// A child died over a model.
struct Death {
    /// The last node that it worked on.
    node: Option<usize>,
    reason: String,
}

impl Server {
    fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let taken = "a pipe was asked for";
        Ok(Self {
            stdin: child.stdin.take().expect(taken),
            stdout: BufReader::new(child.stdout.take().expect(taken)),
            child,
        })
    }

    fn ask(&mut self, message: &[u8]) -> Result<Result<Inferred, String>, Death> {
        let mut node = None;
        let length = (message.len() as u64).to_le_bytes();
        // A child that is gone shows in what it answers, which is nothing.
        let _ = self
            .stdin
            .write_all(&length)
            .and_then(|()| self.stdin.write_all(message));
        let _ = self.stdin.flush();
        loop {
            let mut line = String::new();
            let read = self.stdout.read_line(&mut line);
            match serde_json::from_str(&line) {
                Ok(Line::At(position)) => node = Some(position),
                Ok(Line::Done(inferred)) => return Ok(inferred),
                Err(error) if read.as_ref().is_ok_and(|read| *read > 0) => {
                    let reason = format!("an answer that is none: {error}");
                    return Err(Death { node, reason });
                }
                Err(_) => {
                    let reason = self.child.wait().map_or_else(|error| error.to_string(), ended_by);
                    return Err(Death { node, reason });
                }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a child ended.
fn ended_by(status: ExitStatus) -> String {
    match status.code() {
        Some(OUT_OF_TIME) => format!("more than {} s of computing", ALLOWED.as_secs_f64()),
        _ => format!(
            "more than {} MiB of memory, more than {} MiB of stack, or another crash: {status}",
            MEMORY_BYTES >> 20,
            STACK_BYTES >> 20
        ),
    }
}

impl Death {
    fn fault(&self, checked: &Checked) -> Fault {
        let node = self.node.and_then(|at| Some((at, checked.nodes().get(at)?)));
        let at = node.map_or("the graph".to_owned(), |(position, node)| {
            format!("node `{}` ({})", node_name(node, position), node.op_type)
        });
        Fault::new(
            at,
            FaultKind::Unsupported {
                found: format!("shapes that tract breaks down on ({})", self.reason).into(),
                expected: "attributes and shapes of a size that a network has".into(),
            },
        )
    }
}

thread_local! {
    /// The last node that this thread told, where it serves.
    static TOLD: Cell<Option<Option<usize>>> = const { Cell::new(None) };
}

/// Tells the program that asks which node is next, where this process serves one.
pub(crate) fn tell(position: usize) {
    let Some(last) = TOLD.get() else { return };
    if last != Some(position) {
        TOLD.set(Some(Some(position)));
        // Where nobody listens any more, there is nobody to tell.
        let _ = Line::At(position).write(io::stdout());
    }
}

/// Serves models from stdin until it is closed.
///
/// # Errors
///
/// A request that is none, or a closed pipe.
pub fn serve() -> io::Result<()> {
    limit_memory();
    let deadline = &DEADLINE;
    std::thread::spawn(move || watch(deadline));
    let infers = std::thread::Builder::new().stack_size(STACK_BYTES);
    match infers.spawn(requests)?.join() {
        Ok(ended) => ended,
        Err(_) => Err(io::Error::other("a panic outside tract")),
    }
}

fn requests() -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    loop {
        let mut length = [0; 8];
        match stdin.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let length = u64::from_le_bytes(length);
        let mut bytes = Vec::new();
        Read::take(&mut stdin, length).read_to_end(&mut bytes)?;
        let allowed = ALLOWED + ALLOWED_PER_MEGABYTE.mul_f64(bytes.len() as f64 / 1e6);
        DEADLINE.start(allowed);
        TOLD.set(Some(None));
        let inferred = shapes::infer(&received(&bytes)?);
        DEADLINE.stop();
        Line::Done(inferred).write(io::stdout())?;
    }
}

static DEADLINE: Deadline = Deadline {
    computed: AtomicU64::new(u64::MAX),
    clock: AtomicU64::new(u64::MAX),
};

/// When the child gives up, in ms since its start; `u64::MAX` while it waits for a model.
struct Deadline {
    /// By the time that it computed.
    computed: AtomicU64,
    /// By the clock.
    clock: AtomicU64,
}

impl Deadline {
    fn start(&self, allowed: Duration) {
        let after = |now: Duration, allowed: Duration| (now + allowed).as_millis() as u64;
        let (computed, clock) = (computed(), started().elapsed());
        self.computed.store(after(computed, allowed), Ordering::Relaxed);
        self.clock
            .store(after(clock, allowed * PATIENCE), Ordering::Relaxed);
    }

    fn stop(&self) {
        self.computed.store(u64::MAX, Ordering::Relaxed);
        self.clock.store(u64::MAX, Ordering::Relaxed);
    }
}

/// Ends the process at its deadline.
fn watch(deadline: &Deadline) {
    loop {
        std::thread::sleep(LOOK);
        let is_over = |of: &AtomicU64, now: Duration| of.load(Ordering::Relaxed) < now.as_millis() as u64;
        if is_over(&deadline.clock, started().elapsed())
            || deadline.computed.load(Ordering::Relaxed) != u64::MAX
                && is_over(&deadline.computed, computed())
        {
            std::process::exit(OUT_OF_TIME);
        }
    }
}

fn started() -> Instant {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    *STARTED.get_or_init(Instant::now)
}

/// Time that all threads of this process computed; by the clock where the system does not tell.
fn computed() -> Duration {
    /// Linux counts in hundredths of a second for everybody who asks.
    const TICKS_PER_S: f64 = 100.0;
    let told = std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| {
        // The name of the program, in brackets, may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        Some((ticks(11)? + ticks(12)?) / TICKS_PER_S)
    });
    told.map_or_else(|| started().elapsed(), Duration::from_secs_f64)
}

/// From now on allocations beyond the limit fail, which ends the process; and a process that ends leaves no core file.
#[cfg(unix)]
fn limit_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    for (resource, most) in [(Resource::As, MEMORY_BYTES), (Resource::Core, 0)] {
        let maximum = getrlimit(resource).maximum;
        let current = Some(maximum.map_or(most, |maximum| most.min(maximum)));
        // A system without such limits goes without.
        let _ = setrlimit(resource, Rlimit { current, maximum });
    }
}

#[cfg(not(unix))]
fn limit_memory() {}
