use super::*;

/// `make paths-sim` runs a thousand seeds of each figure.
#[test]
fn every_figure_is_reached_for_some_seeds() {
    for figure in Figure::ALL {
        for seed in 0..6 {
            let measured = figure.measure(seed);
            assert!(
                measured.value.is_some_and(|value| value <= figure.limit()),
                "{figure:?} of seed {seed}: {measured:?}"
            );
            assert_eq!((measured.lost, measured.overtaken), (0, 0), "{figure:?} of seed {seed}");
        }
    }
}
