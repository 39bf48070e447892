//! How many lanes a peer's flows are worth, and which flows take which lane.

use taut_base::Placement;

/// A flow is heavy if it has at least this part of the heaviest flow's datagrams: a quarter.
const HEAVY: u32 = 4;

/// Returns true if the busiest of these lanes carries at most four fifths of the flows' datagrams.
pub(super) fn is_spread(flows: &[(u16, u32)], placement: Placement) -> bool {
    placement.busiest(flows) * 5 <= Placement::FIRST.busiest(flows) * 4
}

/// Returns the lanes that are worth their threads for these flows, up to `most`, and the placement that spreads the flows best: each step to more lanes takes a
/// fifth of its load from the busiest lane. If several lanes run already, only these come into question.
///
/// Heavy flows count alike, and of equal placements the first is taken: both nodes see the same flows, and shall make the same choice, though what they counted
/// differs a little. Otherwise a flow's answers use another lane than the flow, and wake two threads at each end instead of one: a single stream has two
/// thirds of its speed then.
pub(super) fn best_placement(flows: &[(u16, u32)], most: u8, running: Placement) -> Option<Placement> {
    if running.lanes() > 1 {
        return Some(running).filter(|running| is_spread(flows, *running));
    }
    let heavy = heavy_flows(flows);
    let mut best = (Placement::FIRST, Placement::FIRST.busiest(&heavy));
    for lanes in 2..=most {
        let tops = Placement::candidates(lanes).map(|placement| (placement, placement.busiest(&heavy)));
        let Some((placement, top)) = tops.min_by_key(|(_, top)| *top) else { continue };
        if top * 5 <= best.1 * 4 {
            best = (placement, top);
        }
    }
    Some(best.0).filter(|placement| placement.lanes() > 1 && is_spread(flows, *placement))
}

/// Returns the placement on more lanes than those that run if it takes a fifth of its load from the busiest of them.
pub(super) fn larger_placement(flows: &[(u16, u32)], most: u8, running: Placement) -> Option<Placement> {
    let heavy = heavy_flows(flows);
    best_placement(flows, most, Placement::FIRST)
        .filter(|best| best.lanes() > running.lanes() && best.busiest(&heavy) * 5 <= running.busiest(&heavy) * 4)
}

/// Returns the flows with at least the [`HEAVY`]th part of the heaviest flow's datagrams, each with weight 1.
fn heavy_flows(flows: &[(u16, u32)]) -> Vec<(u16, u32)> {
    let heaviest = flows.iter().map(|(_, weight)| *weight).max().unwrap_or(0);
    flows.iter().filter(|(_, weight)| *weight >= heaviest.div_ceil(HEAVY)).map(|(flow, _)| (*flow, 1)).collect()
}
