//! What the first stages of a plan take of an iteration, whatever the others are.

/// The first stages of a pipeline that runs 1F1B, and as little as is known of the rest.
pub(super) struct Prefix<'a> {
    /// Forward and backward time of the first stages, in ns.
    pub stages: &'a [[u64; 2]],
    /// How many stages there are in all.
    pub all: usize,
    /// Time that a micro-batch spends in the others at least, in ns.
    pub rest_ns: u64,
    /// How many micro-batches there are.
    pub micro_batches: usize,
}

impl Prefix<'_> {
    /// A time in ns before which no iteration ends: that of the pipeline where the rest takes any number of micro-batches at once. Where
    /// there is no rest it is the time of the iteration.
    ///
    /// Round by round, as the page's `prefix` says: in round w each stage k, from 0, does its forward pass of micro-batch w - k, and then,
    /// from the last stage on, its backward pass of micro-batch w - (q - 1).
    pub(super) fn bound_ns(&self) -> u64 {
        let (count, depth) = (self.micro_batches, self.all - 1);
        let mut free = vec![0; self.stages.len()];
        let mut done = vec![0; count];
        for round in 0..count + depth {
            for (k, [forward_ns, _]) in self.stages.iter().enumerate() {
                let batch = round.checked_sub(k).filter(|&batch| batch < count);
                if let Some(batch) = batch {
                    free[k] = free[k].max(done[batch]) + forward_ns;
                    done[batch] = free[k];
                }
            }
            let Some(batch) = round.checked_sub(depth) else {
                continue;
            };
            done[batch] += self.rest_ns;
            for (k, [_, backward_ns]) in self.stages.iter().enumerate().rev() {
                free[k] = free[k].max(done[batch]) + backward_ns;
                done[batch] = free[k];
            }
        }
        done.into_iter().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Prefix;

    #[test]
    fn two_stages_by_hand() {
        // Stage 1: F 0-1, F 1-2, B 4-6, F 6-7, B 7-9, B 10-12. Stage 2: F 1-2, B 2-4, F 4-5, B 5-7, F 7-8, B 8-10.
        let stages = [[1, 2], [1, 2]];
        let prefix = |stages, rest_ns| Prefix {
            stages,
            all: 2,
            rest_ns,
            micro_batches: 3,
        };
        assert_eq!(prefix(&stages, 0).bound_ns(), 12);
        // Stage 1 alone: F 0-1, F 1-2, B 4-6, F 6-7, B 7-9, B 10-12.
        assert_eq!(prefix(&stages[..1], 3).bound_ns(), 12);
        assert_eq!(prefix(&[], 3).bound_ns(), 3);
    }
}
