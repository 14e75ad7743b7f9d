//! Experts of layers: what of a layer the replicas of a stage may share out.

use super::build::Checks;
use crate::model::fault::FaultKind;
use crate::model::network::Experts;
use crate::model::spec::ExpertsSpec;

impl Checks {
    /// The experts of a layer or a mode of so many bytes of parameters.
    pub(super) fn experts(
        &mut self,
        at: &str,
        spec: Option<&ExpertsSpec>,
        parameter_bytes: u64,
    ) -> Option<Experts> {
        let spec = spec?;
        let at = format!("{at}.experts");
        self.count(format!("{at}.count"), spec.count);
        let [own_bytes, routed_bytes] = [
            ("parameter_bytes", spec.parameter_bytes),
            ("routed_bytes", spec.routed_bytes),
        ]
        .map(|(field, bytes)| self.size(&at, field, bytes));
        if own_bytes > parameter_bytes {
            let kind = FaultKind::Contradiction {
                found: format!("{own_bytes} of {parameter_bytes} bytes of parameters").into(),
                expected: "at most the `parameter_bytes` around them, which include the experts".into(),
            };
            self.add(format!("{at}.parameter_bytes"), kind);
        }
        if !(0.0..=1.0).contains(&spec.share) {
            let (found, expected) = (spec.share, "a part of the layer's time from 0 to 1");
            self.add(format!("{at}.share"), FaultKind::BadNumber { found, expected });
        }
        Some(Experts {
            count: spec.count.max(1),
            parameter_bytes: own_bytes.min(parameter_bytes),
            routed_bytes,
            share: spec.share,
        })
    }
}
