//! Entry points for fuzz targets.

use crate::monitor::{Changes, Watch, note_all};
use crate::request::read_datagram;
use crate::{address, link, nft, other_rule, route, rule, way};

/// Reads `datagram` as every answer and as news that the kernel could have sent, and says how many objects were in it at most. For fuzz
/// targets alone: no socket is involved. The first four bytes give the sequence number that is waited for.
pub fn fuzzing(datagram: &[u8]) -> usize {
    let Some((sequence, datagram)) = datagram.split_first_chunk() else { return 0 };
    let sequence = u32::from_ne_bytes(*sequence);
    let (mut links, mut addresses, mut routes, mut ways) = (0, 0, 0, 0);
    let _ = read_datagram(datagram, sequence, &mut true, &mut |message| {
        links += usize::from(link::read(message)?.is_some());
        let _ = link::dropped_before(message)?;
        Ok(())
    });
    let _ = read_datagram(datagram, sequence, &mut true, &mut |message| {
        addresses += usize::from(address::read(message)?.is_some());
        Ok(())
    });
    let _ = read_datagram(datagram, sequence, &mut true, &mut |message| {
        routes += usize::from(route::read(message)?.is_some());
        Ok(())
    });
    let _ = read_datagram(datagram, sequence, &mut true, &mut |message| {
        ways += usize::from(way::read(message)?.is_some());
        let _ = way::read_hop(message)?;
        Ok(())
    });
    let mut rules = 0;
    let _ = read_datagram(datagram, sequence, &mut true, &mut |message| {
        rules += usize::from(rule::read(message)?.is_some());
        let _ = other_rule::read(message)?;
        let _ = nft::dropping(message)?;
        Ok(())
    });
    let watch = Watch { interface: sequence, destinations: Vec::new() };
    note_all(&mut Changes::default(), datagram, Some(&watch));
    links.max(addresses).max(routes).max(ways).max(rules)
}
