//! Every kind of event: its area, level and name, its message, and the names of its fields.
//!
//! All kinds are in one table, so that a new event needs no code. docs/log.md has the same table for users, and a test compares the two. The values of an event
//! are in the order of its field names. Event and field names never change, because programs read them.

use super::level::{Area, Level};

/// A kind of event.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) area: Area,
    pub(crate) level: Level,
    /// The event's name, for programs.
    pub(crate) event: &'static str,
    /// The description of the event, for people.
    pub(crate) message: &'static str,
    /// The names of the event's values, in their order.
    pub(crate) fields: &'static [&'static str],
}

macro_rules! kinds {
    ($($constant:ident $area:ident $level:ident $event:literal $message:literal [$($field:literal)*])*) => {
        $(
        #[cfg_attr(not(feature = "portmap"), allow(dead_code, reason = "a build without port mappings never tells of them"))]
        pub(crate) static $constant: Kind = Kind {
            area: Area::$area,
            level: Level::$level,
            event: $event,
            message: $message,
            fields: &[$($field),*],
        };)*

        /// All kinds, in the order of the table in docs/log.md.
        #[cfg(test)]
        pub(crate) static ALL: &[&Kind] = &[$(&$constant),*];
    };
}

kinds! {
    DAEMON_STARTED Daemon Info "daemon-started" "the daemon started" ["version" "previous" "levels"]
    DAEMON_STOPPING Daemon Info "daemon-stopping" "the daemon stops" ["reason"]
    SANDBOX_ENTERED Daemon Info "sandbox-entered" "the daemon gave up rights that it does not need" ["parts" "missing"]
    SANDBOX_OFF Daemon Warn "sandbox-off" "the daemon keeps all rights" ["reason"]
    OUTSIDE_ENDED Daemon Warn "outside-ended" "the process beside the daemon ended" []
    USER_COMMAND Daemon Info "user-command" "a local user gave a command" ["command"]
    HOST_SLEPT Daemon Info "host-slept" "the host slept" ["slept_s"]
    CLOCK_JUMPED Daemon Warn "clock-jumped" "the wall clock was set" ["direction" "by_s"]
    STATE_NOT_SAVED Daemon Warn "state-not-saved" "a state file could not be saved" ["reason"]
    STATE_SAVED Daemon Info "state-saved" "the state files are saved again" []
    LOG_NOT_WRITTEN Daemon Warn "log-not-written" "events are kept in memory only" ["reason"]
    LOG_WRITTEN Daemon Info "log-written" "events are written to the disk again" ["missing"]
    LOG_REPLACED Daemon Warn "log-replaced" "another program removed the event log's file; a new one was begun" []
    LEVELS_CHANGED Daemon Info "levels-changed" "other events are recorded from now on" ["levels"]
    SETTING_CHANGED Daemon Info "setting-changed" "a setting has another value" ["setting" "value"]
    EVENTS_SUPPRESSED Daemon Info "events-suppressed" "further events of one kind were left out" ["of" "cause" "count" "peer"]
    EVENTS_NOT_ON_DISK Daemon Info "events-not-on-disk" "events of the last hour were kept in memory only" ["count" "sources"]

    COORDINATOR_CONNECTED Coordinator Info "coordinator-connected" "the coordinator is connected" ["url" "away_s"]
    COORDINATOR_LOST Coordinator Warn "coordinator-lost" "the connection to the coordinator was lost" ["url" "reason" "retry_s"]
    COORDINATOR_UNREACHABLE Coordinator Warn "coordinator-unreachable" "the coordinator is not reached" ["url" "reason" "retry_s"]
    COORDINATOR_RETRY Coordinator Debug "coordinator-retry" "the coordinator is still not reached" ["url" "reason" "retry_s"]
    COORDINATOR_REFUSED Coordinator Warn "coordinator-refused" "this node was refused" ["reason" "hint"]
    COORDINATOR_KEY_CHANGED Coordinator Warn "coordinator-key-changed" "the coordinator has another key" ["from" "to"]
    NODE_KEY_CHANGED Coordinator Info "node-key-changed" "this node has a new WireGuard key" []
    DUPLICATE_NODE Coordinator Warn "duplicate-node" "another host uses this node's keys" ["reason"]
    DUPLICATE_NODE_GONE Coordinator Info "duplicate-node-gone" "no other host uses this node's keys any more" []
    WAITING Coordinator Warn "waiting" "this node takes no part in the network" ["reason" "hint"]
    WAITING_ENDED Coordinator Info "waiting-ended" "this node takes part in the network" []
    EXPIRES_SOON Coordinator Warn "membership-expires-soon" "this node's membership expires soon" ["days"]
    KEY_ROTATED Coordinator Info "key-rotated" "this node has another WireGuard key" []
    PREFIXES_REFUSED Coordinator Warn "prefixes-refused" "the coordinator wants other overlay prefixes" ["in_force" "wanted"]
    PREFIXES_SETTLED Coordinator Info "prefixes-settled" "the overlay prefixes are agreed again" []
    TICKET_RENEWED Coordinator Debug "ticket-renewed" "the coordinator gave a relay ticket" ["expires"]
    LEAVE_BEGAN Coordinator Info "leave-began" "this node gives up its membership" []
    LEAVE_DONE Coordinator Info "leave-done" "this node is not a member any more" ["problem"]
    LEAVE_FAILED Coordinator Warn "leave-failed" "this node is a member as before" ["reason"]

    MAP_CHANGED Map Info "map-changed" "the network map has other members or relays" ["version" "peers" "added" "removed" "changed" "relays"]
    MAP_UPDATED Map Debug "map-updated" "the network map has other endpoints" ["version" "changed"]
    NAMES_CHANGED Map Info "names-changed" "the operator chose other names for the network" ["added" "removed"]
    FILTER_CHANGED Map Info "filter-changed" "this node accepts other packets of its peers" ["rules"]
    PEER_ADDED Map Info "peer-added" "the map has a new peer" ["peer"]
    PEER_REMOVED Map Info "peer-removed" "a peer is not in the map any more" ["peer"]
    PEER_RENAMED Map Info "peer-renamed" "a peer has another name" ["from" "peer"]
    PEER_KEY_CHANGED Map Info "peer-key-changed" "a peer has another WireGuard key" ["peer" "key"]
    PEER_READDRESSED Map Info "peer-readdressed" "a peer has other overlay addresses" ["peer" "addresses"]
    PEER_ONLINE Map Debug "peer-online" "a peer is connected to the coordinator" ["peer"]
    PEER_OFFLINE Map Debug "peer-offline" "a peer is not connected to the coordinator" ["peer"]

    PATH_CHANGED Path Info "path-changed" "the path to the peer changed" ["peer" "from" "to" "reason"]
    PATH_MOVED Path Debug "path-moved" "data to the peer takes another path" ["peer" "from" "to" "reason"]
    PATH_PROVEN Path Debug "path-proven" "a path to the peer was proven" ["peer" "path"]
    PATH_SUSPECTED Path Debug "path-suspected" "a path to the peer is in doubt" ["peer" "path" "reason"]
    PATH_CLEARED Path Debug "path-cleared" "a path that was in doubt works" ["peer" "path"]
    PATH_LOST Path Debug "path-lost" "a path does not lead to the peer any more" ["peer" "path" "reason"]
    PEER_IDLE Path Debug "peer-idle" "nothing is exchanged with the peer, and probing ends" ["peer" "idle_s"]
    SEARCH_OPENED Path Debug "search-opened" "a search for ports of the peer's NAT began" ["peer" "round" "ports" "sockets"]
    SEARCH_CLOSED Path Debug "search-closed" "a search for ports of the peer's NAT ended" ["peer" "target" "found"]
    SEARCH_REQUESTED Path Debug "search-requested" "the peer asked this node to guess ports" ["peer" "endpoint" "ports"]
    PACKET_LIMIT_CHANGED Path Info "packet-limit-changed" "the longest packet that the path carries changed" ["peer" "path" "longest"]
    PEER_NAT_CHANGED Path Debug "peer-nat-changed" "the peer reports another kind of NAT" ["peer" "from" "to"]

    HOME_RELAYS_CHANGED Relay Info "home-relays-changed" "this node's home relays changed" ["from" "to" "reason"]
    OUTER_ENDPOINTS_CHANGED Relay Info "outer-endpoints-changed" "relays see this node at other endpoints" ["from" "to"]
    NAT_CHANGED Relay Info "nat-changed" "the kind of NAT in front of this node changed" ["from" "to"]
    RELAY_BOUND Relay Info "relay-bound" "a relay serves this node" ["relay" "endpoint" "via"]
    RELAY_LOST Relay Info "relay-lost" "a relay does not serve this node any more" ["relay" "reason"]
    RELAY_SILENT Relay Debug "relay-silent" "a relay does not answer" ["relay"]
    RELAY_RELEASED Relay Debug "relay-released" "a relay that nobody needed was left" ["relay"]

    HANDSHAKE_STARTED Handshake Debug "handshake-started" "a handshake begins" ["peer"]
    HANDSHAKE_COMPLETED Handshake Debug "handshake-completed" "a handshake was answered" ["peer" "through" "took_ms"]
    HANDSHAKE_FAILED Handshake Info "handshake-failed" "a peer does not answer handshakes" ["peer" "reason" "tried_s"]
    HANDSHAKE_FAILED_AGAIN Handshake Debug "handshake-failed-again" "a peer still does not answer handshakes" ["peer" "reason" "tried_s"]
    PEER_ANSWERS Handshake Info "peer-answers" "a peer answers handshakes again" ["peer"]
    HANDSHAKE_REFUSED Handshake Debug "handshake-refused" "a peer's handshake was refused" ["peer" "through" "reason"]

    SESSION_BEGAN Session Debug "session-began" "a session is in use" ["peer" "role" "number"]
    SESSION_EXPIRED Session Debug "session-expired" "the last session with a peer has ended" ["peer"]
    LANES_WANTED Session Info "lanes-wanted" "flows of a peer keep a lane busy; its sessions get more lanes" ["peer" "lanes" "busy_percent"]
    LANES_RETURNED Session Info "lanes-returned" "the sessions of a peer get one lane again" ["peer" "reason"]
    SUITE_CHOSEN Session Debug "suite-chosen" "both ends agreed on a suite" ["peer" "suite"]

    NETWORK_UP Host Info "network-up" "the network is up on this host" ["network" "interface" "mtu" "port" "lanes" "addresses"]
    NETWORK_DOWN Host Info "network-down" "the network is down on this host" ["reason"]
    NETWORK_FAILED Host Error "network-failed" "the network cannot come up on this host" ["reason"]
    LANES_STARTED Host Info "lanes-started" "more lanes run, because one was busy" ["lanes"]
    LANES_ENDED Host Info "lanes-ended" "one lane runs again, because no peer uses more" []
    LANES_REFUSED Host Warn "lanes-refused" "a lane is busy, and more could not be started" ["reason"]
    TUN_LOST Host Warn "tun-lost" "the TUN device was taken away; a new one is made" ["interface"]
    USERSPACE_ENDED Host Warn "userspace-ended" "the program with the TCP/IP stack ended; it is started again" []
    ENDPOINTS_CHANGED Host Info "endpoints-changed" "this host has other addresses" ["from" "to"]
    ROUTES_ADDED Host Debug "routes-added" "routes to peers were added" ["count" "first"]
    ROUTES_REMOVED Host Debug "routes-removed" "routes to peers were removed" ["count" "first"]
    ROUTE_REFUSED Host Warn "route-refused" "the system refused a route, or to remove one" ["reason"]
    ROUTE_TAKEN Host Warn "route-taken" "another program has the route to a peer" ["address"]
    ROUTE_FREED Host Info "route-freed" "the other program's route to a peer is gone" ["address"]
    SUBNET_MOVED Host Info "subnet-moved" "another router carries packets to a subnet" ["subnet" "from" "to"]
    EXIT_MOVED Host Info "exit-moved" "another exit node carries packets to the internet, or none" ["from" "to"]
    RULES_RESTORED Host Warn "rules-restored" "another program removed rules for forwarded packets; they are back" ["interface"]
    FORWARDING_DROPPED Host Warn "forwarding-dropped" "a firewall of this host may drop what this node forwards" ["chains"]
    GUARD_FAILED Host Warn "guard-failed" "neighbours can send packets to this node's overlay addresses" ["reason"]
    EXIT_FAILED Host Error "exit-failed" "packets of this host may not take the exit node" ["reason"]
    EXIT_RESTORED Host Warn "exit-restored" "another program changed the way to the exit node; it was restored" ["interface" "missing"]
    KILL_SWITCH_ON Host Info "kill-switch-on" "the kill switch is in force" []
    KILL_SWITCH_OFF Host Info "kill-switch-off" "the kill switch is removed" []
    KILL_SWITCH_RESTORED Host Warn "kill-switch-restored" "another program removed the kill switch; it is back" []
    KILL_SWITCH_FAILED Host Error "kill-switch-failed" "the kill switch is not in force" ["reason"]
    KILL_SWITCH_PAUSED Host Warn "kill-switch-paused" "a user opened the kill switch for a while" ["for"]
    DEVICE_RESTORED Host Warn "device-restored" "another program changed the TUN device; it was restored" ["interface" "missing"]
    DEVICE_CONTESTED Host Error "device-contested" "another program keeps changing the TUN device" ["interface" "missing"]
    DEVICE_CALM Host Info "device-calm" "the TUN device is left alone again" ["interface"]
    MTU_CHANGED Host Info "mtu-changed" "the TUN device has another MTU: the largest that a path carries" ["interface" "from" "to"]
    MTU_TAKEN Host Warn "mtu-taken" "another program changed the MTU of the TUN device: it is left alone" ["interface" "from" "to"]
    MTU_REFUSED Host Warn "mtu-refused" "the system refused to change the MTU of the TUN device" ["interface" "reason"]
    RESOLVER_SET Host Info "resolver-set" "the host's resolver asks this node for the network's names" ["back_end"]
    RESOLVER_FAILED Host Warn "resolver-failed" "the host's resolver does not ask this node for the network's names" ["reason"]
    RESOLVER_RESTORED Host Info "resolver-restored" "the host's resolver is as it was" []
    IPV6_CHANGED Host Info "ipv6-changed" "IPv6 was switched on or off on the TUN device" ["interface" "ipv6"]

    PORT_MAPPED Portmap Info "port-mapped" "the router maps a port to this node" ["port" "outside" "protocol"]
    PORT_REMAPPED Portmap Info "port-remapped" "the router maps another port to this node" ["port" "outside" "protocol"]
    PORT_LOST Portmap Info "port-lost" "the router does not map a port any more" ["port" "reason"]
    ROUTER_ANSWERED Portmap Debug "router-answered" "the router answers otherwise than before" ["protocol" "answer"]
    PORT_REFUSED Portmap Info "port-refused" "no port is mapped" ["reason"]

    INPUT_REFUSED Input Debug "input-refused" "packets were refused" ["reason" "count" "within_s"]
    PACKET_FILTERED Input Info "packet-filtered" "the packet filter refused a packet of a peer" ["peer" "destination" "protocol" "port"]
    INPUT_FLOOD Input Info "input-flood" "many packets were refused" ["reason" "count" "within_s"]
}

