//! HiGHS's C interface, where the `highs` crate hides it: names, model files, callbacks. The only unsafe code.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

use highs::Model;
use highs_sys::{
    Highs_passColName, Highs_passModelName, Highs_passRowName, Highs_setCallback, Highs_startCallback,
    Highs_writeModel, HighsCallbackDataIn, HighsCallbackDataOut, HighsInt, STATUS_ERROR,
    kHighsCallbackMipInterrupt, kHighsCallbackMipLogging, kHighsCallbackSimplexInterrupt,
};

/// What HiGHS tells while it solves a mixed-integer program.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Objective of the best solution; infinite without one.
    pub primal_bound: f64,
    /// Proved bound; minus infinity before the first.
    pub dual_bound: f64,
}

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
