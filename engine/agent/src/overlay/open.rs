//! The TUN queues and the UDP sockets of an overlay, and the features that the kernel granted for them.

use taut_base::{DEFAULT_PORT, Placement, SOCKET_MARK};
use taut_noise::Aegis;
use taut_tun::Tun;
use taut_udp::{BindError, UdpConfig, UdpSocket};
use taut_wire::control::{Suite, Suites};

use crate::api::{Failure, TunStatus, UdpStatus};
use crate::config::DaemonConfig;
use crate::lanes::{RECEIVE_BUFFER, SEND_BUFFER};

/// Returns those of the allowed suites that this processor seals fast and in constant time (protocol.md 1.10): AES needs AES instructions, and carry-less
/// multiplication for GCM; AEGIS-256X4 needs vector AES instructions. A program that was built without the feature `aes` has neither.
pub(super) fn suites(allowed: Suites) -> Suites {
    #[cfg(target_arch = "x86_64")]
    let gcm = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let gcm = std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let gcm = false;
    let fast = [(Suite::Aes256Gcm, gcm && cfg!(feature = "aes")), (Suite::Aegis256X4, Aegis::is_fast())];
    let usable = fast.into_iter().filter(|(suite, fast)| *fast && allowed.has(*suite));
    usable.fold(Suites::STOCK, |suites, (suite, _)| suites.with(suite))
}

/// Opens a TUN queue for each extra lane, and returns a handle of the device if the kernel steers. Where it does not, the queues are duplicated handles of the first
/// queue, which are only written to.
pub(super) fn open_queues(tun: &Tun, config: &DaemonConfig, lanes: u8) -> Result<(Option<Tun>, Vec<Tun>), Failure> {
    if lanes < 2 {
        return Ok((None, Vec::new()));
    }
    let by_kernel = config.tun_steering && tun.steer(Placement::FIRST).is_ok();
    let queues = (1..lanes).map(|_| {
        if by_kernel {
            tun.add_queue().map_err(|error| Failure::new(error, "start the daemon with fewer --lanes"))
        } else {
            tun.try_clone().map_err(|error| Failure::new(error, "raise the limit of open files: `ulimit -n`"))
        }
    });
    let queues = queues.collect::<Result<Vec<_>, _>>()?;
    let handle = by_kernel.then(|| tun.try_clone()).transpose();
    let handle = handle.map_err(|error| Failure::new(error, "raise the limit of open files: `ulimit -n`"))?;
    Ok((handle, queues))
}

/// Returns the number of sockets of a port search: at most a quarter of the limit of open files, because the control channel, the local API and others need
/// descriptors, too.
pub(super) fn search_sockets(wanted: u16, open_files: Option<u64>) -> u16 {
    let quarter = open_files.map_or(u64::MAX, |limit| limit / 4);
    wanted.min(u16::try_from(quarter).unwrap_or(u16::MAX))
}

/// Opens a socket for each extra lane, on the ports that follow the first lane's port or on any free port. Adds ports that other programs use to `taken`.
pub(super) fn bind_further(
    config: &DaemonConfig,
    lanes: u8,
    first: u16,
    taken: &mut Vec<u16>,
) -> Result<Vec<UdpSocket>, Failure> {
    let open = |lane: u8| {
        let near = first.checked_add(lane.into()).unwrap_or(0);
        open_free(config, near, taken).unwrap_or_else(|| open(config, 0))
    };
    let sockets = (1..lanes).map(open).collect::<Result<Vec<_>, _>>();
    sockets.map_err(|error| {
        Failure::new(error, "each lane needs a UDP port of its own; start the daemon with fewer --lanes")
    })
}

fn open(config: &DaemonConfig, port: u16) -> Result<UdpSocket, BindError> {
    let socket = UdpSocket::bind(&UdpConfig {
        port,
        ipv4_only: false,
        send_buffer: SEND_BUFFER,
        receive_buffer: RECEIVE_BUFFER,
        gso: config.udp_gso,
        gro: config.udp_gro,
    })?;
    // A process that may not mark its packets cannot use an exit node either, which changes routes.
    let _ = socket.set_mark(SOCKET_MARK);
    Ok(socket)
}

/// Opens a socket on this port. Returns `None` if that fails. Adds the port to `taken` if another program uses it.
fn open_free(config: &DaemonConfig, port: u16, taken: &mut Vec<u16>) -> Option<Result<UdpSocket, BindError>> {
    match open(config, port) {
        Err(BindError::PortTaken { port }) if !taken.contains(&port) => {
            taken.push(port);
            None
        }
        Err(_) => None,
        Ok(socket) => Some(Ok(socket)),
    }
}

/// Opens the first lane's socket: on the port that the user chose; otherwise on the port of the last run, the default port, or any free one. Also returns the ports
/// that other programs use.
pub(super) fn bind(config: &DaemonConfig, remembered: Option<u16>) -> Result<(UdpSocket, Vec<u16>), Failure> {
    let mut taken = Vec::new();
    if let Some(port) = config.port {
        let hint = "choose another --port, or omit it to let taut choose";
        let socket = open(config, port).map_err(|error| match error {
            BindError::PortTaken { port } => {
                Failure::new(format!("another program uses UDP port {port} (`ss -ulpn` names it)"), hint)
            }
            error => Failure::new(error, hint),
        });
        return socket.map(|socket| (socket, taken));
    }
    let usual = [remembered.unwrap_or(DEFAULT_PORT), DEFAULT_PORT];
    let socket = usual.iter().find_map(|port| open_free(config, *port, &mut taken)).unwrap_or_else(|| open(config, 0));
    let socket = socket.map_err(|error| Failure::new(error, "taut needs a UDP socket for its packets"))?;
    Ok((socket, taken))
}

pub(super) fn describe_tun(tun: &Tun, mtu: u16) -> TunStatus {
    let granted = tun.offload();
    let all = [
        (granted.vnet_header, "vnet-header"),
        (granted.checksum, "checksum"),
        (granted.tso, "tso"),
        (granted.uso, "uso"),
    ];
    TunStatus { name: String::from(tun.name()), mtu, mtu_by: None, ipv6: true, offload: names(&all) }
}

pub(super) fn describe_udp(udp: &UdpSocket) -> UdpStatus {
    let (features, buffers) = (udp.features(), udp.buffers());
    UdpStatus {
        offload: names(&[(features.gso, "gso"), (features.gro, "gro")]),
        send_buffer: buffers.send,
        receive_buffer: buffers.receive,
    }
}

fn names(all: &[(bool, &str)]) -> Vec<String> {
    all.iter().filter(|(granted, _)| *granted).map(|(_, name)| String::from(*name)).collect()
}