/// Returns `kind` with another message, for a special case of the same event.
const fn variant(kind: &Kind, message: &'static str) -> Kind {
    Kind { area: kind.area, level: kind.level, event: kind.event, message, fields: kind.fields }
}

pub(crate) static MAP_FIRST: Kind = variant(&MAP_CHANGED, "the first network map of this run");
pub(crate) static NAT_KNOWN: Kind = variant(&NAT_CHANGED, "the kind of NAT in front of this node is known");
pub(crate) static NAT_FORGOTTEN: Kind =
    variant(&NAT_CHANGED, "the kind of NAT in front of this node is no longer known");
pub(crate) static ENDPOINTS_FIRST: Kind = variant(&ENDPOINTS_CHANGED, "this host's addresses are known");
pub(crate) static ENDPOINTS_NONE: Kind = variant(&ENDPOINTS_CHANGED, "this host has no address any more");
pub(crate) static COMMAND_CLEANUP: Kind = variant(&USER_COMMAND, "a command ended the daemon, which has no membership");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Fields that every line has.
    const HEAD: [&str; 6] = ["schema", "time", "level", "area", "event", "message"];

    #[test]
    fn each_event_has_a_unique_name_and_a_message() {
        let names: BTreeSet<&str> = ALL.iter().map(|kind| kind.event).collect();
        assert_eq!(names.len(), ALL.len());
        for kind in ALL {
            let plain = |text: &str, more: &str| {
                text.chars().all(|letter| letter.is_ascii_lowercase() || more.contains(letter))
            };
            assert!(plain(kind.event, "-6"), "{}", kind.event);
            assert!(kind.fields.iter().all(|field| plain(field, "_6") && !HEAD.contains(field)), "{}", kind.event);
            assert!(kind.message.len() <= 70 && !kind.message.ends_with('.'), "{}", kind.event);
        }
    }

    #[test]
    fn docs_log_md_has_every_event_with_its_level_and_fields() {
        let page = include_str!("../../../../docs/log.md");
        for kind in ALL {
            let fields: Vec<String> = kind.fields.iter().map(|field| format!("`{field}`")).collect();
            let fields = if fields.is_empty() { String::new() } else { fields.join(", ") + " " };
            let row = format!("| `{}` | {} | {fields}| ", kind.event, kind.level.name());
            assert!(page.contains(&row), "docs/log.md has no row `{row}`");
            let section = format!("\n### {}\n", kind.area.name());
            let place = page.split(&section).nth(1).and_then(|rest| rest.split("\n### ").next());
            assert!(place.is_some_and(|place| place.contains(&row)), "`{row}` is not below {section}");
        }
        let rows = page.split("## Events").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap_or_default();
        assert_eq!(rows.lines().filter(|line| line.starts_with("| `")).count(), ALL.len(), "a row without an event");
    }
}
