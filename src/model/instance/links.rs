//! Validation of links: the one between all devices, those inside nodes, and those of two kinds.

use super::build::Checks;
use crate::model::cluster::{Cluster, DEFAULT_BANDWIDTH_BYTES_PER_S, Link, MOST_PAIR_LINKS, Nodes, PairLink};
use crate::model::fault::{FaultKind, closest};
use crate::model::spec::{LinkSpec, PairLinkSpec};

impl Checks {
    /// Nodes, where the link says them.
    pub(super) fn nodes(&mut self, spec: Option<&LinkSpec>) -> Option<Nodes> {
        let nodes = spec?.nodes.as_ref()?;
        self.count("cluster.link.nodes.devices".into(), nodes.devices);
        if nodes.link.nodes.is_some() {
            self.add(
                "cluster.link.nodes.link.nodes",
                FaultKind::Contradiction {
                    found: "nodes inside of nodes".into(),
                    expected: "two levels of links".into(),
                },
            );
        }
        Some(Nodes {
            devices: nodes.devices,
            link: self.link("cluster.link.nodes.link", Some(&nodes.link)),
        })
    }

    /// A link; the default where none is said.
    pub(super) fn link(&mut self, at: &str, spec: Option<&LinkSpec>) -> Link {
        let Some(spec) = spec else {
            return Link {
                bandwidth_bytes_per_s: DEFAULT_BANDWIDTH_BYTES_PER_S,
                latency_ns: 0,
            };
        };
        let bandwidth = self.positive(
            format!("{at}.bandwidth_bytes_per_s"),
            Some(spec.bandwidth_bytes_per_s),
        );
        Link {
            bandwidth_bytes_per_s: bandwidth.unwrap_or(DEFAULT_BANDWIDTH_BYTES_PER_S),
            latency_ns: self.time(at, "latency_ms", spec.latency_ms),
        }
    }

    /// Links of two kinds: known ones, each pair once, and not more different links than plans are made for.
    pub(super) fn pair_links(&mut self, given: &[PairLinkSpec], cluster: &Cluster) -> Vec<PairLink> {
        let names: Vec<String> = cluster.kinds.iter().map(|kind| kind.name.clone()).collect();
        let mut pairs: Vec<PairLink> = Vec::new();
        let mut different: Vec<Link> = Vec::new();
        for (i, spec) in given.iter().enumerate() {
            let at = format!("cluster.links[{i}]");
            let own = LinkSpec {
                bandwidth_bytes_per_s: spec.bandwidth_bytes_per_s,
                latency_ms: spec.latency_ms,
                nodes: None,
            };
            let link = self.link(&at, Some(&own));
            let unknown = spec.between.iter().filter(|name| cluster.kind(name).is_none());
            for name in unknown {
                let kind = FaultKind::UnknownName {
                    what: "device kind",
                    name: name.clone(),
                    similar: closest(name, &names).map(str::to_owned),
                };
                self.add(format!("{at}.between"), kind);
            }
            let [Some(one), Some(other)] = [0, 1].map(|end| cluster.kind(&spec.between[end])) else {
                continue;
            };
            let kinds = [one.min(other), one.max(other)];
            if pairs.iter().any(|pair| pair.kinds == kinds) {
                let kind = FaultKind::Contradiction {
                    found: format!("a second link between `{}`", spec.between.join("` and `")).into(),
                    expected: "every pair once".into(),
                };
                self.add(format!("{at}.between"), kind);
            }
            if !different.contains(&link) {
                different.push(link);
            }
            pairs.push(PairLink { kinds, link });
        }
        if different.len() > MOST_PAIR_LINKS {
            let kind = FaultKind::Conflict {
                found: format!("{} different links", different.len()).into(),
                expected: format!("at most {MOST_PAIR_LINKS} that differ in bandwidth or latency").into(),
                remedy: "give links that are nearly alike the same figures".into(),
            };
            self.add("cluster.links", kind);
        }
        pairs
    }
}
