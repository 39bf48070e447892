//! The columns that rows are made of, by name: a column that a later release adds changes nothing for a program of this one beside it (fault L3).

macro_rules! network_columns {
    () => {
        "id, name, ipv4, ipv6, version, cursor, created_at, relays_version, groups_version, approval, key_life, names, names_version"
    };
}

macro_rules! node_columns {
    () => {
        "id, network, machine_key, node_key, name, ipv4, ipv6, endpoints, relays, program, version, created_at, last_seen_at, \
         keys_full_at, removed_at, joined_key, owner, tags, approved, disabled, expires_at, expired, key_life, ephemeral, absent, \
         part_version, advertised, routes"
    };
}

macro_rules! key_columns {
    () => {
        "id, network, reusable, expires_at, revoked_at, used, created_at, most_uses, ephemeral, tags, approves, owner"
    };
}

macro_rules! relay_columns {
    () => {
        "id, name, key, endpoints, stun_port, web, created_at, busy"
    };
}

macro_rules! operator_columns {
    () => {
        "id, hash, created_at, revoked_at"
    };
}

macro_rules! request_columns {
    () => {
        "id, code, network, machine_key, node_key, name, program, address, created_at, expires_at, denied"
    };
}
