//! HiGHS's C interface, where the `highs` crate hides it: names, model files, callbacks, the end of the process.
//! The only unsafe code.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use highs::Model;
use highs_sys::{
    Highs_addRow, Highs_changeColBounds, Highs_passColName, Highs_passModelName, Highs_passRowName,
    Highs_setCallback, Highs_startCallback, Highs_writeModel, HighsCallbackDataIn, HighsCallbackDataOut,
    HighsInt, STATUS_ERROR, kHighsCallbackMipInterrupt, kHighsCallbackMipLogging,
    kHighsCallbackSimplexInterrupt,
};

/// What HiGHS tells while it solves a mixed-integer program.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Objective of the best solution; infinite without one.
    pub primal_bound: f64,
    /// Proved bound; minus infinity before the first.
    pub dual_bound: f64,
}

/// A model that threads may hand on to each other, one of which uses it at a time.
pub(super) struct Movable(pub Model);

// SAFETY: the model owns its HiGHS object alone, and that object belongs to no thread: what HiGHS keeps by thread are the workers of its
// scheduler, which it looks up anew whenever it solves.
unsafe impl Send for Movable {}

/// Called by HiGHS; returns whether it must stop. `None` where HiGHS only asks whether to go on.
pub(super) type Watch<'a> = dyn FnMut(Option<Report>) -> bool + 'a;

/// Calls `watch` while `model` is solved, until `solve` returns.
///
/// A panic of `watch` must not cross C++ frames, so it stops the solver and is raised again here.
pub(super) fn watched<R>(mut model: Model, watch: &mut Watch, solve: impl FnOnce(Model) -> R) -> R {
    let mut watcher = Watcher { watch, panic: None };
    let data = std::ptr::from_mut(&mut watcher).cast::<c_void>();
    // SAFETY: `data` points to `watcher`, which lives until after `solve` has consumed the model, and HiGHS calls back
    // only while solving, from the solving thread.
    unsafe {
        Highs_setCallback(model.as_mut_ptr(), Some(callback), data);
        for kind in [
            kHighsCallbackMipInterrupt,
            kHighsCallbackMipLogging,
            kHighsCallbackSimplexInterrupt,
        ] {
            Highs_startCallback(model.as_mut_ptr(), kind);
        }
    }
    let result = solve(model);
    if let Some(panic) = watcher.panic.take() {
        std::panic::resume_unwind(panic);
    }
    result
}

struct Watcher<'a, 'b> {
    watch: &'a mut Watch<'b>,
    panic: Option<Box<dyn std::any::Any + Send>>,
}

unsafe extern "C" fn callback(
    kind: c_int,
    _message: *const c_char,
    out: *const HighsCallbackDataOut,
    input: *mut HighsCallbackDataIn,
    data: *mut c_void,
) {
    if data.is_null() {
        return;
    }
    // SAFETY: `data` is the `Watcher` that `watched` registered and still owns.
    let watcher = unsafe { &mut *data.cast::<Watcher>() };
    // SAFETY: HiGHS passes either null or a structure that is valid during the call.
    let report = unsafe { out.as_ref() }
        .filter(|_| kind == kHighsCallbackMipLogging || kind == kHighsCallbackMipInterrupt)
        .map(|out| Report {
            primal_bound: out.mip_primal_bound,
            dual_bound: out.mip_dual_bound,
        });
    let call = std::panic::AssertUnwindSafe(|| (watcher.watch)(report));
    let stop = std::panic::catch_unwind(call).unwrap_or_else(|panic| {
        watcher.panic = Some(panic);
        true
    });
    // SAFETY: as for `out`.
    if let Some(input) = unsafe { input.as_mut() } {
        input.user_interrupt = c_int::from(stop);
    }
}

/// Adds the row `Σ factor · column <= most`. Returns whether HiGHS could.
pub(super) fn add_row(model: &mut Model, most: f64, columns: &[usize], factors: &[f64]) -> bool {
    let columns: Vec<HighsInt> = columns.iter().map(|&column| column as HighsInt).collect();
    let entries = columns.len().min(factors.len()) as HighsInt;
    // SAFETY: the model is live, both slices hold so many entries, and HiGHS refuses columns that are out of range.
    let status = unsafe {
        Highs_addRow(
            model.as_mut_ptr(),
            f64::NEG_INFINITY,
            most,
            entries,
            columns.as_ptr(),
            factors.as_ptr(),
        )
    };
    status != STATUS_ERROR
}

/// Bounds a column anew. Returns whether HiGHS could.
pub(super) fn bound_column(model: &mut Model, column: usize, [least, most]: [f64; 2]) -> bool {
    // SAFETY: the model is live, and HiGHS refuses a column that is out of range.
    let status = unsafe { Highs_changeColBounds(model.as_mut_ptr(), column as HighsInt, least, most) };
    status != STATUS_ERROR
}

/// Gives columns and rows their names. Names must be free of blanks.
pub(super) fn set_names(model: &mut Model, title: &str, columns: &[String], rows: &[String]) {
    let pointer = model.as_mut_ptr();
    let text = |name: &str| CString::new(name.replace('\0', "_")).unwrap_or_default();
    // SAFETY: `pointer` is a live model; each string outlives its call; an index out of range is refused by HiGHS.
    unsafe {
        Highs_passModelName(pointer, text(title).as_ptr());
        for (i, name) in columns.iter().enumerate() {
            Highs_passColName(pointer, i as HighsInt, text(name).as_ptr());
        }
        for (i, name) in rows.iter().enumerate() {
            Highs_passRowName(pointer, i as HighsInt, text(name).as_ptr());
        }
    }
}

/// Writes the model as LP or MPS, by the extension of the path. Returns whether HiGHS could.
pub(super) fn write(model: &mut Model, path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else {
        return false;
    };
    // SAFETY: the model is live and the path outlives the call.
    unsafe { Highs_writeModel(model.as_mut_ptr(), path.as_ptr()) != STATUS_ERROR }
}

/// A key of HiGHS's 64-bit info values, which the `highs` crate does not read.
pub(super) fn int64_info(model: &highs::SolvedModel, key: &CStr) -> Option<i64> {
    let mut value: i64 = 0;
    // SAFETY: reading info changes nothing in the model; key and value outlive the call.
    let status = unsafe { highs_sys::Highs_getInt64InfoValue(model.as_ptr(), key.as_ptr(), &mut value) };
    (status != STATUS_ERROR).then_some(value)
}

/// Has HiGHS make the static objects that it makes when it first needs them: to choose a solver, and to solve.
pub(super) fn make_statics() {
    // SAFETY: the model is used here alone, and destroyed once; the strings outlive their calls.
    unsafe {
        let model = highs_sys::Highs_create();
        highs_sys::Highs_setBoolOptionValue(model, c"output_flag".as_ptr(), 0);
        highs_sys::Highs_setIntOptionValue(model, c"threads".as_ptr(), 1);
        highs_sys::Highs_setStringOptionValue(model, c"solver".as_ptr(), c"choose".as_ptr());
        highs_sys::Highs_run(model);
        highs_sys::Highs_destroy(model);
    }
}

/// Called when the process ends; returns whether its destructors may run.
type MayEnd = fn() -> bool;

/// What is asked at the end.
static MAY_END: OnceLock<MayEnd> = OnceLock::new();

/// Asks `may_end` when the process calls `exit`, before the destructors of what has been made by now. Where they may
/// not run, the process ends without them. One question a process: the first.
pub(super) fn at_exit(may_end: MayEnd) {
    if MAY_END.set(may_end).is_ok() {
        exit_handler::register();
    }
}

/// Where the handler is told the exit code.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod exit_handler {
    use std::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn on_exit(handler: extern "C" fn(c_int, *mut c_void), data: *mut c_void) -> c_int;
        fn fflush(file: *mut c_void) -> c_int;
        fn _exit(code: c_int) -> !;
    }

    pub(super) fn register() {
        // SAFETY: the handler takes what `on_exit` gives, and needs no data. Without memory for it the end is as before.
        unsafe { on_exit(handle, std::ptr::null_mut()) };
    }

    extern "C" fn handle(code: c_int, _data: *mut c_void) {
        if super::MAY_END.get().is_some_and(|may_end| !may_end()) {
            // SAFETY: null means all files; the process ends here.
            unsafe {
                fflush(std::ptr::null_mut());
                _exit(code);
            }
        }
    }
}

/// Elsewhere nobody says with which code the process ends, so it waits for as long as it takes.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod exit_handler {
    use std::ffi::c_int;

    unsafe extern "C" {
        fn atexit(handler: extern "C" fn()) -> c_int;
    }

    pub(super) fn register() {
        // SAFETY: the handler takes nothing. Without memory for it the end is as before.
        unsafe { atexit(handle) };
    }

    extern "C" fn handle() {
        while super::MAY_END.get().is_some_and(|may_end| !may_end()) {}
    }
}
